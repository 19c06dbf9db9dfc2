"""`jupyter agent record`: a notebook's replies recorded, and the recording proven."""

from __future__ import annotations

import time
from pathlib import Path

import click

from jupyter_agent.cli.report import Progress, code_cells, ended_by_signals
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks import NotebookWatch
from jupyter_agent.notebooks.jobs import find

_SCRIPTED = "scripted"


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="NOTEBOOK|FOLDER...", type=Path)
@click.option("--provider", help="The provider to ask. Without it, the configured one.")
@click.option("--model", help="The id of the model to ask. Without it, the configured one.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Record the scripted replies of this YAML file, without a model.",
)
@click.option(
    "--cell",
    type=click.IntRange(min=1),
    metavar="N",
    help="Record only the agent cell with this number, counted from 1 over all cells. The others "
    "are replayed.",
)
@click.option(
    "--task", metavar="WORDS", help="Record only the agent cell whose task contains these words."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Time limit for one cell, in seconds.  [default: no limit]",
)
def record(
    paths: tuple[Path, ...],
    provider: str | None,
    model: str | None,
    script: str | None,
    cell: int | None,
    task: str | None,
    timeout: float | None,
) -> None:
    """Record the replies of notebooks, and write their outputs.

    Each notebook is executed twice: with the model, and from the new recording. If both show the
    same, the new cassette and outputs replace the old ones; otherwise nothing changes. Recorded
    turns that no cell asks for any more are dropped.

    Exit code: 0 when every notebook was recorded, 1 when one was not, 2 for wrong usage.
    """
    if cell and task:
        raise click.UsageError("--cell and --task exclude each other. Give one of them.")
    try:
        named = list(find(paths))
    except AgentError as error:
        raise click.UsageError(str(error)) from None
    if (cell or task) and len(named) > 1:
        raise click.UsageError("--cell and --task are for one notebook. Name only that one.")
    given = {"provider": provider or (_SCRIPTED if script else None), "model": model}
    settings = {key: value for key, value in {**given, "script": script}.items() if value}
    failed = 0
    with ended_by_signals():
        for path, name in named:
            failed += not _record(path, name, settings, cell, task, timeout)
    if failed:
        raise SystemExit(1)


def _record(
    path: Path,
    name: str,
    settings: dict[str, str],
    cell: int | None,
    task: str | None,
    timeout: float | None,
) -> bool:
    """Record one notebook and say how it went. Gives whether it was recorded, or had nothing."""
    from jupyter_agent.notebooks import recording
    from jupyter_agent.notebooks.one import read
    from jupyter_agent.source.agent_cells import agent_cells

    began, shown = time.monotonic(), one_line(name, 200)
    with Progress(2 * code_cells(path)) as report:

        def tell(line: str) -> None:
            report.doing(f"{shown}: {line}")
            report.line(f"{shown}: {line}")

        watch = NotebookWatch(finished=lambda cell, index: report.advance())
        try:
            notebook = read(path)
            if not agent_cells(notebook):
                report.line(f"{shown}: no agent cell; left as it is")
                return True
            number = recording.cell_with_task(notebook, task) if task else cell
            done = recording.record(
                path, settings, cell=number, timeout=timeout, watch=watch, tell=tell
            )
        except AgentError as error:
            report.line(f"FAILED {one_line(str(error), 500)}", fg="red")
            return False
        where = ", ".join(each.name for each in done.cassettes)
        seconds = time.monotonic() - began
        turns = count(done.turns, "turn")
        report.line(f"recorded {seconds:.1f} s  {shown}: {turns} in {where}", fg="green")
        unsteady = [
            f"cell {cell.number} shows something else each time, so that nbval fails on it: "
            f"{cell.words}"
            for cell in done.unsteady
        ]
        for note in (*done.notes, *unsteady):
            report.line(f"         {one_line(note, 300)}", fg="yellow")
        return True
