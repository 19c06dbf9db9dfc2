"""Delegates: a part of a turn's work, done by an agent with a conversation of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from jupyter_agent.agent.loop import Agent, RunningTurn, TurnOutcome
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.events import (
    PASSING,
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    MessageFinished,
    QuestionAnswered,
    QuestionAsked,
    ReplySource,
    Sink,
    TextDelta,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import JsonObject, Message, Output, Text, ToolCall, Usage
from jupyter_agent.core.ports import Model, ReplyPart, Request, User
from jupyter_agent.core.transcript import CallView
from jupyter_agent.core.wording import body
from jupyter_agent.errors import ProviderError


@dataclass(frozen=True, slots=True)
class DelegateEnd:
    """How a delegate ended.

    Args:
        outcome: The end of its conversation.
        report: The text of its last message; empty if that called a tool.
        steps: The number of its steps.
    """

    outcome: TurnOutcome
    report: str
    steps: int


async def run_delegate(agent: Agent, task: str, message: Message, emit: Sink) -> DelegateEnd:
    """Run a delegate's conversation from its first message to its report.

    Args:
        agent: Its model, its tools and its limits.
        task: Its task.
        message: The task with its context.
        emit: Takes the events of its conversation, without those for the live view alone.

    Raises:
        asyncio.CancelledError: The person stopped the turn.
    """
    report = ""

    def note(event: Event) -> None:
        nonlocal report
        if isinstance(event, MessageFinished):
            report = "" if event.message.tool_calls else event.message.text
        if not isinstance(event, PASSING):
            emit(event)

    model = agent.provider
    note(TurnStarted(task, model.name, model.model, model.source))
    turn = RunningTurn(agent, [message], note)
    outcome = await turn.outcome()
    error = str(outcome.error) if outcome.error else outcome.why
    note(TurnFinished(outcome.stop_reason, outcome.usage, error=error))
    if outcome.stop_reason == "interrupted":
        raise asyncio.CancelledError  # the loop that ran it took the cancellation for its own
    return DelegateEnd(outcome, report, turn.steps)


def share_of(budget: Budget, used: Usage, seconds_used: float, parts: int) -> Budget:
    """An equal part of what is left of a turn's budget. The time is not divided: it runs for all.

    Args:
        budget: The limits of the turn.
        used: Its tokens so far.
        seconds_used: Its seconds so far.
        parts: How many share the rest.
    """
    tokens, usd, seconds = budget.tokens, budget.usd, budget.seconds
    if tokens is not None:
        tokens = max(0, tokens - used.total_tokens) // parts
    if usd is not None:
        usd = max(0.0, usd - float(budget.price(used) or 0)) / parts
    if seconds is not None:
        seconds = max(0.0, seconds - seconds_used)
    return Budget(tokens, seconds, usd, budget.price)


class GivenToDelegates:
    """A model that calls `delegate` for what a person gave away, and answers with the reports.

    It is asked in place of the real one, so that the person's delegates run in a turn like those
    of an agent: shown, stopped, undone and recorded. It uses no tokens.

    Args:
        model: The model that the delegates ask.
        assignments: The arguments of each call.
    """

    def __init__(self, model: Model, assignments: Sequence[JsonObject]) -> None:
        self._model = model
        self._assignments = assignments
        self.name, self.model = model.name, model.model

    @property
    def source(self) -> ReplySource:
        return self._model.source

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        """As `Model.stream`. Raises `ProviderError` if each delegate failed."""
        results = request.messages[-1].tool_results
        if request.purpose == "summary":
            text = "The reports of earlier delegates were left out."
            yield MessageFinished(Message("assistant", (Text(text),)), Usage(), "end", 0)
        elif results:
            text = "\n\n".join(result.text for result in results)
            if all(result.is_error for result in results):
                raise ProviderError(text)
            yield TextDelta(text)
            yield MessageFinished(Message("assistant", (Text(text),)), Usage(), "end", 0)
        else:
            before = len(request.messages)
            calls = (
                ToolCall(f"delegate_{before}_{number}", "delegate", json.dumps(each))
                for number, each in enumerate(self._assignments, 1)
            )
            yield MessageFinished(Message("assistant", (*calls,)), Usage(), "tool_use", 0)

    def body(self, request: Request) -> JsonObject:
        """Nothing is sent."""
        return {}

    async def close(self) -> None:
        """The real model is closed by its owner."""


class DelegateUser:
    """The user of a delegate: the person, who is told which delegate asks.

    Questions of several delegates are asked one at a time, at the call that the delegate works for;
    but what running code is about to do is asked at once, since the code cannot wait.

    Args:
        user: The user of the turn.
        name: The delegate's name.
        call_id: The call that it works for.
        emit: Takes the questions and answers as events of the turn.
        one_by_one: Held while a question is open, unless running code asks.
    """

    def __init__(
        self, user: User, name: str, call_id: str, emit: Sink, one_by_one: asyncio.Lock
    ) -> None:
        self._user = user
        self._name = name
        self._call_id = call_id
        self._emit = emit
        self._one_by_one = one_by_one
        self._calls: dict[str, str] = {}

    def saw(self, event: Event) -> None:
        """Note the calls of the delegate, so that a question about one can show it."""
        if isinstance(event, MessageFinished):
            self._calls.update((call.id, body(CallView(call))) for call in event.message.tool_calls)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        async with self._one_by_one:
            about = self._calls.get(asked.call_id, "")
            shown = (Output("result", {"text/plain": about}),) if about else ()
            question = replace(
                asked,
                call_id=self._call_id,
                question=f"({self._name}) {asked.question}",
                preview=(*shown, *asked.preview),
                by_part=False,
            )
            self._emit(question)
            answered = await self._user.decide(question)
            self._emit(answered)
            return replace(answered, call_id=asked.call_id)

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        question = f"({self._name}) {asked.question}"
        answered = self._user.decide_now(replace(asked, call_id=self._call_id, question=question))
        return replace(answered, call_id=asked.call_id)

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        async with self._one_by_one:
            question = replace(
                asked, call_id=self._call_id, question=f"({self._name}) {asked.question}"
            )
            self._emit(question)
            answered = await self._user.answer(question)
            self._emit(answered)
            return replace(answered, call_id=asked.call_id)

    def said(self) -> tuple[str, ...]:
        """Nothing: what the person types is for the agent that gave the task."""
        return ()
