"""`jupyter agent record`: a notebook's replies recorded, and the recording proven."""

from __future__ import annotations

import time
from dataclasses import dataclass
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
@click.option("--once", is_flag=True, help="Run the code once only: what varies is not learned.")
@click.option("--strict", is_flag=True, help="Fail where a result varies from run to run.")
@click.option(
    "--prove",
    is_flag=True,
    help="Ask no model: learn what varies in what is recorded, by running its code twice.",
)
@click.option(
    "--keep-outputs",
    is_flag=True,
    help="With --prove: leave the notebook's file alone, and say which outputs are others.",
)
def record(
    paths: tuple[Path, ...],
    provider: str | None,
    model: str | None,
    script: str | None,
    cell: int | None,
    task: str | None,
    timeout: float | None,
    once: bool,
    strict: bool,
    prove: bool,
    keep_outputs: bool,
) -> None:
    """Record the replies of notebooks, and write their outputs.

    Each notebook is executed three times: with the model; from what was recorded, to learn which
    results vary from run to run; and from the new cassette, which must show the same. The folder
    is put back in between. Only then do the new cassette and the outputs take the place of the old
    ones; recorded turns that no cell asks for any more are dropped.

    Exit code: 0 when every notebook was recorded, 1 when one was not, 2 for wrong usage.
    """
    if cell and task:
        raise click.UsageError("--cell and --task exclude each other. Give one of them.")
    if prove and (cell or task or once or provider or model or script):
        raise click.UsageError("--prove takes no option but --strict, --timeout, --keep-outputs.")
    if keep_outputs and not prove:
        raise click.UsageError("--keep-outputs goes with --prove.")
    if once and strict:
        raise click.UsageError(
            "--once and --strict exclude each other: one run shows no variation."
        )
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
            how = _How(settings, cell, task, timeout, once, strict, prove, keep_outputs)
            failed += not _record(path, name, how)
    if failed:
        raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class _How:
    """The options of one recording."""

    settings: dict[str, str]
    cell: int | None
    task: str | None
    timeout: float | None
    once: bool
    strict: bool
    prove: bool
    keep_outputs: bool

    @property
    def runs(self) -> int:
        """How often the notebook is executed."""
        return 1 if self.once else 2 if self.prove else 3


def _record(path: Path, name: str, how: _How) -> bool:
    """Record one notebook and say how it went. Gives whether it was recorded, or had nothing."""
    from jupyter_agent.notebooks import recording
    from jupyter_agent.notebooks.one import read
    from jupyter_agent.source.agent_cells import agent_cells

    began, shown = time.monotonic(), one_line(name, 200)
    with Progress(how.runs * code_cells(path)) as report:

        def tell(line: str) -> None:
            report.doing(f"{shown}: {line}")
            report.line(f"{shown}: {line}")

        watch = NotebookWatch(finished=lambda cell, index: report.advance())
        try:
            notebook = read(path)
            if not agent_cells(notebook):
                report.line(f"{shown}: no agent cell; left as it is")
                return True
            if how.prove:
                done = recording.prove(
                    path,
                    timeout=how.timeout,
                    watch=watch,
                    tell=tell,
                    strict=how.strict,
                    write_outputs=not how.keep_outputs,
                )
            else:
                done = recording.record(
                    path,
                    how.settings,
                    cell=recording.cell_with_task(notebook, how.task) if how.task else how.cell,
                    timeout=how.timeout,
                    watch=watch,
                    tell=tell,
                    once=how.once,
                    strict=how.strict,
                )
        except AgentError as error:
            report.line(f"FAILED {one_line(str(error), 500)}", fg="red")
            return False
        where = ", ".join(each.name for each in done.cassettes)
        seconds = time.monotonic() - began
        turns = count(done.turns, "turn")
        report.line(f"recorded {seconds:.1f} s  {shown}: {turns} in {where}", fg="green")
        for line in done.varying:
            report.line(f"  varies: {one_line(line, 300)}")
        unsteady = [
            f"cell {cell.number} shows something else each time, so that nbval fails on it: "
            f"{cell.words}"
            for cell in done.unsteady
        ]
        for note in (*done.notes, *unsteady):
            report.line(f"         {one_line(note, 300)}", fg="yellow")
        return True
