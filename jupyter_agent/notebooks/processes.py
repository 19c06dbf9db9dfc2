"""Several notebooks at once on this machine, each in a process of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any

from jupyter_agent.notebooks.jobs import (
    Begun,
    CellDone,
    Job,
    NotebookDone,
    NotebookOutcome,
    Told,
    execute_job,
)
from jupyter_agent.notebooks.one import NotebookWatch

ATTEMPTS = 2
"""How often a notebook is begun whose process dies."""
_GRACE = 10.0


def run_here(jobs: Sequence[Job], at_once: int = 1) -> Iterator[Told]:
    """Execute notebooks, so many at once, and tell how it goes.

    A process that is killed takes no other notebook with it: its own is executed again, once.
    Closing the iterator ends what is running, kernels included.

    Args:
        jobs: The notebooks, begun in this order.
        at_once: How many processes execute.
    """
    waiting, workers = list(jobs), Processes(at_once)
    try:
        while waiting or workers.is_busy:
            while waiting and workers.room:
                workers.begin(waiting[0])
                yield Begun(waiting.pop(0))
            yield from workers.hear()
    finally:
        workers.close()


class Processes:
    """Processes of this machine that execute notebooks, each one after another.

    Args:
        at_once: The most processes. They start when they are needed, and stay until `close`.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._workers: dict[Any, _Worker] = {}

    @property
    def room(self) -> int:
        """How many more notebooks could be begun now."""
        return self._at_once - sum(bool(worker.job) for worker in self._workers.values())

    @property
    def is_busy(self) -> bool:
        """True while a notebook that was begun is not done."""
        return any(worker.job for worker in self._workers.values())

    def begin(self, job: Job) -> None:
        """Execute a notebook, where there is room."""
        self._free().give(job, 1)

    def hear(self, seconds: float | None = None) -> list[Told]:
        """What happened meanwhile; waits for the first thing, so long at most. None waits on."""
        told: list[Told] = []
        busy = [pipe for pipe, worker in self._workers.items() if worker.job]
        for pipe in wait(busy, seconds):
            worker = self._workers[pipe]
            job, what = worker.job, worker.hear()
            if worker.is_dead:
                self._workers.pop(pipe).end()
            if worker.is_dead and job and worker.attempt < ATTEMPTS:
                self._free().give(job, worker.attempt + 1)
                told.append(Begun(job))
            elif what:
                told.append(what)
        return told

    def close(self) -> None:
        """End what is running, kernels included."""
        _end_all(self._workers.values())

    def _free(self) -> _Worker:
        """A process that has nothing to do; a new one where all are busy."""
        free = next((worker for worker in self._workers.values() if not worker.job), None)
        if free is None:
            free = _Worker()
            self._workers[free.pipe] = free
        return free


class _Worker:
    """A process that executes one notebook after another, and what came from it.

    Attributes:
        job: What it does; None where it waits.
        attempt: The how manieth time that this notebook is begun.
        is_dead: Whether it ended without being asked to.
    """

    def __init__(self) -> None:
        self.job: Job | None = None
        self.attempt = 0
        self.is_dead = False
        self._kernel = 0
        self._began = 0.0
        spawning = get_context("spawn")
        self.pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends with the process

    def give(self, job: Job, attempt: int) -> None:
        """Let it execute a notebook."""
        self.job, self.attempt = job, attempt
        self._began = time.monotonic()
        with suppress(OSError):  # a process that has just died is heard of
            self.pipe.send(job)

    def hear(self) -> CellDone | NotebookDone | None:
        """The next thing that it tells, where that is of interest."""
        job = self.job
        assert job is not None
        try:
            kind, content = self.pipe.recv()
        except (EOFError, OSError):
            self.is_dead = True
            return NotebookDone(job, self._lost(job))
        if kind == "kernel":
            self._kernel = content
            return None
        if kind == "cell":
            return CellDone(job)
        self.job, self._kernel = None, 0
        return NotebookDone(job, content)

    def ask_to_stop(self) -> None:
        """Let it kill its kernel and end."""
        self._process.terminate()

    def end(self, grace: float = _GRACE) -> None:
        """Wait until it has ended, and see to it. A kernel that it left behind ends, too."""
        self.pipe.close()
        if not self.is_dead:
            self._process.join(grace)
        if self._process.is_alive():
            self._process.kill()
            self.is_dead = True
        self._process.join()
        if self.is_dead:
            self._end_kernel()
        self._process.close()

    def _end_kernel(self) -> None:
        # It would see within a second that its parent is gone, unless it computes without
        # letting other threads run; the notebook's next execution must not meet it.
        if self._kernel and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._kernel, signal.SIGKILL)

    def _lost(self, job: Job) -> NotebookOutcome:
        self._process.join(_GRACE)
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with {code}"
        error = f"the process that executed it {how}, {ATTEMPTS} times"
        return NotebookOutcome(job.path, error, seconds=time.monotonic() - self._began)


def _end_all(workers: Any) -> None:
    workers = list(workers)
    for worker in workers:
        worker.ask_to_stop()
    end = time.monotonic() + _GRACE
    for worker in workers:
        worker.end(max(0.0, end - time.monotonic()))


def _work(pipe: Connection) -> None:
    """What the process does."""
    stop = threading.Event()
    jobs: SimpleQueue[Job | None] = SimpleQueue()

    def end(*signalled: object) -> None:
        stop.set()
        jobs.put(None)

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                jobs.put(pipe.recv())
        end()  # who began this process is done with it, or gone

    # Ctrl-C reaches all processes of a terminal; whoever began this one says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=listen, daemon=True).start()
    watch = NotebookWatch(
        finished=lambda cell, index: pipe.send(("cell", index)),
        kernel=lambda process: pipe.send(("kernel", process)),
    )
    with suppress(BrokenPipeError):
        while not stop.is_set() and (job := jobs.get()):
            pipe.send(("done", execute_job(job, watch, stop)))
