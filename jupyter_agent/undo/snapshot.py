"""What is kept of a workspace before code runs, and what is seen to be different afterwards."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.kernel.effects import Writes
from jupyter_agent.undo.journal import JournalRecord, before_line, left_line, notice_line
from jupyter_agent.undo.scan import FileSnapshot, Fingerprint, differences, from_json, to_json
from jupyter_agent.undo.versions import ABSENT, MOVED, FileVersion, folder_state, look, stat_mark

PICTURE = "picture.json"
KNOWN = "known.json"
Known = Mapping[str, tuple[Fingerprint, str]]
AFTER_THE_END = "the kernel stopped while code ran, and it was changed after that"
NOT_SEEN = "it changed while the turn's code ran, which was not seen to change it"
NOT_IN_ADVANCE = "it was not kept before code ran"
_LARGEST = 256 * 1024 * 1024
_PATIENCE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A picture of the workspace with the digests of what was kept of it."""

    picture: FileSnapshot
    digests: Mapping[str, str]

    def state(self, path: str) -> FileVersion:
        """What was at the path when the picture was taken."""
        stamp = self.picture.files.get(path)
        if path in self.picture.folders:
            return folder_state(self.picture.modes.get(path, 0o777))
        if stamp is None:
            return ABSENT
        digest = self.digests.get(path)
        if digest is None:
            mark = stat_mark(stamp.size, stamp.modified, stamp.inode)
            return FileVersion(mark, stamp.mode, stamp.size, "", NOT_IN_ADVANCE, stamp.modified)
        kind = "link" if FileVersion(mode=stamp.mode).is_link else "content"
        mark = f"{kind}:{digest}"
        return FileVersion(mark, stamp.mode, stamp.size, "blob", modified=stamp.modified)

    def is_like(self, other: StoredSnapshot) -> bool:
        """Whether the other one would restore the same."""
        return self.digests == other.digests and self.picture.is_like(other.picture)

    def save(self, folder: Path) -> None:
        data = {"picture": to_json(self.picture), "digests": self.digests}
        _save(folder / PICTURE, data)


def load_picture(folder: Path) -> StoredSnapshot | None:
    """The picture in a record's folder; None where there is none."""
    try:
        data = _json(folder / PICTURE)
        return StoredSnapshot(from_json(data["picture"]), dict(data["digests"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pictured_digests(folder: Path) -> set[str]:
    kept = load_picture(folder)
    return set(kept.digests.values()) if kept else set()


def save_known(folder: Path, known: Known) -> None:
    _save(folder / KNOWN, known)


def load_known(folder: Path) -> dict[str, tuple[Fingerprint, str]]:
    """Digests of the workspace's files as they were last seen."""
    try:
        data = _json(folder / KNOWN)
        return {path: (Fingerprint(*stamp), str(digest)) for path, (stamp, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def changed_lines(
    root: Path,
    record: JournalRecord,
    before: StoredSnapshot,
    after: FileSnapshot,
    *,
    stopped: int | None = None,
    writes: Writes | None = None,
) -> Iterator[dict[str, Any]]:
    """The lines for a journal that say what differs between a picture and a later one.

    Args:
        root: The workspace's.
        record: What the journal says so far.
        before: The picture from before the code ran.
        after: The one from after.
        stopped: When the kernel was last seen alive, in nanoseconds, where it stopped meanwhile:
            what changed after that, somebody else changed.
        writes: What the kernel was seen to write meanwhile; None where that is not known.
    """
    found = differences(before.picture, after, root)
    places = {_identity(after.files[path]): path for path in found.made}
    for path in found.all:
        moved = places.get(_identity(before.picture.files.get(path)), "")
        found_now = _Found(path, after.files.get(path), moved)
        lines = list(_lines(root, record, before, found_now, writes))
        if stopped is not None and _latest(root / path, found_now.stamp) > stopped + _PATIENCE:
            lines = [line for line in lines if line["line"] != "left"] + [
                {"line": "unclear", "path": path, "why": AFTER_THE_END}
                for line in lines
                if line["line"] == "left"
            ]
        yield from lines


@dataclass(frozen=True, slots=True)
class _Found:
    """A path that is not as it was. `moved` is where its file is now."""

    path: str
    stamp: Fingerprint | None
    moved: str


def _lines(
    root: Path, record: JournalRecord, before: StoredSnapshot, found: _Found, writes: Writes | None
) -> Iterator[dict[str, Any]]:
    path, stamp, moved = found.path, found.stamp, found.moved
    seen = writes is not None and writes.saw(root / path)
    is_ours = writes is None or seen or writes.explains(root / path)
    try:
        now = look(root / path)
    except OSError:
        return
    old, entry = before.state(path), record.entries.get(path)
    if moved and (not now.is_there or now.is_folder) and old.is_there and not old.kept:
        old = replace(old, kept=f"{MOVED}/{moved}", why="")
    if entry is not None and now.mark == entry.after:
        return
    if entry is None:
        if _is_untouched(old, now, before.picture.files.get(path), stamp):
            return
        if not is_ours and (old.is_folder or now.is_folder):
            return
        folders = 0 if old.is_there else _new_folders(path, before.picture)
        yield before_line(path, old, folders)
        if old.why and not old.is_folder and is_ours:
            yield notice_line(f"{path}: cannot be restored, since {old.why}")
    if is_ours:
        yield left_line(path, now, seen)
    else:
        yield {"line": "unclear", "path": path, "why": NOT_SEEN}


def _identity(stamp: Fingerprint | None) -> Fingerprint | None:
    return stamp._replace(changed=0) if stamp else None


def _is_untouched(
    old: FileVersion, now: FileVersion, then: Fingerprint | None, stamp: Fingerprint | None
) -> bool:
    if old.kept or not old.is_there or old.is_folder:
        return old.is_same(now)
    return then is not None and stamp is not None and then.is_like(stamp)


def _new_folders(path: str, before: FileSnapshot) -> int:
    above = path.split("/")[:-1]
    folders = ("/".join(above[:count]) for count in range(1, len(above) + 1))
    return sum(folder not in before.folders for folder in folders)


def _latest(path: Path, stamp: Fingerprint | None) -> int:
    """When a path changed last: of a file that is gone, when its folder did."""
    if stamp is not None:
        return stamp.latest
    for folder in path.parents:
        try:
            return os.lstat(folder).st_mtime_ns
        except OSError:
            continue
    return 0


def _json(path: Path) -> Any:
    """Raises OSError or ValueError where there is no file with JSON."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        raise OSError(f"{path} is no file of ours")
    return json.loads(path.read_bytes())


def _save(path: Path, data: Any) -> None:
    """Write JSON. It is not synced: what a power cut takes is made anew."""
    encoded = json.dumps(data, separators=(",", ":")).encode()
    atomic_write(path, encoded, private=True, durable=False)
