"""`%agent mcp`: see and steer the servers of tools."""

from __future__ import annotations

from typing import Any

import click

from jupyter_agent.magics.parser import Command, argument, family
from jupyter_agent.session.registry import KernelSessions


@family(
    "mcp",
    heading="What it may do",
    examples={
        "%agent mcp": "list the servers and their states",
        "%agent mcp tools weather": "list the tools of the server weather",
        "%agent mcp trust weather": "use this server, although it came with this folder",
    },
)
@click.pass_obj
def mcp(sessions: KernelSessions) -> str:
    """the MCP servers and their tools; restart a server, trust one, or stop trusting it"""
    return sessions.kernel.servers.status()


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> tuple[str, ...]:
    return tuple(ctx.obj.kernel.servers.names)


def _server(function: Any) -> Any:
    named = argument("name", metavar="NAME", help="the name of a server", shell_complete=_names)
    return named(click.pass_obj(function))


@mcp.command("tools", cls=Command)
@_server
def _tools(sessions: KernelSessions, name: str) -> str:
    """the tools of a server"""
    return sessions.kernel.servers.tools(name)


@mcp.command("restart", cls=Command)
@_server
def _restart(sessions: KernelSessions, name: str) -> str:
    """stop a server; the next call starts it again"""
    sessions.kernel.refuse_while_busy()
    return sessions.kernel.servers.restart(name)


@mcp.command("trust", cls=Command)
@_server
def _trust(sessions: KernelSessions, name: str) -> str:
    """trust a server that came with this folder, so that it is used"""
    sessions.kernel.refuse_while_busy()
    return sessions.kernel.servers.trust(name)


@mcp.command("revoke", cls=Command)
@_server
def _revoke(sessions: KernelSessions, name: str) -> str:
    """stop trusting a server"""
    sessions.kernel.refuse_while_busy()
    return sessions.kernel.servers.revoke(name)
