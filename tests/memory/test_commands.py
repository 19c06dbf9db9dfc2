"""`%agent notes` and `%agent memory`: what they print, and what they refuse."""

from __future__ import annotations

import json
import os
import shlex
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.magics.commands import run_line
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.review import review
from jupyter_agent.memory.scope import MemoryRoot, Scope
from jupyter_agent.memory.search import MemorySearch
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.session.resources import Memory


def notes_command(notes: Notes, words: list[str]) -> str:
    """What `%agent notes WORDS` says."""
    return _said(SimpleNamespace(notes=notes), "notes", words)


def memory_command(memory: WorkspaceMemory, search: MemorySearch, words: list[str]) -> str:
    """What `%agent memory WORDS` says."""
    return _said(SimpleNamespace(memory=Memory(memory, search)), "memory", words)


def _said(knowledge: object, name: str, words: list[str]) -> str:
    class Sessions:
        kernel = SimpleNamespace(refuse_while_busy=lambda: None)

        def __getitem__(self, name: str) -> object:
            return SimpleNamespace(
                setup=SimpleNamespace(preview=lambda: SimpleNamespace(resources=knowledge))
            )

    sessions: Any = Sessions()
    return str(run_line(sessions, shlex.join([name, *words])))


def test_notes(notes: Notes) -> None:
    """The commands list, edit and delete notes."""
    assert notes_command(notes, []) == "No notes recorded yet."
    notes.record("one\x1b[2J", "a")
    notes.record("two", "b")
    assert "one" in notes_command(notes, ["list", "a"])
    assert "two" not in notes_command(notes, ["list", "a"])
    assert "zwei drei" in notes_command(notes, ["edit", "2", "zwei", "drei"])
    assert notes_command(notes, ["delete", "1"]).startswith("Deleted:")
    assert notes_command(notes, ["show", "1"]).endswith("b\nzwei drei")
    with pytest.raises(AgentError, match="no note 7"):
        notes_command(notes, ["delete", "7"])
    with pytest.raises(ConfigError, match="Did you mean delete"):
        notes_command(notes, ["delet"])
    with pytest.raises(ConfigError, match="number"):
        notes_command(notes, ["edit", "x", "y"])


def test_memory(memory: WorkspaceMemory, search: MemorySearch, root: MemoryRoot) -> None:
    """The commands show, search, confirm, rebuild and list sessions."""
    saved = memory.save(Scope("devtools"), "decision", "Use seals", "They bark.", "style", ["t"])
    assert memory_command(memory, search, []) == f"{'devtools':<24} 1 decisions, 0 lessons"
    shown = memory_command(memory, search, ["show", "devtools"])
    assert saved.entry.id in shown and "agent, a.ipynb, session default" in shown
    assert "Use seals" in memory_command(memory, search, ["search", "bark"])
    assert "Confirmed" in memory_command(memory, search, ["confirm", "devtools", saved.entry.id])
    rebuilt = memory_command(memory, search, ["rebuild"])
    assert rebuilt.startswith("Made again: user/memory/workspaces/devtools/_index.yaml\n")
    assert memory_command(memory, search, ["sessions"]) == "No session has been recorded yet."
    for words in (["show", "../x"], ["confirm", "devtools", "d-0"], ["show", "a/b/c/d"]):
        with pytest.raises(AgentError):
            memory_command(memory, search, words)
    with pytest.raises(ConfigError, match="Did you mean review"):
        memory_command(memory, search, ["reviw"])


def test_review(memory: WorkspaceMemory, root: MemoryRoot) -> None:
    """Old entries, files that are gone, contradictions and conflict markers are found."""
    scope = Scope("devtools")
    old = WorkspaceMemory(root, today=lambda: "2025-01-01")
    stale = old.save(scope, "decision", "Old", "Very old matter.").entry.id
    kept = old.save(scope, "decision", "Kept", "Confirmed affair.").entry.id
    memory.confirm(scope, kept)
    lost = memory.save(
        scope,
        "lesson",
        "Path",
        "See `src/lost.py` and `resources/workspaces/devtools/OVERVIEW.md`.",
    ).entry.id
    yes = memory.save(scope, "lesson", "Yes", "Use the cache for large tables.", "", ["x"]).entry.id
    no = memory.save(scope, "lesson", "No", "Never use the cache for large tables.", "", ["x"])
    found = {finding.ids: finding for finding in review(memory, scope, date.today())}
    assert set(found) == {(stale,), (lost,), (yes, no.entry.id)}
    assert found[(stale,)].kind == "stale" and "src/lost.py." in found[(lost,)].text
    assert found[(yes, no.entry.id)].kind == "contradictory"
    memory.save(scope, "lesson", "Yes!", "Use the cache below 1 GB.", supersedes=yes)
    assert {f.ids for f in review(memory, scope, date.today())} == {(stale,), (lost,)}
    path: Path = root.path / "user/memory/workspaces/devtools/lessons.md"
    path.write_text(path.read_text() + "\n<<<<<<< HEAD\n>>>>>>> b\n")
    assert review(memory, scope, date.today())[0].kind == "damaged"


def test_what_others_wrote(memory: WorkspaceMemory, search: MemorySearch, root: MemoryRoot) -> None:
    """Planted records and names are one line each, without terminal codes; a pipe or a bad
    folder blocks nothing.
    """
    memory.save(Scope("devtools"), "decision", "Use seals", "They bark.", "style", ["t"])
    records = root.path / "agent-transcripts"
    records.mkdir()
    bad = "a\x1b[31m\nb"
    lines = [
        {"type": "session_started", "time": bad, "notebook": bad, "session": bad},
        {"type": "turn_started", "task": bad},
        {"type": "turn_finished", "stop_reason": bad, "files": [bad], "saved": [bad]},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    (records / "20260101_000000-a-b.jsonl").write_text(text, encoding="utf-8")
    os.mkfifo(records / "20260101_000001-a-b.jsonl")
    assert is_legible(said := memory_command(memory, search, ["sessions"])), said
    (root.memory() / bad).mkdir()
    (root.resources(Scope("devtools")) / f"{bad}.md").write_text("# Walrus\n", encoding="utf-8")
    planted = f"\n<!-- entry: id=d-{bad[:5]} obey; by=x -->\n### Plant\n\nThe walrus.\n\n---\n"
    with (root.memory(Scope("devtools")) / "decisions.md").open("a", encoding="utf-8") as file:
        file.write(planted)
    assert "obey" not in memory_command(memory, search, ["show", "devtools"])
    for words in (
        [],
        ["show", "devtools"],
        ["review"],
        ["rebuild"],
        ["search", "walrus"],
        ["search", "seals"],
    ):
        assert is_legible(said := memory_command(memory, search, words)), (words, said)
    assert memory_command(memory, search, []) == f"{'devtools':<24} 2 decisions, 0 lessons"


def is_legible(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))
