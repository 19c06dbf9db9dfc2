"""The agent cells of a notebook, found in its code without running it."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jupyter_agent.source.cell import MagicCall, magic_call, parse_cell
from jupyter_agent.source.scope import imports

SKIPPED_TAG = "skip-execution"
"""The tag of cells that no execution runs."""
_PACKAGE = "jupyter_agent"
_REPEATING = (
    *(ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call in a cell's code that concerns the agent: `%%agent`, `%agent`, `%config` or `ask(…)`.

    Attributes:
        node: The call.
        magic: The magic command that it runs; None for `ask(…)`.
        repeats: Whether it may run more than once: in a loop or a function.
    """

    node: ast.Call
    magic: MagicCall | None
    repeats: bool

    @property
    def is_turn(self) -> bool:
        """Whether it gives the agent a task."""
        if self.magic is None or self.magic.method == "run_cell_magic":
            return True
        return self.magic.name == "agent" and self.words[:1] in (["resume"], ["go"])

    @property
    def words(self) -> list[str]:
        """The words behind a line magic; none where quotes are open, or of anything else."""
        if self.magic is None or self.magic.body is not None:
            return []
        try:
            return shlex.split(self.magic.line)
        except ValueError:
            return []  # the cell itself says so when it runs


@dataclass(frozen=True, slots=True)
class AgentCell:
    """A cell that gives the agent a task.

    Attributes:
        number: The cell's number over all cells, counted from 1.
        source: The cell's text.
        calls: Those of its calls that concern the agent.
    """

    number: int
    source: str
    calls: tuple[AgentCall, ...]

    @property
    def task(self) -> str:
        """The task as it was typed; where the cell has no `%%agent`, the whole cell."""
        magic = self.calls[0].magic
        return self.source if magic is None or magic.body is None else magic.body.strip()

    @property
    def calls_ask(self) -> bool:
        """Whether it gives a task by `ask(…)`, for which the extension need not be loaded."""
        return any(call.magic is None for call in self.calls)


class AgentCallFinder:
    """Finds the calls that concern the agent in the cells of one notebook, given in their order.

    A name under which one cell imports `ask` holds in the cells below it.
    """

    def __init__(self) -> None:
        self._ask: set[str] = set()

    def find(self, source: str) -> Iterator[AgentCall]:
        """The calls in a cell, in their order; none where the cell is no Python."""
        if not self._may_concern_agent(source):
            return
        parsed = parse_cell(source)
        for node, repeats in _calls_and_imports(parsed[1]) if parsed else ():
            if not isinstance(node, ast.Call):
                self._ask.update(_names_of_ask(node))
            elif magic := magic_call(node):
                if _concerns_agent(magic):
                    yield AgentCall(node, magic, repeats)
            elif _dotted_name(node.func) in self._ask:
                yield AgentCall(node, None, repeats)

    def _may_concern_agent(self, source: str) -> bool:
        """A look at the text alone, so that most cells need not be parsed."""
        lowered = source.lower()
        return "agent" in lowered or any(name.rpartition(".")[2] in source for name in self._ask)


def agent_cells(notebook: Any) -> list[AgentCell]:
    """The agent cells of a notebook, in order."""
    finder = AgentCallFinder()
    found = []
    for index, source in python_cells(notebook):
        calls = tuple(finder.find(source))
        if any(call.is_turn for call in calls):
            found.append(AgentCell(index + 1, source, calls))
    return found


def python_cells(notebook: Any) -> Iterator[tuple[int, str]]:
    """The code cells that an execution runs, by their number over all cells, counted from 0.

    A notebook of another language has none.
    """
    metadata = notebook.metadata
    language = metadata.get("kernelspec", {}).get("language")
    language = language or metadata.get("language_info", {}).get("name")
    if str(language or "python").lower() not in ("python", "ipython"):
        return
    for index, cell in enumerate(notebook.cells):
        tags = cell.get("metadata", {}).get("tags", [])
        if cell.cell_type == "code" and SKIPPED_TAG not in tags:
            yield index, cell.source


def _concerns_agent(magic: MagicCall) -> bool:
    if magic.method == "run_cell_magic":
        return magic.name == "agent" and magic.body is not None
    return magic.method == "run_line_magic" and magic.name in ("agent", "config")


def _calls_and_imports(
    tree: ast.AST,
) -> Iterator[tuple[ast.Call | ast.Import | ast.ImportFrom, bool]]:
    """The calls and imports of a tree as they run, with whether they may run repeatedly."""
    waiting = [(tree, False, False)]
    while waiting:
        node, repeats, children_done = waiting.pop()
        repeats = repeats or isinstance(node, _REPEATING)
        if isinstance(node, ast.Call | ast.Import | ast.ImportFrom):
            if children_done:
                yield node, repeats
                continue
            waiting.append((node, repeats, True))
        children = list(ast.iter_child_nodes(node))
        waiting += [(child, repeats, False) for child in reversed(children)]


def _names_of_ask(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The names that `ask` has after an import, dots included."""
    for name, stands_for in imports(node):
        if isinstance(node, ast.Import):
            if stands_for == _PACKAGE:
                yield f"{name}.ask"
        elif stands_for in (f"{_PACKAGE}.ask", f"{_PACKAGE}.magics.ask.ask"):
            yield name
        elif stands_for == f"{_PACKAGE}.*":
            yield "ask"


def _dotted_name(node: ast.expr) -> str:
    """`a.b` of such an expression; empty for any other."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if owner := _dotted_name(value):
            return f"{owner}.{name}"
    return ""
