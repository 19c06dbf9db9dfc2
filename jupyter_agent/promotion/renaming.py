"""Code whose bindings of some names did not last, as code that leaves those names alone."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jupyter_agent.promotion.executed import Executed, parsed

_WORD = re.compile(r"[^\W\d]\w*")
_BY_NAME = frozenset({"eval", "exec", "globals", "locals", "vars", "get_ipython"})


def aliased(
    runs: Sequence[Executed], names: Iterable[str], others: dict[str, str]
) -> list[Executed] | None:
    """The same code under other names, each bound to the person's object at first.

    Args:
        runs: Code that ran one after the other.
        names: The names that it bound, and that meant the person's objects again after it.
        others: The other names that earlier code of the same namespace has got; new ones are added.

    Returns:
        None if the names cannot be replaced exactly (magics, `eval`, `global`).
    """
    names = [name for name in names if name not in others]
    words = {word for ran in runs for word in _WORD.findall(ran.code)} | {*others.values()}
    new = {name: _free(f"new_{name}", words) for name in names}
    codes = [renaming(ran.code, others | new) for ran in runs]
    done = [
        replace(ran, code=code) for ran, code in zip(runs, codes, strict=True) if code is not None
    ]
    if len(done) < len(runs):
        return None
    others |= new
    first = runs[0]
    return [
        *(Executed(f"{new[name]} = {name}", first.step, words=first.words) for name in names),
        *done,
    ]


def restored(runs: Sequence[Executed], names: Iterable[str]) -> list[Executed]:
    """The same code among lines that keep names, and bind them again to the person's objects.

    Args:
        runs: As for `aliased`.
        names: As for `aliased`.
    """
    words = {word for ran in runs for word in _WORD.findall(ran.code)}
    kept = {name: _free(f"{name}_before", words) for name in names}
    first, last = runs[0], runs[-1]
    return [
        *(
            Executed(f"{place} = {name}", first.step, words=first.words, restores=name)
            for name, place in kept.items()
        ),
        *runs,
        *(
            Executed(f"{name} = {place}", last.step, words=last.words, restores=name)
            for name, place in kept.items()
        ),
    ]


def renaming(code: str, others: Mapping[str, str]) -> str | None:
    """Code with some names replaced; None where that might not be exact.

    Args:
        code: The text of a cell.
        others: The new name for each.
    """
    if not others or others.keys().isdisjoint(_WORD.findall(code)):
        return code
    found = parsed(code)
    if found is None or found[0].rstrip("\n") != code.rstrip("\n"):
        return None  # magics
    places: list[ast.Name] = []
    for tree in found[1]:
        for node in ast.walk(tree):
            if _is_doubtful(node, others):
                return None
            if isinstance(node, ast.Name) and node.id in others:
                places.append(node)
    lines = [line.encode() for line in code.split("\n")]
    for node in sorted(places, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        line, start = lines[node.lineno - 1], node.col_offset
        end = start + len(node.id.encode())
        if line[start:end] != node.id.encode():
            return None
        lines[node.lineno - 1] = line[:start] + others[node.id].encode() + line[end:]
    return b"\n".join(lines).decode()


def _is_doubtful(node: ast.AST, others: Mapping[str, str]) -> bool:
    """True for a node that may mean one of the names in another way than as a plain name."""
    match node:
        case ast.Name(id=name):
            return name in _BY_NAME
        case ast.Constant(value=str(text)):
            return any(f"@{name}" in text for name in others)
        case ast.JoinedStr():
            # Before Python 3.12 the places of names in an f-string are not known.
            inside = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            return sys.version_info < (3, 12) and not inside.isdisjoint(others)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return not others.keys().isdisjoint(names)
        case ast.alias(name=name, asname=other):
            return name == "*" or (other or name.partition(".")[0]) in others
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name in others
        case ast.arg(arg=name):
            return name in others
        case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound) | ast.MatchStar(name=bound):
            return bound in others
        case ast.MatchMapping(rest=bound):
            return bound in others
    return False


def _free(name: str, words: set[str]) -> str:
    while name in words:
        name += "_"
    return name
