"""The entry format: what we write is read back, what people wrote stays, no text fakes an entry."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.memory.entries import (
    MemoryEntry,
    Provenance,
    confirmation,
    escape,
    parse,
    source_of,
    torn_from,
    unescape,
    without,
    written,
)

ENTRY = MemoryEntry(
    "decision",
    "Use PostgreSQL",
    "Because of JSON.",
    "architecture",
    ("db", "sql"),
    "2026-11-22",
    "d-1",
    source_of("d-1", Provenance("agent", "a.ipynb", "default")),
)
SEED = """\
### [2026-11-22] Use PostgreSQL

**Category:** architecture
**Tags:** db, sql

Because of JSON.

---
"""
_LINES = st.sampled_from(
    [
        "### [2026-01-01] Fake",
        "---",
        "- - -",
        "# comment",
        "```",
        "~~~~",
        "```py",
        "`````",
        "<!-- entry: id=d-9 -->",
        "<!-- confirmed: d-1; date=2026-01-01 -->",
        "<!--",
        "<<<<<<< HEAD",
        "=======",
        ">>>>>>> other",
        "**Tags:** a",
        "**Category:** b",
        "\\---",
        "\\\\### x",
        "  ### y",
        "text",
        "",
        "x ---",
    ]
)
CONTENTS = (
    st.lists(_LINES, min_size=1, max_size=8)
    .map("\n".join)
    .map(lambda t: t.strip("\n"))
    .filter(bool)
)


def test_the_form_of_the_seed() -> None:
    """An entry stands byte for byte in the seed's form, below a comment with its provenance."""
    comment, _, entry = written(ENTRY).decode().partition("\n")
    assert entry == SEED
    assert comment == "<!-- entry: id=d-1; by=agent; notebook=a.ipynb; session=default -->"
    assert parse("decision", written(ENTRY)).entries == (ENTRY,)
    assert str(ENTRY.provenance) == "agent, a.ipynb, session default"


@given(CONTENTS, CONTENTS)
def test_any_content_round_trips(first: str, second: str) -> None:
    """Contents full of structure come back as they were; a file has as many entries as were put."""
    data = b""
    for content in (first, second):
        entry = MemoryEntry("lesson", "Title", content, "c", ("t",), "2026-11-22", "l-1", "id=l-1")
        data += written(entry, data)
    parsed = parse("lesson", data)
    assert len(parsed.entries) == 2 and not parsed.torn and not parsed.conflicts
    for content, entry in zip((first, second), parsed.entries, strict=True):
        assert entry.content.startswith(content)
        rest = entry.content.removeprefix(content)
        assert re.fullmatch(r"(\n[`~]{3,})?", rest)  # a fence that was left open is closed
    assert len(re.findall(r"^### \[", data.decode(), re.MULTILINE)) == 2
    assert len(re.findall(r"^---$", data.decode(), re.MULTILINE)) == 2
    assert unescape(escape(first)).startswith(first)


@given(CONTENTS, st.integers(min_value=1, max_value=400))
def test_a_write_that_dies_anywhere(content: str, cut: int) -> None:
    """Cut the last entry anywhere: the others are read, and the torn end is found exactly."""
    whole = written(ENTRY)
    last = MemoryEntry("decision", "Other", content, "c", ("t",), "2026-11-22", "d-2", "id=d-2")
    added = written(last, whole)
    torn = whole + added[: min(cut, len(added) - 5)]
    parsed = parse("decision", torn)
    assert parsed.entries == (ENTRY,)
    start = torn_from(torn)
    if start is None:
        assert torn == whole + b"\n"  # nothing but the blank line between them
    else:
        assert torn[:start] == whole + b"\n"


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever stands in a file, nothing is raised, and an entry that is appended is found."""
    data = text.encode("utf-8", "surrogatepass")
    assert torn_from(data) is None or torn_from(data) <= len(data)
    if torn_from(data) is None:
        assert parse("decision", data + written(ENTRY, data)).entries[-1] == ENTRY


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_what_people_write(newline: str, bom: str) -> None:
    """Read entries by hand: without date, fields or rule, among other headings and text."""
    text = (
        "# Decisions\n\nRead me first.\n\n### Always UTC\nEverywhere.\n\n"
        "### [2026-01-02] Ours\n**Tags:** a, b\n\n```sh\n### no heading\n---\n```\n\n---\n\n"
        "## Old ones\n\nSee the wiki.\n"
    )
    data = (bom + text).replace("\n", newline).encode()
    parsed = parse("decision", data)
    assert [(e.title, e.date, e.tags) for e in parsed.entries] == [
        ("Always UTC", "", ()),
        ("Ours", "2026-01-02", ("a", "b")),
    ]
    assert parsed.entries[1].content == "```sh\n### no heading\n---\n```"
    assert parsed.other == ("# Decisions\n\nRead me first.", "## Old ones\n\nSee the wiki.")
    added = written(ENTRY, data)
    assert parse("decision", data + added).entries[-1] == ENTRY
    assert (b"\r\n" in added) == (newline == "\r\n")
    assert b"\n" not in added.replace(b"\r\n", b"") or newline == "\n"


def test_a_fence_that_people_left_open() -> None:
    """Append below an open fence: the entry is found all the same."""
    data = b"### By hand\n\n```\nnever closed\n"
    parsed = parse("decision", data + written(ENTRY, data))
    assert [entry.title for entry in parsed.entries] == ["By hand", "Use PostgreSQL"]


def test_conflict_markers() -> None:
    """Git's markers are found with their lines, and the entries of both sides are read."""
    ours, theirs = SEED, SEED.replace("PostgreSQL", "DuckDB")
    text = f"{SEED}\n<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> branch\n"
    parsed = parse("decision", text.encode())
    assert [e.title for e in parsed.entries] == ["Use PostgreSQL", "Use PostgreSQL", "Use DuckDB"]
    assert parsed.conflicts == (10, 28)


def test_confirmations() -> None:
    """A line that confirms an entry is no part of any entry."""
    data = written(ENTRY)
    data += confirmation("d-1", "2026-12-01", data)
    data += written(ENTRY, data)
    parsed = parse("decision", data)
    assert parsed.confirmed == {"d-1": "2026-12-01"}
    assert parsed.entries == (ENTRY, ENTRY)
    by_hand = b"### By hand\n\nWithout a rule at its end.\n"
    (before,) = parse("decision", by_hand).entries
    parsed = parse("decision", by_hand + confirmation(before.id, "2026-12-01", by_hand))
    assert parsed.entries == (before,) and parsed.confirmed == {before.id: "2026-12-01"}


def test_provenance_stays_in_its_comment() -> None:
    """A notebook's name with the comment's own marks cannot leave it."""
    source = source_of("d-1", Provenance("agent", "a--> ; id=x\n### [2026-01-01] b.ipynb"))
    data = written(MemoryEntry("decision", "T", "c", date="2026-11-22", id="d-1", source=source))
    (entry,) = parse("decision", data).entries
    assert entry.id == "d-1" and entry.title == "T"


def test_questions() -> None:
    """Questions are one line below the tags, read back with the entry, and no part of its text."""
    asked = ("which database?", "where are the tables, and since when?")
    entry = MemoryEntry(
        "decision", "Use PostgreSQL", "It has JSON.", "db", ("sql",), "2026-01-01", "d-1", "id=d-1"
    )
    plain = written(entry)
    data = written(replace(entry, questions=asked))
    line = b"**Answers:** which database? | where are the tables, and since when?\n"
    assert data == plain.replace(b"**Tags:** sql\n", b"**Tags:** sql\n" + line)
    (found,) = parse("decision", data).entries
    assert found.questions == asked and found.content == "It has JSON."
    assert found.fingerprint() == entry.fingerprint()


@pytest.mark.parametrize(
    "text",
    [
        "**Answers:** 42\n\nA text of an older version that begins like the field.",
        "\n\n**Answers:** 42",
        "Text.\n**Answers:** 42",
    ],
)
def test_a_text_that_looks_like_questions(text: str) -> None:
    """What an entry of an earlier version says is read as it was: never as a field."""
    entry = MemoryEntry("lesson", "T", text.strip(), "c", ("t",), "2026-01-01", "l-1", "id=l-1")
    (found,) = parse("lesson", written(entry)).entries
    assert found.content == text.strip() and found.questions == ()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_entry_is_taken_out(ending: str) -> None:
    """Of a file without one entry all other bytes stay: by hand, by the agent, with text between,
    fences and both kinds of line endings."""
    by_hand = "# Lessons\n\nSome text.\n\n### By hand\n\n```\n---\n### no heading\n```\n\n"
    entries = [
        MemoryEntry("lesson", f"T{n}", "c\n\nd", "c", (), "2026-01-01", f"l-{n}", f"id=l-{n}")
        for n in range(3)
    ]
    start = by_hand.replace("\n", ending).encode()
    whole = start
    for entry in entries:
        whole += written(entry, whole)
    kept = start
    for entry in (entries[0], entries[2]):
        kept += written(entry, kept)
    assert without("lesson", whole, "l-1") == kept
    assert without("lesson", whole, "l-9") == whole
    last = without("lesson", whole, "l-2")
    assert whole.startswith(last.rstrip()) and b"T2" not in last and b"T1" in last
    (hand, *_) = parse("lesson", whole).entries
    assert b"By hand" not in without("lesson", whole, hand.id)
    assert parse("lesson", without("lesson", whole, hand.id)).other
