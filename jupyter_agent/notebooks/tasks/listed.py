"""Reads a list of tasks, and checks all of it before anything runs.

- name: clean
  task: Read @trips.csv, drop the rows without a price, and write clean.csv.
- name: report
  notebook: report.ipynb
  task: Explain the three largest values in words.
  inputs: {year: 2024, city: Hanoi}
  options: --max-steps 20
  timeout: 600
  after: [clean]
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jupyter_agent.config.checking import in_words
from jupyter_agent.config.load import parse_yaml
from jupyter_agent.core.messages import clean
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.safe_yaml import BoundedLoader
from jupyter_agent.errors import AgentError, ToolError
from jupyter_agent.files.shared import read_regular
from jupyter_agent.files.workspace import Workspace, refused_on_windows
from jupyter_agent.notebooks.one import read
from jupyter_agent.notebooks.tasks.literals import inputs_cell
from jupyter_agent.session.options import CELL_MAGIC, parse_line

EARLIER = "earlier_answers"
"""The variable in which a task finds the answers of the tasks before it, by their names."""
_MOST_BYTES = 1_000_000
_LONGEST_NAME = 80
_NAME = re.compile(r"\w(?:[\w .\-]*\w)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EXPANDED = re.compile(r"[{}$\n\r]")
"""What IPython expands in the line of a magic: an option is never code."""


@dataclass(frozen=True, slots=True)
class ListedTask:
    """One task of a list, checked.

    Attributes:
        number: Its number in the list, from 1.
        name: Its name, unique in the list also without regard to case; names its notebook.
        task: The task in plain words.
        notebook: The notebook that is executed before it, absolute; None for a new one.
        inputs: The source of the cell that binds its inputs; empty without inputs.
        options: The rest of the `%%agent` line.
        timeout: The limit in seconds for each cell; None for that of the command.
        after: The names of the tasks that must have ended well before.
    """

    number: int
    name: str
    task: str
    notebook: Path | None = None
    inputs: str = ""
    options: str = ""
    timeout: float | None = None
    after: tuple[str, ...] = ()


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    task: str
    name: str | None = None
    notebook: str | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)
    options: str = ""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    after: list[str] = Field(default_factory=list)


_KINDS = {
    "task": "text",
    "name": "text",
    "notebook": "the path of a notebook",
    "inputs": "a mapping of names to values",
    "options": "the words of an %%agent line, for instance --max-steps 20",
    "timeout": "a number of seconds above 0",
    "after": "a list of names of tasks",
}


def read_tasks(path: Path) -> tuple[ListedTask, ...]:
    """The tasks of a list, in the order of the file.

    Notebooks are found from the list's folder, and must be inside of it.

    Args:
        path: The list, in YAML.

    Raises:
        AgentError: The list cannot be read, or something in it is wrong: with the entry, its
            line, and what to do.
    """
    text = _text(path)
    found = parse_yaml(path, text)
    if not isinstance(found, list) or not found:
        what = "It is empty" if found in (None, []) else f"It holds {in_words(found)}"
        raise AgentError(f"{path}: {what}. Write a list of tasks: `- task: what to do` for each.")
    reading = _Reading(path, text)
    tasks = tuple(reading.task(number, entry) for number, entry in enumerate(found, 1))
    reading.check_names(tasks)
    reading.check_order(tasks)
    return tasks


class _Reading:
    """A list that is being read, and where its entries stand."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._workspace = Workspace(path.resolve().parent)

    def task(self, number: int, given: object) -> ListedTask:
        """One entry, checked by itself."""
        entry = self._entry(number, given)
        source = self._notebook(number, entry.notebook) if entry.notebook is not None else None
        name = entry.name
        if name is None:
            name = source.stem if source else f"task-{number}"
        self._check_name(number, name, entry.name is None)
        if EARLIER in entry.inputs:
            problem = f"`inputs`: {EARLIER} has the answers of the tasks before. Take another name."
            raise self._wrong(number, problem)
        try:
            inputs = inputs_cell(entry.inputs)
        except AgentError as error:
            raise self._wrong(number, str(error)) from None
        return ListedTask(
            number=number,
            name=name,
            task=self._words(number, entry.task),
            notebook=source,
            inputs=inputs,
            options=self._options(number, entry.options),
            timeout=entry.timeout,
            after=tuple(dict.fromkeys(entry.after)),
        )

    def check_names(self, tasks: Sequence[ListedTask]) -> None:
        """Refuse two tasks that would be written to one notebook."""
        seen: dict[str, ListedTask] = {}
        for task in tasks:
            other = seen.setdefault(unicodedata.normalize("NFKC", task.name).casefold(), task)
            if other is not task:
                raise self._wrong(
                    task.number,
                    f"it would be written to the same notebook as task {other.number}, "
                    f"{other.name}.ipynb. Give each a `name` of its own.",
                )

    def check_order(self, tasks: Sequence[ListedTask]) -> None:
        """Refuse tasks that wait for one that is not there, or for each other."""
        names = {task.name for task in tasks}
        for task in tasks:
            for name in task.after:
                if name not in names:
                    hint = _nearest(name, names)
                    problem = f"`after` names {_quoted(name)}, and no task has this name. {hint}"
                    raise self._wrong(task.number, problem)
        try:
            TopologicalSorter({task.name: task.after for task in tasks}).prepare()
        except CycleError as error:
            circle = [str(name) for name in error.args[1]]
            first = next(task for task in tasks if task.name in circle)
            raise self._wrong(
                first.number,
                f"these tasks wait for each other: {' before '.join(circle)}. "
                "Remove one of them from an `after`.",
            ) from None

    def _entry(self, number: int, given: object) -> _Entry:
        if isinstance(given, dict) and isinstance(given.get("after"), str):
            given = {**given, "after": [given["after"]]}
        if not isinstance(given, dict):
            what = in_words(given)
            raise self._wrong(number, f"it is {what}. Write `task:` and the task in words.")
        try:
            return _Entry.model_validate(given)
        except ValidationError as error:
            problem = _problem(error, given)
        raise self._wrong(number, problem)

    def _check_name(self, number: int, name: str, is_derived: bool) -> None:
        is_odd = not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME
        if is_odd or refused_on_windows(f"{name}.ipynb", self._workspace.root):
            whose = "the notebook's name" if is_derived else "the name"
            raise self._wrong(
                number,
                f"{whose} {_quoted(name)} is not fit for a file. Give a `name` of letters, digits, "
                f"blanks, - and _, at most {_LONGEST_NAME} of them.",
            )

    def _words(self, number: int, task: str) -> str:
        words = clean(task.replace("\r\n", "\n")).strip()
        if not words:
            raise self._wrong(number, "`task` is empty. Say in words what to do.")
        if _CONTROL.search(words):
            raise self._wrong(number, "`task` has a control character. Remove it.")
        return words

    def _options(self, number: int, options: str) -> str:
        options = options.strip()
        if found := _EXPANDED.search(options):
            character = "a line break" if found[0] in "\n\r" else found[0]
            raise self._wrong(number, f"`options` has {character}. Write plain words on one line.")
        try:
            parse_line(options)
        except AgentError as error:
            problem = str(error).removeprefix(f"{CELL_MAGIC}: ")
            raise self._wrong(number, f"`options`: {problem}") from None
        return options

    def _notebook(self, number: int, given: str) -> Path:
        try:
            found = self._workspace.readable(given)
        except ToolError:
            raise self._wrong(
                number,
                f"`notebook` {_quoted(given)} is outside of the list's folder. "
                "Name one inside of it, by its path from there.",
            ) from None
        if found.suffix != ".ipynb":
            problem = (
                f"`notebook` {_quoted(given)} is no notebook. Name a file that ends in .ipynb."
            )
            raise self._wrong(number, problem)
        if not found.exists():
            raise self._wrong(
                number,
                f"there is no notebook {_quoted(given)} in {self._path.resolve().parent.name}. "
                "Correct its path, or leave `notebook` out for a new one.",
            )
        try:
            language = _language(read(found))
        except AgentError:
            problem = f"`notebook` {_quoted(given)} cannot be read as a notebook. Open and save it."
            raise self._wrong(number, problem) from None
        if language != "python":
            raise self._wrong(
                number,
                f"`notebook` {_quoted(given)} is in {_quoted(language)}, and agent cells need "
                "Python. Choose a Python kernel for it.",
            )
        return found

    def _wrong(self, number: int, problem: str) -> AgentError:
        line = _lines(self._text).get(number)
        where = f"{self._path}, line {line}" if line else str(self._path)
        return AgentError(one_line(f"{where}, task {number}: {problem}", 600))


def _text(path: Path) -> str:
    try:
        data = read_regular(path)
    except ToolError as error:
        raise AgentError(str(error)) from None
    if data is None:
        raise AgentError(f"There is no list of tasks {path}.")
    if len(data) > _MOST_BYTES:
        raise AgentError(
            f"{path} has {len(data):,} bytes; a list of tasks has at most {_MOST_BYTES:,}. "
            "Put data into files of their own, and name those in the tasks."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise AgentError(
            f"{path}, line {line}: this is not UTF-8 text. Save it as UTF-8."
        ) from None


def _lines(text: str) -> dict[int, int]:
    """The line on which each entry begins, by the entry's number; both from 1."""
    try:
        node = yaml.compose(text, BoundedLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    entries = node.value if isinstance(node, yaml.SequenceNode) else []
    return {number: entry.start_mark.line + 1 for number, entry in enumerate(entries, 1)}


def _problem(error: ValidationError, given: Mapping[Any, Any]) -> str:
    """The first mistake in an entry, in words."""
    first = error.errors(include_url=False, include_context=False)[0]
    key = first["loc"][0] if first["loc"] else ""
    if first["type"] == "missing":
        return "it has no `task`. Say in words what to do."
    if first["type"] == "extra_forbidden" or key not in _KINDS:
        fields = ", ".join(_KINDS)
        return (
            f"there is no field {_quoted(str(key))}. {_nearest(str(key), _KINDS)} Fields: {fields}."
        )
    value = given[key] if len(first["loc"]) == 1 else first["input"]
    hint = (
        " Put it in quotes." if isinstance(value, bool | int | float) and key != "timeout" else ""
    )
    return f"`{key}` must be {_KINDS[str(key)]}, not {in_words(value)}.{hint}"


def _nearest(word: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(names), 1)
    return f"Did you mean {near[0]}?" if near else "Correct it."


def _quoted(text: str) -> str:
    return repr(one_line(text, 80))


def _language(notebook: Any) -> str:
    """The language of a notebook in lower case; Python where it names none."""
    metadata = notebook.metadata
    named = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get(
        "name"
    )
    return str(named or "python").lower()
