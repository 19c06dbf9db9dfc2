"""Saving decisions and lessons: format, index, duplicates, refusals, damaged files."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from jupyter_agent.errors import ToolError
from jupyter_agent.memory.scope import MemoryRoot, Scope
from jupyter_agent.memory.store import WorkspaceMemory

from .conftest import CallTool

DECISION: dict[str, Any] = {
    "scope": {"workspace": "devtools"},
    "type": "decision",
    "title": "Use PostgreSQL",
    "content": "It has JSON.",
    "category": "architecture",
    "tags": ["db", "sql"],
}


def decisions(root: MemoryRoot) -> Path:
    return root.path / "user/memory/workspaces/devtools/decisions.md"


async def test_save(call: CallTool, root: MemoryRoot) -> None:
    """Save: file, entry and index have the seed's names and forms."""
    result = await call("workspace_save_memory", **DECISION)
    assert re.fullmatch(
        r"Saved decision to user/memory/workspaces/devtools/decisions\.md: Use PostgreSQL "
        r"\(document_id: d-[0-9a-f]{10}\)",
        result.text,
    )
    today = datetime.date.today().isoformat()
    entry = (
        f"### [{today}] Use PostgreSQL\n\n**Category:** architecture\n**Tags:** db, sql\n\n"
        "It has JSON.\n\n---\n"
    )
    assert decisions(root).read_text().partition("\n")[2] == entry
    lesson = {**DECISION, "scope": {"workspace": "devtools", "domain": "common"}, "type": "lesson"}
    await call("workspace_save_memory", **{**lesson, "tags": ["db"], "category": None})
    folder = decisions(root).parent
    assert (folder / "common" / "lessons.md").exists()
    assert yaml.safe_load((folder / "_index.yaml").read_text()) == {
        "workspace": "devtools",
        "last_updated": datetime.date.today(),
        "tags": [
            {"name": "db", "used_in": ["decisions", "lessons"], "count": 2},
            {"name": "sql", "used_in": ["decisions"], "count": 1},
        ],
        "categories": [
            {"name": "architecture", "used_in": ["decisions"], "count": 1},
            {"name": "general", "used_in": ["lessons"], "count": 1},
        ],
        "summary": {"total_decisions": 1, "total_lessons": 1, "domains_with_memory": ["common"]},
    }
    assert not [
        p for p in root.path.iterdir() if p.name not in ("resources", "user", ".jupyter_agent")
    ]


async def test_the_index_is_derived(
    call: CallTool, memory: WorkspaceMemory, root: MemoryRoot
) -> None:
    """Rebuild: the same bytes; descriptions by hand stay; what is no YAML is moved aside."""
    await call("workspace_save_memory", **DECISION)
    index = decisions(root).with_name("_index.yaml")
    first = index.read_bytes()
    index.unlink()
    memory.rebuild()
    assert index.read_bytes() == first
    described = first.replace(b"- name: db\n", b"- name: db\n  description: Databases\n")
    index.write_bytes(described)
    memory.rebuild("devtools")
    assert index.read_bytes() == described
    index.write_bytes(b"<<<<<<< HEAD\n: [")
    memory.rebuild()
    assert index.read_bytes() == first
    (aside,) = index.parent.glob("_index.yaml.corrupt-*")
    assert aside.read_bytes() == b"<<<<<<< HEAD\n: ["


async def test_reading_brings_the_index_up_to_date(call: CallTool, root: MemoryRoot) -> None:
    """Edit the Markdown by hand, then read: the answer and the index have what was added."""
    await call("workspace_save_memory", **DECISION)
    index = decisions(root).with_name("_index.yaml")
    with decisions(root).open("a") as file:
        file.write("\n### [2026-01-01] By hand\n**Tags:** new\n\nText.\n")
    told = await call("workspace_get_context", scope={"workspace": "devtools"})
    assert yaml.safe_load(told.text)["defaults"]["memory_metadata"]["tags"][1]["name"] == "new"
    assert "- name: new\n" in index.read_text()


async def test_duplicates_and_superseding(call: CallTool, root: MemoryRoot) -> None:
    """The same is answered with what is there; a correction supersedes it, and both stay."""
    first = await call("workspace_save_memory", **DECISION)
    known = re.search(r"d-\w{10}", first.text)[0]  # type: ignore[index]
    before = decisions(root).read_bytes()
    same = await call("workspace_save_memory", **DECISION)
    near = await call("workspace_save_memory", **{**DECISION, "content": "It does have the JSON."})
    assert same.text.startswith("Not saved: this entry is there already.")
    assert f"supersedes={known}" in near.text and "It has JSON." in near.text
    assert decisions(root).read_bytes() == before
    newer = {**DECISION, "content": "DuckDB now.", "supersedes": known}
    assert not (await call("workspace_save_memory", **newer)).is_error
    assert decisions(root).read_bytes().startswith(before)
    again = await call("workspace_save_memory", **{**newer, "content": "SQLite."})
    assert again.is_error and "is superseded by d-" in again.text
    unknown = await call("workspace_save_memory", **{**newer, "supersedes": "d-0"})
    assert unknown.is_error and "there is no entry" in unknown.text
    told = await call(
        "workspace_get_context", scope={"workspace": "devtools"}, topics=["decisions"]
    )
    data = yaml.safe_load(told.text)
    assert [row["content"] for row in data["decisions"]] == ["DuckDB now."]
    assert data["decisions"][0]["_meta"]["supersedes"] == known
    assert data["omitted"]["decisions"] == "1 superseded"


async def test_titles_and_contents(call: CallTool, memory: WorkspaceMemory) -> None:
    """Newlines, headings, rules and front matter become one entry each, and damage nothing."""
    for number, nasty in enumerate(["a\n### [2026-01-01] b", "---", "<!-- x", "# h\n---\nname: y"]):
        done = await call(
            "workspace_save_memory",
            **{**DECISION, "title": f"{nasty} {number}", "content": f"{nasty}\n{number}\n```"},
        )
        assert not done.is_error, done.text
    found = [located.entry for located in memory.all(Scope("devtools"))]
    assert len(found) == 4 and "\n" not in "".join(entry.title for entry in found)
    assert found[0].title == "a ### [2026-01-01] b 0"
    assert found[3].content == "# h\n---\nname: y\n3\n```\n```"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"title": "\n"}, "title is empty"),
        ({"title": "x" * 300}, "title is too long"),
        ({"content": ""}, "content is empty"),
        ({"content": "x" * 1_048_576}, "content is too long"),
        ({"content": "token = abc123def456"}, "password or a token"),
        ({"title": "AKIAABCDEFGHIJKLMNOP"}, "looks like a key"),
        ({"tags": ["t"] * 21}, "too many tags"),
        ({"category": "c" * 61}, "category is too long"),
        ({"scope": {"workspace": "../x"}}, "is a path"),
        ({"scope": {"workspace": "w", "domain": "a\0"}}, "is a path"),
        ({"scope": {"workspace": "w", "repository": "r"}}, "repository"),
        ({"type": "note"}, "type"),
    ],
)
async def test_refusals(call: CallTool, root: MemoryRoot, change: dict[str, Any], why: str) -> None:
    """What cannot be stored is refused with the reason, and nothing is made."""
    result = await call("workspace_save_memory", **{**DECISION, **change})
    assert result.is_error and why in result.text
    assert not (root.path / "user").exists()


async def test_handwritten_files_survive(call: CallTool, root: MemoryRoot) -> None:
    """Append to a file by hand: its bytes stay, its line endings are kept."""
    path = decisions(root)
    path.parent.mkdir(parents=True)
    by_hand = b"\xef\xbb\xbf# Ours\r\n\r\nText \xff without an end"
    path.write_bytes(by_hand)
    await call("workspace_save_memory", **DECISION)
    data = path.read_bytes()
    assert data.startswith(by_hand + b"\r\n\r\n<!-- entry: ") and data.count(b"\n") == data.count(
        b"\r\n"
    )


async def test_conflicts_and_torn_ends(call: CallTool, root: MemoryRoot) -> None:
    """Conflict markers are refused; a torn end is set aside and told."""
    await call("workspace_save_memory", **DECISION)
    path = decisions(root)
    good = path.read_bytes()
    path.write_bytes(good + b"\n<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n")
    other = {**DECISION, "title": "Other", "content": "Something else altogether."}
    result = await call("workspace_save_memory", **other)
    assert result.is_error and "git conflict markers (line 11)" in result.text
    path.write_bytes(good + b"\n" + good[: len(good) // 2])
    result = await call("workspace_save_memory", **other)
    assert "torn entry" in result.text and path.read_bytes().startswith(good + b"\n<!-- entry")
    (aside,) = path.parent.glob("decisions.md.corrupt-*")
    assert aside.read_bytes() == good[: len(good) // 2]


def test_symlinks_out(memory: WorkspaceMemory, root: MemoryRoot, tmp_path: Path) -> None:
    """A memory file that leads out of the root is not written."""
    path = decisions(root)
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "outside.md")
    with pytest.raises(ToolError, match="leads out"):
        memory.save(Scope("devtools"), "decision", "T", "c")
    assert not (tmp_path / "outside.md").exists()


def test_what_others_append_is_seen(memory: WorkspaceMemory, root: MemoryRoot) -> None:
    """Two processes' views of a file: each sees what the other appended, and hand edits."""
    other = WorkspaceMemory(root)
    memory.save(Scope("devtools"), "decision", "One", "First thing.")
    other.save(Scope("devtools"), "decision", "Two", "Second matter.")
    memory.save(Scope("devtools"), "decision", "Three", "Third affair.")
    path = decisions(root)
    assert [e.entry.title for e in other.all(Scope("devtools"))] == ["One", "Two", "Three"]
    path.write_text(path.read_text().replace("Second matter", "Edited by hand"))
    assert "Edited by hand." in [e.entry.content for e in memory.all(Scope("devtools"))]
