"""Repairs of failed code that need no model: a name that differs in blanks, a missing import.

Small models read `avg. wait time` and write `avg.wait time`, and write it again when they are
told. What they meant is sure, so it is put in its place. Pure functions on texts, for
`brief_protocol`; the right names stand in the error's hint.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping

from jupyter_agent.core.error_hints import (
    HINT,
    NOT_IMPORTED,
    folded,
    nearest_in,
    quoted_names,
    usual_import,
)
from jupyter_agent.llm.value_blocks import literal

_KEY = re.compile(r"(?m)^KeyError: (.+)$")
_NAME = re.compile(r"(?m)^NameError: name '(\w+)' is not defined")


def repaired(code: str, error: str) -> str:
    """The code with the name that was meant; empty if that is not sure.

    It is sure if the nearest name has the same letters and digits in the same order, in whatever
    case; or if the hint names the import.

    Args:
        code: The code that failed.
        error: Its error, with the hint.
    """
    key, name = _last(_KEY, error), _last(_NAME, error)
    # The text of an error may be data: it chooses no module.
    line = usual_import(name)
    if line and HINT.format(NOT_IMPORTED.format(line)) in error:
        return f"{line}\n{code}"
    listed = nearest_in(error)
    if not key:
        meant = _among(listed, name)
        return _replaced(code, tokenize.NAME, {name: meant}) if meant.isidentifier() else ""
    found = {wanted: _among(listed, wanted) for wanted in _keys(key)}
    return _replaced(code, tokenize.STRING, {old: repr(new) for old, new in found.items() if new})


def _keys(error: str) -> list[str]:
    """The keys that a KeyError names: its own, a list of them, or those that its text quotes."""
    value = literal(error)
    if isinstance(value, list | tuple):
        return [each for each in value if isinstance(each, str)]
    if not isinstance(value, str):
        return []
    return [value, *quoted_names(value)]


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    return str(found[-1]).strip() if found else ""


def _among(listed: str, wanted: str) -> str:
    """The name in a list of names that has the letters and digits of the wanted one.

    Empty if there is none, or if it is the wanted one itself. A name may have a comma of its own.
    """
    commas = list(re.finditer(", ", listed))
    starts = [0, *(each.end() for each in commas)]
    ends = [*(each.start() for each in commas), len(listed)]
    for first, start in enumerate(starts):
        for end in ends[first:]:
            if folded(listed[start:end]) == folded(wanted) != "":
                return listed[start:end] if listed[start:end] != wanted else ""
    return ""


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
            text = literal(token.string) if kind == tokenize.STRING else token.string
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
