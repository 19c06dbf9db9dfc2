"""What the loop asks of a model, and how an adapter answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from jupyter_agent.core.events import (
    MessageFinished,
    Noticed,
    Preparing,
    ReplySource,
    TextDelta,
    ThinkingDelta,
)
from jupyter_agent.core.messages import JsonObject, Message, ToolSpec


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the system prompt, the conversation so far, the tools on offer.

    `tools_allowed` is false for the last call of a turn that reached its step limit. The tools
    are still listed then: providers want them where the conversation used them, and prompt
    caches live on an unchanged prefix. `characters` is how much text the messages have, where who
    asks has counted it: for the log, nothing is sent of it.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tools_allowed: bool = True
    characters: int = 0


ReplyPart = Noticed | Preparing | TextDelta | ThinkingDelta | MessageFinished


class Provider(Protocol):
    """A model behind some API, or a recording of one.

    `stream` yields deltas as they arrive and ends with exactly one `MessageFinished`. A model that
    must be fetched or loaded first says so before them, by `Noticed` and `Preparing`. Every
    failure is a `ProviderError`; a stream that breaks off is a failure, never a short reply.
    """

    name: str
    model: str

    @property
    def source(self) -> ReplySource:
        """Where the replies come from."""

    def stream(self, request: Request) -> AsyncIterator[ReplyPart]: ...

    def body(self, request: Request) -> JsonObject:
        """What `stream` would send, as JSON: for looking at. Empty where nothing is sent."""

    async def close(self) -> None:
        """Release connections. The provider is not used afterwards."""
