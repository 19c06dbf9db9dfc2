"""What the sessions of a kernel share: settings, workspace, cassette, and whether a turn runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jupyter_agent import config
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.session.kernel import Kernel


def test_settings_stay_while_a_turn_runs(here: Kernel) -> None:
    """A settings file changed in mid-turn counts only after the person's answer."""
    file = here.workspace.state_folder / "config.yaml"
    file.parent.mkdir()
    file.write_text("max_steps: 3\n", encoding="utf-8")
    with here.turn() as settings:
        assert settings.max_steps == 3
        file.write_text("max_steps: 4\n", encoding="utf-8")
        assert here.settings().settings.max_steps == 3
    assert here.settings().settings.max_steps == 3
    assert any("config.yaml" in line for line in here.take_notices())
    here.protected.accept()
    assert here.settings().settings.max_steps == 4


def test_a_layer_of_one_turn(here: Kernel) -> None:
    """Settings of one turn end with it."""
    with here.turn(config.layer("x", {"max_steps": 7})) as settings:
        assert settings.max_steps == 7
    assert here.settings().settings.max_steps != 7


def test_one_turn_at_a_time(here: Kernel) -> None:
    """During a turn another turn and changing commands are refused; after an error not."""
    with pytest.raises(ZeroDivisionError), here.turn():
        with pytest.raises(AgentError, match="A turn is running already"), here.turn():
            pass
        with pytest.raises(AgentError, match="A turn is running already"):
            here.set("max_steps", "3")
        raise ZeroDivisionError
    here.set("max_steps", "3")
    with here.turn() as settings:
        assert settings.max_steps == 3


def test_a_bad_setting_changes_nothing(here: Kernel) -> None:
    """`%agent config` with a bad value: an error, and the kernel goes on as it was."""
    here.set("max_steps", "3")
    with pytest.raises(ConfigError, match="max_steps"):
        here.set("max_steps", "many")
    with pytest.raises(ConfigError), here.turn(config.layer("x", {"workspace_dir": "nowhere"})):
        pass
    assert not here.busy
    assert here.settings().settings.max_steps == 3


def test_cassettes_are_no_work_of_the_person(here: Kernel) -> None:
    """The named cassette and those beside the notebook are the product's own files."""
    beside = Path.cwd() / "a.cassette.jsonl"
    beside.touch()
    named = here.use_cassette("tapes.jsonl")
    assert here.cassette == named
    assert here.own_files() >= {beside, named}
    with pytest.raises(ConfigError, match="is a folder"):
        here.use_cassette(".")


def test_where_nothing_can_be_kept(here: Kernel) -> None:
    """A file in place of the state folder gives one line with the reason."""
    assert here.why_nothing_is_kept() == ""
    shutil.rmtree(here.workspace.state_folder)
    here.workspace.state_folder.write_text("mine", encoding="utf-8")
    assert ".jupyter_agent" in here.why_nothing_is_kept()
    assert here.workspace.state_folder.read_text(encoding="utf-8") == "mine"
