"""Tables of pandas and polars, read from their HTML: rows of plain text, without any markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser

from jupyter_agent.core.markup import cleaned_fragment
from jupyter_agent.core.messages import Output, clean

MOST_HTML = 150_000
"""Characters of HTML that are read; a longer table is shown as text."""
MOST_ROWS, MOST_CELLS = 200, 4_000
MOST_LETTERS = 200
"""Characters of one cell."""

_FRAME = re.compile(r"<table\b[^>]{0,200}\bclass=\"[^\"]{0,100}\bdataframe\b")
_SHAPE = re.compile(r"(\d[\d,]*) rows? × (\d[\d,]*) columns?|shape: \((\d[\d_,]*), (\d[\d_,]*)\)")


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell. `across` and `down` are the columns and rows that it covers."""

    text: str
    is_head: bool = False
    across: int = 1
    down: int = 1


TableRow = tuple[TableCell, ...]


@dataclass(frozen=True, slots=True)
class DataTable:
    """The shown rows of a data frame.

    Attributes:
        head: The rows of column labels.
        body: The rows of values, each after the labels of its row.
        rows: The number of all rows.
        columns: The number of all columns.
    """

    head: tuple[TableRow, ...]
    body: tuple[TableRow, ...]
    rows: int
    columns: int

    @property
    def shape(self) -> str:
        return f"{self.rows:,}×{self.columns:,}"


def is_frame(output: Output) -> bool:
    """True if an output shows a data frame, in the HTML of pandas or polars."""
    markup = output.data.get("text/html")
    return (
        output.kind in ("result", "display")
        and isinstance(markup, str)
        and len(markup) <= MOST_HTML
        and _FRAME.search(markup) is not None
    )


def table_of(output: Output) -> DataTable | None:
    """The table that an output shows; None if it shows none, or more than one can be read."""
    return _read(str(output.data["text/html"])) if is_frame(output) else None


@lru_cache(maxsize=16)  # a running step is drawn again and again
def _read(markup: str) -> DataTable | None:
    reader = _Reader()
    # Cleaned HTML is well formed: the parser takes long for some that is not.
    reader.feed(cleaned_fragment(clean(markup)))
    reader.close()
    if reader.tables != 1 or not reader.body:
        return None
    rows, columns = len(reader.body), max(map(_values, reader.body))
    if found := _SHAPE.search(reader.around):
        numbers = [re.sub("[,_]", "", one)[:18] for one in found.groups() if one]
        rows, columns = int(numbers[0]), int(numbers[1])
    return DataTable(tuple(reader.head), tuple(reader.body), rows, columns)


def _values(row: TableRow) -> int:
    return sum(not cell.is_head for cell in row)


class _Reader(HTMLParser):
    """Reads the cells of a table; everything else in it is text or nothing."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.head: list[TableRow] = []
        self.body: list[TableRow] = []
        self.around = ""
        self.tables = 0
        self._cells = 0
        self._in_head = False
        self._row: list[TableCell] | None = None
        self._cell: TableCell | None = None
        self._words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables += 1
        elif tag in ("thead", "tbody"):
            self._in_head = tag == "thead"
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td") and self._row is not None:
            given = dict(attrs)
            across, down = _span(given.get("colspan")), _span(given.get("rowspan"))
            self._cell = TableCell("", tag == "th", across, down)
            self._words = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._cell is not None and self._row is not None:
            text = "".join(self._words).strip()
            shown = text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
            cell, self._cell = self._cell, None
            self._cells += 1
            if self._cells <= MOST_CELLS:
                self._row.append(TableCell(shown, cell.is_head, cell.across, cell.down))
        elif tag == "tr" and self._row is not None:
            rows = self.head if self._in_head else self.body
            if self._row and len(rows) < MOST_ROWS:
                rows.append(tuple(self._row))
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._words.append(data)
        elif self._row is None and len(self.around) < 1_000:
            self.around += data


def _span(value: str | None) -> int:
    is_number = value is not None and value.isascii() and value.isdigit()
    return min(100, max(1, int(value[:4]))) if value and is_number else 1
