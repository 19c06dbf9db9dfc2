"""`jupyter agent doctor`: what is in place, what is not, and what to do about it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jupyter_agent.notebooks.doctor.examined import Examined

_MARKS = {"ok": ("ok", "green"), "note": ("-", None), "warning": ("warn", "yellow")}
_PROBLEM = ("FAIL", "red")


@click.command()
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    metavar="[FOLDER]",
)
@click.option("--offline", is_flag=True, help="Contact no model server and start no MCP server.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, for programs.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the model's server.",
)
def doctor(folder: Path, offline: bool, as_json: bool, timeout: float) -> None:
    """Check the installation and the setup for notebooks in FOLDER (default: the current one).

    Looks at versions, keys (never shown), the model's server, the kernel, the front end, MCP
    servers, permissions, git and cassettes. Exit codes: 0 no problems, but perhaps warnings;
    1 problems.
    """
    from jupyter_agent.notebooks.doctor.doctor import examine

    found: list[Examined] = []
    topic = ""
    for one in examine(folder, os.environ, offline=offline, timeout=timeout):
        found.append(one)
        if not as_json:
            if one.topic != topic:
                topic = one.topic
                click.secho(f"\n{topic}", bold=True)
            _tell(one)
    problems = sum(one.state == "problem" for one in found)
    warnings = sum(one.state == "warning" for one in found)
    if as_json:
        report = {"problems": problems, "warnings": warnings, "found": [asdict(o) for o in found]}
        click.echo(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        click.echo(f"\n{_count(problems, 'problem')}, {_count(warnings, 'warning')}.")
    raise SystemExit(1 if problems else 0)


def _tell(one: Examined) -> None:
    mark, colour = _MARKS.get(one.state, _PROBLEM)
    click.echo(f"  {click.style(f'{mark:<5}', fg=colour)} {one.name}: {one.text}")
    if one.remedy:
        click.echo(f"        {one.remedy}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
