"""`jupyter agent run`: notebooks in real kernels, from the command line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from notebooks.notebooks import agent, environment, script, write

from jupyter_agent.cli import main
from jupyter_agent.cli.run import MODES
from jupyter_agent.config import Settings
from jupyter_agent.errors import AgentError
from jupyter_agent.notebooks.jobs import find
from jupyter_agent.recording.cassette import load

pytestmark = pytest.mark.timeout(180)


def run(folder: Path, *arguments: str, **more: str) -> tuple[int, str]:
    return agent("run", *arguments, cwd=folder, home=folder / ".home", **more)


def outputs(path: Path) -> list[Any]:
    return [cell.get("outputs") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def test_a_folder(tmp_path: Path) -> None:
    """All notebooks of a folder run, two at once; failures name their cell, readable
    notebooks are copied, and the originals stay.
    """
    write(tmp_path / "deep" / "good.ipynb", "x = 1", "x + 1")
    write(
        tmp_path / "bad.ipynb", "# a heading", "print('before')", "%time\nraise OSError('no')", "2"
    )
    (tmp_path / "broken.ipynb").write_text("{", encoding="utf-8")
    write(tmp_path / ".ipynb_checkpoints" / "good-checkpoint.ipynb", "1 / 0")
    write(tmp_path / "node_modules" / "x.ipynb", "1 / 0")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    code, said = run(tmp_path, ".", "--jobs", "2", "--to", "made")
    assert code == 1
    assert "3 notebooks in" in said
    assert "1 passed, 2 failed" in said
    assert "cell 3: %time" in said
    assert "OSError: no" in said
    assert "broken.ipynb is not a notebook" in said
    assert "\x1b" not in said
    assert {path: path.read_bytes() for path in before} == before
    assert outputs(tmp_path / "made" / "deep" / "good.ipynb")[1][0]["data"]["text/plain"] == ["2"]
    kinds = [
        [o["output_type"] for o in each] for each in outputs(tmp_path / "made" / "bad.ipynb")[1:]
    ]
    assert kinds[0] == ["stream"]
    assert kinds[1][-1] == "error"
    assert kinds[2] == []


def test_in_place(tmp_path: Path) -> None:
    """Outputs are written, metadata is as it was, and a notebook that fails is left alone."""
    good = write(tmp_path / "good.ipynb", "print('ä')", language_info={"name": "python"})
    bad = write(tmp_path / "bad.ipynb", "1", "1 / 0")
    before = bad.read_bytes()
    code, said = run(tmp_path, "good.ipynb", "bad.ipynb", "--in-place")
    assert code == 1
    assert "1 changed in place" in said
    assert json.loads(good.read_bytes())["metadata"] == {"language_info": {"name": "python"}}
    assert outputs(good)[0][0]["text"] == ["ä\n"]
    assert bad.read_bytes() == before


def test_stop_at_first_failure_and_a_time_limit(tmp_path: Path) -> None:
    """A cell over its time limit fails; the notebooks that were not run are counted."""
    slow = "while True:\n    pass"
    paths = [write(tmp_path / f"{n}.ipynb", slow).name for n in "abc"]
    code, said = run(tmp_path, *paths, "--timeout", "0.5", "--stop-at-first-failure")
    assert code == 1
    assert "the cell took more than 0.5 seconds" in said
    assert "0 passed, 1 failed, 2 not run to the end" in said


@pytest.mark.deep
def test_one_cassette_of_two_notebooks_at_once(tmp_path: Path) -> None:
    """Recorded side by side into one file, neither loses a turn."""
    turns = []
    for name in "ab":
        tasks = [f"Task {name}{number}" for number in range(3)]
        turns += [(task, [{"text": f"Answer to {task}"}]) for task in tasks]
        cells = [f"%%agent\n{task}" for task in tasks]
        top = "%load_ext jupyter_agent\n%agent cassette both.cassette.jsonl"
        write(tmp_path / f"{name}.ipynb", top, *cells)
    place = script(tmp_path / "script.yaml", *turns)
    who = {"JUPYTER_AGENT_PROVIDER": "scripted", "JUPYTER_AGENT_SCRIPT": str(place)}
    code, said = run(tmp_path, ".", "--mode", "record", "--jobs", "2", **who)
    assert code == 0, said
    recorded = load(tmp_path / "both.cassette.jsonl")
    assert sorted(turn.task for turn in recorded.turns) == [task for task, _ in turns]


def test_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2 and one line, before any kernel is started."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.ipynb", "1")
    write(tmp_path / "sub" / "a.ipynb", "1")
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        (["missing.ipynb"], "There is no notebook missing.ipynb"),
        (["empty"], "There is no notebook in empty"),
        (["a.ipynb", "--to", "x", "--in-place"], "exclude each other"),
        (["a.ipynb", "sub/a.ipynb", "--to", "x"], "would both be written to"),
        (["a.ipynb", "--to", "."], "Use --in-place for that"),
        (["a.ipynb", "--scheduler", ""], "--scheduler needs an address"),
        (["a.ipynb", "--mode", "reply"], "'reply' is not one of"),
    ):
        result = CliRunner().invoke(main, ["run", *arguments])
        assert (result.exit_code, words in " ".join(result.output.split())) == (2, True)


@pytest.mark.deep
def test_in_a_terminal(tmp_path: Path) -> None:
    """A bar is shown, names from files cannot steer the terminal, and nothing was written."""
    write(tmp_path / "a\x1b]0;x\x07b[red].ipynb", "1", "2")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_agent.cli", "run", "."],
        cwd=tmp_path,
        env=environment(tmp_path / ".home", TERM="xterm", COLUMNS="100"),
        stdout=theirs,
        stderr=theirs,
    ) as command:
        os.close(theirs)
        said = b""
        with suppress(OSError):
            while piece := os.read(ours, 4096):
                said += piece
        os.close(ours)
        assert command.wait(60) == 0, said
    assert b"\x1b]0;" not in said
    assert b"ab[red].ipynb" in said
    assert "━".encode() in said
    assert b"1 passed, 0 failed" in said
    assert b"Nothing was written back" in said


def test_the_modes_are_those_of_the_setting() -> None:
    """The option --mode offers the values of the setting `mode`."""
    assert get_args(Settings.model_fields["mode"].annotation) == MODES


def test_each_notebook_once(tmp_path: Path) -> None:
    """A notebook runs once, even if named twice or by its folder; links to folders are skipped."""
    one = write(tmp_path / "a" / "one.ipynb", "1")
    write(tmp_path / "a" / "out" / "old.ipynb", "1")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    found = list(find([one, tmp_path / "a", one], leave_out=tmp_path / "a" / "out"))
    assert found == [(one.resolve(), "one.ipynb")]
    with pytest.raises(AgentError, match="not a notebook"):
        list(find([script(tmp_path / "s.yaml")]))
