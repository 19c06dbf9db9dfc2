"""Writes a description: one inert line for each part, within a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from jupyter_agent.kernel.describe.introspection import type_name
from jupyter_agent.kernel.describe.parts import Level, Listing, Nested, Part, inert
from jupyter_agent.kernel.describe.registry import parts_of

LIMIT = 2_000
FULL_LIMIT = 20_000
LINE_LIMIT = 120

_LEVELS = ("schema", "sample", "full")
_DEPTH = 4
# The least room for the details of a nested value.
_MIN_ROOM = 60
# The most entries shown in detail; further ones get a line each.
_FEW = 40
# Room for the line with the number of entries left out.
_RESERVE = 60

_T = TypeVar("_T")


def describe(value: object, level: Level = "schema", limit: int | None = None) -> str:
    """What a model is told about one object, in at most `limit` characters.

    At "names" that is the name of its type; at "schema" its structure without any of its data; at
    "sample" a few values, too; at "full" more of them. The limit is 2,000 characters unless given,
    20,000 at "full". A level that does not exist tells what "names" tells.

    This raises nothing but KeyboardInterrupt, changes nothing, computes nothing that is lazy, and
    says the same about the same object each time. An object's own `__llm__()` or `_repr_llm_()`
    (called with the level if it takes an argument) is asked at each level but "names", and then
    the describers (`register_describer`). Their text is trusted at "schema".
    """
    room = (FULL_LIMIT if level == "full" else LIMIT) if limit is None else max(limit, 0)
    try:
        if level not in _LEVELS:
            return type_name(type(value))[:room]
        return "\n".join(_Page(level).entry(Nested("", value), "", room))[:room]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _last_resort(value)[:room]


def one_line(value: object, level: Level = "schema") -> str:
    """The headline of a description, for a digest: `DataFrame, 344 rows × 8 columns`."""
    try:
        if level not in _LEVELS:
            return type_name(type(value))
        return inert(cast("str", parts_of(value, level, most=1)[0]), LINE_LIMIT)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _last_resort(value)


def _last_resort(value: object) -> str:
    """The type's name without a call of our functions, since the stack may be used up."""
    try:
        return inert(type(value).__name__, LINE_LIMIT)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "object"


@dataclass(frozen=True, slots=True)
class _Page:
    """The lines of an object's description; `path` holds the objects around it."""

    level: Level
    path: tuple[object, ...] = ()

    def entry(self, entry: Nested, indent: str, room: int) -> list[str]:
        """The lines of one value: its headline after its label, its details below."""
        label = f"{inert(entry.label)}: " if entry.label else ""
        if any(entry.value is outer for outer in self.path):
            return [f"{indent}{label}(the {type_name(type(entry.value))} around it, again)"]
        parts = parts_of(entry.value, self.level)
        first = inert(f"{indent}{label}{parts[0]}")
        room -= len(first) + 1
        if len(self.path) >= _DEPTH or room < _MIN_ROOM:
            return [first]
        inner = _Page(self.level, (*self.path, entry.value))
        below = indent + "  " if self.path or entry.label else indent
        return [first, *inner.details(parts[1:], below, room)]

    def details(self, parts: list[Part], indent: str, room: int) -> list[str]:
        """The lines of all parts, or of those that fit."""
        lines: list[str] = []
        for position, part in enumerate(parts):
            left = len(parts) - position
            # The parts after a long listing get their share, too.
            share = room if left == 1 else room * 2 // 3
            new = self.part(part, indent, share)
            if _size(new) > room:
                return [*lines, *_more(left, "lines", indent, room)]
            room -= _size(new)
            lines += new
        return lines

    def part(self, part: Part, indent: str, room: int) -> list[str]:
        """The lines of one part."""
        if isinstance(part, Listing):
            return self.listing(part, indent, room)
        if isinstance(part, Nested):
            return self.entry(part, indent, room)
        return [inert(f"{indent}{part}")]

    def listing(self, listing: Listing, indent: str, room: int) -> list[str]:
        """The lines of the entries that fit, and a line with the number of the others."""
        if not listing.total:
            return []
        lines = [f"{indent}{listing.what}:"] if listing.titled else []
        below = indent + "  " if listing.titled else indent
        room -= _size(lines)
        shown = 0
        for entry in _until_failure(listing.entries):
            # The remaining entries share the room for details equally.
            left = listing.total - shown
            share = (room - _RESERVE) // max(1, left if left <= _FEW else _FEW // 4)
            new = self.part(entry, below, share)
            last = shown + 1 == listing.total
            if _size(new) > room - (0 if last else _RESERVE):
                break
            room -= _size(new)
            lines += new
            shown += 1
        return lines + _more(listing.total - shown, listing.what, below, room)


def _more(number: int, what: str, indent: str, room: int) -> list[str]:
    line = f"{indent}... {number:,} more {what}"
    return [line] if number > 0 and len(line) < room else []


def _size(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _until_failure(items: Iterable[_T]) -> Iterator[_T]:
    """The items up to the first that raises."""
    try:
        iterator = iter(items)
        while True:
            item = next(iterator, None)
            if item is None:
                return
            yield item
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:
        return
