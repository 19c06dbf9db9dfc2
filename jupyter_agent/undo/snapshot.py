"""The files of a workspace at one moment, and the digests of the contents that were kept then."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.undo.versions import ABSENT, FileVersion, folder_version, stat_mark

SNAPSHOT_FILE = "picture.json"
RACY = 50_000_000
"""Nanoseconds after a change in which another change may leave the same times behind."""
NOT_IN_ADVANCE = "it was not kept before code ran"
_KNOWN_FILE = "known.json"
_LARGEST = 256 * 1024 * 1024


class Fingerprint(NamedTuple):
    """What `lstat` says about a file or a link, and what differs after a change of it."""

    size: int
    modified: int
    changed: int
    inode: int
    mode: int

    @property
    def latest(self) -> int:
        """The time of the last change, of the content or of the inode, in nanoseconds."""
        return max(self.modified, self.changed)

    @property
    def identity(self) -> Fingerprint:
        """The same without the time at which the inode changed: moving and linking keep it."""
        return self._replace(changed=0)


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """The files of a workspace at one moment, by their path relative to its root.

    Args:
        files: Fingerprints of files and links.
        folders: Permission bits of folders.
        complete: False if the workspace has more files than were scanned.
        began: When the scan began, in nanoseconds.
        digests: Digests of the files whose contents were kept.
    """

    files: Mapping[str, Fingerprint]
    folders: Mapping[str, int]
    complete: bool
    began: int
    digests: Mapping[str, str] = field(default_factory=dict)

    def has_same_files(self, other: FileSnapshot) -> bool:
        """True if both have the same files and folders, whatever was kept of them."""
        return (
            self.files == other.files
            and self.folders.keys() == other.folders.keys()
            and self.complete == other.complete
        )

    def is_racy(self, path: str) -> bool:
        """True if the file changed so shortly before the scan that a later change may not show."""
        return self.began - self.files[path].latest < RACY

    def version(self, path: str) -> FileVersion:
        """What was at the path, and whether its content was kept."""
        found = self.files.get(path)
        if path in self.folders:
            return folder_version(self.folders[path])
        if found is None:
            return ABSENT
        digest = self.digests.get(path)
        if digest is None:
            mark = stat_mark(found.size, found.modified, found.inode)
            return FileVersion(
                mark, found.mode, found.size, why=NOT_IN_ADVANCE, modified=found.modified
            )
        mark = f"{'link' if stat.S_ISLNK(found.mode) else 'content'}:{digest}"
        return FileVersion(mark, found.mode, found.size, "blob", modified=found.modified)

    def save(self, folder: Path) -> None:
        """Write the snapshot to a record's folder. Raises OSError."""
        files = {
            "began": self.began,
            "complete": self.complete,
            "folders": sorted(self.folders),
            "files": self.files,
            "modes": self.folders,
        }
        _save(folder / SNAPSHOT_FILE, {"picture": files, "digests": self.digests})


def load_snapshot(folder: Path) -> FileSnapshot | None:
    """The snapshot in a record's folder; None if there is none, or none that can be read."""
    try:
        data = _load(folder / SNAPSHOT_FILE)
        found = data["picture"]
        if not isinstance(found["began"], int):
            return None
        return FileSnapshot(
            {path: Fingerprint(*map(int, each)) for path, each in found["files"].items()},
            {path: int(found["modes"].get(path, 0o777)) for path in found["folders"]},
            bool(found["complete"]),
            found["began"],
            dict(data["digests"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


Digests = dict[str, tuple[Fingerprint, str]]
"""Fingerprints and digests by path."""


def save_known(folder: Path, known: Digests) -> None:
    """Write the digests of the workspace's files, so that few files are read again."""
    _save(folder / _KNOWN_FILE, known)


def load_known(folder: Path) -> Digests:
    """The digests that `save_known` wrote; empty if they cannot be read."""
    try:
        data = _load(folder / _KNOWN_FILE)
        return {path: (Fingerprint(*found), str(digest)) for path, (found, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _load(path: Path) -> Any:
    """Raises OSError or ValueError if there is no regular file with JSON."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        raise OSError(f"{path} is no file of ours")
    return json.loads(path.read_bytes())


def _save(path: Path, data: Any) -> None:
    """Write JSON without syncing: what a power cut takes is made anew."""
    encoded = json.dumps(data, separators=(",", ":")).encode()
    atomic_write(path, encoded, private=True, durable=False)
