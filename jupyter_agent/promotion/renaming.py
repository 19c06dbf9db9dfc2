"""Code whose bindings of some names did not last, as code that leaves those names alone."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from jupyter_agent.promotion.executed import Executed, parsed
from jupyter_agent.source.scope import stored_names

_WORD = re.compile(r"[^\W\d]\w*")
_BY_NAME = frozenset({"eval", "exec", "globals", "locals", "vars", "get_ipython"})


def aliased(
    ran: Executed,
    names: Iterable[str],
    others: dict[str, str],
    words: set[str],
    unbound: Collection[str] = (),
) -> list[Executed] | None:
    """The same code under other names, each bound to the person's object at first.

    Args:
        ran: Code that ran.
        names: Names that it bound, and that meant the person's objects again after it.
        others: The other names that earlier code of the same namespace has got; new ones are added.
        words: All words of the turn's code, which no new name may be; new names are added.
        unbound: Those of `names` that the person did not have.

    Returns:
        None if the names cannot be replaced exactly (magics, `eval`, `global`).
    """
    new = {name: free(f"new_{name}", words) for name in names}
    code = renaming(ran.code, others | new)
    if code is None:
        return None
    others |= new
    first = [name for name in new if name not in unbound]
    return [
        *(added(f"{new[name]} = {name}", ran) for name in first),
        replace(ran, code=code),
    ]


def restored(
    ran: Executed,
    names: Iterable[str],
    words: set[str],
    given: Mapping[str, str] | None = None,
    left: Mapping[str, str] | None = None,
) -> list[Executed]:
    """The same code among lines that keep names, and bind them again to the person's objects.

    Args:
        ran: As for `aliased`.
        names: As for `aliased`.
        words: As for `aliased`.
        given: For names that have another value in this code alone, the names that hold it.
        left: Where the values go that names have after the code, if they are needed later.
    """
    kept = {name: free(f"{name}_before", words) for name in names}
    return [
        *(added(f"{place} = {name}", ran, name) for name, place in kept.items()),
        *(added(f"{name} = {place}", ran) for name, place in (given or {}).items()),
        ran,
        *(added(f"{place} = {name}", ran) for name, place in (left or {}).items()),
        *(added(f"{name} = {place}", ran, name) for name, place in kept.items()),
    ]


def added(code: str, beside: Executed, restores: str = "") -> Executed:
    """Code of the package's beside a piece of the model's."""
    step, by, words = beside.step, beside.by, beside.words
    return Executed(code, step, words=words, is_added=True, restores=restores, by=by)


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
        case ast.ClassDef(name=name):
            return name in others or not others.keys().isdisjoint(stored_names(node))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name in others
        case ast.arg(arg=name):
            return name in others
        case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound) | ast.MatchStar(name=bound):
            return bound in others
        case ast.MatchMapping(rest=bound):
            return bound in others
    return False


def words_of(code: str) -> set[str]:
    """All words of a text that may be names."""
    return set(_WORD.findall(code))


def free(name: str, words: set[str]) -> str:
    """A name like this one that is none of the words; it becomes one of them."""
    while name in words:
        name += "_"
    words.add(name)
    return name
