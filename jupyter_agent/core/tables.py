"""Tables, and parts that unfold, as plain text and as HTML with inline styles alone."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from jupyter_agent.core.plaintext import plain

_LINE = "rgba(128,128,128,.3)"
_CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0"
_HEAD = f"{_CELL};border-bottom:1px solid {_LINE};font-weight:600;white-space:nowrap"
_TABLE = "border-collapse:collapse;margin:4px 0 8px;font-size:13px"
_PRE = "margin:4px 0;white-space:pre-wrap;overflow-wrap:break-word;word-break:normal;font-size:12px"
_FOLDED = f"border:1px solid {_LINE};border-radius:5px;padding:2px 8px;margin:4px 0;font-size:13px"
_SUMMARY = "cursor:pointer;overflow-wrap:break-word"
_NUMBER = re.compile(r"<?[-+−$]?[\d.,]+ ?%?|\?|unknown")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. The first cell of a row is its name; a row of one cell is a heading.

    With `head`, the names of the columns, numbers stand on the right of their column.
    """

    rows: tuple[tuple[str, ...], ...]
    head: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [tuple(map(plain, row)) for row in ((self.head,) if self.head else ()) + self.rows]
        columns = max(map(len, rows), default=0)
        widths = [
            max((len(row[index]) for row in rows if len(row) > index + 1), default=0)
            for index in range(columns)
        ]
        right = self._numeric()
        lines = (
            "  ".join(
                cell.rjust(width) if index in right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=False))
            ).rstrip()
            for row in rows
        )
        return "\n".join(lines)

    @property
    def html(self) -> str:
        right = self._numeric()
        head = "".join(
            f'<th style="{_aligned(_HEAD, index, right)}">{html.escape(plain(name))}</th>'
            for index, name in enumerate(self.head)
        )
        rows = "".join(f"<tr>{self._row(row, right)}</tr>" for row in self.rows)
        return f'<table style="{_TABLE}">{f"<tr>{head}</tr>" if head else ""}{rows}</table>'

    def changed(self, change: Callable[[str], str]) -> Table:
        """The table with each text changed."""
        return replace(self, rows=tuple(tuple(map(change, row)) for row in self.rows))

    def _row(self, row: tuple[str, ...], right: frozenset[int]) -> str:
        cells = []
        for index, cell in enumerate(row):
            inside = html.escape(plain(cell))
            is_name = not index and len(row) > 1 and not self.head
            shown = f"<code>{inside}</code>" if is_name else inside
            # The last column has the room for long texts.
            is_whole = self.head and index < len(self.head) - 1
            style = f"{_CELL};white-space:nowrap" if is_whole and len(cell) < 40 else _CELL
            cells.append(f'<td style="{_aligned(style, index, right)}">{shown}</td>')
        return "".join(cells)

    def _numeric(self) -> frozenset[int]:
        """The columns in which each cell is a number or empty."""
        if not self.head:
            return frozenset()
        cells = [[row[at] for row in self.rows if at < len(row)] for at in range(len(self.head))]
        numbers = (all(not cell or _NUMBER.fullmatch(cell) for cell in column) for column in cells)
        return frozenset(index for index, is_numeric in enumerate(numbers) if is_numeric)


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts below a title, folded in HTML."""

    title: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        inside = "\n".join(map(part_text, self.parts))
        return "\n".join([plain(self.title), *(f"  {text}" for text in inside.split("\n"))])

    @property
    def html(self) -> str:
        inside = "".join(map(part_html, self.parts))
        title = html.escape(plain(self.title))
        return (
            f'<details style="{_FOLDED}"><summary style="{_SUMMARY}">{title}</summary>'
            f"{inside}</details>"
        )

    def changed(self, change: Callable[[str], str]) -> Folded:
        """The same with each text changed."""
        return Folded(change(self.title), tuple(changed(part, change) for part in self.parts))


Part = Table | Folded | str


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> Table:
    """A table of these rows.

    Args:
        rows: The rows.
        head: The names of the columns.
    """
    return Table(tuple(tuple(row) for row in rows), tuple(head))


def changed(part: Part, change: Callable[[str], str]) -> Part:
    """A part with each of its texts changed."""
    return change(part) if isinstance(part, str) else part.changed(change)


def part_text(part: Part) -> str:
    """The plain text of a part, without codes for a terminal."""
    return plain(part) if isinstance(part, str) else str(part)


def part_html(part: Part) -> str:
    """The HTML of a part, escaped."""
    if isinstance(part, str):
        return f'<pre style="{_PRE}">{html.escape(plain(part))}</pre>'
    return part.html


def _aligned(style: str, index: int, right: frozenset[int]) -> str:
    return style.replace("text-align:left", "text-align:right") if index in right else style
