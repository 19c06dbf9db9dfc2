"""`jupyter agent init`: settings, rules, a CI workflow and `.gitignore` lines for a repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jupyter_agent.files.workspace import Workspace

BEGIN = "# jupyter_agent: what belongs to one machine"
_ELSEWHERE = frozenset({"workspace_dir"})
"""Settings that a workspace's own file cannot hold."""
_HEAD = """\
# Settings of jupyter_agent for the notebooks in this folder. Each line that is commented out shows
# a default; take the `# ` away to change one. `%agent config` in a notebook lists what is in force.
#
# Keys for model servers do not belong here: set ANTHROPIC_API_KEY or OPENAI_API_KEY where Jupyter
# is started.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One file that is to be there.

    Attributes:
        path: From the folder.
        text: Its content; for a file that is added to, the lines to add.
        what: What it is for.
        adds: Whether lines are added to what is there.
    """

    path: str
    text: str
    what: str
    adds: bool = False


@click.command()
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="[FOLDER]"
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def init(folder: Path, dry_run: bool) -> None:
    """Prepare FOLDER (default: the current one) for notebooks with agent cells.

    Writes .jupyter_agent/config.yaml with every setting as a comment, a file of rules, a workflow
    for GitHub that validates the notebooks, and lines for .gitignore. What is there already is
    left as it is.
    """
    from jupyter_agent.errors import AgentError, ToolError
    from jupyter_agent.files.workspace import Workspace

    workspace = Workspace(folder)
    try:
        for part in parts():
            click.echo(f"{_done(workspace, part, dry_run):<20} {part.path}: {part.what}")
    except (AgentError, ToolError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or folder} cannot be written: {error.strerror}."
        ) from None
    if root := _repository_above(workspace.root):
        click.echo(f"GitHub reads workflows in {root} only: move .github there.")
    if not dry_run:
        click.echo("Next: jupyter agent doctor")


def _repository_above(folder: Path) -> Path | None:
    """The repository that a folder lies in, where the folder is not its root."""
    if (folder / ".git").exists():
        return None
    return next((parent for parent in folder.parents if (parent / ".git").exists()), None)


def parts() -> Iterator[Part]:
    """What a repository needs, in the order in which it is told."""
    templates = files("jupyter_agent.cli") / "templates"

    def template(name: str) -> str:
        return (templates / name).read_text(encoding="utf-8")

    yield Part(".jupyter_agent/config.yaml", config_text(), "settings, all of them as comments")
    yield Part(".jupyter_agent/rules/house.md", template("rules.md"), "rules for the agent")
    workflow = template("notebooks.yml")
    yield Part(".github/workflows/notebooks.yml", workflow, "validates the notebooks on GitHub")
    yield Part(".gitignore", template("gitignore"), "what git leaves alone", adds=True)


def config_text() -> str:
    """Every setting that the file may hold, described, as a comment with its default."""
    import textwrap

    import yaml

    from jupyter_agent import config

    blocks = [_HEAD]
    for key in config.keys():  # noqa: SIM118 (a function of the module)
        if config.is_secret(key) or key in _ELSEWHERE:
            continue
        about = config.describe(key)
        words = textwrap.wrap(f"{about.description} Takes {about.type}.", 96)
        value = yaml.safe_dump({key: about.default}, default_flow_style=False, width=1000).strip()
        blocks.append("\n".join([*(f"## {line}" for line in words), f"# {value}", ""]))
    return "\n".join(blocks)


def _done(workspace: Workspace, part: Part, dry_run: bool) -> str:
    """Write one part, unless it is there, and say what was done."""
    path = workspace.resolve(part.path)
    is_there = os.path.lexists(workspace.root / part.path)
    if part.adds and is_there:
        return _added(path, part.text, dry_run)
    if is_there:
        return "left as it is"
    if not dry_run:
        _write_new(path, part.text.encode("utf-8"))
    return "would be written" if dry_run else "written"


def _added(path: Path, text: str, dry_run: bool) -> str:
    """Put lines at the end of a file, once. What is in it stays, byte for byte."""
    from jupyter_agent.files.atomic import atomic_write

    present = path.read_bytes()
    if BEGIN.encode() in present:
        return "left as it is"
    newline = b"\r\n" if b"\r\n" in present else b"\n"
    gap = b"" if not present else newline if present.endswith(b"\n") else newline * 2
    if not dry_run:
        atomic_write(path, present + gap + text.encode("utf-8").replace(b"\n", newline))
    return "would be added to" if dry_run else "added to"


def _write_new(path: Path, data: bytes) -> None:
    """Make a file that is not there yet, whole or not at all."""
    from jupyter_agent.files.atomic import STATE_FOLDER, atomic_write, private_folder

    if STATE_FOLDER in path.parts:
        private_folder(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, data)
