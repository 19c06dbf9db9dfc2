"""Files of data, before code reads them: their columns, types, encoding and odd lines.

One bounded look, whatever the size: the head of the file and a few blocks further on. Standard
library only but for Parquet. Values (ranges, first rows) are told only where values may be shown.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jupyter_agent.files.textfile import Encoding, detect
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Part,
    count,
    inert,
    name,
    shows_values,
)

HEAD = 4_000_000
"""Bytes that are read at the beginning of a text file."""
BLOCKS, BLOCK = 8, 250_000
"""Blocks that are read further on, and the bytes of each; none of UTF-16, which may be cut."""
_MOST_ROWS = 20_000
_MOST_COLUMNS = 200
_MOST_TABLES = 30
_FIRST_ROWS = {"sample": 3, "full": 10}
_MOST_COUNTED = 4_000_000_000
"""Bytes of a file whose lines are counted."""
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_OTHER_DATE = re.compile(r"\d{1,2}([./])\d{1,2}\1\d{2,4}(?: \d\d:\d\d(?::\d\d)?)?")
_ZEROS = re.compile(r"0\d+")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to be described by its content. `shown` is its name for the model."""

    path: Path
    shown: str = ""


def data_file(value: DataFile, level: Level) -> Iterator[Part]:
    """A file: its kind and size, and what its kind has: columns, tables, sheets, keys."""
    path = value.path
    if not path.is_file():  # a pipe would block
        yield f"{value.shown or path.name}: not a regular file"
        return
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(16)
    headline = f"{value.shown or path.name}, {_bytes(size)}"
    if start.startswith(b"PAR1"):
        yield from _headed(headline, _parquet(path, level))
    elif start.startswith(b"SQLite format 3"):
        yield from _headed(headline, _sqlite(path))
    elif start.startswith(b"PK") and zipfile.is_zipfile(path):
        yield from _headed(headline, _archive(path))
    elif not size:
        yield f"{headline}: empty"
    else:
        yield from _headed(headline, _of_text(path, size, level))


def _headed(headline: str, parts: Iterable[Part]) -> Iterator[Part]:
    rest = iter(parts)
    yield f"{headline}, {next(rest)}"
    yield from rest


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return count(size, "byte")


# Text --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read of a text file: whole lines of its head, and of blocks further on."""

    head: str
    blocks: tuple[str, ...]
    encoding: Encoding
    lines: int
    is_whole: bool


def _of_text(path: Path, size: int, level: Level) -> Iterator[Part]:
    look = _look(path, size)
    if look is None:
        yield "not text: a binary format that is not known here"
        return
    suffix = path.suffix.casefold()
    if suffix in (".jsonl", ".ndjson"):
        yield from _json_lines(look, level)
    elif look.head.lstrip()[:1] in ("{", "[") and suffix not in (".csv", ".tsv"):
        yield from _json(look, level)
    elif dialect := _dialect(look.head, suffix):
        try:
            yield from list(_separated(look, dialect, level))
        except csv.Error as error:  # such as a quotation mark that nothing closes
            yield f"text that is no table: {inert(str(error), 100)}, {_spelled(look.encoding)}"
    else:
        yield f"text, {count(look.lines, 'line')}, {_spelled(look.encoding)}"
        if shows_values(level):
            first = look.head.splitlines()[: _FIRST_ROWS[level]]
            yield Listing("first lines", len(first), [inert(each, 200) for each in first])


def _look(path: Path, size: int) -> _Look | None:
    with path.open("rb") as stream:
        encoding = detect(stream, HEAD)
        if encoding is None:
            return None
        data = stream.read(HEAD)
        is_whole = len(data) == size
        line_end = "\n".encode(encoding.name)
        places = () if is_whole or len(line_end) > 1 else range(1, BLOCKS + 1)
        blocks = [_block(stream, size, place) for place in places]
        lines = _lines(stream, line_end) if size < _MOST_COUNTED else 0
    if not is_whole:
        data = data[: data.rfind(line_end) + len(line_end)] or data
    texts = (block.decode(encoding.name, "replace") for block in blocks)
    head = data.removeprefix(encoding.mark).decode(encoding.name, "replace")
    return _Look(head, tuple(texts), encoding, lines, is_whole)


def _block(stream: io.BufferedReader, size: int, place: int) -> bytes:
    """Whole lines of a later part."""
    stream.seek(HEAD + (size - HEAD) * place // (BLOCKS + 1))
    data = stream.read(BLOCK)
    return data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]


def _lines(stream: io.BufferedReader, line_end: bytes) -> int:
    """The number of lines of a whole file."""
    stream.seek(0)
    found, last = 0, b""
    while chunk := stream.read(1 << 22):
        found += chunk.count(line_end)
        last = chunk[-len(line_end) :]
    return found + (last != line_end)


def _spelled(encoding: Encoding) -> str:
    return f"{encoding.name}{' with a byte-order mark' if encoding.mark else ''}"


def _dialect(head: str, suffix: str) -> str:
    """The delimiter of a table; empty if the text is none."""
    sample = [line for line in islice(io.StringIO(head), 60) if line.strip()][:50]
    if suffix == ".tsv":
        return "\t"
    best, most = "", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter))
        width, times = widths.most_common(1)[0] if widths else (1, 0)
        # Most rows have as many fields, more than one.
        if width > 1 and times >= 0.7 * len(sample) and (score := times * width) > most:
            best, most = delimiter, score
    if not best and suffix == ".csv":
        return ","
    return best if len(sample) > 1 else ""


# Tables as text ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Column:
    """What the rows that were looked at hold in one column."""

    rows: int = 0
    missing: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    values: dict[str, None] = field(default_factory=dict)
    least: Any = None
    most: Any = None

    def add(self, text: str) -> None:
        self.rows += 1
        text = text.strip()
        if text.casefold() in _EMPTY:
            self.missing += 1
            return
        kind, value = _typed(text)
        self.kinds[kind] += 1
        if len(self.values) < 13:
            self.values[text] = None
        if kind != "text":
            self.least = value if self.least is None else _least(self.least, value)
            self.most = value if self.most is None else _most(self.most, value)

    def told(self, level: Level) -> str:
        kinds = [kind for kind, _ in self.kinds.most_common()]
        if set(kinds) == {"integer", "number"}:
            kinds = ["number"]
        main = kinds[0] if kinds else "empty"
        told = main
        if others := [f"{self.kinds[kind]:,} {kind}" for kind in kinds[1:]]:
            told += f" (but {', '.join(others)})"
        if self.missing and kinds:
            told += f", {self.missing / self.rows:.1%} missing"
        if shows_values(level) and kinds:
            if main == "text" and len(self.values) <= 12:
                told += ", values: " + ", ".join(inert(each, 30) for each in self.values)
            elif len(kinds) == 1 and self.least is not None:
                told += f", {inert(str(self.least), 40)} to {inert(str(self.most), 40)}"
        return told


def _typed(text: str) -> tuple[str, Any]:
    """The kind of a field's text, and its value in that kind."""
    if _INTEGER.fullmatch(text):
        return (
            ("text with leading zeros", text) if _ZEROS.fullmatch(text) else ("integer", int(text))
        )
    if _NUMBER.fullmatch(text):
        comma = "," in text
        return "number with a decimal comma" if comma else "number", float(text.replace(",", "."))
    if _DATE.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return "text", text
        return "date and time" if len(text) > 10 else "date", text
    if _OTHER_DATE.fullmatch(text):
        return "date as " + re.sub(r"\d", "9", text), None
    if text.casefold() in ("true", "false"):
        return "truth value", text.casefold()
    return "text", text


def _least(one: Any, other: Any) -> Any:
    return min(one, other) if _comparable(one, other) else one


def _most(one: Any, other: Any) -> Any:
    return max(one, other) if _comparable(one, other) else one


def _comparable(one: Any, other: Any) -> bool:
    return isinstance(one, str) == isinstance(other, str)


def _separated(look: _Look, delimiter: str, level: Level) -> Iterator[Part]:
    rows = csv.reader(io.StringIO(look.head), delimiter=delimiter)
    numbered = ((rows.line_num, row) for row in islice(rows, _MOST_ROWS) if row)
    _, first = next(numbered, (1, []))
    header = first if _is_header(first) else [f"column {i}" for i in range(1, len(first) + 1)]
    columns = [_Column() for _ in header]
    odd: list[int] = []
    body = [] if header is first else [first]
    sampled = 0
    for number, row in (*((1, row) for row in body), *numbered):
        sampled += 1
        if len(row) != len(header):
            odd.append(number)
            continue
        for column, text in zip(columns, row, strict=True):
            column.add(text)
    for block in look.blocks:
        for row in csv.reader(io.StringIO(block), delimiter=delimiter):
            sampled += 1
            if len(row) == len(header):
                for column, text in zip(columns, row, strict=True):
                    column.add(text)
    is_all = look.is_whole and sampled < _MOST_ROWS - 1
    total = sampled if is_all else look.lines - (header is first)
    about = "" if is_all else "about "
    yield (
        f"table with {about}{count(total, 'row')} × {count(len(header), 'column')}, "
        f"delimiter {_DELIMITERS[delimiter]}, {_spelled(look.encoding)}"
        + ("" if header is first else ", without a header")
    )
    if not is_all:
        further = f" and of {len(look.blocks)} places further on" if look.blocks else ""
        yield f"by {count(sampled, 'row')} of its head{further}"
    if odd:
        shown = ", ".join(map(str, odd[:5]))
        yield f"{count(len(odd), 'line')} with another number of fields: {shown}" + (
            ", …" if len(odd) > 5 else ""
        )
    told = (
        f"{name(title.strip())}: {column.told(level)}"
        for title, column in islice(zip(header, columns, strict=True), _MOST_COLUMNS)
    )
    yield Listing("columns", len(header), told)


def _is_header(row: list[str]) -> bool:
    """True if a first row names columns: words, each once."""
    texts = [text.strip() for text in row]
    return all(_typed(text)[0] == "text" for text in texts if text) and len(set(texts)) == len(
        texts
    )


# JSON --------------------------------------------------------------------------------------------


def _json(look: _Look, level: Level) -> Iterator[Part]:
    if not look.is_whole:
        yield f"JSON, too long to be read as a whole, {_spelled(look.encoding)}"
        keys = list(dict.fromkeys(re.findall(r'"([\w .\-]{1,60})"\s*:', look.head[:200_000])))
        yield Listing("keys at its beginning", len(keys), map(name, keys))
        return
    try:
        value = json.loads(look.head)
    except (ValueError, RecursionError) as error:
        if look.head.count("\n") and _is_json_lines(look.head):
            yield from _json_lines(look, level)
            return
        yield f"JSON with an error: {inert(str(error), 100)}"
        return
    if isinstance(value, list):
        yield f"JSON: a list of {count(len(value), 'item')}, {_spelled(look.encoding)}"
        yield from _records(value, level)
    elif isinstance(value, dict):
        yield f"JSON: an object of {count(len(value), 'key')}, {_spelled(look.encoding)}"
        told = (f"{name(str(key))}: {_shape(held)}" for key, held in value.items())
        yield Listing("keys", len(value), told)
    else:
        yield f"JSON: {_shape(value)}"


def _is_json_lines(head: str) -> bool:
    lines = [line for line in islice(io.StringIO(head), 3) if line.strip()]
    try:
        return all(isinstance(json.loads(line), dict) for line in lines)
    except ValueError:
        return False


def _json_lines(look: _Look, level: Level) -> Iterator[Part]:
    records, odd = [], []
    lines = (line for text in (look.head, *look.blocks) for line in io.StringIO(text))
    for number, line in enumerate(islice(lines, _MOST_ROWS), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            odd.append(number)
    yield f"JSON lines, {count(look.lines, 'line')}, {_spelled(look.encoding)}"
    if odd:
        yield (
            f"{count(len(odd), 'line')} that {'is' if len(odd) == 1 else 'are'} no JSON: "
            + ", ".join(map(str, odd[:5]))
        )
    yield from _records(records, level)


def _records(records: list[Any], level: Level) -> Iterator[Part]:
    """The fields of records."""
    objects = [each for each in records[:_MOST_ROWS] if isinstance(each, dict)]
    if not objects:
        if records:
            kinds = Counter(_shape(each) for each in records[:_MOST_ROWS])
            yield "items: " + ", ".join(f"{times:,} {kind}" for kind, times in kinds.most_common(5))
        return
    fields: dict[str, Counter[str]] = {}
    for each in objects:
        for key, value in each.items():
            fields.setdefault(str(key), Counter())[_shape(value)] += 1
    told = []
    for key, kinds in fields.items():
        present = sum(kinds.values())
        words = " or ".join(kind for kind, _ in kinds.most_common(3))
        absent = 1 - present / len(objects)
        told.append(f"{name(key)}: {words}" + (f", absent in {absent:.1%}" if absent else ""))
    yield Listing("fields", len(told), told)
    if shows_values(level):
        first = [json.dumps(each, ensure_ascii=False) for each in objects[: _FIRST_ROWS[level]]]
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
            return _typed(value)[0] if _DATE.fullmatch(value) else "text"
        case list():
            return f"list of {_shape(value[0])}" if value else "empty list"
        case _:
            return f"object ({', '.join(name(str(key)) for key in islice(value, 6))})"


# Binary formats ----------------------------------------------------------------------------------


def _parquet(path: Path, level: Level) -> Iterator[Part]:
    try:
        from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]
    except ImportError:
        yield "Parquet (its columns are told where pyarrow is installed)"
        return
    with ParquetFile(path) as table:
        meta, schema = table.metadata, table.schema_arrow
        yield f"Parquet, {count(meta.num_rows, 'row')} × {count(len(schema), 'column')}"
        ranges = _parquet_ranges(meta) if shows_values(level) else {}
        told = (
            f"{name(each.name)}: {inert(str(each.type), 120)}{ranges.get(each.name, '')}"
            for each in islice(schema, _MOST_COLUMNS)
        )
        yield Listing("columns", len(schema), told)


def _parquet_ranges(meta: Any) -> dict[str, str]:
    """The ranges of columns, by the statistics of the row groups."""
    found: dict[str, list[Any]] = {}
    for group in range(min(meta.num_row_groups, 1_000)):
        for place in range(min(meta.num_columns, _MOST_COLUMNS)):
            column = meta.row_group(group).column(place)
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max:
                ends = (statistics.min, statistics.max)
                found.setdefault(column.path_in_schema, []).extend(ends)
    return {
        key: f", {inert(str(min(ends)), 40)} to {inert(str(max(ends)), 40)}"
        for key, ends in found.items()
    }


def _sqlite(path: Path) -> Iterator[Part]:
    quoted = path.resolve().as_uri()
    with closing(sqlite3.connect(f"{quoted}?mode=ro", uri=True, timeout=1)) as base:
        steps = iter(range(200))
        base.set_progress_handler(lambda: next(steps, None) is None, 1_000_000)
        tables = base.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        ).fetchall()
        yield f"SQLite database, {count(len(tables), 'table or view', 'tables and views')}"
        told = [_told_table(base, title, kind) for title, kind in tables[:_MOST_TABLES]]
        yield Listing("tables", len(tables), told)


def _told_table(base: sqlite3.Connection, title: str, kind: str) -> str:
    try:
        return _table(base, title, kind)
    except sqlite3.Error as error:
        return f"{name(title)}: cannot be read: {inert(str(error), 100)}"


def _table(base: sqlite3.Connection, title: str, kind: str) -> str:
    quoted = '"' + title.replace('"', '""') + '"'
    columns = base.execute(f"PRAGMA table_info({quoted})").fetchall()
    told = ", ".join(f"{name(each[1])} {name(each[2] or 'any')}" for each in columns[:40])
    rows = ""
    if kind == "table":
        try:
            number = base.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
            rows = f", {count(number, 'row')}"
        except sqlite3.Error:
            rows = ", too many rows to count at a look"
    return f"{name(title)}{' (view)' if kind == 'view' else ''}{rows}: {told}"


def _archive(path: Path) -> Iterator[Part]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "xl/workbook.xml" not in names:
            yield f"a zip archive of {count(len(names), 'file')}"
            yield Listing("files", len(names), map(name, names[:_MOST_TABLES]))
            return
        sheets = _sheets(archive)
        yield f"Excel workbook, {count(len(sheets), 'sheet')}"
        yield Listing("sheets", len(sheets), sheets[:_MOST_TABLES])


_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def _sheets(archive: zipfile.ZipFile) -> list[str]:
    """The sheets of a workbook, each with the cells that it uses."""
    relations = ElementTree.fromstring(_part(archive, "xl/_rels/workbook.xml.rels"))
    targets = {each.get("Id"): each.get("Target", "") for each in relations}
    workbook = ElementTree.fromstring(_part(archive, "xl/workbook.xml"))
    told = []
    for sheet in workbook.iter(f"{_SHEET}sheet"):
        place = targets.get(sheet.get(_RELATION), "").lstrip("/")
        head = _part(archive, place if place.startswith("xl/") else f"xl/{place}", 4_000)
        used = re.search(rb'<dimension ref="([A-Z0-9:]{1,30})"', head)
        title = name(sheet.get("name", ""))
        told.append(f"{title}: cells {used[1].decode()}" if used else title)
    return told


def _part(archive: zipfile.ZipFile, place: str, most: int = 2_000_000) -> bytes:
    with archive.open(place) as stream:
        return stream.read(most)


DESCRIBERS: dict[str, Describer] = {f"{__name__}.DataFile": data_file}
