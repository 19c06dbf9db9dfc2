"""`mcp.json`: its forms, its errors with file and key, variables, and who has to be trusted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_desk import Desk, good

from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.magics.commands import run_line
from jupyter_agent.mcp.definitions import expand, read_definitions
from jupyter_agent.mcp.servers import Servers


def mcp_command(servers: Servers, words: list[str]) -> str:
    """What `%agent mcp WORDS` says."""
    notebook = SimpleNamespace(servers=servers, refuse_while_busy=lambda: None)
    sessions: Any = SimpleNamespace(kernel=notebook)
    return str(run_line(sessions, shlex.join(["mcp", *words])))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    folder = tmp_path / ".jupyter_agent"
    folder.mkdir()
    return folder


def _write(state: Path, entry: Any) -> None:
    text = json.dumps({"mcpServers": {"it": entry}})
    (state / "mcp.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"command": "x", "type": "stdio", "cwd": "a", "env": {"A": "b"}, "args": []}, "stdio"),
        ({"url": "http://a/b"}, "http"),
        ({"url": "https://a/b", "type": "streamable-http"}, "http"),
        ({"url": "https://a/b", "type": "sse", "headers": {"A": "b"}, "disabled": True}, "sse"),
        ({"command": "x", "connect_timeout": 1, "execute_timeout": 2.5}, "stdio"),
    ],
)
def test_forms(state: Path, entry: Any, transport: str) -> None:
    """The usual form of mcp.json is understood."""
    _write(state, entry)
    found = read_definitions(state)
    assert found.problems == ()
    assert found.servers["it"].entry.transport == transport


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ([], "mcpServers.it must be an object"),
        ({}, "mcpServers.it needs either command or url"),
        ({"command": "x", "url": "http://a"}, "mcpServers.it needs either"),
        ({"command": ""}, "mcpServers.it.command"),
        ({"command": ["x"]}, "mcpServers.it.command"),
        ({"command": "x", "args": "y"}, "mcpServers.it.args must be a list"),
        ({"command": "x", "args": [1]}, "mcpServers.it.args[0]"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.it.env.A"),
        ({"command": "x", "type": "http"}, "mcpServers.it.type"),
        ({"command": "x", "headers": {}}, "mcpServers.it.headers needs url"),
        ({"url": "ftp://a"}, "mcpServers.it.url"),
        ({"url": "http://a", "type": "stdio"}, "mcpServers.it.type"),
        ({"url": "http://a", "env": {}}, "mcpServers.it.env needs command"),
        ({"url": "http://a", "headers": {"A": "b\r\nC: d"}}, "mcpServers.it.headers.A"),
        ({"command": "x", "disabled": "no"}, "mcpServers.it.disabled"),
        ({"command": "x", "connect_timeout": 0}, "mcpServers.it.connect_timeout"),
        ({"command": "x", "comand": "y"}, "mcpServers.it: unknown key comand"),
    ],
)
def test_errors(state: Path, entry: Any, key: str) -> None:
    """Each error names the file and the key, on one line, and costs no other server."""
    text = json.dumps({"mcpServers": {"it": entry, "fine": {"command": "y"}}})
    (state / "mcp.json").write_text(text, encoding="utf-8")
    found = read_definitions(state)
    (problem,) = found.problems
    assert problem.startswith(f".jupyter_agent/mcp.json: {key}")
    assert "\n" not in problem
    assert list(found.servers) == ["fine"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"mcpServers": []}',
        b'{"mcpServers": {}, "more": 1}',
        b'{"mcpServers": {"a": {}, "a": {}}}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"<<<<<<< HEAD\n{}",
    ],
)
def test_torn_files(state: Path, text: bytes) -> None:
    """A file that is no `mcp.json` is one line, never an exception."""
    (state / "mcp.json").write_bytes(text)
    found = read_definitions(state)
    assert not found.servers
    assert len(found.problems) == 1
    assert found.problems[0].startswith(".jupyter_agent/mcp.json: ")


def test_variables() -> None:
    """`${NAME}` and `${NAME:-default}` are replaced; an error names the place of a missing one."""
    environ = {"A": "1", "B": ""}
    assert expand("x${A}y${B}z${C:-d}", environ, "here") == "x1yzd"
    assert expand("$A {A} $", environ, "here") == "$A {A} $"
    with pytest.raises(ConfigError, match=r"^here: the environment has no variable C"):
        expand("${C}", environ, "here")
    with pytest.raises(ConfigError, match=r"^here: "):
        expand("${a b}", environ, "here")


async def test_variables_reach_the_server(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server gets the variables of its entry and no others of the kernel."""
    monkeypatch.setenv("MY_SECRET_KEY", "abcdefgh12")
    monkeypatch.setenv("OTHER_KEY", "never")
    desk.user(srv=good(env={"KEY": "${MY_SECRET_KEY}"}), unset=good(env={"KEY": "${NOT_THERE}"}))
    offer = await desk.offer()
    assert await desk.text("srv__environment", name="KEY") == "abcdefgh12"
    assert await desk.text("srv__environment", name="OTHER_KEY") == "(not set)"
    (line,) = offer.notices
    assert "jupyter_agent_mcp.json: mcpServers.unset.env.KEY" in line
    assert "NOT_THERE" in line


async def test_a_workspace_server_is_trusted_once(desk: Desk) -> None:
    """A workspace's server starts after trust, and needs trust again after a change."""
    desk.workspace(srv=good())
    offer = await desk.offer()
    assert offer.tools == ()
    assert "%agent mcp trust srv" in offer.notices[0]
    assert "not trusted yet" in mcp_command(desk.servers, [])
    assert mcp_command(desk.servers, ["trust", "srv"]).startswith("Trusted from now on: srv")
    assert (await desk.offer()).notices == ()
    assert await desk.text("srv__add", a=1, b=1) == "2"
    assert "ready, 16 tools of good 1.2.3" in mcp_command(desk.servers, [])
    assert "srv__add" in mcp_command(desk.servers, ["tools", "srv"])
    assert mcp_command(desk.servers, ["revoke", "srv"]) == "srv is no longer trusted."
    with pytest.raises(ToolError, match="not trusted any more"):
        await desk.text("srv__add", a=1, b=1)
    assert mcp_command(desk.servers, ["revoke", "srv"]) == "srv was not trusted."
    mcp_command(desk.servers, ["trust", "srv"])
    assert await desk.text("srv__add", a=1, b=1) == "2"
    desk.workspace(srv=good(env={"A": "b"}))
    assert (await desk.offer()).tools == ()


def test_who_needs_trust(state: Path, desk: Desk) -> None:
    """Every server of a workspace, by address or by command; the person's own do not."""
    plain, variable = {"url": "http://a/b"}, {"url": "http://a/b", "headers": {"A": "${HOME}"}}
    desk.user(mine={"url": "http://c/d"}, own={"command": "x"})
    desk.workspace(
        plain=plain,
        variable=variable,
        mine=plain,
        command={"command": "x"},
        vouches={**plain, "trust_annotations": True},
    )
    found = read_definitions(desk.root / ".jupyter_agent").servers
    needs = {name for name, definition in found.items() if definition.needs_trust}
    assert needs == {"plain", "variable", "mine", "command", "vouches"}


def test_what_is_agreed_to_is_told_whole(desk: Desk) -> None:
    """The description for trust has all lines of an argument, and the variables that it gets."""
    desk.workspace(
        code={"command": "python", "args": ["-c", "import nice\nimport evil"]},
        asks={"url": "http://a/b", "headers": {"A": "${KEY} ${OTHER:-x} ${KEY}"}},
        vouches={"url": "http://a/b", "trust_annotations": True},
    )
    found = read_definitions(desk.root / ".jupyter_agent").servers
    assert found["code"].does == "python -c import nice import evil"
    assert found["asks"].does == "http://a/b; it gets KEY, OTHER"
    assert found["vouches"].does.endswith("is trusted")
    assert found["asks"].would.startswith("sends what the agent asks of it to http://a/b, when")
    long = {"command": "python", "args": ["-c", f"x = '{'a' * 500}'; import evil"]}
    desk.workspace(long=long)
    (found_long,) = read_definitions(desk.root / ".jupyter_agent").servers.values()
    assert "import evil, when a conversation begins" in found_long.would


async def test_a_changed_program_asks_again(desk: Desk) -> None:
    """Trust in a server covers the workspace's files that its command names."""
    program = desk.root / "server.py"
    program.write_text("print('one')", encoding="utf-8")
    desk.workspace(srv={"command": "python", "args": ["server.py"]})
    mcp_command(desk.servers, ["trust", "srv"])
    assert not desk.servers.untrusted()
    program.write_text("print('two')", encoding="utf-8")
    assert [one.name for one in desk.servers.untrusted()] == ["srv"]
    program.write_text("print('one')", encoding="utf-8")
    assert not desk.servers.untrusted()


async def test_an_untrusted_server_does_not_take_a_place(desk: Desk) -> None:
    """The person's own server stays in use beside an untrusted one of the same name."""
    desk.user(srv=good())
    desk.workspace(srv={"command": "python", "args": ["-c", "raise SystemExit(1)"]})
    await desk.offer()
    assert await desk.text("srv__add", a=1, b=1) == "2"
    assert "not trusted yet" in mcp_command(desk.servers, [])
    assert mcp_command(desk.servers, ["trust", "srv"]).startswith("Trusted from now on: srv")
    assert "replaces the one in jupyter_agent_mcp.json" in mcp_command(desk.servers, [])
    desk.workspace(srv={"command": "python", "disabled": True})
    assert "disabled" in mcp_command(desk.servers, [])


async def test_annotations_count_only_where_they_are_trusted(desk: Desk) -> None:
    """A tool that calls itself read-only is asked about, unless the person believes it."""
    desk.user(srv=good(), believed=good(trust_annotations=True))
    await desk.offer()
    assert desk.tools["srv__add"].effect == "executes"
    assert desk.tools["believed__add"].effect == "reads"
    assert desk.tools["believed__big"].effect == "executes"


@pytest.mark.parametrize("words", [["x"], ["trust"], ["trust", "nix"], ["tools", "a", "b"]])
def test_command_errors(desk: Desk, words: list[str]) -> None:
    """One line for what is no command or no server."""
    with pytest.raises(ConfigError) as caught:
        mcp_command(desk.servers, words)
    assert "\n" not in str(caught.value)


async def test_nothing_is_configured(desk: Desk) -> None:
    """Without a file one line says that there are no servers."""
    assert not desk.servers.is_configured
    assert (await desk.offer()) == type(desk.offered)()
    assert "No MCP servers" in mcp_command(desk.servers, [])


async def test_disabled(desk: Desk) -> None:
    """A disabled server is neither started nor mentioned."""
    desk.user(srv=good(disabled=True))
    assert (await desk.offer()) == type(desk.offered)()
    assert "disabled" in mcp_command(desk.servers, [])
