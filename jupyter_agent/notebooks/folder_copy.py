"""Puts a folder back between two executions of a notebook that must find the same files."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.files.atomic import STATE_FOLDER

MOST_FILES, MOST_BYTES = 20_000, 1_000_000_000
"""The largest folder that is put back."""
_SKIPPED = frozenset({"venv", "node_modules", "__pycache__"})
_OWN = frozenset({"logs", "sessions", "checkpoints", "outputs"})
"""What the product itself writes during each turn, and no turn reads."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was: its state on the disk, and its copy or the target of a link."""

    size: int
    changed: int
    copy: Path | None
    target: str = ""


class FolderCopy:
    """A copy of a folder's files, to put them back as they were.

    Notebooks and cassettes are left alone: a person may work on them meanwhile. What is replaced or
    removed is moved to `aside`, never deleted.

    Args:
        root: The folder.
        place: An empty folder for the copy.
        aside: A folder for the files that are replaced or removed.

    Attributes:
        complete: False if the folder is too large, or is that for temporary files: then nothing is
            put back.
        is_torn: True after files could not be put back; their copies are in `place`.
    """

    def __init__(self, root: Path, place: Path, aside: Path) -> None:
        self._root = root
        self._place = place
        self._aside = aside
        self._moved: list[str] = []
        self._skipped = {Path(jupyter_config_dir()).resolve(), place.parent.resolve()}
        self._files: dict[str, _File] = {}
        self._unknown: set[str] = set()
        self.is_torn = False
        # Other programs write into the folder for temporary files, too.
        is_shared = root.resolve() == Path(tempfile.gettempdir()).resolve()
        self.complete = not is_shared and self._is_small()
        if self.complete:
            for number, path in enumerate(self._walk()):
                try:
                    self._files[self._name(path)] = self._keep(path, number)
                except OSError:
                    self._unknown.add(self._name(path))

    def _is_small(self) -> bool:
        size = 0
        for number, path in enumerate(self._walk(), 1):
            with suppress(OSError):
                size += path.lstat().st_size
            if number > MOST_FILES or size > MOST_BYTES:
                return False
        return True

    def _keep(self, path: Path, number: int) -> _File:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return _File(0, 0, None, os.readlink(path))  # noqa: PTH115 (a text as it stands)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path.name} is no file")
        copy = self._place / str(number)
        self._place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
        return _File(found.st_size, found.st_mtime_ns, copy)

    def put_back(self, leaving: Collection[Path] = ()) -> None:
        """Make the files what they were, but for those of `leaving`.

        Raises:
            OSError: A file cannot be written.
        """
        if not self.complete:
            return
        left = {path.resolve() for path in leaving}
        failed: list[str] = []
        present = {self._name(path): path for path in self._walk() if path.resolve() not in left}
        for name in sorted({*self._files, *present} - self._unknown):
            path, file = self._root / name, self._files.get(name)
            if path.resolve() in left:
                continue
            try:
                self._put_back_one(path, file)
            except OSError:
                failed.append(name)
        if failed:
            self.is_torn = True
            raise OSError(f"{', '.join(failed[:3])}; the copies are in {self._place}")

    def _put_back_one(self, path: Path, file: _File | None) -> None:
        if os.path.lexists(path):
            if file is not None and self._is_same(path, file):
                return
            if not (path.is_symlink() or path.is_file()):
                return  # a pipe or a folder that the run made: nothing of a person's
            self._set_aside(path)
        if file is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.copy is None:
            path.symlink_to(file.target)
        else:
            shutil.copy2(file.copy, path)

    def lost(self) -> list[str]:
        """The files that were moved aside and that somebody may miss.

        Not those that each run makes anew, and not the product's own.
        """
        return [
            name
            for name in dict.fromkeys(self._moved)
            if not name.startswith(STATE_FOLDER)
            and (name in self._files or not os.path.lexists(self._root / name))
        ]

    def _is_same(self, path: Path, file: _File) -> bool:
        found = path.lstat()
        if file.copy is None:
            is_link = stat.S_ISLNK(found.st_mode)
            return is_link and os.readlink(path) == file.target  # noqa: PTH115
        if (found.st_size, found.st_mtime_ns) == (file.size, file.changed):
            return True
        return found.st_size == file.size and path.read_bytes() == file.copy.read_bytes()

    def _set_aside(self, path: Path) -> None:
        name = self._name(path)
        target = self._aside / str(len(self._moved) + 1) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        self._moved.append(name)
        folder = path.parent
        while folder != self._root and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _walk(self) -> Iterator[Path]:
        """The files and links of the folder, without notebooks, cassettes and hidden folders."""
        for folder, folders, names in os.walk(self._root):
            here = Path(folder)
            own = _OWN if here.name == STATE_FOLDER else frozenset[str]()
            linked = [name for name in folders if (here / name).is_symlink()]
            folders[:] = [
                name
                for name in sorted(folders)
                if name not in {*_SKIPPED, *own, *linked}
                and (name == STATE_FOLDER or not name.startswith("."))
                and (here / name).resolve() not in self._skipped
            ]
            for name in (*sorted(names), *linked):
                if not name.endswith((".ipynb", ".cassette.jsonl")):
                    yield here / name
