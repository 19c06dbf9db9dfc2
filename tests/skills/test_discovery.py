"""Where skills are found, which one wins, and what the person must have trusted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.skills.discovery import Place, discover, is_unchanged, places, shipped_folder

Write = Callable[..., Path]


def test_nearer_wins_and_collisions_are_told(
    root: Path, config: Path, where: list[Place], write: Write, trusted: Callable[[], None]
) -> None:
    """Of four skills with one name the state folder's is used; the others are notices."""
    name = "exploring-tables"
    for above in (
        root / ".jupyter_agent/skills",
        root / ".agents/skills",
        config / "jupyter_agent_skills",
    ):
        write(above, name, extra=str(above))
    catalogue = discover(where)
    assert catalogue.find(name).origin == "user", "the workspace's are not trusted yet"
    trusted()
    trusted()  # of two of the same name, the nearer one first
    catalogue = discover(where)
    assert catalogue.find(name).shown == f".jupyter_agent/skills/{name}"
    assert sum(notice.startswith(f"{name} is in two places") for notice in catalogue.notices) == 3
    assert not catalogue.untrusted


def test_an_untrusted_skill_hides_none(root: Path, where: list[Place], write: Write) -> None:
    """An untrusted skill does not replace a shipped one of the same name."""
    write(
        root / ".agents/skills",
        "cleaning-tables",
        "---\nname: cleaning-tables\ndescription: evil\n---\n",
    )
    write(root / ".agents/skills", "own")
    catalogue = discover(where)
    assert catalogue.find("cleaning-tables").origin == "shipped"
    assert [skill.name for skill in catalogue.untrusted] == ["cleaning-tables", "own"]
    with pytest.raises(ConfigError, match="%agent skills trust own"):
        catalogue.find("own")
    with pytest.raises(ConfigError, match="Did you mean plotting-well"):
        catalogue.find("plotting-wel")


@pytest.mark.parametrize("change", ["SKILL.md", "scripts/a.py", "new.md", "remove"])
def test_a_change_ends_the_trust(
    root: Path, where: list[Place], write: Write, trusted: Callable[[], None], change: str
) -> None:
    """A change of SKILL.md or a file beside it ends the trust."""
    folder = write(root / ".agents/skills", "own", **{"scripts/a.py": "x = 1\n"})
    trusted()
    skill = discover(where).find("own")
    assert is_unchanged(skill)
    if change == "remove":
        (folder / "scripts/a.py").unlink()
    else:
        with (folder / change).open("a") as stream:
            stream.write("\nmore\n")
    assert not is_unchanged(skill)
    assert [skill.name for skill in discover(where).untrusted] == ["own"]


def test_what_is_left_out_and_why(
    root: Path, config: Path, where: list[Place], write: Write
) -> None:
    """Each bad skill is one notice; the good one beside them is found."""
    above = config / "jupyter_agent_skills"
    write(above, "good")
    write(above, "bom", b"\xef\xbb\xbf---\r\nname: bom\r\ndescription: d\r\n---\r\nBody\r\n")
    write(above, "binary", b"---\n\x00\xff")
    write(above, "latin", "---\nname: latin\ndescription: ü\n---\n".encode("latin-1"))
    write(above, "huge", b"---\nname: huge\ndescription: d\n---\n" + b"x" * 300_000)
    write(above, "plain", "no front matter")
    write(above, "many", **{f"f{n}": "" for n in range(1_001)})
    (above / "empty").mkdir()
    (above / "folder/SKILL.md").mkdir(parents=True)
    os.mkfifo(above / "folder2")
    (above / "pipe").mkdir()
    os.mkfifo(above / "pipe/SKILL.md")
    (above / "out").mkdir()
    (above / "out/SKILL.md").symlink_to(config / "secret")
    (config / "secret").write_text("---\nname: out\ndescription: secret\n---\n")
    catalogue = discover(where)
    mine = [skill.name for skill in catalogue.skills if skill.origin == "user"]
    assert mine == ["bom", "good"]
    told = "\n".join(catalogue.notices)
    for name in ("binary", "latin", "huge", "plain", "many", "folder", "pipe", "out"):
        assert f"/{name} is left out: " in told
    assert len(catalogue.notices) == 8 and "secret" not in told


def test_symlinks_out_of_the_skill(root: Path, where: list[Place], write: Write) -> None:
    """Links that lead out of a skill's folder are no files of it; a skill that does is left out."""
    outside = write(root.parent, "outside")
    (root.parent / "key").write_text("secret")
    folder = write(root / ".agents/skills", "own", **{"a.md": "a"})
    (folder / "key.md").symlink_to(root.parent / "key")
    (folder / "sub").symlink_to(root.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "in.md").symlink_to(folder / "a.md")
    (root / ".agents/skills/linked").symlink_to(outside)
    catalogue = discover(where)
    assert [skill.name for skill in catalogue.untrusted] == ["own"]
    assert [w.split()[0] for w in catalogue.untrusted[0].warnings] == ["key.md", "sub"]
    assert any("linked is left out: it leads out of the workspace" in n for n in catalogue.notices)


def test_the_setting(root: Path, write: Write) -> None:
    """tools.skills_dir is relative to the state folder, and must stay in the workspace."""
    write(root / "team", "own")
    write(root.parent / "elsewhere", "evil")
    found = discover(places(Workspace(root), "../team"))
    assert [skill.shown for skill in found.untrusted] == ["team/own"]
    for setting in ("../../elsewhere", str(root.parent / "elsewhere")):
        found = discover(places(Workspace(root), setting))
        assert not found.untrusted and "leads out of the workspace" in found.notices[0]


def test_shipped() -> None:
    """The package's own skills are found, in a clone and in an installed package alike."""
    names = {path.parent.name for path in shipped_folder().glob("*/SKILL.md")}
    assert len(names) >= 6
