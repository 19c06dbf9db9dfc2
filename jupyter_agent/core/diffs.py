"""The difference that a write makes to one file, in the form in which views show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jupyter_agent.core.messages import Output

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The difference of one file.

    Attributes:
        title: The file.
        added: The number of lines that are added.
        removed: The number of lines that are removed.
        lines: What changes. The first character of each is its kind: `+` and `-` for lines that
            are added and removed, a blank for unchanged ones, `@` for a remark in their place.
    """

    title: str
    added: int
    removed: int
    lines: tuple[str, ...]

    @property
    def counts(self) -> str:
        """`+9 −3`; empty if no lines are compared."""
        parts = [f"+{self.added:,}"] if self.added else []
        return " ".join([*parts, *([f"−{self.removed:,}"] if self.removed else [])])


def diff_output(text: str, added: int, removed: int) -> Output:
    """A unified diff of one file as an output.

    Args:
        text: The diff, with the two lines that name the file. A remark stands in brackets.
        added: The number of lines that are added, also where the diff leaves some out.
        removed: The number of lines that are removed.
    """
    return Output("diff", {"text/plain": text}, {"added": added, "removed": removed})


def file_diff(text: str, output: Output | None = None) -> FileDiff:
    """The difference that a unified diff tells.

    Args:
        text: The diff as it is to be shown, without secrets.
        output: The output that it comes from, which may know counts.
    """
    lines = text.split("\n")
    title = ""
    if len(lines) > 1 and lines[0].startswith("--- ") and lines[1].startswith("+++ "):
        named = [line[4:].strip() for line in lines[:2]]
        title = next((name for name in reversed(named) if name != "/dev/null"), "")
        title, lines = re.sub(r"^[ab]/", "", title), lines[2:]
    shown = tuple(_lines(lines))
    known = output.metadata if output is not None else {}
    counts = [
        known[key] if type(known.get(key)) is int else sum(line[:1] == sign for line in shown)
        for key, sign in (("added", "+"), ("removed", "-"))
    ]
    return FileDiff(title, counts[0], counts[1], shown)


def brief(diffs: Sequence[FileDiff]) -> str:
    """The sizes of some differences in a few words: `+9 −3`, or of several files with names."""
    if len(diffs) == 1:
        return diffs[0].counts
    return ", ".join(f"{diff.title} {diff.counts}".strip() for diff in diffs)


def _lines(lines: Sequence[str]) -> Iterator[str]:
    reached = 1
    for line in lines:
        if found := _HUNK.match(line):
            count = int(found[2] or 1)
            start = int(found[1]) + (count == 0)
            if start > reached:
                yield f"@{_unchanged(start - reached)}"
            reached = start + count
        elif line[:1] in ("+", "-", " "):
            yield line
        elif line:
            remark = line.removeprefix("\\ ")
            yield f"@{remark.removeprefix('[').removesuffix(']')}"


def _unchanged(count: int) -> str:
    return f"{count:,} unchanged line{'' if count == 1 else 's'}"
