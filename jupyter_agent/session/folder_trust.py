"""What came with a folder and waits for the user's trust, in plain words.

One list serves `%agent trust`, `%agent status`, the first turn in a folder and `jupyter agent
doctor`. Each entry says what it would do, and is trusted by the digest of what was looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from jupyter_agent import config
from jupyter_agent.core.addresses import without_login
from jupyter_agent.core.plaintext import count, one_line, plain
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.mcp.servers import TRUST_KIND as SERVERS
from jupyter_agent.mcp.servers import waiting as waiting_servers
from jupyter_agent.recording.trusted import cassettes as untrusted_cassettes
from jupyter_agent.session.effective_settings import (
    EffectiveSettings,
    digest_of,
    trust_settings,
    untrusted_settings,
)
from jupyter_agent.skills.discovery import accept, discover, places
from jupyter_agent.stores.conversations import foreign
from jupyter_agent.undo.storage import foreign_records

TOLD = "told"
"""The kind of the trust store's entries for lists that the user was shown."""
_MOST_TOLD = 30
_DOES = {
    "provider": "uses the provider {} instead of yours",
    "api_base": "sends your conversation and your key to {}",
    "api_key": "uses an API key from the folder; the owner of the key may see what is sent",
    "http.proxy": "sends everything, and your key, through the proxy {}",
    "http.ca_bundle": "accepts any server with a certificate from {}",
    "http.headers": "sends headers from the folder to the model server",
    "script": "takes the model's replies, and so the code to run, from {}",
    "mode": "sets the mode, which decides where replies come from, to {}",
    "tool_protocol": "runs code that a model writes into its text ({})",
    "system_prompt_path": "sends {} to the model, as its instructions",
    "approvals.mode": "asks you less, or not at all, before something runs ({})",
    "approvals.timeout": "waits {} seconds for your answers",
    "context.detail": "tells the model more about your variables and cells ({})",
    "privacy.outputs": "lets the model see what your code shows ({})",
    "local.model": "downloads and loads the model {}",
    "local.model_path": "loads the model {}",
    "local.download": "downloads models that are not on this machine ({})",
    "memory.across_workspaces": "reads your own memory, or saves to it, more than you allow ({})",
    "memory.embeddings": "loads the model of embeddings in {}",
    "memory.roots": "reads memory from {}, and sends what the model looks for there",
    "budget.tokens": "lets a turn use more tokens than yours ({})",
    "budget.usd": "lets a turn cost more than yours ({} US dollars)",
    "session.resume": "brings a stored conversation back without asking ({})",
    "session.save": "writes conversations to the disk ({})",
    "undo.enabled": "keeps nothing to undo turns from",
    "log.enabled": "decides whether logs of turns are written ({})",
}
"""What a setting of a folder does, with a place for its value."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that waits for trust.

    Attributes:
        lines: What it would do, a line each.
        accept: Trusts it as it was looked at. Raises `ConfigError` if that cannot be stored.
    """

    lines: tuple[str, ...]
    accept: Callable[[], object]


def waiting(
    effective: EffectiveSettings, recordings: Iterable[Path], *, with_servers: bool = True
) -> Iterator[Waiting]:
    """Everything that came with a folder and waits for trust. Starts and sends nothing.

    Args:
        effective: The settings of the folder.
        recordings: The cassettes that a replay may answer from.
        with_servers: False leaves out MCP servers.
    """
    acting = untrusted_settings(effective)
    if acting is not None:
        lines = tuple(f"  {_does(key, acting)}" for key in acting.values)
        head = f"Settings of this folder ({STATE_FOLDER}/{config.WORKSPACE_FILE}):"
        digest = digest_of(acting, effective.workspace.root, effective.beside)
        yield Waiting((head, *lines), partial(trust_settings, effective, digest))
    for server in waiting_servers(effective.workspace) if with_servers else ():
        line = f"MCP server {one_line(server.name, 40)}: {server.would}"
        place = effective.workspace.root
        yield Waiting((line,), partial(trust.trust, SERVERS, place, server.digest))
    for cassette in untrusted_cassettes(recordings):
        line = f"Cassette {one_line(cassette.name, 60)}: {cassette.does}"
        yield Waiting((line,), cassette.trust)
    folders = places(effective.workspace, effective.settings.settings.tools.skills_dir)
    for skill in discover(each for each in folders if each.origin != "shipped").untrusted:
        about = one_line(skill.front.description, 100)
        line = (
            f"Skill {skill.name} ({skill.shown}): gives the model its text, and code its scripts; "
            f"it says: {about}"
        )
        yield Waiting((line,), partial(accept, skill))


def first_look(found: Iterable[Waiting], root: Path) -> list[str]:
    """The lines about what waits in a folder; empty if the user was shown the same before.

    So a folder that was in use before something of it had to be trusted is listed once.

    Args:
        found: What waits, without MCP servers, about which each session has a notice.
        root: The workspace's folder.
    """
    lines = [line for one in found for line in one.lines]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()
    if not lines or digest in trust.digests(TOLD, root):
        return []
    with suppress(ConfigError):  # then it is listed again
        trust.replace(TOLD, root, digest)
    more = len(lines) - _MOST_TOLD
    left_out = [f"({more} more lines: %agent trust show)"] if more > 0 else []
    head = "Not in use until you trust it, which you decide once, for all of it: %agent trust"
    return [head, *(line.strip() for line in lines[:_MOST_TOLD]), *left_out]


def in_short(found: Iterable[Waiting]) -> list[str]:
    """What waits for trust, a short line each, without what it would do."""
    return [one_line(line.strip(), 160) for one in found for line in one.lines]


def planted(workspace: Workspace) -> list[str]:
    """What lies in the state folder and was not written by this user there, a line each."""
    lines = [
        f"The conversation in {STATE_FOLDER}/sessions/{one_line(name)} was not written by you in "
        "this folder, so it is not resumed, unless you say: %agent resume --trust"
        for name in foreign(workspace.state_folder / "sessions")
    ]
    if turns := foreign_records(workspace):
        lines.append(
            f"{STATE_FOLDER}/checkpoints: {count(turns, 'turn')} not written by you in this folder "
            "with this version, so %agent undo leaves them alone."
        )
    return lines


def _does(key: str, acting: config.Layer) -> str:
    value = acting.values[key]
    if key == "http.proxy" and isinstance(value, SecretStr):
        text = without_login(value.get_secret_value()) or "in http.proxy"
    elif isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = "a value that is not shown" if config.is_secret(key) else str(value)
    shown = one_line(plain(text), 400)
    return f"{key}: {_DOES[key].format(shown)}" if key in _DOES else f"{key}: is set to {shown}"
