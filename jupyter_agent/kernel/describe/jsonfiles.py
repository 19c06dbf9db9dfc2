"""JSON and JSON lines: the keys of an object, the fields of records."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.columns import Column, share, typed
from jupyter_agent.kernel.describe.lookedat import Look
from jupyter_agent.kernel.describe.parts import (
    Level,
    Listing,
    Part,
    count,
    inert,
    name,
    shows_values,
)

_MOST_RECORDS = 20_000
_MOST_FIELDS = 200
_FIRST_RECORDS = {"sample": 3, "full": 10}
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")


def json_file(look: Look, level: Level) -> Iterator[Part]:
    """A JSON file: a list of records, an object, or lines of JSON after all."""
    if not look.is_whole:
        yield from _beginning(look, level)
        return
    try:
        value = json.loads(look.head)
    except (ValueError, RecursionError) as error:
        if look.head.count("\n") and _is_json_lines(look.head):
            yield from json_lines(look, level)
            return
        yield f"JSON with an error: {inert(str(error), 100)}"
        return
    if isinstance(value, list):
        yield f"JSON: a list of {count(len(value), 'item')}, {look.spelled}"
        yield from _records(value, level, is_all=len(value) <= _MOST_RECORDS)
    elif isinstance(value, dict):
        yield f"JSON: an object of {count(len(value), 'key')}, {look.spelled}"
        told = (f"{name(str(key))}: {_shape(held)}" for key, held in value.items())
        yield Listing("keys", len(value), told)
    else:
        yield f"JSON: {_shape(value)}"


def _beginning(look: Look, level: Level) -> Iterator[Part]:
    """The first records of a list, or the first keys of what is none, of a long file."""
    yield f"JSON, of which only the beginning was looked at, {look.spelled}"
    text = look.head.lstrip()
    records = list(_leading(text)) if text.startswith("[") else []
    if records:
        yield f"a sample: its first {count(len(records), 'item')}"
        yield from _records(records, level, is_all=False)
        return
    keys = list(dict.fromkeys(re.findall(r'"([\w .\-]{1,60})"\s*:', text[:200_000])))
    yield Listing("keys at its beginning", len(keys), map(name, keys))


def _leading(text: str) -> Iterator[Any]:
    """The first items of a list whose end is missing."""
    place = 1
    for _ in range(_MOST_RECORDS):
        place = _SPACE.match(text, place).end()  # type: ignore[union-attr]  # it always matches
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return
        yield value


def _is_json_lines(head: str) -> bool:
    lines = [line for line in islice(io.StringIO(head), 3) if line.strip()]
    try:
        return all(isinstance(json.loads(line), dict) for line in lines)
    except (ValueError, RecursionError):
        return False


def json_lines(look: Look, level: Level) -> Iterator[Part]:
    """A file with a JSON value in each line."""
    records, odd = [], []
    lines = (line for text in (look.head, *look.blocks) for line in io.StringIO(text))
    for number, line in enumerate(islice(lines, _MOST_RECORDS), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            odd.append(number)
    yield f"JSON lines, {count(look.lines, 'line')}, {look.spelled}"
    is_all = look.is_whole and look.lines <= _MOST_RECORDS
    if not is_all:
        yield f"a sample: {count(len(records), 'line')} of its beginning{look.further}"
    if odd:
        shown = [str(number) for number in odd[:5]] if is_all else ["in the sample"]
        verb = "is" if len(odd) == 1 else "are"
        yield f"{count(len(odd), 'line')} that {verb} no JSON: {', '.join(shown)}"
    yield from _records(records, level, is_all)


@dataclass(slots=True)
class _Field:
    """One field of records: the shapes of its values, and the values that are no containers."""

    shapes: Counter[str] = field(default_factory=Counter)
    column: Column = field(default_factory=Column)

    def add(self, value: Any) -> None:
        self.shapes[_shape(value)] += 1
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            self.column.add(str(value))

    def told(self, records: int, level: Level) -> str:
        kinds = [kind for kind, _ in self.shapes.most_common(4) if kind != "null"]
        words = " or ".join(kinds[:3]) or "null"
        missing = records - sum(self.shapes.values()) + self.shapes["null"]
        if missing and kinds:
            words += f", {share(missing, records)} missing"
        # Texts that look like numbers stay texts.
        has_order = set(kinds) <= {"integer", "number"} or kinds in (["date"], ["date and time"])
        if shows_values(level) and has_order and self.column.least is not None:
            ends = (inert(str(end), 40) for end in (self.column.least, self.column.most))
            words += f", {' to '.join(ends)}"
        return words


def _records(records: list[Any], level: Level, is_all: bool) -> Iterator[Part]:
    """The fields of records."""
    objects = [each for each in records[:_MOST_RECORDS] if isinstance(each, dict)]
    if not objects:
        if records:
            kinds = Counter(_shape(each) for each in records[:_MOST_RECORDS])
            yield "items: " + ", ".join(f"{times:,} {kind}" for kind, times in kinds.most_common(5))
        return
    fields: dict[str, _Field] = {}
    for each in objects:
        for key, value in each.items():
            if key in fields or len(fields) < _MOST_FIELDS:
                fields.setdefault(key, _Field()).add(value)
    told = (f"{name(key)}: {found.told(len(objects), level)}" for key, found in fields.items())
    yield Listing("fields" if is_all else "fields of the sample", len(fields), told)
    if shows_values(level):
        first = [json.dumps(each, ensure_ascii=False) for each in objects[: _FIRST_RECORDS[level]]]
        yield Listing("first records", len(first), [inert(each, 300) for each in first])


def _shape(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "truth value"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            kind = typed(value)[0]
            return kind if kind in ("date", "date and time") else "text"
        case list():
            return f"list of {_shape(value[0])}" if value else "empty list"
        case _:
            return f"object ({', '.join(name(str(key)) for key in islice(value, 6))})"
