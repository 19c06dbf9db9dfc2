"""Contents of files, each stored once under its SHA-256 digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Set
from pathlib import Path

from jupyter_agent.files.atomic import atomic_write, private_folder

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """Stores contents in a folder, one file each, named by digest.

    Hold the storage's lock from `keep` until the digest is in a journal or a snapshot: `sweep`
    removes blobs that are in none.

    Attributes:
        total: Bytes of all blobs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.total = sum(size for _, size in self._all())

    def has(self, digest: str) -> bool:
        """True if there is a blob with this digest. Does not read it."""
        if not _DIGEST.fullmatch(digest):
            return False
        try:
            return stat.S_ISREG(self._path(digest).lstat().st_mode)
        except OSError:
            return False

    def keep(self, digest: str, data: bytes, durable: bool = True) -> None:
        """Store a content. Replaces a blob that is already there.

        Args:
            digest: Its digest.
            data: The content.
            durable: Wait until it is on the disk.

        Raises:
            OSError: It cannot be written.
        """
        path = self._path(digest)
        private_folder(path.parent)
        atomic_write(path, data, private=True, durable=durable)
        self.total += len(data)

    def content(self, digest: str, size: int | None = None) -> bytes | None:
        """The content with a digest; None if it is missing or damaged.

        Args:
            digest: Its digest.
            size: Its length if known. A blob of another length is not read.
        """
        if not self.has(digest):
            return None
        try:
            if size is not None and self._path(digest).lstat().st_size != size:
                return None
            data = self._path(digest).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def sweep(self, wanted: Set[str]) -> None:
        """Remove all blobs but the wanted ones, and leftovers of interrupted writes."""
        total = 0
        for path, size in list(self._all()):
            if path.parent.name + path.name in wanted:
                total += size
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        self.total = total

    def size(self, wanted: Set[str]) -> int:
        """Bytes of the wanted blobs."""
        return sum(size for path, size in self._all() if path.parent.name + path.name in wanted)

    def _all(self) -> Iterator[tuple[Path, int]]:
        with contextlib.suppress(OSError):
            for folder in list(os.scandir(self._folder)):
                if not folder.is_dir(follow_symlinks=False):
                    continue
                with contextlib.suppress(OSError):
                    for entry in list(os.scandir(folder.path)):
                        yield Path(entry.path), entry.stat(follow_symlinks=False).st_size

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]
