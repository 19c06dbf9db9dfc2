"""Lists of tasks without a kernel: inputs as literals, the notebooks as they are prepared."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks.notebooks import write

from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.find import find_notebooks
from jupyter_agent.notebooks.jobs import NotebookOutcome, find
from jupyter_agent.notebooks.tasks.keeping import TaskKeeper
from jupyter_agent.notebooks.tasks.listed import ListedTask, read_tasks
from jupyter_agent.notebooks.tasks.literals import inputs_cell
from jupyter_agent.notebooks.tasks.prepared import parts_of, prepared
from jupyter_agent.notebooks.tasks.store import TaskNumbers, TaskRecord, TaskStore

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "naïve", "x1"]), VALUES))
@settings(max_examples=examples(300))
def test_inputs_are_literals(inputs: dict[str, Any]) -> None:
    """Whatever the values are, the cell is assignments of literals that mean the same."""
    tree = ast.parse(inputs_cell(inputs))
    found = {}
    for line in tree.body:
        assert isinstance(line, ast.Assign)
        assert isinstance(line.targets[0], ast.Name)
        found[line.targets[0].id] = ast.literal_eval(line.value)
    assert found == inputs


def test_tagged_parameters(tmp_path: Path) -> None:
    """Inputs go below the cell that is tagged `parameters`, in the place of earlier ones; nothing
    that was executed before is in the notebook, and an old format gets no ids."""
    path = write(tmp_path / "a.ipynb", "year = 2020", "year = 2021", "year")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["nbformat_minor"] = 4
    for cell, tag in zip(notebook["cells"], ("parameters", "injected-parameters", ""), strict=True):
        del cell["id"]
        cell["metadata"]["tags"] = [tag] if tag else []
        cell["execution_count"] = 7
    path.write_text(json.dumps(notebook), encoding="utf-8")
    task = ListedTask(1, "a", "Go.", notebook=path, inputs="year = 2024")
    made = json.loads(prepared(task))
    assert ["".join(cell["source"]) for cell in made["cells"]] == [
        "year = 2020",
        "year = 2024",
        "year",
        "%load_ext jupyter_agent",
        "%%agent\nGo.",
    ]
    assert not any("id" in cell or cell["execution_count"] for cell in made["cells"])
    assert prepared(task) == prepared(task)


def test_what_changes_a_task() -> None:
    """Its own words change it, and those of a task before it, over any number of tasks."""
    many = 2_000
    tasks = [ListedTask(n, f"t{n}", "Go.", after=(f"t{n - 1}",) if n else ()) for n in range(many)]
    text = prepared(tasks[0])
    notebooks = {task.name: text for task in tasks}
    before = parts_of(tasks, notebooks)
    tasks[0] = ListedTask(0, "t0", "Go on.")
    after = parts_of(tasks, notebooks)
    changed = {key for key, digest in after["t0"].items() if before["t0"][key] != digest}
    assert changed == {"task"}
    last = f"t{many - 1}"
    assert {key for key, digest in after[last].items() if before[last][key] != digest} == {"after"}


def test_folders_of_tasks_are_left_out(tmp_path: Path) -> None:
    """Notebooks that a list of tasks wrote are no notebooks of the folder, unless it is named."""
    one = write(tmp_path / "one.ipynb", "1")
    store = TaskStore(tmp_path / "tasks-runs", tmp_path / "tasks.yaml")
    store.open()
    store.add(TaskRecord("a", "done"))
    made = write(store.notebook("a"), "1")
    assert find_notebooks([tmp_path]) == [one]
    assert [path for path, _ in find([tmp_path])] == [one]
    assert [path for path, _ in find([made.parent])] == [made]


def test_a_torn_and_a_foreign_line(tmp_path: Path) -> None:
    """A line that a power cut tore, and lines of anybody's, spoil no other; the last one counts."""
    store = TaskStore(tmp_path, tmp_path / "tasks.yaml")
    store.open()
    store.add(TaskRecord("a", "running"))
    file = tmp_path / ".jupyter_agent" / "tasks.jsonl"
    with file.open("ab") as stream:
        stream.write(b'[1]\n{"task": 3}\n{"task": "a", "state": "gone"}\n{"task": "a", "sta')
    store.add(TaskRecord("a", "done", parts={"task": "x"}, words="It is 3."))
    found = TaskStore(tmp_path, tmp_path / "tasks.yaml").records()
    assert (found["a"].state, found["a"].words, found["a"].parts) == (
        "done",
        "It is 3.",
        {"task": "x"},
    )


def test_what_is_done_is_kept_by_who_executes(tmp_path: Path) -> None:
    """The process that executes a task records that it is done, without the command that asked;
    one that waited for the same task does not execute it, unless it is another task by now."""
    task = ListedTask(1, "a", "Go.")
    text = prepared(task)
    begun = TaskRecord("a", "running", parts=parts_of([task], {"a": text})["a"])
    store = TaskStore(tmp_path / "runs", tmp_path / "tasks.yaml")
    store.open()
    first, second = (
        TaskKeeper(TaskStore(tmp_path / "runs", tmp_path / "tasks.yaml"), begun, text.encode(), 2)
        for _ in range(2)
    )
    store.add(begun)
    assert first.begin()
    turn = {"stop": "end", "steps": 3, "tokens": 40, "cost": 0.5, "answer": "It is 3."}
    ended = NotebookOutcome(store.notebook("a"), seconds=2.0, document=text, value=turn)
    assert first.end(ended).error == ""
    kept = store.records()["a"]
    assert (kept.state, kept.words) == ("done", "It is 3.")
    assert kept.numbers == TaskNumbers(3, 40, 0.5, 2.0)
    assert not second.begin()
    other = replace(begun, parts={**begun.parts, "task": "another"})
    assert TaskKeeper(store, other, text.encode(), 2).begin()
    stuck = replace(ended, value={**turn, "stop": "stuck"})
    assert "repeated itself" in second.end(stuck).error
    assert len((tmp_path / "runs/.jupyter_agent/tasks.jsonl").read_bytes().splitlines()) == 2


def test_a_list_that_is_no_file(tmp_path: Path) -> None:
    """A folder, bytes that are no text, and a list of megabytes are one line each."""
    for name, content, words in (
        ("a.yaml", b"- task: \xff", "line 1: this is not UTF-8 text"),
        ("b.yaml", b"- task: x\n" * 200_000, "has 2,000,000 bytes"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(AgentError, match=words):
            read_tasks(tmp_path / name)
    with pytest.raises(AgentError, match="no ordinary file"):
        read_tasks(tmp_path)
