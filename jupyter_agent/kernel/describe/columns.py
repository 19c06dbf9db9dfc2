"""What the texts in one column of a file are: kinds, missing values, ranges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jupyter_agent.kernel.describe.parts import Level, inert, shows_values

EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
"""Texts that stand for a missing value, in lower case."""
MOST_VALUES = 12
"""Different texts of a column that are listed; of one with more of them none is."""
_LONGEST = 200
"""Characters of a text whose kind is looked at; a longer one is text."""
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_OTHER_DATE = re.compile(r"\d{1,2}([./])\d{1,2}\1\d{2,4}(?: \d\d:\d\d(?::\d\d)?)?")
_ZEROS = re.compile(r"0\d+")


@dataclass(slots=True)
class Column:
    """What the rows that were looked at hold in one column.

    Attributes:
        rows: How many rows.
        missing: In how many of them the value is missing.
        kinds: How many values are of each kind.
        values: The first different texts, up to one more than `MOST_VALUES`.
        least: The smallest value of the kinds that have an order; None if there is none.
        most: The largest one.
        is_all: True if all rows of the file were looked at.
    """

    rows: int = 0
    missing: int = 0
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
        if set(self.kinds) == {"integer", "number"}:
            return "number"
        return self.kinds.most_common(1)[0][0] if self.kinds else "empty"

    def told(self, level: Level) -> str:
        """The column in words: `integer, 2.0% missing, 1 to 9`."""
        words = self.kind
        same = {"integer", "number"} if words == "number" else {words}
        others = [f"{n:,} {kind}" for kind, n in self.kinds.most_common() if kind not in same]
        if others:
            words += f" (but {', '.join(others)})"
        if self.missing and self.kinds:
            words += f", {share(self.missing, self.rows)} missing"
        if shows_values(level):
            words += self._values(not others)
        return words

    def _values(self, is_one_kind: bool) -> str:
        if self.kind == "text" and 0 < len(self.values) <= MOST_VALUES:
            listed = ", ".join(inert(each, 30) for each in self.values)
            return f", values{'' if self.is_all else ' such as'}: {listed}"
        if is_one_kind and self.least is not None:
            return f", {inert(str(self.least), 40)} to {inert(str(self.most), 40)}"
        return ""


def share(part: int, whole: int) -> str:
    """A share in percent, never 0.0% for what there is."""
    return f"{part / whole:.1%}" if part / whole >= 0.001 else "less than 0.1%"


def is_header(row: list[str]) -> bool:
    """True if a first row names columns: words, each once."""
    texts = [text.strip() for text in row]
    return all(typed(text)[0] == "text" for text in texts if text) and len(set(texts)) == len(texts)


def typed(text: str) -> tuple[str, Any]:
    """The kind of a field's text, and its value in that kind; None if the kind has no order."""
    if len(text) > _LONGEST:
        return "text", text
    if _INTEGER.fullmatch(text):
        if _ZEROS.fullmatch(text):
            return "text with leading zeros", text
        return "integer", int(text)
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
        return "truth value", None
    return "text", text


def _least(one: Any, other: Any) -> Any:
    return min(one, other) if _comparable(one, other) else one


def _most(one: Any, other: Any) -> Any:
    return max(one, other) if _comparable(one, other) else one


def _comparable(one: Any, other: Any) -> bool:
    return isinstance(one, str) == isinstance(other, str)
