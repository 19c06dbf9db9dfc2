"""P11: planted facts that survive compaction."""

from __future__ import annotations

import asyncio

from benchmarks.bench import Bench
from benchmarks.borrowed import (
    COUNTER,
    first_words,
    last_words,
    planted,
    played,
    reads_words,
    scripted,
    skims,
    survivors,
    within,
)
from benchmarks.result import Result, table

LIMITS = (8_000, 16_000, 32_000)
READERS = (first_words, last_words, skims, reads_words)


def facts(bench: Bench) -> Result:
    limits = LIMITS[:1] if bench.quick else LIMITS
    readers = READERS[2:3] if bench.quick else READERS
    seeds = range(1 if bench.quick else 5)
    return asyncio.run(_facts(limits, readers, seeds))


async def _facts(limits, readers, seeds) -> Result:  # type: ignore[no-untyped-def]
    rows, always, sums = [], True, [0, 0, 0]
    for limit in limits:
        for choose in readers:
            told = theirs = planted_in_all = 0
            for seed in seeds:
                transcript = planted(seed)
                kept = await played(transcript, scripted(choose), limit, ours=True)
                plain = await played(transcript, scripted(choose), limit, ours=False)
                assert COUNTER.messages(kept[:-1]) <= limit
                own = len(survivors(transcript.facts, kept))
                other = len(survivors(transcript.facts, within(plain, limit)))
                always = always and own > other
                told, theirs = told + own, theirs + other
                planted_in_all += len(transcript.facts)
            sums = [a + b for a, b in zip(sums, (told, theirs, planted_in_all), strict=True)]
            reader = choose.__name__.replace("_", " ")
            rows.append((f"{limit:,}", reader, told, theirs, planted_in_all))
    head = ("budget", "the model that sums up", "ours", "the seed's", "planted")
    return Result(
        "P11",
        "planted facts that survive compaction at equal budget, over the seed's algorithm",
        "more",
        f"{sums[0]} of {sums[2]}, the seed's {sums[1]}; more in "
        f"{'every single run' if always else 'not every run'}",
        always,
        head,
        table(head, rows),
        "A hundred steps in ten rounds with 40 facts; a fact survives where its name and its value "
        "are in what the model is sent. The model that sums up is the same for both.",
    )
