"""`%agent skills`: what it lists, shows, checks and trusts."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.magics.commands import run_line
from jupyter_agent.skills.discovery import Place

Write = Callable[..., Path]


@pytest.fixture
def say(root: Path, where: list[Place]) -> Callable[..., str]:
    notebook = SimpleNamespace(
        skill_places=lambda: where,
        workspace=SimpleNamespace(root=root),
        refuse_while_busy=lambda: None,
    )
    sessions: Any = SimpleNamespace(kernel=notebook)
    return lambda *words: str(run_line(sessions, shlex.join(["skills", *words])))


def test_from_the_first_look_to_trust(say: Callable[..., str], root: Path, write: Write) -> None:
    """A skill of the workspace is listed, looked at, trusted, changed and revoked."""
    folder = write(root / ".agents/skills", "own", **{"scripts/a.py": "x = 1\n"})
    assert "Not used until you trust them" in say() and "\nown  " in say()
    shown = say("own")
    assert shown.startswith("own: .agents/skills/own, not trusted")
    assert "scripts/a.py (6 bytes)" in shown and "Body of own." in shown
    assert "is trusted as it is now" in say("trust", "own")
    assert "Not used" not in say() and "in use already" in say("trust", "own")
    (folder / "scripts/a.py").write_text("x = 2\n")
    assert "Not used until you trust them" in say()
    say("trust", "own")
    assert say("revoke", "own") == "own is no longer trusted."
    assert say("revoke", "own") == "own was not trusted."


def test_hostile_texts_are_inert(say: Callable[..., str], root: Path, write: Write) -> None:
    """Terminal codes and direction marks of a skill do not reach the screen."""
    text = '---\nname: own\ndescription: "a\\e[2J\\u202e"\n---\n\x1b[2Jbody\u202e\n'
    write(root / ".agents/skills", "own", text)
    for said in (say(), say("own"), say("check")):
        assert "\x1b" not in said and "\u202e" not in said


def test_check(say: Callable[..., str], root: Path, write: Write) -> None:
    """Checking a folder says good, warning or error for each skill in it."""
    write(root / "team", "good")
    write(root / "team", "odd", "---\nname: other\ndescription: d\n---\n")
    write(root / "team", "bad", "nothing")
    assert say("check", "team").split("\n") == [
        "bad: error: it does not begin with front matter (a line of three hyphens)",
        "good: good",
        "odd: warning: the name differs from its folder 'odd'",
        "3 checked, 1 cannot be used.",
    ]
    assert say("check", "team/good") == "good: good\n1 checked, 0 cannot be used."
    assert "plotting-well: good" in say("check")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nope",), "There is no skill 'nope'"),
        (("trust",), "Usage: "),
        (("trust", "a", "b"), "Usage: "),
        (("plotting-well", "x"), "Usage: "),
        (("check", "nowhere"), "There is no folder nowhere. Name a folder of skills."),
        (("check", "."), "has a SKILL.md"),
        (("revoke", "plotting-well"), "The workspace has no skill"),
    ],
)
def test_what_is_wrong(say: Callable[..., str], words: tuple[str, ...], why: str) -> None:
    """A wrong command is one line that says what is wrong."""
    with pytest.raises(ConfigError) as caught:
        say(*words)
    assert why in str(caught.value) and "\n" not in str(caught.value)
