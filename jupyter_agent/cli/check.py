"""`jupyter agent check`: whether notebooks with agent cells are recorded, replayable and clean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jupyter_agent.notebooks.check.findings import Checked, CheckReport

_FORMS = ("text", "github", "json", "junit")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--replay/--no-replay",
    default=True,
    help="Execute the notebooks and compare their outputs, or only read them.",
)
@click.option("--format", "form", type=click.Choice(_FORMS), default="text", show_default=True)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to this file, and show it as text in the terminal.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=1, help="Number of notebooks executed at once."
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=600.0,
    help="Time limit for one cell, in seconds.",
)
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
@click.option(
    "--allow",
    multiple=True,
    metavar="TEXT",
    help="Allow paths and names that contain TEXT in outputs and cassettes. Repeatable.",
)
def check(
    paths: tuple[Path, ...],
    replay: bool,
    form: str,
    output: Path | None,
    jobs: int,
    timeout: float,
    strict: bool,
    allow: tuple[str, ...],
) -> None:
    """Check notebooks with agent cells, and those in folders (default: the current one).

    Each agent cell must have a recording, its replay must show the saved outputs, and outputs and
    cassettes must not contain secrets or names and paths of one machine. No model is asked, and
    neither notebooks nor cassettes are written.

    Exit codes: 0 all is well, 1 something was found, 2 the command was not understood.
    """
    from jupyter_agent.errors import ConfigError
    from jupyter_agent.notebooks.check import reports
    from jupyter_agent.notebooks.check.check import CheckOptions, check

    spoken = form == "text" or output is not None

    def tell(checked: Checked) -> None:
        if spoken:
            click.echo(reports.notebook_text(checked))

    try:
        report = check(paths or (Path(),), CheckOptions(replay, timeout, jobs, allow, tell))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if spoken:
        click.echo(reports.ending(report))
    text = reports.as_junit(report, strict) if form == "junit" else reports.FORMS[form](report)
    if output is not None:
        _write(output, text)
    elif not spoken:
        click.echo(text)
    _summarize(report)
    raise SystemExit(1 if report.errors or (strict and report.warnings) else 0)


def _write(path: Path, text: str) -> None:
    from jupyter_agent.files.atomic import atomic_write

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, f"{text}\n".encode("utf-8", "replace"))
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}.") from None


def _summarize(report: CheckReport) -> None:
    """Add to the page of a job on GitHub, which gives the file for it."""
    from jupyter_agent.notebooks.check import reports

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8", errors="replace") as page:
            page.write(reports.as_summary(report))
    except OSError as error:
        click.echo(f"The job's summary cannot be written: {error.strerror}.", err=True)
