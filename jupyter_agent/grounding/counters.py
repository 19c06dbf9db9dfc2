"""The counters in an output: index columns, ranges, numbered lines.

A number that an output shows only because it counts its lines says nothing about the data: among
the 300 numbers of an index, nearly any small count and any percentage is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    value: float
    line: int
    place: int
    """Its place among the numbers of its line, from 0."""


def without_counters(text: str) -> tuple[str, list[Counter]]:
    """A text with blanks in the place of its counters, and those."""
    if len(text) > LONGEST:
        return text, []
    tokens = list(_tokens(text))
    if len(tokens) < CONSECUTIVE:
        return text, []
    found: list[Counter] = []
    used: set[int] = set()
    for chain in (*_chains(tokens, _in_a_row(tokens)), *_chains(tokens, _in_columns(tokens))):
        fresh = [index for index in chain if index not in used]
        if len(fresh) < len(chain) - 1:  # one number may end one counter and begin the next
            continue
        used.update(fresh)
        words = " ".join(text[tokens[index].start : tokens[index].end] for index in fresh)
        step = tokens[chain[1]].value - tokens[chain[0]].value
        found.append(Counter(words, len(chain), step))
    if not used:
        return text, []
    parts: list[str] = []
    last = 0
    for index in sorted(used):
        token = tokens[index]
        parts += [text[last : token.start], " " * (token.end - token.start)]
        last = token.end
    return "".join([*parts, text[last:]]), found


def _tokens(text: str) -> Iterator[_Token]:
    line = place = last = 0
    for match in _NUMBER.finditer(text):
        breaks = text.count("\n", last, match.start())
        line, place = (line + breaks, 0) if breaks else (line, place + 1 if last else 0)
        last = match.end()
        yield _Token(*match.span(), float(match[0].replace(",", "")), line, place)


def _in_a_row(tokens: Sequence[_Token]) -> list[int]:
    """For each number the one before it in the text."""
    return list(range(-1, len(tokens) - 1))


def _in_columns(tokens: Sequence[_Token]) -> list[int]:
    """For each number the one at the same place of the last line with numbers, or -1."""
    before: list[int] = []
    last: dict[int, int] = {}
    current: dict[int, int] = {}
    line = -1
    for index, token in enumerate(tokens):
        if token.line != line:
            last, current, line = current, {}, token.line
        current[token.place] = index
        before.append(last.get(token.place, -1))
    return before


def _chains(tokens: Sequence[_Token], before: Sequence[int]) -> Iterator[list[int]]:
    """The longest chains of numbers with the same step between them that are counters."""
    chain_of: dict[int, list[int]] = {}
    chains: list[list[int]] = []
    for index, token in enumerate(tokens):
        chain = chain_of.get(before[index])
        if chain is not None and _goes_on(tokens, chain, token.value):
            chain.append(index)
        else:
            chain = [index] if before[index] < 0 else [before[index], index]
            chains.append(chain)
        chain_of[index] = chain
    return (chain for chain in chains if _is_counter(tokens, chain))


def _goes_on(tokens: Sequence[_Token], chain: Sequence[int], value: float) -> bool:
    last = tokens[chain[-1]].value
    if len(chain) < 2:
        return value != last
    step = last - tokens[chain[-2]].value
    return step != 0 and abs(value - last - step) <= _TOLERANCE * max(1.0, abs(value))


def _is_counter(tokens: Sequence[_Token], chain: Sequence[int]) -> bool:
    if len(chain) < CONSECUTIVE:
        return False
    step = abs(tokens[chain[1]].value - tokens[chain[0]].value)
    return step == 1 or (step > 0 and len(chain) >= EVENLY_SPACED)
