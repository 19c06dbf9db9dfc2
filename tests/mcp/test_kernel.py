"""A real kernel: its servers live across cells, and end with it however it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel
from mcp_desk import alive, bad, gone, good

MADE = """
import asyncio
from pathlib import Path
from jupyter_agent.config import McpSettings
from jupyter_agent.mcp.servers import Servers
from jupyter_agent.files.workspace import Workspace
servers = Servers(lambda: Workspace(Path.cwd()), lambda: McpSettings(connect_timeout=30))
offering = asyncio.ensure_future(servers.offer())
"""
CALLED = """
tools = {tool.name: tool for tool in (await offering).tools}
async def call(name, **arguments):
    tool = tools[name]
    return (await tool.server.call(tool.original, arguments, print)).content[0].text
"""
INTERRUPTED = """
from jupyter_agent.kernel.interrupts import Interrupts
task = asyncio.ensure_future(call('srv__sleeps', seconds=60, note={note!r}))
interrupts = Interrupts()
with interrupts.installed(), interrupts.cancelling(task):
    try:
        await task
    except asyncio.CancelledError:
        print('cancelled')
"""
CHILDREN = "[c.pid for c in __import__('psutil').Process().children(recursive=True)]"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[LiveKernel]:
    config = tmp_path / "empty_config"
    config.mkdir()
    entries = {
        "srv": good(),
        "parent": bad("children", str(tmp_path / "child")),
        "stubborn": bad("hang", connect_timeout=600),
    }
    text = json.dumps({"mcpServers": entries})
    (config / "jupyter_agent_mcp.json").write_text(text, encoding="utf-8")
    with LiveKernel(tmp_path) as live:
        yield live


def _started(kernel: LiveKernel) -> list[int]:
    """Start the servers; gives all processes below the kernel."""
    assert kernel.run(MADE).status == "ok"
    kernel.await_file("child")
    # `stubborn` never becomes ready, so that the offer is not waited for.
    wait = "while servers._servers['srv'].state != 'ready': await asyncio.sleep(0.05)"
    assert kernel.run(wait).status == "ok"
    found = [int(process) for process in kernel.value(CHILDREN)]
    assert len(found) == 7, "three servers, each with its supervisor, and one child"
    return found


@pytest.mark.parametrize(
    "end",
    [
        "shutdown",
        pytest.param("restart", marks=pytest.mark.deep),
        "kill",
        pytest.param("exit", marks=pytest.mark.deep),
    ],
)
def test_no_orphans(kernel: LiveKernel, end: str) -> None:
    """Servers, what they started, and one that ignores everything are gone with the kernel."""
    processes = _started(kernel)
    manager = kernel._manager
    pid = int(kernel.value("__import__('os').getpid()"))
    if end == "shutdown":
        manager.shutdown_kernel(now=False)
    elif end == "restart":
        manager.restart_kernel(now=True)
    elif end == "kill":
        os.kill(pid, signal.SIGKILL)
    else:
        kernel.start("import os; os._exit(1)")
    left = [process for process in processes if not gone(process, 15)]
    assert left == []


def test_servers_live_across_cells(kernel: LiveKernel) -> None:
    """One process serves several cells; an interrupted call is cancelled, the next one works."""
    config = kernel.folder / "empty_config" / "jupyter_agent_mcp.json"
    config.write_text(json.dumps({"mcpServers": {"srv": good()}}), encoding="utf-8")
    assert kernel.run(MADE + CALLED).status == "ok"
    first = kernel.run("print(await call('srv__process'))").stdout
    assert alive(int(first))
    note = kernel.folder / "note"
    running = kernel.start(INTERRUPTED.format(note=str(note)))
    time.sleep(1)
    kernel.interrupt()
    assert running.finish(20).stdout == "cancelled\n"
    assert kernel.run("print(await call('srv__process'))").stdout == first
    assert note.read_text(encoding="utf-8") == "cancelled"
    kernel.run("await servers.close()")
    assert gone(int(first))
