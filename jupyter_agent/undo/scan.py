"""Scans a workspace: which files there are, and their fingerprints."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_agent.files.atomic import TURNS_FOLDER
from jupyter_agent.files.walk import Rules, gitignore, ignored
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo.snapshot import FileSnapshot, Fingerprint

_LEFT_OUT = frozenset({"node_modules", "site-packages", ".venv", TURNS_FOLDER})


@dataclass
class Scanner:
    """Takes snapshots of a workspace, the folders nearest to its root first.

    Skips `.git`, this package's own folders, files that git ignores, folders of installed
    libraries, and notebooks: a front end saves those at any time, and what it saves is the
    person's.

    Args:
        workspace: The workspace to scan.
        most: Stop after so many files.
        hidden: Returns more files to skip, as resolved paths.
    """

    workspace: Workspace
    most: int
    hidden: Callable[[], frozenset[Path]] = frozenset
    _rules: dict[str, tuple[Fingerprint, Rules]] = field(default_factory=dict, init=False)
    _verdicts: dict[str, bool] = field(default_factory=dict, init=False)
    _hidden: tuple[object, frozenset[str]] = field(default=(None, frozenset()), init=False)

    def scan(self) -> FileSnapshot:
        """Take a snapshot of the workspace as it is now. Skips folders that cannot be read."""
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
                elif path not in hidden and (found := _fingerprint(entry)):
                    files[path] = found
            complete = len(files) <= self.most
        return FileSnapshot(files, folders, complete, began)

    def hides(self, path: Path) -> bool:
        """True for a path among those of `hidden`."""
        return path.relative_to(self.workspace.root).as_posix() in self._hidden_here()

    def leaves_out(self, path: str) -> bool:
        """True if a scan skips the file, however many files it may take."""
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
        """The hidden files, by their path relative to the root."""
        paths, root = self.hidden(), self.workspace.root
        if paths is not self._hidden[0]:
            inside = (path for path in paths if path.is_relative_to(root))
            names = frozenset(path.relative_to(root).as_posix() for path in inside)
            self._hidden = paths, names
        return self._hidden[1]

    def _with_own(self, folder: str, above: Rules, entries: list[os.DirEntry[str]]) -> Rules:
        """The ignore rules of a folder. Reads its `.gitignore` again if that changed."""
        own = next((entry for entry in entries if entry.name == ".gitignore"), None)
        found = _fingerprint(own) if own else None
        known = self._rules.get(folder)
        if known and found == known[0]:
            return [*above, *known[1]]
        if known or found:
            self._verdicts.clear()
            self._rules.pop(folder, None)
        if found is None:
            return above
        place = self.workspace.root / folder
        spec = gitignore(place)
        self._rules[folder] = found, [(place, spec)] if spec else []
        return [*above, *self._rules[folder][1]]

    def _is_left_out(self, path: str, is_folder: bool, rules: Rules) -> bool:
        key = path + "/" if is_folder else path
        verdict = self._verdicts.get(key)
        if verdict is None:
            place = self.workspace.root / path
            verdict = (
                (place.name in _LEFT_OUT or (place / "pyvenv.cfg").exists())
                if is_folder
                else place.suffix == ".ipynb"
            ) or ignored(self.workspace.root, place, is_folder, rules)
            self._verdicts[key] = verdict
        return verdict


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _fingerprint(entry: os.DirEntry[str]) -> Fingerprint | None:
    """The fingerprint of a file or a link; None for anything else."""
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
