"""The counters in an output: index columns, ranges, numbered lines.

A number that an output shows only because it counts its lines says nothing about the data: among
the 300 numbers of an index, nearly any small count and any percentage is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 30_000
"""Characters of a text that are searched. In longer ones a counter is one of `Index`'s crowds."""
CONSECUTIVE = 5
"""Consecutive whole numbers that are a counter; pandas shows that many at each end of a table."""
EVENLY_SPACED = 12
"""Numbers with another step between them that are a counter."""
_NUMBER = re.compile(
    r"(?<![\w.])-?(?:[0-9]{1,3}(?:,[0-9]{3}){1,3}(?![0-9,])|[0-9]{1,15}(?:\.[0-9]{1,15})?)"
    r"(?![\w]|\.[0-9])"
)
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Counter:
    """Numbers that a text counts with.

    Args:
        text: The numbers as they are written, with a space between them.
        count: How many they are.
        step: The difference from one to the next.
    """

    text: str
    count: int
    step: float

    @property
    def words(self) -> str:
        """What it is: "300 consecutive numbers"."""
        kind = "consecutive" if abs(self.step) == 1 else "evenly spaced"
        return f"{self.count:,} {kind} numbers"


def without_counters(text: str) -> tuple[str, list[Counter]]:
    """A text with blanks in the place of its counters, and those."""
    if len(text) > LONGEST:
        return text, []
    spans = [match.span() for match in _NUMBER.finditer(text)]
    if len(spans) < CONSECUTIVE:
        return text, []
    values = [float(text[start:end].replace(",", "")) for start, end in spans]
    found: list[Counter] = []
    used: set[int] = set()
    in_a_row = list(range(-1, len(spans) - 1))
    in_columns = _above(text, spans)
    for chain in (*_counters(values, in_a_row), *_counters(values, in_columns)):
        fresh = [index for index in chain if index not in used]
        if len(fresh) < len(chain) - 1:  # one number may end one counter and begin the next
            continue
        used.update(fresh)
        words = " ".join(text[slice(*spans[index])] for index in fresh)
        found.append(Counter(words, len(chain), values[chain[1]] - values[chain[0]]))
    if not used:
        return text, []
    parts: list[str] = []
    last = 0
    for index in sorted(used):
        start, end = spans[index]
        parts += [text[last:start], " " * (end - start)]
        last = end
    return "".join([*parts, text[last:]]), found


def _above(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """For each number the one at the same place of the last line with numbers, or -1."""
    before: list[int] = []
    line_end, above, line = -1, range(0), range(0)
    for index, (start, _) in enumerate(spans):
        if start > line_end:
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
            above, line = range(line.start, index), range(index, len(spans))
        place = index - line.start
        before.append(above[place] if place < len(above) else -1)
    return before


def _counters(values: Sequence[float], before: Sequence[int]) -> list[list[int]]:
    """The longest chains of numbers with the same step between them that are counters.

    Args:
        values: The numbers.
        before: For each number the index of the one that a chain comes from, or -1.

    Returns:
        The indexes of each chain, in the order in which the chains begin.
    """
    # A loop of plain lists: this reads each number of each output.
    lengths: list[int] = []
    steps: list[float] = []
    goes_on = [False] * len(values)
    largest = max(map(abs, values))
    most = _TOLERANCE * max(1.0, largest)
    for value, earlier in zip(values, before, strict=True):
        if earlier < 0:
            lengths.append(1)
            steps.append(0.0)
            continue
        step, last = value - values[earlier], steps[earlier]
        length = 2
        gap = step - last
        if last and -most <= gap <= most and abs(gap) <= _TOLERANCE * max(1.0, abs(value)):
            length = lengths[earlier] + 1
            goes_on[earlier] = True
        lengths.append(length)
        steps.append(step)
    found: list[tuple[int, list[int]]] = []
    for index, length in enumerate(lengths):
        if length >= CONSECUTIVE and not goes_on[index]:
            chain = [index]
            while len(chain) < length:
                chain.append(before[chain[-1]])
            first, second = chain[-1], chain[-2]
            step = abs(values[second] - values[first])
            if step == 1 or (step > 0 and length >= EVENLY_SPACED):
                found.append((first if before[first] < 0 else second, chain[::-1]))
    return [chain for _, chain in sorted(found)]
