"""From a server's stream to a reply: what both adapters do with the events they read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, Protocol, Self

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.ports import ReplyPart
from jupyter_agent.errors import AgentError, ProviderError
from jupyter_agent.llm.wire import mapping

_BOM = b"\xef\xbb\xbf"
_GRACE = 5.0
"""Seconds for what may follow a stop reason: the usage."""
_GRACE_AT_THE_END = 1.0


class OpenReply(Protocol):
    """A reply while it is being streamed, in one of the wire formats.

    Attributes:
        answered: The server has said why the reply ends: nothing of it is missing.
        complete: Nothing worth waiting for can follow.
    """

    @property
    def answered(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    def add(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Take in one event; yields the deltas that are in it."""

    def add_whole(self, body: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Take in a reply that came in one piece; yields its deltas."""

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


class NotAStream(Exception):
    """A server answered a request for a stream with something else: `text`, all of it."""

    def __init__(self, text: str) -> None:
        super().__init__("no stream of events")
        self.text = text

    def body(self) -> dict[str, Any]:
        """The JSON object in it, else an empty one."""
        try:
            return mapping(json.loads(self.text))
        except (ValueError, RecursionError):
            return {}


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
        async with await opened() as stream:
            events = aiter(stream)
            while (event := await _next(events, reply, failure)) is not _END:
                for part in () if reply.complete else reply.add(mapping(event)):
                    yield part
        finished = reply.finished()
    except AgentError:
        raise
    except NotAStream as whole:
        # Some gateways do not stream. The reply was paid for: it counts where it is one.
        for part in reply.add_whole(whole.body()):
            yield part
        finished = reply.finished()
        if finished is None:
            raise failure(whole) from whole
    except Exception as error:
        raise failure(error) from error
    if finished is None:
        raise cut_short()
    yield finished


_END = object()


async def _next(
    events: AsyncIterator[object], reply: OpenReply, failure: Callable[[Exception], ProviderError]
) -> object:
    """The next event, or `_END`.

    A reply that has its stop reason is whole. A server that dawdles or breaks off after it does
    no harm: the rest is read for the usage, and so that the connection can be used again.
    """
    if not reply.answered:
        return await anext(events, _END)
    try:
        async with asyncio.timeout(_GRACE_AT_THE_END if reply.complete else _GRACE):
            return await anext(events, _END)
    except Exception as error:
        if reply.complete or failure(error).status is None:
            return _END
        raise


async def sent(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream of events, without a byte order mark.

    Raises:
        NotAStream: It is a web page, or a reply in one piece.
    """
    async with aclosing(chunks):
        head = b""
        begun = False
        async for chunk in chunks:
            if begun:
                yield chunk
                continue
            head += chunk
            text = head.removeprefix(_BOM).lstrip()
            begun = bool(text) and not _BOM.startswith(head)
            # No line of a stream of events begins like JSON or HTML.
            if begun and text[:1] in (b"{", b"[", b"<"):
                rest = [piece async for piece in chunks]
                raise NotAStream((text + b"".join(rest)).decode("utf-8", "replace"))
            if begun:
                yield head.removeprefix(_BOM)
        if not begun:
            yield head
