"""What it costs to look for 200 numbers of an answer in 1 MB of output.

The outputs are read as they come, in pieces of what one call may give a model; what counts at the
end of a turn is the search.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.result import Result, alternating, milliseconds, table
from jupyter_agent.grounding import Index, Source, grounded

PIECE = 30_000


def dense(characters: int) -> str:
    """A table of nothing but numbers."""
    chance = random.Random(7)
    rows = (" ".join(f"{chance.gauss(100, 50):.4f}" for _ in range(8)) for _ in iter(int, 1))
    text = ""
    while len(text) < characters:
        text += "\n".join(f"{number:>5} {next(rows)}" for number in range(2_000)) + "\n"
    return text[:characters]


def answer() -> str:
    """200 numbers in sentences, half of which were made up."""
    chance = random.Random(8)
    lines = [
        f"- Group {chr(97 + i % 26)} has a **mean of {chance.gauss(100, 50):.2f}** (n = "
        f"{chance.randrange(11, 999)}), {chance.random() * 90 + 10:.1f} % "
        f"of {chance.randrange(9**6):,}."
        for i in range(50)
    ]
    return "\n".join(lines)


def numbers(bench: Bench) -> Result:
    text, words = dense(1_000_000), answer()
    pieces = [Source(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    index = Index(pieces)
    times = alternating(
        {
            "one pass of a regular expression": _timed(
                lambda: re.findall(r"[0-9]+(?:\.[0-9]+)?", text)
            ),
            "reading 1 MB, as it comes": _timed(lambda: Index(pieces)),
            "searching at the turn's end": _timed(lambda: grounded(words, index)),
        },
        max(bench.least, bench.runs),
    )
    floor = "one pass of a regular expression"
    search = times.median("searching at the turn's end")
    head = ("", "time", "passes")
    rows = [
        (name, milliseconds(times.median(name)), f"{times.ratio(name, floor):.2f}")
        for name in times.runs
    ]
    return Result(
        "numbers",
        "looking for 200 numbers of an answer in 1 MB of output",
        "20 ms at the turn's end",
        milliseconds(search),
        search <= 0.02,
        head,
        table(head, rows),
    )


def _timed(call: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    return run
