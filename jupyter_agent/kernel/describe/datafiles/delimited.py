"""Tables as text: delimiter, header, columns, and lines with another number of fields."""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from jupyter_agent.kernel.describe.datafiles.columns import (
    Column,
    Header,
    find_header,
    level_for,
    typed,
)
from jupyter_agent.kernel.describe.datafiles.sandbox import ask_apart
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

MOST_ROWS = 20_000
"""Rows of the beginning that are looked at one by one."""
_MOST_FIELDS = 200_000
"""Fields of the beginning, and of all later places."""
_MOST_COLUMNS = 200
_LONGEST_LINE = 1_000_000
_AHEAD = 20
"""Rows by which the header is found."""
_MOST_SHOWN = 8
_SCANNED = 50_000_000
"""Bytes of a file that duckdb or polars read whole; a larger one is described by its sample."""
_SCAN_SECONDS = 10.0
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_TABLES = frozenset({".csv", ".tsv", ".tab", ".psv"})
_SCANNABLE = {"utf-8": "utf-8", "latin-1": "latin-1", "cp1252": "latin-1"}
"""Encodings, and those that duckdb knows for them: types and ranges are ASCII."""


@dataclass(slots=True)
class _Table:
    """The findings about a table.

    Attributes:
        header: The names of the columns, and where they stand.
        columns: What the columns hold that the header names.
        skipped: How many lines come before the first row of data.
        rows: How many rows were looked at.
        odd: The line numbers of the first rows with another number of fields.
        odd_total: How many rows have another number of fields.
        is_all: True if these are all rows of the file.
        are_odd_all: True if all rows were counted for `odd_total`.
    """

    header: Header
    columns: list[Column]
    skipped: int
    rows: int = 0
    odd: list[int] = field(default_factory=list)
    odd_total: int = 0
    is_all: bool = True
    are_odd_all: bool = True

    def add(self, row: list[str], line: int) -> None:
        """Count a row, and the number of the line where it ends."""
        self.rows += 1
        if len(row) == self.header.width:
            for column, text in zip(self.columns, row, strict=False):
                column.add(text)
        else:
            self.odd_total += 1
            self.odd = [*self.odd, line][:5]


def find_delimiter(head: str, suffix: str) -> str:
    """The delimiter of a table; empty if a text is none.

    Args:
        head: The beginning of the text.
        suffix: The suffix of the file's name. Text in other files than tables has commas, too.
    """
    sample: list[str] = []
    for line in islice(filter(str.strip, io.StringIO(head)), 50):
        if len(line) > _LONGEST_LINE:
            return ""
        sample.append(line)
        if len(sample) > 1 and sum(map(len, sample)) > _LONGEST_LINE:
            break
    if suffix == ".tsv":
        return "\t"
    best, most = "", 0
    for delimiter in _DELIMITERS:
        rows = _rows("".join(sample), delimiter)
        width, times = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width == 1 or 2 * times < len(rows):
            continue
        if suffix not in _TABLES and not _is_table(rows, width, times):
            continue
        if times * width > most:
            best, most = delimiter, times * width
    return best or ("," if suffix in _TABLES else "")


def _is_table(rows: list[list[str]], width: int, times: int) -> bool:
    """True if rows are none of prose or a program: nearly all as wide, numbers in a column."""
    below = [row for row in rows[1:] if len(row) == width]
    columns = zip(*below, strict=True)
    is_numeric = any(all(typed(text.strip())[0] != "text" for text in each) for each in columns)
    return times >= 0.7 * len(rows) and is_numeric


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows up to the first that cannot be read, such as one with a field too long."""
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        found.extend(csv.reader(io.StringIO(text), delimiter=delimiter))
    return found


def delimited(path: Path, sample: TextSample, delimiter: str, level: Level) -> Iterator[Part]:
    """The parts of a table's description: by all rows, or by a sample, as it says.

    Raises:
        csv.Error: The text is no table after all.
    """
    table = _looked_at(sample, delimiter)
    note = "" if table.is_all else _scan(path, sample, delimiter, table)
    about = "" if table.is_all else "about "
    total = table.rows if table.is_all else max(table.rows, sample.lines - table.skipped)
    yield (
        f"table with {about}{count(total, 'row')} × {count(table.header.width, 'column')}, "
        f"delimiter {_DELIMITERS[delimiter]}, {sample.encoding_name}{table.header.words}"
    )
    if not table.is_all:
        yield f"a sample: {count(table.rows, 'row')} of its beginning{sample.places}{note}"
    if table.odd_total:
        lines = ", ".join(map(str, table.odd))
        more = ", …" if table.odd_total > len(table.odd) else ""
        where = "" if table.are_odd_all else " in the sample"
        yield (
            f"{count(table.odd_total, 'line')} with another number of fields{where}: {lines}{more}"
        )
    shown = level_for(table.header.width, level)
    told = (
        f"{name(title.strip()) or '(no name)'}: {column.told(shown)}"
        for title, column in islice(
            zip(table.header.names, table.columns, strict=True), _MOST_COLUMNS
        )
    )
    yield Listing("columns", table.header.width, told)
    if shows_values(level):
        # As they stand: a header is a guess, and so is what a comma means in a number.
        most = min(_MOST_SHOWN, table.skipped + 2)
        first = [inert(line, 200) for line in sample.head[:_LONGEST_LINE].splitlines()[:most]]
        yield Listing("first lines", len(first), first)


def _looked_at(sample: TextSample, delimiter: str) -> _Table:
    """The rows of the sample: all of a short file, some of a long one."""
    reader = csv.reader(io.StringIO(sample.head), delimiter=delimiter)
    rows = ((row, reader.line_num) for row in reader if row)
    ahead = list(islice(rows, _AHEAD))
    header = find_header([row for row, _ in ahead])
    skipped = header.start + header.rows
    table = _Table(
        header=header,
        columns=[Column() for _ in header.names],
        skipped=ahead[skipped - 1][1] if skipped else 0,
    )
    most = max(100, min(MOST_ROWS, _MOST_FIELDS // max(1, header.width)))
    for row, line in islice(chain(ahead[skipped:], rows), most):
        table.add(row, line)
    table.is_all = table.are_odd_all = sample.is_whole and next(rows, None) is None
    if not table.is_all:
        for block in sample.blocks:
            _add_place(table, block, delimiter, most // len(sample.blocks))
    for column in table.columns:
        column.is_all = table.is_all
    return table


def _add_place(table: _Table, block: str, delimiter: str, most: int) -> None:
    """Add rows of a later place. A row that fits badly may be a half of one in quotes."""
    for row in islice(csv.reader(io.StringIO(block), delimiter=delimiter), most):
        if len(row) == table.header.width:
            table.add(row, 0)


# All rows ----------------------------------------------------------------------------------------


def _scan(path: Path, sample: TextSample, delimiter: str, table: _Table) -> str:
    """Replace the sample by the facts of all rows, which duckdb or polars find.

    Returns:
        A note for the description, if a library would help; empty otherwise.
    """
    is_large = sample.size > _SCANNED or table.header.width > _MOST_COLUMNS
    if is_large or sample.encoding.name not in _SCANNABLE or sample.is_broken:
        return ""
    request = {
        "delimiter": delimiter,
        "encoding": _SCANNABLE[sample.encoding.name],
        "skipped": table.skipped,
        "kinds": [_scanned_kind(column) for column in table.columns],
    }
    found = ask_apart("table", path, request, _SCAN_SECONDS)
    if "missing_library" in found:
        return "; where duckdb or polars is installed, all of it is looked at"
    if "problem" not in found:
        _take(table, found)
    return ""


def _scanned_kind(column: Column) -> str:
    return column.kind if column.kinds else "text"


def _take(table: _Table, found: dict[str, Any]) -> None:
    table.rows, table.is_all = found["rows"], True
    if found["odd_total"] is not None:
        table.odd, table.odd_total, table.are_odd_all = found["odd"], found["odd_total"], True
    for column, facts in zip(table.columns, found["columns"], strict=True):
        kind, fitting = _scanned_kind(column), facts["fitting"]
        # The sample knows which other kinds there are, but not how often.
        unlike = next((each for each in column.kinds if each not in (kind, "integer")), "text")
        column.rows, column.missing = facts["rows"], facts["missing"]
        column.kinds = Counter({kind: fitting})
        column.kinds[unlike] += column.rows - column.missing - fitting
        column.kinds = +column.kinds
        column.least, column.most = facts["least"], facts["most"]
