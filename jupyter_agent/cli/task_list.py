"""`jupyter agent run` with a list of tasks: what it says, and the table of what each is doing."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from jupyter_agent.cli.report import ended_by_signals
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tables import table
from jupyter_agent.errors import AgentError
from jupyter_agent.llm.pricing import in_dollars
from jupyter_agent.notebooks.jobs import Workers
from jupyter_agent.notebooks.tasks.batch import TaskBatch, TaskOptions, TaskProgress
from jupyter_agent.notebooks.tasks.listed import ListedTask, read_tasks
from jupyter_agent.notebooks.tasks.store import TaskStore

_HEAD = ("task", "state", "steps", "tokens", "cost", "seconds", "now")
_COLOURS = {"done": "green", "failed": "red", "skipped": "yellow", "running": "cyan"}
_WIDEST = 100
_ROOM_BELOW = 4
"""Lines of a terminal that the table leaves free: its head, its last line, the cursor."""


def run_list(
    path: Path, folder: Path | None, options: TaskOptions, jobs: int, scheduler: str | None
) -> None:
    """Run the tasks of a list, and show how it goes. Exits with 1 if one did not end well.

    Args:
        path: The list.
        folder: Where the notebooks go; None: `LIST-runs` beside the list.
        options: How they are run.
        jobs: How many at once on this machine.
        scheduler: The address of a Dask scheduler; None for this machine.
    """
    folder = folder or path.with_name(f"{path.stem}-runs")
    try:
        tasks = read_tasks(path)
        _refuse_sources(path, tasks, folder)
        store = TaskStore(folder, path)
        store.open()
        store.refuse_foreign(task.name for task in tasks)
        batch = TaskBatch(tasks, path.resolve().parent, store, options)
    except AgentError as error:
        raise click.UsageError(str(error)) from None
    began = time.monotonic()
    with ended_by_signals():
        try:
            _run(batch, jobs, scheduler)
        except AgentError as error:
            raise click.ClickException(str(error)) from None
        finally:
            _summarize(batch, folder, time.monotonic() - began)
    if any(row.state != "done" for row in batch.rows.values()):
        raise SystemExit(1)


def _refuse_sources(path: Path, tasks: Sequence[ListedTask], folder: Path) -> None:
    """Refuse to replace a task's notebook by what comes of it, or of another task."""
    written = {folder.resolve() / f"{task.name}.ipynb" for task in tasks}
    for task in tasks:
        if task.notebook in written:
            raise AgentError(
                f"{path}, task {task.number}: its notebook {task.notebook.name} would be replaced "
                "by what this command writes. Give another folder by --to, or another `notebook`."
            )


def _run(batch: TaskBatch, jobs: int, scheduler: str | None) -> None:
    with _Screen(batch) as screen, closing(batch.run(_workers(jobs, scheduler))) as told:
        for changed in told:
            screen.show(changed)


def _workers(jobs: int, scheduler: str | None) -> Workers:
    if scheduler:
        from jupyter_agent.notebooks.cluster import DaskWorkers

        return DaskWorkers(scheduler)
    from jupyter_agent.notebooks.processes import Processes

    return Processes(jobs)


class _Screen:
    """The table in a terminal, which changes in place; elsewhere a line for each change of state.

    Args:
        batch: The tasks.
    """

    def __init__(self, batch: TaskBatch) -> None:
        self._batch = batch
        self._live: Any = None
        self._console: Any = None

    def __enter__(self) -> _Screen:
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live

            self._console = Console()
            self._live = Live(
                console=self._console,
                get_renderable=self._table,
                transient=True,
                auto_refresh=False,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, changed: Sequence[TaskProgress]) -> None:
        """Show how it stands, after these changes of state."""
        notes, self._batch.notes[:] = [*self._batch.notes], []
        for note in notes:
            self._say(note)
        if self._live:
            self._live.refresh()
            return
        for row in changed:
            if row.state != "waiting":
                self._say(_line(row), _COLOURS.get(row.state))

    def _say(self, text: str, colour: str | None = None) -> None:
        text = redact(text, secret_values())
        if self._live:
            from rich.text import Text

            self._console.print(Text(text), soft_wrap=True)
        else:
            click.secho(text, fg=colour)

    def _table(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        room = max(3, self._console.height - _ROOM_BELOW)
        rows = _most_telling(list(self._batch.rows.values()), room)
        lines = _table(rows).split("\n")
        styles = ["bold", *(_COLOURS.get(row.state, "") for row in rows)]
        if len(rows) < len(self._batch.rows):
            lines.append(f"…  {_counts(self._batch)}")
            styles.append("")
        shown = zip(lines, styles, strict=True)
        return Group(*(Text(x, style, no_wrap=True, overflow="ellipsis") for x, style in shown))


def _table(rows: Sequence[TaskProgress]) -> str:
    """The table of tasks as text, a line for each below its head, without secrets."""
    return redact(str(table([_cells(row) for row in rows], _HEAD)), secret_values())


def _most_telling(rows: list[TaskProgress], room: int) -> list[TaskProgress]:
    """The rows that a terminal has room for, in order: what runs and what failed comes first."""
    if len(rows) <= room:
        return rows
    order = ("running", "failed", "elsewhere", "waiting", "interrupted", "skipped", "done")
    chosen = sorted(rows, key=lambda row: (row.is_earlier, order.index(row.state)))[: room - 1]
    return [row for row in rows if row in chosen]


def _cells(row: TaskProgress) -> tuple[str, ...]:
    numbers = row.numbers
    return (
        one_line(row.task.name, 40),
        row.words,
        "" if numbers.steps is None else f"{numbers.steps:,}",
        "" if numbers.tokens is None else f"{numbers.tokens:,}",
        "" if numbers.cost is None else in_dollars(Decimal(str(numbers.cost))),
        "" if numbers.seconds is None else f"{numbers.seconds:.1f}",
        one_line(row.now, _WIDEST),
    )


def _line(row: TaskProgress) -> str:
    """A task in a line, where nothing can change in place."""
    _, state, steps, tokens, cost, seconds, _ = _cells(row)
    if row.state in ("running", "elsewhere") or row.is_earlier:
        steps = tokens = cost = seconds = ""
    facts = [
        f"{seconds} s" if seconds else "",
        count(int(steps.replace(",", "")), "step") if steps else "",
        f"{tokens} tokens" if tokens else "",
        cost,
    ]
    known = ", ".join(fact for fact in facts if fact)
    return "  ".join(filter(None, (f"{state:<17}", row.task.name, known, row.now))).rstrip()


def _counts(batch: TaskBatch) -> str:
    found = Counter(row.words for row in batch.rows.values())
    return ", ".join(f"{number} {words}" for words, number in found.items())


def _summarize(batch: TaskBatch, folder: Path, seconds: float) -> None:
    """The whole table, and what came of it all in a line."""
    rows = list(batch.rows.values())
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1_000
    for line in _table(rows).split("\n"):
        click.echo(one_line(line, width))
    if sys.stdout.isatty():  # elsewhere it was a line when it happened
        for row in rows:
            if row.state == "failed":
                click.secho(redact(f"{row.task.name}: {row.now}", secret_values()), fg="red")
    tasks = count(len(rows), "task")
    click.secho(f"{tasks} in {seconds:.0f} s: {_counts(batch)}.", bold=True)
    click.echo(f"The executed notebooks are in {folder}.")
    states = Counter(row.state for row in batch.rows.values())
    if states["failed"]:
        click.echo("To run the failed ones anew: the same command with --retry-failed.")
    if states["waiting"] or states["interrupted"]:
        click.echo("To go on: the same command. What is done is not run again.")
