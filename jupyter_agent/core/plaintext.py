"""Text from anywhere made legible and inert: no terminal codes, no hidden direction changes."""

from __future__ import annotations

import re

from jupyter_agent.core.messages import clean

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_SECTION = re.compile(r"(?i)<(?=\s*/?\s*(?:context|rules|stored_data|skill_content)\b)")
"""The delimiters of sections that the session adds to a task."""


def plain(text: str) -> str:
    """Text as a terminal would leave it on the screen, without any control character but newlines
    and tabs. Characters that change the writing direction are shown by their code point."""
    text = _ANSI.sub("", clean(text).replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    text = _CONTROL.sub("\ufffd", text)
    return _DIRECTION.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)


def _overwritten(line: str) -> str:
    """The text that remains of a line after its carriage returns (progress bars)."""
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


def defused(text: str) -> str:
    """Text that can neither end its section nor look like another one: `<\\/context>`."""
    return _SECTION.sub(r"<\\", text)


def shorten(text: str, limit: int, whole: str = "") -> str:
    """At most about `limit` characters: the start, the end, and a line with the length left out.

    `whole` names the place of the full text, for instance "the whole is in the log".
    """
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left_out = len(text) - head - tail
    where = f"; {whole}" if whole else ""
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[... {left_out:,} characters left out{where} ...]\n{end}"


def one_line(text: str, limit: int = 80) -> str:
    """The first line that is not blank, cut to `limit` characters."""
    line = next((line.strip() for line in plain(text).split("\n") if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
