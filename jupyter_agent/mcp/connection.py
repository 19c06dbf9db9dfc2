"""A connection to one server: the only module that imports the SDK `mcp`.

`connected` must be entered and left by one task: the SDK's cancel scopes ask for it. Calls may come
from any task of the same event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from anyio import CancelScope
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from jupyter_agent.core.messages import Image, JsonObject, Text
from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.mcp import supervise
from jupyter_agent.mcp.definitions import Transport
from jupyter_agent.mcp.stderr import StderrLog
from jupyter_agent.version import __version__

_MOST_PAGES = 20
_MOST_TOOLS = 200
_MOST_IMAGES = 8
_MOST_BASE64 = 20_000_000

for _name in ("mcp", "client"):
    # Without a handler the SDK's warnings would be printed into the person's cells.
    logging.getLogger(_name).addHandler(logging.NullHandler())

Progress = Callable[[str], None]


class Gone(Exception):
    """The server is not there any more. `unsent`: the call has surely not been carried out."""

    def __init__(self, message: str, *, unsent: bool = False) -> None:
        super().__init__(message)
        self.unsent = unsent


class Refused(Exception):
    """The server answered a request with an error, in one line."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is, with all variables replaced."""

    name: str
    transport: Transport
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    url: str
    headers: Mapping[str, str]
    connect_timeout: float
    sse_read_timeout: float
    log: Path


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as its server describes it: nothing of it is checked yet."""

    name: str
    description: str
    schema: object
    says_it_only_reads: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a call. `structured` is what came as JSON, if anything did."""

    content: tuple[Text | Image, ...]
    structured: JsonObject | None = None
    is_error: bool = False


class ServerConnection:
    """An open session with a server.

    Attributes:
        closed: Set when the server closed the connection.
        tools_changed: Whether the server said that it has other tools now.
        server: The server's own name and version, for showing.
        listed: Tools as they come over the wire, while a list of them is asked for.
    """

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.listed: list[Any] | None = None
        self.tools_changed = False
        self.server = ""
        self._session: ClientSession

    async def start(self, session: ClientSession) -> None:
        """Agree on a version: the handshake of all servers until 2025, else the one after it."""
        self._session = session
        try:
            await session.initialize()
        except MCPError as error:
            if _is_lost(error):
                raise
            await session.discover()
        if info := session.server_info:
            self.server = one_line(f"{info.name} {info.version}")

    async def tools(self) -> tuple[OfferedTool, ...]:
        """What the server offers now, sorted by name."""
        self.listed = []
        self.tools_changed = False
        cursor: str | None = None
        try:
            for _ in range(_MOST_PAGES):
                page = types.PaginatedRequestParams(cursor=cursor)
                cursor = (await self._session.list_tools(params=page)).next_cursor
                if cursor is None or len(self.listed) >= _MOST_TOOLS:
                    break
            found = {tool.name: tool for entry in self.listed if (tool := _offered(entry))}
        finally:
            self.listed = None
        return tuple(found[name] for name in sorted(found)[:_MOST_TOOLS])

    async def call(self, tool: str, arguments: JsonObject, say: Progress) -> Reply:
        """Call a tool. A cancellation is passed on to the server.

        Raises:
            Gone: The server ended, or closed the connection.
            Refused: The server answered with an error, or with something that is no answer.
        """

        async def report(progress: float, total: float | None, message: str | None) -> None:
            say(_progress(progress, total, message))

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        )
        try:
            # Not `call_tool`: it checks results against the server's own schema, whose patterns
            # may be made to hang, and throws away what does not fit.
            result = await self._session.send_request(
                request, types.CallToolResult, progress_callback=report
            )
        except MCPError as error:
            raise _failure(error, self.closed.is_set()) from None
        except ValidationError:
            raise Refused("it gave an answer that is none of MCP") from None
        return _reply(result)

    async def on_message(self, message: IncomingMessage) -> None:
        """Takes what comes unasked."""
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed = True
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(endpoint: ServerAddress) -> AsyncIterator[ServerConnection]:
    """Open a session, and end it and the server's processes afterwards.

    Raises:
        Exception: Whatever the SDK raises; `reason` puts it into words.
    """
    connection = ServerConnection()
    async with AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(_streams(endpoint))
        session = ClientSession(
            _Watched(read, connection),
            write,
            message_handler=connection.on_message,
            # Sampling is refused by the SDK, since nothing here says that it is supported.
            elicitation_callback=_decline,
            client_info=types.Implementation(name="jupyter_agent", version=__version__),
        )
        await stack.enter_async_context(session)
        await connection.start(session)
        yield connection


def new_scope() -> CancelScope:
    """What ends a connection from outside of its task."""
    return CancelScope()


def reason(error: BaseException) -> str:
    """Why something failed, on one line; empty where the connection just closed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return "" if _is_lost(error) else _line(error.error.message)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"HTTP status {error.response.status_code}"
    if isinstance(error, httpx2.ConnectError):
        return "nothing answers at its address"
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return _line(error.strerror)
    return _line(f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------- transports


@asynccontextmanager
async def _streams(endpoint: ServerAddress) -> AsyncIterator[tuple[Any, Any]]:
    if endpoint.transport == "stdio":
        log = StderrLog(endpoint.log)
        try:
            parameters = _program(endpoint)
            async with stdio_client(parameters, errlog=log.stream) as streams:
                log.close()
                yield streams
        except Exception as error:
            # A server that ends at once says why on its stderr, not to the SDK.
            if not reason(error) and (line := log.last_line()):
                raise Gone(f"it ended: {_line(line)}") from error
            raise
        finally:
            log.close()
    elif endpoint.transport == "sse":
        async with sse_client(
            endpoint.url,
            dict(endpoint.headers),
            timeout=endpoint.connect_timeout,
            sse_read_timeout=endpoint.sse_read_timeout,
        ) as streams:
            yield streams
    else:
        timeout = httpx2.Timeout(endpoint.connect_timeout, read=endpoint.sse_read_timeout)
        client = httpx2.AsyncClient(headers=dict(endpoint.headers), timeout=timeout)
        async with (
            client,
            streamable_http_client(endpoint.url, http_client=client) as streams,
        ):
            yield streams


def _program(endpoint: ServerAddress) -> StdioServerParameters:
    path = endpoint.env.get("PATH", os.environ.get("PATH"))
    if not endpoint.cwd.is_dir():
        raise FileNotFoundError(2, f"there is no folder {endpoint.cwd}")
    found = shutil.which(endpoint.command, path=path)
    beside = endpoint.cwd / endpoint.command
    if found is None and not (os.sep in endpoint.command and beside.is_file()):
        raise FileNotFoundError(2, f"there is no program {endpoint.command}")
    command, args = endpoint.command, list(endpoint.args)
    if os.name == "posix":
        start = ["-I", "-S", str(supervise.__file__), str(os.getpid())]
        command, args = sys.executable, [*start, endpoint.command, *args]
    return StdioServerParameters(
        command=command,
        args=args,
        env=dict(endpoint.env),
        cwd=endpoint.cwd,
        # A byte that is not UTF-8 costs its line, not the connection.
        encoding_error_handler="replace",
    )


class _Watched:
    """A stream of messages that says when it ends, and takes lists of tools out of it.

    The SDK refuses a whole list for one tool with a wrong schema; ours leaves out that one.
    """

    def __init__(self, stream: Any, connection: ServerConnection) -> None:
        self._stream = stream
        self._connection = connection

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
        except BaseException:
            self._connection.closed.set()
            raise
        self._take_tools(item)
        return item

    def _take_tools(self, item: Any) -> None:
        message = getattr(item, "message", None)
        listed = self._connection.listed
        if listed is None or not isinstance(message, types.JSONRPCResponse):
            return
        if isinstance(tools := message.result.get("tools"), list):
            listed.extend(tools)
            message.result["tools"] = []

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        self._connection.closed.set()
        stopped: bool | None = await self._stream.__aexit__(*error)
        return stopped


async def _decline(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    return types.ElicitResult(action="decline")


# ---------------------------------------------------------------- what comes back


def _offered(entry: Any) -> OfferedTool | None:
    """A tool as it came over the wire; None where it has no name to call it by."""
    if not isinstance(entry, dict) or not isinstance(name := entry.get("name"), str) or not name:
        return None
    description, hints = entry.get("description"), entry.get("annotations")
    only_reads = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    words = description if isinstance(description, str) else ""
    return OfferedTool(name, words, entry.get("inputSchema"), only_reads)


def _is_lost(error: MCPError) -> bool:
    """Whether the SDK says so. Many servers use its code, -32000, for errors of their own."""
    words = error.error.message.startswith(("Connection closed", "SSE stream "))
    return error.code == types.CONNECTION_CLOSED and words


def _failure(error: MCPError, closed: bool) -> Exception:
    message = _line(error.error.message)
    if _is_lost(error) or closed:
        return Gone("it ended, or closed the connection")
    if message == "Session terminated":  # the SDK's words for 404: a server that was restarted
        return Gone("it was restarted", unsent=True)
    return Refused(message)


def _reply(result: types.CallToolResult) -> Reply:
    content: list[Text | Image] = []
    images = 0
    for block in result.content:
        if isinstance(block, types.ImageContent):
            images += 1
            content.append(_image(block) if images <= _MOST_IMAGES else _left_out(block))
        else:
            content.append(Text(_words(block)))
    structured = result.structured_content
    return Reply(
        tuple(content), structured if isinstance(structured, dict) else None, bool(result.is_error)
    )


def _image(block: types.ImageContent) -> Text | Image:
    if not block.mime_type.startswith("image/") or len(block.data) > _MOST_BASE64:
        return _left_out(block)
    return Image(block.mime_type, block.data)


def _left_out(block: types.ImageContent) -> Text:
    return Text(f"[a picture is left out: {one_line(block.mime_type)}]")


def _words(block: Any) -> str:
    """What a block that is no picture says."""
    if isinstance(block, types.TextContent):
        return plain(block.text)
    if isinstance(block, types.AudioContent):
        size = len(block.data) * 3 // 4
        return f"[audio: {one_line(block.mime_type)}, {size:,} bytes; it cannot be played here]"
    if isinstance(block, types.ResourceLink):
        about = f": {one_line(block.description, 200)}" if block.description else ""
        return f"[link: {one_line(block.name)} at {one_line(str(block.uri), 500)}{about}]"
    if isinstance(block, types.EmbeddedResource):
        resource = block.resource
        where = one_line(str(resource.uri), 500)
        if isinstance(resource, types.TextResourceContents):
            return f"[resource {where}]\n{plain(resource.text)}"
        return f"[resource {where}: {len(resource.blob) * 3 // 4:,} bytes of data]"
    return f"[{one_line(type(block).__name__)}: not shown]"


def _progress(done: float, total: float | None, message: str | None) -> str:
    of = f"{done:g}/{total:g}" if total else f"{done:g}"
    return one_line(f"{of} {message or ''}", 200) + "\n"


def _line(text: str) -> str:
    return one_line(text, 300) or "no reason given"
