"""Lists, dicts and other containers: their length, the types of their items, and examples."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.introspection import (
    MISSING,
    ancestry,
    class_attribute,
    field_names,
    type_name,
)
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    name,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

# The number of items that are examined for the types of all.
_LOOKED_AT = 1_000
_KINDS = 4
_SEEN = {"schema": 0, "names": 0, "sample": 5, "full": 100}


def sequence(value: Any, level: Level) -> Iterator[Part]:
    """A list or a deque: its length, the types of its items, then one item of each type."""
    base = list if issubclass(type(value), list) else deque
    yield from _items(value, base.__len__(value), lambda: base.__iter__(value), level)


def tuple_value(value: Any, level: Level) -> Iterator[Part]:
    """A tuple; a named one by its fields."""
    fields = class_attribute(type(value), "_fields")
    length = tuple.__len__(value)
    if fields is MISSING or type(fields) is not tuple or len(fields) != length:
        yield from _items(value, length, lambda: tuple.__iter__(value), level)
        return
    yield f"{type_name(type(value))}, named tuple, {count(length, 'field')}"
    entries = (Nested(name(f), v) for f, v in zip(fields, tuple.__iter__(value), strict=True))
    yield Listing("fields", length, entries, titled=False)


def set_value(value: Any, level: Level) -> Iterator[Part]:
    """A set: its length and the types of its items."""
    base = set if issubclass(type(value), set) else frozenset
    length = base.__len__(value)
    yield _headline(value, length, base.__iter__(value), "item")
    if shows_values(level) and length:
        # Sorted if all can be examined, since the order of a set differs from run to run.
        items = sorted(short(item, 200) for item in islice(base.__iter__(value), _LOOKED_AT))
        seen = _SEEN[level]
        yield Listing("items", length, (name(item) for item in items[:seen]))


def mapping(value: Any, level: Level) -> Iterator[Part]:
    """A dict: the types of its keys and values; where values may be shown, fields by name.

    Keys can be data as well as names, and nothing tells them apart for certain.
    """
    length = dict.__len__(value)
    fields = field_names(value)
    if shows_values(level) and fields is not None and not _counts(type(value)):
        yield f"{type_name(type(value))}, {count(length, 'key')}"
        entries = (Nested(name(str(k)), v) for k, v in dict.items(value))
        yield Listing("keys", length, entries, titled=False)
        return
    keys = _kinds(islice(dict.__iter__(value), _LOOKED_AT))
    values = _kinds(islice(dict.values(value), _LOOKED_AT))
    kinds = f" ({keys} → {values}{_start(length)})" if length else ""
    yield f"{type_name(type(value))}, {count(length, 'key')}{kinds}"
    if shows_values(level):
        pairs = islice(dict.items(value), 2 * _SEEN[level])
        entries = (Nested(short(key, 40), held) for key, held in pairs)
        yield Listing("keys", length, entries, titled=False)
    else:
        yield from _examples(dict.values(value), "a value")


def view(value: Any, level: Level) -> Iterator[Part]:
    """The keys, values or items of a dict: how many, and of which types."""
    yield _headline(value, len(value), iter(value), "item")


def numbers(value: Any, level: Level) -> Iterator[Part]:
    """An `array.array`: its length and the code of its type."""
    yield f"array, {count(len(value), 'item')}, type code {value.typecode}"
    if shows_values(level):
        yield f"first: {short(value[:8].tolist(), 200)}"


def number_range(value: Any, level: Level) -> Iterator[Part]:
    """A range: how many numbers."""
    try:
        headline = f"range, {count(len(value), 'item')}"
    except OverflowError:
        headline = "range"
    yield f"{headline}: {short(value)}" if shows_values(level) else headline


def _items(value: Any, length: int, items: Any, level: Level) -> Iterator[Part]:
    yield _headline(value, length, items(), "item")
    if shows_values(level):
        seen = islice(items(), _SEEN[level])
        entries = (Nested(f"[{place}]", item) for place, item in enumerate(seen))
        yield Listing("items", length, entries, titled=False)
    else:
        yield from _examples(items(), "an item")


def _headline(value: Any, length: int, items: Iterable[Any], noun: str) -> str:
    kinds = f" ({_kinds(islice(items, _LOOKED_AT))}{_start(length)})" if length else ""
    return f"{type_name(type(value))}, {count(length, noun)}{kinds}"


def _start(length: int) -> str:
    """A word of caution if not all items are examined."""
    return f", by the first {_LOOKED_AT:,}" if length > _LOOKED_AT else ""


def _kinds(items: Iterable[Any]) -> str:
    """The types of the items, the most frequent first."""
    tally: Counter[str] = Counter()
    for cls, number in _runs(items):
        tally[type_name(cls)] += number
    ordered = sorted(tally, key=lambda kind: (-tally[kind], kind))
    more = f" and {len(ordered) - _KINDS} more types" if len(ordered) > _KINDS else ""
    return ", ".join(ordered[:_KINDS]) + more


def _runs(items: Iterable[Any]) -> Iterator[tuple[type, int]]:
    """The runs of items of one type, with their lengths; most containers are a single run."""
    current: type | None = None
    number = 0
    for item in items:
        if type(item) is current:
            number += 1
            continue
        if current is not None:
            yield current, number
        current, number = type(item), 1
    if current is not None:
        yield current, number


def _examples(items: Iterable[Any], label: str) -> Iterator[Part]:
    """The first item of each type that has a structure of its own."""
    shown: list[type] = []
    for item in islice(items, _LOOKED_AT):
        cls = type(item)
        if not any(cls is other for other in shown):
            shown.append(cls)
            if not any(cls is flat for flat in _FLAT):
                yield Nested(label, item)
        if len(shown) >= _KINDS:
            return


def _counts(cls: type) -> bool:
    """True if the keys of this class of dict are counted or grouped values, and so data."""
    return any(cls is grouping for cls in ancestry(cls) for grouping in (Counter, defaultdict))


_FLAT = (str, bytes, int, float, bool, complex, type(None))
DESCRIBERS: dict[str, Describer] = {
    "builtins.list": sequence,
    "collections.deque": sequence,
    "builtins.tuple": tuple_value,
    "builtins.set": set_value,
    "builtins.frozenset": set_value,
    "builtins.dict": mapping,
    "builtins.dict_keys": view,
    "builtins.dict_values": view,
    "builtins.dict_items": view,
    "builtins.range": number_range,
    "array.array": numbers,
}
