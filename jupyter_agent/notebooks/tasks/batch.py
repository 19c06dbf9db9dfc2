"""Runs a list of tasks: each when those before it are done, and each to its end once.

Several commands may work at one list. Each takes a task by its claim, looks into the records
again, and only then begins; it waits for the tasks that others have taken. A claim ends with its
process, and the lock under which a notebook is executed ends with its kernel: so who takes over
from a killed command begins when the last kernel of that one is gone. What is done is recorded
under that lock, by the process that executed it: nothing that came to its end is lost or run twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.jobs import (
    Begun,
    CellDone,
    Job,
    NotebookDone,
    NotebookOutcome,
    Told,
    Workers,
)
from jupyter_agent.notebooks.one import STOPPED
from jupyter_agent.notebooks.tasks.keeping import LONGEST, TaskKeeper, numbers_of
from jupyter_agent.notebooks.tasks.listed import ListedTask
from jupyter_agent.notebooks.tasks.prepared import home_of, parts_of, prepared, with_answers
from jupyter_agent.notebooks.tasks.store import TaskNumbers, TaskRecord, TaskStore
from jupyter_agent.session.effective_settings import effective_settings
from jupyter_agent.stores.following import LogFollower

TICK = 0.5
"""Seconds between two looks at the logs and at what other commands did."""
_ASKED = "__import__('jupyter_agent.notebooks.inside', fromlist=['last_turn']).last_turn()"
TaskState = Literal["waiting", "running", "elsewhere", "done", "failed", "skipped", "interrupted"]
_ILL: Mapping[TaskState, str] = {
    "failed": "failed",
    "skipped": "was skipped",
    "interrupted": "was interrupted",
}
ENDED: tuple[TaskState, ...] = ("done", "failed", "skipped", "interrupted")


@dataclass
class TaskProgress:
    """What a task is doing, or what came of it.

    Attributes:
        task: The task.
        state: `elsewhere` is running by another command; `skipped` will not run, since a task
            before it failed.
        now: What it does, the tasks that it waits for, its answer, or why it failed.
        numbers: What it took so far.
        is_earlier: True if it ended before this command.
    """

    task: ListedTask
    state: TaskState = "waiting"
    now: str = ""
    numbers: TaskNumbers = TaskNumbers()
    is_earlier: bool = False

    @property
    def words(self) -> str:
        """The state in words."""
        if self.state == "elsewhere":
            return "running elsewhere"
        return f"{self.state} before" if self.is_earlier else self.state


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How a list is run.

    Attributes:
        mode: Where the replies come from; empty for the configured mode. Records of another mode
            do not count if it is given.
        timeout: The limit in seconds for each cell of a task without one of its own.
        again: True runs all tasks anew.
        retries: True runs those anew that failed.
        stops: True ends the others when one fails.
    """

    mode: str = ""
    timeout: float | None = None
    again: bool = False
    retries: bool = False
    stops: bool = False


@dataclass
class _Running:
    """A task that runs here."""

    job: Job
    release: Callable[[], None]
    began: float
    place: str
    follower: LogFollower | None
    cells: int
    cells_done: int = 0


@dataclass
class TaskBatch:
    """The tasks of a list that are run together.

    Args:
        tasks: The tasks.
        folder: The list's folder.
        store: Where records, claims and notebooks are; it is open.
        options: How they are run.

    Attributes:
        rows: What each task is doing, by its name.
        notes: Lines for the person, which whoever shows them takes out.
    """

    tasks: Sequence[ListedTask]
    folder: Path
    store: TaskStore
    options: TaskOptions = TaskOptions()
    rows: dict[str, TaskProgress] = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {task.name: TaskProgress(task) for task in self.tasks}
        self._notebooks = {task.name: prepared(task) for task in self.tasks}
        self._parts = parts_of(self.tasks, self._notebooks)
        self._running: dict[str, _Running] = {}
        self._followers: dict[Path, LogFollower] = {}
        self._old: dict[str, int] = {}
        """The records of before that do not count, by task and number."""
        self._seen = {name: record.number for name, record in self.store.records().items()}
        self._look_back()

    @property
    def is_over(self) -> bool:
        """True if no task is left that could run."""
        return all(row.state in ENDED for row in self.rows.values())

    def run(self, workers: Workers) -> Generator[list[TaskProgress], None, None]:
        """Run the tasks. Gives the rows that changed their state, at each change and each tick.

        Closing the iterator ends what runs, kernels included, and records it as interrupted.

        Args:
            workers: Who executes the notebooks; closed at the end.

        Raises:
            AgentError: A record cannot be written, or the workers do not answer.
        """
        states = dict.fromkeys(self.rows, ("", False))
        try:
            while True:
                self._look()
                self._begin(workers)
                yield self._changed(states)
                if self.is_over or self._stopped:
                    return
                if workers.is_busy:
                    for told in workers.hear(TICK):
                        self._heard(told)
                else:
                    time.sleep(TICK)
                self._follow()
        finally:
            try:
                workers.close()
            finally:
                self._interrupt([*self._running])

    @property
    def _stopped(self) -> bool:
        failed = (row.state == "failed" and not row.is_earlier for row in self.rows.values())
        return self.options.stops and any(failed)

    def _changed(self, states: dict[str, tuple[str, bool]]) -> list[TaskProgress]:
        now = {name: (row.words, row.is_earlier) for name, row in self.rows.items()}
        changed = [self.rows[name] for name in now if now[name] != states[name]]
        states.update(now)
        # What ended comes first: it let others begin.
        return sorted(changed, key=lambda row: row.state not in ENDED)

    # Before -------------------------------------------------------------------------------------

    def _look_back(self) -> None:
        """Decide which records of earlier commands count, and say which tasks run anew."""
        for name, record in self.store.records().items():
            if name not in self.rows:
                continue
            other = [
                part
                for part, digest in self._parts[name].items()
                if record.parts.get(part) != digest
            ]
            if record.state in ("done", "failed") and other:
                said = " and ".join(_CHANGED[part] for part in other)
                self.notes.append(f"{name} runs anew: {said} changed")
            retried = self.options.retries and record.state == "failed"
            if self.options.again or retried or other or self._is_other_mode(record):
                self._old[name] = record.number

    def _is_other_mode(self, record: TaskRecord) -> bool:
        return bool(self.options.mode) and record.mode != self.options.mode

    def _counts(self, name: str, record: TaskRecord | None) -> bool:
        """True if a record is the outcome of this task as it stands in the list."""
        return (
            record is not None
            and record.state in ("done", "failed")
            and record.parts == self._parts[name]
            and not self._is_other_mode(record)
            and record.number > self._old.get(name, 0)
        )

    # Meanwhile ----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take over what other commands did, and decide what can never run."""
        records = self.store.records()
        for name, row in self.rows.items():
            record = records.get(name)
            if row.state in ("waiting", "elsewhere") and record and self._counts(name, record):
                self._take_over(row, record)
        for _ in self.rows:  # a task after a task after one that failed
            skipped = [row for row in self.rows.values() if self._skip(row)]
            if not skipped:
                break

    def _take_over(self, row: TaskProgress, record: TaskRecord) -> None:
        row.state = "done" if record.state == "done" else "failed"
        row.now, row.numbers = record.words, record.numbers
        row.is_earlier = self._seen.get(row.task.name) == record.number

    def _skip(self, row: TaskProgress) -> bool:
        """Skip a task after one that did not end well. Gives whether it is skipped now."""
        if row.state != "waiting":
            return False
        for name in row.task.after:
            if how := _ILL.get(self.rows[name].state):
                row.state, row.now = "skipped", f"{name} {how}"
                return True
        open_ones = [n for n in row.task.after if self.rows[n].state != "done"]
        row.now = f"waits for {', '.join(open_ones)}" if open_ones else ""
        return False

    def _begin(self, workers: Workers) -> None:
        """Begin as many tasks as there is room for, in the order of the list."""
        ready = [
            row
            for row in self.rows.values()
            if row.state in ("waiting", "elsewhere")
            and all(self.rows[name].state == "done" for name in row.task.after)
        ]
        room = workers.room if ready else 0
        for row in ready:
            if not room:
                return
            release = self.store.claim(row.task.name)
            if release is None:
                row.state, row.now = "elsewhere", ""
            elif self._start(row, release):
                workers.begin(self._running[row.task.name].job)
                room -= 1

    def _start(self, row: TaskProgress, release: Callable[[], None]) -> bool:
        """Begin a claimed task. False, without the claim, if it ended since the last look."""
        name = row.task.name
        running = self._record(name, "running")
        ended = self.store.begin(running, lambda record: self._counts(name, record))
        if ended:
            release()
            self._take_over(row, ended)
            return False
        answers = {other: self.rows[other].now for other in row.task.after}
        notebook = with_answers(self._notebooks[name], answers)
        cells = json.loads(notebook)["cells"]
        home = home_of(row.task, self.folder)
        job = Job(
            path=self.store.notebook(name).resolve(),
            name=name,
            settings={"mode": self.options.mode} if self.options.mode else {},
            timeout=row.task.timeout or self.options.timeout,
            home=home,
            asks=_ASKED,
            lock=self.store.execution_lock(name),
            keeper=TaskKeeper(self.store, running, notebook.encode("utf-8"), len(cells)),
        )
        place, follower = self._followed(home)
        row.state, row.now, row.numbers = "running", "", TaskNumbers()
        self._running[name] = _Running(
            job=job,
            release=release,
            began=time.monotonic(),
            place=place,
            follower=follower,
            cells=sum(cell["cell_type"] == "code" for cell in cells),
        )
        return True

    def _followed(self, home: Path) -> tuple[str, LogFollower | None]:
        """The place of a notebook as its run log calls it, and who reads that log."""
        try:
            found = effective_settings(home.parent, os.environ)
        except AgentError:
            return "", None  # the agent cell says it
        root, home = found.workspace.root, home.resolve()
        place = home.relative_to(root).as_posix() if home.is_relative_to(root) else home.name
        logs = found.workspace.state_folder / "logs"
        follower = self._followers.get(logs) or LogFollower(logs)
        self._followers[logs] = follower
        follower.forget(place)
        return place, follower

    def _follow(self) -> None:
        """See what the running tasks do."""
        for follower in {running.follower for running in self._running.values()}:
            if follower:
                follower.look()
        for name, running in self._running.items():
            row, turn = self.rows[name], None
            if running.follower:
                turn = running.follower.progress(running.place)
            cell = min(running.cells_done + 1, running.cells)
            row.now = (turn.now if turn else "") or (
                f"cell {cell} of {running.cells}" if running.cells_done else ""
            )
            row.numbers = TaskNumbers(
                steps=turn.steps if turn else None,
                tokens=turn.tokens if turn else None,
                seconds=time.monotonic() - running.began,
            )

    def _heard(self, told: Told) -> None:
        running = self._running[told.job.name]
        if isinstance(told, CellDone):
            running.cells_done += 1
        elif isinstance(told, Begun):
            running.cells_done = 0
            self.notes.append(f"{told.job.name} runs again: the process that executed it died")
        elif isinstance(told, NotebookDone):
            self._done(told.job.name, told.outcome)

    # Afterwards ---------------------------------------------------------------------------------

    def _done(self, name: str, outcome: NotebookOutcome) -> None:
        """Take over what was kept of a task, or record why it failed, and let go of it."""
        if outcome.error == STOPPED:  # somebody ended the process that executed it
            self._interrupt([name])
            return
        self._follow()
        running, row = self._running.pop(name), self.rows[name]
        try:
            record = self.store.records().get(name)
            if record and self._counts(name, record):
                self._take_over(row, record)
                return
            known = numbers_of(outcome)
            row.state = "failed"
            row.now = one_line(outcome.error, LONGEST) or "what came of it was not kept"
            row.numbers = replace(
                known,
                steps=row.numbers.steps if known.steps is None else known.steps,
                tokens=row.numbers.tokens if known.tokens is None else known.tokens,
            )
            self.store.add(self._record(name, "failed", row))
        finally:
            running.release()

    def _interrupt(self, names: Sequence[str]) -> None:
        """Record running tasks as interrupted, unless they came to their end meanwhile."""
        for name in names:
            row, running = self.rows[name], self._running.pop(name)
            row.state, row.now = "interrupted", ""
            try:
                interrupted = self._record(name, "interrupted")
                ended = self.store.begin(interrupted, lambda record: self._counts(name, record))  # noqa: B023 (called at once)
                if ended:
                    self._take_over(row, ended)
            except AgentError:
                pass  # the record says `running`, and nobody holds the claim: it means the same
            finally:
                running.release()

    def _record(self, name: str, state: Any, row: TaskProgress | None = None) -> TaskRecord:
        return TaskRecord(
            task=name,
            state=state,
            mode=self.options.mode,
            parts=self._parts[name],
            numbers=row.numbers if row else TaskNumbers(),
            words=row.now if row else "",
        )


_CHANGED: Mapping[str, str] = {
    "task": "its words",
    "inputs": "its inputs",
    "options": "its options",
    "notebook": "its notebook",
    "after": "a task before it",
}
