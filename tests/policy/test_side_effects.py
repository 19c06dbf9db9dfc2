"""Side effects that are about to happen: which need a question, and of what kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_agent.core.effects import SideEffect, SideEffectAction
from jupyter_agent.policy import PolicyContext
from jupyter_agent.policy.side_effects import judge_change, judge_effect


def kinds(around: PolicyContext, effect: SideEffect) -> str:
    return " ".join(risk.kind for risk in judge_effect(effect, around))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("JUPYTER_AGENT_APPROVALS__MODE", "agent"),
        ("JUPYTER_CONFIG_DIR", "agent"),
        ("JUPYTER_DATA_DIR", "agent"),
        ("HOME", "agent"),
        ("LD_LIBRARY_PATH", "settings"),
        ("ALL_PROXY", "settings"),
        ("REQUESTS_CA_BUNDLE", "settings"),
        ("OPENAI_BASE_URL", "settings"),
        ("OMP_NUM_THREADS", ""),
        ("HOMEPAGE", ""),
    ],
)
def test_variables(around: PolicyContext, name: str, kind: str) -> None:
    """A variable that steers the agent or other programs asks, each other one does not."""
    assert kinds(around, SideEffect("environment", name)) == kind


@pytest.mark.parametrize(
    ("action", "place", "target", "kind"),
    [
        ("move", "data.csv", "b.csv", "delete"),
        ("move", "seen.csv", "data.csv", "overwrite delete"),
        ("move", "new.csv", "../b.csv", "outside"),
        ("make_folder", "/opt/x", "", "outside"),
        ("make_folder", "data.csv", "", ""),
        ("make_folder", ".vscode", "", "settings"),
        ("make_folder", ".agents/skills", "", "agent"),
        ("delete", "data.csv", "", "delete"),
        ("delete", "nothing.csv", "", ""),
        ("write", "seen.csv", "", ""),
        ("write", "data.csv", "", "overwrite"),
        ("write", "link/x", "", "outside"),
    ],
)
def test_files(
    around: PolicyContext, action: SideEffectAction, place: str, target: str, kind: str
) -> None:
    """Paths are judged as they are: moves, links, folders and archives need no second look."""
    root = around.root
    effect = SideEffect(action, str(root / place), str(root / target) if target else "")
    assert kinds(around, effect) == kind


def test_what_the_agent_made(around: PolicyContext, root: Path) -> None:
    """Its own files may go; a folder only if nothing else is in it."""
    (root / "out").mkdir()
    (root / "out" / "a.csv").touch()
    own = replace(around, made=frozenset({root / "out", root / "out" / "a.csv"}))
    effect = SideEffect("delete", str(root / "out"), is_tree=True)
    assert kinds(own, effect) == ""
    (root / "out" / "mine.csv").touch()
    assert kinds(own, effect) == "delete"


def test_a_file_without_a_name(around: PolicyContext) -> None:
    """`tempfile` opens the folder of temporary files itself: nobody is asked, even for a plan."""
    opened = SideEffect("write", str(around.temporary))
    assert judge_effect(opened, around) == judge_change(opened, around) == ()
    assert kinds(around, SideEffect("write", str(around.temporary.parent / "x"))) == "outside"
