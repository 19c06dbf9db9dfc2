"""An executed notebook put into a file, with no other change than its outputs."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

from jupyter_agent.core.messages import clean
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.notebooks.one import NotebookExecution

_INDENT = re.compile(rb'^\s*\{\r?\n([ \t]+)"')


def with_outputs(original: bytes, execution: NotebookExecution) -> bytes:
    """The file of a notebook with the outputs of an execution.

    Everything else stays as it was written: the order of the keys, the indentation, the kernel
    and the language that the metadata name. What the cells showed before and still show stays as
    it was written, too, so that a notebook without a change has the same bytes. Times of an
    earlier execution go. Cells that were not reached have no outputs.

    Args:
        original: The file, as it was when it was executed.
        execution: What came of it.
    """
    import nbformat

    notebook = _reached(execution)
    written = json.loads(original)
    if written.get("nbformat") != 4:
        return clean(nbformat.writes(notebook)).encode("utf-8")
    then = nbformat.reads(original.decode("utf-8"), as_version=4)
    now = json.loads(nbformat.writes(notebook))
    for place, cell in enumerate(written["cells"]):
        if cell["cell_type"] != "code":
            continue
        cell.get("metadata", {}).pop("execution", None)
        cell["execution_count"] = now["cells"][place]["execution_count"]
        if then.cells[place].outputs != notebook.cells[place].outputs:
            cell["outputs"] = now["cells"][place]["outputs"]
    if widgets := now["metadata"].get("widgets"):
        written["metadata"]["widgets"] = widgets
    return _as_written(written, original)


def _reached(execution: NotebookExecution) -> Any:
    """The notebook without outputs below the cell at which it ended."""
    notebook = deepcopy(execution.notebook)
    if execution.error:
        first = 0 if execution.cell is None else execution.cell + 1
        for cell in notebook.cells[first:]:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
    return notebook


def _as_written(notebook: Any, original: bytes) -> bytes:
    """A notebook's JSON in the manner of a file."""
    indent = match[1].decode() if (match := _INDENT.match(original)) else None
    ascii_only = original.isascii() and rb"\u" in original
    text = json.dumps(notebook, indent=indent, ensure_ascii=ascii_only)
    if original.endswith(b"\n"):
        text += "\n"
    return clean(text).encode("utf-8")


def write_in_place(original: bytes, execution: NotebookExecution) -> bool:
    """Put the outputs into the notebook's own file. Gives whether that changed it.

    Args:
        original: The file as it was when it was executed.
        execution: What came of it.

    Raises:
        AgentError: Somebody has changed the file since, or it cannot be written. It stays as it
            is.
    """
    path = execution.path
    try:
        if path.read_bytes() != original:
            raise AgentError(
                f"{path.name} was changed while it was executed, and is left as it is. "
                "Run it again."
            )
    except OSError as error:
        raise AgentError(f"{path.name} cannot be read again: {error.strerror}.") from None
    data = with_outputs(original, execution)
    if data == original:
        return False
    _write(path, data)
    return True


def write_copy(original: bytes, execution: NotebookExecution, target: Path) -> None:
    """Put the executed notebook into another file; one that is there is replaced.

    Raises:
        AgentError: It cannot be written.
    """
    _write(target, with_outputs(original, execution))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, data)
    except OSError as error:
        raise AgentError(f"{path} cannot be written: {error.strerror}.") from None
