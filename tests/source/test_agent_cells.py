"""Which cells of a notebook give the agent a task, told from the code as IPython reads it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from recorded import notebook_of

from jupyter_agent.notebooks.check.notebook_scan import scan_notebook
from jupyter_agent.source.agent_cells import AgentCell, agent_cells

IMPORT = "from jupyter_agent import ask"
NOTEBOOKS: dict[str, tuple[list[str], list[int]]] = {
    "the magic": (["%%agent --max-steps 3\nCount.", "x = 1"], [1]),
    "below empty lines, indented": (["\n\n  %%agent\n  Count."], [1]),
    "a magic of nearly that name": (["%%agents\nCount.", "%%bash\necho %%agent"], []),
    "resume, wherever it stands": (["x = 1\n%agent resume\ny = 2"], [1]),
    "other words of %agent": (["%agent status", "%agent show 'resume'"], []),
    "a name of an earlier cell": ([f"{IMPORT} as tell", "x = 1", "await tell('Count.')"], [3]),
    "the module under another name": (
        ["import jupyter_agent as ja", "await ja.ask('Count.')"],
        [2],
    ),
    "every name of the module": (["from jupyter_agent import *", "await ask('Count.')"], [2]),
    "a function of its own": (["def ask(x): return x", "ask('Count.')"], []),
    "a call in a comment or text": ([IMPORT, "# ask('Count.')", "print('ask(1)')"], []),
    "a method of that name": ([IMPORT, "quiz.ask('Count.')", "ask.__doc__"], []),
    "no Python": ([IMPORT, "ask('Count.'", "%%agent\nCount."], [3]),
}


@pytest.mark.parametrize(("sources", "numbers"), NOTEBOOKS.values(), ids=NOTEBOOKS.keys())
def test_which_cells_are_turns(tmp_path: Path, sources: list[str], numbers: list[int]) -> None:
    """`record` and `check` find the same cells."""
    assert [cell.number for cell in found(tmp_path, *sources)] == numbers
    path = tmp_path / "a.ipynb"
    turns = scan_notebook(path, lambda task, names: task).turns
    assert list(dict.fromkeys(turn.cell + 1 for turn in turns)) == numbers


def found(folder: Path, *sources: str) -> list[AgentCell]:
    notebook = notebook_of(*sources)
    nbformat.write(notebook, folder / "a.ipynb")
    return agent_cells(notebook)


def test_the_task_of_a_cell(tmp_path: Path) -> None:
    """The task is the text below `%%agent`, or else the cell's code."""
    cells = found(tmp_path, "%%agent -m x\n\nCount. \n", f"{IMPORT}\nawait ask('Sum.')")
    assert [cell.task for cell in cells] == ["Count.", f"{IMPORT}\nawait ask('Sum.')"]
    assert [cell.calls_ask for cell in cells] == [False, True]


def test_cells_that_no_execution_runs(tmp_path: Path) -> None:
    """Cells with the tag that skips them, and those of another language, give no task."""
    notebook = notebook_of("%%agent\nA", "%%agent\nB")
    notebook.cells[0].metadata["tags"] = ["skip-execution"]
    assert [cell.number for cell in agent_cells(notebook)] == [2]
    notebook.metadata["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    assert agent_cells(notebook) == []
