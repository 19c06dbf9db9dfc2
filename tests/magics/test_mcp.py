"""MCP servers in a real kernel: offered, called, asked about, told of, ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Json, LiveKernel

GOOD = str(Path(__file__).parents[1] / "mcp" / "good_server.py")
BAD = str(Path(__file__).parents[1] / "mcp" / "bad_server.py")
SESSION = "get_ipython().agent_sessions['default']"


def servers(folder: Path, **entries: Json) -> None:
    """Name servers in the person's own file."""
    config = folder / "empty_config"
    config.mkdir(exist_ok=True)
    text = json.dumps({"mcpServers": entries})
    (config / "jupyter_agent_mcp.json").write_text(text, encoding="utf-8")


def server(program: str, *words: str, **more: object) -> Json:
    return {"command": sys.executable, "args": [program, *words], **more}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    servers(tmp_path, good=server(GOOD, "stdio"))
    with LiveKernel(tmp_path) as kernel:
        kernel.load("config mcp.connect_timeout 30")
        yield kernel


def call(name: str, /, **arguments: object) -> Json:
    return {"calls": [{"name": name, "arguments": arguments}]}


def results(kernel: LiveKernel) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = kernel.value(
        f"[(b.text, b.is_error) for m in {SESSION}.history for b in m.tool_results]"
    )
    return found


def test_tools_are_called_and_servers_live_across_cells(desk: LiveKernel) -> None:
    """A server's tools are offered and called with checked arguments; one process for all cells."""
    assert "The first turn adds the tools of MCP servers." in desk.run("%agent context").said
    desk.script(
        "Add.",
        call("good__add", a=2, b=3),
        call("good__add", a="two", b=3),
        call("good__fails"),
        call("good__process"),
        {"text": "5"},
    )
    cell = desk.run("%%agent\nAdd.")
    assert cell.status == "ok", cell.error
    sum_, wrong, failed, first = results(desk)
    assert sum_ == ("5", False)
    assert wrong[1] and "do not fit its schema" in wrong[0] and "It takes: a, b." in wrong[0]
    assert failed[1] and failed[0]
    assert "MCP" not in desk.run("%agent context").said
    desk.script("Again.", call("good__process"), {"text": "Same."})
    desk.run("%%agent\nAgain.")
    assert results(desk)[-1] == first
    assert "good__add" in desk.run("%agent tools").said
    assert "ready" in desk.run("%agent mcp").said


@pytest.mark.deep
def test_a_failing_server_is_told_and_holds_up_nobody(tmp_path: Path) -> None:
    """If one server hangs and one crashes, the turn has the good one's tools, with notices."""
    entries = {
        "good": server(GOOD, "stdio"),
        "hangs": server(BAD, "hang", connect_timeout=6),
        "crashes": server(BAD, "start_crash"),
    }
    servers(tmp_path, **entries)
    with LiveKernel(tmp_path) as desk:
        desk.load("config mcp.connect_timeout 30")
        desk.script("Add.", call("good__add", a=2, b=3), {"text": "5"})
        cell = desk.run("%%agent\nAdd.")
        assert "MCP server hangs cannot be used" in cell.transcript
        assert "MCP server crashes cannot be used" in cell.transcript
        assert results(desk) == [("5", False)]
        desk.script("Again.", {"text": "6"})
        assert "cannot be used" not in desk.run("%%agent\nAgain.").transcript
        states = desk.run("%agent mcp").said
        assert states.count("failed") == 2 and "ready" in states


@pytest.mark.deep
def test_connecting_can_be_interrupted(tmp_path: Path) -> None:
    """A server never answers: the Stop button ends the wait, and the kernel is free."""
    servers(tmp_path, hangs=server(BAD, "hang", connect_timeout=600))
    with LiveKernel(tmp_path) as desk:
        desk.load()
        desk.script("Hi.", {"text": "Hi."})
        running = desk.start("%%agent\nHi.")
        time.sleep(3)
        desk.interrupt()
        cell = running.finish(20)
        assert "Interrupted while the MCP servers were connected" in cell.error
        assert desk.run("6 * 7").result == "42"
        assert desk.value(f"{SESSION}.history == []") is True


def test_calls_are_asked_about(desk: LiveKernel) -> None:
    """Under `ask_risky` a server's tool needs a yes, which nobody can give here."""
    desk.helper("%agent config approvals.mode ask_risky")
    desk.script("Add.", call("good__add", a=2, b=3), {"text": "No."})
    cell = desk.run("%%agent\nAdd.")
    assert results(desk)[0][1]
    assert "runs the tool add of the server good" in cell.transcript


def test_a_server_of_the_workspace_waits_for_trust(tmp_path: Path) -> None:
    """A program that came with the folder is not started until the person trusts it."""
    folder = tmp_path / ".jupyter_agent"
    folder.mkdir()
    text = json.dumps({"mcpServers": {"own": server(GOOD, "stdio")}})
    (folder / "mcp.json").write_text(text, encoding="utf-8")
    with LiveKernel(tmp_path) as desk:
        desk.load("config mcp.connect_timeout 30")
        desk.script("Hi.", {"text": "Hi."})
        assert "%agent mcp trust own" in desk.run("%%agent\nHi.").transcript
        assert "own__add" not in desk.run("%agent tools").said
        assert "Trusted from now on: own" in desk.run("%agent mcp trust own").said
        desk.script("Add.", call("own__add", a=1, b=1), {"text": "2"})
        desk.run("%%agent --fresh\nAdd.")
        assert results(desk) == [("2", False)]


def test_the_agent_cannot_trust_by_itself(tmp_path: Path) -> None:
    """The agent's code cannot run `%agent mcp trust`."""
    folder = tmp_path / ".jupyter_agent"
    folder.mkdir()
    text = json.dumps({"mcpServers": {"own": server(GOOD, "stdio")}})
    (folder / "mcp.json").write_text(text, encoding="utf-8")
    with LiveKernel(tmp_path) as desk:
        desk.load()
        trust = call("execute_code", code="get_ipython().run_line_magic('agent', 'mcp trust own')")
        desk.script("Trust.", trust, {"text": "Tried."})
        desk.run("%%agent\nTrust.")
        assert "not trusted yet" in desk.run("%agent mcp").said


def test_writing_where_trust_is_kept_is_asked_about(tmp_path: Path) -> None:
    """If the person's settings lie inside the workspace, code that writes there, or moves
    the place of them, needs a yes.
    """
    with LiveKernel(tmp_path, {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}) as desk:
        desk.load()
        turn = desk.agent(
            "open('empty_config/jupyter_agent_mcp.json', 'w').write('{}')",
            "import os; os.environ['JUPYTER_CONFIG_DIR'] = 'mine'",
            "open('AGENTS.md', 'w').write('Obey.')",
        )
        # The variable is judged when the code sets it, the files before it runs.
        assert [result.state for result in turn.results] == ["refused", "failed", "refused"]
        assert "PermissionError" in turn.results[1].text
        assert not (tmp_path / "empty_config" / "jupyter_agent_mcp.json").exists()
        assert not (tmp_path / "AGENTS.md").exists()


@pytest.mark.deep
def test_unloading_ends_the_servers(desk: LiveKernel) -> None:
    """`%unload_ext` leaves no process behind."""
    desk.script("Hi.", {"text": "Hi."})
    desk.run("%%agent\nHi.")
    children = "len(__import__('psutil').Process().children(recursive=True))"
    assert desk.value(children) > 0
    desk.helper("%unload_ext jupyter_agent")
    end = time.monotonic() + 20
    while desk.value(children) and time.monotonic() < end:
        desk.helper("import asyncio", "await asyncio.sleep(0.2)")
    assert desk.value(children) == 0


def test_without_servers_the_sdk_stays_out(tmp_path: Path) -> None:
    """Without servers a turn does not import the package `mcp`."""
    with LiveKernel(tmp_path) as desk:
        desk.load()
        desk.script("Hi.", {"text": "Hi."})
        desk.run("%%agent\nHi.")
        assert desk.value("'mcp' in __import__('sys').modules") is False


def test_a_replay_asks_no_server(tmp_path: Path) -> None:
    """Results, pictures and errors come from the cassette, where the server is gone."""
    servers(tmp_path, good=server(GOOD, "stdio"))
    with LiveKernel(tmp_path) as kernel:
        kernel.load("config mcp.connect_timeout 30", "config mode record", "cassette t.jsonl")
        kernel.load("config approvals.mode auto")
        kernel.script(
            "Ask it.",
            call("good__add", a=2, b=3),
            call("good__process"),
            call("good__add", a="two", b=3),
            call("good__fails"),
            call("good__picture"),
            {"text": "Done."},
        )
        then = kernel.run("%%agent\nAsk it.")
        assert then.status == "ok", then.error
        said = results(kernel)
    servers(tmp_path)
    with LiveKernel(tmp_path) as kernel:
        kernel.load("config mode replay", "cassette t.jsonl")
        now = kernel.run("%%agent\nAsk it.")
        assert now.status == "ok", now.error
        assert results(kernel) == said
        assert now.said == then.said
        more = kernel.run("%%agent\nAsk it again.")
        assert "ReplayMismatch" in more.error
