"""The numbers of what a turn has seen, so that any number is found without reading it again."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, insort_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from jupyter_agent.core.events import SeenIn
from jupyter_agent.grounding.counters import without_counters
from jupyter_agent.grounding.numbers import NumberReading, spellings, western
from jupyter_agent.grounding.scales import is_suffix, suffix_after

LONGEST = 1_000_000
"""Characters of one source that are read: its first and its last half million."""
EARLIER = 20
"""Turns before this one in which is looked."""
_TOKEN = re.compile("[0-9](?:[0-9,.'’_]*[0-9])?(?:[eE][+-]?[0-9]{1,4}(?![0-9]))?([%％‰A-Za-zµμ]?)")
_NO_NUMBER = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACED = re.compile("[0-9]{1,3}(?:[\u00a0\u202f\u2009][0-9]{3})+(?![0-9])")
_DATE = re.compile(
    r"(?<![0-9])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?![0-9]))?)?"
)
_DATES = 3
_RANK: dict[SeenIn, int] = {"output": 0, "task": 1, "variable": 2, "earlier": 3, "code": 4}
_SIMPLE = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,2}|\.[0-9]{4,20})?")
_PART = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_LETTERS = re.compile(r"[^\W\d]+")
_EXACT = 1e-15
_BULK = 150
"""Different numbers in a source below which none of them is one of a crowd."""
_CROWD = 12
"""Numbers near another one that may be a crowd."""
_CROWDED = 0.5
"""The share of the numbers as precise as the answer's, near it, that a crowd has."""
_NEAR = 0.3
_NEAR_UNITS = 12
_LOOKS = 32
_CROWDS = 4
"""Sources in which a number is one of a crowd, after which it is one in each large source."""
_SMALL = 20
"""A whole number up to this is found for any claim whose unit may be converted."""
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


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a number was seen.

    Args:
        source: The best source.
        only: Why that says little: "among 300 consecutive numbers"; empty if it says enough.
    """

    source: Source
    only: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """The numbers of a source: sorted, without signs. `counters` have their words."""

    source: Source
    sizes: Numbers
    negatives: Numbers
    counters: tuple[tuple[Numbers, Numbers, str], ...] = ()


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
        self._sources: list[_Read] = []
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
        text = western(text)
        if len(_DATE.findall(text)) >= _DATES:  # a column, whose days and months count nothing
            text = _DATE.sub(lambda found: " " * len(found[0]), text)
        bare, counters = without_counters(text)
        sizes, negatives = self._sorted(bare, source)
        counted = ((*self._sorted(each.text, source), each.words) for each in counters)
        read = _Read(source, sizes, negatives, tuple(counted))
        for kept_sizes, kept_negatives in ((sizes, negatives), *(c[:2] for c in read.counters)):
            _insert(self._sizes, kept_sizes)
            _insert(self._negatives, kept_negatives)
        insort_right(self._sources, read, key=lambda each: _rank(each.source))

    def find(self, reading: NumberReading) -> Sighting | None:
        """Where a number was seen that this may have been rounded from.

        The best source in which that says something counts, then earlier turns, then the best
        source in which many numbers near it would have been found as well.
        """
        weak = self._find(reading)
        if weak is not None and not weak.only:
            return weak
        index, turns = self.earlier, 0
        while index is not None and turns < EARLIER:
            before = index._find(reading)
            if before is not None and not before.only:
                return Sighting(Source("", "earlier"))
            weak = weak or (before and Sighting(Source("", "earlier"), before.only))
            index, turns = index.earlier, turns + 1
        return weak

    def forget(self, turns: int = EARLIER) -> None:
        """Let go of what was seen more than so many turns ago."""
        index: Index | None = self
        for _ in range(turns):
            index = index and index.earlier
        if index is not None:
            index.earlier = None

    def _find(self, reading: NumberReading) -> Sighting | None:
        size, slack = float(reading.value), float(reading.slack)
        if size == float("inf") or (reading.value and not size):
            source = self._long.get(_digits(reading.value))
            return Sighting(source) if source else None
        weak: Sighting | None = None
        for factor in (1.0, *reading.factors):
            wanted = size * factor
            room = slack * factor * (1 + 1e-9) + wanted * _EXACT
            for found in self._nearest(wanted - room, wanted + room, reading.negative):
                only = found.only
                if factor != 1 and not only:
                    only = _small(wanted - room, wanted + room)
                if not only:
                    return found
                weak = weak or Sighting(found.source, only)
        return weak

    def _nearest(self, low: float, high: float, negative: bool) -> Iterator[Sighting]:
        """The sources with a number in these bounds, the best first."""
        runs = self._negatives if negative else self._sizes
        self.lookups += len(runs)
        if not any(_has(values, low, high) for values in runs):
            return
        crowds = 0
        for read in self._sources:
            values = read.negatives if negative else read.sizes
            if _has(values, low, high):
                is_new = crowds < _CROWDS or len(values) < _BULK
                crowd = _crowd(values, low, high) if is_new else len(values)
                crowds += bool(crowd)
                yield Sighting(read.source, f"among {crowd:,} numbers" if crowd else "")
            for sizes, negatives, words in read.counters:
                if _has(negatives if negative else sizes, low, high):
                    yield Sighting(read.source, f"among {words}")

    def _sorted(self, text: str, source: Source) -> tuple[Numbers, Numbers]:
        sizes, negatives = (array("d", sorted(values)) for values in self._numbers(text, source))
        return sizes, negatives

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


def _small(low: float, high: float) -> str:
    """Why a number that was found in another unit says little: a small whole one; else empty."""
    number = round(low) if low <= round(low) else round(high)
    is_there = number <= _SMALL and low <= number <= high
    return f"as the number {number} in another unit" if is_there else ""


def _crowd(values: Numbers, low: float, high: float) -> int:
    """How many numbers there are, if most of those near the bounds are there; else 0.

    Looked at are the numbers as precise as the bounds are apart: of 214, those from 150 to 278.
    If most of them would be found, too, that one is found is chance.
    """
    if len(values) < _BULK:
        return 0
    unit, wanted = max(high - low, 1e-300), (low + high) / 2
    around = max(_NEAR_UNITS * unit, _NEAR * wanted)
    start, end = max(0.0, wanted - around), wanted + around
    near = bisect_left(values, end) - bisect_left(values, start)
    cells = (end - start) / unit
    if near < _CROWD or near < _CROWDED * cells:
        return 0
    looks = int(min(cells, _LOOKS))
    width, room = (end - start) / looks, unit / 2
    needed = max(_CROWDED * looks, _CROWD * looks / cells)
    taken, misses_left = 0, looks - needed
    for each in range(looks):
        place = start + width * (each + 0.5)
        at = bisect_left(values, place - room)
        if at < len(values) and values[at] <= place + room:
            taken += 1
            if taken >= needed:
                return len(values)
        else:
            misses_left -= 1
            if misses_left < 0:
                break
    return 0


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
