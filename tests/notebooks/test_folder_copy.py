"""A folder is put back between two executions of a notebook."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.notebooks import folder_copy
from jupyter_agent.notebooks.folder_copy import FolderCopy


def tree(root: Path) -> dict[str, str]:
    """The files below a folder with their contents, and the links with their targets."""
    return {
        path.relative_to(root).as_posix(): str(path.readlink())
        if path.is_symlink()
        else path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with files, a folder, a link, a notebook and the product's own files."""
    root = tmp_path / "work"
    (root / "data").mkdir(parents=True)
    (root / "data" / "a.csv").write_text("a\n1\n", encoding="utf-8")
    (root / "notes.txt").write_text("first\n", encoding="utf-8")
    (root / "link.txt").symlink_to("notes.txt")
    (root / "book.ipynb").write_text("{}", encoding="utf-8")
    (root / ".jupyter_agent" / "logs").mkdir(parents=True)
    (root / ".jupyter_agent" / "notes.md").write_text("n\n", encoding="utf-8")
    return root


def copy_of(root: Path) -> FolderCopy:
    return FolderCopy(root, root.parent / "copy", root.parent / "aside")


def test_the_folder_is_as_it_was(root: Path) -> None:
    """Changed, new, deleted and replaced files are put back, whatever a run did to them."""
    before, copy = tree(root), copy_of(root)
    (root / "notes.txt").write_text("first\nsecond\n", encoding="utf-8")
    (root / "data" / "a.csv").unlink()
    (root / "link.txt").unlink()
    (root / "link.txt").write_text("a file now", encoding="utf-8")
    (root / "out" / "deep").mkdir(parents=True)
    (root / "out" / "deep" / "new.txt").write_text("new", encoding="utf-8")
    (root / ".jupyter_agent" / "notes.md").write_text("n\nm\n", encoding="utf-8")
    copy.put_back()
    assert tree(root) == before
    assert not (root / "out").exists()
    assert copy.complete


def test_what_a_person_works_on_is_left_alone(root: Path) -> None:
    """Notebooks, cassettes, logs and hidden folders keep what was written meanwhile."""
    copy = copy_of(root)
    (root / "book.ipynb").write_text('{"cells": []}', encoding="utf-8")
    (root / "new.cassette.jsonl").write_text("{}", encoding="utf-8")
    (root / ".jupyter_agent" / "logs" / "1.jsonl").write_text("{}", encoding="utf-8")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref", encoding="utf-8")
    now = tree(root)
    copy.put_back()
    assert tree(root) == now


def test_nothing_is_deleted(root: Path) -> None:
    """A file that a person changed between the runs is kept aside, and named."""
    copy = copy_of(root)
    (root / "notes.txt").write_text("the person's own words\n", encoding="utf-8")
    copy.put_back()
    assert copy.lost() == ["notes.txt"]
    (kept,) = (root.parent / "aside").rglob("notes.txt")
    assert kept.read_text(encoding="utf-8") == "the person's own words\n"


def test_a_file_that_each_run_makes_is_not_missed(root: Path) -> None:
    """What the second run made anew was moved aside, and nobody is told."""
    copy = copy_of(root)
    (root / "report.txt").write_text("at 12:00", encoding="utf-8")
    copy.put_back()
    (root / "report.txt").write_text("at 12:01", encoding="utf-8")
    assert copy.lost() == []


def test_a_large_folder_is_left_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with too many files is neither copied nor changed."""
    monkeypatch.setattr(folder_copy, "MOST_FILES", 2)
    copy = copy_of(root)
    (root / "notes.txt").write_text("second\n", encoding="utf-8")
    copy.put_back()
    assert not copy.complete
    assert (root / "notes.txt").read_text(encoding="utf-8") == "second\n"
    assert not (root.parent / "copy").exists()


def test_files_that_are_named_are_left_alone(root: Path) -> None:
    """A cassette of any name stays as it is now."""
    copy = copy_of(root)
    (root / "notes.txt").write_text("a cassette", encoding="utf-8")
    (root / "tape.jsonl").write_text("a new one", encoding="utf-8")
    now = tree(root)
    copy.put_back({root / "notes.txt", root / "tape.jsonl"})
    assert tree(root) == now


def test_the_configuration_is_left_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home folder, what is trusted stays as it is now."""
    store = root / "settings" / "jupyter_agent_trust.json"
    store.parent.mkdir()
    store.write_text("{}", encoding="utf-8")
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(store.parent))
    copy = copy_of(root)
    store.write_text("[]", encoding="utf-8")
    copy.put_back()
    assert store.read_text(encoding="utf-8") == "[]"
    assert copy.lost() == []


def test_a_touched_file_is_not_replaced(root: Path) -> None:
    """A file with the same content and another time stays the same file."""
    copy = copy_of(root)
    number = (root / "notes.txt").stat().st_ino
    os.utime(root / "notes.txt", (1, 1))
    copy.put_back()
    assert (root / "notes.txt").stat().st_ino == number
    assert not (root.parent / "aside").exists()


NAMES = st.sampled_from(["a", "b", "c", "sub/a", "sub/b", "other/deep/a"])
FOLDERS = st.dictionaries(NAMES, st.text("xy\n", max_size=5))


def write(root: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


@settings(max_examples=examples(200))
@given(FOLDERS, FOLDERS, FOLDERS)
def test_any_two_runs(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[str, str],
    second: dict[str, str],
    third: dict[str, str],
) -> None:
    """Whatever two runs leave, the folder is put back as it was each time."""
    root = tmp_path_factory.mktemp("generated") / "work"
    root.mkdir()
    write(root, first)
    copy = copy_of(root)
    for left in (second, third):
        for path in [path for path in root.rglob("*") if path.is_file()]:
            path.unlink()
        write(root, left)
        copy.put_back()
        assert tree(root) == first


def test_what_cannot_be_copied_is_not_touched(root: Path) -> None:
    """A pipe and its neighbours stay where they are; the other files are put back."""
    os.mkfifo(root / "zz.pipe")
    copy = copy_of(root)
    (root / "notes.txt").write_text("changed\n", encoding="utf-8")
    copy.put_back()
    assert (root / "zz.pipe").is_fifo()
    assert (root / "notes.txt").read_text(encoding="utf-8") == "first\n"
    assert not copy.is_torn


def test_copies_inside_of_the_folder(root: Path) -> None:
    """The copies may lie in the folder itself, as with TMPDIR=./tmp."""
    takes = root / "tmp" / "takes"
    takes.mkdir(parents=True)
    copy = FolderCopy(root, takes / "copy", takes / "aside")
    (root / "notes.txt").write_text("changed\n", encoding="utf-8")
    copy.put_back()
    assert (root / "notes.txt").read_text(encoding="utf-8") == "first\n"
    assert list((takes / "copy").iterdir())
