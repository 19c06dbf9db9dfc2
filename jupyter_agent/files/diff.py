"""The difference that a write makes: a diff for the user, line counts for the receipt."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_CONTEXT = 3
_LONGEST_COMPARISON = 4_000_000
RESULT_LINES = 400
"""Lines of a diff that a result keeps."""
DECISION_LINES = 4_000
"""Lines of a diff by which a person decides."""
_LINE_CHARACTERS = 500
_RANGES = re.compile(r"-(\d+)(,\d+)? \+(\d+)(,\d+)?")


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff, shortened if it is long, and the lines that it adds and removes."""

    text: str
    added: int
    removed: int


def compare(old: str | None, new: str, path: str, most: int = RESULT_LINES) -> Diff:
    """The diff from `old` (None: there was no file) to `new`; of its lines `most` are shown."""
    before, after = _lines(old or ""), _lines(new)
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    removed, added = len(before) - start - end, len(after) - start - end
    heading = [f"--- a/{path}" if old is not None else "--- /dev/null", f"+++ b/{path}"]
    # difflib takes quadratic time on repeated lines; a diff of that size says little anyway.
    if removed * added > _LONGEST_COMPARISON:
        note = f"[{removed} lines replaced by {added}: too many to compare]"
        return Diff("\n".join([*heading, note]), added, removed)
    first = max(start - _CONTEXT, 0)
    last = max(end - _CONTEXT, 0)
    body = list(
        difflib.unified_diff(
            before[first : len(before) - last], after[first : len(after) - last], n=_CONTEXT
        )
    )[2:]
    lines = [_shifted(line, first) if line.startswith("@@") else _shown(line) for line in body]
    return Diff(
        "\n".join([*heading, *lines[:most], *_left_out(len(lines) - most)]),
        sum(line.startswith("+") for line in body),
        sum(line.startswith("-") for line in body),
    )


def line_count(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text.replace("\r\n", "\n"))


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shifted(line: str, by: int) -> str:
    """A hunk's heading with the line numbers of the whole file."""
    return _RANGES.sub(
        lambda m: f"-{int(m[1]) + by}{m[2] or ''} +{int(m[3]) + by}{m[4] or ''}", line.rstrip()
    )


def _shown(line: str) -> str:
    ending = "" if line.endswith("\n") else "\n\\ No newline at end of file"
    line = line.removesuffix("\n")
    return (line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + "…") + ending


def _left_out(count: int) -> list[str]:
    return [f"[{count} more lines of the diff left out]"] if count > 0 else []
