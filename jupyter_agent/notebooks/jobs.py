"""Which notebooks are executed, what is told of them meanwhile, and who ends them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jupyter_agent.errors import AgentError
from jupyter_agent.files.shared import held
from jupyter_agent.notebooks.find import files_below
from jupyter_agent.notebooks.one import STOPPED, NotebookExecution, NotebookWatch, execute

_NEVER_ENTERED = {"node_modules", "__pycache__"}


class Keeper(Protocol):
    """Keeps what comes of a notebook, in the process that executes it. Goes there by pickle.

    So that nothing is lost with the command that asked for it: what was kept is done.
    """

    def begin(self) -> bool:
        """Prepare the notebook. False if it was kept already. Raises `AgentError`."""

    def end(self, outcome: NotebookOutcome) -> NotebookOutcome:
        """Keep what came of it. Gives the outcome, with an error where it cannot be kept."""


@dataclass(frozen=True, slots=True)
class Job:
    """One notebook to execute.

    Attributes:
        path: The notebook, absolute.
        name: How it is called in reports, and below the folder of copies.
        settings: By dotted key, in force over the files.
        timeout: Seconds for one cell; None waits.
        home: As for `execute`.
        asks: As for `execute`.
        lock: A file whose lock is held while the notebook is executed, so that no two processes
            execute it at once, whoever began them; None for none.
        keeper: Keeps what comes of it, while the lock is held; None for none.
    """

    path: Path
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    home: Path | None = None
    asks: str = ""
    lock: Path | None = None
    keeper: Keeper | None = None


@dataclass(frozen=True, slots=True)
class NotebookOutcome:
    """What came of a notebook, as it goes from process to process.

    Attributes:
        path: Where the notebook was read.
        error: What failed, in one line; empty where every cell ran.
        cell: The number of the cell that failed, counted from 0 over all cells; None without one.
        source: What that cell says.
        seconds: How long it took.
        document: The notebook with its new outputs, as JSON; empty where it could not be read.
        value: As for `NotebookExecution`.
    """

    path: Path
    error: str = ""
    cell: int | None = None
    source: str = ""
    seconds: float = 0.0
    document: str = ""
    value: Any = None

    @classmethod
    def of(cls, execution: NotebookExecution) -> NotebookOutcome:
        """What came of an execution."""
        notebook, cell = execution.notebook, execution.cell
        source = "" if cell is None else str(notebook.cells[cell].source)
        return cls(
            path=execution.path,
            error=execution.error,
            cell=cell,
            source=source,
            seconds=execution.seconds,
            document=json.dumps(notebook),
            value=execution.value,
        )

    @property
    def execution(self) -> NotebookExecution:
        """The execution again."""
        import nbformat

        notebook = nbformat.from_dict(json.loads(self.document)) if self.document else None
        return NotebookExecution(
            self.path, notebook, self.error, self.cell, self.seconds, self.value
        )


@dataclass(frozen=True, slots=True)
class Begun:
    """A notebook is being executed; once more where a process that executed it died."""

    job: Job


@dataclass(frozen=True, slots=True)
class CellDone:
    """One more code cell of a notebook was executed."""

    job: Job


@dataclass(frozen=True, slots=True)
class NotebookDone:
    """A notebook is done with, however it went. Said once for each."""

    job: Job
    outcome: NotebookOutcome


Told = Begun | CellDone | NotebookDone


class Workers(Protocol):
    """Who executes notebooks: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """How many more notebooks could be begun now. Raises `AgentError` if nobody answers."""

    @property
    def is_busy(self) -> bool:
        """True while a notebook that was begun is not done."""

    def begin(self, job: Job) -> None:
        """Have a notebook executed, where there is room."""

    def hear(self, seconds: float | None = None) -> list[Told]:
        """What happened meanwhile; waits for the first thing, so long at most. None waits on."""

    def close(self) -> None:
        """End what is running, kernels included."""


def execute_job(
    job: Job, watch: NotebookWatch | None = None, stop: threading.Event | None = None
) -> NotebookOutcome:
    """Execute a job's notebook. What cannot be executed is an outcome, too."""
    began = time.monotonic()
    stop = stop or threading.Event()
    try:
        with held(job.lock, stop) if job.lock else nullcontext(True) as is_free:
            if not is_free:
                return NotebookOutcome(job.path, STOPPED, seconds=time.monotonic() - began)
            if job.keeper and not job.keeper.begin():
                return NotebookOutcome(job.path)
            done = execute(
                job.path,
                job.settings,
                timeout=job.timeout,
                watch=watch,
                stop=stop,
                home=job.home,
                asks=job.asks,
            )
            outcome = NotebookOutcome.of(done)
            return job.keeper.end(outcome) if job.keeper else outcome
    except AgentError as error:
        problem = str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return NotebookOutcome(job.path, problem, seconds=time.monotonic() - began)


def find(paths: Iterable[Path], leave_out: Path | None = None) -> Iterator[tuple[Path, str]]:
    """The notebooks that these paths mean, each once, with the name that tells them apart.

    A folder means all notebooks below it, but not checkpoints, and nothing in hidden folders, in
    node_modules, in `leave_out`, or where the notebooks of a list of tasks are written. Links to
    folders are not followed.

    Raises:
        AgentError: A path is missing or no notebook, or a folder has none.
    """
    seen: set[Path] = set()
    for path in paths:
        found = list(_meant(path, leave_out.resolve() if leave_out else None))
        for notebook, name in found:
            if notebook not in seen:
                seen.add(notebook)
                yield notebook, name


def _meant(path: Path, leave_out: Path | None) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        below = sorted(
            files_below(
                path.resolve(),
                "*.ipynb",
                lambda each: each.name not in _NEVER_ENTERED and each != leave_out,
            )
        )
        if not below:
            raise AgentError(f"There is no notebook in {path}.")
        yield from ((each, each.relative_to(path.resolve()).as_posix()) for each in below)
    elif not path.exists():
        raise AgentError(f"There is no notebook {path}.")
    elif path.suffix != ".ipynb":
        raise AgentError(f"{path} is not a notebook. Name files that end in .ipynb, or folders.")
    else:
        yield path.resolve(), path.name
