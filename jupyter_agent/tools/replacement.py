"""A piece of text and what takes its place, and what to say where it is not found."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator

from jupyter_agent.errors import ToolError


class Replacement:
    """A piece of text and what takes its place, whatever the line endings of the text around.

    Raises:
        ToolError: There is nothing to look for, or nothing to change.
    """

    def __init__(self, old: str, new: str) -> None:
        self.old = old.replace("\r\n", "\n")
        self.new = new.replace("\r\n", "\n")
        if not self.old:
            raise ToolError("old_str is empty. Give the text to replace, or use write_file.")
        if self.old == self.new:
            raise ToolError("old_str and new_str are the same: there is nothing to change.")
        escaped = re.escape(self.old).replace("\\\r", r"\r(?!\n)")
        self._pattern = re.compile(escaped.replace("\\\n", r"(?:\r\n|(?<!\r)\n)"))

    def positions(self, text: str) -> Iterator[int]:
        """Where the old text begins; occurrences may overlap."""
        found = self._pattern.search(text)
        while found:
            yield found.start()
            found = self._pattern.search(text, found.start() + 1)

    def apply(self, text: str) -> str:
        """The text with each occurrence replaced, with line endings as around it."""
        if "\n" not in self.new or "\r\n" not in text:
            return self._pattern.sub(lambda _: self.new, text)
        ends = [found.start() for found in re.finditer("\n", text)]
        windows = self.new.replace("\n", "\r\n")

        def fitting(found: re.Match[str]) -> str:
            end = ends[min(bisect_left(ends, found.start()), len(ends) - 1)]
            return windows if text[end - 1 : end] == "\r" else self.new

        return self._pattern.sub(fitting, text)


def hint(old: str, parts: list[str]) -> str:
    """What may help to find a text that does not occur: its nearest line."""
    if re.match(r"\s*\d+\|", old):
        return "Leave out the line numbers and the bar that read_file puts before each line."
    wanted = next((line for line in old.split("\n") if line.strip()), old)
    lines = [line for part in parts for line in part.replace("\r\n", "\n").split("\n")][:20_000]
    squeezed = "".join(old.split())
    if squeezed and any(squeezed in "".join(part.split()) for part in parts):
        return f"It does with other spaces or line breaks{_where(wanted, lines)}. Read it again."
    near = difflib.get_close_matches(wanted[:200], [line[:200] for line in lines[:2_000]], 1)
    return f"The nearest line is: {near[0]!r}" if near else "Read the file again."


def _where(wanted: str, lines: list[str]) -> str:
    squeezed = "".join(wanted.split())
    found = next((line for line in lines if squeezed in "".join(line.split())), None)
    return f", near {found[:200]!r}" if found is not None else ""
