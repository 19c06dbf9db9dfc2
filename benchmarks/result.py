"""What a measure found, and how a series of runs becomes one number."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """One measure.

    Attributes:
        id: `P1` to `P13`, or another name for what has no target of its own.
        title: What is measured, in a few words.
        target: What it should be, in words.
        measured: What it is, in words: what the summary shows.
        met: Whether the target is met; None where there is none, or where it cannot be told.
        head: The names of the columns of `rows`.
        rows: The numbers behind it.
        note: How it was measured, and what was found.
    """

    id: str
    title: str
    target: str
    measured: str
    met: bool | None
    head: Row = ()
    rows: Sequence[Row] = ()
    note: str = ""


@dataclass
class Times:
    """Runs of several contestants, by name."""

    runs: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.runs.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.runs[name])

    def ratio(self, name: str, floor: str) -> float:
        return self.median(name) / self.median(floor)


def alternating(
    contestants: Mapping[str, Callable[[], float]], runs: int, warm: bool = True
) -> Times:
    """Let each contestant run in turn, `runs` times over.

    Args:
        contestants: What gives the number of one run, by name.
        runs: How often.
        warm: Whether each runs once before, uncounted.
    """
    if warm:
        for run in contestants.values():
            run()
    times = Times()
    for _ in range(runs):
        for name, run in contestants.items():
            times.add(name, run())
    return times


def verdict(met: bool | None) -> str:
    return {True: "met", False: "MISSED", None: ""}[met]


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def table(head: Row, rows: Iterable[Sequence[Any]]) -> list[Row]:
    """Rows with everything as text; as wide as their head."""
    made = [tuple(str(cell) for cell in row) for row in rows]
    assert all(len(row) == len(head) for row in made), f"{head} does not fit {made}"
    return made
