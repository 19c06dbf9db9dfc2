"""Files that many processes write: who holds a lock, and data that is set aside."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from jupyter_agent.files.shared import is_locked, set_aside


def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    """Asking neither makes the file nor takes the lock away."""
    path = tmp_path / "work.lock"
    assert not is_locked(path) and not path.exists()
    with FileLock(path):
        assert is_locked(path) and is_locked(path)
    assert not is_locked(path)


def test_what_is_no_lock_file_counts_as_held(tmp_path: Path) -> None:
    """A folder, and a link to a file that nobody holds."""
    (tmp_path / "file").touch()
    (tmp_path / "link.lock").symlink_to(tmp_path / "file")
    (tmp_path / "folder.lock").mkdir()
    assert is_locked(tmp_path / "link.lock") and is_locked(tmp_path / "folder.lock")


def test_data_set_aside_has_a_name_of_its_own(tmp_path: Path) -> None:
    """However often that happens within a second; a part is copied, a whole file is moved."""
    path = tmp_path / "work.jsonl"
    aside = []
    for number in range(3):
        path.write_text(str(number), "utf-8")
        aside.append(set_aside(path, why="foreign"))
    assert not path.exists()
    assert [each.read_text("utf-8") for each in aside] == ["0", "1", "2"]
    assert all(each.name.startswith("work.jsonl.foreign-") for each in aside)
    path.write_text("whole, torn", "utf-8")
    assert set_aside(path, b"torn").read_bytes() == b"torn"
    assert path.read_text("utf-8") == "whole, torn"
