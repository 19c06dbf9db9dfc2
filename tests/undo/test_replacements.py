"""Undo of replacements: files by folders, folders by files, links, names, empty folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from undo.conftest import redo, run, undo

from jupyter_agent.undo import Checkpoints
from jupyter_agent.undo.apply import NOT_EMPTY
from jupyter_agent.undo.plan import BY_A_FILE, BY_A_LINK


def everything(root: Path) -> dict[str, tuple[str, int]]:
    """Every file, link and folder of the person's, with its permissions."""
    found = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name.startswith(".jupyter_agent"):
            continue
        if path.is_symlink():
            text = f"-> {path.readlink()}"
        else:
            text = "folder" if path.is_dir() else path.read_text("utf-8")
        found[name] = text, path.lstat().st_mode & 0o777
    return found


def fill(root: Path) -> None:
    """What is there before: a file, folders at two depths, a link, an empty folder."""
    (root / "fd").write_text("a file")
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "dir" / "a.txt").write_text("a")
    (root / "dir" / "sub" / "b.txt").write_text("b")
    (root / "link").symlink_to("fd")
    (root / "folderlink").symlink_to("dir")
    (root / "empty").mkdir()
    (root / "private").mkdir(mode=0o700)
    (root / "private" / "key.txt").write_text("secret")


def file_to_folder(root: Path) -> None:
    (root / "fd").unlink()
    (root / "fd" / "deep" / "er").mkdir(parents=True)
    (root / "fd" / "deep" / "x.txt").write_text("x")
    (root / "fd" / "y.txt").write_text("y")


def folder_to_file(root: Path) -> None:
    shutil.rmtree(root / "dir")
    (root / "dir").write_text("now a file")


def folder_to_link(root: Path) -> None:
    shutil.rmtree(root / "dir")
    (root / "dir").symlink_to("private")


def link_to_folder(root: Path) -> None:
    (root / "folderlink").unlink()
    (root / "folderlink").mkdir()
    (root / "folderlink" / "a.txt").write_text("in a real folder")


def file_to_link(root: Path) -> None:
    (root / "fd").unlink()
    (root / "fd").symlink_to("dir")


def link_to_file(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").write_text("a file now")


def file_to_empty_folder(root: Path) -> None:
    (root / "fd").unlink()
    (root / "fd").mkdir()


def empty_folders(root: Path) -> None:
    (root / "empty").rmdir()
    (root / "made" / "below").mkdir(parents=True)


def private_gone(root: Path) -> None:
    shutil.rmtree(root / "private")


def case(root: Path) -> None:
    (root / "fd").rename(root / "FD")
    (root / "dir").rename(root / "Dir")


def swapped(root: Path) -> None:
    (root / "fd").rename(root / "aside")
    (root / "dir").rename(root / "fd")
    (root / "aside").rename(root / "dir")


def nested(root: Path) -> None:
    (root / "dir" / "a.txt").unlink()
    (root / "dir" / "a.txt").mkdir()
    shutil.move(root / "dir" / "sub", root / "dir" / "a.txt" / "sub")
    (root / "dir" / "sub").write_text("a file")
    (root / "fd").rename(root / "dir" / "a.txt" / "fd")
    (root / "fd").mkdir()
    (root / "fd" / "fd").write_text("another")


def into_itself(root: Path) -> None:
    (root / "fd").rename(root / "aside")
    (root / "fd").mkdir()
    (root / "aside").rename(root / "fd" / "fd")


CHANGES = [
    *(file_to_folder, folder_to_file, folder_to_link, link_to_folder, file_to_link, link_to_file),
    *(file_to_empty_folder, empty_folders, private_gone, case, swapped, nested, into_itself),
]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("change", CHANGES)
def test_there_and_back(
    root: Path, checkpoints: Checkpoints, change: Callable[[Path], None], large: bool
) -> None:
    """Each replacement is undone, redone and undone again, to the byte and the permission."""
    fill(root)
    if large and change in (swapped, into_itself, case):
        (root / "fd").write_text("x" * 2_000_000)  # not kept in advance: it has to be moved
    before = everything(root)
    turn = checkpoints.begin()
    run(turn, lambda: change(root))
    turn.end()
    after = everything(root)
    assert after != before
    for _ in range(2):
        assert set(undo(checkpoints).values()) <= {"restored", "removed"}
        assert everything(root) == before
        assert set(redo(checkpoints).values()) <= {"restored", "removed"}
        assert everything(root) == after


def test_all_of_it_in_two_turns(root: Path, checkpoints: Checkpoints) -> None:
    """Replacements on top of replacements, undone at once and one by one."""
    fill(root)
    states = [everything(root)]
    for changes in ((file_to_folder, folder_to_link, empty_folders), (private_gone,)):
        turn = checkpoints.begin()
        for change in changes:
            run(turn, lambda change=change: change(root))
        turn.end()
        states.append(everything(root))
    turn = checkpoints.begin()
    run(turn, lambda: (shutil.rmtree(root / "fd"), (root / "fd").write_text("a file again")))
    turn.end()
    states.append(everything(root))
    undo(checkpoints, 3)
    assert everything(root) == states[0]
    redo(checkpoints)
    assert everything(root) == states[3]
    for number in (2, 1, 0):
        undo(checkpoints)
        assert everything(root) == states[number]


def test_a_folder_with_files_of_others(root: Path, checkpoints: Checkpoints) -> None:
    """A folder in a file's place that holds a person's file stays, and is named."""
    fill(root)
    turn = checkpoints.begin()
    run(turn, lambda: file_to_folder(root))
    turn.end()
    (root / "fd" / "mine.txt").write_text("mine")
    undone = checkpoints.apply(checkpoints.plan())
    assert [(done.path, done.why) for done in undone.steps if done.why] == [("fd", NOT_EMPTY)]
    assert (root / "fd" / "mine.txt").read_text() == "mine"


def test_a_file_in_the_folders_place(root: Path, checkpoints: Checkpoints) -> None:
    """If the person wrote a file in a folder's place again, the folder's files stay away."""
    fill(root)
    turn = checkpoints.begin()
    run(turn, lambda: folder_to_file(root))
    turn.end()
    (root / "dir").write_text("mine")
    found = {step.path: step.why for step in checkpoints.plan().steps}
    assert found["dir/a.txt"] == found["dir/sub/b.txt"] == BY_A_FILE
    undo(checkpoints)
    assert (root / "dir").read_text() == "mine"


def test_a_link_that_the_person_made(root: Path, checkpoints: Checkpoints, tmp_path: Path) -> None:
    """Nothing is written through a person's link in a folder's place."""
    fill(root)
    (tmp_path / "outside").mkdir()
    turn = checkpoints.begin()
    run(turn, lambda: folder_to_link(root))
    turn.end()
    (root / "dir").unlink()
    (root / "dir").symlink_to(tmp_path / "outside")
    found = {step.path: step.why for step in checkpoints.plan().steps}
    assert found["dir/a.txt"] == BY_A_LINK
    undo(checkpoints)
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_failed_can_be_tried_again(root: Path, checkpoints: Checkpoints) -> None:
    """A failed file is named, its turn stays open, and a second undo restores it."""
    (root / "a.txt").write_text("0")
    (root / "b.txt").write_text("0")
    turn = checkpoints.begin()
    run(turn, lambda: [(root / name).write_text("1") for name in ("a.txt", "b.txt")])
    turn.end()
    blobs = root / ".jupyter_agent" / "checkpoints" / "blobs"
    kept = {path: path.read_bytes() for path in blobs.rglob("*") if path.is_file()}
    for path in kept:
        path.write_text("damaged")
    assert undo(checkpoints) == {"a.txt": "failed", "b.txt": "failed"}
    assert len(checkpoints.turns()) == 1
    for path, data in kept.items():
        path.write_bytes(data)
    assert undo(checkpoints) == {"a.txt": "restored", "b.txt": "restored"}
    assert checkpoints.turns() == []
    redo(checkpoints)
    assert (root / "a.txt").read_text() == "1"


def test_times_come_back(root: Path, checkpoints: Checkpoints) -> None:
    """A file that is put back has the time of its last change again; redo, too."""
    (root / "a.txt").write_text("0")
    (root / "gone.txt").write_text("0")
    for name in ("a.txt", "gone.txt"):
        os.utime(root / name, ns=(10**18, 10**18))
    turn = checkpoints.begin()
    run(turn, lambda: ((root / "a.txt").write_text("1"), (root / "gone.txt").unlink()))
    turn.end()
    later = (root / "a.txt").stat().st_mtime_ns
    undo(checkpoints)
    assert {(root / name).stat().st_mtime_ns for name in ("a.txt", "gone.txt")} == {10**18}
    redo(checkpoints)
    assert (root / "a.txt").stat().st_mtime_ns == later


def test_special_bits_are_not_put_back(root: Path, checkpoints: Checkpoints) -> None:
    """A file that was setuid is restored without that bit."""
    (root / "tool").write_text("0")
    (root / "tool").chmod(0o4755)
    turn = checkpoints.begin()
    run(turn, (root / "tool").unlink)
    turn.end()
    assert undo(checkpoints) == {"tool": "restored"}
    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o755
