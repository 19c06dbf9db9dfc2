"""Scopes and roots: names that are no folder's name, and ways out of the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.scope import MemoryRoot, Scope, all_roots, find_root

BAD = [
    *["", " ", ".", "..", "../x", "a/b", "a\\b", "/etc", "C:", "C:\\x", "a\0b", "a\nb", "x" * 101],
    *["CON", "nul", "com1.txt", "LPT9", "a.", "a ", " a", "_plans", ".git", "a:b", "a*", "~"],
    *["decisions.md", "Lessons.MD", "\u202ea", "a\ud800", "é" * 101],
]


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str) -> None:
    """A name that is no plain folder name on every system is refused in any part of a scope."""
    for scope in ((name,), ("w", name), ("w", "d", name)):
        with pytest.raises(ToolError):
            Scope(*scope)


@pytest.mark.parametrize("name", ["devtools", "my repo", "k", "日本", "über-1.2", "console"])
def test_good_names(name: str) -> None:
    """Ordinary names in any language are names."""
    assert str(Scope(name, name, name)) == f"{name}/{name}/{name}"


def test_symlinks_out_of_the_root(tmp_path: Path) -> None:
    """A workspace, or a file in it, that leads elsewhere is refused."""
    outside = tmp_path / "outside"
    outside.mkdir()
    top = tmp_path / "root" / "user" / "memory" / "workspaces"
    top.mkdir(parents=True)
    (top / "w").symlink_to(outside)
    root = MemoryRoot(tmp_path / "root")
    with pytest.raises(ToolError, match="leads out"):
        root.memory(Scope("w"))
    assert root.memory(Scope("v")) == root.path / "user/memory/workspaces/v"


def test_the_nearest_root(tmp_path: Path) -> None:
    """The root is the nearest folder with memory, upwards, or else the state folder."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    root = find_root(Workspace(inner))
    assert root.path == inner / ".jupyter_agent" == root.state
    assert root.shows(root.path / "user" / "x.md") == ".jupyter_agent/user/x.md"
    (tmp_path / "user" / "memory").mkdir(parents=True)
    root = find_root(Workspace(inner))
    assert root.path == tmp_path and root.state == tmp_path / ".jupyter_agent"
    assert root.outside == "../.."
    (inner / "resources" / "workspaces").mkdir(parents=True)
    assert find_root(Workspace(inner)).path == inner


def test_several_roots(tmp_path: Path) -> None:
    """`memory.roots` adds folders, each once; one that is missing is an error."""
    (tmp_path / "w").mkdir()
    (tmp_path / "team").mkdir()
    workspace = Workspace(tmp_path / "w")
    roots = all_roots(find_root(workspace), workspace, ["../team", "../team"])
    assert [root.path.name for root in roots] == [".jupyter_agent", "team"]
    with pytest.raises(ConfigError, match="nowhere"):
        all_roots(roots[0], workspace, ["nowhere"])


def test_a_state_folder_that_leads_out(tmp_path: Path) -> None:
    """A state folder that is a symlink out of the workspace is no memory root."""
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".jupyter_agent").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="leads out"):
        find_root(Workspace(tmp_path / "w"))
