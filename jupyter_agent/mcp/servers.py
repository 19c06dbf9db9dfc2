"""All servers of one kernel: which may be used, what they offer, and their one-line notices."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jupyter_agent.config import McpSettings
from jupyter_agent.core.messages import JsonObject
from jupyter_agent.core.plaintext import defused, one_line, plain, shorten
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.mcp.definitions import Definition, Definitions, read_definitions
from jupyter_agent.mcp.names import tool_name
from jupyter_agent.mcp.schemas import usable_schema
from jupyter_agent.mcp.server import Server, Times

TRUST_KIND = "mcp"
_MOST_TOOLS = 100
"""OpenAI takes 128 tools in a request; the agent's own are among them."""
_MOST_DESCRIPTION = 2_000
_MOST_NOTICES = 20


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool under the name that the model gets, with a schema that is safe to send."""

    name: str
    description: str
    schema: JsonObject
    only_reads: bool
    server: Server
    original: str


@dataclass(frozen=True, slots=True)
class Offer:
    """What the servers offer a session, and what the person is told, one line each."""

    tools: tuple[ServedTool, ...] = ()
    notices: tuple[str, ...] = ()


def is_trusted(definition: Definition, workspace: Workspace) -> bool:
    """True if a server may be used: it is the person's own, or they trusted it as it is."""
    if not definition.needs_trust:
        return True
    return trust.is_trusted(TRUST_KIND, workspace.root, definition.digest)


def in_force(workspace: Workspace) -> Definitions:
    """The servers that the files name, as they count here.

    A server of the workspace takes the place of the person's own of the same name only if it is
    trusted, or switches it off.
    """
    found = read_definitions(workspace.state_folder)
    servers, problems = dict(found.servers), list(found.problems)
    for name, own in found.replaced.items():
        nearer = servers[name]
        if nearer.entry.disabled or is_trusted(nearer, workspace):
            problems.append(
                f"{nearer.place}: its server {one_line(name)} replaces the one in {own.place}."
            )
        else:
            servers[name] = own
    return Definitions(servers, tuple(problems), found.replaced)


def waiting(workspace: Workspace) -> list[Definition]:
    """The servers of the workspace that wait for trust. Starts nothing."""
    definitions = read_definitions(workspace.state_folder).servers.values()
    return [one for one in definitions if not one.entry.disabled and not is_trusted(one, workspace)]


class Servers:
    """The servers of one kernel. They are started at first need and end with the kernel.

    Args:
        workspace: Gives the workspace, which may change with its setting.
        settings: Gives the time-outs.
    """

    def __init__(
        self, workspace: Callable[[], Workspace], settings: Callable[[], McpSettings]
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._servers: dict[str, Server] = {}
        self._made: dict[tuple[Definition, Path], Server] = {}
        self._definitions = Definitions({})
        self._offered: dict[str, list[tuple[str, str]]] = {}

    @property
    def is_configured(self) -> bool:
        """Whether a file names a server, or has something wrong with it. Starts nothing."""
        definitions = read_definitions(self._workspace().state_folder)
        return bool(definitions.servers or definitions.problems)

    @property
    def names(self) -> tuple[str, ...]:
        """The servers that the files name. Starts nothing."""
        return tuple(read_definitions(self._workspace().state_folder).servers)

    async def offer(self) -> Offer:
        """What there is for a session that begins: connects to all servers, side by side.

        It takes the longest `connect_timeout` at most. A server that is slow, fails or is not
        trusted becomes a notice. Nothing is raised.
        """
        self._read()
        usable = [server for server in self._servers.values() if self._may_run(server.definition)]
        notices = [*self._definitions.problems, *self._waiting_for_trust()]
        found = await asyncio.gather(*(_ready(server) for server in usable))
        notices += [line for line in found if line]
        tools: dict[str, ServedTool] = {}
        for server in usable:
            if not server.problem:
                notices += self._add(server, tools)
        return Offer(tuple(tools.values()), _bounded(notices))

    def status(self) -> str:
        """All servers and their states, for `%agent mcp`."""
        self._read()
        named = {**self._definitions.servers, **{one.name: one for one in self.untrusted()}}
        rows = [self._row(definition) for definition in named.values()]
        lines = [*rows, *self._definitions.problems]
        return "\n".join(lines) or f"No MCP servers. Name some in {STATE_FOLDER}/mcp.json."

    def restart(self, name: str) -> str:
        """End a server. It starts again at the next need."""
        definition = self._known(name)
        self._servers[definition.name].restart()
        return f"{name} was ended. It starts again at its next call, or with the next session."

    def trust(self, name: str) -> str:
        """Let a server of the workspace run from now on.

        Raises:
            ConfigError: There is no such server, or the answer cannot be kept.
        """
        definition = next((one for one in self.untrusted() if one.name == name), None)
        definition = definition or self._known(name)
        if not definition.needs_trust:
            return f"{name} needs no trust."
        trust.trust(TRUST_KIND, self._workspace().root, definition.digest)
        self._read()
        return f"Trusted from now on: {name} ({definition.does}). The next session may use it."

    def revoke(self, name: str) -> str:
        """Take the trust in a server of the workspace back, and end it.

        Raises:
            ConfigError: There is no such server, or the answer cannot be kept.
        """
        definition = self._known(name)
        if not definition.needs_trust:
            return f"{name} needs no trust. Put disabled: true into its entry to do without it."
        known = trust.revoke(TRUST_KIND, self._workspace().root, definition.digest)
        self._read()
        return f"{name} is no longer trusted." if known else f"{name} was not trusted."

    def tools(self, name: str) -> str:
        """The tools of a server under the model's names.

        Raises:
            ConfigError: There is no such server.
        """
        definition = self._known(name)
        server = self._servers[definition.name]
        if not server.tools:
            return f"{name} has not been connected, or offers no tools."
        known = dict(self._offered.get(name, []))
        rows = []
        for tool in server.tools:
            about = one_line(tool.description, 70) if tool.description else ""
            rows.append(f"{known.get(tool.name, '(left out)'):<40} {about}".rstrip())
        return "\n".join(rows)

    def end(self) -> None:
        """End all servers, without waiting for it: for `%unload_ext`."""
        for server in self._servers.values():
            server.restart()

    async def close(self) -> None:
        """End all servers and wait until their processes are gone."""
        self._servers = {}
        await asyncio.gather(*(server.close() for server in self._made.values()))

    def _read(self) -> None:
        """Read the files anew. A server whose entry is changed or gone, or that is not trusted any
        more, is ended, and stays so unless all is as it was again."""
        workspace, settings = self._workspace(), self._settings()
        self._definitions = in_force(workspace)
        self._servers = {}
        for name, definition in self._definitions.servers.items():
            times = _times(definition, settings)
            server = self._made.get((definition, workspace.root))
            if server is None:
                server = Server(definition, times, workspace.root, self._log(name))
                self._made[definition, workspace.root] = server
            server.times = times
            self._servers[name] = server
        for server in self._made.values():
            if self._servers.get(server.name) is server and self._may_run(server.definition):
                server.retired = False
            else:
                server.retire()

    def _log(self, name: str) -> Path:
        word = re.sub(r"[^A-Za-z0-9-]", "_", name)
        return self._workspace().state_folder / "logs" / f"mcp-{word}.log"

    def _known(self, name: str) -> Definition:
        self._read()
        if name not in self._definitions.servers:
            names = ", ".join(self._definitions.servers) or "none"
            raise ConfigError(f"There is no MCP server {one_line(name)!r}. There are: {names}.")
        return self._definitions.servers[name]

    def _may_run(self, definition: Definition) -> bool:
        return not definition.entry.disabled and is_trusted(definition, self._workspace())

    def untrusted(self) -> list[Definition]:
        """The servers of the workspace that wait for trust. Starts nothing."""
        return waiting(self._workspace())

    def _waiting_for_trust(self) -> list[str]:
        return [
            f"MCP server {definition.name} comes with the workspace and is not used until you "
            f"trust it: %agent mcp trust {definition.name} (it {definition.would})"
            for definition in self.untrusted()
        ]

    def _add(self, server: Server, tools: dict[str, ServedTool]) -> list[str]:
        """Add a server's tools; gives the notices."""
        notices: list[str] = []
        offered: list[tuple[str, str]] = []
        left_out = 0
        for tool in server.tools:
            if len(tools) >= _MOST_TOOLS:
                left_out += 1
                continue
            name = tool_name(server.name, tool.name, tools)
            schema, problem = usable_schema(tool.schema)
            if problem:
                notices.append(f"MCP tool {name}: {problem}.")
            only_reads = server.definition.entry.trust_annotations and tool.says_it_only_reads
            words = f"[MCP server {server.name}] {tool.description or tool.name}"
            description = shorten(defused(plain(words)), _MOST_DESCRIPTION)
            tools[name] = ServedTool(name, description, schema, only_reads, server, tool.name)
            offered.append((tool.name, name))
        if left_out:
            notices.append(
                f"MCP server {server.name}: {left_out} tools are left out, since a model takes "
                f"{_MOST_TOOLS} at most."
            )
        self._offered[server.name] = offered
        return notices

    def _row(self, definition: Definition) -> str:
        server = self._servers[definition.name]
        if definition.entry.disabled:
            state = "disabled"
        elif not is_trusted(definition, self._workspace()):
            state = f"not trusted yet: %agent mcp trust {definition.name}"
        elif server.state == "failed":
            state = f"failed: {server.problem}"
        elif server.state == "ready":
            about = f" of {server.about}" if server.about else ""
            state = f"ready, {len(server.tools)} tools{about}"
            if server.tools_changed:
                state += "; it has others now: the next session gets them"
        else:
            state = server.state
        return f"{one_line(definition.name, 24):<16} {definition.entry.transport:<6} {state}"


async def _ready(server: Server) -> str:
    """Connect, or list the tools again; a line about it where that fails."""
    again = server.state == "ready"
    if problem := await server.connect():
        return f"MCP server {server.name} cannot be used: {problem.rstrip('.')}."
    if again:
        await server.relist()
    return ""


def _times(definition: Definition, settings: McpSettings) -> Times:
    own = definition.entry
    return Times(
        own.connect_timeout or settings.connect_timeout,
        own.execute_timeout or settings.execute_timeout,
        own.sse_read_timeout or settings.sse_read_timeout,
    )


def _bounded(notices: list[str]) -> tuple[str, ...]:
    shown = [one_line(line, 400) for line in notices[:_MOST_NOTICES]]
    if len(notices) > _MOST_NOTICES:
        shown.append(f"{len(notices) - _MOST_NOTICES} more: %agent mcp shows the servers.")
    return tuple(shown)
