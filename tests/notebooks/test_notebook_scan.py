"""What a notebook asks for, read from its cells without running them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from recorded import notebook_of

from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.check.notebook_scan import NotebookScan, scan_notebook


def scanned(folder: Path, *sources: str, **metadata: object) -> NotebookScan:
    path = folder / "a.ipynb"
    notebook = notebook_of(*sources)
    notebook.metadata.update(metadata)
    nbformat.write(notebook, path)
    return scan_notebook(path, lambda task, names: task.removeprefix("/plots").strip())


def tasks(found: NotebookScan) -> list[str]:
    return [turn.task.text.strip() for turn in found.turns]


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("%%agent\nCount.", ["Count."]),
        ("\n\n%%agent --into x --max-steps 3\nCount.", ["Count."]),
        ("%%agent\nIt's \"quoted\"\nand '''long''' \\n.", ["It's \"quoted\"\nand '''long''' \\n."]),
        ("%%agent\n%%agent is a magic", ["%%agent is a magic"]),
        ("%%agent\n/plots Count.", ["Count."]),
        ("%agent resume", ["Go on with the task where you stopped."]),
        ("# %%agent\n# Count.", []),
        ("text = '''\n%%agent\nCount.\n'''", []),
        ("%%bash\necho %%agent", []),
        ("%agent status", []),
        ("f(", []),
        ("from jupyter_agent import ask\nawait ask('Count.')", ["Count."]),
        ("from jupyter_agent import ask as tell\nx = (await tell(task='Count.')).text", ["Count."]),
        ("import jupyter_agent as ja\nawait ja.ask('Count.', max_steps=3)", ["Count."]),
        ("def ask(x): return x\nask('Count.')", []),
    ],
)
def test_what_is_asked(tmp_path: Path, source: str, asked: list[str]) -> None:
    """Cells and calls that give a task are found, and none that only looks like one."""
    assert tasks(scanned(tmp_path, source)) == asked


def test_calls_that_run_again(tmp_path: Path) -> None:
    """A call in a loop or function may repeat; any other call runs once."""
    source = "from jupyter_agent import ask\nfor i in x:\n    await ask('A')\nawait ask('B')"
    assert [turn.task.repeats for turn in scanned(tmp_path, source).turns] == [True, False]


def test_a_task_that_only_runs_know(tmp_path: Path) -> None:
    """A task that is built at run time is not guessed."""
    found = scanned(tmp_path, "from jupyter_agent import ask\nawait ask(f'Count {x}.')")
    assert found.turns == ()
    assert found.is_open


def test_the_cassette_in_force(tmp_path: Path) -> None:
    """The notebook's name decides the cassette until a line names another."""
    found = scanned(tmp_path, "%%agent\nA", '%agent cassette "b c.jsonl"', "%%agent\nB")
    names = [turn.cassette.name for turn in found.turns]
    assert names == ["a.cassette.jsonl", "b c.jsonl"]
    assert not found.is_named
    assert scanned(tmp_path, "%agent cassette b.jsonl", "%%agent\nB").is_named


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("%%agent", "bad-cell"),
        ("%%agent\n   \n", "bad-cell"),
        ("%%agent --nonsense\nCount.", "bad-cell"),
        ("%%agent Count.\nCount.", "bad-cell"),
        ("%agent config mode live", "asks-a-model"),
        ("%agent config mode auto", "asks-a-model"),
        ('%config AgentMagics.mode = "record"', "asks-a-model"),
        ("from jupyter_agent import ask\nawait ask('A', mode='live')", "asks-a-model"),
    ],
)
def test_cells_that_cannot_be_right(tmp_path: Path, source: str, kind: str) -> None:
    """Wrong cells are reported without running anything."""
    (problem,) = scanned(tmp_path, source).problems
    assert problem.kind == kind


@pytest.mark.parametrize("source", ["%agent config mode replay", "%agent config mode", "%config"])
def test_settings_that_do_no_harm(tmp_path: Path, source: str) -> None:
    """Setting mode to replay, and showing a setting, is no problem."""
    assert scanned(tmp_path, source).problems == ()


def test_a_cell_that_is_never_run(tmp_path: Path) -> None:
    """A cell whose tag skips it has no task."""
    path = tmp_path / "a.ipynb"
    notebook = notebook_of("%%agent\nA", "%%agent\nB")
    notebook.cells[0].metadata["tags"] = ["skip-execution"]
    nbformat.write(notebook, path)
    assert [a.cell for a in scan_notebook(path, lambda task, names: task).turns] == [1]


def test_another_language(tmp_path: Path) -> None:
    """A notebook in R has no agent cells, whatever its text."""
    kernel = {"name": "ir", "display_name": "R", "language": "R"}
    assert scanned(tmp_path, "%%agent\nA", kernelspec=kernel).turns == ()


@pytest.mark.parametrize("content", ["", "{}", "[1]", "not json", '{"cells": 3, "nbformat": 4}'])
def test_what_is_no_notebook(tmp_path: Path, content: str) -> None:
    """A file that is no notebook is one line that names it."""
    path = tmp_path / "a.ipynb"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(AgentError, match=r"a\.ipynb"):
        scan_notebook(path, lambda task, names: task)
