"""The numbers of what a turn has seen, so that any number is found without reading it again."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from jupyter_agent.core.events import SeenIn
from jupyter_agent.grounding.numbers import NumberReading, spellings, western
from jupyter_agent.grounding.scales import is_suffix, suffix_after

LONGEST = 1_000_000
"""Characters of one source that are read: its first and its last half million."""
EARLIER = 20
"""Turns before this one in which is looked."""
_TOKEN = re.compile("[0-9](?:[0-9,.'’_]*[0-9])?(?:[eE][+-]?[0-9]{1,4}(?![0-9]))?([%％‰A-Za-zµμ]?)")
_NO_NUMBER = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACED = re.compile("[0-9]{1,3}(?:[\u00a0\u202f\u2009][0-9]{3})+(?![0-9])")
_RANK: dict[SeenIn, int] = {"output": 0, "task": 1, "variable": 2, "earlier": 3, "code": 4}
_SIMPLE = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,2}|\.[0-9]{4,20})?")
_PART = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_LETTERS = re.compile(r"[^\W\d]+")
_EXACT = 1e-15
_MINUS = frozenset("-\u2212")
_INFINITE = float("inf")
Numbers: TypeAlias = "array[float]"


@dataclass(frozen=True, slots=True)
class Source:
    """A text in which a number may have been seen.

    Args:
        text: What was printed, said or described.
        kind: What kind of text it is.
        step: The step that it belongs to; 0 for none.
        call_id: The tool call that it belongs to.
    """

    text: str
    kind: SeenIn = "output"
    step: int = 0
    call_id: str = ""


class Index:
    """Finds numbers in sources. Each source is read once, when it is added.

    Args:
        sources: What to read at once.
        earlier: What was seen before, in which is looked last.

    Attributes:
        characters: How many characters were read.
        lookups: How many searches were made.
    """

    def __init__(self, sources: Iterable[Source] = (), earlier: Index | None = None) -> None:
        self.earlier = earlier
        self.characters = 0
        self.lookups = 0
        # Sorted arrays: a million numbers in sets and lists would take a hundred megabytes.
        self._sources: list[tuple[Source, Numbers, Numbers]] = []
        self._sizes: list[Numbers] = []
        self._negatives: list[Numbers] = []
        self._long: dict[str, Source] = {}
        for source in sources:
            self.add(source)

    def add(self, source: Source) -> None:
        """Read one more source."""
        text = source.text
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"
        self.characters += len(text)
        found = self._numbers(western(text), source)
        sizes, negatives = (array("d", sorted(values)) for values in found)
        _insert(self._sizes, sizes)
        _insert(self._negatives, negatives)
        at = len(self._sources)
        while at and _rank(self._sources[at - 1][0]) > _rank(source):
            at -= 1
        self._sources.insert(at, (source, sizes, negatives))

    def find(self, reading: NumberReading) -> Source | None:
        """Where a number was seen that this may have been rounded from, the best source first."""
        found = self._find(reading)
        index, turns = self.earlier, 0
        while found is None and index is not None and turns < EARLIER:
            before = index._find(reading)
            found = before and Source("", "earlier")
            index, turns = index.earlier, turns + 1
        return found

    def forget(self, turns: int = EARLIER) -> None:
        """Let go of what was seen more than so many turns ago."""
        index: Index | None = self
        for _ in range(turns):
            index = index and index.earlier
        if index is not None:
            index.earlier = None

    def _find(self, reading: NumberReading) -> Source | None:
        size, slack = float(reading.value), float(reading.slack)
        if size == float("inf") or (reading.value and not size):
            return self._long.get(_digits(reading.value))
        for factor in (1.0, *reading.factors):
            wanted = size * factor
            room = slack * factor * (1 + 1e-9) + wanted * _EXACT
            found = self._nearest(wanted - room, wanted + room, reading.negative)
            if found is not None:
                return found
        return None

    def _nearest(self, low: float, high: float, negative: bool) -> Source | None:
        runs = self._negatives if negative else self._sizes
        self.lookups += len(runs)
        if not any(_has(values, low, high) for values in runs):
            return None
        # Of several that it may have been rounded from, those in the best source count.
        for source, sizes, negatives in self._sources:
            if _has(negatives if negative else sizes, low, high):
                return source
        return None

    def _numbers(self, text: str, source: Source) -> tuple[set[float], set[float]]:
        words = set(text.split())
        simple = set(filter(_SIMPLE.fullmatch, words))  # most of a table: no loop in Python
        sizes = set(map(float, simple))
        negatives: set[float] = set()
        rest = " ".join(words - simple)
        for match in _TOKEN.finditer(rest):
            start, end = match.start(), match.start(1)
            before = rest[start - 1] if start else " "
            if before in _NO_NUMBER:
                continue
            token = f".{match[0][: end - start]}" if before == "." else rest[start:end]
            values = list(_values(rest, token, end))
            sizes.update(values)
            if before in _MINUS and not rest[max(0, start - 2) : start - 1].isalnum():
                negatives.update(values)
            if _INFINITE in values or 0.0 in values:
                self._keep_long(token, source)
        if not text.isascii():
            sizes.update(float(re.sub("[^0-9]", "", spaced)) for spaced in _SPACED.findall(text))
        sizes.discard(_INFINITE)
        negatives.discard(_INFINITE)
        return sizes, negatives

    def _keep_long(self, token: str, source: Source) -> None:
        """A number that is too large or too small for a float is found by its digits."""
        if token.strip("0.,_'’"):
            self._long.setdefault(_digits(Decimal(re.sub("[,_'’]", "", token))), source)


def _values(text: str, token: str, end: int) -> Iterator[float]:
    """What digits with marks between them may say, with what follows them."""
    letters = _LETTERS.match(text, end)
    if letters and not is_suffix(letters[0]):
        return
    mantissa, _, exponent = token.lower().partition("e")
    ways = [f"{way}e{exponent or 0}" for way, _ in spellings(mantissa) if way]
    before = text[max(0, end - len(token) - 1) : end - len(token)]
    inside = text[end : end + 1] in (")", "]", ",") or before in ("(", "[")
    if "," in token and (inside or not ways):
        ways += [part for part in re.split("[,'’_]", token) if _PART.fullmatch(part)]
    suffix = suffix_after(text, end) if text[end : end + 1].strip() else None
    for way in ways:
        value = float(way)
        yield value
        if suffix is not None and suffix.is_share:
            yield value * suffix.factors[0]
        elif suffix is not None and suffix.magnitude != 1:
            yield value * float(suffix.magnitude)


def _has(values: Numbers, low: float, high: float) -> bool:
    at = bisect_left(values, low)
    return at < len(values) and values[at] <= high


def _insert(runs: list[Numbers], run: Numbers) -> None:
    """Add a sorted run; runs of about the same length become one, so that there are few."""
    while runs and len(runs[-1]) <= 2 * len(run):
        # Of what is sorted already this makes one pass.
        run = array("d", sorted([*runs.pop(), *run]))
    if run:
        runs.append(run)


def _rank(source: Source) -> tuple[int, int]:
    return _RANK.get(source.kind, 9), source.step


def _digits(value: Decimal) -> str:
    return str(value.normalize() if len(value.as_tuple().digits) <= 28 else value)
