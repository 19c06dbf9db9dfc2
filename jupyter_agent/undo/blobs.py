"""Contents of files, each kept once under its digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Set
from pathlib import Path

from jupyter_agent.files.atomic import open_private, private_folder

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """Contents by digest, one file each, in `folder`.

    Whoever keeps a content and notes where it belongs holds the store's lock meanwhile, since
    what nobody has noted is swept away.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.total = sum(size for _, size in self._all())

    def has(self, digest: str) -> bool:
        if not _DIGEST.fullmatch(digest):
            return False
        try:
            return stat.S_ISREG(self._path(digest).lstat().st_mode)
        except OSError:
            return False

    def keep(self, digest: str, data: bytes, durable: bool = True) -> None:
        """Keep a content, in place of what may be there. `durable` waits until it is on the disk.

        Raises:
            OSError: It could not be kept.
        """
        path = self._path(digest)
        private_folder(path.parent)
        temporary = path.with_name(f"{secrets.token_hex(8)}.tmp")
        try:
            with open_private(temporary, "xb") as stream:
                stream.write(data)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self.total += len(data)

    def content(self, digest: str, size: int | None = None) -> bytes | None:
        """A kept content; None where it is missing or damaged.

        Args:
            digest: Its digest.
            size: How long it is, where that is known: no more is read.
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
        """Remove every content whose digest is not wanted, and remains of interrupted writes."""
        total = 0
        for path, size in list(self._all()):
            if path.parent.name + path.name in wanted:
                total += size
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        self.total = total

    def size(self, wanted: Set[str]) -> int:
        """Bytes of the wanted contents."""
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
