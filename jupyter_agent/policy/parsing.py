"""The syntax trees that the policy judges, within bounds: of a cell, and of texts that it runs."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from jupyter_agent.source.cell import parse_python, to_python

LONGEST = 300_000
"""Characters of a cell that is judged; a longer one asks."""
_MOST_NODES = 40_000
"""Nodes of a tree that is judged: some thousand lines, a second of work."""
_SMALL = 20_000
_MOST_MAGICS = 300
_MAGIC_LINE = re.compile(r"^[ \t]*(?:[%!?,;/]|[\w., \t]*=[ \t]*[%!])|\?[ \t]*$", re.MULTILINE)
_PROMPT = re.compile(r"^[ \t]*(?:In \[|>>>|\.\.\.)", re.MULTILINE)
_FIRST_WORD = re.compile(r"[ \t]*([^\W\d]\w*)(?![\w.])[ \t]*(.?)(.?)")


class CannotJudge(Exception):
    """The cell cannot be judged within bounds, though it may run."""


def cell_tree(
    text: str,
    bound: Any = frozenset(),
    is_magic: Callable[[str], bool] = lambda word: False,
    above: int = 0,
) -> ast.Module | None:
    """The tree of a cell, with magics as the calls that IPython makes of them.

    Args:
        bound: Tells by `in` which names are bound in the kernel: such a name is no magic.
        is_magic: Whether a word is a magic command, where a cell is one line without `%`.
        above: The lines above the text, by which the tree counts its own.

    Returns:
        None where the text cannot run either.

    Raises:
        CannotJudge: The cell is too long or too deeply nested.
    """
    if len(text) > LONGEST:
        raise CannotJudge("a cell that is too long to be judged")
    try:
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) > _SMALL and not _PROMPT.search(text):
            tree = _parsed("\n" * above + text)
            if tree is not None:
                return tree
        source = _transformed(text)
        word = _automagic(source, bound, is_magic)
        if word is not None:
            source = f"get_ipython().run_line_magic({word[0]!r}, {word[1]!r})"
        else:  # IPython drops the empty lines at the beginning
            above += len(text) - len(text.lstrip("\n"))
        return _parsed("\n" * above + source)
    except (RecursionError, MemoryError):
        raise CannotJudge("code that is nested too deeply to be judged") from None


def code_tree(text: str, above: int = 0) -> ast.Module | None:
    """The tree of plain Python, such as `exec` takes. None where it cannot run.

    Args:
        above: The lines above the text, by which the tree counts its own.
    """
    if len(text) > LONGEST:
        raise CannotJudge("a text that is too long to be judged")
    try:
        plain = text.encode("utf-8", "replace").decode("utf-8").lstrip(" \t")
        return _parsed("\n" * above + plain)
    except (RecursionError, MemoryError):
        raise CannotJudge("code that is nested too deeply to be judged") from None


def _parsed(source: str) -> ast.Module | None:
    tree = parse_python(source)
    # A tree has at most two or three nodes for each character of its source.
    if tree and len(source) > _MOST_NODES // 8 and any(islice(ast.walk(tree), _MOST_NODES, None)):
        raise CannotJudge("a cell that is too long to be judged")
    return tree


def _transformed(text: str) -> str:
    # IPython begins anew after each magic that it found, so that many of them take minutes.
    found = sum(1 for _ in _MAGIC_LINE.finditer(text))
    if not text.lstrip().startswith("%%") and found * len(text) > _MOST_MAGICS * _SMALL:
        raise CannotJudge("more magic commands than can be judged")
    try:
        return to_python(text)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        raise CannotJudge("a cell that IPython cannot transform") from None


def _automagic(source: str, bound: Any, is_magic: Callable[[str], bool]) -> tuple[str, str] | None:
    """The magic and its line, where IPython takes the only line of a cell for one without `%`."""
    if len(source.splitlines()) != 1:
        return None
    match = _FIRST_WORD.match(source)
    if match is None or (match[2] == "=" and match[3] not in "=!"):
        return None
    word, line = match[1], source.strip()[len(match[1]) :].strip()
    if word in bound or keyword.iskeyword(word) or hasattr(builtins, word):
        return None
    if word in ("get_ipython", "exit", "quit", "In", "Out", "display"):
        return None
    if is_magic(word) or (_parsed(source) is None and line[:1].isalnum()):
        return word, line
    return None
