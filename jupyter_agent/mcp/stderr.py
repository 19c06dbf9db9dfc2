"""What a server writes to its stderr, kept in a file that does not grow without end."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.files.atomic import open_private, ordinary, private_folder

_MOST = 500_000
"""Bytes of the newer file; when it is full it becomes the older one, `NAME.old`."""
_CHUNK = 65_536
_LONGEST_LINE = 65_536
_PAUSE = 0.005


class StderrLog:
    """A pipe for a server's stderr, and the thread that empties it into a file.

    A thread of its own, so that a server never waits for a kernel that is computing. One that
    floods is slowed down rather than allowed to fill the disk: at most two files of half a
    megabyte.

    Args:
        path: The file. It goes on where an earlier run left off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read, write = os.pipe()
        self.stream: TextIO = os.fdopen(write, "w", encoding="utf-8")
        self._last = b""
        self._unwritten = b""
        self._thread = threading.Thread(target=self._run, name="mcp stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close our end. The thread ends when the server has closed its own."""
        with suppress(OSError):
            self.stream.close()

    def last_line(self) -> str:
        """The last line that says something: why a server ended, most often."""
        self._thread.join(0.2)  # what a dying server wrote may still be on its way
        lines = [line.strip() for line in self._last.split(b"\n") if line.strip()]
        return redact(lines[-1].decode("utf-8", "replace"), secret_values()) if lines else ""

    def _run(self) -> None:
        with open(self._read, "rb", buffering=0) as source:  # noqa: PTH123 (a descriptor)
            while chunk := source.read(_CHUNK):
                self._last = (self._last + chunk)[-4_096:]
                # A full disk or a folder that was deleted must not stop the server.
                with suppress(OSError):
                    self._append(self._whole_lines(chunk))
                if len(chunk) == _CHUNK:
                    time.sleep(_PAUSE)
        with suppress(OSError):
            self._append(self._whole_lines(b"\n" if self._unwritten else b""))

    def _whole_lines(self, chunk: bytes) -> bytes:
        """The lines that are complete by now, without secrets, which a chunk may cut in two."""
        whole, newline, self._unwritten = (self._unwritten + chunk).rpartition(b"\n")
        if len(self._unwritten) > _LONGEST_LINE:
            whole, self._unwritten = whole + newline + self._unwritten, b""
        text = redact((whole + newline).decode("utf-8", "surrogateescape"), secret_values())
        return text.encode("utf-8", "surrogateescape")

    def _append(self, chunk: bytes) -> None:
        if not chunk:
            return
        private_folder(self.path.parent, follow_link=False)
        found = ordinary(self.path)
        if found is not None and found.st_size + len(chunk) > _MOST:
            self.path.replace(self.path.with_name(f"{self.path.name}.old"))
        with open_private(self.path, "ab") as file:
            file.write(chunk)
