"""Programs that are asked line by line: one JSON line in, one JSON line out.

A peer lives in an environment of its own, stays there for all its runs, and is asked in turn with
the floor. What it prints besides goes to standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent


def serve(run: Callable[[Json], Json]) -> None:
    """Answer each line with what `run` makes of it, until the lines end."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


class Worker:
    """A program that is asked line by line, to be used as a context manager.

    Args:
        python: The interpreter of its environment.
        module: What it runs.
        arguments: The program's arguments.
        log: Where its standard error goes.
    """

    def __init__(self, python: Path, module: str, arguments: Sequence[str], log: Path) -> None:
        self._command = [str(python), "-m", module, *arguments]
        self._log = log

    def __enter__(self) -> Worker:
        environ = {
            **os.environ,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": str(ROOT),
        }
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._stderr = self._log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def kill(self) -> None:
        """End the program at once, from any thread: whoever asks it gets a RuntimeError."""
        self._process.kill()

    def ask(self, **request: object) -> Json:
        """Its answer. Raises RuntimeError with the end of what it said where it ended instead."""
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):  # it has ended, and its log says why
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            raise RuntimeError(f"{' '.join(self._command[1:])} ended:\n{said}")
        answer: Json = json.loads(line)
        return answer
