"""Eight processes at once, writers that are killed, and ten thousand entries."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from generated import examples
from pace import processor_seconds

from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.context import Contexts
from jupyter_agent.memory.entries import MemoryEntry, written
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.scope import Scope, find_root
from jupyter_agent.memory.search import MemorySearch
from jupyter_agent.memory.store import WorkspaceMemory

WRITER = """
import sys, pathlib
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.scope import Scope, find_root
from jupyter_agent.memory.store import WorkspaceMemory

workspace, who, count = Workspace(pathlib.Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
notes, memory = Notes(workspace), WorkspaceMemory(find_root(workspace))
for number in range(count):
    assert not notes.record(f"Note {number} of writer {who}.", f"c{who}").existing
    content = f"Writer {who} saw number {number}.\\n" + "It was long. " * 200
    assert not memory.save(
        Scope("team"), "lesson", f"Lesson {number} of {who}", content, "debugging", [f"w{who}"]
    ).existing
    print(number, flush=True)
"""


def started(root: Path, who: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(root), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "user" / "memory").mkdir(parents=True)
    return tmp_path


def test_eight_writers(empty: Path) -> None:
    """Eight processes write notes and lessons at once: all are there, the index is right."""
    each = examples(100)
    writers = [started(empty, str(who), each) for who in range(8)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 8
    notes = json.loads((empty / ".agent_memory.json").read_text())
    expected = {f"Note {number} of writer {who}." for who in range(8) for number in range(each)}
    assert len(notes) == 8 * each and {note["content"] for note in notes} == expected
    memory = WorkspaceMemory(find_root(Workspace(empty)))
    titles = {located.entry.title for located in memory.all(Scope("team"))}
    assert titles == {f"Lesson {number} of {who}" for who in range(8) for number in range(each)}
    path = empty / "user/memory/workspaces/team/_index.yaml"
    index = yaml.safe_load(path.read_text())
    assert index["summary"]["total_lessons"] == 8 * each
    assert {tag["name"]: tag["count"] for tag in index["tags"]} == {f"w{n}": each for n in range(8)}
    before = path.read_bytes()
    path.unlink()
    memory.rebuild()
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.iterdir()} == {"_index.yaml", "lessons.md"}


def test_killed_writers(empty: Path) -> None:
    """Kill writers at many moments: what was acknowledged is there, whole; nothing else is torn."""
    workspace = Workspace(empty)
    memory = WorkspaceMemory(find_root(workspace))
    acknowledged = 0
    for attempt in range(examples(12) // 2):
        writer = started(empty, f"1{attempt}", 10_000)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.003 * attempt)
        writer.kill()
        acknowledged += 1 + len(writer.stdout.read().splitlines())
        writer.wait()
        writer.stdout.close()
        found = Notes(workspace).read()
        entries = [located.entry for located in memory.all(Scope("team"))]
        assert not found.repair
        assert acknowledged <= len(found.notes) <= acknowledged + attempt + 1
        assert acknowledged <= len(entries) <= acknowledged + attempt + 1
        assert all(entry.content.endswith("It was long.") for entry in entries)
    memory.save(Scope("team"), "lesson", "After", "All is well.")
    folder = empty / "user/memory/workspaces/team"
    index = yaml.safe_load((folder / "_index.yaml").read_text())
    assert index["summary"]["total_lessons"] == len(list(memory.all(Scope("team"))))
    assert len(list(empty.glob(".agent_memory*"))) <= 2  # at most one file that a dead one left
    assert len(list(empty.glob(".jupyter_agent-*.tmp"))) <= 1


def test_ten_thousand(empty: Path) -> None:
    """Ten thousand entries: context and search answer in time."""
    path = empty / "user/memory/workspaces/team/decisions.md"
    path.parent.mkdir(parents=True)
    entries = [
        MemoryEntry(
            "decision",
            f"Decision number {number}",
            f"We use component {number % 97} because of reason {number}. It is good.",
            "tooling",
            ("db", f"t{number % 50}"),
            "2026-01-01",
            source=f"id=d-{number:010x}; by=agent",
        )
        for number in range(10_000)
    ]
    path.write_bytes(b"\n".join(written(entry) for entry in entries))
    workspace = Workspace(empty)
    root = find_root(workspace)
    contexts, search = Contexts(WorkspaceMemory(root)), MemorySearch([root], workspace.state_folder)
    assert search.refresh() == 10_000

    assert processor_seconds(lambda: contexts.text(Scope("team"), ["decisions"])) < 0.6
    assert processor_seconds(lambda: search.find("component reason 4711")) < 0.15
