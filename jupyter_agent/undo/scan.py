"""Which files of a workspace there are, and what tells cheaply that one was changed."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from jupyter_agent.files.walk import Rules, gitignore, ignored
from jupyter_agent.files.workspace import Workspace

RACY = 50_000_000
"""Nanoseconds after a change in which another one may leave the same times behind."""
_LIBRARIES = frozenset({"node_modules", "site-packages", ".venv"})
_OPEN_NOTEBOOKS = ".ipynb"


class Fingerprint(NamedTuple):
    """What changes with a file: its times, its inode, its size, its permissions."""

    size: int
    modified: int
    changed: int
    inode: int
    mode: int

    @property
    def latest(self) -> int:
        return max(self.modified, self.changed)

    def is_like(self, other: Fingerprint) -> bool:
        """Whether nothing but the time of the inode's change differs (a link to it was made)."""
        return self._replace(changed=0) == other._replace(changed=0)


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """The files of a workspace at one moment, by their path from the root.

    `complete` says whether there were not too many to look at all of them; `began` is the time in
    nanoseconds; `modes` are the permission bits of the folders.
    """

    files: Mapping[str, Fingerprint]
    folders: frozenset[str]
    complete: bool
    began: int
    modes: Mapping[str, int] = field(default_factory=dict, compare=False)

    def is_like(self, other: FileSnapshot) -> bool:
        """Whether both show the same files and folders, whenever they were taken."""
        return replace(self, began=other.began) == other

    def is_racy(self, path: str) -> bool:
        """Whether the file was changed so shortly before that its stamp may lie."""
        return self.began - self.files[path].latest < RACY


@dataclass
class Scanner:
    """Looks through a workspace, the folders nearest to its root first.

    Left out are `.git`, state folders, what git ignores, folders of installed libraries, and
    notebooks: a front end saves those at any time, and what it saves is the person's.

    Args:
        workspace: What to look through.
        most: Files after which it stops.
        hidden: Gives files that are left out, too, as resolved paths.
    """

    workspace: Workspace
    most: int
    hidden: Callable[[], frozenset[Path]] = frozenset
    _rules: dict[str, tuple[Fingerprint, Rules]] = field(default_factory=dict, init=False)
    _verdicts: dict[str, bool] = field(default_factory=dict, init=False)
    _hidden: tuple[object, frozenset[str]] = field(default=(None, frozenset()), init=False)

    def look(self) -> FileSnapshot:
        began = time.time_ns()
        files: dict[str, Fingerprint] = {}
        folders: dict[str, int] = {}
        complete = True
        root = self.workspace.root
        hidden = self._hidden_here()
        waiting: deque[tuple[str, Rules]] = deque([("", [])])
        while waiting and complete:
            folder, rules = waiting.popleft()
            entries = _entries(f"{root}/{folder}")
            rules = self._with_own(folder, rules, entries)
            for entry in entries:
                path = folder + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._is_left_out(path, is_folder, rules):
                    continue
                if is_folder:
                    folders[path] = _mode(entry)
                    waiting.append((path + "/", rules))
                elif path not in hidden and (stamp := _stamp(entry)):
                    files[path] = stamp
            complete = len(files) <= self.most
        return FileSnapshot(files, frozenset(folders), complete, began, folders)

    def hides(self, path: Path) -> bool:
        """Whether a path is no part of the person's work."""
        return path.relative_to(self.workspace.root).as_posix() in self._hidden_here()

    def leaves_out(self, path: str) -> bool:
        """Whether a file is none that is looked at, wherever the limit is."""
        rules: Rules = []
        parts = path.split("/")
        for count in range(len(parts)):
            folder = "".join(f"{part}/" for part in parts[:count])
            if folder in self._rules:
                rules = [*rules, *self._rules[folder][1]]
            here = "/".join(parts[: count + 1])
            if self._is_left_out(here, count + 1 < len(parts), rules):
                return True
        return False

    def _hidden_here(self) -> frozenset[str]:
        """The paths of hidden files, from the root."""
        paths, root = self.hidden(), self.workspace.root
        if paths is not self._hidden[0]:
            inside = (path for path in paths if path.is_relative_to(root))
            names = frozenset(path.relative_to(root).as_posix() for path in inside)
            self._hidden = paths, names
        return self._hidden[1]

    def _with_own(self, folder: str, above: Rules, entries: list[os.DirEntry[str]]) -> Rules:
        """The rules that hold in a folder. They are read again where its `.gitignore` changed."""
        own = next((entry for entry in entries if entry.name == ".gitignore"), None)
        stamp = _stamp(own) if own else None
        known = self._rules.get(folder)
        if known and stamp == known[0]:
            return [*above, *known[1]]
        if known or stamp:
            self._verdicts.clear()
            self._rules.pop(folder, None)
        if stamp is None:
            return above
        place = self.workspace.root / folder
        spec = gitignore(place)
        self._rules[folder] = stamp, [(place, spec)] if spec else []
        return [*above, *self._rules[folder][1]]

    def _is_left_out(self, path: str, is_folder: bool, rules: Rules) -> bool:
        key = path + "/" if is_folder else path
        verdict = self._verdicts.get(key)
        if verdict is None:
            place = self.workspace.root / path
            verdict = (
                (place.name in _LIBRARIES or (place / "pyvenv.cfg").exists())
                if is_folder
                else place.suffix == _OPEN_NOTEBOOKS
            ) or ignored(self.workspace.root, place, is_folder, rules)
            self._verdicts[key] = verdict
        return verdict


@dataclass(frozen=True, slots=True)
class Differences:
    """What happened to files between two pictures."""

    made: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    made_folders: tuple[str, ...] = ()
    gone_folders: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every path, once."""
        folders = (*self.made_folders, *self.gone_folders)
        return tuple(dict.fromkeys((*self.made, *self.changed, *self.gone, *folders)))


def differences(before: FileSnapshot, after: FileSnapshot, root: Path) -> Differences:
    """What differs, without what merely came into view or went out of it.

    Where not all files were seen, or the ignore rules changed, a file that was there all along
    may show up: only one with a later change is taken for made, only one that is not there for
    gone.
    """
    changed = tuple(
        path
        for path, stamp in after.files.items()
        if path in before.files and (stamp != before.files[path] or before.is_racy(path))
    )
    renamed = {path.casefold() for path in after.files if path not in before.files}
    gone = tuple(
        path
        for path in before.files
        if path not in after.files
        # Where cases are not told apart, the new name answers to the old one.
        and (path.casefold() in renamed or not _is_there(root / path))
    )
    fresh = [path for path in after.files if path not in before.files]
    touched = (*fresh, *changed, *gone)
    told_by_folder = before.complete and not any(map(_is_about_ignoring, touched))
    made = tuple(
        path
        for path in fresh
        if after.files[path].latest >= before.began - RACY
        # A folder that was moved here brings its files with their old times.
        or (told_by_folder and _folder_of(path) not in before.folders and _folder_of(path))
    )
    made_folders = _empty_ones(after, before) if told_by_folder and after.complete else ()
    gone_folders = tuple(
        path for path in before.folders - after.folders if not (root / path).is_dir()
    )
    return Differences(made, changed, gone, made_folders, gone_folders)


def _empty_ones(after: FileSnapshot, before: FileSnapshot) -> tuple[str, ...]:
    """The new folders without a file in them; the others come and go with their files."""
    full = {_folder_of(path) for path in (*after.files, *after.folders)}
    return tuple(sorted(after.folders - before.folders - full))


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _is_about_ignoring(path: str) -> bool:
    return path.rpartition("/")[2] == ".gitignore"


def _is_there(path: Path) -> bool:
    """Whether a path is there, and is no folder."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it cannot be told


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _stamp(entry: os.DirEntry[str]) -> Fingerprint | None:
    """The stamp of a file or a link; None for anything else."""
    try:
        if not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
            return None
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Fingerprint(
        found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode
    )


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return 0o700


def to_json(picture: FileSnapshot) -> dict[str, object]:
    return {
        "began": picture.began,
        "complete": picture.complete,
        "folders": sorted(picture.folders),
        "files": picture.files,
        "modes": picture.modes,
    }


def from_json(data: Mapping[str, object]) -> FileSnapshot:
    """Raises KeyError, TypeError or ValueError where `data` is no picture."""
    files, folders, began = data["files"], data["folders"], data["began"]
    if not (isinstance(files, dict) and isinstance(folders, list) and isinstance(began, int)):
        raise TypeError("not a picture of a workspace")
    stamps: Iterator[tuple[str, Fingerprint]] = (
        (path, Fingerprint(*map(int, stamp))) for path, stamp in files.items()
    )
    modes = data["modes"]
    if not isinstance(modes, dict):
        raise TypeError("not a picture of a workspace")
    bits = {str(path): int(mode) for path, mode in modes.items()}
    return FileSnapshot(dict(stamps), frozenset(folders), bool(data["complete"]), began, bits)
