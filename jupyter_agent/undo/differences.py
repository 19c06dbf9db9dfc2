"""What changed between two snapshots, and what a turn's journal says about it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from jupyter_agent.kernel.writes import Writes
from jupyter_agent.undo.journal import JournalRecord, before_line, left_line, notice_line
from jupyter_agent.undo.snapshot import RACY, FileSnapshot, Fingerprint
from jupyter_agent.undo.versions import MOVED, FileVersion, look

ChangeKind = Literal["created", "changed", "deleted"]
AFTER_THE_END = "the kernel stopped while code ran, and it was changed after that"
NOT_SEEN = "it changed while the turn's code ran, but that code was not seen to change it"
_PATIENCE = 1_000_000_000
"""Nanoseconds after the last sign of life in which a change still counts as the kernel's."""


def differences(before: FileSnapshot, after: FileSnapshot, root: Path) -> dict[str, ChangeKind]:
    """Compare two snapshots. Folders count if they are new and empty, or gone.

    A file may be missing in a snapshot although it exists, if not all files were scanned or the
    ignore rules changed. So a file that is only in the later snapshot counts as created if it
    changed after the earlier one began, and a file that is only in the earlier snapshot counts as
    deleted if it does not exist now.

    Args:
        before: The earlier snapshot.
        after: The later one.
        root: The workspace's folder.
    """
    new = [path for path in after.files if path not in before.files]
    new_names = {path.casefold() for path in new}
    changed = [
        path
        for path, found in after.files.items()
        if path in before.files and (found != before.files[path] or before.is_racy(path))
    ]
    gone = [
        path
        for path in before.files
        if path not in after.files
        # On a file system that ignores case, a renamed file still answers to its old name.
        and (path.casefold() in new_names or not _is_file(root / path))
    ]
    rules_changed = any(
        path.rpartition("/")[2] == ".gitignore" and not _is_same(path, before, root)
        for path in (*new, *changed, *gone)
    )
    all_seen = before.complete and not rules_changed
    created = [
        path
        for path in new
        if after.files[path].latest >= before.began - RACY
        # A folder that was moved here brings its files with their old times.
        or (all_seen and _folder_of(path) and _folder_of(path) not in before.folders)
    ]
    files: dict[str, ChangeKind] = {
        **dict.fromkeys(created, "created"),
        **dict.fromkeys(changed, "changed"),
        **dict.fromkeys(gone, "deleted"),
    }
    folders: dict[str, ChangeKind] = {}
    if all_seen and after.complete:
        full = {_folder_of(path) for path in (*after.files, *after.folders)}
        folders |= dict.fromkeys(
            sorted(after.folders.keys() - before.folders.keys() - full), "created"
        )
    for path in before.folders:
        if path not in after.folders and not (root / path).is_dir():
            folders[path] = "deleted"
    # Where a folder replaced a file, or a file a folder, the path counts as the file's.
    return files | folders | files


def changed_lines(
    root: Path,
    record: JournalRecord,
    before: FileSnapshot,
    after: FileSnapshot,
    *,
    found: Mapping[str, ChangeKind],
    stopped: int | None = None,
    writes: Writes | None = None,
) -> Iterator[dict[str, Any]]:
    """Lines for a journal that say what changed between two snapshots.

    Args:
        root: The workspace's folder.
        record: What the journal says so far.
        before: The snapshot from before the code ran.
        after: The one from afterwards.
        found: Their differences.
        stopped: When the kernel was last seen alive, in nanoseconds, if it died meanwhile: later
            changes are somebody else's.
        writes: What the kernel was seen to write meanwhile; None if that is not known.
    """
    new_places = {
        after.files[path].identity: path
        for path, kind in found.items()
        if kind == "created" and path in after.files
    }
    for path in found:
        try:
            now = look(root / path)
        except OSError:
            continue
        earlier, later = before.files.get(path), after.files.get(path)
        old, entry = before.version(path), record.entries.get(path)
        moved_to = new_places.get(earlier.identity) if earlier else None
        if moved_to and (not now.exists or now.is_folder) and not old.kept:
            old = replace(old, kept=f"{MOVED}/{moved_to}", why="")
        if entry is not None and now.mark == entry.after:
            continue
        seen = writes is not None and writes.saw(root / path)
        is_ours = writes is None or seen or writes.explains(root / path)
        if entry is None:
            is_folder = old.is_folder or now.is_folder
            if _is_untouched(old, now, earlier, later) or (is_folder and not is_ours):
                continue
            yield before_line(path, old, 0 if old.exists else _count_new_folders(path, before))
            if old.why and not old.is_folder and is_ours:
                yield notice_line(f"{path}: cannot be restored, since {old.why}")
        if not is_ours:
            yield {"line": "unclear", "path": path, "why": NOT_SEEN}
        elif stopped is not None and _latest(root / path, later) > stopped + _PATIENCE:
            yield {"line": "unclear", "path": path, "why": AFTER_THE_END}
        else:
            yield left_line(path, now, seen)


def _is_untouched(
    old: FileVersion, now: FileVersion, earlier: Fingerprint | None, later: Fingerprint | None
) -> bool:
    if old.kept or not old.exists or old.is_folder:
        return old.is_same(now)
    return earlier is not None and later is not None and earlier.identity == later.identity


def _count_new_folders(path: str, before: FileSnapshot) -> int:
    """How many of the folders above a path did not exist."""
    above = [folder.as_posix() for folder in Path(path).parents][:-1]
    return sum(folder not in before.folders for folder in above)


def _latest(path: Path, found: Fingerprint | None) -> int:
    """When a path changed last. For a deleted file: when the folder above it did."""
    if found is not None:
        return found.latest
    for folder in path.parents:
        try:
            return os.lstat(folder).st_mtime_ns
        except OSError:
            continue
    return 0


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _is_same(path: str, before: FileSnapshot, root: Path) -> bool:
    """True if a file surely has its earlier content: that was kept, and its digest is the same.

    Times alone do not say so of a file that changed shortly before the earlier snapshot.
    """
    try:
        return path in before.digests and look(root / path).mark == before.version(path).mark
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    """True if a file, link or anything but a folder is there, or the system does not say."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
