"""The agent cells of a notebook, and what two executions of a notebook have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from jupyter_agent.core.plaintext import one_line

_ASKS = re.compile(r"(?<![\w.])ask\s*\(|\bjupyter_agent\.ask\s*\(")
_MAGIC = "%%agent"


@dataclass(frozen=True, slots=True)
class AgentCell:
    """A cell that gives the agent a task.

    Attributes:
        number: The cell's number over all cells, counted from 1.
        task: The task as it was typed; for a cell that asks from code, the code.
    """

    number: int
    task: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell that showed something else the second time.

    Attributes:
        number: The cell's number over all cells, counted from 1.
        of_agent: Whether it is an agent cell.
        words: What differs first, in one line.
    """

    number: int
    of_agent: bool
    words: str


def asks_from_code(cell: Any) -> bool:
    """Whether a code cell calls `ask`."""
    return cell.cell_type == "code" and bool(_ASKS.search(cell.source))


def is_agent_cell(cell: Any) -> bool:
    """Whether a cell is a turn: `%%agent`, `%agent resume`, or `ask(…)` in code."""
    if cell.cell_type != "code":
        return False
    words = cell.source.split(maxsplit=2)
    return words[:1] == [_MAGIC] or words[:2] == ["%agent", "resume"] or asks_from_code(cell)


def agent_cells(notebook: Any) -> list[AgentCell]:
    """The agent cells of a notebook, in order."""
    return [
        AgentCell(number, _task(cell.source))
        for number, cell in enumerate(notebook.cells, 1)
        if is_agent_cell(cell)
    ]


def _task(source: str) -> str:
    if source.split(maxsplit=1)[0] != _MAGIC:
        return source
    return source.lstrip().partition("\n")[2].strip()


def lasting(outputs: Any) -> Any:
    """A cell's outputs without what a replay does not know: how long it took, what it cost."""
    kept = deepcopy(outputs)
    for output in kept:
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return kept


def differences(first: Any, second: Any) -> Iterator[Difference]:
    """Where two executions of one notebook show different things, cell by cell."""
    for number, (then, now) in enumerate(zip(first.cells, second.cells, strict=True), 1):
        if then.cell_type != "code":
            continue
        old, new = lasting(then.outputs), lasting(now.outputs)
        if old != new:
            yield Difference(number, is_agent_cell(then), _first_difference(old, new))


def _first_difference(old: Any, new: Any) -> str:
    """The words around the first place where two lists of outputs part."""
    then, now = _lines(old), _lines(new)
    for before, after in zip(then, now, strict=False):
        if before != after:
            start = next(
                (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
                min(len(before), len(after)),
            )
            first = max(0, start - 20)
            return f"{_around(before, first)} became {_around(after, first)}"
    longer, what = (then, "is gone") if len(then) > len(now) else (now, "was added")
    return f"{_around(longer[min(len(then), len(now))], 0)} {what}"


def _around(text: str, first: int) -> str:
    return repr(one_line(text[first:], 60))


def _lines(outputs: Any) -> list[str]:
    """What a person sees of outputs, line by line; then the rest of them."""
    seen: list[str] = []
    for output in outputs:
        seen += str(output.get("text") or output.get("data", {}).get("text/plain", "")).split("\n")
        seen += [f"{output.ename}: {output.evalue}"] if output.output_type == "error" else []
    return [*seen, *(json.dumps(output, sort_keys=True) for output in outputs)]
