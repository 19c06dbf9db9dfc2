"""Parquet, SQLite, workbooks and archives. Runs in a process of its own (`apart`).

What is read is bounded: the footer of a Parquet file, some rows of a table or a sheet.
"""

from __future__ import annotations

import re
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jupyter_agent.kernel.describe.datafiles.columns import (
    Column,
    ends,
    find_header,
    level_for,
    share,
)
from jupyter_agent.kernel.describe.parts import (
    Level,
    Listing,
    Part,
    count,
    inert,
    name,
    shows_values,
)

_MOST_COLUMNS = 200
_MOST_TABLES = 30
_MOST_ENTRIES = 10_000
_LARGEST_FOOTER = 64_000_000
_SAMPLED_ROWS = 10_000
"""Rows of a database's table, or of a sheet, that are looked at."""
_AHEAD = 20
"""Rows of a sheet by which its header is found."""
_FEW_TABLES = 5
"""Tables and sheets whose columns are told with what they hold."""


def look_at(look: str, path: Path, level: Level) -> dict[str, Any]:
    """The parts of a description, a listing as its title, total and entries.

    Args:
        look: `parquet`, `sqlite` or `archive`.
        path: The file.
        level: Whether values may be told.
    """
    parts = {"parquet": _parquet, "sqlite": _sqlite, "archive": _archive}[look](path, level)
    return {
        "parts": [
            [part.what, part.total, [str(each) for each in islice(part.entries, _MOST_COLUMNS)]]
            if isinstance(part, Listing)
            else str(part)
            for part in parts
        ]
    }


# Parquet -----------------------------------------------------------------------------------------


def _parquet(path: Path, level: Level) -> Iterator[Part]:
    with path.open("rb") as stream:
        stream.seek(-8, 2)
        end = stream.read()
    footer = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or footer + 12 > path.stat().st_size:
        yield "Parquet, damaged or not complete: its footer is missing"
    elif footer > _LARGEST_FOOTER:
        yield f"Parquet with a footer of {footer:,} bytes: too large to be looked at"
    else:
        yield from _by_library(path, level)


def _by_library(path: Path, level: Level) -> Iterator[Part]:
    with suppress(ImportError):
        yield from _by_pyarrow(path, level)
        return
    with suppress(ImportError):
        yield from _by_duckdb(path, level)
        return
    with suppress(ImportError):
        yield from _by_polars(path)
        return
    yield "Parquet (its columns are told where pyarrow, duckdb or polars is installed)"


def _by_pyarrow(path: Path, level: Level) -> Iterator[Part]:
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

    with path.open("rb") as stream, ParquetFile(stream) as table:
        meta, schema = table.metadata, table.schema_arrow
        yield f"Parquet, {count(meta.num_rows, 'row')} × {count(len(schema), 'column')}"
        found, shown = _statistics(meta), level_for(len(schema), level)
        told = [
            f"{name(each.name)}: {inert(str(each.type), 120)}"
            + _about(found.get(each.name), meta.num_rows, shown)
            for each in islice(schema, _MOST_COLUMNS)
        ]
        yield Listing("columns", len(schema), told)


def _statistics(meta: Any) -> dict[str, tuple[int | None, list[Any]]]:
    """Missing values and ends of columns, by the statistics of the row groups."""
    missing: dict[str, int] = {}
    found_ends: dict[str, list[Any]] = {}
    partial = set()
    for group in range(min(meta.num_row_groups, 1_000)):
        for place in range(min(meta.num_columns, _MOST_COLUMNS)):
            column = meta.row_group(group).column(place)
            key, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_null_count:
                partial.add(key)
            else:
                missing[key] = missing.get(key, 0) + statistics.null_count
            if statistics is not None and statistics.has_min_max:
                found_ends.setdefault(key, []).extend((statistics.min, statistics.max))
    if meta.num_row_groups > 1_000:
        partial.update(missing)
    return {
        key: (None if key in partial else missing.get(key), found_ends.get(key, []))
        for key in missing.keys() | found_ends.keys()
    }


def _by_duckdb(path: Path, level: Level) -> Iterator[Part]:
    import duckdb

    from jupyter_agent.kernel.describe.datafiles.scan import confine

    if set("*?[") & set(str(path)):  # duckdb would look for other files
        yield "Parquet, with wildcards in its name: not looked at"
        return
    base = duckdb.connect(":memory:")
    confine(base, path)
    asked = [str(path)]
    rows = base.execute("SELECT num_rows FROM parquet_file_metadata(?)", asked).fetchall()[0][0]
    types = base.execute("DESCRIBE SELECT * FROM read_parquet(?)", asked).fetchall()
    yield f"Parquet, {count(rows, 'row')} × {count(len(types), 'column')}"
    facts = base.execute(
        "SELECT path_in_schema, sum(stats_null_count), list(stats_min_value), "
        "list(stats_max_value), count(stats_null_count) = count(*) "
        "FROM parquet_metadata(?) GROUP BY path_in_schema",
        asked,
    ).fetchall()
    found = {
        key: (missing if all_told else None, _numbers([*least, *most]))
        for key, missing, least, most, all_told in facts
    }
    shown = level_for(len(types), level)
    told = [
        f"{name(key)}: {inert(str(kind), 120)}{_about(found.get(key), rows, shown)}"
        for key, kind, *_ in types[:_MOST_COLUMNS]
    ]
    yield Listing("columns", len(types), told)


def _numbers(texts: list[Any]) -> list[Any]:
    """Statistics as numbers, if they are; as texts, if these have an order."""
    given = [text for text in texts if text is not None]
    try:
        return [float(text) if "." in text or "e" in text else int(text) for text in given]
    except ValueError:
        return given


def _by_polars(path: Path) -> Iterator[Part]:
    import polars

    table = polars.scan_parquet(path, glob=False)
    schema = table.collect_schema()
    rows = table.select(polars.len()).collect().item()
    yield f"Parquet, {count(rows, 'row')} × {count(len(schema), 'column')}"
    told = [f"{name(key)}: {inert(str(kind), 120)}" for key, kind in schema.items()]
    yield Listing("columns", len(schema), told)


def _about(found: tuple[int | None, list[Any]] | None, rows: int, level: Level) -> str:
    """Missing values and the range of a column."""
    missing, found_ends = found or (None, [])
    told = f", {share(missing, rows)} missing" if missing and rows else ""
    if shows_values(level) and found_ends:
        with suppress(TypeError):  # no order
            told += ends(min(found_ends), max(found_ends))
    return told


# SQLite ------------------------------------------------------------------------------------------

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_FUNCTIONS = frozenset({"count", "min", "max"})
_PRAGMAS = frozenset({"table_info"})


def _sqlite(path: Path, level: Level) -> Iterator[Part]:
    # Immutable: no file is made beside it, not even to share memory with other processes.
    address = f"{path.as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True, timeout=1)) as base:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000_000)
        base.execute("PRAGMA trusted_schema = OFF")
        base.set_authorizer(_authorized)
        steps = iter(range(200))
        base.set_progress_handler(lambda: next(steps, None) is None, 1_000_000)
        base.text_factory = lambda data: data.decode("utf-8", "replace")
        tables = base.execute(
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') "
            "ORDER BY name"
        ).fetchall()
        tables = [each for each in tables if not str(each[0]).startswith("sqlite_")]
        yield f"SQLite database, {count(len(tables), 'table or view', 'tables and views')}"
        if Path(f"{path}-wal").exists():
            yield "what its -wal file holds is not looked at"
        told = [
            _told_table(base, title, kind, sql, level if number < _FEW_TABLES else "schema")
            for number, (title, kind, sql) in enumerate(tables[:_MOST_TABLES])
        ]
        yield Listing("tables", len(tables), told)


def _authorized(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Nothing but reading, by whatever a view, a generated column or a trigger wants to do."""
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    is_function = action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS
    is_pragma = action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS
    return sqlite3.SQLITE_OK if is_function or is_pragma else sqlite3.SQLITE_DENY


def _told_table(base: sqlite3.Connection, title: str, kind: str, sql: str, level: Level) -> str:
    quoted = '"' + title.replace('"', '""') + '"'
    is_plain = kind == "table" and not str(sql).lstrip().upper().startswith("CREATE VIRTUAL")
    word = "" if is_plain else " (view)" if kind == "view" else " (virtual table)"
    try:
        columns = base.execute(f"PRAGMA table_info({quoted})").fetchall()
    except sqlite3.Error as error:  # such as a view that wants to do more than read
        return f"{name(title)}{word}: cannot be read: {inert(str(error), 100)}"
    rows, facts = "", {}
    if is_plain:
        try:
            rows = f", {count(base.execute(f'SELECT count(*) FROM {quoted}').fetchone()[0], 'row')}"
            facts = _facts(base, quoted, [each[1] for each in columns], level)
        except sqlite3.Error:
            rows = rows or ", whose rows cannot be counted at a look"
    told = ", ".join(
        f"{name(each[1])} {name(each[2] or 'any')}{facts.get(each[1], '')}" for each in columns[:40]
    )
    return f"{name(title)}{word}{rows}: {told}"


def _facts(
    base: sqlite3.Connection, quoted: str, columns: list[str], level: Level
) -> dict[str, str]:
    """Missing values and ranges of numbers, by the first rows of a table."""
    if not shows_values(level):
        return {}
    columns = columns[:40]
    names = ['"' + each.replace('"', '""') + '"' for each in columns]
    wanted = ", ".join(f"count({each}), min({each}), max({each})" for each in names)
    row = base.execute(
        f"SELECT count(*), {wanted} FROM (SELECT * FROM {quoted} LIMIT {_SAMPLED_ROWS})"
    ).fetchone()
    found = {}
    for place, each in enumerate(columns):
        there, least, most = row[1 + 3 * place : 4 + 3 * place]
        missing = row[0] - there
        told = [f"{share(missing, row[0])} missing"] if missing else []
        if isinstance(least, int | float) and isinstance(most, int | float):
            told.append(f"{least} to {most}")
        found[each] = f" ({', '.join(told)})" if told else ""
    return found


# Archives and workbooks --------------------------------------------------------------------------

_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_LARGEST_PART = 5_000_000
"""Bytes of a part of a workbook that are read, unpacked."""
_DAYS = frozenset({*range(14, 23), *range(45, 48)})
"""Excel's own formats of dates and times."""


def _archive(path: Path, level: Level) -> Iterator[Part]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "xl/workbook.xml" not in names:
            unpacked = sum(each.file_size for each in archive.infolist())
            yield f"a zip archive of {count(len(names), 'file')}, unpacked {unpacked:,} bytes"
            yield Listing("files", len(names), map(name, names[:_MOST_TABLES]))
            return
        book = _Workbook(archive)
        yield f"Excel workbook, {count(len(book.sheets), 'sheet')}"
        told = [f"{title}{book.used(place)}" for title, place in book.sheets[:_MOST_TABLES]]
        yield Listing("sheets", len(book.sheets), told)
        for title, place in book.sheets[:_FEW_TABLES]:
            yield from _sheet(book, title, place, level)


class _Workbook:
    """The parts of a workbook, each read up to a limit: a bomb unpacks no further than that."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._cut: set[str] = set()
        targets = {
            each.get("Id"): each.get("Target", "")
            for each in self._elements("xl/_rels/workbook.xml.rels")
        }
        self.sheets: list[tuple[str, str]] = []
        for each in self._elements("xl/workbook.xml"):
            if each.tag == f"{_SHEET}sheet":
                place = targets.get(each.get(_RELATION), "").lstrip("/")
                place = place if place.startswith("xl/") else f"xl/{place}"
                self.sheets.append((name(each.get("name", "")), place))
        self.texts = self._texts()
        self.days = self._day_styles()

    def _texts(self) -> list[str]:
        """The texts that cells share."""
        found = []
        with suppress(KeyError):
            for each in self._elements("xl/sharedStrings.xml"):
                if each.tag == f"{_SHEET}si":
                    found.append("".join(each.itertext()))
                    each.clear()
        return found

    def _day_styles(self) -> set[str]:
        """The numbers of the styles that show a number as a date."""
        own, formats = set(_DAYS), []
        with suppress(KeyError):
            parents: list[Any] = []
            for each in self._elements("xl/styles.xml"):
                code = re.sub(r'"[^"]*"|\[[^\]]*\]', "", each.get("formatCode", ""))
                if each.tag == f"{_SHEET}numFmt" and re.search("[ymdhs]", code, re.IGNORECASE):
                    own.add(int(each.get("numFmtId", "-1")))
                if each.tag == f"{_SHEET}cellXfs":
                    parents = list(each)
            formats = [int(each.get("numFmtId", "0")) for each in parents]
        return {str(place) for place, number in enumerate(formats) if number in own}

    def _elements(self, place: str) -> Iterator[ElementTree.Element]:
        """The elements of a part as they end, up to the limit of what is read."""
        parser: Any = ElementTree.XMLPullParser(["end"])
        left = _LARGEST_PART
        with self._archive.open(place) as stream:
            while left > 0 and (data := stream.read(min(65_536, left))):
                if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
                    raise ValueError("a document type in a workbook")
                left -= len(data)
                parser.feed(data)
                for _, element in parser.read_events():
                    yield element
            if stream.read(1):
                self._cut.add(place)

    def is_cut(self, place: str) -> bool:
        """True if a part that was read is longer than the limit."""
        return place in self._cut

    def used(self, place: str) -> str:
        """The cells that a sheet uses, if it says so."""
        with suppress(KeyError), self._archive.open(place) as stream:
            used = re.search(rb'<dimension ref="([A-Z0-9:]{1,30})"', stream.read(4_000))
            return f": cells {used[1].decode()}" if used else ""
        return ""

    def rows(self, place: str) -> Iterator[list[str]]:
        """The rows of a sheet as texts, one entry for each column up to the last that is used."""
        for each in self._elements(place):
            if each.tag == f"{_SHEET}row":
                row: list[str] = []
                for cell in each:
                    at = _column_number(cell.get("r", "")) or len(row) + 1
                    if at <= _MOST_COLUMNS:
                        row += [""] * (at - len(row) - 1)
                        row.append(self._text(cell))
                each.clear()
                yield row

    def _text(self, cell: ElementTree.Element) -> str:
        if cell.get("t") == "inlineStr":
            return "".join(cell.itertext())
        value = cell.findtext(f"{_SHEET}v") or ""
        if cell.get("t") == "s":
            at = int(value or -1)
            return self.texts[at] if 0 <= at < len(self.texts) else "(a text far in the file)"
        if cell.get("t") == "b":
            return "true" if value == "1" else "false"
        if cell.get("s") in self.days and value:
            with suppress(ValueError, OverflowError):
                return _day(float(value))
        return value


def _column_number(reference: str) -> int:
    """The number of the column of `B7`, from 1; 0 if there is none."""
    number = 0
    for letter in re.sub(r"[^A-Z]", "", reference)[:3]:
        number = number * 26 + ord(letter) - 64
    return number


def _day(number: float) -> str:
    """A day as Excel counts it, from 1899-12-30 on."""
    at = datetime(1899, 12, 30) + timedelta(days=number)
    return at.date().isoformat() if number == int(number) else at.isoformat(sep=" ")[:19]


def _sheet(book: _Workbook, title: str, place: str, level: Level) -> Iterator[Part]:
    """The columns of a sheet, by its first rows."""
    rows = (row for row in book.rows(place) if any(row))
    ahead = list(islice(rows, _AHEAD))
    header = find_header(ahead)
    columns = [Column() for _ in header.names]
    seen = 0
    for row in islice(chain(ahead[header.start + header.rows :], rows), _SAMPLED_ROWS):
        seen += 1
        for column, text in zip(columns, [*row, *([""] * len(columns))], strict=False):
            column.add(text)
    is_all = next(rows, None) is None and not book.is_cut(place)
    for column in columns:
        column.is_all = is_all
    about = f"{count(seen, 'row')} × {count(header.width, 'column')}"
    what = f"sheet {title}:" if is_all else f"sheet {title}, a sample: its first"
    yield f"{what} {about}{header.words}"
    told = [
        f"{name(text) or f'column {number}'}: {column.told(level_for(header.width, level))}"
        for number, (text, column) in enumerate(zip(header.names, columns, strict=True), 1)
    ]
    yield Listing(f"columns of {title}", header.width, told)
