"""Outputs put into a notebook's file: nothing else in it changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notebooks.notebooks import write

from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.one import NotebookExecution
from jupyter_agent.notebooks.writing import with_outputs, write_copy, write_in_place

OUTPUTS: list[dict[str, Any]] = [
    {"name": "stdout", "output_type": "stream", "text": "1\nzwei „3“\n"},
    {
        "data": {"text/plain": "4\n5", "application/json": {"b": 1, "a": [2]}},
        "metadata": {},
        "output_type": "display_data",
    },
]


def executed(data: bytes, error: str = "", cell: int | None = None) -> NotebookExecution:
    """What executing a file gives, with all outputs as they are in it."""
    notebook = nbformat.reads(data.decode("utf-8"), as_version=4)
    notebook.metadata["language_info"] = {"name": "python", "version": "9.9"}
    return NotebookExecution(Path("x.ipynb"), notebook, error, cell, 1.0)


def file_of(cells: list[dict[str, Any]], **form: Any) -> bytes:
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, **form).encode("utf-8")


def cell(number: int, outputs: list[dict[str, Any]], count: int | None = None) -> dict[str, Any]:
    return {
        "source": "print(1)",
        "id": f"c{number}",
        "cell_type": "code",
        "outputs": outputs,
        "metadata": {"tags": ["kept"]},
        "execution_count": count,
    }


@given(
    split=st.booleans(),
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    sort=st.booleans(),
    plain=st.booleans(),
    end=st.sampled_from(["", "\n"]),
)
def test_the_same_outputs_are_the_same_bytes(
    split: bool, indent: Any, sort: bool, plain: bool, end: str
) -> None:
    """Writing equal outputs changes no byte, whichever program wrote the file."""
    outputs = json.loads(json.dumps(OUTPUTS))
    if split:
        outputs[0]["text"] = outputs[0]["text"].splitlines(True)
    original = (
        file_of([cell(0, outputs, 1)], indent=indent, sort_keys=sort, ensure_ascii=plain)
        + end.encode()
    )
    assert with_outputs(original, executed(original)) == original


def test_only_outputs_and_counts_change() -> None:
    """New outputs are written as nbformat does; metadata, order and the text above stay."""
    original = file_of([cell(0, OUTPUTS, 1), cell(1, [])], indent=1, ensure_ascii=False)
    execution = executed(original)
    made = execution.notebook.cells[1]
    made.execution_count = 2
    made.outputs = [nbformat.v4.new_output("stream", text="a\nb")]
    written = json.loads(with_outputs(original, execution))
    before = json.loads(original)
    assert written["cells"][1].pop("outputs") == [
        {"name": "stdout", "output_type": "stream", "text": ["a\n", "b"]}
    ]
    assert written["cells"][1].pop("execution_count") == 2
    del before["cells"][1]["outputs"], before["cells"][1]["execution_count"]
    assert written == before
    assert list(written["cells"][0]) == list(before["cells"][0])


def test_times_of_an_earlier_execution_go() -> None:
    """JupyterLab's times of an earlier execution are removed."""
    timed = cell(0, [])
    timed["metadata"]["execution"] = {"iopub.status.busy": "2026-01-01T00:00:00Z"}
    written = json.loads(with_outputs(file_of([timed]), executed(file_of([timed]))))
    assert written["cells"][0]["metadata"] == {"tags": ["kept"]}


def test_cells_that_were_not_reached_show_nothing() -> None:
    """Cells that were not reached lose their earlier outputs."""
    original = file_of([cell(0, OUTPUTS, 1), cell(1, OUTPUTS, 2), cell(2, OUTPUTS, 3)])
    written = json.loads(with_outputs(original, executed(original, "no", 1)))
    assert [bool(c["outputs"]) for c in written["cells"]] == [True, True, False]
    assert [c["execution_count"] for c in written["cells"]] == [1, 2, None]


def test_an_old_format_becomes_the_new_one() -> None:
    """A notebook of format 3 is written as format 4."""
    old = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("1")])]
    )
    original = json.dumps(old).encode()
    written = json.loads(with_outputs(original, executed(original)))
    assert written["nbformat"] == 4
    assert [c["source"] for c in written["cells"]] == [["1"]]


def test_a_file_that_somebody_changed_is_left(tmp_path: Path) -> None:
    """A notebook edited during the execution is left as it is, with an error."""
    path = write(tmp_path / "a.ipynb", "1")
    original = path.read_bytes()
    execution = NotebookExecution(path, executed(original).notebook, "", None, 1.0)
    typed = write(path, "2").read_bytes()
    with pytest.raises(AgentError, match=r"a\.ipynb was changed while it was executed"):
        write_in_place(original, execution)
    assert path.read_bytes() == typed


def test_a_copy_in_a_new_folder_and_one_that_cannot_be_made(tmp_path: Path) -> None:
    """Folders are made; where that fails, one line says so."""
    path = write(tmp_path / "a.ipynb", "1")
    original = path.read_bytes()
    execution = NotebookExecution(path, executed(original).notebook, "", None, 1.0)
    write_copy(original, execution, tmp_path / "x" / "y" / "a.ipynb")
    assert (tmp_path / "x" / "y" / "a.ipynb").read_bytes() == original
    with pytest.raises(AgentError, match="cannot be written"):
        write_copy(original, execution, path / "a.ipynb")
