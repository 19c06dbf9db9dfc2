"""Tables as text: delimiter, header, columns, and lines with another number of fields."""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from jupyter_agent.kernel.describe.apart import ask_apart
from jupyter_agent.kernel.describe.columns import Column, is_header
from jupyter_agent.kernel.describe.lookedat import Look
from jupyter_agent.kernel.describe.parts import Level, Listing, Part, count, name

MOST_ROWS = 20_000
"""Rows of the beginning that are looked at one by one."""
_MOST_FIELDS = 200_000
"""Fields of the beginning, and of all places further on."""
_MOST_COLUMNS = 200
_LONGEST_LINE = 100_000
_SCANNED = 300_000_000
"""Bytes of a file that is scanned whole, by duckdb or polars; of a larger one a sample is told."""
_SCAN_SECONDS = 20.0
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SCANNABLE = ("utf-8", "latin-1")


@dataclass(slots=True)
class _Table:
    """What was found in a table.

    Attributes:
        header: The names of the columns.
        skipped: The number of the line where the header ends; 0 if there is none.
        columns: What they hold.
        rows: How many rows were looked at.
        odd: The lines of those with another number of fields.
        odd_total: How many of these there are.
        odd_are_all: False if only some rows were looked at for them.
        is_all: True if these are all rows.
    """

    header: list[str]
    skipped: int
    columns: list[Column]
    rows: int = 0
    odd: list[int] = field(default_factory=list)
    odd_total: int = 0
    odd_are_all: bool = True
    is_all: bool = True

    def add(self, row: list[str], line: int) -> None:
        self.rows += 1
        if len(row) != len(self.header):
            self.odd_total += 1
            if line and len(self.odd) < 5:
                self.odd.append(line)
            return
        for column, text in zip(self.columns, row, strict=True):
            column.add(text)


def dialect(head: str, suffix: str) -> str:
    """The delimiter of a table; empty if the text is none."""
    sample = [line for line in islice(io.StringIO(head), 60) if line.strip()][:50]
    if any(len(line) > _LONGEST_LINE for line in sample):
        return ""
    if suffix == ".tsv":
        return "\t"
    best, most = "", 0.0
    for delimiter in _DELIMITERS:
        widths = Counter(map(len, _rows("".join(sample), delimiter)))
        width, times = widths.most_common(1)[0] if widths else (1, 0)
        # Most rows have as many fields, more than one.
        if width > 1 and times >= 0.7 * widths.total() and (score := times * width) > most:
            best, most = delimiter, score
    if suffix == ".csv":
        return best or ","
    return best if len(sample) > 1 else ""


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """The rows up to the first that is none: a field too long, a stray character."""
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        found.extend(csv.reader(io.StringIO(text), delimiter=delimiter))
    return found


def separated(path: Path, look: Look, delimiter: str, level: Level) -> Iterator[Part]:
    """A table as text, by all of its rows or by a sample, which is said.

    Raises:
        csv.Error: It is no table after all.
    """
    table = _looked_at(look, delimiter)
    note = ""
    if not table.is_all:
        note = _scan(path, look, delimiter, table)
    about = "" if table.is_all else "about "
    total = table.rows if table.is_all else look.lines - table.skipped
    yield (
        f"table with {about}{count(total, 'row')} × {count(len(table.header), 'column')}, "
        f"delimiter {_DELIMITERS[delimiter]}, {look.spelled}"
        + ("" if table.skipped else ", without a header")
    )
    if not table.is_all:
        yield f"a sample: {count(table.rows, 'row')} of its beginning{look.further}{note}"
    if table.odd_total:
        lines = ", ".join(map(str, table.odd)) or "further on"
        more = ", …" if table.odd_total > len(table.odd) else ""
        where = "" if table.odd_are_all else " (of the beginning alone)"
        odd = f"{count(table.odd_total, 'line')} with another number of fields{where}"
        yield f"{odd}: {lines}{more}"
    told = (
        f"{name(title.strip())}: {column.told(level)}"
        for title, column in islice(zip(table.header, table.columns, strict=True), _MOST_COLUMNS)
    )
    yield Listing("columns", len(table.header), told)


def _looked_at(look: Look, delimiter: str) -> _Table:
    """The rows of the look: all of a short file, a sample of a long one."""
    rows = csv.reader(io.StringIO(look.head), delimiter=delimiter)
    first = next((row for row in rows if row), [])
    has_header = is_header(first)
    header = first if has_header else [f"column {i}" for i in range(1, len(first) + 1)]
    skipped = rows.line_num if has_header else 0
    table = _Table(header, skipped, [Column() for _ in header])
    most = max(100, min(MOST_ROWS, _MOST_FIELDS // max(1, len(header))))
    if not has_header:
        table.add(first, rows.line_num)
    _fill(table, rows, most)
    table.is_all = look.is_whole and next(rows, None) is None
    if not table.is_all:
        for block in look.blocks:
            further = csv.reader(io.StringIO(block), delimiter=delimiter)
            _fill(table, further, most // len(look.blocks), is_further=True)
    for column in table.columns:
        column.is_all = table.is_all
    return table


def _fill(table: _Table, rows: Any, most: int, is_further: bool = False) -> None:
    """Add `most` rows of a reader; of a place further on the lines have no known number, and a
    row that fits badly may be a half of one in quotes."""
    for row in islice(rows, most):
        if row and (not is_further or len(row) == len(table.header)):
            table.add(row, 0 if is_further else rows.line_num)


# All rows ----------------------------------------------------------------------------------------


def _scan(path: Path, look: Look, delimiter: str, table: _Table) -> str:
    """Replace the sample by what duckdb or polars find in all rows; why not, if they do not."""
    is_large = look.size > _SCANNED or len(table.header) > _MOST_COLUMNS
    if is_large or look.encoding.name not in _SCANNABLE or look.is_broken:
        return ""
    request = {
        "delimiter": delimiter,
        "encoding": look.encoding.name,
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
    if found["odd_total"] is None:
        table.odd_are_all = False
    else:
        table.odd, table.odd_total = found["odd"], found["odd_total"]
    for column, facts in zip(table.columns, found["columns"], strict=True):
        kind, fitting = _scanned_kind(column), facts["fitting"]
        # The sample knows which other kinds there are, but not how often.
        unlike = next((each for each in column.kinds if each != kind), "text")
        column.rows, column.missing = facts["rows"], facts["missing"]
        others = column.rows - column.missing - fitting
        column.kinds = +Counter({kind: fitting, unlike: others})
        column.least, column.most = facts["least"], facts["most"]
