"""What a task marks with `@`: files are described for the model, slips are found before a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.session.mentions import check_mentions, described_files


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "trips.csv").write_text("zone;fare\nHarbour;3,5\nOld Town;4,25\n", encoding="utf-8")
    (tmp_path / "plot1.png").write_bytes(b"\x89PNG")
    return Workspace(tmp_path)


def test_a_file_is_described(workspace: Workspace) -> None:
    """The columns with their types, the delimiter; values only where they may be told."""
    task = "Load @trips.csv and plot it."
    structure = described_files(task, workspace, "schema")
    assert "delimiter semicolon" in structure and "fare: number with a decimal comma" in structure
    assert "Harbour" not in structure
    assert "Harbour" in described_files(task, workspace, "sample")
    assert not described_files(task, workspace, "names")


def test_what_may_hold_keys_is_not_described(workspace: Workspace) -> None:
    """Settings, and what the state folder keeps, are named but not read."""
    for name in (".jupyter_agent/config.yaml", ".jupyter_agent/outputs/agent_code_1.txt"):
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("api_key: hunter2\n", encoding="utf-8")
        assert not described_files(f"Look at @{name}.", workspace, "sample")


def test_no_file_outside_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    """A path that leads out of the workspace is not looked at."""
    (tmp_path.parent / "secret.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert not described_files("Read @../secret.csv.", workspace, "sample")


def test_slips(workspace: Workspace) -> None:
    """A near name is an error; a file that is to be made beside `plot1.png` is none."""
    with pytest.raises(ConfigError, match=r"Did you mean @trips\.csv"):
        check_mentions("Load @tripps.csv.", {}, (), workspace)
    check_mentions("Save it as @plot2.png.", {}, (), workspace)
    with pytest.raises(ConfigError, match="Did you mean @penguins"):
        check_mentions("Plot @pengins.", {"penguins": 1}, (), workspace)
    check_mentions("Ask @someone or mail a@b.org.", {"penguins": 1}, (), workspace)
