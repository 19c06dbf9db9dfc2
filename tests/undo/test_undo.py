"""Undo of files: what a turn changed is put back, what somebody else changed stays."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from undo.conftest import redo, run, tree, undo, write

from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import Checkpoints, StorageLimits
from jupyter_agent.undo.apply import CHANGED_AGAIN
from jupyter_agent.undo.differences import differences
from jupyter_agent.undo.journal import Journal, JournalRecord, Seal, before_line, read
from jupyter_agent.undo.plan import BY_A_LINK, CHANGED_BETWEEN, CHANGED_SINCE
from jupyter_agent.undo.snapshot import RACY, FileSnapshot, Fingerprint
from jupyter_agent.undo.versions import ABSENT

# What a turn did ---------------------------------------------------------------------------------


async def test_tools_and_code_are_undone_and_redone(root: Path, checkpoints: Checkpoints) -> None:
    """Changes of files by tools and by code are undone and redone."""
    (root / "notes.txt").write_text("mine\n")
    (root / "notes.txt").chmod(0o640)
    (root / "data").mkdir()
    (root / "data" / "a.csv").write_text("1,2\n")
    (root / "data" / "b.csv").write_text("3,4\n")
    before = tree(root)
    turn = checkpoints.begin("tidy up")
    await write(turn, root, "notes.txt", "the agent's\n")
    await write(turn, root, "deep/er/report.md", "# Report\n")

    def code() -> None:
        (root / "data" / "a.csv").write_text("5,6\n")
        (root / "data" / "b.csv").unlink()
        (root / "plots").mkdir()
        (root / "plots" / "p.svg").write_text("<svg/>")
        (root / "data" / "a.csv").chmod(0o600)

    run(turn, code)
    kinds = {each.path: each.kind for each in turn.touched}
    turn.end()
    after = tree(root)
    assert kinds == {
        "notes.txt": "changed",
        "deep/er/report.md": "created",
        "plots/p.svg": "created",
        "data/a.csv": "changed",
        "data/b.csv": "deleted",
    }
    assert turn.notices == ()
    undo(checkpoints)
    assert tree(root) == before
    assert not (root / "deep").exists()
    assert not (root / "plots").exists()
    redo(checkpoints)
    assert tree(root) == after
    undo(checkpoints)
    assert tree(root) == before


async def test_what_is_removed_is_in_the_trash(root: Path, checkpoints: Checkpoints) -> None:
    """A file that the turn made is not erased by an undo."""
    turn = checkpoints.begin()
    await write(turn, root, "sub/new.txt", "precious")
    turn.end()
    undone = checkpoints.apply(checkpoints.plan())
    assert not (root / "sub").exists()
    trash = root / ".jupyter_agent" / "trash" / undone.id / "sub" / "new.txt"
    assert trash.read_text("utf-8") == "precious"


async def test_several_turns(root: Path, checkpoints: Checkpoints) -> None:
    """`undo 3` goes to before the third last turn; one undo takes back all of it."""
    (root / "a.txt").write_text("0")
    states = [tree(root)]
    for number in range(1, 5):
        turn = checkpoints.begin(f"turn {number}")
        await write(turn, root, "a.txt", str(number))
        await write(turn, root, f"new{number}.txt", str(number))
        turn.end()
        states.append(tree(root))
    assert [record.task for record in checkpoints.turns()] == [
        "turn 4",
        "turn 3",
        "turn 2",
        "turn 1",
    ]
    undo(checkpoints, 3)
    assert tree(root) == states[1]
    redo(checkpoints)
    assert tree(root) == states[4]
    undo(checkpoints)
    undo(checkpoints)
    assert tree(root) == states[2]
    redo(checkpoints)
    redo(checkpoints)
    assert tree(root) == states[4]
    undo(checkpoints, 4)
    assert tree(root) == states[0]
    with pytest.raises(AgentError, match=r"There is no turn to undo\."):
        checkpoints.plan()


async def test_a_new_turn_after_an_undo(root: Path, checkpoints: Checkpoints) -> None:
    """After an undo and another turn, undo goes on before both, and there is nothing to redo."""
    (root / "a.txt").write_text("0")
    first = checkpoints.begin()
    await write(first, root, "a.txt", "1")
    first.end()
    second = checkpoints.begin()
    await write(second, root, "a.txt", "2")
    second.end()
    undo(checkpoints)
    third = checkpoints.begin()
    await write(third, root, "a.txt", "3")
    third.end()
    with pytest.raises(AgentError, match="no undo to take back"):
        checkpoints.plan_back()
    undo(checkpoints, 2)
    assert tree(root)["a.txt"][0] == "0"
    with pytest.raises(AgentError, match="no turn to undo"):
        checkpoints.plan()


def test_links_are_restored_and_not_followed(
    root: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    """A link that code replaced or made is a link to undo; what it leads to is not touched."""
    outside = tmp_path / "outside.txt"
    outside.write_text("not ours")
    (root / "link").symlink_to(outside)
    (root / "gone").symlink_to("nowhere")
    before = tree_of_links(root)
    turn = checkpoints.begin()

    def code() -> None:
        (root / "link").unlink()
        (root / "link").symlink_to("elsewhere")
        (root / "gone").unlink()
        (root / "made").symlink_to(outside)

    run(turn, code)
    turn.end()
    undo(checkpoints)
    assert tree_of_links(root) == before
    assert outside.read_text("utf-8") == "not ours"


def tree_of_links(root: Path) -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in root.iterdir() if path.is_symlink()}


def test_a_folder_that_was_moved(root: Path) -> None:
    """A large file that code moved comes back, although it is not kept; and goes again."""
    checkpoints = Checkpoints(Workspace(root), limits=StorageLimits(advance_file_bytes=10))
    (root / "raw").mkdir()
    (root / "raw" / "big.csv").write_text("x" * 1000)
    (root / "raw" / "small.csv").write_text("x")
    before = tree(root)
    turn = checkpoints.begin()
    run(turn, lambda: (root / "raw").rename(root / "old"))
    turn.end()
    after = tree(root)
    assert "old/big.csv" in after
    assert turn.notices == ()
    undo(checkpoints)
    assert tree(root) == before
    redo(checkpoints)
    assert tree(root) == after


def test_changed_twice_within_one_tick(root: Path, checkpoints: Checkpoints) -> None:
    """Of quick executions that leave files of one size the last content counts."""
    turn = checkpoints.begin()
    for number in range(30):
        run(turn, lambda number=number: (root / "a.txt").write_text(f"{number:04}"))
    turn.end()
    assert undo(checkpoints) == {"a.txt": "removed"}


def test_a_fingerprint_that_may_lie(root: Path) -> None:
    """A file changed just before a snapshot counts as changed, whatever its later times;
    one changed long before does not.
    """
    now = time.time_ns()
    fingerprints = {
        "old.txt": Fingerprint(1, now - 10**9, 0, 7, 0o100644),
        "new.txt": Fingerprint(1, now, 0, 8, 1),
    }
    snapshot = FileSnapshot(fingerprints, {}, True, now)
    assert differences(snapshot, snapshot, root) == {"new.txt": "changed"}


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """No file can grow beyond a size, as on a disk that is full."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_could_not_be_kept_is_tried_again(root: Path, checkpoints: Checkpoints) -> None:
    """After a full disk the files are kept before the next execution."""
    precious = "precious\n" * 1_000
    (root / "a.txt").write_text(precious)
    time.sleep(2 * RACY / 1e9)  # a file that was changed just before is kept anew in any case
    turn = checkpoints.begin()
    with full_at(2_000):
        run(turn, lambda: None)
    run(turn, lambda: None)
    run(turn, lambda: (root / "a.txt").write_text("overwritten"))
    turn.end()
    assert undo(checkpoints) == {"a.txt": "restored"}
    assert (root / "a.txt").read_text("utf-8") == precious


def test_a_line_that_was_half_written(tmp_path: Path) -> None:
    """A half-written line on a full disk is an error and damages no other line."""
    seal = Seal(b"secret", tmp_path)
    journal = Journal(tmp_path / "r", JournalRecord("r"), seal)
    path = tmp_path / "r" / "journal.jsonl"
    with full_at(path.stat().st_size + 10), pytest.raises(OSError, match="too large"):
        journal.write(before_line("precious.csv", ABSENT, 0))
    assert journal.record.entries == {}
    journal.write(before_line("a.csv", ABSENT, 0))
    stored = read(tmp_path / "r", seal)
    assert stored is not None
    assert list(stored.entries) == ["a.csv"]


async def test_the_clock_was_set_back(root: Path, checkpoints: Checkpoints) -> None:
    """A turn comes after those that are there, whatever the clock says."""
    first = checkpoints.begin("first")
    await write(first, root, "a.txt", "1")
    first.end()
    folder = root / ".jupyter_agent" / "checkpoints"
    later = f"29991231_235959_999999{first.id[-7:]}"
    move_in_time(folder, first.id, later)
    second = checkpoints.begin("second")
    await write(second, root, "a.txt", "2")
    second.end()
    assert [record.task for record in checkpoints.turns()] == ["second", "first"]
    undo(checkpoints)
    assert (root / "a.txt").read_text() == "1"


def move_in_time(folder: Path, name: str, later: str) -> None:
    """Give a record another date, as if it had been written by a clock that was ahead."""
    seal = Seal(trust.personal_key(), folder.parent.parent)
    path = folder / name / "journal.jsonl"
    lines = [seal.opened(name, line) for line in path.read_bytes().splitlines()]
    lines = [line.replace(name.encode(), later.encode()) for line in lines]
    path.write_bytes(b"".join(seal.closed(later, line) + b"\n" for line in lines))
    (folder / name).rename(folder / later)


async def test_a_tool_called_by_code(root: Path, checkpoints: Checkpoints) -> None:
    """A file changed by code and by a tool that it calls is restored to before both."""
    (root / "a.txt").write_text("mine")
    turn = checkpoints.begin()
    with turn.code():
        (root / "a.txt").write_text("code's")
        await write(turn, root, "a.txt", "tool's")
        (root / "b.txt").write_text("code's")
        await write(turn, root, "b.txt", "tool's")
        await write(turn, root, "c.txt", "tool's")
        (root / "c.txt").write_text("code's")
    turn.end()
    before = tree(root)
    undo(checkpoints)
    assert {name: text for name, (text, _) in tree(root).items()} == {"a.txt": "mine"}
    redo(checkpoints)
    assert tree(root) == before


def test_nothing_happened(root: Path, checkpoints: Checkpoints) -> None:
    """Undoing a turn without changes changes nothing, and the turn counts as undone."""
    (root / "a.txt").write_text("mine")
    turn = checkpoints.begin()
    run(turn, (root / "a.txt").read_text)
    run(turn, lambda: (root / "a.txt").write_text("mine"))
    turn.end()
    assert turn.touched == ()
    assert undo(checkpoints) == {}
    assert checkpoints.turns() == []


# What somebody else did --------------------------------------------------------------------------


async def test_changed_after_the_turn(root: Path, checkpoints: Checkpoints) -> None:
    """A file that the person changed after the turn is left, with a diff; the others go back."""
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "b.txt").write_text("b\n")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "one\nTWO\n")
    await write(turn, root, "b.txt", "B\n")
    await write(turn, root, "c.txt", "C\n")
    turn.end()
    (root / "a.txt").write_text("one\nTWO\nthree, by me\n")
    (root / "c.txt").write_text("mine now\n")
    undone = checkpoints.apply(checkpoints.plan())
    found = {done.path: (done.outcome, done.why) for done in undone.steps}
    assert found == {
        "a.txt": ("conflict", CHANGED_SINCE),
        "b.txt": ("restored", ""),
        "c.txt": ("conflict", CHANGED_SINCE),
    }
    (diff,) = [done.diff for done in undone.steps if done.path == "a.txt"]
    assert "-TWO\n-three, by me\n+two" in diff
    assert tree(root)["a.txt"][0] == "one\nTWO\nthree, by me\n"
    assert tree(root)["c.txt"][0] == "mine now\n"


async def test_over_what_somebody_changed(root: Path, checkpoints: Checkpoints) -> None:
    """A file in conflict is restored on request, and the restoration can be undone."""
    (root / "a.txt").write_text("old")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "new")
    turn.end()
    (root / "a.txt").write_text("by me")
    checkpoints.apply(checkpoints.plan(over=["a.txt"]))
    assert (root / "a.txt").read_text() == "old"
    redo(checkpoints)
    assert (root / "a.txt").read_text() == "by me"


async def test_changed_between_turns(root: Path, checkpoints: Checkpoints) -> None:
    """What the person changed between two turns is not lost by undoing both."""
    (root / "a.txt").write_text("0")
    first = checkpoints.begin()
    await write(first, root, "a.txt", "1")
    first.end()
    (root / "a.txt").write_text("1, and mine")
    second = checkpoints.begin()
    await write(second, root, "a.txt", "2")
    second.end()
    (step,) = checkpoints.plan(2).steps
    assert (step.outcome, step.why) == ("conflict", CHANGED_BETWEEN)
    assert undo(checkpoints) == {"a.txt": "restored"}
    assert (root / "a.txt").read_text() == "1, and mine"
    assert undo(checkpoints) == {"a.txt": "conflict"}


@pytest.mark.parametrize("by", ["tool", "code"])
async def test_changed_in_the_middle_of_a_turn(
    root: Path, checkpoints: Checkpoints, by: str
) -> None:
    """What the person changed while the model was thinking is not lost, either."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("1"))
    (root / "a.txt").write_text("mine, meanwhile")
    if by == "tool":
        await write(turn, root, "a.txt", "2")
    else:
        run(turn, lambda: (root / "a.txt").write_text("2"))
    turn.end()
    (step,) = checkpoints.plan().steps
    assert step.outcome == "conflict"
    assert "in the middle of the turn" in step.why


def test_what_the_person_makes_meanwhile_is_not_the_turns(
    root: Path, checkpoints: Checkpoints
) -> None:
    """Files that change while no code runs do not belong to the turn."""
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.txt").write_text("1"))
    (root / "mine.txt").write_text("mine")
    run(turn, lambda: (root / "b.txt").write_text("1"))
    turn.end()
    undo(checkpoints)
    assert {name: text for name, (text, _) in tree(root).items()} == {"mine.txt": "mine"}


async def test_changed_while_it_is_planned(root: Path, checkpoints: Checkpoints) -> None:
    """A file that changes between the plan and its execution is left."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "1")
    turn.end()
    plan = checkpoints.plan()
    (root / "a.txt").write_text("mine")
    (done,) = checkpoints.apply(plan).steps
    assert (done.outcome, done.why) == ("conflict", CHANGED_AGAIN)
    assert (root / "a.txt").read_text() == "mine"


def test_a_notebook_that_the_front_end_saves(root: Path, checkpoints: Checkpoints) -> None:
    """A notebook that is saved while code runs is the person's."""
    (root / "a.ipynb").write_text("{}")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "a.ipynb").write_text('{"cells": []}'))
    turn.end()
    assert checkpoints.plan().steps == ()


def test_coming_into_view_is_not_being_made(root: Path, checkpoints: Checkpoints) -> None:
    """Files that git ignored until code edited `.gitignore` do not belong to the turn."""
    (root / ".gitignore").write_text("private/\n")
    (root / "private").mkdir()
    (root / "private" / "mine.txt").write_text("mine")
    long_ago = 1_600_000_000
    os.utime(root / "private" / "mine.txt", (long_ago, long_ago))
    turn = checkpoints.begin()
    time.sleep(0.06)  # the file's inode was changed just now
    run(turn, lambda: (root / ".gitignore").write_text("# nothing\n"))
    turn.end()
    assert undo(checkpoints) == {".gitignore": "restored"}
    assert (root / "private" / "mine.txt").read_text() == "mine"


def test_ignore_rules_of_a_moment_ago(root: Path, checkpoints: Checkpoints) -> None:
    """A `.gitignore` written just before code runs does not hide the folders that code makes."""
    turn = checkpoints.begin()
    (root / ".gitignore").write_text("*.log\n")
    run(turn, (root / "sub").mkdir)
    turn.end()
    assert undo(checkpoints) == {"sub": "removed"}
    assert not (root / "sub").exists()


# What cannot be restored -------------------------------------------------------------------------


async def test_too_large_to_keep(root: Path) -> None:
    """A file beyond the limits is not kept, and a notice says so when it changes."""
    limits = StorageLimits(file_bytes=100, advance_file_bytes=100)
    checkpoints = Checkpoints(Workspace(root), limits=limits)
    (root / "tool.txt").write_text("x" * 200)
    (root / "code.txt").write_text("x" * 200)
    (root / "small.txt").write_text("x")
    turn = checkpoints.begin()
    await write(turn, root, "tool.txt", "new")
    run(turn, lambda: [(root / n).write_text("new") for n in ("code.txt", "small.txt")])
    assert turn.notices == (
        "tool.txt: cannot be restored, since larger than 100 bytes",
        "code.txt: cannot be restored, since it was not kept before code ran",
    )
    turn.end()
    found = {step.path: (step.outcome, step.why) for step in checkpoints.plan().steps}
    assert found == {
        "tool.txt": ("not_restorable", "larger than 100 bytes"),
        "code.txt": ("not_restorable", "it was not kept before code ran"),
        "small.txt": ("restored", ""),
    }
    undo(checkpoints)
    assert (root / "tool.txt").read_text() == "new"


async def test_a_large_file_goes_to_the_trash_before_it_is_written_over(root: Path) -> None:
    """What a turn left is too large to keep: undo moves it away, redo brings it back."""
    checkpoints = Checkpoints(Workspace(root), limits=StorageLimits(file_bytes=100))
    (root / "a.txt").write_text("small")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "x" * 200)
    turn.end()
    assert undo(checkpoints) == {"a.txt": "restored"}
    assert (root / "a.txt").read_text() == "small"
    assert redo(checkpoints) == {"a.txt": "restored"}
    assert (root / "a.txt").read_text() == "x" * 200


async def test_the_oldest_turns_are_dropped(root: Path) -> None:
    """All together stays within the limit; the latest turns can still be undone."""
    limits = StorageLimits(total_bytes=10_000)
    checkpoints = Checkpoints(Workspace(root), limits=limits)
    (root / "a.txt").write_text("0" * 1_000)
    for number in range(1, 31):
        turn = checkpoints.begin()
        await write(turn, root, "a.txt", f"{number:02}" * 500)
        turn.end()
        assert turn.notices == ()
    kept = sum(p.stat().st_size for p in blobs(root))
    assert kept <= 10_000
    assert len(checkpoints.turns()) == 10
    undo(checkpoints, 10)
    assert (root / "a.txt").read_text() == "20" * 500


async def test_the_number_of_turns_is_limited(root: Path) -> None:
    """Only the limited number of turns is kept."""
    checkpoints = Checkpoints(Workspace(root), limits=StorageLimits(records=3))
    for number in range(6):
        turn = checkpoints.begin()
        await write(turn, root, "a.txt", str(number))
        turn.end()
    assert len(checkpoints.turns()) == 3
    with pytest.raises(AgentError, match=r"There are only 3 turns to undo, not 4\."):
        checkpoints.plan(4)


def test_what_nobody_needs_is_swept_away(root: Path, checkpoints: Checkpoints) -> None:
    """Contents kept in advance stay as long as the files are unchanged, and no longer."""
    for number in range(4):
        (root / "a.txt").write_text(str(number))
        time.sleep(0.06)  # of what was changed just now it is not known what it will be
        turn = checkpoints.begin()
        run(turn, lambda: None)
        turn.end()
    assert len(blobs(root)) == 1


def blobs(root: Path) -> list[Path]:
    folder = root / ".jupyter_agent" / "checkpoints" / "blobs"
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_damaged_content_is_not_put_back(root: Path, checkpoints: Checkpoints) -> None:
    """A kept content that does not match its digest any more is never restored."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "1")
    turn.end()
    for blob in blobs(root):
        blob.write_text("damaged")
    assert undo(checkpoints) == {"a.txt": "failed"}
    assert (root / "a.txt").read_text() == "1"


def test_a_folder_became_a_link(root: Path, checkpoints: Checkpoints, tmp_path: Path) -> None:
    """If a folder became a link out of the workspace, nothing is written there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("1")
    (root / "sub").mkdir()
    (root / "sub" / "a.txt").write_text("0")
    turn = checkpoints.begin()
    run(turn, lambda: (root / "sub" / "a.txt").write_text("1"))
    turn.end()
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(outside)
    (step,) = checkpoints.plan().steps
    assert (step.outcome, step.why) == ("not_restorable", BY_A_LINK)
    undo(checkpoints)
    assert (outside / "a.txt").read_text() == "1"


async def test_the_trash_is_a_link(root: Path, checkpoints: Checkpoints, tmp_path: Path) -> None:
    """Nothing is moved into a trash that links out of the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    turn = checkpoints.begin()
    await write(turn, root, "a.txt", "1")
    turn.end()
    (root / ".jupyter_agent" / "trash").symlink_to(outside)
    assert undo(checkpoints) == {"a.txt": "failed"}
    assert (root / "a.txt").read_text() == "1"
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written(root: Path, checkpoints: Checkpoints) -> None:
    """What the system refuses is told, and the rest goes back."""
    (root / "sub").mkdir()
    turn = checkpoints.begin()
    await write(turn, root, "sub/a.txt", "1")
    await write(turn, root, "b.txt", "1")
    turn.end()
    (root / "sub").chmod(0o500)
    assert undo(checkpoints) == {"sub/a.txt": "failed", "b.txt": "removed"}


# The store ---------------------------------------------------------------------------------------


async def test_one_notebook_does_not_undo_anothers(root: Path) -> None:
    """Two kernels share the folder, and each undoes its own turns."""
    one, other = (Checkpoints(Workspace(root), name) for name in ("one.ipynb", "other.ipynb"))
    first, second = one.begin(), other.begin()
    assert first.id != second.id
    await write(first, root, "one.txt", "1")
    await write(second, root, "other.txt", "1")
    with pytest.raises(AgentError, match="still running"):
        one.plan()
    second.end()
    first.end()
    assert undo(one) == {"one.txt": "removed"}
    assert list(tree(root)) == ["other.txt"]
    assert undo(other) == {"other.txt": "removed"}


async def test_many_kernels_at_once(root: Path) -> None:
    """Many stores in threads give unique ids and lose nothing."""
    ids: list[str] = []

    def kernel(number: int) -> None:
        checkpoints = Checkpoints(Workspace(root), f"{number}.ipynb")
        for step in range(5):
            turn = checkpoints.begin()
            ids.append(turn.id)
            path = root / f"{number}.txt"
            turn.before_write(path, str(step).encode())
            atomic_write(path, str(step).encode())
            turn.end()
            assert turn.notices == ()

    threads = [threading.Thread(target=kernel, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 20
    for number in range(4):
        undo(Checkpoints(Workspace(root), f"{number}.ipynb"), 4)
        assert (root / f"{number}.txt").read_text() == "0"


def test_a_state_folder_that_leads_out(root: Path, tmp_path: Path) -> None:
    """No checkpoint is written through a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / ".jupyter_agent").mkdir()
    (root / ".jupyter_agent" / "checkpoints").symlink_to(outside)
    with pytest.raises(ConfigError, match="is a link"):
        Checkpoints(Workspace(root))


async def test_a_store_that_cannot_be_written_stops_no_turn(
    root: Path, checkpoints: Checkpoints
) -> None:
    """If the checkpoints' folder vanishes in mid-turn, tools go on, with a notice."""
    (root / "a.txt").write_text("0")
    turn = checkpoints.begin()
    shutil.rmtree(root / ".jupyter_agent" / "checkpoints")
    await write(turn, root, "a.txt", "1")
    turn.end()
    assert (root / "a.txt").read_text() == "1"
    assert any("a.txt: what was there before could not be kept" in each for each in turn.notices)


def test_names_that_are_no_utf8(root: Path, checkpoints: Checkpoints) -> None:
    """Files may have any name that the system takes."""
    names = [b"caf\xe9.txt", "línea\nnueva".encode(), b'quote"\\back']
    paths = [root / os.fsdecode(name) for name in names]
    for path in paths:
        path.write_text("0")
    turn = checkpoints.begin()
    run(turn, lambda: [path.write_text("1") for path in paths])
    turn.end()
    undo(checkpoints)
    assert [path.read_text() for path in paths] == ["0"] * 3


# A law -------------------------------------------------------------------------------------------

PATHS = ["a.txt", "b.txt", "d/c.txt", "d/e/f.txt"]
TEXTS = st.sampled_from(["", "x", "y", "longer text\n", "z" * 300])
CHANGE = st.one_of(
    st.tuples(st.just("tool"), st.sampled_from(PATHS), TEXTS),
    st.tuples(st.just("write"), st.sampled_from(PATHS), TEXTS),
    st.tuples(st.just("delete"), st.sampled_from(PATHS), st.just("")),
    st.tuples(st.just("move"), st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.tuples(st.just("mode"), st.sampled_from(PATHS), st.sampled_from(["600", "644", "755"])),
)
Change = tuple[str, str, str]


def change_by_code(root: Path, kind: str, path: str, what: str) -> None:
    target = root / path
    if kind == "write":
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(what)
    elif not target.exists():
        return
    elif kind == "delete":
        target.unlink()
    elif kind == "move":
        (root / what).parent.mkdir(parents=True, exist_ok=True)
        target.rename(root / what)
    elif kind == "mode":
        target.chmod(int(what, 8))


def play(checkpoints: Checkpoints, root: Path, changes: list[Change]) -> None:
    turn = checkpoints.begin()
    for kind, path, what in changes:
        if kind == "tool":
            data, target = what.encode(), root / path
            turn.before_write(target, data)
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(target, data)
        else:
            run(turn, lambda args=(kind, path, what): change_by_code(root, *args))
    turn.end()


@settings(max_examples=examples(60), deadline=None)
@given(
    turns=st.lists(st.lists(CHANGE, max_size=5), min_size=1, max_size=4),
    back=st.lists(st.integers(1, 4), max_size=4),
)
def test_undo_and_redo_are_exact(turns: list[list[Change]], back: list[int]) -> None:
    """Whatever turns did, undo gives each earlier tree exactly, and redo the later ones."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for path in PATHS[:2]:
            (root / path).write_text(f"the first {path}")
        checkpoints = Checkpoints(Workspace(root))
        trees = [tree(root)]
        for changes in turns:
            play(checkpoints, root, changes)
            trees.append(tree(root))
        now, done = len(turns), []
        for count in back:
            if count > now:
                continue
            undo(checkpoints, count)
            done.append((now, now - count))
            now -= count
            assert tree(root) == trees[now]
        for before, after in reversed(done):
            assert after == now
            redo(checkpoints)
            now = before
            assert tree(root) == trees[now]


@settings(max_examples=examples(60), deadline=None)
@given(
    turns=st.lists(
        st.tuples(st.lists(CHANGE, max_size=4), st.dictionaries(st.sampled_from(PATHS), TEXTS)),
        min_size=1,
        max_size=4,
    ),
    back=st.integers(1, 4),
)
def test_what_the_person_wrote_last_stays(
    turns: list[tuple[list[Change], dict[str, str]]], back: int
) -> None:
    """The person edits files between turns: an undo leaves each file that is as they left it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        checkpoints = Checkpoints(Workspace(root))
        mine: dict[str, str] = {}
        for number, (changes, edits) in enumerate(turns):
            play(checkpoints, root, changes)
            for path, text in edits.items():
                mine[path] = f"by me, after turn {number}: {text}"
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(mine[path])
        now = {name: text for name, (text, _) in tree(root).items()}
        undo(checkpoints, min(back, len(turns)))
        after = {name: text for name, (text, _) in tree(root).items()}
        for path, text in mine.items():
            if now.get(path) == text:
                assert after.get(path) == text


def test_permissions_of_what_is_restored(root: Path, checkpoints: Checkpoints) -> None:
    """Permission bits come back with the content, and where they alone had changed."""
    script, other = root / "run.sh", root / "other.sh"
    for path in (script, other):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o750)
    turn = checkpoints.begin()

    def code() -> None:
        script.unlink()
        other.chmod(0o400)

    run(turn, code)
    turn.end()
    undo(checkpoints)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (script, other)] == [0o750, 0o750]
