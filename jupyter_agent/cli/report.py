"""How it goes with many notebooks: a bar in a terminal, lines alone where nobody watches."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.notebooks.jobs import NotebookOutcome

_WORDS = 200


class Progress:
    """Lines about notebooks, and in a terminal a bar below them. A context manager.

    Args:
        total: How many code cells there are in all notebooks.
    """

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.progress import TimeElapsedColumn as Elapsed

            words = TextColumn("{task.description}", markup=False)
            cells = TextColumn("cells", markup=False)
            self._bar = Progress(
                Elapsed(), BarColumn(), MofNCompleteColumn(), cells, words, transient=True
            )
            self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, cells: float = 1) -> None:
        """So many more code cells were executed."""
        if self._bar:
            self._bar.advance(self._bar.task_ids[0], cells)

    def doing(self, words: str) -> None:
        """What is going on now; only where somebody watches."""
        if self._bar:
            self._bar.update(self._bar.task_ids[0], description=one_line(redact(words), 60))

    def line(self, text: str, **style: Any) -> None:
        """One line that stays, without secrets."""
        text = redact(text, secret_values())
        if self._bar:
            self._bar.console.print(_ansi(text, style), highlight=False, soft_wrap=True)
        else:
            click.secho(text, **style)


def _ansi(text: str, style: dict[str, Any]) -> Any:
    from rich.text import Text

    return Text.from_ansi(click.style(text, **style))


def failure(outcome: NotebookOutcome) -> list[str]:
    """What failed, in lines: the cell and its first line, then the error."""
    if not outcome.error:
        return []
    error = one_line(outcome.error, _WORDS)
    if outcome.cell is None:
        return [error]
    return [f"cell {outcome.cell + 1}: {one_line(outcome.source, _WORDS)}", error]


def code_cells(path: Path) -> int:
    """How many code cells a notebook has; none where it cannot be read, which is told later."""
    try:
        cells = json.loads(path.read_bytes())["cells"]
        return sum(cell["cell_type"] == "code" and bool(cell["source"]) for cell in cells)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return 0


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Lets SIGTERM end what runs as Ctrl-C does, so that no kernel is left behind.

    Exits with what a shell expects: 130 after Ctrl-C, 143 after SIGTERM.
    """
    code = 130

    def interrupt(number: int, frame: object) -> None:
        nonlocal code
        code = 128 + number
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted. What was running has ended.", err=True)
        sys.exit(code)
    finally:
        signal.signal(signal.SIGTERM, before)
