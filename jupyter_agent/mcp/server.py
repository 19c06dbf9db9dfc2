"""One server: connected at first need, held open by a task of its own, connected again."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_agent.core.messages import JsonObject, Text
from jupyter_agent.core.redact import keep_headers, keep_secret, secret_values
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.mcp.definitions import Definition, expand

if TYPE_CHECKING:
    from jupyter_agent.mcp.connection import OfferedTool, Reply, ServerAddress, ServerConnection

Progress = Callable[[str], None]
_RETIRED = (
    "its entry in mcp.json was changed or taken out since this session began, or it is not trusted "
    "any more. The next session has what is there now (%agent reset)."
)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that connecting, one call, and silence of an event stream may take."""

    connect: float
    execute: float
    sse_read: float


@dataclass(slots=True)
class _Life:
    """One connection from its start to its end, and the event loop that it lives on."""

    loop: asyncio.AbstractEventLoop
    ready: asyncio.Future[ServerConnection | str]
    """The connection, or why there is none."""
    task: asyncio.Task[None] | None = None
    end: Callable[[], object] = lambda: None
    dropped: bool = False


class Server:
    """A server and its connection, which outlives cells and turns.

    Args:
        definition: What `mcp.json` says.
        times: The time-outs, which may be set anew.
        root: The workspace's folder: where a command starts.
        log: The file for what it writes to its stderr.

    Attributes:
        tools: What it offered when it was asked last.
        problem: Why the last attempt to connect failed; empty where it did not.
        starts: How many times it was connected.
        retired: Whether it must not run: the files do not name it any more, or differently, or it
            is not trusted.
    """

    def __init__(self, definition: Definition, times: Times, root: Path, log: Path) -> None:
        self.definition = definition
        self.times = times
        self.tools: tuple[OfferedTool, ...] = ()
        self.problem = ""
        self.starts = 0
        self.retired = False
        self._root = root
        self._log = log
        self._life: _Life | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def state(self) -> str:
        """`not started`, `connecting`, `ready`, `ended` or `failed`."""
        if self._life is None:
            return "failed" if self.problem else "not started"
        if not self._life.ready.done():
            return "connecting"
        return "failed" if self.problem else "ready" if self._connection else "ended"

    @property
    def about(self) -> str:
        """The name and version that the server gives itself, while it is connected."""
        return self._connection.server if self._connection else ""

    @property
    def tools_changed(self) -> bool:
        """Whether it said since that it has other tools: the next session gets them."""
        return self._connection is not None and self._connection.tools_changed

    async def connect(self) -> str:
        """Connect where it is not; why that failed, in one line, or nothing.

        It takes `times.connect` seconds at most.
        """
        await self._connected()
        return self.problem

    async def relist(self) -> None:
        """Ask for the tools anew. A server that does not answer keeps those that it had."""
        if connection := self._connection:
            try:
                async with asyncio.timeout(self.times.connect):
                    self.tools = await connection.tools()
            except Exception as error:
                self.problem = "" if self._connection else self._why(error)

    async def call(self, tool: str, arguments: JsonObject, progress: Progress) -> Reply:
        """Call a tool, by the server's own name for it.

        A server that ended is connected again, once for each call. A call that may have been
        carried out is never sent twice.

        Raises:
            ToolError: In words for the model.
        """
        try:
            return await self._call(tool, arguments, progress)
        except ToolError as error:
            raise ToolError(f"The MCP server {self.name}: {error}") from None

    async def _call(self, tool: str, arguments: JsonObject, progress: Progress) -> Reply:
        from jupyter_agent.mcp.connection import Gone, Refused, Reply

        for attempt in ("first", "second"):
            if self.retired:
                raise ToolError(f"{_RETIRED} The tool was not run.")
            connection = await self._connected()
            if connection is None:
                raise ToolError(f"not connected: {self.problem}. The tool was not run.")
            try:
                async with asyncio.timeout(self.times.execute):
                    return await connection.call(tool, arguments, progress)
            except TimeoutError:
                raise ToolError(
                    f"no answer after {self.times.execute:g} s, so the call was cancelled. "
                    "What it did until then may have had effects."
                ) from None
            except Refused as error:
                # The server's own words, as in a result: they may hold what is withheld.
                words = f"The MCP server {self.name}: {error}."
                return Reply((Text(words),), is_error=True)
            except Gone as error:
                self._drop()
                if attempt == "first" and error.unsent:
                    continue
                raise ToolError(
                    f"{error} while the tool ran. What it did until then may have had effects. "
                    "The next call starts it again."
                ) from None
        raise AssertionError("unreachable")

    def restart(self) -> None:
        """End the connection; the next need makes a new one."""
        self._drop()
        self.problem = ""

    def retire(self) -> None:
        """End the connection: a session that still has the tools cannot call them."""
        self.retired = True
        self.restart()

    async def close(self) -> None:
        """End the connection and wait until the processes of this and earlier ones are gone."""
        self._drop()
        here = asyncio.get_running_loop()
        if ending := {task for task in self._ending if task.get_loop() is here}:
            await asyncio.wait(ending)

    @property
    def _connection(self) -> ServerConnection | None:
        life = self._life
        if life is None or not life.ready.done() or isinstance(life.ready.result(), str):
            return None
        connection = life.ready.result()
        assert not isinstance(connection, str)
        return None if connection.closed.is_set() else connection

    async def _connected(self) -> ServerConnection | None:
        loop = asyncio.get_running_loop()
        life = self._life
        # In a terminal each cell may have an event loop of its own.
        usable = life is not None and life.loop is loop
        if life is None or not usable or (life.ready.done() and self._connection is None):
            self._drop()
            self._life = life = self._start(loop)
        # Shielded: a turn that is interrupted leaves the connecting to the next one.
        found = await asyncio.shield(life.ready)
        self.problem = found if isinstance(found, str) else ""
        return self._connection

    def _start(self, loop: asyncio.AbstractEventLoop) -> _Life:
        life = _Life(loop, loop.create_future())
        # A context of its own: the turn's variables must not live on in a task of the kernel.
        life.task = loop.create_task(
            self._own(life), name=f"mcp {self.name}", context=contextvars.Context()
        )
        return life

    def _drop(self) -> None:
        if self._life is not None:
            self._life.dropped = True
            if not self._life.loop.is_closed():
                self._life.end()
            if (task := self._life.task) is not None and not task.done():
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._life = None

    async def _own(self, life: _Life) -> None:
        """Hold the connection open: what was entered by this task is left by it."""
        problem = "it ended before it was connected"
        try:
            # The SDK takes a second to import, during which the kernel stays responsive.
            name = "jupyter_agent.mcp.connection"
            await asyncio.to_thread(importlib.import_module, name)
            if not life.dropped:
                await self._hold(life, self._endpoint())
        except ConfigError as error:
            problem = str(error)
        except Exception as error:
            problem = self._why(error) or problem
        finally:
            if not life.ready.done():
                life.ready.set_result(problem)

    async def _hold(self, life: _Life, endpoint: ServerAddress) -> None:
        from jupyter_agent.mcp.connection import connected, new_scope

        def give_up() -> None:
            if not life.ready.done():
                life.ready.set_result(
                    f"not connected after {self.times.connect:g} s (connect_timeout)"
                )
            scope.cancel()

        alarm = life.loop.call_later(self.times.connect, give_up)
        try:
            with new_scope() as scope:
                life.end = lambda: life.loop.call_soon_threadsafe(scope.cancel)
                async with connected(endpoint) as connection:
                    self.tools = await connection.tools()
                    alarm.cancel()
                    self.starts += 1
                    if not life.ready.done():
                        life.ready.set_result(connection)
                    await connection.closed.wait()
        finally:
            alarm.cancel()

    def _why(self, error: BaseException) -> str:
        from jupyter_agent.mcp.connection import Gone, reason

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return str(error) if isinstance(error, Gone) else reason(error)

    def _endpoint(self) -> ServerAddress:
        from jupyter_agent.mcp.connection import ServerAddress

        entry, environ = self.definition.entry, os.environ
        where = f"{self.definition.place}: mcpServers.{self.name}"
        headers = _expanded(entry.headers, environ, f"{where}.headers")
        env = _expanded(entry.env, environ, f"{where}.env")
        keep_headers(headers)
        for value in secret_values(env):
            for word in (value, *re.split(r"\s+", value)):
                keep_secret(word)
        return ServerAddress(
            self.name,
            entry.transport,
            entry.command,
            tuple(expand(text, environ, f"{where}.args") for text in entry.args),
            env,
            self._root / Path(entry.cwd).expanduser(),
            expand(entry.url, environ, f"{where}.url"),
            headers,
            self.times.connect,
            self.times.sse_read,
            self._log,
        )


def _expanded(texts: Mapping[str, str], environ: Mapping[str, Any], where: str) -> dict[str, str]:
    return {key: expand(text, environ, f"{where}.{key}") for key, text in texts.items()}
