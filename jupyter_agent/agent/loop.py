"""The agent loop: ask the model, run the tools that it calls, ask again, until it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from jupyter_agent.agent.approval_gate import ApprovalGate
from jupyter_agent.agent.compaction import Compactor, about_tokens, shortened
from jupyter_agent.agent.repetition import RepetitionDetector
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.events import (
    Advised,
    Compacted,
    Delegated,
    Event,
    MessageFinished,
    QuestionAnswered,
    QuestionAsked,
    Sink,
    Steered,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStop,
)
from jupyter_agent.core.history import INTERRUPTED_NOTE, TextLength, free_id, repair
from jupyter_agent.core.messages import (
    Context,
    Image,
    JsonObject,
    Message,
    Said,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.core.plaintext import count
from jupyter_agent.core.ports import Model, Nobody, Request, Tools, User
from jupyter_agent.core.tool import (
    DelegateSinks,
    Prepared,
    Printed,
    ask,
    call_id,
    delegated,
    report,
)
from jupyter_agent.errors import AgentError, ContextOverflow, ProviderError, broken_off
from jupyter_agent.llm.retry import RetryPolicy, stream_with_retry

TYPING = 0.5
"""Seconds of tool calls in which the user may have typed something."""
LISTENING = 0.1
"""Seconds to read lines that arrived while code held the event loop."""
LAST_CALL = (
    "The step limit of this turn is reached. No tool can be called any more. Give your best answer "
    "from what you found so far, and say plainly what is unfinished."
)
GOING_IN_CIRCLES = "The model went in circles: it did the same again and again."
INTERRUPTED = "Interrupted by the person before it finished. It may have run in part."
NOT_BEGUN = "Not run: the person interrupted the turn before."
NOT_RUN_REFUSED = "Not run: the reply ended in a refusal."
NOT_RUN_CUT_OFF = (
    "Not run: the reply was cut off at its token limit, and this call with it. "
    "Send the call again, whole; split the work if it is long."
)
_NOT_RUN: JsonObject = {"state": "not_run"}


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts that run a turn: the model, its tools and prompt, the rules and limits.

    Without a `compactor` the conversation is shortened only if the provider refuses it.
    """

    provider: Model
    toolbox: Tools
    system: str
    max_steps: int = 50
    retry: RetryPolicy = RetryPolicy()
    images_per_step: int = 4
    approval_gate: ApprovalGate = field(default_factory=ApprovalGate)
    user: User = field(default_factory=Nobody)
    budget: Budget = field(default_factory=Budget)
    advice: Callable[[], str] = str
    """Returns text for the model after a step, besides the results; mostly empty."""
    compactor: Compactor | None = None
    samples: int = 1
    """The attempts at the task; see `voting`."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of a turn. `error` is the exception to raise if `stop_reason` is `error`.

    `why` is a line about the budget or the repetition that ended it; else empty. `is_whole` is
    False if the model failed in one of several attempts.
    """

    stop_reason: TurnStop
    usage: Usage
    error: AgentError | None = None
    why: str = ""
    is_whole: bool = True


async def run_turn(agent: Agent, history: list[Message], emit: Sink) -> TurnOutcome:
    """Run one turn: `history` ends with the user's task, and grows by the turn's messages.

    The agent's compactor, if any, shortens it in place between two steps.

    However the turn ends, `history` is valid for the next one: each tool call has its result,
    finished steps stay, a partial reply is removed. A cancellation of the surrounding asyncio task
    ends the turn as `interrupted` and is not passed on. An unforeseen exception (the agent's code
    may have patched a function of Python) ends the turn as `error`.
    """
    turn = RunningTurn(agent, history, emit)
    try:
        return await turn.outcome()
    finally:
        turn.hear()


class RunningTurn:
    """The state of one turn, or of one attempt at it: the growing history and the usage so far.

    Args:
        agent: The parts that run it.
        history: The conversation, which ends with the task.
        emit: Takes the events.
        after: The attempt before this one, whose steps, tokens and ids of calls count on.

    Attributes:
        usage: The tokens so far, those of earlier attempts included.
        steps: The steps so far, likewise.
        why: As in `TurnOutcome`.
    """

    def __init__(
        self,
        agent: Agent,
        history: list[Message],
        emit: Sink,
        after: RunningTurn | None = None,
    ) -> None:
        self.usage: Usage = after.usage if after else Usage()
        self.steps: int = after.steps if after else 0
        self.why = ""
        self._attempt: int = after._attempt + 1 if after else 0
        self._repetition = RepetitionDetector()
        self._compacted = False
        self._asked_for = 0.0  # seconds of the running call in which the user was asked
        self._text_length = TextLength()
        self._agent = agent
        self._history = history
        self._emit = emit
        self._delegated: dict[str, Usage] = {}
        self._begun: set[str] = set()
        self._ran: set[str] = set()
        self._used_ids = {call.id for message in history for call in message.tool_calls}
        self._used_ids |= after._used_ids if after else set()

    async def outcome(self) -> TurnOutcome:
        """Run it; the history is valid afterwards, as `run_turn` says."""
        history = self._history
        try:
            stop = await self.run()
            return TurnOutcome(stop, self.usage, why=self.why)
        except asyncio.CancelledError:
            _stay_cancelled_no_longer()
            history.append(Message("user", (Context(INTERRUPTED_NOTE),)))
            return TurnOutcome("interrupted", self.usage)
        except ProviderError as error:
            return TurnOutcome("error", self.usage, error)
        except Exception as error:
            history[:] = repair(history)
            return TurnOutcome("error", self.usage, broken_off(error))

    async def run(self) -> TurnStop:
        """Ask and act until the model calls no more tools, or a limit ends the turn."""
        limit = self._agent.max_steps
        said: tuple[str, ...] = ()
        for number in range(self.steps + 1, limit + 1):
            # A provider that answers at once (a replay) never suspends; an interrupt arrives here.
            await asyncio.sleep(0)
            if self._is_out_of_budget(number - 1):
                self._put(said)
                return "budget"
            self.steps = number
            self._emit(StepStarted(number, limit))
            self._put(said)
            reply = await self._ask()
            began = time.monotonic()
            stop = await self._act(reply)
            if time.monotonic() - began > TYPING:
                await asyncio.sleep(LISTENING)
            said = self._agent.user.said()
            if stop == "stuck":
                await self._last_call(number, self._repetition.words, said)
                return stop
            if stop is not None and not (stop == "end" and said):
                self._put(said)
                return stop
        await asyncio.sleep(0)
        await self._last_call(limit, LAST_CALL, said)
        return "step_limit"

    def _is_out_of_budget(self, steps: int) -> bool:
        reached = self._agent.budget.used_up(self.usage) if steps else ""
        if reached:
            self.why = f"{reached} after {count(steps, 'step')}; what was done stays."
        return bool(reached)

    def hear(self) -> None:
        """Add the user's unread lines to the history, for the next turn."""
        self._put(self._agent.user.said())

    def _put(self, said: Sequence[str]) -> None:
        for text in said:
            self._history.append(Message("user", (Said(text),)))
            self._emit(Steered(text))

    async def _ask(self, tools_allowed: bool = True) -> MessageFinished:
        """One model call; a second one with a shorter conversation if it is too long."""
        await self._make_room()
        try:
            return await self._ask_once(tools_allowed)
        except ContextOverflow:
            shorter = None if self._compacted else shortened(self._history)
            if shorter is None:
                raise
            before, after = about_tokens(self._history), about_tokens(shorter)
        self._compacted = True
        self._history[:] = shorter
        self._emit(Compacted(before, after))
        return await self._ask_once(tools_allowed)

    async def _make_room(self) -> None:
        """Shorten the conversation if that is due; an interrupt leaves it unchanged."""
        agent, compactor = self._agent, self._agent.compactor
        if compactor is None:
            return
        request = self._request()
        if not compactor.is_due(request, agent.provider):
            return
        try:
            compaction = await compactor.shorten(request, agent.provider, agent.retry)
        finally:
            self.usage += compactor.take_usage()
        if compaction.gained:
            self._history[:] = compaction.history
            self._emit(Compacted(compaction.before, compaction.after, compaction.dropped))

    def _request(self, tools_allowed: bool = True) -> Request:
        agent = self._agent
        return Request(
            agent.system,
            tuple(self._history),
            agent.toolbox.specs,
            tools_allowed=tools_allowed,
            characters=self._text_length.of(self._history),
            attempt=self._attempt,
        )

    async def _ask_once(self, tools_allowed: bool) -> MessageFinished:
        """One model call: emits its deltas and returns its finished message."""
        agent = self._agent
        request = self._request(tools_allowed)
        async with aclosing(stream_with_retry(agent.provider, request, agent.retry)) as stream:
            async for part in stream:
                if isinstance(part, MessageFinished):
                    message = self._with_unique_ids(part.message)
                    reply = replace(part, message=message if tools_allowed else _words(message))
                    self.usage += reply.usage
                    if agent.compactor is not None:
                        agent.compactor.replied(request, agent.provider, reply.usage)
                    self._emit(reply)
                    return reply
                self._emit(part)
        raise ProviderError("The model's stream ended without a message.")

    async def _act(self, reply: MessageFinished) -> TurnStop | None:
        """Run a reply's calls. Returns why the turn ends; None if the model goes on."""
        if reply.message.blocks:
            self._history.append(reply.message)
        calls = reply.message.tool_calls
        if reply.stop_reason == "refused":
            self._add_results(calls, {}, NOT_RUN_REFUSED)
            return "refused"
        if not calls:
            return "end"
        results = await self._run_calls(calls, cut_off=reply.stop_reason == "max_tokens")
        if words := self._agent.advice():
            self._advise(words)
        return self._detect_repetition(calls, results)

    def _detect_repetition(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> TurnStop | None:
        advice = self._repetition.look(calls, results)
        if advice == "tell":
            self._advise(self._repetition.words)
        if advice == "end":
            self.why = GOING_IN_CIRCLES
            return "stuck"
        return None

    def _advise(self, words: str) -> None:
        self._history.append(Message("user", (Context(words),)))
        self._emit(Advised(words))

    async def _run_calls(self, calls: tuple[ToolCall, ...], cut_off: bool) -> list[ToolResult]:
        """Run calls in their order, reading ones side by side, and add one result for each.

        `cut_off` is True if the reply ended at its token limit: its last call is not run, even
        if the arguments that arrived happen to be valid.
        """
        results: dict[str, ToolResult] = {}
        whole = calls[:-1] if cut_off else calls
        try:
            for alone, group in groupby(whole, self._agent.toolbox.runs_alone):
                if alone:
                    for call in group:
                        await self._run_call(call, results)
                else:
                    await _side_by_side(self._run_call(call, results) for call in group)
            if cut_off:
                self._fill_gaps(calls[-1:], results, NOT_RUN_CUT_OFF)
        finally:
            begun = [call for call in calls if call.id in self._begun]
            ran = [call for call in begun if call.id in self._ran]
            self._fill_gaps(ran, results, INTERRUPTED, {"state": "interrupted"})
            self._fill_gaps(begun, results, NOT_BEGUN, {"state": "interrupted", "ran": False})
            self._add_results(calls, results, NOT_BEGUN)
        return [results[call.id] for call in calls]

    async def _run_call(self, call: ToolCall, results: dict[str, ToolResult]) -> None:
        await asyncio.sleep(0)
        self._begun.add(call.id)
        self._emit(ToolStarted(call))
        started = time.monotonic()
        result = self._agent.toolbox.prepare(call)
        if isinstance(result, Prepared):
            prepared = result
            refusal = await self._agent.approval_gate.refusal(prepared, self._emit)
            started = time.monotonic()  # the user's time is not the tool's
            if not refusal:
                self._ran.add(call.id)
            result = await self._run(prepared) if not refusal else _refused(call, refusal)
        results[call.id] = result
        seconds, self._asked_for = time.monotonic() - started - self._asked_for, 0.0
        self._emit(ToolFinished(result, seconds))

    async def _run(self, prepared: Prepared) -> ToolResult:
        printed = report.set(Printed(prepared.call.id, self._emit))
        running = call_id.set(prepared.call.id)
        asking = ask.set(self._ask_user)
        own = partial(self._note_delegated, prepared.call.id)
        delegating = delegated.set(DelegateSinks(own, self._emit))
        try:
            return await self._agent.toolbox.carry_out(prepared)
        finally:
            report.reset(printed)
            call_id.reset(running)
            ask.reset(asking)
            delegated.reset(delegating)

    def _note_delegated(self, call_id: str, event: Event) -> None:
        """Pass on an event of a delegate, whose tokens count against this turn's limits.

        Its last event has those of all its model calls, summaries of its conversation among them.
        """
        counted = self._delegated.get(call_id, Usage())
        if isinstance(event, MessageFinished):
            self._delegated[call_id] = counted + event.usage
            self.usage += event.usage
        elif isinstance(event, TurnFinished):
            self.usage += event.usage - counted
        self._emit(Delegated(call_id, event))

    async def _ask_user(self, asked: QuestionAsked) -> QuestionAnswered:
        """Ask the user for the running call, which runs alone."""
        began = time.monotonic()
        self._emit(asked)
        answered = await self._agent.user.answer(asked)
        self._emit(answered)
        self._asked_for += time.monotonic() - began
        return answered

    def _fill_gaps(
        self,
        calls: Sequence[ToolCall],
        results: dict[str, ToolResult],
        reason: str,
        details: JsonObject = _NOT_RUN,
    ) -> None:
        """Give an error result to each call that has none."""
        for call in calls:
            if call.id not in results:
                results[call.id] = ToolResult(
                    call.id, (Text(reason),), is_error=True, details=details
                )
                self._emit(ToolFinished(results[call.id], 0.0))

    def _add_results(
        self, calls: Sequence[ToolCall], results: dict[str, ToolResult], reason: str
    ) -> None:
        """Put one result for each call into the history; `reason` fills the gaps."""
        self._fill_gaps(calls, results, reason)
        if calls:
            answers = [results[call.id].for_model() for call in calls]
            self._history.append(
                Message("user", _with_few_images(answers, self._agent.images_per_step))
            )

    async def _last_call(self, steps: int, words: str, said: Sequence[str]) -> None:
        """Ask once more after the last step, without tools, for the best answer so far."""
        self._history.append(Message("user", (Context(words),)))
        self.steps = steps + 1
        self._emit(StepStarted(self.steps, self._agent.max_steps))
        self._put(said)
        reply = await self._ask(tools_allowed=False)
        if reply.message.blocks:
            self._history.append(reply.message)

    def _with_unique_ids(self, message: Message) -> Message:
        """The message with new ids for calls whose id was used before, as some servers repeat."""
        used = self._used_ids
        blocks = tuple(
            replace(block, id=free_id(block.id, used)) if isinstance(block, ToolCall) else block
            for block in message.blocks
        )
        return replace(message, blocks=blocks)


async def _side_by_side(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of it at once. If one part fails or is cancelled, or the caller is cancelled, the
    rest is cancelled.

    It returns when the last part has ended. `asyncio.gather` would leave the others to end when
    they like: in the middle of the next turn.
    """
    parts = [asyncio.ensure_future(each) for each in work]
    running, cancelled, stopped = {*parts}, False, False
    while running:
        is_new = False
        try:
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            is_new = not stopped and any(part.cancelled() or part.exception() for part in ended)
        except asyncio.CancelledError:
            cancelled = is_new = True
        if is_new:  # once for each reason: a second time would break off how a part ends
            stopped = True
            for part in running:
                part.cancel()
    if cancelled:
        raise asyncio.CancelledError
    for part in parts:
        part.result()


def _refused(call: ToolCall, reason: str) -> ToolResult:
    return ToolResult(call.id, (Text(reason),), is_error=True, details={"state": "refused"})


def _words(message: Message) -> Message:
    """The message without tool calls, which some models send although they may not."""
    return replace(message, blocks=tuple(b for b in message.blocks if not isinstance(b, ToolCall)))


def _with_few_images(results: Sequence[ToolResult], most: int) -> tuple[ToolResult, ...]:
    """The results with at most `most` pictures in all; a line of text replaces each other one."""
    bounded: list[ToolResult] = []
    for result in results:
        kept = result
        images = [block for block in result.content if isinstance(block, Image)]
        room, most = most, max(0, most - len(images))
        if len(images) > room:
            words = tuple(block for block in result.content if isinstance(block, Text))
            notice = Text(f"({len(images) - room} pictures are not sent to you)")
            kept = replace(result, content=(*words, *images[:room], notice))
        bounded.append(kept)
    return tuple(bounded)


def _stay_cancelled_no_longer() -> None:
    """Clear the task's cancellation: `asyncio.timeout` and task groups must not see it again."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass
