"""A person interrupts at the worst moments: what is done stays, and the next turn works."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from faults.bench import Bench, adapter, check_history, check_requests
from faults.cases import QUICK
from faults.hostile import Answers, Hostile, Wire
from model_server import Call

from jupyter_agent.core.events import Event, MessageFinished, Retrying, TextDelta, ToolFinished

B = Call("note", '{"word": "b"}')
C = Call("note", '{"word": "c"}')
HANG = Call("hang", "{}")


@dataclass(frozen=True)
class Moment:
    """When the turn is interrupted: at an event of its second step, or where it hangs.

    Attributes:
        name: A part of a sentence, for the docs.
        answers: What the server sends in the second step.
        at: Whether an event is the moment; None: the moment is where nothing goes on.
        noted: The words that the tool was called with.
        happens: What is left, for the docs.
        words: What is shown of the interrupted step.
        told: What the next request says of it.
    """

    name: str
    answers: Answers
    at: Callable[[Event, Bench], bool] | None
    noted: tuple[str, ...] = ("a",)
    happens: str = "the partial reply is gone, the steps before it stay"
    words: str = ""
    told: tuple[str, ...] = ("The person interrupted the turn here",)
    requests: int = 2


def _finishes(word: str) -> Callable[[Event, Bench], bool]:
    return lambda event, bench: (
        isinstance(event, ToolFinished) and event.result.text == f"noted {word}"
    )


MOMENTS = [
    Moment("Before the first byte of the reply.", lambda w: [[60.0]], None),
    Moment(
        "Amid the words.",
        lambda w: [w.stream(*w.text("All d"), 60.0)],
        lambda event, bench: event == TextDelta("All d"),
        words="All d",
    ),
    Moment(
        "Amid a tool call's arguments.",
        lambda w: [w.stream(*w.call(Call("note", '{"wor')), 60.0)],
        None,
    ),
    Moment(
        "During the wait before another try.",
        lambda w: [w.failed(429, "Slow", retry_after="60")],
        lambda event, bench: isinstance(event, Retrying),
    ),
    Moment(
        "During the second try.",
        lambda w: [w.failed(503, "Busy"), w.stream(*w.text("All d"), 60.0)],
        lambda event, bench: event == TextDelta("All d"),
        words="All d",
        requests=3,
    ),
    Moment(
        "After the reply, before the first of its tools.",
        lambda w: [w.good("", [B, C])],
        lambda event, bench: isinstance(event, MessageFinished) and len(bench.noted) == 1,
        happens="no tool is run, and the model is told so",
        told=("Not run: the person interrupted",),
    ),
    Moment(
        "During the second of three tools.",
        lambda w: [w.good("", [B, HANG, C])],
        None,
        ("a", "b", "hang"),
        "the first result stays, the second may have run in part, the third is not run",
        told=("noted b", "It may have run in part", "Not run: the person interrupted"),
    ),
    Moment(
        "Between two tools.",
        lambda w: [w.good("", [B, C])],
        _finishes("b"),
        ("a", "b"),
        "the first result stays, the second tool is not run",
        told=("noted b", "Not run: the person interrupted"),
    ),
    Moment(
        "After the last tool of a step.",
        lambda w: [w.good("", [B])],
        _finishes("b"),
        ("a", "b"),
        "the step stays",
        told=("noted b",),
    ),
]
# Half a second is promised; what is told apart from it waits for ten and more.
SOON = 9.0
KINDS = pytest.mark.parametrize("kind", ["anthropic", "openai"])


async def interrupted(bench: Bench, moment: Moment, server: Hostile, times: int) -> float:
    """Run a turn and interrupt it; gives the seconds from the interrupt to the end."""
    task = asyncio.create_task(bench.turn("Do it."))
    reached = asyncio.Event()

    def look(event: Event) -> None:
        if moment.at and moment.at(event, bench):
            task.cancel()
            reached.set()

    bench.on_event = look
    if moment.at is None:
        while not (bench.begun.is_set() or server.paused.is_set()):
            await asyncio.sleep(0.01)
        task.cancel()
    else:
        await reached.wait()
    began = time.monotonic()
    for _ in range(times - 1):
        await asyncio.sleep(0)
        task.cancel()
    outcome = await task
    assert outcome.stop_reason == "interrupted"
    return time.monotonic() - began


@KINDS
@pytest.mark.parametrize("moment", MOMENTS, ids=[moment.name for moment in MOMENTS])
async def test_interrupt(kind: str, moment: Moment) -> None:
    """The person stops the turn: it ends at once, no finished work is lost, no tool runs twice,
    and the next task is answered."""
    wire = Wire(kind)
    first = wire.good("Looking.", [Call("note", '{"word": "a"}')])
    with Hostile([first, *moment.answers(wire), wire.good("Next.")]) as server:
        async with adapter(kind, server.url(kind)) as provider:
            bench = Bench(provider, QUICK)
            assert await interrupted(bench, moment, server, times=1) < SOON
            assert len(server.requests) == moment.requests
            assert [step.text for step in bench.view.steps] == ["Looking.", moment.words]
            check_history(bench)
            bench.on_event = lambda event: None
            assert (await bench.turn("And now?")).stop_reason == "end"
        assert bench.noted == list(moment.noted)
        assert [step.text for step in bench.view.steps] == ["Next."]
        check_requests(kind, server)
        sent = json.dumps(server.requests[-1].body)
        assert all(words in sent for words in ("noted a", "And now?", *moment.told))


@KINDS
@pytest.mark.parametrize("index", [1, 6])
async def test_impatient(kind: str, index: int) -> None:
    """The person presses stop twice, and stops the next turn as well: the third one works."""
    moment = MOMENTS[index]
    wire = Wire(kind)
    first = wire.good("Looking.", [Call("note", '{"word": "a"}')])
    again = [first, *moment.answers(wire)]
    with Hostile([*again, *again, wire.good("Next.")]) as server:
        async with adapter(kind, server.url(kind)) as provider:
            bench = Bench(provider, QUICK)
            for turn in (1, 2):
                bench.begun.clear()
                assert await interrupted(bench, moment, server, times=2) < SOON
                assert bench.noted == list(moment.noted) * turn
                check_history(bench)
            bench.on_event = lambda event: None
            assert (await bench.turn("And now?")).stop_reason == "end"
        assert bench.noted == list(moment.noted) * 2
        check_requests(kind, server)


@KINDS
async def test_the_connection_goes(kind: str) -> None:
    """An interrupt amid a reply hangs up, so that nothing more is paid for."""
    wire = Wire(kind)
    with Hostile([wire.stream(*wire.text("All d"), 60.0)]) as server:
        async with adapter(kind, server.url(kind)) as provider:
            bench = Bench(provider, QUICK)
            moment = Moment("", lambda w: [], lambda event, bench: isinstance(event, TextDelta))
            await interrupted(bench, moment, server, times=1)
            assert await asyncio.to_thread(server.hung_up.wait, 60)
