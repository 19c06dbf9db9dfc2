"""What the texts in one column of a file are: kinds, missing values, ranges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any

from jupyter_agent.kernel.describe.parts import Level, count, inert, shows_values

EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
"""Texts that stand for a missing value, in lower case."""
_MARKS = frozenset("-?")
"""Those of them that pandas takes for texts."""
MOST_VALUES = 12
"""Different texts of a column that are listed; of one with more of them none is."""
_MANY_COLUMNS = 60
MOST_NAMED = 500
"""Columns of a table that are looked at; of the others only the number is told."""
_LONGEST = 200
"""Characters of a text whose kind is looked at; a longer one is text."""
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d+|[+-]?\d{1,3}(?:,\d{3}){2,}")
_GROUPED_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+|[+-]?\d{1,3}(?:\.\d{3}){2,}")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_OTHER_DATE = re.compile(r"\d{1,2}([./])\d{1,2}\1\d{2,4}(?: \d\d:\d\d(?::\d\d)?)?")
_COMMA = "number with a decimal comma"
_ZEROS = re.compile(r"0\d+")


@dataclass(slots=True)
class Column:
    """What the rows that were looked at hold in one column.

    Attributes:
        rows: How many rows.
        missing: In how many of them the value is missing.
        marks: How missing values are written, where pandas does not expect it.
        kinds: How many values are of each kind.
        values: The first different texts, up to one more than `MOST_VALUES`.
        least: The smallest value of the kinds that have an order; None if there is none.
        most: The largest one.
        is_all: True if all rows of the file were looked at.
    """

    rows: int = 0
    missing: int = 0
    marks: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    values: dict[str, None] = field(default_factory=dict)
    least: Any = None
    most: Any = None
    is_all: bool = True

    def add(self, text: str) -> None:
        """Count one value."""
        self.rows += 1
        text = text.strip()
        if text.casefold() in EMPTY:
            self.missing += 1
            self.marks.update(_MARKS & {text})
            return
        kind, value = typed(text)
        self.kinds[kind] += 1
        if len(self.values) <= MOST_VALUES:
            self.values[text[:_LONGEST]] = None
        if kind != "text" and value is not None:
            self.least = value if self.least is None else _least(self.least, value)
            self.most = value if self.most is None else _most(self.most, value)

    @property
    def kind(self) -> str:
        """The kind of most values; `empty` if there are none."""
        numbers = set(self.kinds) - {"integer"}
        if len(numbers) == 1 and (found := numbers.pop()).startswith("number"):
            return found
        return self.kinds.most_common(1)[0][0] if self.kinds else "empty"

    def told(self, level: Level) -> str:
        """The column in words: `integer, 2.0% missing, 1 to 9`."""
        words = self.kind
        same = {"integer", words} if words.startswith("number") else {words}
        others = [f"{n:,} {kind}" for kind, n in self.kinds.most_common() if kind not in same]
        if others:
            words += f" (but {', '.join(others)})"
        if self.missing and self.kinds:
            marks = "".join(f", written {mark}" for mark in sorted(self.marks))
            words += f", {share(self.missing, self.rows)} missing{marks}"
        if shows_values(level):
            words += self._values(not others)
        return words

    def _values(self, is_one_kind: bool) -> str:
        if self.kind == "text" and 0 < len(self.values) <= MOST_VALUES:
            listed = ", ".join(inert(each, 30) for each in self.values)
            return f", values{'' if self.is_all else ' such as'}: {listed}"
        if is_one_kind and self.least is not None:
            return ends(self.least, self.most)
        return ""


def ends(least: Any, most: Any) -> str:
    """A range in words: `, 1 to 9`. Long fractions are rounded to six digits."""
    texts = [
        f"{end:.6g}" if isinstance(end, float) and len(str(end)) > 9 else inert(str(end), 40)
        for end in (least, most)
    ]
    return f", {' to '.join(texts)}"


def level_for(columns: int, level: Level) -> Level:
    """The level at which columns are told: of a wide table their types alone."""
    return level if columns <= _MANY_COLUMNS else "schema"


def share(part: int, whole: int) -> str:
    """A share in percent, never 0.0% for what there is."""
    return f"{part / whole:.1%}" if part / whole >= 0.001 else "less than 0.1%"


@dataclass(frozen=True, slots=True)
class Header:
    """Where a table begins, and the names of its columns.

    Attributes:
        start: The rows before it: titles and comments.
        rows: The rows that name the columns: 0, 1 or 2.
        names: The names of the first `MOST_NAMED` columns; `column 1` … if no row has them.
        width: How many columns there are.
    """

    start: int
    rows: int
    names: list[str]
    width: int

    @property
    def words(self) -> str:
        """What is unusual about it: `, two header rows`; empty for nothing."""
        rows = (", without a header", "", ", two header rows")[self.rows]
        return f"{rows}, after {count(self.start, 'other row')}" if self.start else rows


def find_header(rows: list[list[str]]) -> Header:
    """The header of a table, by its first rows. A guess: tables do not say what a row is."""
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    start = 0
    if width > 1:
        start = next((i for i, row in enumerate(rows) if len(_filled(row)) > 1), 0)
    widths = [len(row) for row in rows[start:]] or [0]
    first, *below = [row[:MOST_NAMED] for row in rows[start:]] or [[]]
    if below and _names_below(first, below[0], below[1:]):
        both = zip_longest(first, below[0], fillvalue="")
        names = [" / ".join(_filled([upper, lower])) for upper, lower in both]
        return Header(start, 2, names, max(widths[:2]))
    if _names_columns(first, below):
        # R writes no name above the names of rows.
        if widths[0] == width - 1:
            return Header(start, 1, ["row names", *first][:MOST_NAMED], width)
        return Header(start, 1, first, widths[0])
    return Header(start, 0, [f"column {n}" for n in range(1, len(first) + 1)], widths[0])


def _filled(row: list[str]) -> list[str]:
    return [text.strip() for text in row if text.strip()]


def _names_columns(first: list[str], below: list[list[str]]) -> bool:
    """True if a row names columns: words that are unlike what is below, or all different."""
    texts = _filled(first)
    if not all(typed(text)[0] == "text" or _YEAR.fullmatch(text) for text in texts):
        return False
    if len(set(texts)) < len(texts) or any(map(_YEAR.fullmatch, texts)):
        has_years = any(_YEAR.fullmatch(text.strip()) for text in chain(*below))
        return bool(_numeric(below)) and not has_years
    return True


def _names_below(first: list[str], second: list[str], below: list[list[str]]) -> bool:
    """True if the second row names columns, too, such as their units: words above numbers."""
    numeric = _numeric(below) & set(range(len(second)))
    words = {place for place in numeric if typed(second[place].strip())[0] == "text"}
    named = {place for place in words if second[place].strip().casefold() not in EMPTY}
    return len(numeric) > 1 and words == numeric and 2 * len(named) > len(numeric) and bool(first)


def _numeric(rows: list[list[str]]) -> set[int]:
    """The places of columns that hold no words, but anything."""
    found = set()
    for place, column in enumerate(zip_longest(*rows, fillvalue="")):
        texts = [text.strip() for text in column if text.strip().casefold() not in EMPTY]
        if texts and all(typed(text)[0] != "text" for text in texts):
            found.add(place)
    return found


def typed(text: str) -> tuple[str, Any]:
    """The kind of a field's text, and its value in that kind; None if the kind has no order."""
    if len(text) > _LONGEST:
        return "text", text
    if _INTEGER.fullmatch(text):
        if _ZEROS.fullmatch(text):
            return "text with leading zeros", text
        return "integer", int(text)
    if _NUMBER.fullmatch(text):
        return _COMMA if "," in text else "number", float(text.replace(",", "."))
    if _GROUPED_COMMA.fullmatch(text):
        return _COMMA, float(text.replace(".", "").replace(",", "."))
    if _GROUPED.fullmatch(text):
        return "number with thousands separators", float(text.replace(",", ""))
    if _DATE.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return "text", text
        return "date and time" if len(text) > 10 else "date", text
    if _OTHER_DATE.fullmatch(text):
        return "date as " + re.sub(r"\d", "9", text), None
    if text.casefold() in ("true", "false"):
        return "truth value", None
    return "text", text


def _least(one: Any, other: Any) -> Any:
    return min(one, other) if _comparable(one, other) else one


def _most(one: Any, other: Any) -> Any:
    return max(one, other) if _comparable(one, other) else one


def _comparable(one: Any, other: Any) -> bool:
    return isinstance(one, str) == isinstance(other, str)
