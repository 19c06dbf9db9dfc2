"""Processes that are asked line by line, within a time, and started again after they ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.line import Json, Worker


class Ended(Exception):
    """The process ended instead of answering.

    Attributes:
        late: True if it was ended because its time was over.
    """

    def __init__(self, message: str, late: bool) -> None:
        super().__init__(message)
        self.late = late


class TimedWorker:
    """A `Worker` that starts with the first question and is replaced once it has ended.

    Args:
        python: The interpreter of its environment.
        module: The module that answers by `benchmarks.line.serve`.
        arguments: Its arguments.
        log: The file for its standard error.
    """

    def __init__(self, python: Path, module: str, arguments: Sequence[str], log: Path) -> None:
        self._made = (python, module, arguments, log)
        self._worker: Worker | None = None

    def ask(self, seconds: float, **request: object) -> Json:
        """The answer to a question.

        Raises:
            Ended: The process ended, or did not answer within `seconds`.
        """
        if self._worker is None:
            self._worker = Worker(*self._made).__enter__()
        late = threading.Event()

        def end(worker: Worker) -> None:
            late.set()
            worker.kill()

        timer = threading.Timer(seconds, end, [self._worker])
        timer.start()
        try:
            return self._worker.ask(**request)
        except (RuntimeError, ValueError) as error:
            self.close()
            if late.is_set():
                raise Ended(f"no answer within {seconds:g} s", late=True) from None
            lines = str(error).strip().splitlines() or ["it ended"]
            raise Ended(lines[-1], late=False) from None
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            with suppress(OSError):
                self._worker.__exit__()
            self._worker = None
