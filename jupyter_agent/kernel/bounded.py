"""Keeps text of any length in bounded memory: the start and the end, and all of it on disk.

Loaded with the extension: what only a long output needs is imported when one is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from jupyter_agent.errors import AgentError
from jupyter_agent.kernel.marks import own

HEAD = 50_000
TAIL = 50_000
OVERFLOW = 50_000_000
"""Characters of one long output that are kept on disk."""
OUTPUTS = "outputs"
"""The folder for them, inside of the state folder."""
_WHOLE = 100_000
"""Characters that are looked through for secrets in one piece."""
LOOKED = 2_000_000
"""Characters of one output in which shapes of secrets are looked for: more would take seconds."""
_KEY_BEGINS = "-----BEGIN "


class Overflow:
    """The file for the full text of a long output, made on demand.

    Args:
        folder: Returns the folder to write to, for instance in the workspace's state folder.
        name: The file's name. It must be the same in each run: notices contain it.
    """

    def __init__(self, folder: Callable[[], Path], name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: IO[str] | None = None
        self._room = OVERFLOW
        self._pending = ""
        self._looked = 0
        self._failed = False

    def write(self, text: str) -> None:
        """Add to the file. Text beyond its limit, or after a failed write, is dropped."""
        if self._failed or self._room <= 0:
            return
        with own():
            self._add(text)

    def _add(self, text: str) -> None:
        try:
            if self._file is None:
                from jupyter_agent.files.atomic import open_private, ordinary, private_folder

                folder = self._folder()
                private_folder(folder, follow_link=False)
                path = folder / self._name
                ordinary(path)  # follows no link, does not block on a pipe
                self._file = open_private(path, "w", encoding="utf-8", errors="replace", newline="")
            self._pending += text[: self._room]
            if len(self._pending) > _WHOLE:
                self._write_lines()
        except (OSError, AgentError):
            self._failed = True  # the notice names no file; the code's print goes on
        self._room -= len(text)

    def _write_lines(self) -> None:
        """Write the complete lines without secrets; keeps a key of several lines together."""
        assert self._file is not None
        end = self._pending.rfind("\n") + 1
        key = self._pending.find(_KEY_BEGINS, max(0, end - _WHOLE // 2))
        if key > 0 and "-----END " not in self._pending[key:end]:
            end = min(end, key)
        end = end or len(self._pending)
        self._file.write(self._without_secrets(self._pending[:end]))
        self._pending = self._pending[end:]

    def _without_secrets(self, text: str) -> str:
        """Redact secrets by their shape in the first megabytes, known values in all of it."""
        from jupyter_agent.core.redact import MARK, redact, secret_values

        part = max(0, LOOKED - self._looked)
        self._looked += len(text)
        rest = text[part:]
        for value in secret_values() if rest else ():
            rest = rest.replace(value, MARK)
        return redact(text[:part], secret_values()) + rest

    def close(self) -> None:
        """Write the rest, and close the file."""
        if self._file is not None:
            try:
                self._file.write(self._without_secrets(self._pending))
                self._pending = ""
                self._file.close()
            except OSError:
                self._failed = True

    @property
    def notice(self) -> str:
        """Words for the place of the full text; empty if it is not kept."""
        if self._failed or self._file is None:
            return ""
        where = f".jupyter_agent/{OUTPUTS}/{self._name}"
        if self._room >= 0:
            return f"; the whole is in {where}"
        return f"; the first {OVERFLOW // 1_000_000} MB are in {where}"


class BoundedText:
    """Text of any length; keeps the first `head` and the last `tail` characters.

    As soon as text would be lost, `overflow` gets all of it.
    """

    def __init__(
        self, head: int = HEAD, tail: int = TAIL, overflow: Overflow | None = None
    ) -> None:
        self.length = 0
        self.lines = 0
        self._overflow = overflow
        self._limit = head + tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_room = head
        self._tail_size = 0
        self._tail_limit = tail

    def add(self, text: str) -> None:
        if self._overflow is not None and self.length + len(text) > self._limit:
            if self.length <= self._limit:
                self._overflow.write("".join([*self._head, *self._tail]))
            self._overflow.write(text)
        self.length += len(text)
        self.lines += text.count("\n")
        first, rest = text[: self._head_room], text[self._head_room :]
        if first:
            self._head.append(first)
            self._head_room -= len(first)
        if rest:
            self._add_tail(rest)

    def _add_tail(self, text: str) -> None:
        text = text[-self._tail_limit :]
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    @property
    def whereabouts(self) -> str:
        """Words for the place of the full text; empty if nothing was left out or it is not kept."""
        return self._overflow.notice.removeprefix("; ") if self._overflow else ""

    def __str__(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)[-self._tail_limit :]
        left_out = self.length - len(head) - len(tail)
        if left_out <= 0:
            return head + tail
        where = self._overflow.notice if self._overflow else ""
        return f"{head}\n[... {left_out:,} characters left out{where} ...]\n{tail}"
