"""Repairs of failed code that need no model: a name that differs in blanks, a missing import.

Small models read `avg. wait time` and write `avg.wait time`, and write it again when they are
told. What they meant is sure, so it is put in its place. Pure functions on texts, for
`brief_protocol`; the right names stand in the error's hint.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping

_KEY = re.compile(r"(?m)^KeyError: (.+)$")
_NAME = re.compile(r"(?m)^NameError: name '(\w+)' is not defined")
_NEAREST = re.compile(r"\(hint: Nearest (?:columns|keys|variables): (.*)\.\)", re.DOTALL)
_QUOTED = re.compile(r"'([^'\n]{1,200})'")
_NOT_IMPORTED = re.compile(
    r"\(hint: It is not imported: "
    r"(import (?:numpy|pandas|matplotlib\.pyplot|seaborn|polars|plotly\.express) as (\w+))\.\)"
)
"""The hint of a missing import. The text of an error may be data, so it names no other module."""


def repaired(code: str, error: str) -> str:
    """The code with the name that was meant; empty if that is not sure.

    It is sure if the nearest name has the same letters and digits in the same order, in whatever
    case; or if the hint names the import.

    Args:
        code: The code that failed.
        error: Its error, with the hint.
    """
    key, name = _last(_KEY, error), _last(_NAME, error)
    missing = _NOT_IMPORTED.search(error)
    if missing and missing[2] == name:
        return f"{missing[1]}\n{code}"
    hint = _NEAREST.search(error)
    listed = hint[1] if hint else ""
    if not key:
        meant = _among(listed, name)
        return _replaced(code, tokenize.NAME, {name: meant}) if meant.isidentifier() else ""
    found = {wanted: _among(listed, wanted) for wanted in _keys(key)}
    return _replaced(code, tokenize.STRING, {old: repr(new) for old, new in found.items() if new})


def _keys(error: str) -> list[str]:
    """The keys that a KeyError names: its own, a list of them, or those that its text quotes."""
    value = _value(error)
    if isinstance(value, list | tuple):
        return [each for each in value if isinstance(each, str)]
    if not isinstance(value, str):
        return []
    return [value, *_QUOTED.findall(value)]


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    return str(found[-1]).strip() if found else ""


def _value(literal: str) -> object:
    try:
        return ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return None


def _among(listed: str, wanted: str) -> str:
    """The name in a list of names that has the letters and digits of the wanted one.

    Empty if there is none, or if it is the wanted one itself. A name may have a comma of its own.
    """
    commas = list(re.finditer(", ", listed))
    starts = [0, *(each.end() for each in commas)]
    ends = [*(each.start() for each in commas), len(listed)]
    for first, start in enumerate(starts):
        for end in ends[first:]:
            if _folded(listed[start:end]) == _folded(wanted) != "":
                return listed[start:end] if listed[start:end] != wanted else ""
    return ""


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _replaced(code: str, kind: int, new: Mapping[str, str]) -> str:
    """The code with other tokens in place of some, but for attributes; empty if it has none.

    Args:
        code: The code.
        kind: `tokenize.NAME`, or `tokenize.STRING` for the texts of literals.
        new: What to write, by the name or the text.
    """
    lines = code.splitlines(keepends=True)
    found = []
    try:
        before = ""
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            text = _value(token.string) if kind == tokenize.STRING else token.string
            if token.type == kind and before != "." and isinstance(text, str) and text in new:
                found.append((token, new[text]))
            before = token.string
    except (tokenize.TokenError, SyntaxError):
        return ""
    for token, text in reversed(found):
        (row, begin), (last, end) = token.start, token.end
        if row == last:
            line = lines[row - 1]
            lines[row - 1] = f"{line[:begin]}{text}{line[end:]}"
    return "".join(lines) if found else ""
