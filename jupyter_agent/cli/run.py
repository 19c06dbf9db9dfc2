"""`jupyter agent run`: notebooks executed from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import click

from jupyter_agent.cli.report import Progress, code_cells, ended_by_signals, failure
from jupyter_agent.config import Settings
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.jobs import CellDone, Job, NotebookDone, NotebookOutcome, Told, find

LISTS = (".yaml", ".yml")
"""What the name of a list of tasks ends in."""
MODES = get_args(Settings.model_fields["mode"].annotation)


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="NOTEBOOK|FOLDER|TASKS.yaml...", type=Path
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="Where the replies come from. Without it, the configured mode.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of notebooks executed at once, each in its own process.  [default: 1]",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Execute on the Dask cluster of this scheduler. Its workers must see the notebooks by "
    "the same paths, and use the keys of their own environment.",
)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the executed notebooks into this folder, including those that fail. For a list of "
    "tasks it is TASKS-runs beside the list if nothing is said.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Write the outputs into the notebooks. A notebook that fails stays as it was.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Time limit for one cell, in seconds.  [default: no limit]",
)
@click.option(
    "--stop-at-first-failure", is_flag=True, help="Stop the other notebooks when one fails."
)
@click.option(
    "--retry-failed", is_flag=True, help="Of a list of tasks: run those anew that failed before."
)
@click.option("--again", is_flag=True, help="Of a list of tasks: run all anew.")
def run(
    paths: tuple[Path, ...],
    mode: str | None,
    jobs: int | None,
    scheduler: str | None,
    folder: Path | None,
    in_place: bool,
    timeout: float | None,
    stop_at_first_failure: bool,
    retry_failed: bool,
    again: bool,
) -> None:
    """Execute notebooks, each in a fresh kernel and in its own folder.

    A folder means all notebooks below it. Without --to or --in-place nothing is written back.

    TASKS.yaml is a list of tasks for the agent. Each runs as an agent cell in a notebook of its
    own, after the tasks that it names. The same command goes on where it ended: what is done is
    not run again.

    Exit code: 0 when every notebook ran to its end and every task is done, 1 when one is not, 2 for
    wrong usage or a wrong list, 130 after Ctrl-C, 143 after SIGTERM.
    """
    if folder and in_place:
        raise click.UsageError("--to and --in-place exclude each other. Give one of them.")
    if scheduler and jobs:
        raise click.UsageError(
            "--jobs is for this machine; a cluster runs as many as it can. Leave --jobs out."
        )
    if scheduler is not None and not scheduler.strip():
        raise click.UsageError("--scheduler needs an address, for instance tcp://127.0.0.1:8786.")
    lists = [path for path in paths if path.suffix.lower() in LISTS and not path.is_dir()]
    _refuse_mixture(paths, lists, in_place, retry_failed or again)
    if lists:
        from jupyter_agent.cli.task_list import run_list
        from jupyter_agent.notebooks.tasks.batch import TaskOptions

        options = TaskOptions(
            mode=mode or "",
            timeout=timeout,
            again=again,
            retries=retry_failed,
            stops=stop_at_first_failure,
        )
        run_list(lists[0], folder, options, jobs or 1, scheduler)
        return
    settings = {"mode": mode} if mode else {}
    try:
        named = [Job(p, name, settings, timeout) for p, name in find(paths, leave_out=folder)]
        _refuse_collisions(named, folder)
    except AgentError as error:
        raise click.UsageError(str(error)) from None
    batch = _Batch(named, folder, in_place, stop_at_first_failure)
    with ended_by_signals():
        try:
            batch.run(_told(named, jobs or 1, scheduler))
        except AgentError as error:
            raise click.ClickException(str(error)) from None
    batch.summarize()
    if batch.failed or batch.done < len(named):
        raise SystemExit(1)


def _refuse_mixture(
    paths: Sequence[Path], lists: Sequence[Path], in_place: bool, is_anew: bool
) -> None:
    if lists and len(paths) > 1:
        raise click.UsageError(f"{lists[0]} is a list of tasks, which is run alone. Name it alone.")
    if lists and in_place:
        raise click.UsageError("--in-place is for notebooks; a list of tasks is written to --to.")
    if is_anew and not lists:
        raise click.UsageError("--again and --retry-failed are for a list of tasks (TASKS.yaml).")


def _refuse_collisions(jobs: Sequence[Job], folder: Path | None) -> None:
    if folder is None:
        return
    targets: dict[str, Job] = {}
    for job in jobs:
        other = targets.setdefault(job.name, job)
        if other is not job:
            raise AgentError(
                f"{other.path} and {job.path} would both be written to {folder / job.name}. "
                "Run them one after the other, into two folders."
            )
        if (folder / job.name).resolve() == job.path:
            raise AgentError(f"{job.path} would be replaced by its copy. Use --in-place for that.")


def _told(jobs: Sequence[Job], at_once: int, scheduler: str | None) -> Iterator[Told]:
    if scheduler:
        from jupyter_agent.notebooks.cluster import run_on_cluster

        return run_on_cluster(jobs, scheduler)
    from jupyter_agent.notebooks.processes import run_here

    return run_here(jobs, at_once)


@dataclass
class _Batch:
    """Notebooks that are executed together, and what came of them."""

    jobs: Sequence[Job]
    folder: Path | None
    in_place: bool
    stops: bool
    done: int = 0
    failed: int = 0
    _changed: int = 0
    _began: float = field(default_factory=time.monotonic)
    _originals: Mapping[Path, bytes] = field(default_factory=dict)

    def run(self, told: Iterator[Told]) -> None:
        """Execute them, and say how it goes."""
        if self.folder or self.in_place:
            self._originals = {job.path: _bytes(job.path) for job in self.jobs}
        cells = {job.path: code_cells(job.path) for job in self.jobs}
        open_cells = dict(cells)
        running: list[str] = []
        with Progress(sum(cells.values())) as report, closing(told):  # type: ignore[type-var]
            for each in told:
                name = each.job.name
                if isinstance(each, CellDone):
                    open_cells[each.job.path] -= 1
                    report.advance()
                elif isinstance(each, NotebookDone):
                    report.advance(open_cells[each.job.path])
                    running.remove(name)
                    if not self._tell(report, each) and self.stops:
                        return
                elif name in running:  # its process died
                    report.advance(open_cells[each.job.path] - cells[each.job.path])
                    open_cells[each.job.path] = cells[each.job.path]
                    report.line(f"again      {name}: the process that executed it died")
                else:
                    running.append(name)
                report.doing(", ".join(running))

    def _tell(self, report: Progress, done: NotebookDone) -> bool:
        """One notebook is done: write it where it belongs, and say so. Gives whether it passed."""
        outcome = done.outcome
        self.done += 1
        try:
            self._write(done.job, outcome)
            problems = failure(outcome)
        except AgentError as error:
            problems = [*failure(outcome), one_line(str(error), 200)]
        state, colour = ("FAILED", "red") if problems else ("passed", "green")
        name = one_line(done.job.name, 200)
        place = f"{self.done}/{len(self.jobs)}"
        report.line(f"{state} {outcome.seconds:7.1f} s  {place}  {name}", fg=colour)
        for problem in problems:
            report.line(f"         {problem}")
        self.failed += bool(problems)
        return not problems

    def _write(self, job: Job, outcome: NotebookOutcome) -> None:
        from jupyter_agent.notebooks.writing import write_copy, write_in_place

        if not outcome.document:
            return
        original = self._originals.get(job.path, b"")
        if self.folder:
            write_copy(original, outcome.execution, self.folder / job.name)
        elif self.in_place and not outcome.error:
            self._changed += write_in_place(original, outcome.execution)

    def summarize(self) -> None:
        """What came of it all, in a line or two."""
        passed = self.done - self.failed
        parts = [f"{passed} passed", f"{self.failed} failed"]
        if self.done < len(self.jobs):
            parts.append(f"{len(self.jobs) - self.done} not run to the end")
        notebooks = count(len(self.jobs), "notebook")
        seconds = time.monotonic() - self._began
        click.secho(f"{notebooks} in {seconds:.0f} s: {', '.join(parts)}.", bold=True)
        if self.folder:
            click.echo(f"The executed notebooks are in {self.folder}.")
        elif self.in_place:
            click.echo(f"{self._changed} changed in place.")
        else:
            click.echo("Nothing was written back; --in-place or --to FOLDER does that.")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # told when it is executed
