"""`jupyter agent demo`: the quickstart, executed where anybody can see it happen."""

from __future__ import annotations

import shutil
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from jupyter_agent.errors import AgentError
from jupyter_agent.files.workspace import cassette_of
from jupyter_agent.notebooks import NotebookWatch, execute
from jupyter_agent.notebooks.one import read

DEMO = "01_quickstart.ipynb"
LIVE = (
    "To run it live, with a model that answers by itself:\n"
    "  export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, or for a local server OPENAI_BASE_URL)\n"
    "  make lab                     (or: jupyter lab {notebook})\n"
    "Without a key, on this machine: make demo-local (fetches a small model, 1.1 GB)"
)


@click.command()
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build"),
    show_default=True,
    help="The folder in which the notebook is executed and kept.",
)
@click.option("--live", is_flag=True, help="Ask the configured model instead of the cassette.")
def demo(folder: Path, live: bool) -> None:
    """Execute the quickstart notebook from its cassette: a real kernel, no key, no network."""
    started = time.monotonic()
    try:
        notebook = _copy_example(folder)
        source = _say_that_it_is_live(notebook) if live else _say_what_happens(notebook)
        _execute(notebook, {"mode": "live" if live else "replay"})
    except AgentError as error:
        raise click.ClickException(str(error)) from None
    click.secho(f"\nDone in {time.monotonic() - started:.0f} s. The executed notebook: {notebook}")
    if not live:
        click.echo(f"The replies were replayed ({source}); everything else was real.")
        click.echo(LIVE.format(notebook=notebook))


def _examples() -> Path:
    """The folder of the examples: inside of an installed package, or beside it in a checkout."""
    package = Path(str(files("jupyter_agent")))
    for folder in (package / "examples", package.parent / "example_notebooks"):
        if (folder / DEMO).exists():
            return folder
    raise AgentError(
        "The example notebooks are not part of this installation. Run the demo in a clone of the "
        "repository."
    )


def _copy_example(folder: Path) -> Path:
    examples = _examples()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(examples / "data", folder / "data", dirs_exist_ok=True)
    for name in (DEMO, cassette_of(Path(DEMO)).name):
        shutil.copyfile(examples / name, folder / name)
    return folder / DEMO


def _say_what_happens(notebook: Path) -> str:
    from jupyter_agent.recording.cassette import load

    cassette = load(cassette_of(notebook))
    source = {
        "recorded": f"recorded from {cassette.model}",
        "scripted": "scripted by hand, not recorded from a model",
    }[cassette.source]
    click.secho(f"Executing {notebook} in a real kernel.", bold=True)
    click.echo(f"The model's {cassette.replies} replies are replayed: {source}.")
    click.echo("The agent loop, the tools, the kernel and the data are real.")
    return source


def _say_that_it_is_live(notebook: Path) -> str:
    click.secho(f"Executing {notebook} in a real kernel, with the configured model.", bold=True)
    click.echo(
        "Its answers, and what they cost, are its own. Nobody is asked: risky code is refused."
    )
    return ""


def _execute(path: Path, settings: dict[str, str]) -> None:
    """Run the notebook cell by cell, saying what happens, and save it."""
    import nbformat

    count = sum(cell.cell_type == "code" for cell in read(path).cells)
    number = 0

    def announce(cell: Any, index: int) -> None:
        nonlocal number
        number += 1
        click.secho(f"\n[{number}/{count}] In:", fg="blue", bold=True)
        click.echo(_indented(cell.source))

    def report(cell: Any, index: int) -> None:
        for output in cell.outputs:
            click.secho("    Out:", fg="green")
            click.echo(_indented(_text(output)))

    click.echo("Starting the kernel …")
    # Replayed, it must neither ask a model nor cost anything, whatever is configured.
    timeout = 120 if settings["mode"] == "replay" else None
    execution = execute(path, settings, timeout=timeout, watch=NotebookWatch(announce, report))
    nbformat.write(execution.notebook, path)
    if execution.error:
        raise AgentError(f"A cell failed: {execution.error}")


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    data = output.data
    return str(data.get("text/plain") or f"[{', '.join(data)}]")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip("\n").split("\n"))
