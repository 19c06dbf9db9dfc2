"""The MCP servers: each that may run is started once, and its tools are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.mcp.definitions import Definition
from jupyter_agent.mcp.servers import Offer, Servers, in_force, waiting
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.session.effective_settings import EffectiveSettings

_TOPIC = "MCP servers"


def examine_servers(place: EffectiveSettings, *, offline: bool) -> Iterator[Examined]:
    """Nothing that is not trusted is started, and nothing is left running."""
    definitions = in_force(place.workspace)
    for problem in definitions.problems:
        yield Examined(_TOPIC, "mcp.json", "problem", problem, "Correct the file.")
    inert = waiting(place.workspace)
    for definition in inert:
        yield _inert(definition)
    usable = []
    for definition in definitions.servers.values():
        if definition.entry.disabled:
            yield Examined(_TOPIC, _name(definition), "note", "disabled, not started")
        elif definition not in inert:
            usable.append(definition)
    if not definitions.servers:
        yield Examined(_TOPIC, "mcp.json", "note", "no MCP servers are named.")
    if not usable:
        return
    if offline or not place.settings.settings.tools.enable_mcp:
        why = "--offline" if offline else "tools.enable_mcp is false"
        for definition in usable:
            yield Examined(_TOPIC, _name(definition), "note", f"not started ({why})")
        return
    offer = asyncio.run(_offered(place))
    tools = Counter(tool.server.name for tool in offer.tools)
    for definition in usable:
        failure = f"MCP server {definition.name} cannot be used: "
        failed = next((line for line in offer.notices if line.startswith(failure)), "")
        if failed:
            text = f"it was started and failed: {failed.removeprefix(failure)}"
            remedy = f"Check its entry in {definition.place}, and its log in .jupyter_agent/logs."
            yield Examined(_TOPIC, _name(definition), "problem", text, remedy)
        else:
            number = tools[definition.name]
            text = f"it was started, offers {count(number, 'tool')}, and was ended"
            yield Examined(_TOPIC, _name(definition), "ok" if number else "warning", text)


async def _offered(place: EffectiveSettings) -> Offer:
    servers = Servers(lambda: place.workspace, lambda: place.settings.settings.mcp)
    try:
        return await servers.offer()
    finally:
        await servers.close()


def _inert(definition: Definition) -> Examined:
    """A server that waits for trust, with what it would do."""
    name = _name(definition)
    text = (
        "it came with the workspace and is not trusted, so it was not started. "
        f"It {definition.would}"
    )
    remedy = f"Look at it, then in a notebook: %agent mcp trust {name}"
    return Examined(_TOPIC, name, "warning", text, remedy)


def _name(definition: Definition) -> str:
    return one_line(definition.name, 40)
