"""The reference is what the code says now, and all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import click
from docs.blocks import ROOT

from jupyter_agent import config, errors
from jupyter_agent.cli import main as command_line
from jupyter_agent.core import events
from jupyter_agent.magics.commands import COMMANDS

PAGES = ROOT / "docs" / "reference"


def text(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_up_to_date() -> None:
    """`python scripts/make_reference.py` would write the pages as they are, whatever is set."""
    disturbing = {"JUPYTER_AGENT_CONTEXT__DETAIL": "none", "COLUMNS": "40"}
    run = subprocess.run(
        [sys.executable, "scripts/make_reference.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **disturbing},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_everything_is_in_it() -> None:
    """Each setting with its variable, each command, each event and each error has its place."""
    settings, magics = text("settings"), text("magics")
    for key in config.keys():  # noqa: SIM118 (a module, no dictionary)
        assert f"### {key}\n" in settings
        assert f"`JUPYTER_AGENT_{key.upper().replace('.', '__')}`" in settings
    assert [name for name in COMMANDS if f"`%agent {name}" not in magics] == []
    assert [
        e.__name__ for e in get_args(events.Event) if f"### {e.__name__} " not in text("events")
    ] == []
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert [k.__name__ for k in kinds if f"## {k.__name__}\n" not in text("errors")] == []
    assert isinstance(command_line, click.Group)
    missing = [
        n for n in command_line.commands if f"## jupyter agent {n}\n" not in text("commands")
    ]
    assert missing == []
    assert "## edit_cells\n" in text("tools")
    assert "## execute_code\n" in text("tools") and "## workspace_save_memory\n" in text("tools")


def test_events_say_what_they_are() -> None:
    """No event is a name without a sentence."""
    for part in text("events").split("\n### ")[1:]:
        name, _, rest = part.partition("\n\n")
        assert not rest.startswith("|"), name
