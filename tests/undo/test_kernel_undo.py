"""One kernel's undo: what a turn did to files, and what is said where nothing can be kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.config import UndoSettings
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.changes import snapshot
from jupyter_agent.undo.kernel_undo import KernelUndo


def of(root: Path, names: dict[str, Any]) -> KernelUndo:
    return KernelUndo(lambda: Workspace(root), "a.ipynb", frozenset, names)


def test_a_turn_is_counted_and_undone(tmp_path: Path) -> None:
    """Changed files have counts of lines; undo restores files and variables."""
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    names: dict[str, Any] = {"x": 1}
    kernel, settings = of(tmp_path, names), UndoSettings()
    kernel.begin("Change it.", snapshot(names), settings)
    with kernel.around_code("x = 2"):
        names["x"] = 2
        (tmp_path / "a.txt").write_text("one\n2\nthree\n", encoding="utf-8")
    (change,) = kernel.end(snapshot(names), ["x = 2"])
    assert (change.path, change.kind) == ("a.txt", "changed")
    assert (change.lines_added, change.lines_removed) == (2, 1)
    kernel.undo(settings)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\ntwo\n"
    assert names["x"] == 1


def test_switched_off(tmp_path: Path) -> None:
    """With undo switched off nothing is kept, and the commands name the setting."""
    kernel, off = of(tmp_path, {}), UndoSettings(enabled=False)
    kernel.begin("Do it.", snapshot({}), off)
    assert kernel.end(snapshot({})) == ()
    with pytest.raises(ConfigError, match=r"undo\.enabled"):
        kernel.undo(off)
    assert not (tmp_path / ".jupyter_agent").exists()


def test_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """A file in place of the checkpoints gives one line, and the turn runs."""
    (tmp_path / ".jupyter_agent").mkdir()
    (tmp_path / ".jupyter_agent/checkpoints").write_text("mine", encoding="utf-8")
    kernel = of(tmp_path, {})
    kernel.begin("Do it.", snapshot({}), UndoSettings())
    (line,) = kernel.notices
    assert line.startswith("This turn cannot be undone: ")
    with kernel.around_code("pass"):
        pass
    assert kernel.end(snapshot({})) == ()
