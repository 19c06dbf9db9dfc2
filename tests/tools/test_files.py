"""What holds for each file tool: schema, confinement, refusals without a traceback."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.messages import ToolResult
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.files import file_tools

from .conftest import CallTool

WITH_PATH: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {}),
    ("describe_file", {}),
    ("write_file", {"content": "new"}),
    ("edit_file", {"old_str": "a", "new_str": "b"}),
    ("list_files", {}),
    ("search_files", {"pattern": "secret"}),
]


def assert_refused(result: ToolResult) -> None:
    assert result.is_error
    assert "traceback" not in result.details, result.details["traceback"]
    assert result.display == ()
    assert len(result.text) < 600


def test_names_and_arguments(root: Path) -> None:
    """The tools have the names and arguments of the design."""
    tools = {tool.name: tool for tool in file_tools(Workspace(root))}
    arguments = {name: list(tool.spec.parameters["properties"]) for name, tool in tools.items()}
    assert arguments == {
        "read_file": ["path", "offset", "limit"],
        "describe_file": ["path"],
        "write_file": ["path", "content"],
        "edit_file": ["path", "old_str", "new_str", "replace_all"],
        "list_files": ["path", "pattern"],
        "search_files": ["pattern", "path", "glob"],
    }
    assert [tool.effect for tool in tools.values()] == [
        "reads",
        "reads",
        "writes",
        "writes",
        "reads",
        "reads",
    ]
    assert all(tool.spec.description for tool in tools.values())


@pytest.mark.parametrize(("name", "arguments"), WITH_PATH)
async def test_outside_is_refused_alike(
    call: CallTool, root: Path, name: str, arguments: dict[str, Any]
) -> None:
    """A path out of the workspace is refused in the same words, whether or not it exists."""
    outside = root.parent / "workspace-evil"
    outside.mkdir()
    (outside / "secret.txt").write_text("a secret", encoding="utf-8")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    paths = [
        "../x",
        "/etc/passwd",
        "../workspace-evil/secret.txt",
        str(outside / "secret.txt"),
        str(outside / "none.txt"),
        "link.txt",
        "folder/secret.txt",
        "folder/new.txt",
        "loop",
        "loop/x",
    ]
    seen = set()
    for path in paths:
        result = await call(name, path=path, **arguments)
        assert_refused(result)
        seen.add(result.text.replace(repr(path), "PATH"))
    assert len(seen) == 1
    assert sorted(file.name for file in outside.iterdir()) == ["secret.txt"]
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "a secret"


@pytest.mark.parametrize(("name", "arguments"), WITH_PATH)
@pytest.mark.parametrize(
    "path", ["", " ", "a\0b", "n" * 300, "d/" * 3000, "\ud800", "d" * 255 + "/x"]
)
async def test_impossible_names(
    call: CallTool, root: Path, name: str, arguments: dict[str, Any], path: str
) -> None:
    """Impossible names are refused without a traceback or a new file."""
    if name == "write_file" and path.endswith("/x"):
        path = "/".join(["d" * 253] * 16)
    assert_refused(await call(name, path=path, **arguments))
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(("name", "arguments"), WITH_PATH[:4])
async def test_special_files(
    call: CallTool, root: Path, name: str, arguments: dict[str, Any]
) -> None:
    """A folder, pipe or socket where a file is meant is refused at once and left as it is."""
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        for path, kind in (("folder", "a folder"), ("pipe", "a pipe"), ("socket", "a socket")):
            result = await call(name, path=path, **arguments)
            assert_refused(result)
            assert kind in result.text
    assert (root / "pipe").is_fifo()
    assert (root / "folder").is_dir()


@pytest.mark.skipif(not hasattr(os, "mknod") or os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(("name", "arguments"), WITH_PATH[:4])
async def test_devices(call: CallTool, root: Path, name: str, arguments: dict[str, Any]) -> None:
    """An endless device is not read."""
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices here")
    assert_refused(await call(name, path="zero", **arguments))


@pytest.mark.parametrize(("name", "arguments"), WITH_PATH)
async def test_a_file_where_a_folder_is_meant(
    call: CallTool, root: Path, name: str, arguments: dict[str, Any]
) -> None:
    """A path through a file is refused, and the file stays."""
    (root / "a.txt").write_text("a", encoding="utf-8")
    assert_refused(await call(name, path="a.txt/b.txt", **arguments))
    assert (root / "a.txt").read_text(encoding="utf-8") == "a"


@pytest.mark.parametrize(("name", "arguments"), WITH_PATH[2:4])
@pytest.mark.parametrize("path", [".jupyter_agent/config.yaml", ".git/hooks/pre-commit", ".GIT/x"])
async def test_state_is_no_place_for_tools(
    call: CallTool, root: Path, name: str, arguments: dict[str, Any], path: str
) -> None:
    """Tools cannot write to the state folder or .git."""
    result = await call(name, path=path, **arguments)
    assert_refused(result)
    assert "must not write" in result.text
    assert list(root.iterdir()) == []


async def test_keys_are_not_read(call: CallTool, root: Path) -> None:
    """Configuration that may hold keys is not read, searched or listed."""
    state = Workspace(root).ensure_state_folder()
    (state / "config.yaml").write_text("api_key: hunter2", encoding="utf-8")
    for name, arguments in WITH_PATH:
        result = await call(name, path=".jupyter_agent/config.yaml", **arguments)
        assert_refused(result)
    assert "hunter2" not in (await call("search_files", pattern="hunter.")).text
    assert (await call("list_files")).text == "There are no files in .."


async def test_paths_in_results_are_relative(call: CallTool, root: Path) -> None:
    """No result shows where the workspace is, since it is recorded and replayed."""
    (root / "sub").mkdir()
    (root / "sub" / "a.txt").write_text("a\n", encoding="utf-8")
    target = str(root / "sub" / "a.txt")
    results = [
        await call("list_files", path=str(root / "sub")),
        await call("search_files", pattern="a", path=target),
        await call("edit_file", path=target, old_str="a", new_str="b"),
        await call("write_file", path=target, content="c"),
        await call("read_file", path=str(root / "sub" / "none.txt")),
        await call("read_file", path=str(root / "sub")),
    ]
    for result in results:
        assert "sub" in result.text
        assert str(root) not in f"{result.text}{result.display}{result.details}"
