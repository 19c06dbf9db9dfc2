"""A workspace with skills in it, and a configuration folder of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_agent.files import trust
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.skills import importing
from jupyter_agent.skills.discovery import KIND, Place, discover, places

GOOD = "---\nname: {name}\ndescription: What {name} does, and when.\n---\nBody of {name}.\n"

WriteSkill = Callable[..., Path]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, config: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def write() -> WriteSkill:
    """Write a skill with files beside it."""

    def write_skill(
        above: Path, name: str, text: str | bytes | None = None, **files: str | bytes
    ) -> Path:
        folder = above / name
        contents = {"SKILL.md": GOOD.format(name=name) if text is None else text, **files}
        for path, content in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return write_skill


@pytest.fixture
def where(root: Path) -> list[Place]:
    return places(Workspace(root), "skills")


@pytest.fixture
def trusted(where: list[Place]) -> Callable[[], None]:
    """Trust every skill of the workspace as it is now."""

    def trust_all() -> None:
        for skill in discover(where).untrusted:
            trust.trust(KIND, skill.folder, skill.digest)

    return trust_all


@pytest.fixture
def importable(where: list[Place]) -> Iterator[importing.SkillFinder]:
    yield importing.install(lambda: discover(where))
    importing.uninstall()
