"""The parts of a description, and functions for text that is safe on one line of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from jupyter_agent.core.plaintext import plain

Level: TypeAlias = Literal["names", "schema", "sample", "full"]

# The longest name of a column, an attribute or a type; longer ones are cut.
NAME_LENGTH = 80
_ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


@dataclass(frozen=True, slots=True)
class Nested:
    """A value inside another one. The page writes its description after the label, and below."""

    label: str
    value: object


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries of one kind ("columns"), taken one by one until the page is full.

    `total` is their number, so that a full page can name the number left out. Without `titled`
    the entries are directly under the headline.
    """

    what: str
    total: int
    entries: Iterable[str | Nested]
    titled: bool = True


Part: TypeAlias = str | Nested | Listing

# Gives the parts of a description, the headline first: for instance as a generator. A plain text
# will do, too: its first line is the headline.
Describer: TypeAlias = Callable[[Any, Level], str | Iterable[Part]]


def shows_values(level: Level) -> bool:
    """True if the level shows values."""
    return level in {"sample", "full"}


def inert(text: str, limit: int = 400) -> str:
    """The text on one line, cut to `limit` characters, without invisible characters."""
    text = str.__str__(text)
    cut = len(text) > limit
    text = text[:limit]
    if not (text.isascii() and text.isprintable()):
        text = plain(text.translate(_ESCAPES))
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text[: limit - 1] + "…" if cut or len(text) > limit else text


def name(text: str) -> str:
    """A name of the user's, inert."""
    return inert(text, NAME_LENGTH)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 row`, `2,000 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def label(key: object) -> str:
    """A column's label, if it is a name: text, a whole number, or a tuple of these.

    Other labels (dates, intervals, floats) come from the data, and only their type is told.
    """
    if type(key) is str:
        return name(key)
    if type(key) is int and abs(key) < 10**18:
        return f"{key:d}"
    if type(key) is tuple:
        return name("(" + ", ".join(label(part) for part in key[:5]) + ")")
    return name(f"({type(key).__name__})")
