"""`%agent mcp`: see and steer the servers."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.errors import ConfigError
from jupyter_agent.mcp.servers import Servers

_USAGE = "%agent mcp [tools NAME | restart NAME | trust NAME | revoke NAME]"


def mcp_command(servers: Servers, words: Sequence[str]) -> str:
    """What the command prints.

    Raises:
        ConfigError: The words are no command, or there is no such server.
    """
    if not words:
        return servers.status()
    actions = {
        "tools": servers.tools,
        "restart": servers.restart,
        "trust": servers.trust,
        "revoke": servers.revoke,
    }
    if words[0] not in actions or len(words) != 2:
        raise ConfigError(f"%agent mcp: that is no command of it. Usage: {_USAGE}")
    return actions[words[0]](words[1])
