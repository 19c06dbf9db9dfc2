"""The three ports of a recorded turn: each looks on the tape first, then asks the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    MessageFinished,
    Noticed,
    QuestionAnswered,
    QuestionAsked,
    ReplySource,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from jupyter_agent.core.messages import JsonObject, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.ports import Model, ReplyPart, Request, Tools, User
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.errors import ProviderError, ToolError
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.recording.tape import (
    ApprovalWanted,
    CallMade,
    EffectWanted,
    LinesTyped,
    ModelAsked,
    Tape,
)


class RecordedModel:
    """A model whose replies are looked up on a tape, and recorded there.

    Args:
        tape: The tape.
        model: The model to ask for what the tape does not hold; None for a pure replay.
    """

    def __init__(self, tape: Tape, model: Model | None = None) -> None:
        self.tape = tape
        self._model = model
        self.name = model.name if model else "replay"
        self.model = model.model if model else tape.model

    def asking(self, other: Callable[[Model], Model]) -> RecordedModel:
        """The same tape with another model to ask, made of this one."""
        return RecordedModel(self.tape, other(self._model)) if self._model else self

    def with_tape(self, tape: Tape) -> RecordedModel:
        """The same model on another tape."""
        return RecordedModel(tape, self._model)

    @property
    def source(self) -> ReplySource:
        """The origin of the turn's replies so far."""
        return self.tape.source or (self._model.source if self._model else "live")

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        question = ModelAsked(request)
        found = self.tape.lookup(question)
        if found is not None:
            for number, retry in enumerate(self.tape.retries(), 1):
                if retry.had_spoken:
                    yield TextDelta(" ")
                yield Retrying(retry.reason, number, 0.0)
            yield found
            return
        if self._model is None:
            raise ProviderError("The tape has no reply, and there is no model to ask.")
        had_spoken = False
        try:
            async with aclosing(self._model.stream(request)) as stream:  # type: ignore[type-var]
                async for part in stream:
                    had_spoken = had_spoken or isinstance(part, TextDelta | ThinkingDelta)
                    if isinstance(part, MessageFinished):
                        yield self.tape.record(question, part)
                    else:
                        # A replay on another computer fetches nothing, and must look the same.
                        yield replace(part, lasting=False) if isinstance(part, Noticed) else part
        except ProviderError as error:
            self.tape.failed(request, error, had_spoken)
            raise

    def body(self, request: Request) -> JsonObject:
        return self._model.body(request) if self._model else {}

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()


class RecordedUser:
    """A user whose decisions and lines are looked up on a tape, and recorded there."""

    def __init__(self, tape: Tape, user: User) -> None:
        self._tape = tape
        self._user = user

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        question = ApprovalWanted(asked)
        found = self._tape.lookup(question)
        if found is not None:
            return found
        return self._tape.record(question, await self._user.decide(asked))

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        question = EffectWanted(asked)
        found = self._tape.lookup(question)
        if found is not None:
            return found
        return self._tape.record(question, self._user.decide_now(asked))

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        """Ask the real user, except in a replay: the whole result of the call is recorded."""
        if not self._tape.asks_others:
            return QuestionAnswered(asked.call_id, by="nobody")
        return await self._user.answer(asked)

    def said(self) -> tuple[str, ...]:
        question = LinesTyped()
        found = self._tape.lookup(question)
        if found is not None:
            return found
        return self._tape.record(question, self._user.said())


class RecordedTools:
    """Tools whose results are looked up on a tape, and recorded there.

    Args:
        tools: The tools.
        tape: The tape of the turn.
    """

    def __init__(self, tools: Tools, tape: Tape) -> None:
        self._tools = tools
        self._tape = tape

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._tools.specs

    def runs_alone(self, call: ToolCall) -> bool:
        return self._tools.runs_alone(call)

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        return self._tools.prepare(call)

    async def carry_out(self, prepared: Prepared) -> ToolResult:
        question = CallMade(prepared)
        found = self._tape.lookup(question)
        if found is not None:
            return found
        result = await self._tools.carry_out(self._tape.today(prepared))
        return self._tape.record(question, result)


def carry_out_now(
    prepared: Prepared, tape: Tape, run: Callable[[Prepared], ToolResult]
) -> ToolResult:
    """Carry out a call that running code makes, in its thread."""
    question = CallMade(prepared, is_nested=True)
    found = tape.lookup(question)
    return tape.record(question, run(tape.today(prepared))) if found is None else found


def served_tools(tape: Tape) -> list[Tool]:
    """The tools of MCP servers in a replay: their results are recorded, or they fail."""
    return [_served(name, schema) for name, schema in tape.served.items()]


def _served(name: str, schema: JsonObject) -> Tool:
    async def call(**arguments: Any) -> ToolReturn:
        raise ToolError(f"{name} was not called like this when the cell was recorded.")

    spec = ToolSpec(name, "A tool of an MCP server, as it was recorded.", schema)
    return Tool(spec, call, any_arguments(schema), "executes")


def on_tape(model: Model, tape: Tape) -> Model:
    """The model of a delegate: the same one, with a tape of its own if it is recorded."""
    return model.with_tape(tape) if isinstance(model, RecordedModel) else model


def in_place_of(model: Model, other: Callable[[Model], Model]) -> Model:
    """Another model, made of this one, on the same tape."""
    return model.asking(other) if isinstance(model, RecordedModel) else other(model)


def tape_of(model: Model) -> Tape:
    """The tape of a model; a blank one if it is not recorded."""
    return model.tape if isinstance(model, RecordedModel) else Tape()
