"""The turns that a notebook asks for, and their cassettes, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files.workspace import cassette_of
from jupyter_agent.notebooks.check.positions import cell_lines
from jupyter_agent.recording.coverage import Task
from jupyter_agent.source.agent_cells import AgentCall, AgentCallFinder, python_cells

StripSkills = Callable[[str, tuple[str, ...]], str]
"""Takes a task and the skills named with it; returns the task without the skills that it names."""


@dataclass(frozen=True, slots=True)
class RequestedTurn:
    """One turn that a cell asks for.

    Attributes:
        cell: The number of the cell, from 0 over all cells.
        task: Its task.
        cassette: The cassette that is in force there.
    """

    cell: int
    task: Task
    cassette: Path


@dataclass(frozen=True, slots=True)
class CellProblem:
    """A mistake in a cell, found before anything runs: kind, message and remedy of a finding."""

    cell: int
    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class NotebookScan:
    """What a notebook's cells ask of the agent.

    Attributes:
        path: The notebook's file.
        notebook: Its content, as nbformat reads it.
        lines: The line of the file on which each cell begins.
        turns: The turns that it asks for, in the order of its cells.
        problems: Mistakes in its cells.
        is_named: Whether it names its cassette above the first turn.
        is_open: Whether it has tasks that are known only when it runs.
    """

    path: Path
    notebook: Any
    lines: tuple[int, ...]
    turns: tuple[RequestedTurn, ...]
    problems: tuple[CellProblem, ...]
    is_named: bool
    is_open: bool

    @property
    def has_turns(self) -> bool:
        return bool(self.turns or self.problems or self.is_open)

    @property
    def cassettes(self) -> tuple[Path, ...]:
        """The cassettes that its turns use, in the order of their first use."""
        return tuple(dict.fromkeys(turn.cassette for turn in self.turns))

    def line(self, cell: int | None) -> int:
        """The line of the file on which a cell begins; 1 where that is not known."""
        return self.lines[cell] if cell is not None and cell < len(self.lines) else 1


def scan_notebook(path: Path, strip_skills: StripSkills) -> NotebookScan:
    """Find the turns that a notebook asks for. Runs nothing.

    Raises:
        AgentError: The file cannot be read as a notebook.
    """
    from jupyter_agent.notebooks.one import read

    notebook = read(path)
    scanner = _Scanner(path, strip_skills)
    for number, source in python_cells(notebook):
        scanner.scan(number, source)
    return NotebookScan(
        path,
        notebook,
        tuple(cell_lines(path.read_text(encoding="utf-8-sig"))),
        tuple(scanner.turns),
        tuple(scanner.problems),
        scanner.is_named,
        scanner.is_open or (scanner.has_nested and bool(scanner.turns)),
    )


_MAGIC = "%%agent"


@dataclass
class _Scanner:
    """Collects turns and problems from the cells, given in the order in which they run."""

    path: Path
    strip_skills: StripSkills
    turns: list[RequestedTurn] = field(default_factory=list)
    problems: list[CellProblem] = field(default_factory=list)
    is_named: bool = False
    is_open: bool = False
    has_nested: bool = False
    """Whether code mentions agent cells, such as code that writes a notebook."""
    _cassette: Path | None = None
    _finder: AgentCallFinder = field(default_factory=AgentCallFinder)

    def scan(self, cell: int, source: str) -> None:
        if _MAGIC in source and not source.lstrip().startswith(_MAGIC):
            self.has_nested = True
        for call in self._finder.find(source):
            if call.magic is None:
                self._ask(cell, call)
            elif call.magic.body is not None:
                self._agent_cell(cell, call.magic.line, call.magic.body, call.repeats)
            elif call.magic.name == "agent":
                self._agent_line(cell, call.words)
            else:
                words = call.magic.line.replace("=", " = ").split()
                self._set_mode(cell, words, "AgentMagics.mode")

    def _agent_cell(self, cell: int, line: str, body: str, repeats: bool) -> None:
        from jupyter_agent.session.options import parse_line

        try:
            skills = parse_line(line).skills
            if not body.strip():
                raise ConfigError("There is no task. Write what to do below the %%agent line.")
            self._add(cell, self.strip_skills(body, skills), repeats)
        except AgentError as error:
            self.problems.append(CellProblem(cell, "bad-cell", str(error)))

    def _agent_line(self, cell: int, words: list[str]) -> None:
        from jupyter_agent.session.options import CARRY_OUT, GO_ON

        word, *rest = words or [""]
        if word == "cassette" and len(rest) == 1:
            self.is_named = self.is_named or not self.turns
            self._cassette = self.path.parent / Path(rest[0]).expanduser()
        elif word == "resume":
            self._add(cell, GO_ON, repeats=False)
        elif word == "go":
            self._add(cell, CARRY_OUT, repeats=False)
        elif word == "config":
            self._set_mode(cell, rest, "mode")

    def _set_mode(self, cell: int, words: list[str], key: str) -> None:
        """Report a cell that sets another mode than `replay`, which overrides the environment."""
        if len(words) < 2 or words[0] != key:
            return
        mode = words[-1].strip("'\"")
        if mode != "replay":
            self._live(cell, f"the cell sets mode to {one_line(mode, 20)}")

    def _ask(self, cell: int, call: AgentCall) -> None:
        given = {word.arg: _literal(word.value) for word in call.node.keywords if word.arg}
        if given.get("mode", "replay") != "replay":
            self._live(cell, f"ask() sets mode to {one_line(str(given['mode']), 20)}")
            return
        task = _literal(call.node.args[0]) if call.node.args else given.get("task")
        if not isinstance(task, str):
            self.is_open = True
            return
        try:
            self._add(cell, self.strip_skills(task, ()), call.repeats)
        except AgentError as error:
            self.problems.append(CellProblem(cell, "bad-cell", str(error)))

    def _live(self, cell: int, what: str) -> None:
        self.problems.append(
            CellProblem(
                cell,
                "asks-a-model",
                f"{what}, which overrides JUPYTER_AGENT_MODE: in CI it may ask a model.",
                "Remove that, and set JUPYTER_AGENT_MODE=record where you record.",
            )
        )

    def _add(self, cell: int, task: str, repeats: bool) -> None:
        cassette = self._cassette or cassette_of(self.path)
        self.turns.append(RequestedTurn(cell, Task(task, repeats), cassette))


def _literal(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None
