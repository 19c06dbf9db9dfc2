"""Removes run logs, conversations and long outputs beyond their limits of age and size.

Removes only files with names of this package, from its own folders, the oldest first. Follows no
link. Keeps files that changed within a day, and files in use: a log that is being written, a
conversation whose lock is held, an output that the conversation of a running kernel names. Keeps
files dated in the future, too: a clock was wrong, and they may be new.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.jsonl import is_in_use
from jupyter_agent.files.shared import is_locked
from jupyter_agent.files.workspace import Workspace

DAY = 24 * 60 * 60
MEGABYTE = 1024 * 1024
LOGS, SESSIONS, OUTPUTS = "logs", "sessions", "outputs"
_NAMES = {
    LOGS: re.compile(r"agent_run_\d{8}_\d{6}(?:_\d+)?\.jsonl"),
    SESSIONS: re.compile(r".+\.jsonl(?:\.(?:corrupt|foreign)-[\d_-]+)?"),
    OUTPUTS: re.compile(r".+\.txt"),
}
NAMED = re.compile(re.escape(f"{STATE_FOLDER}/{OUTPUTS}/") + r"([^\s\"'\\/;]+)")
"""An output's path in the text of a conversation; group 1 is the file's name."""
_MOST_READ = 64 * MEGABYTE


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of age and size for a folder."""

    days: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Surplus:
    """A file beyond its folder's limit. `folder` is `logs`, `sessions` or `outputs`."""

    folder: str
    path: Path
    size: int


def surplus(
    workspace: Workspace,
    limits: Mapping[str, Limit],
    named: Callable[[], frozenset[str]] = frozenset,
) -> Iterator[Surplus | None]:
    """The files beyond their limits that are not in use.

    Yields None after each file that it keeps, so that its caller may pause.

    Args:
        workspace: The workspace with the state folder.
        limits: The limits by folder; other folders are not examined.
        named: Returns the names of outputs that this kernel's conversations still refer to.
    """
    for name, limit in limits.items():
        folder = workspace.state_folder / name
        if os.path.realpath(folder) != str(workspace.root / STATE_FOLDER / name):
            continue
        old: list[tuple[float, int, Path]] = []
        total, now = 0, time.time()
        for path, found in _ordinary_files(folder, name):
            yield None
            age = now - found.st_mtime
            if age >= 0:
                total += found.st_size
            if age >= DAY:
                old.append((age, found.st_size, path))
        too_much = total - limit.megabytes * MEGABYTE
        # Read only before an output is removed: conversations may be long.
        spared = named() | _named_elsewhere(workspace) if name == OUTPUTS and old else frozenset()
        for age, size, path in sorted(old, reverse=True):
            is_surplus = age > limit.days * DAY or too_much > 0
            if is_surplus and path.name not in spared and not _is_in_use(path, name):
                too_much -= size
                yield Surplus(name, path, size)
            else:
                yield None


def remove(one: Surplus) -> bool:
    """Remove a file, unless it is used meanwhile. False if it stays, or was gone already."""
    try:
        if time.time() - one.path.lstat().st_mtime < DAY:
            return False
        if one.folder == SESSIONS and one.path.suffix == ".jsonl":
            return _remove_session(one.path)
        one.path.unlink()
    except OSError:
        return False  # another kernel was faster, or it may not be removed
    return True


def _remove_session(path: Path) -> bool:
    """Remove a conversation under its lock, and the lock with it."""
    lock = FileLock(f"{path}.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        path.unlink()
        if os.name != "nt":  # a lock that is held cannot be removed there
            Path(lock.lock_file).unlink(missing_ok=True)
    finally:
        lock.release()
    return True


def _ordinary_files(folder: Path, name: str) -> Iterator[tuple[Path, os.stat_result]]:
    """The regular files in a folder with names of this package; no links."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if not _NAMES[name].fullmatch(entry.name):
                continue
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield Path(entry.path), found


def _is_in_use(path: Path, name: str) -> bool:
    if name == LOGS:
        return _is_being_written(path)
    return name == SESSIONS and path.suffix == ".jsonl" and _is_locked(path)


def _is_locked(session: Path) -> bool:
    """True if a kernel holds the lock of a conversation."""
    try:
        return is_locked(Path(f"{session}.lock"))
    except OSError:
        return True  # nobody knows: counts as held


def _is_being_written(log: Path) -> bool:
    """True if a kernel has the log open, or nobody knows."""
    return is_in_use(log) is not False and os.name != "nt"  # Windows removes no file that is open


def _named_elsewhere(workspace: Workspace) -> set[str]:
    """The outputs that the conversations of running kernels name."""
    named: set[str] = set()
    for path, found in _ordinary_files(workspace.state_folder / SESSIONS, SESSIONS):
        if path.suffix == ".jsonl" and found.st_size <= _MOST_READ and _is_locked(path):
            with suppress(OSError):
                named.update(NAMED.findall(path.read_text(encoding="utf-8", errors="replace")))
    return named
