"""The shared part of both adapters: the SDK's client, its errors, and replies from streams."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from jupyter_agent.core.events import MessageFinished, ReplySource
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import AgentError, ConfigError, ProviderError
from jupyter_agent.llm.connection import Connection
from jupyter_agent.llm.failures import Endpoint, code_of, retry_after, said_by, status_of
from jupyter_agent.llm.wire import mapping

_BOM = b"\xef\xbb\xbf"
_GRACE = 5.0
"""Seconds to wait for the usage, which may follow a stop reason."""
_GRACE_AT_THE_END = 1.0


class OpenReply(Protocol):
    """A reply while it is being streamed, in one of the wire formats.

    Attributes:
        answered: True once the stop reason has arrived: the reply is complete.
        complete: True if no further event matters.
    """

    @property
    def answered(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    def add(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add one event; yields its deltas."""

    def add_whole(self, body: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add a reply that came in one piece; yields its deltas."""

    def finished(self) -> MessageFinished | None:
        """The whole reply; None if the stream ended without a stop reason."""


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
    """A server answered a request for a stream with another body, the whole of which is `text`."""

    def __init__(self, text: str) -> None:
        super().__init__("no stream of events")
        self.text = text

    def body(self) -> dict[str, Any]:
        """The JSON object in the text; an empty one if it holds none."""
        try:
            return mapping(json.loads(self.text))
        except (ValueError, RecursionError):
            return {}


class Adapter(ABC):
    """The shared half of the adapters: both SDKs use the same names for their parts.

    Args:
        model: The model's id.
        key: The key for the server; None leaves it to the SDK.
        base: The server's address; None: the SDK's own.
        timeout: Seconds without a sign of life after which a call fails.
        connection: Proxy, certificates and headers.

    Raises:
        ConfigError: The SDK's client cannot be made.
    """

    source: ReplySource = "live"
    _sdk: ClassVar[Any]
    """The SDK's module."""
    _maker: ClassVar[str]
    """The name of the API in messages."""
    _endpoint: Endpoint

    def __init__(
        self,
        model: str,
        key: str | None,
        base: str | None,
        timeout: float,
        connection: Connection | None,
    ) -> None:
        self.model = model
        self._key = key
        self._base = base
        self._timeout = timeout
        self._connection = connection or Connection()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client = self._new_client()

    @abstractmethod
    async def _send(self, request: Request) -> EventStream: ...

    @abstractmethod
    def _new_reply(self) -> OpenReply: ...

    def stream(self, request: Request) -> AsyncGenerator[ReplyPart, None]:
        """Ask the model; yields deltas, then one `MessageFinished`.

        Raises:
            ProviderError: The call failed, or its stream broke off.
        """
        return streamed(
            lambda: self._open(request),
            self._new_reply(),
            self._failure,
            self._endpoint.cut_short,
        )

    async def close(self) -> None:
        """Release the connections."""
        if self._loop in (None, asyncio.get_running_loop()):
            await self._client.close()

    def _new_client(self) -> Any:
        try:
            way = self._connection.client_options()
            return self._sdk.AsyncClient(
                api_key=self._key,
                base_url=self._base,
                timeout=self._sdk.Timeout(self._timeout, connect=min(self._timeout, 10.0)),
                max_retries=0,
                default_headers=dict(self._connection.headers) or None,
                http_client=self._sdk.DefaultAsyncHttpxClient(**way) if way else None,
            )
        except ConfigError:
            raise
        except Exception as error:
            said = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise ConfigError(f"{self._maker} cannot be set up: {said}") from error

    async def _open(self, request: Request) -> EventStream:
        # Connections belong to the event loop that made them: another loop needs new ones.
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            with suppress(Exception):
                await self._client.close()
            self._client = self._new_client()
        self._loop = loop
        return await self._send(request)

    def _failure(self, error: Exception) -> ProviderError:
        """The `ProviderError` for any error of the SDK, the connection or the stream."""
        if isinstance(error, self._sdk.APIStatusError):
            return self._endpoint.answered(
                # An error event comes within a stream of status 200.
                status_of(error.body) if error.status_code < 300 else error.status_code,
                said_by(error.body),
                code=code_of(error.body),
                retry_after=retry_after(error.response.headers),
            )
        if isinstance(error, self._sdk.APITimeoutError):
            return self._endpoint.broke(TimeoutError())
        if isinstance(error, self._sdk.APIConnectionError):
            return self._endpoint.broke(error.__cause__ or error)
        if isinstance(error, NotAStream):
            body = error.body()
            return self._said(body) if "error" in body else self._endpoint.no_stream(error.text)
        return self._endpoint.broke(error)

    def _said(self, body: object) -> ProviderError:
        """The `ProviderError` for an error event within a stream of status 200."""
        return self._endpoint.answered(status_of(body), said_by(body), code=code_of(body))


async def streamed(
    opened: Callable[[], Awaitable[EventStream]],
    reply: OpenReply,
    failure: Callable[[Exception], ProviderError],
    cut_short: Callable[[], ProviderError],
) -> AsyncGenerator[ReplyPart, None]:
    """Yield a reply's deltas as they arrive, then one `MessageFinished`.

    Args:
        opened: Sends the request.
        reply: Collects the events.
        failure: Translates an error of the SDK, the connection or the stream.
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
        # Some gateways do not stream. The reply is paid for: a valid one counts.
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

    A reply with its stop reason is complete. A server that stalls or breaks off after it does no
    harm: the rest is read for the usage, and so that the connection can be used again.
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
        NotAStream: The body is a web page, or a reply in one piece.
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
