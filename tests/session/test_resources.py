"""The skills, notes, memory and servers of one session."""

from __future__ import annotations

from pathlib import Path

from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.resources import Resources


def resources(here: Kernel) -> Resources:
    return Resources(here, "default", here.settings().settings)


def test_tools_follow_the_settings(here: Kernel) -> None:
    """What is switched off has no tools."""
    Path("user/memory").mkdir(parents=True)
    found = resources(here)
    every = {tool.name for tool in found.tools(here.settings().settings)}
    assert {"record_note", "recall_notes", "get_skill", "workspace_save_memory"} <= every
    for key in ("enable_notes", "enable_skills", "enable_memory"):
        here.set(f"tools.{key}", "false")
    assert resources(here).tools(here.settings().settings) == []


def test_a_notice_is_told_once(here: Kernel) -> None:
    """Each notice is shown once in a session; `notices` has all of them."""
    folder = Path(".jupyter_agent/skills/mine")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("no front matter\n", encoding="utf-8")
    found = resources(here)
    first = found.untold()
    assert any("mine" in line for line in first), found.notices
    assert found.untold() == []
    assert set(first) <= set(found.notices)


def test_advice_needs_a_memory(here: Kernel) -> None:
    """With memory switched off there is no advice to save."""
    here.set("tools.enable_memory", "false")
    assert resources(here).advice() == ""
    assert resources(here).record is None
