"""One notebook, executed from top to bottom in a fresh kernel."""

from __future__ import annotations

import ast
import asyncio
import atexit
import logging
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError

STOPPED = "stopped before it was done"
_STOP_EVERY = 0.2
_LAST_WORDS = 4096
_TAKEN_PORT = "Address already in use"
_STARTS = 3
"""How often a kernel is started whose port another one took: jupyter_client looks for free ports,
lets go of them, and tells the kernel, so that of many at once two may be told the same."""


@dataclass(frozen=True, slots=True)
class NotebookExecution:
    """What came of a notebook.

    Attributes:
        path: Where the notebook was read.
        notebook: The notebook with its new outputs, as far as it was executed; None where it
            could not even be read.
        error: What failed, in one line; empty where every cell ran.
        cell: The number of the cell that failed, counted from 0 over all cells; None without one.
        seconds: How long it took.
        value: The literal that `asks` gave after the last cell; None without one.
    """

    path: Path
    notebook: Any
    error: str
    cell: int | None
    seconds: float
    value: Any = None


@dataclass(frozen=True, slots=True)
class NotebookWatch:
    """Told as the code cells are executed, with the cell and its number over all cells from 0.

    `kernel` is told the id of the kernel's process, as soon as there is one.
    """

    started: Callable[[Any, int], None] = lambda cell, index: None
    finished: Callable[[Any, int], None] = lambda cell, index: None
    kernel: Callable[[int], None] = lambda process: None


class NotebookKernel:
    """The kernel of a notebook that is being executed, between two of its cells."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def value(self, expression: str) -> Any:
        """The value of an expression that is a literal. Leaves no trace in the kernel's history.

        Raises:
            AgentError: The expression failed, or the kernel's language is not Python.
        """
        message = self._client.kc.execute("", silent=True, user_expressions={"it": expression})
        reply = await self._client.async_wait_for_reply(message)
        found = (reply or {}).get("content", {}).get("user_expressions", {}).get("it", {})
        if found.get("status") != "ok":
            raise AgentError(
                found.get("evalue")
                or "The kernel does not run Python. Choose a Python kernel for the notebook."
            )
        return ast.literal_eval(found["data"]["text/plain"])


Before = Callable[[NotebookKernel, Any, int], Awaitable[None]]
"""Done before each code cell, with the cell and its number over all cells from 0."""


def execute(
    path: Path,
    settings: Mapping[str, str] | None = None,
    *,
    timeout: float | None = None,
    watch: NotebookWatch | None = None,
    before: Before | None = None,
    stop: threading.Event | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    asks: str = "",
) -> NotebookExecution:
    """Execute a notebook in a fresh kernel, in its folder. Nothing is written.

    However this ends, the kernel has ended before.

    Args:
        path: The notebook. Its kernel knows it by name, so that the cassette beside it is found.
        settings: By dotted key, in force over the files: `{"mode": "replay"}`.
        timeout: Seconds for one cell; None waits.
        watch: Told as the cells are executed.
        before: Done before each code cell; what it raises ends the execution and is raised here.
        stop: Set from another thread, or by a signal: the kernel is killed.
        environ: Variables of the environment for the kernel, besides those of this process.
        home: The path at which its kernel is to believe the notebook, and in whose folder it
            runs; there need be no such file. None: `path`.
        asks: An expression for the kernel after the last cell, whose value is a literal.

    Raises:
        AgentError: The notebook cannot be read, or its kernel cannot be started.
    """
    notebook = read(path)
    stop = stop or threading.Event()
    work = _Work(
        path=path,
        notebook=notebook,
        timeout=timeout,
        watch=watch or NotebookWatch(),
        before=before,
        stop=stop,
        folder=(home or path).resolve().parent,
        asks=asks,
    )
    # A thread of its own, because nbclient takes the signals of the main one: an interrupt
    # must end all notebooks, and not look like a kernel that died.
    with ThreadPoolExecutor(1, "notebook") as thread:
        running = thread.submit(
            asyncio.run, work.run(_environment(home or path, settings or {}) | dict(environ or {}))
        )
        try:
            return running.result()
        except BaseException:
            stop.set()
            raise


class _Work:
    """One execution, and how far it is."""

    def __init__(
        self,
        *,
        path: Path,
        notebook: Any,
        timeout: float | None,
        watch: NotebookWatch,
        before: Before | None,
        stop: threading.Event,
        folder: Path,
        asks: str,
    ) -> None:
        self._path = path
        self._notebook = notebook
        self._timeout = timeout
        self._watch = watch
        self._before = before
        self._stop = stop
        self._folder = folder
        self._asks = asks
        self._value: Any = None
        self._is_through = False
        """True when the last code cell was executed without an error: a stop undoes nothing."""
        self._current: int | None = None
        self._began = time.monotonic()

    async def run(self, environment: Mapping[str, str]) -> NotebookExecution:
        for _ in range(_STARTS):
            with tempfile.TemporaryFile() as said:
                error = await self._error(environment, said)
            lost_a_race = self._current is None and _TAKEN_PORT in error
            if not lost_a_race or self._stop.is_set():
                break
        seconds = time.monotonic() - self._began
        return NotebookExecution(
            path=self._path,
            notebook=self._notebook,
            error=error,
            cell=self._current if error else None,
            seconds=seconds,
            value=self._value,
        )

    async def _error(self, environment: Mapping[str, str], said: IO[bytes]) -> str:
        """Execute all cells. Gives what failed, in one line."""
        from jupyter_client.kernelspec import NoSuchKernel
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        try:
            return await self._execute(environment, said)
        except CellExecutionError as failed:
            return f"{failed.ename}: {failed.evalue}".removesuffix(": ")
        except CellTimeoutError:
            return f"the cell took more than {self._timeout:g} seconds"
        except DeadKernelError:
            return f"the kernel died{_last_words(said)}"
        except NoSuchKernel as missing:
            raise AgentError(
                f"{self._path.name} needs the kernel {missing.name!r}, which is not installed here."
            ) from None
        except (RuntimeError, TimeoutError) as error:
            return f"the kernel did not start ({one_line(str(error))}){_last_words(said)}"

    async def _execute(self, environment: Mapping[str, str], said: IO[bytes]) -> str:
        client = self._client()
        manager = client.km
        work = asyncio.ensure_future(
            client.async_execute(env=dict(environment), stdout=said, stderr=said)
        )
        stopped = asyncio.ensure_future(_wait_for(self._stop))
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return ""
            client.shutdown_kernel = "immediate"
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work
            return "" if self._is_through else STOPPED
        finally:
            stopped.cancel()
            # nbclient forgets this for a kernel that did not start, and fails when Python ends.
            atexit.unregister(client._cleanup_kernel)
            if manager.has_kernel:  # cut off before nbclient felt responsible for it
                await manager.shutdown_kernel(now=True)

    def _client(self) -> Any:
        from nbclient import NotebookClient

        quiet = logging.getLogger(__name__)
        quiet.addHandler(logging.NullHandler())
        client = NotebookClient(
            self._notebook,
            timeout_func=lambda cell: self._timeout,
            # Kernels warn about each unencrypted connection, also about a local one.
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(self._folder)}},
            record_timing=False,
            log=quiet,
        )

        manager: Any = client.create_kernel_manager()

        async def started(cell: Any, cell_index: int) -> None:
            self._current = cell_index
            if cell.cell_type == "code":
                self._watch.started(cell, cell_index)
                if self._before:
                    await self._before(NotebookKernel(client), cell, cell_index)

        async def finished(cell: Any, cell_index: int, execute_reply: Any) -> None:
            self._watch.finished(cell, cell_index)
            is_last = not any(c.cell_type == "code" for c in self._notebook.cells[cell_index + 1 :])
            if is_last and execute_reply["content"]["status"] == "ok":
                if self._asks:
                    self._value = await NotebookKernel(client).value(self._asks)
                self._is_through = True

        def ready(notebook: Any) -> None:
            process = getattr(manager.provisioner, "pid", None)
            if process:  # a kernel of another machine has none here
                self._watch.kernel(process)

        client.on_cell_start, client.on_notebook_start = started, ready
        client.on_cell_executed = finished
        return client


def read(path: Path) -> Any:
    """A notebook, of any format up to 4, as format 4.

    Raises:
        AgentError: It cannot be read.
    """
    import nbformat

    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise AgentError(f"{path} is not a file.")
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise AgentError(f"There is no notebook {path}.") from None
    except OSError as error:
        raise AgentError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception as error:
        # nbformat lets out what its parsers raise: JSON, Unicode and validation errors.
        raise AgentError(f"{path} is not a notebook: {type(error).__name__}.") from None


def environment_name(key: str) -> str:
    """The variable of the environment that sets a dotted key."""
    return f"{ENVIRONMENT_PREFIX}{key.upper().replace('.', '__')}"


async def _wait_for(stop: threading.Event) -> None:
    while not stop.is_set():  # noqa: ASYNC110 (set from a signal handler)
        await asyncio.sleep(_STOP_EVERY)


def _last_words(said: IO[bytes]) -> str:
    """The last line that the kernel's process wrote where no cell shows it."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_WORDS))
    lines = said.read().decode("utf-8", "replace").split("\n")
    last = next((one_line(line, 200) for line in reversed(lines) if line.strip()), "")
    return f": {last}" if last else ""


def _environment(path: Path, settings: Mapping[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "JPY_SESSION_NAME": str(path.resolve()),
        **{environment_name(key): value for key, value in settings.items()},
    }
