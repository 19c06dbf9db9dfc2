"""`%agent cells` and `%agent export` in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from live_kernel import LiveKernel


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        kernel.run("start = 3")
        yield kernel


def test_the_cell_gives_the_same_variables(desk: LiveKernel, tmp_path: Path) -> None:
    """The cell has only the code that the results depend on, after a look and a failure."""
    desk.agent("start", "import math\ntotal = start + missing", "total = math.sqrt(start * 27)")
    cell = desk.run("%agent cells")
    (payload,) = [part for part in cell.reply["payload"] if part["source"] == "set_next_input"]
    text = payload["text"]
    assert payload["replace"] is False and "missing" not in text and "import math" in text
    with LiveKernel(tmp_path) as other:
        other.helper("start = 3", text)
        assert other.value("total") == desk.value("total") == 9.0


def test_the_notebook(desk: LiveKernel, tmp_path: Path) -> None:
    """The exported notebook has the person's cells and a cell for each step, and is valid."""
    desk.agent("a = start * 2", "b = a + 1")
    assert "cells. None of them has run yet." in desk.run("%agent export work.ipynb").said
    made = nbformat.read(tmp_path / "work.ipynb", as_version=4)
    nbformat.validate(made)
    code = [cell.source for cell in made.cells if cell.cell_type == "code"]
    assert code[0] == "start = 3" and any("b = a + 1" in source for source in code)
    again = desk.run("%agent export work.ipynb")
    assert "work.ipynb" in again.error and "\n" not in again.error


def test_without_a_turn(desk: LiveKernel) -> None:
    """Before the first turn both commands are one line that says so."""
    for command in ("cells", "export x.ipynb"):
        assert "no turn has run yet" in desk.run(f"%agent {command}").error


def test_the_receipt_of_a_live_turn(desk: LiveKernel) -> None:
    """The receipt lists what a turn used and changed; an invented number is named."""
    desk.script(
        "Count.",
        {"calls": [{"name": "execute_code", "arguments": {"code": "n = start * 114\nn"}}]},
        {"text": "There are **342** rows, and 8,871 more elsewhere."},
    )
    cell = desk.run("%%agent\nCount.")
    assert "Not seen in any output: 8,871" in cell.transcript
    assert cell.displays[-1]["text/markdown"].endswith("8,871 more elsewhere.")
    assert desk.value("[n.text for n in _agent.receipt.ungrounded]") == ["8,871"]
    assert desk.value("_agent.receipt.as_json()['steps']") == 2
    made = desk.value("[(v.name, v.kind) for v in _agent.receipt.variables]")
    assert made == [("n", "added")]
