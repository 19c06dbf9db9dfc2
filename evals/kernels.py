"""A real kernel for each attempt, with the task's files and variables in it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.borrowed import Cell, LiveKernel
from benchmarks.line import ROOT
from evals.tasks import SetupError, Task

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST_OUTPUT = 3_000
_SETUP_SECONDS = 120.0


@contextmanager
def kernel(
    task: Task, folder: Path, environ: Mapping[str, str], *load: str
) -> Iterator[LiveKernel]:
    """A kernel in `folder` in which the cells of the task have run.

    Args:
        task: The task.
        folder: An empty folder.
        environ: More environment variables.
        load: Lines that run first, such as `%load_ext jupyter_agent`.

    Raises:
        SetupError: One of the cells failed.
    """
    place(task, folder)
    given = {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT), **environ}
    with LiveKernel(folder, given) as live:
        if load:
            live.helper(*load)
        for code in task.setup:
            done = live.run(code, timeout=_SETUP_SECONDS)
            if done.status != "ok":
                raise SetupError(error(done))
        yield live


def place(task: Task, folder: Path) -> None:
    """Copy the task's files into the folder."""
    for name, source in task.files.items():
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copyfile(source, folder / name)


def described(live: LiveKernel) -> str:
    """What bare agents are told of the variables."""
    module = "__import__('evals.variables', fromlist=['described'])"
    return str(live.value(f"{module}.described(globals())"))


def output(cell: Cell) -> str:
    """What a cell showed, as text: what it printed, its value, its error."""
    parts = (cell.stdout.strip(), cell.result, error(cell))
    return "\n".join(part for part in parts if part)[-_LONGEST_OUTPUT:]


def error(cell: Cell) -> str:
    """The error of a cell in a line; empty if there is none."""
    if cell.status == "ok":
        return ""
    text = f"{cell.reply.get('ename', cell.status)}: {cell.reply.get('evalue', '')}"
    return _COLOURS.sub("", text).strip()


class Clock:
    """The time of one attempt.

    Args:
        seconds: The most that it may take.
    """

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._most = seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """The seconds that are left.

        Raises:
            TimeoutError: There are none.
        """
        left = self._most - self.spent
        if left <= 0:
            raise TimeoutError("the time is over")
        return left
