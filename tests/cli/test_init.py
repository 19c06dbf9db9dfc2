"""`jupyter agent init`: what it writes, and that it never overwrites."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from jupyter_agent import config
from jupyter_agent.cli import main
from jupyter_agent.cli.init import BEGIN
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.rules import hot_rules

WRITTEN = [
    ".github/workflows/notebooks.yml",
    ".gitignore",
    ".jupyter_agent/config.yaml",
    ".jupyter_agent/rules/house.md",
]


def init(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", str(folder), *arguments])


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_what_is_written(tmp_path: Path) -> None:
    """Four files are written, in a folder that is created if necessary."""
    said = init(tmp_path / "new")
    assert said.exit_code == 0, said.output
    assert sorted(files(tmp_path / "new")) == WRITTEN
    assert said.output.count("written") == 4


def test_here_without_a_name(tmp_path: Path) -> None:
    """Without a folder the current one is prepared."""
    with chdir(tmp_path):
        assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert sorted(files(tmp_path)) == WRITTEN


def test_a_second_time(tmp_path: Path) -> None:
    """A second run changes nothing and lists each file as left."""
    init(tmp_path)
    before = files(tmp_path)
    said = init(tmp_path)
    assert files(tmp_path) == before
    assert said.output.count("left as it is") == 4


def test_a_dry_run(tmp_path: Path) -> None:
    """A dry run lists the files and creates nothing, not even the folder."""
    said = init(tmp_path / "new", "--dry-run")
    assert said.output.count("would be written") == 4
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".gitignore").write_bytes(b"build/\n")
    assert "would be added to" in init(tmp_path, "--dry-run").output
    assert (tmp_path / ".gitignore").read_bytes() == b"build/\n"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_person_wrote_stays(tmp_path: Path, name: str) -> None:
    """Existing files keep every byte; only .gitignore gets lines, at its end."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine: \xff no newline")
    init(tmp_path)
    if name == ".gitignore":
        assert path.read_bytes().startswith(b"mine: \xff no newline\n\n# jupyter_agent")
    else:
        assert path.read_bytes() == b"mine: \xff no newline"
    assert set(WRITTEN) <= set(files(tmp_path))


@pytest.mark.parametrize("before", [b"", b"build/\n", b"build/", b"a\r\nb\r\n"])
def test_lines_for_git(tmp_path: Path, before: bytes) -> None:
    """The lines for git are added once, between marks, with the file's line ends."""
    path = tmp_path / ".gitignore"
    path.write_bytes(before)
    init(tmp_path)
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(BEGIN.encode()) == 1
    ends = set(re.findall(rb"\r?\n", after))
    assert ends == {b"\r\n"} if b"\r" in before else ends == {b"\n"}
    init(tmp_path)
    assert path.read_bytes() == after


def test_what_git_leaves_alone(tmp_path: Path) -> None:
    """Private state is ignored at any depth; settings, rules and cassettes are not."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    init(tmp_path)
    ignored = [
        ".jupyter_agent/logs/a.jsonl",
        "below/.jupyter_agent/sessions/a.jsonl",
        ".jupyter_agent/checkpoints/x",
    ]
    taken = [".jupyter_agent/config.yaml", ".jupyter_agent/rules/a.md", "a.cassette.jsonl"]
    for path, code in [*((path, 0) for path in ignored), *((path, 1) for path in taken)]:
        command = ["git", "-C", str(tmp_path), "check-ignore", "-q", path]
        assert subprocess.run(command, check=False).returncode == code, path


def test_the_settings_change_nothing(tmp_path: Path) -> None:
    """The written file sets nothing."""
    init(tmp_path)
    layer = config.workspace_layer(tmp_path / ".jupyter_agent")
    assert layer is not None
    assert layer.values == {}


def test_every_setting_is_there_with_its_default(tmp_path: Path) -> None:
    """Each key is a comment that sets its default when uncommented."""
    init(tmp_path)
    path = tmp_path / ".jupyter_agent" / "config.yaml"
    path.write_text(re.sub(r"(?m)^# (?=[a-z_.]+:)", "", path.read_text(encoding="utf-8")))
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    left_out = {key for key in config.keys() if config.is_secret(key)} | {"workspace_dir"}  # noqa: SIM118
    assert set(values) == set(config.keys()) - left_out
    usable = {key: value for key, value in values.items() if value is not None}
    layer = config.layer("test", usable)
    assert config.resolve([layer]).settings == config.Settings()
    assert all(config.describe(key).default is None for key in set(values) - set(usable))


def test_no_key_is_invited(tmp_path: Path) -> None:
    """The file has no line for a key."""
    init(tmp_path)
    text = (tmp_path / ".jupyter_agent" / "config.yaml").read_text(encoding="utf-8")
    assert "api_key:" not in text


def test_the_rules_are_told(tmp_path: Path) -> None:
    """The file of rules is read as hot rules, within the budget."""
    init(tmp_path)
    rules = hot_rules(Workspace(tmp_path), None)
    assert "Say how many rows were left out" in rules.text
    assert rules.warnings == ()


def test_the_workflow(tmp_path: Path) -> None:
    """GitHub's workflow replays, has read rights only, and runs the check and nbval."""
    init(tmp_path)
    text = (tmp_path / ".github/workflows/notebooks.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["env"] == {
        "JUPYTER_AGENT_MODE": "replay",
        "JUPYTER_AGENT_TRUST": "workspace",
    }
    assert workflow["permissions"] == {"contents": "read"}
    commands = [step.get("run", "") for step in workflow["jobs"]["validate"]["steps"]]
    assert any("jupyter agent check --format github" in command for command in commands)
    assert any("--nbval" in command for command in commands)


def test_below_a_repository(tmp_path: Path) -> None:
    """Below a repository's root, `init` says where GitHub looks for workflows."""
    (tmp_path / ".git").mkdir()
    assert "GitHub reads workflows in" in init(tmp_path / "notebooks").output
    assert "GitHub reads workflows in" not in init(tmp_path).output


@pytest.mark.parametrize("name", [".github", ".jupyter_agent"])
def test_a_link_that_leads_outside(tmp_path: Path, name: str) -> None:
    """A link out of the folder is refused in one line, and nothing is written outside."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / name).symlink_to(outside)
    said = init(inside)
    assert said.exit_code == 1
    assert "outside of the workspace" in said.output
    assert list(outside.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """An unwritable folder is one line that names it."""
    (tmp_path / ".github").write_bytes(b"a file")
    said = init(tmp_path)
    assert said.exit_code == 1
    assert len(said.output.splitlines()[-1]) < 300
    assert "cannot be written" in said.output
    assert os.path.exists(tmp_path / ".github")  # noqa: PTH110
