"""Servers in processes of their own, a workspace with an `mcp.json`, and calls as a session's."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.config import McpSettings
from jupyter_agent.core.messages import Text
from jupyter_agent.core.tool import Tool, ToolReturn
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.mcp.servers import Offer, Servers
from jupyter_agent.tools.code import Sight
from jupyter_agent.tools.mcp_tools import mcp_tools

HERE = Path(__file__).parent
GOOD, BAD = str(HERE / "good_server.py"), str(HERE / "bad_server.py")
Json = dict[str, Any]


def good(*words: str, **more: Any) -> Json:
    """An entry of `mcp.json` for the good server over stdio."""
    return {"command": sys.executable, "args": [GOOD, "stdio", *words], **more}


def bad(fault: str, *words: str, **more: Any) -> Json:
    return {"command": sys.executable, "args": [BAD, fault, *words], **more}


def alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] not in "ZX"


def gone(process: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Desk:
    """A workspace, its servers, and a session's tools."""

    def __init__(self, root: Path, config: Path) -> None:
        self.root = root
        self.config = config
        self.settings = McpSettings(connect_timeout=60.0)
        self.servers = Servers(lambda: Workspace(root), lambda: self.settings)
        self.sight = Sight(False, 768)
        self.offered = Offer()
        self.tools: dict[str, Tool] = {}

    def user(self, **entries: Json) -> None:
        self.config.mkdir(exist_ok=True)
        text = json.dumps({"mcpServers": entries})
        (self.config / "jupyter_agent_mcp.json").write_text(text, encoding="utf-8")

    def workspace(self, **entries: Json) -> None:
        folder = self.root / ".jupyter_agent"
        folder.mkdir(exist_ok=True)
        text = json.dumps({"mcpServers": entries})
        (folder / "mcp.json").write_text(text, encoding="utf-8")

    async def offer(self) -> Offer:
        """What a session's first turn does."""
        self.offered = await self.servers.offer()
        outputs = self.root / ".jupyter_agent" / "outputs"
        made = mcp_tools(self.offered, lambda: self.sight, lambda: outputs)
        self.tools = {tool.name: tool for tool in made}
        return self.offered

    async def call(self, name: str, /, **arguments: Any) -> ToolReturn:
        """Call a tool as the toolbox does: arguments checked from JSON, then by name."""
        tool = self.tools[name]
        checked = tool.arguments.model_validate_json(json.dumps(arguments))
        returned = await tool.function(**(checked.model_extra or {}))  # type: ignore[misc]
        assert isinstance(returned, ToolReturn)
        return returned

    async def text(self, name: str, /, **arguments: Any) -> str:
        returned = await self.call(name, **arguments)
        assert not isinstance(returned.content, str)
        return "\n".join(block.text for block in returned.content if isinstance(block, Text))


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    config, root = tmp_path / "config", tmp_path / "workspace"
    root.mkdir()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    made = Desk(root, config)
    yield made
    await made.servers.close()


@pytest.fixture
def listening() -> Iterator[Callable[..., str]]:
    """Start the good server over `sse` or `http`; gives its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(transport: str, port: int | None = None) -> str:
        port = port or _free_port()
        command = [sys.executable, GOOD, transport, str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(process)
        _await_port(port)
        return f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"

    start.processes = started  # type: ignore[attr-defined]
    yield start
    for process in started:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
