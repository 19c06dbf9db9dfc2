"""The notebook of a task, before it is executed, and what decides its outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.notebooks.one import read
from jupyter_agent.notebooks.tasks.listed import EARLIER, ListedTask
from jupyter_agent.notebooks.tasks.literals import inputs_cell

PARAMETERS, INJECTED = "parameters", "injected-parameters"
"""The tags by which papermill finds the cell of a notebook's parameters, and its own below it."""
_LOADING = "%load_ext jupyter_agent"
_KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def prepared(task: ListedTask) -> str:
    """The notebook of a task as JSON: no outputs, and the agent cell last.

    The inputs stand right above the agent cell; in a notebook with a cell that is tagged
    `parameters`, right below that one.

    Raises:
        AgentError: The task's notebook cannot be read.
    """
    import nbformat
    from nbformat import v4

    notebook = read(task.notebook) if task.notebook else v4.new_notebook()
    if task.notebook is None:
        notebook.metadata.kernelspec = nbformat.from_dict(_KERNELSPEC)
    cells = [cell for cell in notebook.cells if INJECTED not in _tags(cell)]
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("execution", None)
    if not any(cell.cell_type == "code" and _LOADING in cell.source for cell in cells):
        cells.append(_cell(_LOADING, cells))
    if task.inputs:
        at = next((n for n, c in enumerate(cells, 1) if PARAMETERS in _tags(c)), len(cells))
        cells.insert(at, _cell(task.inputs, cells, tags=[INJECTED]))
    cells.append(_cell(f"%%agent {task.options}".rstrip() + f"\n{task.task}", cells))
    notebook.cells = cells
    notebook.metadata.pop("widgets", None)
    has_ids = (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    for cell in cells:
        if not has_ids:
            cell.pop("id", None)
    text: str = nbformat.writes(notebook)
    return text + "\n"


def with_answers(notebook: str, answers: Mapping[str, str]) -> str:
    """A prepared notebook in which a variable holds the answers of the tasks before it.

    Args:
        notebook: As `prepared` gives it.
        answers: The answer of each of these tasks, in one line; without any, nothing is added.
    """
    import nbformat

    if not answers:
        return notebook
    found = nbformat.reads(notebook, as_version=4)
    cell = _cell(inputs_cell({EARLIER: dict(answers)}), found.cells)
    if "id" not in found.cells[-1]:
        del cell["id"]
    found.cells.insert(len(found.cells) - 1, cell)
    return f"{nbformat.writes(found)}\n"


def parts_of(
    tasks: Sequence[ListedTask], notebooks: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The digests of what decides each task, by its name: if one is another, the task runs anew.

    Those are its own words, inputs, options and cells, and all of these of the tasks before it.

    Args:
        tasks: The tasks of a list, whose order by `after` is no circle.
        notebooks: The notebook of each task as `prepared` gives it.
    """
    named = {task.name: task for task in tasks}
    found: dict[str, dict[str, str]] = {}

    def parts(name: str) -> dict[str, str]:
        if name not in found:
            task = named[name]
            before = [f"{other} {json.dumps(parts(other))}" for other in sorted(task.after)]
            found[name] = {
                "task": _digest(task.task),
                "inputs": _digest(task.inputs),
                "options": _digest(task.options),
                "notebook": _digest(_own_cells(task, notebooks[name])),
                "after": _digest("\n".join(before)),
            }
        return found[name]

    for name in _before_first(named):
        parts(name)
    return found


def _before_first(named: Mapping[str, ListedTask]) -> list[str]:
    """The names, each after those that its task waits for: a chain of thousands nests no calls."""
    from graphlib import TopologicalSorter

    return list(
        TopologicalSorter({name: task.after for name, task in named.items()}).static_order()
    )


def _own_cells(task: ListedTask, notebook: str) -> str:
    """The cells of a task's own notebook and its kernel, without outputs, ids and inputs."""
    if task.notebook is None:
        return ""
    found = json.loads(notebook)
    cells = [
        [cell["cell_type"], cell["source"]]
        for cell in found["cells"][:-1]
        if INJECTED not in _tags(cell)
    ]
    return json.dumps([cells, found["metadata"].get("kernelspec")])


def home_of(task: ListedTask, folder: Path) -> Path:
    """The path at which the kernel of a task believes its notebook, so that it runs beside the
    files that the task names, and finds the cassette of the task's name there.

    Args:
        task: The task.
        folder: The list's folder, in which tasks without a notebook run.
    """
    return (task.notebook.parent if task.notebook else folder.resolve()) / f"{task.name}.ipynb"


def _cell(source: str, others: Sequence[Any], **metadata: Any) -> Any:
    """A code cell whose id is the same each time, and that of no other cell."""
    from nbformat import v4

    own = f"task-{_digest(source)[:8]}"
    same = sum(str(cell.get("id", "")).startswith(own) for cell in others)
    return v4.new_code_cell(source, id=f"{own}-{same}" if same else own, metadata=metadata)


def _tags(cell: Any) -> list[str]:
    tags = cell["metadata"].get("tags", [])
    return tags if isinstance(tags, list) else []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
