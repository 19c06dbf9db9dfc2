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
from collections.abc import Callable

_KEY = re.compile(r"(?m)^KeyError: (.+)$")
_NAME = re.compile(r"(?m)^NameError: name '(\w+)' is not defined")
_NEAREST = re.compile(r"\(hint: Nearest (?:columns|keys|variables): (.*)\.\)", re.DOTALL)
_NOT_IMPORTED = re.compile(r"\(hint: It is not imported: (import [\w.]+ as \w+)\.\)")


def repaired(code: str, error: str) -> str:
    """The code with the name that was meant; empty if that is not sure.

    It is sure if the nearest name has the same letters and digits in the same order, in whatever
    case; or if the hint names the import.

    Args:
        code: The code that failed.
        error: Its error, with the hint.
    """
    if missing := _NOT_IMPORTED.search(error):
        return f"{missing[1]}\n{code}"
    key, name = _last(_KEY, error), _last(_NAME, error)
    wanted = _text(key) if key else name
    meant = _nearest(wanted, error) if wanted else ""
    if not meant:
        return ""
    if key:
        return _replaced(code, tokenize.STRING, lambda each: _text(each) == wanted, repr(meant))
    return _replaced(code, tokenize.NAME, lambda each: each == wanted, meant)


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    return str(found[-1]).strip() if found else ""


def _text(literal: str) -> str:
    """The text that a literal stands for; empty for anything else."""
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return ""
    return value if isinstance(value, str) else ""


def _nearest(wanted: str, error: str) -> str:
    """The first of the nearest names, if its letters and digits are those of the wanted one."""
    hint = _NEAREST.search(error)
    if hint is None:
        return ""
    listed = hint[1]
    ends = [each.start() for each in re.finditer(", ", listed)]
    for end in (*ends, len(listed)):  # a name may have a comma of its own
        if _folded(listed[:end]) == _folded(wanted) != "":
            return listed[:end] if listed[:end] != wanted else ""
    return ""


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _replaced(code: str, kind: int, is_meant: Callable[[str], bool], new: str) -> str:
    """The code with other tokens in place of those meant, but for attributes; empty if none is."""
    lines = code.splitlines(keepends=True)
    found = []
    try:
        before = ""
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == kind and before != "." and is_meant(token.string):
                found.append(token)
            before = token.string
    except (tokenize.TokenError, SyntaxError):
        return ""
    for token in reversed(found):
        (row, begin), (last, end) = token.start, token.end
        if row == last:
            line = lines[row - 1]
            lines[row - 1] = f"{line[:begin]}{new}{line[end:]}"
    return "".join(lines) if found else ""
