"""The ports of the agent loop: a model that answers, a user who decides, tools that act.

The loop knows these protocols and no class behind them. A recording wraps all three, a replay
replaces them, so that the loop, the tools and the session ask for no mode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    MessageFinished,
    Noticed,
    Preparing,
    QuestionAnswered,
    QuestionAsked,
    ReplySource,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from jupyter_agent.core.messages import JsonObject, Message, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.tool import Prepared


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the system prompt, the conversation so far, the tools on offer.

    Args:
        system: The system prompt.
        messages: The conversation, oldest message first.
        tools: The tools in the order of their schemas.
        tools_allowed: False for the last call of a turn that reached its step limit. The tools
            are still listed: providers require them if the conversation used them, and prompt
            caches depend on an unchanged prefix.
        characters: The length of the messages' text if the caller counted it. It is for the log
            and is not sent.
        purpose: `reply` for a step of a turn, `summary` for the summary of earlier steps.
        attempt: The number of the attempt, from 0, in a turn that compares several: they need
            replies that differ.
        steady: True asks for the likeliest reply, so that the same request has the same one.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tools_allowed: bool = True
    characters: int = 0
    purpose: Literal["reply", "summary"] = "reply"
    attempt: int = 0
    steady: bool = False


ReplyPart = Noticed | Preparing | Retrying | TextDelta | ThinkingDelta | MessageFinished


class Model(Protocol):
    """A model behind some API, or a recording of one.

    Attributes:
        name: The provider's name.
        model: The model's id.
    """

    name: str
    model: str

    @property
    def source(self) -> ReplySource:
        """The origin of the replies: a model, or a kind of cassette."""

    def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        """Stream one reply: deltas as they arrive, then exactly one `MessageFinished`.

        A model that must be fetched or loaded yields `Noticed` and `Preparing` before.

        Raises:
            ProviderError: Any failure. A stream that breaks off is a failure, never a short reply.
        """
        ...

    def body(self, request: Request) -> JsonObject:
        """The JSON that `stream` would send, for inspection; empty if it sends nothing."""

    async def close(self) -> None:
        """Release connections. The model is not used afterwards."""


class User(Protocol):
    """The user who watches a turn."""

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        """Answer one question. The loop asks one at a time. A cancellation passes through."""

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        """Answer a question about a side effect, while code runs and waits, in any thread.

        Raises:
            KeyboardInterrupt: The user interrupted in place of an answer.
        """

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        """Answer a question in words. One is asked at a time. A cancellation passes through."""

    def said(self) -> tuple[str, ...]:
        """The lines that the user typed since the last call, oldest first."""


class Nobody:
    """No user: each question is answered with no, or not at all."""

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call_id, "no", "nobody")

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call_id, "no", "nobody")

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        return QuestionAnswered(asked.call_id, by="nobody")

    def said(self) -> tuple[str, ...]:
        return ()


class Tools(Protocol):
    """The tools of a session. No method raises, except for a cancellation.

    Attributes:
        specs: The schemas, in the order of every request.
    """

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def runs_alone(self, call: ToolCall) -> bool:
        """True if the call may change something, so that no other call may run beside it."""

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        """Find the tool and check the arguments; an error result if the call cannot run."""

    async def carry_out(self, prepared: Prepared) -> ToolResult:
        """Run a call. A failure is an error result."""
