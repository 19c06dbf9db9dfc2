"""From a server's stream to a reply: what both adapters do with the events they read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from jupyter_agent.errors import AgentError, ProviderError
from jupyter_agent.events import MessageFinished
from jupyter_agent.llm.provider import ReplyPart
from jupyter_agent.llm.wire import mapping


class OpenReply(Protocol):
    """A reply while it is being streamed, in one of the wire formats."""

    complete: bool

    def add(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Take in one event; yields the deltas that are in it."""

    def finished(self) -> MessageFinished | None:
        """The whole reply; None where the stream ended without a stop reason."""


class EventStream(Protocol):
    """A server's events. Leaving it closes the connection."""

    def __aiter__(self) -> AsyncIterator[object]: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> object: ...


async def relay(
    opened: Callable[[], Awaitable[EventStream]],
    reply: OpenReply,
    failure: Callable[[Exception], ProviderError],
    cut_short: Callable[[], ProviderError],
) -> AsyncGenerator[ReplyPart, None]:
    """Yield a reply's deltas as they arrive, then one `MessageFinished`.

    Args:
        opened: Sends the request.
        reply: Collects the events.
        failure: Says an error of the SDK, the connection or the stream in our words.
        cut_short: The error for a stream that ends without a stop reason.

    Raises:
        ProviderError: The call failed, or its stream broke off.
    """
    try:
        async with await opened() as events:
            async for event in events:
                for part in reply.add(mapping(event)):
                    yield part
                if reply.complete:
                    await _drain(events)
                    break
        finished = reply.finished()
    except AgentError:
        raise
    except Exception as error:
        raise failure(error) from error
    if finished is None:
        raise cut_short()
    yield finished


async def _drain(stream: EventStream) -> None:
    """Read what is left of an answered stream, so that its connection can be used again.

    The reply is complete by now: a server that dawdles or breaks off here does no harm.
    """
    with suppress(Exception):
        async with asyncio.timeout(1.0):
            async for _ in stream:
                pass
