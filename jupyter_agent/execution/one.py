"""One notebook, executed from top to bottom in a fresh kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.config import ENVIRONMENT_PREFIX
from jupyter_agent.errors import AgentError


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a notebook.

    Attributes:
        path: Where the notebook was read.
        notebook: The notebook with its new outputs, as far as it was executed.
        error: What failed, in one line; empty where every cell ran.
        cell: The number of the cell that failed, counted from 0 over all cells; None without one.
        seconds: How long it took.
    """

    path: Path
    notebook: Any
    error: str
    cell: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Watch:
    """Told as the code cells are executed, with the cell and its number over all cells from 0."""

    started: Callable[[Any, int], None] = lambda cell, index: None
    finished: Callable[[Any, int], None] = lambda cell, index: None


def execute(
    path: Path,
    settings: Mapping[str, str] | None = None,
    *,
    timeout: float | None = None,
    watch: Watch | None = None,
) -> Execution:
    """Execute a notebook in a fresh kernel, in its folder. Nothing is written.

    Args:
        path: The notebook. Its kernel knows it by name, so that the cassette beside it is found.
        settings: By dotted key, in force over the files: `{"mode": "replay"}`.
        timeout: Seconds for one cell; None waits.
        watch: Told as the cells are executed.

    Raises:
        AgentError: The notebook cannot be read, or its kernel cannot be started.
    """
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = read(path)
    watch = watch or Watch()
    current: int | None = None

    def started(cell: Any, cell_index: int) -> None:
        nonlocal current
        current = cell_index
        if cell.cell_type == "code":
            watch.started(cell, cell_index)

    def finished(cell: Any, cell_index: int, execute_reply: Any) -> None:
        watch.finished(cell, cell_index)

    client = NotebookClient(
        notebook,
        timeout=timeout,
        # Kernels warn about each unencrypted connection, also about a local one.
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
        on_cell_start=started,
        on_cell_executed=finished,
        record_timing=False,
    )
    began = time.monotonic()
    error = ""
    try:
        client.execute(env=_environment(path, settings or {}))
    except CellExecutionError as failed:
        error = f"{failed.ename}: {failed.evalue}"
    except CellTimeoutError:
        error = f"the cell took more than {timeout:g} seconds"
    except DeadKernelError:
        error = "the kernel died"
    except NoSuchKernel as missing:
        raise AgentError(
            f"{path.name} wants the kernel {missing.name!r}, which is not installed here."
        ) from None
    failed_at = current if error else None
    return Execution(path, notebook, error, failed_at, time.monotonic() - began)


def read(path: Path) -> Any:
    """A notebook, of any format up to 4, as format 4.

    Raises:
        AgentError: It cannot be read.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise AgentError(f"There is no notebook {path}.") from None
    except OSError as error:
        raise AgentError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception as error:
        # nbformat lets out what its parsers raise: JSON, Unicode and validation errors.
        raise AgentError(f"{path} is not a notebook: {type(error).__name__}.") from None


def _environment(path: Path, settings: Mapping[str, str]) -> dict[str, str]:
    names = {key: f"{ENVIRONMENT_PREFIX}{key.upper().replace('.', '__')}" for key in settings}
    return {
        **os.environ,
        "JPY_SESSION_NAME": str(path.resolve()),
        **{names[key]: value for key, value in settings.items()},
    }
