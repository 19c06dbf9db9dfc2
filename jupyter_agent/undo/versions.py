"""What is or was at a path: nothing, a file with some content, a link, a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Collection
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import open_regular

HASHED_BYTES = 32 * 1024 * 1024
"""Files up to this size are compared by content, larger ones by size, time and inode."""
_CHUNK = 1 << 20
_BY_STAT = "stat:"


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What is at a path at one moment.

    Args:
        mark: Identifies the content, as `content:DIGEST`, `link:DIGEST`, `stat:SIZE:TIME:INODE` or
            `kind:TYPE`; empty if nothing is there.
        mode: File type and permission bits, as `os.lstat` gives them.
        size: Bytes.
        kept: Where the content is kept: `blob`, `trash/PATH` (in the state folder) or `moved/PATH`
            (the file itself, at another place of the workspace); empty if it is not kept.
        why: Why it is not kept.
        modified: The time of the last change, in nanoseconds; 0 if unknown.
    """

    mark: str = ""
    mode: int = 0
    size: int = 0
    kept: str = ""
    why: str = ""
    modified: int = 0

    @property
    def exists(self) -> bool:
        return self.mark != ""

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def digest(self) -> str:
        """The SHA-256 of the content, which names its blob; empty if it is not known."""
        kind, _, digest = self.mark.partition(":")
        return digest if kind in ("content", "link") else ""

    def is_same(self, other: FileVersion) -> bool:
        """True if both have the same content and the same permission bits."""
        bits = (self.mode ^ other.mode) & ~_SPECIAL_BITS
        return self.mark == other.mark and (not self.exists or not bits)


_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
"""Setuid, setgid and sticky: undo never sets them."""
ABSENT = FileVersion()
"""Nothing is there."""
MOVED = "moved"


def look(path: Path, known: Collection[str] = ()) -> FileVersion:
    """What is at the path now. Links are not followed.

    Args:
        path: Where to look.
        known: Marks to compare with. A file whose size, time and inode match one of them is not
            read.

    Raises:
        OSError: The system refuses.
    """
    if any(mark.startswith(_BY_STAT) for mark in known):
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and _signature(found) in known:
                mark, modified = _signature(found), found.st_mtime_ns
                return FileVersion(mark, found.st_mode, found.st_size, modified=modified)
    return read(path, HASHED_BYTES)[0]


def read(path: Path, limit: int) -> tuple[FileVersion, bytes | None]:
    """What is at the path now, with its content if that has at most `limit` bytes.

    Raises:
        OSError: The system refuses.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, None
    if stat.S_ISLNK(found.st_mode):
        data = os.fsencode(os.readlink(path))  # noqa: PTH115 (the text itself, as it is stored)
        return FileVersion(mark_of(data, "link"), found.st_mode, len(data)), data
    if not stat.S_ISREG(found.st_mode):
        return FileVersion(kind_mark(found.st_mode), found.st_mode), None
    if found.st_size > max(limit, HASHED_BYTES):
        mark, modified = _signature(found), found.st_mtime_ns
        return FileVersion(mark, found.st_mode, found.st_size, modified=modified), None
    try:
        return _read_file(path, limit)
    except (FileNotFoundError, ToolError):
        return ABSENT, None  # it was deleted or replaced in between


def mark_of(data: bytes, kind: str = "content") -> str:
    """The mark of a file with this content."""
    return f"{kind}:{hashlib.sha256(data).hexdigest()}"


def kind_mark(mode: int) -> str:
    """The mark of anything but a file or a link."""
    return f"kind:{stat.S_IFMT(mode):o}"


def folder_version(mode: int) -> FileVersion:
    """A folder with these permission bits."""
    mode = stat.S_IFDIR | stat.S_IMODE(mode)
    return FileVersion(kind_mark(mode), mode)


def to_json(version: FileVersion) -> list[Any]:
    """The version as a journal has it."""
    return list(astuple(version))


def from_json(data: Any) -> FileVersion:
    """The version that `to_json` wrote. Raises ValueError or TypeError for anything else."""
    mark, mode, size, kept, why, modified = data
    if not (isinstance(mark, str) and isinstance(kept, str) and isinstance(why, str)):
        raise TypeError("not a version of a file")
    return FileVersion(mark, int(mode), int(size), kept, why, int(modified))


def _read_file(path: Path, limit: int) -> tuple[FileVersion, bytes | None]:
    with open_regular(path, path.name) as stream:
        found = os.fstat(stream.fileno())
        if found.st_size <= limit:
            data = stream.read(limit + 1)
            if len(data) <= limit:
                modified = found.st_mtime_ns
                return FileVersion(mark_of(data), found.st_mode, len(data), modified=modified), data
            stream.seek(0)
        hashed, size = hashlib.sha256(), 0
        while chunk := stream.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
    mark = f"content:{hashed.hexdigest()}"
    return FileVersion(mark, found.st_mode, size, modified=found.st_mtime_ns), None


def stat_mark(size: int, modified: int, inode: int) -> str:
    """The mark of a file that was not read, from its size, time and inode."""
    return f"{_BY_STAT}{size}:{modified}:{inode}"


def _signature(found: os.stat_result) -> str:
    return stat_mark(found.st_size, found.st_mtime_ns, found.st_ino)
