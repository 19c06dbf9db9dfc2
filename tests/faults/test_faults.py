"""Each fault over real HTTP, through the real SDK, the whole loop and the view."""

from __future__ import annotations

import json

import pytest
from faults.bench import Bench, check_history, check_requests, hasty
from faults.cases import SAID, Case, cases
from faults.hostile import CLOSE, Answer, Hostile, Wire
from model_server import Call

from jupyter_agent.core.events import Requested, StepStarted, TextDelta

ALL = list(cases())


def script(wire: Wire, case: Case) -> list[Answer]:
    """The first step, the fault, what follows it, and the next turn."""
    first = wire.good("Looking.", [Call("note", '{"word": "a"}')])
    # A server that goes away has no connection left to be used again.
    opening = [*first, CLOSE] if not case.answers(wire) else first
    after = [wire.good(SAID)] if case.then == "again" else []
    return [opening, *case.answers(wire), *after, wire.good("Next.")]


@pytest.mark.parametrize(("kind", "case"), ALL, ids=[f"{kind}-{case.fault}" for kind, case in ALL])
async def test_fault(kind: str, case: Case) -> None:
    """Whatever goes wrong on the way: as many requests as the table says, no tool runs twice, no
    word is shown twice, one line says what was wrong, and the next turn goes on from there."""
    wire = Wire(kind)
    answers = script(wire, case)
    with Hostile(answers) as server:
        async with hasty(kind, server.url(kind), case.timeout) as provider:
            bench = Bench(provider, case.policy, lambda event: case.on(event, server))
            outcome = await bench.turn("Do it.")
            assert len(server.requests) == len(answers) - 1, bench.lines
            check_turn(bench, case)
            assert outcome.stop_reason == case.stop_reason
            assert (await bench.turn("And now?")).stop_reason == "end"
        assert [step.text for step in bench.view.steps] == ["Next."]
        assert bench.noted == list(case.tools)
        check_history(bench)
        check_requests(kind, server, case.unknown)
        assert "noted a" in json.dumps(server.requests[-1].body)


def check_turn(bench: Bench, case: Case) -> None:
    """What the turn shows, and what it ran."""
    view = bench.view
    assert tuple(step.text for step in view.steps) == ("Looking.", *case.shown)
    assert bench.noted == list(case.tools)
    assert len(bench.retries) == case.retries, bench.lines
    check_history(bench)
    if case.sees:
        assert case.sees in " ".join(bench.lines), bench.lines
    else:
        assert case.then == "again" or not bench.lines, bench.lines
    if bench.retries:
        before = bench.events[bench.events.index(StepStarted(2, 50)) :]
        assert isinstance(before[1], Requested)
        spoke = isinstance(before[2], TextDelta)
        assert ("What it had said was discarded." in bench.lines[0]) == spoke
        low, high = case.waits
        assert low - 0.001 <= bench.retries[0].delay <= high + 0.001
