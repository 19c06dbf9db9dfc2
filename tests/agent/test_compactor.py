"""Compaction within a turn: when it comes, what it costs, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from jupyter_agent.agent.compaction import Compactor, ModelSummary, SummaryFailed
from jupyter_agent.agent.compaction.rounds import SUMMARY
from jupyter_agent.agent.loop import Agent, TurnOutcome, run_turn
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.codec import event_from_json, event_to_json
from jupyter_agent.core.events import Compacted, Event, MessageFinished, ReplySource, TextDelta
from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import Context, JsonObject, Message, Text, ToolCall, Usage
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.errors import ProviderError
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.tools.toolbox import Toolbox

AT_ONCE = RetryPolicy(initial_delay=0, max_delay=0)
SUMMARIZED = MessageFinished(
    Message("assistant", (Text("**Done**: looked; 17.5 g."),)), Usage(100, 10), "end"
)


class Model:
    """Calls a tool so many times, then answers; `summaries` answer the requests for summaries.

    It counts what it is sent as `factor` tokens for each one that the counter says.
    """

    name, model = "local", "local-1"
    source: ReplySource = "live"

    def __init__(self, steps: int, *summaries: object, factor: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.asked: list[Request] = []
        self.waiting = asyncio.Event()
        self._steps = steps
        self._summaries = iter(summaries)
        self._factor = factor
        self._counter = Compactor(1).counter

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        await asyncio.sleep(0)
        if not request.tools:
            self.asked.append(request)
            yield await self._summary()
            return
        self.requests.append(request)
        usage = Usage(int(self._counter.request(request) * self._factor), 5)
        done = len(self.requests)
        if done > self._steps:
            yield MessageFinished(Message("assistant", (Text("Done."),)), usage, "end")
            return
        call = ToolCall(f"c{done}", "look", f'{{"number": {done}}}')
        yield MessageFinished(Message("assistant", (call,)), usage, "tool_use")

    async def _summary(self) -> MessageFinished:
        answer = next(self._summaries, SUMMARIZED)
        if answer == "wait":
            self.waiting.set()
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, MessageFinished)
        return answer

    def body(self, request: Request) -> JsonObject:
        return {}

    async def close(self) -> None:
        """Nothing to release."""


def looking(size: int = 200) -> list[Tool]:
    @tool("reads")
    async def look(number: int) -> str:
        """Look at something."""
        return f"look {number}: " + "many words " * size

    return [look]


async def turn(
    model: Model,
    history: list[Message],
    compactor: Compactor | None,
    size: int = 200,
    budget: Budget | None = None,
    task: str = "Look twenty times.",
) -> tuple[TurnOutcome, list[Event]]:
    events: list[Event] = []
    agent = Agent(
        model,
        Toolbox(looking(size)),
        "Be brief.",
        retry=AT_ONCE,
        budget=budget or Budget(),
        compactor=compactor,
    )
    history.append(Message("user", (Text(task),)))
    outcome = await run_turn(agent, history, events.append)
    assert repair(history) == history
    return outcome, events


def compactions(events: Sequence[Event]) -> list[Compacted]:
    return [event for event in events if isinstance(event, Compacted)]


async def test_a_long_turn_stays_within_the_limit() -> None:
    """Each request of a turn of twenty steps is below the limit; the view names what was cut."""
    model = Model(20)
    history: list[Message] = []
    compactor = Compactor(4_000, contexts=lambda: ["The plan: look."])
    outcome, events = await turn(model, history, compactor)
    assert outcome.stop_reason == "end"
    assert len(model.requests) == 21
    assert all(compactor.counter.request(request) <= 4_000 for request in model.requests)
    told = compactions(events)
    assert 1 <= len(told) <= 6
    assert all(event.after < 4_000 < event.before + 800 for event in told)
    assert all(event.dropped for event in told)
    assert [event_from_json(json.loads(json.dumps(event_to_json(e)))) for e in told] == told
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    notices = " ".join(notice for step in view.steps for notice in step.notices)
    assert told[0].dropped[0] in notices
    assert Context("The plan: look.") in [b for m in history for b in m.blocks]


async def test_summaries_cost_what_they_cost() -> None:
    """The tokens of summary calls count for the turn's usage; these calls offer no tools."""
    model = Model(20)
    compactor = Compactor(4_000)
    outcome, _ = await turn(model, [], compactor)
    assert model.asked
    assert outcome.usage == Usage(100 * len(model.asked), 10 * len(model.asked) + 5 * 21)
    assert all(not request.tools and not request.tools_allowed for request in model.asked)
    assert all(len(request.messages) == 1 for request in model.asked)


async def test_no_compactor() -> None:
    """Without a compactor nothing is shortened."""
    model = Model(20)
    history: list[Message] = []
    _, events = await turn(model, history, None)
    assert not compactions(events)
    assert len(history) == 42


async def test_the_apis_count_matters() -> None:
    """If the API counts twice as many tokens as we do, its own count stays within the limit."""
    model = Model(20, factor=2.0)
    compactor = Compactor(6_000)
    _, events = await turn(model, [], compactor)
    assert compactions(events)
    sent = [2 * compactor.counter.request(request) for request in model.requests]
    # The estimate lags one step behind while it is being learnt.
    assert sum(tokens > 6_000 for tokens in sent) <= 1
    assert max(sent) <= 6_000 + 2_000
    assert compactor.estimate(model.requests[-1], model) == pytest.approx(sent[-1], rel=0.1)


async def test_what_the_api_reports_is_enough() -> None:
    """A request that the API found above the limit is followed by one that is below it.

    The model counts four times as much as we do, which is more than calibration believes.
    """
    model = Model(20, factor=4.0)
    compactor = Compactor(9_000)
    await turn(model, [], compactor, size=150)
    sent = [4 * compactor.counter.request(request) for request in model.requests]
    above = [index for index, tokens in enumerate(sent) if tokens > 9_000]
    assert above
    assert all(sent[index + 1] <= 9_000 for index in above[:-1])


async def test_no_help_is_not_tried_at_each_step() -> None:
    """If the task alone is above the limit, not every step asks for another summary."""
    model = Model(40)
    compactor = Compactor(1_000)
    outcome, events = await turn(model, [], compactor, size=130, task="Mind this. " * 1_000)
    assert outcome.stop_reason == "end"
    sent = [compactor.counter.request(request) for request in model.requests]
    assert all(tokens > 1_000 for tokens in sent)
    assert 2 <= len(compactions(events)) <= 14


async def test_an_interrupt_during_a_summary() -> None:
    """An interrupted summary leaves the conversation as it was, with a note on the interrupt."""
    model = Model(20, "wait")
    history: list[Message] = []
    running = asyncio.ensure_future(turn(model, history, Compactor(4_000)))
    await model.waiting.wait()
    before = list(history)
    running.cancel()
    outcome, events = await running
    assert outcome.stop_reason == "interrupted"
    assert history[:-1] == before
    assert not compactions(events)


CALLING = Message("assistant", (Text("Sure."), ToolCall("x", "look", "{}")))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ProviderError("The server is gone."), "The server is gone"),
        (MessageFinished(CALLING, Usage(7, 1), "tool_use"), "tried to call a tool"),
        (MessageFinished(Message("assistant", ()), Usage(7, 1), "end"), "empty"),
        (MessageFinished(Message("assistant", (Text("No."),)), Usage(7), "refused"), "refused"),
    ],
)
async def test_a_summary_call_that_fails(answer: object, why: str) -> None:
    """The turn goes on with a plain summary, and the view says why."""
    model = Model(20, *[answer] * 20)
    history: list[Message] = []
    outcome, events = await turn(model, history, Compactor(4_000))
    assert outcome.stop_reason == "end"
    assert any(why in line for event in compactions(events) for line in event.dropped)
    marked = [b for m in history for b in m.blocks if isinstance(b, Context)]
    assert [b for b in marked if b.text.startswith(SUMMARY) and "Done, by calling look" in b.text]


async def test_a_model_that_is_not_asked() -> None:
    """A conversation can be shortened without asking a model."""
    model = Model(10)
    history: list[Message] = []
    compactor = Compactor(50_000)
    await turn(model, history, compactor)
    request = Request("Be brief.", tuple(history), ())
    made = await compactor.shorten(request, model, AT_ONCE, target=0, by_model=False)
    assert made.gained and not made.by_model and not model.asked


async def test_what_decides_when_it_is_due() -> None:
    """Whether the conversation is too long is told to `decided`, whose word counts: a replay
    shortens where its recording did."""
    places: list[int] = []
    due: list[bool] = []

    def decided(is_due: bool) -> bool:
        due.append(is_due)
        return len(due) in places

    compactor = Compactor(4_000)
    compactor.decided = decided
    _, events = await turn(Model(20), [], compactor)
    assert any(due) and not compactions(events)
    places.append(due.index(True))  # counted from 1: before it is due
    due.clear()
    _, events = await turn(Model(20), [], compactor)
    assert not due[places[0] - 1] and len(compactions(events)) == 1


async def test_a_budget_counts_summaries() -> None:
    """Summaries use up a budget of tokens, too."""
    model = Model(20)
    outcome, _ = await turn(model, [], Compactor(4_000), budget=Budget(tokens=150))
    assert outcome.stop_reason == "budget"
    assert model.asked


async def test_asked_for_by_the_person() -> None:
    """`shorten` with the target 0 shortens a conversation that is within the limit."""
    model = Model(10)
    history: list[Message] = []
    compactor = Compactor(50_000)
    await turn(model, history, compactor)
    request = Request("Be brief.", tuple(history), ())
    made = await compactor.shorten(request, model, AT_ONCE, target=0)
    assert made.gained and made.by_model and made.words == 0
    assert made.steps == 10
    assert compactor.take_usage() == Usage(100, 10)
    assert compactor.take_usage() == Usage()


async def test_a_stream_without_a_summary() -> None:
    """A stream that ends early is a failure, not an empty summary."""

    class Broken(Model):
        async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
            yield TextDelta("The sum")

    with pytest.raises(SummaryFailed, match="ended without"):
        await ModelSummary(Broken(0), AT_ONCE)("prompt")
