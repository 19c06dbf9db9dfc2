"""What it costs to look for 200 numbers of an answer in 1 MB of output.

The outputs are read as they come, in pieces of what one call may give a model; what counts at the
end of a turn is the search. Both are also given as a ratio to one pass of a regular expression.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable

from jupyter_agent.grounding import Index, Source, grounded

RUNS = 7
PIECE = 30_000


def dense(characters: int) -> str:
    """A table of nothing but numbers."""
    chance = random.Random(7)
    rows = (" ".join(f"{chance.gauss(100, 50):.4f}" for _ in range(8)) for _ in iter(int, 1))
    text = ""
    parts = []
    while len(text) < characters:
        parts = [f"{number:>5} {next(rows)}" for number in range(2_000)]
        text += "\n".join(parts) + "\n"
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


def milliseconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def main() -> None:
    text, words = dense(1_000_000), answer()
    pieces = [Source(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    one_pass = milliseconds(lambda: re.findall(r"[0-9]+(?:\.[0-9]+)?", text))
    reading = milliseconds(lambda: Index(pieces))
    index = Index(pieces)
    numbers = grounded(words, index)
    search = milliseconds(lambda: grounded(words, index))
    print(f"{len(numbers)} numbers, {sum(n.seen is None for n in numbers)} seen nowhere")
    print(f"one pass of a regular expression  {one_pass:8.1f} ms")
    print(f"reading 1 MB, as it comes         {reading:8.1f} ms   {reading / one_pass:.1f} passes")
    print(f"  each 30 kB                      {reading / len(pieces):8.1f} ms")
    print(f"searching at the turn's end       {search:8.1f} ms   {search / one_pass:.2f} passes")
    print(f"target                                20.0 ms   {'met' if search <= 20 else 'MISSED'}")


if __name__ == "__main__":
    main()
