"""A notebook executed from its cassettes, and held against what is saved in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jupyter_agent.core.plaintext import plain
from jupyter_agent.notebooks import NotebookExecution, execute
from jupyter_agent.notebooks.check.findings import Finding
from jupyter_agent.notebooks.check.notebook_scan import NotebookScan
from jupyter_agent.notebooks.outputs import lasting, parting

MODE = {"mode": "replay"}
_IGNORED_TAGS = frozenset({"nbval-ignore-output", "nbval-skip"})


def replayed(scan: NotebookScan, timeout: float | None) -> tuple[tuple[Finding, ...], float]:
    """What a replay finds, and the seconds that it took. The notebook's file is not written.

    Raises:
        AgentError: The kernel cannot be started.
    """
    execution = execute(scan.path, MODE, timeout=timeout)
    return tuple(_failure(scan, execution)) + tuple(_partings(scan, execution)), execution.seconds


def record_again(path: Path, cell: int | None = None) -> str:
    """The command that records a notebook anew, or one cell of it."""
    name = f'"{path}"' if " " in str(path) else str(path)
    return f"jupyter agent record {name}" + (f" --cell {cell + 1}" if cell is not None else "")


def _failure(scan: NotebookScan, execution: NotebookExecution) -> Iterator[Finding]:
    if not execution.error:
        return
    what = " ".join(plain(execution.error).split())
    remedy = "Repair the cell; nothing below it was run."
    if any(turn.cell == execution.cell for turn in scan.turns):
        again = record_again(scan.path, execution.cell)
        remedy = f"To record this cell alone: {again}. Nothing below it was run."
    yield Finding(
        "error",
        "replay-failed",
        f"the replay fails: {what}",
        remedy,
        scan.path,
        scan.line(execution.cell),
        execution.cell,
    )


def _partings(scan: NotebookScan, execution: NotebookExecution) -> Iterator[Finding]:
    """The cells of the agent whose outputs are not the saved ones."""
    saved, now = scan.notebook.cells, execution.notebook.cells
    cells = [
        number
        for number in dict.fromkeys(turn.cell for turn in scan.turns)
        if execution.cell is None or number < execution.cell
        if not _IGNORED_TAGS & set(saved[number].get("metadata", {}).get("tags", []))
    ]
    bare = [number for number in cells if not lasting(saved[number].outputs)]
    if bare and len(bare) == len(cells):
        yield Finding(
            "warning",
            "no-outputs",
            "no outputs of the agent are saved, so that there is nothing to compare a replay with.",
            "Save the notebook with its outputs.",
            scan.path,
            scan.line(bare[0]),
        )
        return
    for number in cells:
        found = parting(saved[number].outputs, now[number].outputs)
        if found is None:
            continue
        again = record_again(scan.path, number)
        yield Finding(
            found.severity,
            "output-differs",
            found.message,
            f"If the new output is right, save it. If the recording is old: {again}.",
            scan.path,
            scan.line(number),
            number,
        )
