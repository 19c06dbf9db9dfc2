"""Text from anywhere made legible and inert: no terminal codes, no hidden direction changes."""

from __future__ import annotations

import re
from functools import lru_cache

from jupyter_agent.core.messages import clean

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e007f]"
)
_MOST_BLANKS, _MOST_BLANK_LINES = 60, 5
_BLANKS = re.compile(rf"[^\S\n]{{{_MOST_BLANKS + 1},}}")
_BLANK_LINES = re.compile(rf"\n(?:[^\S\n]*\n){{{_MOST_BLANK_LINES + 1},}}")

_LOOK_ALIKES = dict(zip("aceiopsxy", "асеіорѕху", strict=True))
"""Cyrillic letters that look like Latin ones."""
_BRACKETS = (
    r"[<\u02c2\u2039\u227a\u2329\u276e\u2770\u27e8\u29fc\u3008\ufe64\uff1c]",
    r"[>\u02c3\u203a\u227b\u232a\u276f\u2771\u27e9\u29fd\u3009\ufe65\uff1e]",
)
"""`<` and `>`, and what looks like them."""
_NOTHING = r"[\u00ad\u200b-\u200d\u2060\ufeff]{0,8}"
_BLANK = r"[\s\u00ad\u200b-\u200d\u2060\ufeff]{0,8}"


@lru_cache
def _tag(*names: str, after: str = "") -> re.Pattern[str]:
    """A pattern for the bracket of a tag, also of one that only looks like it.

    A space behind the bracket is a comparison, unless attributes or the end of the tag follow.

    Args:
        names: The names of the tags.
        after: What stands between the bracket and the rest.
    """
    opening, closing = _BRACKETS
    name = f"(?:{'|'.join(map(_alike, names))})"
    close = rf"{_NOTHING}[/\uff0f]?{_NOTHING}{name}(?![\w:.\-])"
    end = rf"\s{{0,8}}/?\s{{0,8}}{closing}|\s{{1,8}}[\w-]{{1,40}}\s?="
    apart = rf"{_BLANK}[/\uff0f]?{_BLANK}{name}(?={end})"
    return re.compile(rf"({opening}){after}(?={close}|{apart})", re.IGNORECASE)


def _alike(name: str) -> str:
    """A pattern for a word in Latin, fullwidth, or Cyrillic letters that look like it."""
    letters = (
        f"[{letter}{chr(ord(letter) + 0xFEE0)}{_LOOK_ALIKES.get(letter, '')}]"
        if letter.isalpha()
        else "[_\uff3f-]"
        for letter in name
    )
    return "".join(letters)


_SECTIONS = ("context", "rules", "stored_data", "skill_content", "tool_help", "system_reminder")
"""The tags of sections that the session adds to a task, and one that models obey."""


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


def visible(text: str) -> str:
    """Code and commands with nothing hidden, for a person who decides whether they run.

    `plain` shows what a terminal leaves on the screen; here a carriage return, an escape code or a
    zero-width character has a sign of its own, and long runs of blanks are counted.
    """
    text = _UNSEEN.sub(_sign, clean(text).replace("\r\n", "\n"))
    text = _BLANKS.sub(lambda found: f" [{len(found[0]):,} blanks] ", text)
    return _BLANK_LINES.sub(
        lambda found: f"\n[{found[0].count(chr(10)) - 1:,} blank lines]\n", text
    )


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0x0D:
        return "␍\n"  # Python ends a line there
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def all_in_one_line(text: str, limit: int = 300) -> str:
    """All lines of a text in one, joined by ` ⏎ `; says so if there is more than the limit."""
    lines = (" ".join(line.split()) for line in visible(text).split("\n"))
    whole = " ⏎ ".join(line for line in lines if line)
    return whole if len(whole) <= limit else f"{whole[:limit]}… (it goes on)"


def defused(text: str) -> str:
    """Text that can neither end its section nor look like another one: `<\\/context>`."""
    return without_tags(text, *_SECTIONS)


def restored(text: str) -> str:
    """The text that `defused` has changed, for a file that a model writes as it read it."""
    return _tag(*_SECTIONS, after=r"\\").sub(r"\1", text)


def without_tags(text: str, *names: str) -> str:
    """Text in which the tags of these names, and what looks like them, are broken: `<\\name>`."""
    return _tag(*names).sub(r"\1\\", text)


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
