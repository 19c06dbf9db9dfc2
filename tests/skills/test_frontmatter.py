"""Front matter as people write it, good and bad."""

from __future__ import annotations

import pytest

from jupyter_agent.skills.frontmatter import SkillError, is_valid_name, parse


def front(lines: str, folder: str = "pdf") -> tuple[str, str, tuple[str, ...]]:
    found, _ = parse(f"---\n{lines}\n---\nBody.\n", folder)
    return found.name, found.description, found.warnings


def test_all_keys() -> None:
    """Every key of the specification is read, and nothing is warned of."""
    found, body = parse(
        "---\nname: pdf\ndescription: >\n  Reads\n  PDFs.\nlicense: MIT\n"
        "compatibility: Python\nmetadata:\n  version: 1.0\n  author: me\n"
        "allowed-tools: Bash(git add:*) Read\n---\n\n# Title\n---\ntext\n",
        "pdf",
    )
    assert (found.name, found.description) == ("pdf", "Reads PDFs.")
    assert (found.license, found.compatibility) == ("MIT", "Python")
    assert found.metadata == (("version", "1.0"), ("author", "me"))
    assert found.allowed_tools == ("Bash(git add:*)", "Read")
    assert found.warnings == () and body == "# Title\n---\ntext"
    listed, _ = parse("---\nname: a\ndescription: b\nallowed-tools: [Read, Write]\n---", "a")
    assert listed.allowed_tools == ("Read", "Write")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("Use when: the user asks", "Use when: the user asks"),
        ('Use when: it\'s a "PDF"\n  or: more', 'Use when: it\'s a "PDF" or: more'),
        ("'Quoted: fine'", "Quoted: fine"),
        ("42", "42"),
    ],
)
def test_descriptions_that_yaml_may_not_take(value: str, read: str) -> None:
    """A colon in an unquoted description is understood, over folded lines, too."""
    assert front(f"name: pdf\ndescription: {value}")[1] == read


@pytest.mark.parametrize(
    ("given", "folder", "name", "warned"),
    [
        ("name: pdf", "pdf", "pdf", ""),
        ("name: pdf", "other", "pdf", "differs from its folder"),
        ("name: PDF-Tools", "PDF-Tools", "pdf-tools", "lower-case letters"),
        ("name: -a--b-", "x", "a-b", "lower-case letters"),
        ("name: " + "a" * 65, "x", "a" * 64, "more than 64"),
        ("name: a/../b", "x", "a-b", "lower-case letters"),
        ("name: [1]", "x", "x", "there is no name"),
        ("license: MIT", "My Skill", "my-skill", "there is no name"),
    ],
)
def test_names(given: str, folder: str, name: str, warned: str) -> None:
    """A name that breaks the rules is a warning, and the nearest good one is used."""
    found, _, warnings = front(f"{given}\ndescription: d", folder)
    assert found == name and is_valid_name(found)
    assert warned in "; ".join(warnings) and bool(warned) == bool(warnings)


def test_warnings_that_lose_no_skill() -> None:
    """Unknown keys, long texts and wrong types are told, and the skill is loaded."""
    _, description, warnings = front(
        f"name: pdf\ndescription: {'d' * 1025}\nversion: 3\ncompatibility: {'c' * 501}\n"
        "metadata: [1]\nlicense: {a: b}\nallowed-tools: 3"
    )
    told = "; ".join(warnings)
    assert len(description) == 1025
    for part in ("1,024", "version", "compatibility", "metadata", "license", "allowed-tools"):
        assert part in told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin"),
        ("# Title\n", "does not begin"),
        ("---\nname: a\n", "no end"),
        ("---\nname: a\n---\n", "no description"),
        ("---\nname: a\ndescription: ''\n---\n", "no description"),
        ("---\nname: a\ndescription: [a]\n---\n", "no description"),
        ("---\n- a\n---\n", "no list of keys"),
        ("---\n---\n", "no list of keys"),
        ("---\nname: 'a\ndescription: b\n---\n", "YAML cannot read"),
        ("---\nname: !!python/object:os.system a\ndescription: b\n---\n", "YAML cannot read"),
        ("---\nname: a\ndescription: b\nx: " + "[" * 5_000 + "\n---\n", "front matter"),
        ("---\nname: a\ndescription: b\nx: " + "y" * 70_000 + "\n---\n", "64,000"),
    ],
)
def test_what_is_no_skill(text: str, why: str) -> None:
    """Missing or unreadable front matter, or a missing description, is one line."""
    with pytest.raises(SkillError) as caught:
        parse(text, "a")
    assert why in str(caught.value) and "\n" not in str(caught.value)
