"""Paired comparison of two agents on the same tasks: McNemar's exact test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb


@dataclass(frozen=True)
class Pairs:
    """Counts of the tasks that both agents tried: right for both, for one alone, for none."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def chance(self) -> float:
        """The two-sided p-value: how likely the tasks that only one solves divide as unevenly."""
        return mcnemar(self.first, self.second)


def pairs(first: Mapping[str, bool], second: Mapping[str, bool]) -> Pairs:
    """Count two agents' results, by task. Tasks that only one of them tried are left out."""
    results = [(first[task], second[task]) for task in first.keys() & second.keys()]
    return Pairs(*map(results.count, [(True, True), (True, False), (False, True), (False, False)]))


def mcnemar(first: int, second: int) -> float:
    """McNemar's exact two-sided p-value.

    Args:
        first: Tasks that only the first agent solved.
        second: Tasks that only the second one solved.
    """
    total = first + second
    tail = sum(comb(total, k) for k in range(min(first, second) + 1)) / 2**total
    return float(min(1.0, 2 * tail))
