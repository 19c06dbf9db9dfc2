"""Saving where the disk refuses: a turn runs all the same, says so once, and saving goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from live_kernel import Cell, LiveKernel

from jupyter_agent.stores.runs import read_run

FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({}, resource.RLIM_INFINITY))"
"""A disk without room, as far as this process can tell: each write beyond so many bytes fails."""
FREE = FULL.format("resource.RLIM_INFINITY")
NO_RIGHTS = """
import ctypes, os
if os.geteuid() == 0:  # without its capabilities root has the rights of any owner
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
"""


@pytest.fixture
def desk(kernel: LiveKernel, tmp_path: Path) -> LiveKernel:
    kernel.begin_anew(tmp_path)
    return kernel


@pytest.fixture
def own_desk(tmp_path: Path) -> Iterator[LiveKernel]:
    """A kernel of its own, for a test that restarts it or takes its rights."""
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        yield kernel


def turn(kernel: LiveKernel, task: str, code: str = "1") -> Cell:
    """A turn of one step that goes on with the conversation."""
    arguments = {"calls": [{"name": "execute_code", "arguments": {"code": code}}]}
    kernel.script(task, arguments, {"text": f"Done with {task}."})
    cell = kernel.run(f"%%agent\n{task}")
    assert cell.status == "ok", cell.error
    assert f"Done with {task}." in cell.said
    return cell


def kept(folder: Path) -> str:
    return (folder / ".jupyter_agent/sessions/notebook.jsonl").read_text(encoding="utf-8")


def logs(folder: Path) -> list[Path]:
    return sorted((folder / ".jupyter_agent/logs").glob("*.jsonl"))


def test_a_disk_that_was_full_for_two_turns(own_desk: LiveKernel, tmp_path: Path) -> None:
    """A full disk is announced once; later everything is saved, and the next kernel reads it."""
    assert "saved" not in turn(own_desk, "first").said
    size = len(kept(tmp_path)) + 200
    own_desk.helper(FULL.format(size))
    told = turn(own_desk, "second").said + turn(own_desk, "third").said
    assert told.count("The conversation is not being saved: file too large.") == 1
    assert [json.loads(line) for line in kept(tmp_path).splitlines()]  # nothing is torn
    own_desk.helper(FREE)
    told = turn(own_desk, "fourth").said
    assert told.count("The conversation is saved again, nothing is missing.") == 1
    assert "saved" not in turn(own_desk, "fifth").said
    own_desk.restart()
    assert "is back: 5 turns" in own_desk.run("%agent resume").said
    history = own_desk.run("%agent history").said
    assert all(word in history for word in ("first", "second", "third", "fourth", "fifth"))


def test_a_log_that_is_cut_by_a_limit(own_desk: LiveKernel, tmp_path: Path) -> None:
    """The turn and the log itself say that the log is incomplete; the log is readable."""
    turn(own_desk, "first")
    own_desk.helper(FULL.format(3_000))
    told = turn(own_desk, "second").said
    assert told.count("The run log is not being written: file too large.") == 1
    log = logs(tmp_path)[-1]
    assert log.stat().st_size <= 3_000
    last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    assert last["type"] == "not_written" and last["lines"] > 3
    assert last["reason"] == "File too large"
    run = read_run(log)
    assert run.missing == last["lines"] and not run.is_torn
    assert "that could not be written:" in own_desk.run("%agent log show").said


def test_a_log_that_goes_on_in_mid_turn(desk: LiveKernel, tmp_path: Path) -> None:
    """If there is room again before the turn's end, the log has all lines in order."""
    desk.helper(FULL.format(2_000))
    told = turn(desk, "first", FREE).said
    assert "The run log is not being written: file too large." in told
    assert "The run log is written again, nothing is missing." in told
    lines = [json.loads(line) for line in logs(tmp_path)[-1].read_text("utf-8").splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert read_run(logs(tmp_path)[-1]).has_ended


def test_folders_that_are_removed_meanwhile(own_desk: LiveKernel, tmp_path: Path) -> None:
    """If the state folder is deleted between two turns, the whole conversation is saved."""
    turn(own_desk, "first")
    shutil.rmtree(tmp_path / ".jupyter_agent")
    turn(own_desk, "second", "import shutil\nshutil.rmtree('.jupyter_agent/sessions')")
    own_desk.restart()
    assert "is back: 2 turns" in own_desk.run("%agent resume").said
    assert "first" in own_desk.run("%agent history").said


@pytest.mark.parametrize("kind", ["file", "pipe", "no rights", "read-only"])
def test_a_state_folder_that_cannot_be_used(
    own_desk: LiveKernel, tmp_path: Path, kind: str
) -> None:
    """The turn runs, and one line says that nothing is kept and what to do."""
    state = tmp_path / ".jupyter_agent"
    if kind == "file":
        state.write_text("mine", encoding="utf-8")
    elif kind == "pipe":
        os.mkfifo(state)
    else:
        state.mkdir(mode=0o000 if kind == "no rights" else 0o500)
        own_desk.helper(NO_RIGHTS)
    try:
        for task in ("first", "second"):
            told = turn(own_desk, task, "print('x' * 200_000)").said
            assert told.count("Nothing of this turn is kept") == 1
            assert "chmod u+rwx" in told or "Move it away." in told
            assert "not being" not in told and "cannot be undone" not in told
            assert "outputs/" not in told
    finally:
        if state.is_dir():
            state.chmod(0o700)
    if kind == "file":
        assert state.read_text(encoding="utf-8") == "mine"
        state.unlink()
        assert (
            "The conversation is saved again, nothing is missing." in turn(own_desk, "third").said
        )
        own_desk.restart()
        assert "is back: 3 turns" in own_desk.run("%agent resume").said


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_something_else_in_the_folders_places(
    desk: LiveKernel, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    """A link is not followed and a pipe does not block: each gives one line, and the turn runs."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / ".jupyter_agent").mkdir()
    for name in ("sessions", "logs", "outputs"):
        place = tmp_path / ".jupyter_agent" / name
        os.mkfifo(place) if kind == "pipe" else place.symlink_to(elsewhere)
    told = turn(desk, "first", "print('x' * 200_000)").said
    for name, what in (
        ("sessions", "The conversation is not being saved"),
        ("logs", "The run log is not being written"),
        ("outputs", "Long outputs are not kept"),
    ):
        line = f"{what}: .jupyter_agent/{name} is a {kind} and no folder. Move it away."
        assert told.count(line) == 1, told
    assert not list(elsewhere.iterdir())
    assert "No turn has been logged yet." in desk.run("%agent log list").said


def test_a_pipe_in_a_files_place(desk: LiveKernel, tmp_path: Path) -> None:
    """A session file that is a pipe is refused in one line and never waited for."""
    folder = tmp_path / ".jupyter_agent/sessions"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "notebook.jsonl")
    told = turn(desk, "first").said
    line = "The conversation is not being saved: sessions/notebook.jsonl is a pipe and no file."
    assert told.count(line) == 1
    assert "is a pipe" in desk.run("%agent resume --session other").error


def old_logs(folder: Path, number: int) -> None:
    logs = folder / ".jupyter_agent/logs"
    logs.mkdir(parents=True, exist_ok=True)
    then = time.time() - 400 * 86_400
    for each in range(number):
        path = logs / f"agent_run_20240101_{each:06}.jsonl"
        path.write_text("{}\n" * 100, encoding="utf-8")
        os.utime(path, (then, then))


def test_old_logs_go_by_themselves(desk: LiveKernel, tmp_path: Path) -> None:
    """The end of a turn removes old logs for a short time; later turns remove the rest."""
    old_logs(tmp_path, 3_000)
    for _ in range(20):
        turn(desk, "a turn")
        if not list((tmp_path / ".jupyter_agent/logs").glob("agent_run_2024*")):
            break
    else:
        pytest.fail("old logs are still there")


def test_cleaning_by_command(desk: LiveKernel, tmp_path: Path) -> None:
    """The command lists or removes the files and reports them; wrong words are one line."""
    turn(desk, "first")
    old_logs(tmp_path, 3)
    own = ".jupyter_agent/sessions/notebook.jsonl"
    os.utime(tmp_path / own, (0, 0))
    stays = "What is in use or was changed within a day stays."
    shown = desk.run("%agent log clean show").said.strip()
    assert shown == f"Would be removed: 3 run logs (0.0 MB). {stays}"
    assert desk.run("%agent log clean sessions undo --all").said.strip().startswith("There is noth")
    assert desk.run("%agent log clean logs --days 500").said.strip().startswith("There is nothing")
    assert desk.run("%agent log clean").said.strip() == f"Removed: 3 run logs (0.0 MB). {stays}"
    assert len(logs(tmp_path)) == 1 and (tmp_path / own).exists()
    for words in ("logs --days 0", "--days", "--days x", "everything", "../..", "--all --days 3"):
        error = desk.run(f"%agent log clean {words}").error
        assert error.startswith("ConfigError: %agent log") and "\n" not in error, words
    assert "--days" in desk.complete("%agent log clean --d")[1]


def test_turns_that_can_be_undone(desk: LiveKernel, tmp_path: Path) -> None:
    """The command removes old undoable turns, except those of the running kernel."""
    turn(desk, "first", "open('a.txt', 'w').write('1')")
    records = list((tmp_path / ".jupyter_agent/checkpoints").glob("2*_*"))
    (record,) = records
    old = record.with_name(f"20240101_000000_000000_{record.name[-6:]}")
    shutil.copytree(record, old)
    journal = old / "journal.jsonl"
    journal.write_text(journal.read_text("utf-8").replace(record.name, old.name), "utf-8")
    aged = time.time() - 400 * 86_400
    os.utime(old, (aged, aged))
    assert "Removed: 1 undoable turn." in desk.run("%agent log clean undo").said
    assert record.exists() and not old.exists()
    desk.helper("%agent undo")
    assert not (tmp_path / "a.txt").exists()


def test_an_output_that_was_removed(desk: LiveKernel) -> None:
    """A model that reads a removed output gets one line with the reason."""
    path = ".jupyter_agent/outputs/agent_code_1.txt"
    desk.script(
        "first", {"calls": [{"name": "read_file", "arguments": {"path": path}}]}, {"text": "Gone."}
    )
    desk.run("%%agent\nfirst")
    said = desk.run("%agent history").said
    assert "any more: long outputs are kept as long as" in said


def test_a_recording_goes_on(desk: LiveKernel, tmp_path: Path) -> None:
    """A turn that could not be recorded is recorded with the next one; each says so."""
    tasks = [{"task": task, "replies": [{"text": task}]} for task in ("first", "second")]
    (tmp_path / "script.yaml").write_text(json.dumps(tasks), encoding="utf-8")
    desk.helper("%agent config provider scripted", "%agent config script script.yaml")
    desk.helper("%agent cassette work.cassette.jsonl", "%agent config mode record")
    desk.helper(FULL.format(10))
    error = desk.run("%%agent\nfirst").error
    assert "could not be recorded in work.cassette.jsonl: File too large." in error
    desk.helper(FREE)
    assert desk.run("%%agent\nsecond").status == "ok"
    assert "2 turns" in desk.run("%agent cassette").said


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A small file system that is filled and emptied again: the next kernel has all turns."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    can_mount = shutil.which("mount") is not None
    if not can_mount or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        with LiveKernel(tmp_path) as kernel:
            kernel.load("config workspace_dir disk")
            turn(kernel, "first")
            filler = disk / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            told = turn(kernel, "second", "x = 'y' * 9_000").said + turn(kernel, "third").said
            assert told.count("The conversation is not being saved: no space left on device.") == 1
            filler.unlink()
            told = turn(kernel, "fourth").said
            assert told.count("The conversation is saved again, nothing is missing.") == 1
            kernel.restart()
            kernel.helper("%agent config workspace_dir disk")
            assert "is back: 4 turns" in kernel.run("%agent resume").said
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
