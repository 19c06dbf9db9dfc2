"""Notebooks executed by the workers of a Dask cluster.

A notebook goes there by its path, so the workers must see the same file system. When one is done,
its outcome is handed to the scheduler, and that is when it counts as done: a worker that dies
before has its notebook executed again by another one, a worker that dies after does not, although
Dask computes the task anew. Nothing is written by the workers, unless the job has a keeper; who
asked writes, once.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.jobs import (
    Begun,
    Job,
    NotebookDone,
    NotebookOutcome,
    Told,
    execute_job,
)
from jupyter_agent.notebooks.one import STOPPED

CONNECT_TIMEOUT = 15.0
_LOOK_EVERY = 0.5
_LOOK_UP = 0.1
_SECRET = ("api_key", "http.headers", "http.proxy")


def run_on_cluster(jobs: Sequence[Job], address: str) -> Iterator[Told]:
    """Execute notebooks on a cluster, as many at once as its workers have threads.

    Settings of the environment go along, but no keys: those are the workers' own. Closing the
    iterator ends what is running, kernels included.

    Args:
        jobs: The notebooks.
        address: The scheduler's, such as `tcp://10.0.0.1:8786`.

    Raises:
        AgentError: `distributed` is not installed, or no scheduler answers there.
    """
    workers = DaskWorkers(address)
    try:
        for job in jobs:
            workers.begin(job)
            yield Begun(job)
        while workers.is_busy:
            yield from workers.hear()
    finally:
        workers.close()


class DaskWorkers:
    """The workers of a Dask cluster, which execute notebooks.

    Args:
        address: As for `run_on_cluster`.

    Raises:
        AgentError: As `run_on_cluster`.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = _connected(address)
        self._run = uuid.uuid4().hex
        self._jobs: dict[str, Job] = {}
        self._running: dict[str, Any] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()

    @property
    def room(self) -> int:
        """How many threads of the workers have nothing to do for this client.

        Raises:
            AgentError: The scheduler does not answer any more.
        """
        try:
            threads: int = sum(self._client.nthreads().values())
        except Exception as error:  # of Dask's own kinds, and of its transport
            raise AgentError(
                f"The Dask scheduler at {self._address} does not answer any more "
                f"({type(error).__name__}). Start it, and run the same command again."
            ) from None
        return max(0, threads - len(self._running))

    @property
    def is_busy(self) -> bool:
        """True while a notebook that was begun is not done."""
        return bool(self._running)

    def begin(self, job: Job) -> None:
        """Hand a notebook to the scheduler."""
        key = f"jupyter-agent-{self._run}-{len(self._jobs)}"
        there = replace(job, settings={**_shipped(os.environ), **job.settings})
        self._jobs[key] = job
        future = self._client.submit(_task, there, key, key=key, pure=False)
        self._running[key] = future
        future.add_done_callback(self._done.put)

    def hear(self, seconds: float | None = None) -> list[Told]:
        """The notebooks that are done; waits for the first one, so long at most. None waits on."""
        try:
            future = self._done.get(timeout=seconds)
        except Empty:
            return []
        del self._running[future.key]
        job = self._jobs[future.key]
        return [NotebookDone(job, _outcome(self._client, future, job))]

    def close(self) -> None:
        """Cancel what is running, kernels included, and leave the cluster."""
        with self._client:
            self._client.cancel(list(self._running.values()))
            for key in self._jobs:
                _ledger(key, self._client).delete()


def _connected(address: str) -> Any:
    """A client of the scheduler at an address. Raises `AgentError` where there is none."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise AgentError(
            "A Dask cluster needs the package distributed: pip install 'jupyter-agent-magics[dask]'"
        ) from None
    try:
        # What a person is to know of a lost scheduler is said in one line, without tracebacks.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        get_address_host_port(address)  # a client that was given a wrong one takes long to end
        return Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError, ImportError) as error:
        raise AgentError(
            f"No Dask scheduler can be reached at {address} ({type(error).__name__}). "
            "Give its address as the scheduler shows it, for instance tcp://127.0.0.1:8786."
        ) from None


def _task(job: Job, key: str) -> None:
    """What a worker does: execute the notebook, and hand in its outcome."""
    from distributed import get_client, get_worker

    ledger = _ledger(key, get_client())
    with suppress(TimeoutError):
        ledger.get(timeout=_LOOK_UP)
        return  # done already, by a worker that died before it could say so
    stop, over = threading.Event(), threading.Event()
    watching = threading.Thread(target=_stop_unwanted, args=(get_worker(), key, stop, over))
    watching.start()
    try:
        outcome = execute_job(job, stop=stop)
    finally:
        over.set()
        watching.join()
    if outcome.error != STOPPED:
        ledger.set(pickle.dumps(outcome))


def _stop_unwanted(worker: Any, key: str, stop: threading.Event, over: threading.Event) -> None:
    """Stop where nobody wants the task any more: it was cancelled, or who asked for it is gone."""
    while not over.wait(_LOOK_EVERY):
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled" or worker.status.name in ("closing", "closed"):
            stop.set()
            return


def _outcome(client: Any, future: Any, job: Job) -> NotebookOutcome:
    """What came of a notebook, as it was handed in."""
    try:
        future.result()
        handed_in = _ledger(future.key, client).get(timeout=CONNECT_TIMEOUT)
    except Exception as error:
        if future.status in ("cancelled", "lost"):  # with the scheduler
            return NotebookOutcome(job.path, STOPPED)
        # What a worker cannot load, and a notebook that ended one worker after another.
        return NotebookOutcome(job.path, f"{type(error).__name__}: {error}")
    outcome = pickle.loads(handed_in)  # Dask's workers and clients trust each other
    assert isinstance(outcome, NotebookOutcome)
    return outcome


def _ledger(key: str, client: Any) -> Any:
    """Where the scheduler keeps a notebook's outcome."""
    from distributed import Variable

    return Variable(key, client=client)


def _shipped(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of the environment by dotted key, without secrets."""
    keys = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): value
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    return {key: value for key, value in keys.items() if key not in _SECRET}
