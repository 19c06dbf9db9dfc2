"""The MCP servers: each that may run is started once, and its tools are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.files import trust
from jupyter_agent.mcp.definitions import Definition, read_definitions
from jupyter_agent.mcp.servers import TRUST_KIND, Offer, Servers
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.session.effective_settings import EffectiveSettings

_TOPIC = "MCP servers"


def examine_servers(place: EffectiveSettings, *, offline: bool) -> Iterator[Examined]:
    """Nothing that is not trusted is started, and nothing is left running."""
    definitions = read_definitions(place.workspace.state_folder)
    for problem in definitions.problems:
        yield Examined(_TOPIC, "mcp.json", "problem", problem, "Correct the file.")
    usable = []
    for definition in definitions.servers.values():
        if unused := _unused(definition, place):
            yield unused
        else:
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


def _unused(definition: Definition, place: EffectiveSettings) -> Examined | None:
    """Why a server is not started; None where it may be."""
    name = _name(definition)
    if definition.entry.disabled:
        return Examined(_TOPIC, name, "note", "disabled, not started")
    root = place.workspace.root
    if definition.needs_trust and not trust.is_trusted(TRUST_KIND, root, definition.digest):
        text = (
            "it came with the workspace and is not trusted, so it was not started: "
            f"{definition.does}"
        )
        remedy = f"Look at it, then in a notebook: %agent mcp trust {name}"
        return Examined(_TOPIC, name, "warning", text, remedy)
    return None


def _name(definition: Definition) -> str:
    return one_line(definition.name, 40)
