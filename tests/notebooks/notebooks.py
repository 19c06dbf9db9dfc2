"""Small notebooks in files, the command line in a process of its own, and who is still alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
_CLEANED = ("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_", "JPY_", "PYTEST_")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
HOLDING = """
import os, time
from pathlib import Path
place = Path("begun") / f"{name} {os.getpid()} {os.getppid()}"
place.touch()
while Path("hold").exists():
    time.sleep(0.05)
"""
"""A cell that says who executes it, and goes on when the file `hold` is gone."""
COMPLETING = 'done = Path("completed") / f"{name} {os.getpid()}"\ndone.touch()'


def environment(home: Path, **more: str) -> dict[str, str]:
    """No keys, no settings of ours, and a home without configuration."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_CLEANED)}
    home.mkdir(exist_ok=True)
    places = {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "jupyter")}
    return {**kept, **places, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **more}


def write(path: Path, *cells: str, **metadata: Any) -> Path:
    """A notebook of code cells; one that begins with `# ` is a heading."""
    made = [
        {"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": source}
        if source.startswith("# ")
        else {
            "cell_type": "code",
            "execution_count": None,
            "id": f"c{number}",
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(cells)
    ]
    notebook = {
        "cells": made,
        "metadata": metadata or {"kernelspec": KERNELSPEC},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    return path


def write_holding(folder: Path, *names: str) -> None:
    """Notebooks that wait for the file `hold` to go, and note in `completed` that they are done."""
    for sub in ("begun", "completed"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    (folder / "hold").touch()
    for name in names:
        write(folder / f"{name}.ipynb", f"name = {name!r}\n{HOLDING}", COMPLETING)


def begun(folder: Path) -> list[tuple[str, int, int]]:
    """The notebooks that were begun: name, kernel, the process that executes it."""
    found = [place.name.split() for place in (folder / "begun").iterdir()]
    return [(name, int(kernel), int(parent)) for name, kernel, parent in found]


def completed(folder: Path) -> list[str]:
    """The notebooks that ran to their end, each as often as it did."""
    return sorted(place.name.split()[0] for place in (folder / "completed").iterdir())


def script(path: Path, *turns: tuple[str, Sequence[dict[str, Any]]]) -> Path:
    """A script of the scripted provider: tasks and their replies."""
    listed = [{"task": task, "replies": list(replies)} for task, replies in turns]
    path.write_text(yaml.safe_dump(listed, allow_unicode=True), encoding="utf-8")
    return path


@contextmanager
def started(*arguments: str, cwd: Path, home: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A `jupyter agent` command that runs, in a process group of its own. It ends in any case."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "jupyter_agent.cli", *arguments],
        cwd=cwd,
        env=environment(home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as command:
        try:
            yield command
        finally:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)


def finish(command: subprocess.Popen[str], timeout: float = 120) -> tuple[int, str]:
    """Wait for a command: its exit code, and all that it said."""
    said, errors = command.communicate(timeout=timeout)
    assert "Traceback" not in said + errors, said + errors
    return command.returncode, said + errors


def agent(*arguments: str, cwd: Path, home: Path, **more: str) -> tuple[int, str]:
    """Run a `jupyter agent` command to its end."""
    with started(*arguments, cwd=cwd, home=home, **more) as command:
        return finish(command)


def wait_until(condition: Callable[[], object], what: str, timeout: float = 60) -> None:
    """Wait until something holds. Raises TimeoutError where it does not."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:g} s until {what}")
        time.sleep(0.05)


def wait_until_gone(process: int) -> None:
    """Wait until a process has ended. Raises TimeoutError where it goes on."""

    def is_gone() -> bool:
        try:
            return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(is_gone, f"process {process} ends", 30)
