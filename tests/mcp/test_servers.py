"""Real servers over all three transports: results, progress, cancellation, ends and restarts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp_desk import Desk, alive, bad, gone, good

from jupyter_agent.config import McpSettings
from jupyter_agent.core.messages import Image
from jupyter_agent.core.tool import report
from jupyter_agent.errors import ToolError
from jupyter_agent.tools.code import Sight


@pytest.mark.parametrize("transport", ["stdio", "sse", "http"])
async def test_every_transport(
    desk: Desk, listening: Callable[..., str], transport: str, tmp_path: Path
) -> None:
    """Tools are listed and called, errors, progress and a cancellation go through."""
    if transport == "stdio":
        desk.user(srv=good())
    else:
        desk.user(srv={"url": listening(transport), "type": transport, "headers": {"X-A": "b"}})
    offer = await desk.offer()
    assert offer.notices == ()
    assert await desk.text("srv__add", a=2, b=3) == "5"
    assert (await desk.call("srv__fails")).is_error
    assert "the fuel is out" in await desk.text("srv__fails")
    said: list[str] = []
    token = report.set(said.append)
    assert await desk.text("srv__counts", upto=3) == "counted"
    report.reset(token)
    assert said == ["1/3 at 1\n", "2/3 at 2\n", "3/3 at 3\n"]
    if transport != "stdio":
        assert await desk.text("srv__header", name="x-a") == "b"
    note = tmp_path / "note"
    call = asyncio.create_task(desk.call("srv__sleeps", seconds=30, note=str(note)))
    await asyncio.sleep(0.5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for _ in range(100):
        if note.exists() and note.read_text():
            break
        await asyncio.sleep(0.05)
    assert note.read_text() == "cancelled"
    assert await desk.text("srv__add", a=1, b=1) == "2"


async def test_results(desk: Desk) -> None:
    """Text, structured content, pictures, sounds and links, each once and harmless."""
    desk.user(srv=good())
    await desk.offer()
    assert await desk.text("srv__weather", city="Rome")
    assert (await desk.text("srv__weather", city="Rome")).count("21.5") == 1
    returned = await desk.call("srv__picture")
    assert [type(block) for block in returned.content] == [Image]
    assert [list(output.data) for output in returned.display] == [["image/png"]]
    mixed = await desk.call("srv__mixed")
    text = await desk.text("srv__mixed")
    assert text.splitlines() == [
        "red",
        "[link: doc at file:///doc.txt]",
        "[a picture that cannot be shown: image/svg+xml]",
    ]
    assert [list(output.data) for output in mixed.display] == [["text/plain"]]
    assert await desk.text("srv__sound") == (
        "[audio: audio/wav, 30 bytes; it cannot be played here]"
    )
    desk.sight = Sight(True, 0)
    assert "21.5" not in await desk.text("srv__weather", city="Rome")


async def test_arguments_are_checked(desk: Desk) -> None:
    """What does not fit the schema never reaches the server."""
    desk.user(srv=good())
    await desk.offer()
    for wrong in ({"a": 1}, {"a": "one", "b": 2}, {"a": True, "b": 2}):
        with pytest.raises(ValueError):
            await desk.call("srv__add", **wrong)


@pytest.mark.deep
async def test_ten_megabytes(desk: Desk) -> None:
    """A long result is cut in the middle, and the whole is in the state folder."""
    desk.user(srv=good())
    await desk.offer()
    text = await desk.text("srv__big", characters=10_000_000)
    assert len(text) < 31_000
    assert text.endswith("end")
    assert ".jupyter_agent/outputs/srv__big_1.txt" in text
    stored = desk.root / ".jupyter_agent" / "outputs" / "srv__big_1.txt"
    assert stored.stat().st_size == 10_000_000


@pytest.mark.deep
async def test_an_endless_answer(desk: Desk) -> None:
    """A line without an end is cut off before it fills the memory; the others work meanwhile."""
    desk.user(srv=bad("endless"), fine=good())
    await desk.offer()
    call = asyncio.create_task(desk.call("srv__good"))
    assert await desk.text("fine__add", a=1, b=1) == "2"
    with pytest.raises(ToolError, match="ended"):
        await call


async def test_nothing_is_asked_of_the_person(desk: Desk) -> None:
    """Sampling and elicitation are declined, and the tool continues."""
    desk.user(srv=good())
    await desk.offer()
    assert "no sampling" in await desk.text("srv__samples")
    assert await desk.text("srv__asks") == "answer: decline"


async def test_new_tools_come_with_the_next_session(desk: Desk) -> None:
    """A list that changes is noticed, and offered to the next session."""
    desk.user(srv=good())
    await desk.offer()
    assert await desk.text("srv__grows") == "grown"
    await asyncio.sleep(0.2)
    assert "has others now" in desk.servers.status()
    assert "srv__grown" not in desk.tools
    await desk.offer()
    assert await desk.text("srv__grown") == "new"


async def test_death_during_a_call(desk: Desk) -> None:
    """The call fails and is not repeated; the next one starts the server again."""
    desk.user(srv=good(), other=good())
    await desk.offer()
    first = await desk.text("srv__process")
    with pytest.raises(ToolError, match="ended, or closed the connection while the tool ran"):
        await desk.call("srv__dies")
    assert "ready" in desk.servers.status().splitlines()[1]
    second = await desk.text("srv__process")
    assert second != first
    assert await desk.text("other__add", a=1, b=1) == "2"


async def test_death_between_calls(desk: Desk) -> None:
    """A server that was killed is started again without anybody noticing."""
    desk.user(srv=good())
    await desk.offer()
    first = int(await desk.text("srv__process"))
    os.kill(first, signal.SIGKILL)
    for _ in range(100):
        if "ended" in desk.servers.status():
            break
        await asyncio.sleep(0.05)
    assert int(await desk.text("srv__process")) != first


@pytest.mark.deep
async def test_an_http_server_that_was_restarted(desk: Desk, listening: Callable[..., str]) -> None:
    """A new process knows no session of the old one: we connect again and repeat the call."""
    url = listening("http")
    desk.user(srv={"url": url})
    await desk.offer()
    process = listening.processes[0]  # type: ignore[attr-defined]
    process.kill()
    process.wait()
    with pytest.raises(ToolError):
        await desk.call("srv__add", a=1, b=1)
    listening("http", int(url.split(":")[2].split("/")[0]))
    assert await desk.text("srv__add", a=1, b=1) == "2"


async def test_execute_timeout(desk: Desk, tmp_path: Path) -> None:
    """A call that takes too long is cancelled on the server."""
    desk.user(srv=good(execute_timeout=0.5))
    await desk.offer()
    note = tmp_path / "note"
    with pytest.raises(ToolError, match=r"no answer after 0\.5 s"):
        await desk.call("srv__sleeps", seconds=30, note=str(note))
    for _ in range(100):
        if note.exists() and note.read_text():
            break
        await asyncio.sleep(0.05)
    assert note.read_text() == "cancelled"


async def test_faulty_servers_hold_nobody_up(desk: Desk) -> None:
    """One line about each that hangs, crashes or is slow; the good one works, in time."""
    desk.settings = desk.settings.model_copy(update={"connect_timeout": 20.0})
    desk.user(
        hangs=bad("hang", connect_timeout=2),
        crashes=bad("start_crash"),
        slow=good("0", "30", connect_timeout=2),
        listless=bad("listless", connect_timeout=2),
        missing={"command": "no-such-program-anywhere"},
        nobody={"url": "http://127.0.0.1:9/mcp"},
        nobody_sse={"url": "http://127.0.0.1:9/sse", "type": "sse"},
        noise=bad("noise"),
        flood=bad("flood"),
        fine=good(),
    )
    before = asyncio.get_running_loop().time()
    offer = await desk.offer()
    assert asyncio.get_running_loop().time() - before < 40
    lines = "\n".join(offer.notices)
    assert "MCP server hangs cannot be used: not connected after 2 s (connect_timeout)." in lines
    assert "config.toml is missing" in lines
    assert "slow cannot be used: not connected after 2 s" in lines
    assert "listless cannot be used: not connected after 2 s" in lines
    assert "there is no program no-such-program-anywhere" in lines
    assert "MCP server nobody cannot be used: nothing answers at its address." in lines
    assert "MCP server nobody_sse cannot be used: nothing answers at its address." in lines
    assert len(offer.notices) == 7
    assert all("\n" not in line for line in offer.notices)
    assert await desk.text("fine__add", a=2, b=2) == "4"
    assert await desk.text("noise__good") == "still here"
    assert await desk.text("flood__good") == "still here"
    log = desk.root / ".jupyter_agent" / "logs"
    await asyncio.sleep(1)
    assert sum(path.stat().st_size for path in log.glob("mcp-flood*")) <= 1_100_000
    await desk.servers.close()


async def test_a_lying_server(desk: Desk) -> None:
    """Impossible schemas are replaced with a notice, entries without a name left out."""
    desk.user(liar=bad("lies"), fine=good())
    offer = await desk.offer()
    ours = {tool.name: tool.schema for tool in offer.tools if tool.server.name == "liar"}
    assert ours["liar__good"]["properties"] == {"x": {"type": "integer"}}
    replaced = {name for name, schema in ours.items() if schema == {"type": "object"}}
    assert replaced == {
        f"liar__{name}"
        for name in (
            "not_an_object",
            "no_schema",
            "text_schema",
            "recursive",
            "huge",
            "invalid",
            "remote",
        )
    }
    assert len(ours) == 11
    assert all(len(name) <= 64 for name in ours)
    assert len(offer.notices) == 7
    answered = await desk.call("liar__good", x=1)
    assert answered.is_error and "none of MCP" in str(answered.content)
    assert await desk.text("fine__add", a=2, b=2) == "4"


async def test_processes_end(desk: Desk, tmp_path: Path) -> None:
    """Closing ends a server and what it started, even where they ignore every signal but one."""
    note = tmp_path / "child"
    desk.user(srv=good(), parent=bad("children", str(note)))
    await desk.offer()
    server, child = int(await desk.text("srv__process")), int(note.read_text())
    assert alive(server) and alive(child)
    await desk.servers.close()
    assert gone(server)
    assert gone(child)


async def test_an_entry_that_is_taken_out(desk: Desk, tmp_path: Path) -> None:
    """A removed entry's server cannot be started until it is put back; changed time-outs
    take effect without a restart.
    """
    desk.user(srv=good())
    await desk.offer()
    first = int(await desk.text("srv__process"))
    desk.settings = McpSettings(connect_timeout=60.0, execute_timeout=0.2)
    desk.servers.status()
    with pytest.raises(ToolError, match=r"no answer after 0\.2 s"):
        await desk.call("srv__sleeps", seconds=2.0, note=str(tmp_path / "note"))
    desk.settings = McpSettings(connect_timeout=60.0)
    desk.servers.status()
    assert int(await desk.text("srv__process")) == first
    for entry in ({}, {"srv": good(disabled=True)}):
        desk.user(**entry)
        desk.servers.status()
        assert await asyncio.to_thread(gone, first)
        with pytest.raises(ToolError, match="changed or taken out since"):
            await desk.text("srv__process")
    desk.user(srv=good())
    desk.servers.status()
    assert int(await desk.text("srv__process")) != first


async def test_errors_are_withheld_as_results_are(desk: Desk) -> None:
    """What a server says in refusing a call may quote data, which `shapes` does not let through."""
    desk.user(srv=bad("refuses"))
    await desk.offer()
    refused = await desk.call("srv__good")
    assert refused.is_error and "Ada Lovelace" in str(refused.content)
    desk.sight = Sight(True, 768)
    refused = await desk.call("srv__good")
    assert refused.is_error and "Ada" not in str(refused.content)
    assert "Ada Lovelace" in str(refused.display)


async def test_restart(desk: Desk) -> None:
    """`%agent mcp restart` ends the process; the next call has a new one."""
    desk.user(srv=good())
    await desk.offer()
    first = int(await desk.text("srv__process"))
    desk.servers.restart("srv")
    assert int(await desk.text("srv__process")) != first
    assert await asyncio.to_thread(gone, first)
