"""A kernel that dies at any point leaves a state from which undo goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import generated
import pytest
from undo.conftest import tree

from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import Checkpoints
from jupyter_agent.undo.differences import AFTER_THE_END

SCRIPT = Path(__file__).with_name("crashes.py")


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def crashes(folder: Path, *sample: int) -> dict[str, Any]:
    """What `crashes.py` found."""
    command = [sys.executable, str(SCRIPT), str(folder), *map(str, sample)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert all(each["points"] > 50 for each in found.values())
    return found


@needs_fork
def test_killed_at_some_points(tmp_path: Path) -> None:
    """A turn, an undo and a redo are killed at some of the things they ask of the file system,
    other ones in each run.

    After each, undoing (or redoing) once more gives exactly the tree that it should.
    """
    found = crashes(tmp_path, 10, generated.seed())
    print(f"{generated.SEED}={generated.seed()} repeats it: {found}")
    assert [name for name, each in found.items() if each["wrong"]] == []
    assert all(len(each["met"]) >= 8 for each in found.values())


@pytest.mark.deep
@pytest.mark.timeout(600)
@needs_fork
def test_killed_at_every_point(tmp_path: Path) -> None:
    """A turn, an undo and a redo may be killed at each of their file operations."""
    found = crashes(tmp_path)
    assert [name for name, each in found.items() if each["wrong"]] == [], found
    assert all(len(each["met"]) >= each["points"] - 5 for each in found.values()), found


def kernel(root: Path, code: str) -> subprocess.Popen[str]:
    """A process with a turn in which code runs for ever. It says when it has begun."""
    script = f"""
        from pathlib import Path
        import time
        from jupyter_agent.undo import Checkpoints
        from jupyter_agent.files.workspace import Workspace
        root = Path({str(root)!r})
        turn = Checkpoints(Workspace(root), "a.ipynb").begin()
        turn.before_code()
        {code}
        print("begun", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_killed_while_code_runs(root: Path, checkpoints: Checkpoints) -> None:
    """Changes until the kernel's death belong to the turn, later ones do not."""
    for name in ("code.txt", "later.txt", "both.txt"):
        (root / name).write_text("0")
    process = kernel(root, "[(root / n).write_text('1') for n in ('code.txt', 'both.txt')]")
    killed(process)
    time.sleep(1.8)  # beyond the last beat, and what is allowed for it
    (root / "later.txt").write_text("mine")
    (root / "both.txt").write_text("mine")
    (root / "new.txt").write_text("mine")
    steps = {step.path: (step.outcome, step.why) for step in checkpoints.plan().steps}
    assert steps == {
        "code.txt": ("restored", ""),
        "later.txt": ("conflict", AFTER_THE_END),
        "both.txt": ("conflict", AFTER_THE_END),
        "new.txt": ("conflict", AFTER_THE_END),
    }
    checkpoints.apply(checkpoints.plan())
    assert {name: text for name, (text, _) in tree(root).items()} == {
        "code.txt": "0",
        "later.txt": "mine",
        "both.txt": "mine",
        "new.txt": "mine",
    }


def test_a_long_execution_is_known_to_the_end(root: Path, checkpoints: Checkpoints) -> None:
    """A change late in a long execution belongs to the turn, even if the kernel dies."""
    (root / "a.txt").write_text("0")
    process = kernel(root, "time.sleep(2.5); (root / 'a.txt').write_text('1')")
    killed(process)
    (step,) = checkpoints.plan().steps
    assert step.outcome == "restored"


def test_a_turn_of_another_kernel_is_left_alone(root: Path, checkpoints: Checkpoints) -> None:
    """A turn of a living kernel is not ended by another kernel."""
    process = kernel(root, "(root / 'a.txt').write_text('1')")
    try:
        other = Checkpoints(Workspace(root), "b.ipynb")
        other.begin().end()
        assert checkpoints.turns() == []
        (running,) = checkpoints.turns_of_others()
        assert not running.ended
    finally:
        killed(process)
    other.begin().end()
    (settled,) = checkpoints.turns()
    assert settled.ended
    assert [step.path for step in checkpoints.plan().steps] == ["a.txt"]
