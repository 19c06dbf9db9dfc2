"""The loop: what a turn does with a model's replies, and the history that it leaves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.agent.loop import Agent, TurnOutcome, run_turn
from jupyter_agent.core import ports
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.events import (
    Advised,
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    Event,
    MessageFinished,
    ReplySource,
    Requested,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
)
from jupyter_agent.core.history import TextLength
from jupyter_agent.core.messages import (
    Block,
    Context,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.errors import ContextOverflow, ProviderError, ToolError
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.tools.toolbox import Toolbox

TASK = "Do it."
AT_ONCE = RetryPolicy(initial_delay=0, max_delay=0)


class Model:
    """Answers with the given replies in order: a message, an error, or a list of parts of both."""

    name, model = "local", "local-1"
    source: ReplySource = "live"

    def __init__(self, *replies: Any) -> None:
        self.requests: list[Request] = []
        self._replies = iter(replies)

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        self.requests.append(request)
        reply = next(self._replies)
        for part in reply if isinstance(reply, list) else [reply]:
            await asyncio.sleep(0)
            if isinstance(part, Exception):
                raise part
            yield part

    async def close(self) -> None:
        """Nothing to release."""


def says(*blocks: Block | str, stop: str = "") -> MessageFinished:
    """A reply; strings are text blocks, the stop reason is the fitting one."""
    made = tuple(Text(b) if isinstance(b, str) else b for b in blocks)
    message = Message("assistant", made)
    reason: Any = stop or ("tool_use" if message.tool_calls else "end")
    return MessageFinished(message, Usage(10, 1), reason)


def calls(name: str, arguments: str = "{}", id: str = "c1") -> ToolCall:
    return ToolCall(id, name, arguments)


@dataclass
class Bench:
    """Tools that note when they begin and end, and a turn to try them in."""

    log: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    on_event: Callable[[Event], None] = lambda event: None

    def agent(self, provider: ports.Model, **options: Any) -> Agent:
        options.setdefault("retry", AT_ONCE)
        return Agent(provider, Toolbox(self.tools()), "system", **options)

    def tools(self) -> list[Tool]:
        async def spend(name: str) -> str:
            self.log.append(f"{name} begins")
            await asyncio.sleep(0.01)
            self.log.append(f"{name} ends")
            return f"{name} done"

        @tool("reads")
        async def look(name: str = "look") -> str:
            """Look."""
            return await spend(name)

        @tool("writes")
        async def write(name: str = "write") -> str:
            """Write."""
            return await spend(name)

        @tool("executes")
        async def execute(name: str = "execute") -> str:
            """Execute."""
            return await spend(name)

        @tool("executes")
        async def hang() -> str:
            """Wait for ever."""
            self.log.append("hang begins")
            await self.gate.wait()
            return "went on"

        @tool("reads")
        async def long() -> str:
            """Say much."""
            return "x" * 50_000

        @tool("reads")
        async def crash() -> str:
            """Fail."""
            raise ZeroDivisionError("no")

        @tool("writes")
        async def refuse() -> str:
            """Refuse."""
            raise ToolError("not today")

        return [look, write, execute, hang, long, crash, refuse]

    async def turn(self, agent: Agent, task: str = TASK) -> TurnOutcome:
        self.history.append(Message("user", (Text(task),)))
        outcome = await run_turn(agent, self.history, self.emit)
        check_history(self.history)
        return outcome

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[ToolResult]:
        return [result for message in self.history for result in message.tool_results]

    @property
    def view(self) -> TurnView:
        view = TurnView()
        for event in self.events:
            view = reduce(view, event)
        return view


@pytest.fixture
def bench() -> Bench:
    return Bench()


def check_history(history: Sequence[Message]) -> None:
    """Each call has exactly one result, in the message right after it and in its order."""
    ids = [call.id for message in history for call in message.tool_calls]
    assert len(ids) == len(set(ids)), "a call's id comes twice"
    waiting: list[str] = []
    for message in history:
        assert message.blocks, "an empty message"
        found = [result.call_id for result in message.tool_results]
        assert found == waiting, "results are not those of the message before"
        assert not (found and message.role != "user")
        assert not (message.tool_calls and message.role != "assistant")
        waiting = [call.id for call in message.tool_calls]
    assert not waiting, "calls without results at the end"


# ---------------------------------------------------------------- replies and steps


async def test_an_answer_without_tools(bench: Bench) -> None:
    """A reply without tool calls ends the turn."""
    outcome = await bench.turn(bench.agent(Model(says("42"))))
    assert outcome == TurnOutcome("end", Usage(10, 1))
    assert bench.history == [Message("user", (Text(TASK),)), Message("assistant", (Text("42"),))]
    sent = Requested("local-1", messages=1, tools=len(bench.tools()), characters=len(TASK))
    assert bench.events == [StepStarted(1, 50), sent, says("42")]


async def test_what_a_request_says_of_itself(bench: Bench) -> None:
    """Each model call reports how much it sends, also after a failure and after a compaction."""
    long = ToolCall("c2", "long", "{}")
    model = Model(
        ProviderError("Busy.", retryable=True),
        says(calls("look", id="c1")),
        says(long),
        ContextOverflow("Too long."),
        says("Done."),
    )
    await bench.turn(bench.agent(model))
    sent = bench.of(Requested)
    assert [each.attempt for each in sent] == [1, 2, 1, 1, 1]
    assert [each.messages for each in sent] == [len(request.messages) for request in model.requests]
    assert [each.characters for each in sent] == [
        TextLength().of(request.messages) for request in model.requests
    ]
    assert sent[-1].characters < sent[-2].characters


async def test_a_script_over_several_steps(bench: Bench) -> None:
    """Each step's calls are run before the next one is asked; usage adds up."""
    look = {"name": "look", "arguments": {"name": "a"}}
    use = {"usage": {"input_tokens": 5, "output_tokens": 2}}
    replies = [{"text": "I look.", "calls": [look], **use}, {"calls": [look], **use}, {"text": "B"}]
    outcome = await bench.turn(bench.agent(Scripted([(TASK, replies)])))
    assert outcome == TurnOutcome("end", Usage(10, 4))
    assert [event.number for event in bench.of(StepStarted)] == [1, 2, 3]
    assert [result.text for result in bench.results] == ["a done", "a done"]
    assert [message.role for message in bench.history] == ["user", "assistant"] * 3


async def test_what_the_model_is_sent(bench: Bench) -> None:
    """System prompt and tools are the same in each request; the messages are the history."""
    model = Model(says(calls("look")), says("done"))
    await bench.turn(bench.agent(model))
    first, second = model.requests
    assert (first.system, first.tools, first.tools_allowed) == ("system", second.tools, True)
    assert [spec.name for spec in first.tools][:2] == ["look", "write"]
    assert second.messages == tuple(bench.history[:3])
    assert second.messages[0] is first.messages[0]


async def test_deltas_and_thinking(bench: Bench) -> None:
    """Deltas are passed on as they come, before the finished message; thinking stays whole."""
    thinking = Thinking("hm", {"provider": "local", "signature": "s=="})
    parts = [ThinkingDelta("hm"), TextDelta("4"), TextDelta("2"), says(thinking, "42")]
    await bench.turn(bench.agent(Model(parts)))
    assert bench.events[2:] == parts
    assert bench.history[-1].blocks[0] is thinking


async def test_an_empty_reply(bench: Bench) -> None:
    """A reply without anything ends the turn, and leaves no empty message behind."""
    outcome = await bench.turn(bench.agent(Model(says())))
    assert (outcome.stop_reason, len(bench.history)) == ("end", 1)


async def test_calls_count_whatever_the_stop_reason_says(bench: Bench) -> None:
    """A tool call is run even if the server gives the stop reason `end`."""
    outcome = await bench.turn(bench.agent(Model(says(calls("look"), stop="end"), says("ok"))))
    assert (outcome.stop_reason, bench.log) == ("end", ["look begins", "look ends"])


# ---------------------------------------------------------------- running tools


async def test_reading_tools_run_side_by_side(bench: Bench) -> None:
    """Reading tools run concurrently; their results keep the order of the calls."""
    reads = [calls("look", f'{{"name": "{n}"}}', n) for n in "abc"]
    await bench.turn(bench.agent(Model(says(*reads), says("ok"))))
    assert bench.log[:3] == ["a begins", "b begins", "c begins"]
    assert [result.call_id for result in bench.results] == ["a", "b", "c"]


async def test_what_changes_something_runs_alone_and_in_order(bench: Bench) -> None:
    """Writes and executions run alone, in the order of the calls."""
    mix = [("look", "a"), ("look", "b"), ("write", "c"), ("execute", "d"), ("look", "e")]
    made = [calls(tool_name, f'{{"name": "{n}"}}', n) for tool_name, n in mix]
    await bench.turn(bench.agent(Model(says(*made), says("ok"))))
    assert set(bench.log[:2]) == {"a begins", "b begins"}
    rest = [f"{n} {what}" for n in "cde" for what in ("begins", "ends")]
    assert bench.log[4:] == rest
    assert [result.call_id for result in bench.results] == list("abcde")


async def test_start_and_finish_of_a_call(bench: Bench) -> None:
    """Each call is announced and finished once, joined by its id."""
    await bench.turn(bench.agent(Model(says(calls("look"), calls("write", id="c2")), says("ok"))))
    assert [event.call.id for event in bench.of(ToolStarted)] == ["c1", "c2"]
    finished = bench.of(ToolFinished)
    assert [event.result.call_id for event in finished] == ["c1", "c2"]
    assert all(0 < event.seconds < 5 for event in finished)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("lock", "{}", "There is no tool named 'lock'. Did you mean look?"),
        ("", "{}", "There is no tool named ''."),
        ("look", "{", "not valid JSON"),
        ("look", "[1]", "must be a JSON object, not an array"),
        ("look", "null", "must be a JSON object, not null"),
        ("look", '"a"', "must be a JSON object, not a string"),
        ("look", '{"nome": 1}', "do not fit its schema"),
        ("look", '{"name": 1}', "do not fit its schema"),
        ("look", "[" * 100_000, "nested too deeply"),
        ("crash", "{}", "The tool crash failed: ZeroDivisionError: no"),
        ("refuse", "{}", "not today"),
    ],
)
async def test_calls_that_fail(bench: Bench, name: str, arguments: str, words: str) -> None:
    """A failing call gives an error result that the model reads; the turn goes on."""
    model = Model(says(calls(name, arguments)), says("I see."))
    outcome = await bench.turn(bench.agent(model))
    assert outcome.stop_reason == "end"
    assert bench.log == []
    (result,) = bench.results
    assert result.is_error
    assert words in result.text


async def test_a_failing_call_does_not_stop_its_neighbours(bench: Bench) -> None:
    """The calls before and after it are run."""
    made = [calls("look", id="a"), calls("crash", id="b"), calls("look", id="c")]
    await bench.turn(bench.agent(Model(says(*made), says("ok"))))
    assert [result.is_error for result in bench.results] == [False, True, False]


async def test_a_traceback_is_for_the_log_only(bench: Bench) -> None:
    """The event carries the traceback, the history does not."""
    await bench.turn(bench.agent(Model(says(calls("crash")), says("ok"))))
    (finished,) = bench.of(ToolFinished)
    assert "ZeroDivisionError" in finished.result.details["traceback"]
    assert bench.results[0].details == {}


async def test_call_ids_that_come_again(bench: Bench) -> None:
    """Repeated ids, in one reply or over several, are made unique."""
    twice = says(calls("look"), calls("look"))
    await bench.turn(bench.agent(Model(twice, twice, says("ok"))))
    await bench.turn(bench.agent(Model(twice, says("ok"))))
    assert len({result.call_id for result in bench.results}) == 6
    assert not any(result.is_error for result in bench.results)
    started = [event.call.id for event in bench.of(ToolStarted)]
    assert sorted(started) == sorted(result.call_id for result in bench.results)


async def test_empty_call_ids(bench: Bench) -> None:
    """Calls with empty ids get unique ones."""
    model = Model(says(calls("look", id=""), calls("look", id="")), says("ok"))
    await bench.turn(bench.agent(model))
    assert len(bench.results) == 2


@pytest.mark.parametrize("arguments", ['{"name": "a', '{"name": "a"}', "", "{}"])
async def test_a_call_that_was_cut_off(bench: Bench, arguments: str) -> None:
    """The last call of a reply cut off at the token limit is not run, even if its JSON is whole."""
    cut = says("x", calls("look"), calls("write", arguments, "c2"), stop="max_tokens")
    outcome = await bench.turn(bench.agent(Model(cut, says("Again."))))
    assert (outcome.stop_reason, bench.log) == ("end", ["look begins", "look ends"])
    first, second = bench.results
    assert (first.is_error, second.is_error) == (False, True)
    assert second.text.startswith("Not run: the reply was cut off at its token limit")
    assert [event.call.id for event in bench.of(ToolStarted)] == ["c1"]


async def test_words_that_were_cut_off(bench: Bench) -> None:
    """A cut-off reply without a call is the answer as far as it arrived."""
    outcome = await bench.turn(bench.agent(Model(says("It is", stop="max_tokens"))))
    assert (outcome.stop_reason, bench.history[-1].text) == ("end", "It is")


async def test_a_refusal_with_pending_calls(bench: Bench) -> None:
    """A refusal ends the turn: no call is run, and each gets a result that says so."""
    refusal = says("No.", calls("write"), calls("look", id="c2"), stop="refused")
    outcome = await bench.turn(bench.agent(Model(refusal)))
    assert (outcome.stop_reason, bench.log) == ("refused", [])
    texts = [result.text for result in bench.results]
    assert texts == ["Not run: the reply ended in a refusal."] * 2


async def test_a_refusal_without_a_word(bench: Bench) -> None:
    """An empty refusal leaves the history as it was."""
    outcome = await bench.turn(bench.agent(Model(says(stop="refused"))))
    assert (outcome.stop_reason, len(bench.history)) == ("refused", 1)


# ---------------------------------------------------------------- the step limit


async def test_the_last_call_at_the_step_limit(bench: Bench) -> None:
    """At the limit one more model call lists the same tools and allows none of them."""
    model = Model(says(calls("look")), says(calls("look")), says("So far: 3."))
    outcome = await bench.turn(bench.agent(model, max_steps=2))
    assert outcome == TurnOutcome("step_limit", Usage(30, 3))
    assert [request.tools_allowed for request in model.requests] == [True, True, False]
    assert model.requests[2].tools == model.requests[0].tools
    assert model.requests[2].system == model.requests[0].system
    assert isinstance(bench.history[-2].blocks[0], Context)
    assert bench.history[-1] == Message("assistant", (Text("So far: 3."),))


async def test_the_transcript_keeps_the_last_step(bench: Bench) -> None:
    """The best answer so far does not push the last step's calls out of the view."""
    await bench.turn(bench.agent(Model(says("I look.", calls("look")), says("3.")), max_steps=1))
    assert [(call.call.name, call.state) for call in bench.view.calls] == [("look", "done")]
    assert bench.view.answer == "3."


async def test_a_model_that_calls_tools_after_the_limit(bench: Bench) -> None:
    """Calls after the limit are neither run nor kept; the words beside them are the answer."""
    model = Model(says(calls("look", id="a")), says("So far: 3.", calls("write", id="b")))
    outcome = await bench.turn(bench.agent(model, max_steps=1))
    assert outcome.stop_reason == "step_limit"
    assert bench.log == ["look begins", "look ends"]
    assert bench.history[-1] == Message("assistant", (Text("So far: 3."),))
    assert len(model.requests) == 2


async def test_the_answer_of_a_model_that_calls_tools_after_the_limit(bench: Bench) -> None:
    """The person sees the answer, and no call that waits for ever."""
    model = Model(says(calls("look", id="a")), says("So far: 3.", calls("write", id="b")))
    await bench.turn(bench.agent(model, max_steps=1))
    assert bench.view.answer == "So far: 3."
    assert {call.state for call in bench.view.calls} <= {"done", "failed"}


async def test_nothing_but_a_call_after_the_limit(bench: Bench) -> None:
    """A reply with nothing but a call ends the turn, too, and the next turn works."""
    model = Model(says(calls("look")), says(calls("look")), says("Hello."))
    outcome = await bench.turn(bench.agent(model, max_steps=1))
    assert outcome.stop_reason == "step_limit"
    assert (await bench.turn(bench.agent(model))).stop_reason == "end"


# ---------------------------------------------------------------- failures of the model


async def test_a_failure_before_any_step(bench: Bench) -> None:
    """The outcome carries the error; the history holds the task alone."""
    error = ProviderError("No such model.", status=404)
    outcome = await bench.turn(bench.agent(Model(error)))
    assert outcome == TurnOutcome("error", Usage(), error)
    assert len(bench.history) == 1


async def test_a_failure_after_finished_steps(bench: Bench) -> None:
    """Finished steps stay, and the next turn goes on from there."""
    error = ProviderError("Quota used up.", status=429)
    model = Model(says(calls("look")), [TextDelta("I th"), error], says("Hello again."))
    agent = bench.agent(model)
    outcome = await bench.turn(agent)
    assert (outcome.stop_reason, outcome.error, len(bench.history)) == ("error", error, 3)
    assert (await bench.turn(agent)).stop_reason == "end"
    assert model.requests[-1].messages == tuple(bench.history[:-1])


async def test_a_retry_doubles_no_text(bench: Bench) -> None:
    """A temporary failure is shown and retried; the text streamed before it is discarded."""
    broken = [TextDelta("It "), TextDelta("is"), ProviderError("Reset.", retryable=True)]
    whole = [TextDelta("It is 3."), says("It is 3.")]
    outcome = await bench.turn(bench.agent(Model(broken, whole)))
    assert outcome == TurnOutcome("end", Usage(10, 1))
    assert bench.of(Retrying) == [Retrying("Reset.", 1, 0.0)]
    assert bench.history[1:] == [Message("assistant", (Text("It is 3."),))]
    assert bench.view.answer == "It is 3."


async def test_tries_that_are_used_up(bench: Bench) -> None:
    """After the last attempt the turn ends with the error."""
    failures = [ProviderError("Overloaded.", retryable=True, status=529) for _ in range(3)]
    model = Model(*failures)
    outcome = await bench.turn(bench.agent(model, retry=RetryPolicy(True, 2, 0, 0)))
    assert str(outcome.error) == "Overloaded. Gave up after 3 attempts."
    assert len(model.requests) == 3


async def test_a_stream_without_a_message(bench: Bench) -> None:
    """A stream that ends without a message is an error, never a short reply."""
    outcome = await bench.turn(bench.agent(Model([TextDelta("It is")])))
    assert (outcome.stop_reason, len(bench.history)) == ("error", 1)


# ---------------------------------------------------------------- interrupts


async def interrupted(bench: Bench, agent: Agent, times: int = 1) -> TurnOutcome:
    """Start a turn and cancel its task when it hangs."""
    task = asyncio.create_task(bench.turn(agent))
    while "hang begins" not in bench.log:
        await asyncio.sleep(0.001)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    return await task


async def next_turn_works(bench: Bench) -> None:
    outcome = await bench.turn(bench.agent(Model(says("Hello again."))), "Are you there?")
    assert (outcome.stop_reason, bench.history[-1].text) == ("end", "Hello again.")


async def test_an_interrupt_during_the_second_of_three(bench: Bench) -> None:
    """Finished calls keep their results; the others get results that say interrupted."""
    made = [calls("look", id="a"), calls("hang", id="b"), calls("write", id="c")]
    outcome = await interrupted(bench, bench.agent(Model(says(*made))))
    assert outcome == TurnOutcome("interrupted", Usage(10, 1))
    assert [result.is_error for result in bench.results] == [False, True, True]
    assert "Interrupted" in bench.results[1].text
    assert bench.log == ["look begins", "look ends", "hang begins"]
    assert len(bench.of(ToolFinished)) == 3
    await next_turn_works(bench)


async def test_two_interrupts(bench: Bench) -> None:
    """A second interrupt changes nothing."""
    outcome = await interrupted(bench, bench.agent(Model(says(calls("hang")))), times=2)
    assert outcome.stop_reason == "interrupted"
    await next_turn_works(bench)


async def test_an_interrupt_waits_for_all_that_ran_side_by_side(bench: Bench) -> None:
    """Of two reading tools one ends slowly: it has ended before the turn has."""

    @tool("reads")
    async def linger(seconds: float = 0.0) -> str:
        """Wait for ever, and tidy up."""
        bench.log.append("hang begins")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(seconds)
            bench.log.append(f"ended after {seconds}")
        return "never"

    made = [calls("linger", f'{{"seconds": {s}}}', name) for s, name in ((0.3, "a"), (0.0, "b"))]
    agent = Agent(Model(says(*made)), Toolbox([linger]), "system", retry=AT_ONCE)
    outcome = await interrupted(bench, agent)
    assert outcome.stop_reason == "interrupted"
    assert bench.log[2:] == ["ended after 0.0", "ended after 0.3"]
    assert all("Interrupted" in result.text for result in bench.results)
    await next_turn_works(bench)


async def test_an_interrupt_before_the_first_tool(bench: Bench) -> None:
    """No tool is run, each call has its result."""
    agent = bench.agent(Model(says(calls("write"), calls("look", id="c2"))))
    task = asyncio.create_task(bench.turn(agent))
    bench.on_event = lambda event: isinstance(event, MessageFinished) and task.cancel()
    outcome = await task
    assert (outcome.stop_reason, bench.log, len(bench.results)) == ("interrupted", [], 2)
    bench.on_event = lambda event: None
    await next_turn_works(bench)


@pytest.mark.parametrize("parts", [[], [TextDelta("It is")], [ThinkingDelta("hm")]])
async def test_an_interrupt_during_the_reply(bench: Bench, parts: list[ReplyPart]) -> None:
    """The partial reply is dropped, and a note on the interrupt is added."""
    slow = Slow(parts)
    task = asyncio.create_task(bench.turn(bench.agent(slow)))
    await slow.waiting.wait()
    task.cancel()
    outcome = await task
    assert (outcome.stop_reason, slow.closed) == ("interrupted", True)
    assert [type(m.blocks[0]) for m in bench.history] == [Text, Context]
    await next_turn_works(bench)


class Slow(Model):
    """Streams some parts and then nothing."""

    def __init__(self, parts: list[ReplyPart]) -> None:
        super().__init__(parts)
        self.waiting = asyncio.Event()
        self.closed = False

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        try:
            async for part in super().stream(request):
                yield part
            self.waiting.set()
            await asyncio.sleep(60)
        finally:
            self.closed = True


async def test_an_interrupt_while_waiting_to_retry(bench: Bench) -> None:
    """An interrupt ends the wait before a retry at once."""
    failing = Model(ProviderError("Busy.", retryable=True, retry_after=30))
    retry = RetryPolicy(max_delay=60)
    task = asyncio.create_task(bench.turn(bench.agent(failing, retry=retry)))
    while not bench.of(Retrying):
        await asyncio.sleep(0.001)
    task.cancel()
    async with asyncio.timeout(0.5):
        assert (await task).stop_reason == "interrupted"
    await next_turn_works(bench)


async def test_an_interrupt_is_over_when_the_turn_is(bench: Bench) -> None:
    """Time limits and task groups of the caller do not see the cancellation again."""

    async def turn_in_a_cell() -> int:
        task = asyncio.current_task()
        assert task is not None
        bench.on_event = lambda event: isinstance(event, ToolStarted) and task.cancel()
        await bench.turn(bench.agent(Model(says(calls("look")))))
        async with asyncio.timeout(5):
            await asyncio.sleep(0.001)
        return task.cancelling()

    assert await asyncio.create_task(turn_in_a_cell()) == 0


async def test_an_interrupt_in_the_last_call(bench: Bench) -> None:
    """An interrupt in the call after the step limit leaves a valid history."""
    model = Model(says(calls("look")), [TextDelta("So "), says("So far.")])
    task = asyncio.create_task(bench.turn(bench.agent(model, max_steps=1)))
    bench.on_event = lambda event: isinstance(event, TextDelta) and task.cancel()
    assert (await task).stop_reason == "interrupted"
    bench.on_event = lambda event: None
    await next_turn_works(bench)


# ---------------------------------------------------------------- anything at all

some_calls = st.builds(
    ToolCall,
    st.sampled_from(["a", "b", "", "call_0", "a_2"]),
    st.sampled_from(["look", "write", "crash", "refuse", "nothing", "\ud800"]),
    st.sampled_from(["{}", "", "{", "[]", "null", '{"name": "x"}', '{"name": 3}', '{"b": 1}']),
)
some_blocks = st.one_of(
    some_calls, some_calls, st.builds(Text, st.text(max_size=3)), st.just(Thinking("hm", {"a": 1}))
)
some_replies = st.builds(
    MessageFinished,
    st.builds(Message, st.just("assistant"), st.lists(some_blocks, max_size=4).map(tuple)),
    st.builds(Usage, st.integers(0, 9)),
    st.sampled_from(["end", "tool_use", "max_tokens", "refused"]),
)
some_errors = st.builds(
    lambda retryable: ProviderError("Broken.", retryable=retryable), st.booleans()
)
some_parts = st.tuples(
    st.lists(st.builds(TextDelta, st.text(max_size=2)), max_size=2), some_replies | some_errors
).map(lambda pair: [*pair[0], pair[1]])


@given(
    st.lists(some_parts, max_size=6),
    st.none() | st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(1, 4),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_turn_leaves_a_valid_history(
    replies: list[Any], interrupts: list[int] | None, limit: int
) -> None:
    """Any replies and any interrupt leave a valid history, and the next turn works."""
    asyncio.run(_any_turn(replies, interrupts, limit))


async def _any_turn(replies: list[Any], interrupts: list[int] | None, limit: int) -> None:
    bench = Bench()
    ends = itertools.repeat([ProviderError("The end.")])
    agent = bench.agent(Model(*replies, *itertools.islice(ends, 9)), max_steps=limit)
    task = asyncio.create_task(bench.turn(agent))
    for ticks in interrupts or []:
        for _ in range(ticks):
            await asyncio.sleep(0.0005 if ticks > 20 else 0)
        task.cancel()
    outcome = await task
    assert (outcome.stop_reason == "error") == (outcome.error is not None)
    started = [event.call.id for event in bench.of(ToolStarted)]
    finished = [event.result.call_id for event in bench.of(ToolFinished)]
    assert len(finished) == len(set(finished))
    assert set(started) <= set(finished)
    assert set(finished) == {result.call_id for result in bench.results}
    await next_turn_works(bench)


# Circles, budgets, a conversation that is too long, words in between ------------------------------


async def test_the_same_call_again_and_again() -> None:
    """A model that repeats a call is warned, then asked for its best answer; the turn ends."""
    same = [says(calls("look", '{"name": "a"}', id=f"c{n}")) for n in range(5)]
    model = Model(*same, says("So far: nothing."))
    bench = Bench()
    outcome = await bench.turn(bench.agent(model))
    assert outcome.stop_reason == "stuck"
    assert "circles" in outcome.why
    told = [event.text for event in bench.events if isinstance(event, Advised)]
    assert len(told) == 1 and "3 times" in told[0]
    assert told[0] in str(model.requests[3].messages)
    assert not model.requests[-1].tools_allowed
    assert bench.log.count("a begins") == 5
    assert bench.history[-1] == Message("assistant", (Text("So far: nothing."),))


async def test_failure_after_failure() -> None:
    """Steps that fail in the same way are reported by their kind of failure."""
    failing = [says(calls("nothing", f'{{"n": {n}}}', id=f"c{n}")) for n in range(5)]
    bench = Bench()
    outcome = await bench.turn(bench.agent(Model(*failing, says("I give up."))))
    assert outcome.stop_reason == "stuck"
    (told,) = [event.text for event in bench.events if isinstance(event, Advised)]
    assert "failed in the same way" in told


async def test_a_budget_of_tokens() -> None:
    """A used-up budget ends the turn between two steps; finished steps stay, no call follows."""
    model = Model(*(says(calls("look", f'{{"name": "{n}"}}', id=f"c{n}")) for n in range(9)))
    bench = Bench()
    outcome = await bench.turn(bench.agent(model, budget=Budget(tokens=30)))
    assert outcome.stop_reason == "budget"
    assert outcome.why.startswith("The budget of 30 tokens is used up after 3 steps;")
    assert len(model.requests) == 3
    assert bench.history[-1].tool_results


async def test_too_long_once() -> None:
    """A conversation that the provider calls too long is shortened, and the call repeated."""
    bench = Bench()
    model = Model(says(calls("long")), ContextOverflow("Too long."), says("Done."))
    outcome = await bench.turn(bench.agent(model))
    assert outcome.stop_reason == "end"
    assert any(isinstance(event, Compacted) for event in bench.events)
    sent = model.requests[-1].messages
    assert len(sent[-1].tool_results[0].text) < 10_000
    assert sent[:2] == model.requests[1].messages[:2]


async def test_too_long_twice() -> None:
    """A conversation still too long after shortening gives one clear error and no third request."""
    bench = Bench()
    model = Model(says(calls("long")), *(ContextOverflow("Too long."),) * 3)
    outcome = await bench.turn(bench.agent(model))
    assert (outcome.stop_reason, len(model.requests)) == ("error", 3)


async def test_too_long_and_nothing_to_shorten() -> None:
    """A task that is itself too long is not sent twice."""
    model = Model(ContextOverflow("Too long."))
    bench = Bench()
    outcome = await bench.turn(bench.agent(model))
    assert (outcome.stop_reason, len(model.requests)) == ("error", 1)


class Talkative:
    """A person who types something at given moments, and agrees to everything."""

    def __init__(self, *said: tuple[str, ...]) -> None:
        self._said = iter(said)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call_id, "yes")

    def said(self) -> tuple[str, ...]:
        return next(self._said, ())


async def test_words_in_between() -> None:
    """What the person types reaches the model with its next step."""
    model = Model(says(calls("look")), says("Done."))
    bench = Bench()
    await bench.turn(bench.agent(model, user=Talkative(("Only the first one.",))))
    assert Said("Only the first one.") in model.requests[1].messages[-1].blocks
    assert Steered("Only the first one.") in bench.events


async def test_words_beside_the_answer() -> None:
    """What the person types while the answer streams is answered, too."""
    model = Model(says("Done."), says("As you wish."))
    bench = Bench()
    await bench.turn(bench.agent(model, user=Talkative(("And b?",))))
    assert len(model.requests) == 2
    assert bench.history[-1] == Message("assistant", (Text("As you wish."),))


async def test_words_that_come_too_late() -> None:
    """What the person types after the last step reaches the model in the next turn."""
    bench = Bench()
    model = Model(says("No.", stop="refused"))
    await bench.turn(bench.agent(model, user=Talkative(("Please.",))))
    assert bench.history[-1] == Message("user", (Said("Please."),))
