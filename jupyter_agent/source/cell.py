"""From the text of a notebook cell to its syntax tree, as IPython would read it."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import warnings
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

LONGEST = 300_000
"""Characters of a cell that is judged; a longer one asks."""
_MOST_NODES = 40_000
"""Nodes of a tree that is judged: some thousand lines, a second of work."""
_SMALL = 20_000
_MOST_MAGICS = 300
_MAGIC_LINE = re.compile(r"^[ \t]*(?:[%!?,;/]|[\w., \t]*=[ \t]*[%!])|\?[ \t]*$", re.MULTILINE)
_PROMPT = re.compile(r"^[ \t]*(?:In \[|>>>|\.\.\.)", re.MULTILINE)
_SPECIAL = re.compile(r"[%!?]|>>>|\.\.\.|In \[|^[ \t]*[,;/]|^[ \t]+$", re.MULTILINE)
_OTHER_LINE_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What `str.splitlines` takes for the end of a line besides a newline."""
_FIRST_WORD = re.compile(r"[ \t]*([^\W\d]\w*)(?![\w.])[ \t]*(.?)(.?)")


class CannotJudge(Exception):
    """The cell cannot be judged within bounds, though it may run."""


def is_plain(text: str) -> bool:
    """Whether IPython takes a cell for Python as it stands: nothing in it could be its own syntax.

    Of a single line nobody can tell without the kernel: its first word may be a magic.
    """
    lines = text.count("\n") - text.endswith("\n")
    if lines == 0 or text[0].isspace() or _OTHER_LINE_ENDS.search(text):
        return False
    return _SPECIAL.search(text) is None


def parse_cell(
    text: str, bound: Any = frozenset(), is_magic: Callable[[str], bool] = lambda word: False
) -> ast.Module | None:
    """The tree of a cell, with magics as the calls that IPython makes of them.

    Args:
        bound: Tells by `in` which names are bound in the kernel: such a name is no magic.
        is_magic: Whether a word is a magic command, where a cell is one line without `%`.

    Returns:
        None where the text cannot run either.

    Raises:
        CannotJudge: The cell is too long or too deeply nested.
    """
    if len(text) > LONGEST:
        raise CannotJudge("a cell that is too long to be judged")
    try:
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) > _SMALL and not _PROMPT.search(text) and (tree := _parsed(text)):
            return tree
        source = _transformed(text)
        word = _automagic(source, bound, is_magic)
        if word is not None:
            return _parsed(f"get_ipython().run_line_magic({word[0]!r}, {word[1]!r})")
        tree = _parsed(source)
    except (RecursionError, MemoryError):
        raise CannotJudge("code that is nested too deeply to be judged") from None
    skipped = len(text) - len(text.lstrip("\n"))
    return ast.increment_lineno(tree, skipped) if tree and skipped else tree


def parse_python(text: str) -> ast.Module | None:
    """The tree of plain Python, such as `exec` takes. None where it cannot run."""
    if len(text) > LONGEST:
        raise CannotJudge("a text that is too long to be judged")
    try:
        return _parsed(text.encode("utf-8", "replace").decode("utf-8").lstrip(" \t"))
    except (RecursionError, MemoryError):
        raise CannotJudge("code that is nested too deeply to be judged") from None


def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    # A tree has at most two or three nodes for each character of its source.
    if len(source) > _MOST_NODES // 8 and any(islice(ast.walk(tree), _MOST_NODES, None)):
        raise CannotJudge("a cell that is too long to be judged")
    return tree


def _transformed(text: str) -> str:
    if is_plain(text):
        return text
    # IPython begins anew after each magic that it found, so that many of them take minutes.
    found = sum(1 for _ in _MAGIC_LINE.finditer(text))
    if not text.lstrip().startswith("%%") and found * len(text) > _MOST_MAGICS * _SMALL:
        raise CannotJudge("more magic commands than can be judged")
    try:
        return str(_transformer().transform_cell(text))
    except SyntaxError:
        return text
    except (RecursionError, MemoryError):
        raise
    except Exception:
        raise CannotJudge("a cell that IPython cannot transform") from None


@cache
def _transformer() -> Any:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


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
