"""JSON and JSON lines: the fields of records, however deep."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.datafiles.columns import Column, ends, share, typed
from jupyter_agent.kernel.describe.datafiles.text import TextSample
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
_MOST_FIELDS = 100
_DEPTH = 4
_MOST_ITEMS = 20
"""Items of a list within a record that are looked at."""
_MANY_KEYS = 50
"""An object with more keys is a mapping: its keys are data, and its values are alike."""
_FIRST_RECORDS = {"sample": 2, "full": 10}
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")
_ORDERED = ("integer", "number", "date", "date and time")


def json_file(sample: TextSample, level: Level) -> Iterator[Part]:
    """The parts of a JSON file's description; also of lines of JSON under another suffix."""
    if not sample.is_whole:
        yield from _beginning(sample, level)
        return
    try:
        value = json.loads(sample.head)
    except (ValueError, RecursionError) as error:
        if sample.head.count("\n") and _is_json_lines(sample.head):
            yield from json_lines(sample, level)
            return
        yield f"JSON with an error: {inert(str(error), 100)}"
        return
    if isinstance(value, list):
        yield f"JSON: a list of {count(len(value), 'item')}, {sample.encoding_name}"
        yield from _records(value, level, is_all=len(value) <= _MOST_RECORDS)
    elif isinstance(value, dict):
        yield f"JSON: an object of {count(len(value), 'key')}, {sample.encoding_name}"
        yield from _records([value], level)
    else:
        yield f"JSON: {_kind(value)}"


def _beginning(sample: TextSample, level: Level) -> Iterator[Part]:
    """The first records of a list, or the first lines of JSON, of a file that is cut."""
    text = sample.head.lstrip()
    if not text.startswith("[") and _is_json_lines(sample.head):
        yield from json_lines(sample, level)
        return
    yield f"JSON, of which only the beginning was looked at, {sample.encoding_name}"
    records = list(_leading(text)) if text.startswith("[") else []
    if records:
        yield f"a sample: its first {count(len(records), 'item')}"
        yield from _records(records, level, is_all=False)
        return
    keys = list(dict.fromkeys(re.findall(r'"([\w .\-]{1,60})"\s*:', text[:200_000])))
    if len(keys) <= _MANY_KEYS or shows_values(level):
        yield Listing("keys at its beginning", len(keys), map(name, keys[:_MANY_KEYS]))
    else:
        yield f"{count(len(keys), 'key')} at its beginning"


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


def json_lines(sample: TextSample, level: Level) -> Iterator[Part]:
    """The parts of a description of a file with a JSON value in each line."""
    records, odd = [], []
    lines = (line for text in (sample.head, *sample.blocks) for line in io.StringIO(text))
    for number, line in enumerate(islice(lines, _MOST_RECORDS), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            odd.append(number)
    about = "" if sample.is_counted else "about "
    yield f"JSON lines, {about}{count(sample.lines, 'line')}, {sample.encoding_name}"
    is_all = sample.is_whole and sample.lines <= _MOST_RECORDS
    if not is_all:
        yield f"a sample: {count(len(records), 'line')} of its beginning{sample.places}"
    if odd:
        shown = [str(number) for number in odd[:5]] if is_all else ["in the sample"]
        verb = "is" if len(odd) == 1 else "are"
        yield f"{count(len(odd), 'line')} that {verb} no JSON: {', '.join(shown)}"
    yield from _records(records, level, is_all)


@dataclass(slots=True)
class _Field:
    """One field of records, by its path: `who.name`, `tags[]` for the items of a list.

    Attributes:
        parent: The path of the objects that have it.
        kinds: How many of its values are of each kind.
        column: Its values that are no containers.
        lengths: The least and the largest number of items, if it is a list.
    """

    parent: str
    kinds: Counter[str] = field(default_factory=Counter)
    column: Column = field(default_factory=Column)
    lengths: tuple[int, int] | None = None

    def add(self, value: Any) -> None:
        self.kinds[_kind(value)] += 1
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            self.column.add(str(value))
        elif isinstance(value, list):
            least, most = self.lengths or (len(value), len(value))
            self.lengths = min(least, len(value)), max(most, len(value))

    def told(self, parents: int, level: Level) -> str:
        """The field in words; `parents` is the number of objects that may have it."""
        kinds = [kind for kind, _ in self.kinds.most_common() if kind != "null"]
        if set(kinds) == {"integer", "number"}:
            kinds = ["number"]
        words = " or ".join(kinds[:3]) or "null"
        if shows_values(level) and self.lengths and self.lengths[1]:
            least, most = self.lengths
            words += f" of {least} to {most}" if least < most else f" of {most}"
        missing = parents - self.kinds.total() + self.kinds["null"]
        if missing > 0 and kinds:
            words += f", {share(missing, parents)} missing"
        # Texts that look like numbers stay texts.
        is_ordered = len(kinds) == 1 and kinds[0] in _ORDERED and self.column.least is not None
        if shows_values(level) and is_ordered:
            words += ends(self.column.least, self.column.most)
        return words


class _Fields:
    """The fields of many values, found by a walk through each of them."""

    def __init__(self) -> None:
        self._found: dict[str, _Field] = {}
        self._objects: Counter[str] = Counter()

    def add(self, value: Any, path: str = "", depth: int = 0) -> None:
        """Count a value and what is in it."""
        if isinstance(value, dict):
            self._objects[path] += 1
            is_mapping = len(value) > _MANY_KEYS
            for key, held in islice(value.items(), _MOST_RECORDS):
                self._add_field("*" if is_mapping else key, held, path, depth)
        elif isinstance(value, list):
            for item in value[:_MOST_ITEMS]:
                self._add_field("[]", item, path, depth)

    def _add_field(self, key: str, value: Any, parent: str, depth: int) -> None:
        dot = "." if parent and key != "[]" else ""
        path = f"{parent}{dot}{key}"
        if path not in self._found:
            if len(self._found) >= _MOST_FIELDS or depth > _DEPTH:
                return
            self._found[path] = _Field(parent)
        self._found[path].add(value)
        self.add(value, path, depth + 1)

    def told(self, level: Level) -> list[str]:
        """A line for each field. One that is always an object is told by its own fields."""
        lines = []
        for path, found in self._found.items():
            words = found.told(self._objects[found.parent] if _may_miss(path) else 0, level)
            if words != "object" or not self._objects[path]:
                lines.append(f"{name(path)}: {words}")
        return lines


def _may_miss(path: str) -> bool:
    """True for a field by name: there are as many items of a list as there are."""
    return not path.endswith(("*", "[]"))


def _records(records: list[Any], level: Level, is_all: bool = True) -> Iterator[Part]:
    """The fields of records, or the kinds of items that are none."""
    records = records[:_MOST_RECORDS]
    others = Counter(_kind(each) for each in records if not isinstance(each, dict))
    if others:
        yield "items that are no objects: " + ", ".join(
            f"{times:,} {kind}" for kind, times in others.most_common(4)
        )
    fields = _Fields()
    for each in records:
        fields.add(each)
    told = fields.told(level)
    yield Listing("fields" if is_all else "fields of the sample", len(told), told)
    if shows_values(level):
        first = (json.dumps(each, ensure_ascii=False) for each in records)
        shown = [inert(each, 200) for each in islice(first, _FIRST_RECORDS[level])]
        yield Listing("it begins" if len(records) == 1 else "first records", len(shown), shown)


def _kind(value: Any) -> str:
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
            return "list" if value else "empty list"
        case _:
            return "object"
