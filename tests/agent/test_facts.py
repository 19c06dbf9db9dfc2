"""Facts planted over a hundred steps: how many can still be told from what goes to the model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from agent.facts import (
    COUNTER,
    first_words,
    last_words,
    played,
    reads_words,
    scripted,
    skims,
    within,
)
from agent.transcripts import planted, survivors


@pytest.mark.parametrize(
    "limit",
    [8_000, *(pytest.param(limit, marks=pytest.mark.deep) for limit in (16_000, 32_000))],
)
@pytest.mark.parametrize("choose", [first_words, last_words, skims, reads_words])
async def test_facts(choose: Callable[[list[str], int], list[str]], limit: int) -> None:
    """More facts survive than with the seed's algorithm, at the same budget and without one."""
    ours = beyond_budget = 0
    for seed in range(3):
        transcript = planted(seed)
        assert len(survivors(transcript.facts, transcript.messages)) == 40
        kept = await played(transcript, scripted(choose), limit, ours=True)
        plain = await played(transcript, scripted(choose), limit, ours=False)
        assert COUNTER.messages(kept[:-1]) <= limit
        told = len(survivors(transcript.facts, kept))
        seeds = len(survivors(transcript.facts, within(plain, limit)))
        print(f"{choose.__name__} {limit} {seed}: {told} of 40, the seed's {seeds}")
        assert told > seeds
        ours += told
        beyond_budget += len(survivors(transcript.facts, plain))
    # It piles its summaries up, up to ten times the budget, and still fewer are left.
    assert ours > beyond_budget


async def test_facts_of_one_long_turn() -> None:
    """In one turn of a hundred steps the current round's steps are summarized, too."""
    transcript = planted(3, rounds=1)
    kept = await played(transcript, scripted(skims), 10_000, ours=True)
    plain = await played(transcript, scripted(skims), 10_000, ours=False)
    assert COUNTER.messages(kept[:-1]) <= 10_000
    told = len(survivors(transcript.facts, kept))
    assert told > len(survivors(transcript.facts, within(plain, 10_000)))
    assert told >= 30
    assert kept[0] is transcript.messages[0]


@pytest.mark.parametrize("limit", [8_000, pytest.param(16_000, marks=pytest.mark.deep)])
async def test_facts_without_a_model(limit: int) -> None:
    """Most facts survive even if no summary call succeeds."""
    transcript = planted(7)
    kept = await played(transcript, None, limit, ours=True)
    assert COUNTER.messages(kept[:-1]) <= limit
    assert len(survivors(transcript.facts, kept)) >= 30
