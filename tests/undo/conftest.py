"""A workspace with its checkpoints, and the file tools and code that change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_agent.core.messages import ToolCall
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.undo import Checkpoint, Checkpoints


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The secret of journals is kept in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("configuration")))
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def checkpoints(root: Path) -> Checkpoints:
    return Checkpoints(Workspace(root), "a.ipynb")


def tree(root: Path) -> dict[str, tuple[str, int]]:
    """Every file of the person's: what it holds, or where a link leads, and its permissions."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if not name.startswith(STATE_FOLDER) and (path.is_symlink() or path.is_file()):
            text = str(path.readlink()) if path.is_symlink() else path.read_text("utf-8")
            found[name] = text, path.lstat().st_mode & 0o7777
    return found


async def write(turn: Checkpoint, root: Path, path: str, content: str) -> None:
    """The tool `write_file` as a model calls it, in a turn."""
    toolbox = Toolbox(file_tools(Workspace(root), before_write=turn.before_write))
    arguments = json.dumps({"path": path, "content": content})
    result = await toolbox.run(ToolCall("c1", "write_file", arguments))
    assert not result.is_error, result.text


def run(turn: Checkpoint, change: Callable[[], object]) -> None:
    """An execution of code, in a turn."""
    with turn.code():
        change()


def undo(checkpoints: Checkpoints, turns: int = 1) -> dict[str, str]:
    """Go back, and say what became of each file."""
    undone = checkpoints.apply(checkpoints.plan(turns))
    return {done.path: done.outcome for done in undone.steps}


def redo(checkpoints: Checkpoints) -> dict[str, str]:
    """Take an undo back, and say what became of each file."""
    undone = checkpoints.apply(checkpoints.plan_back())
    return {done.path: done.outcome for done in undone.steps}
