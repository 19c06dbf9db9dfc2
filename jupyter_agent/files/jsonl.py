"""JSON Lines: one object a line, appended, and read back without its unreadable lines.

A writer that dies leaves one unfinished line at most, and the next writer starts a new one.
Readers skip unreadable lines and count them.
"""

from __future__ import annotations

import errno
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.files import atomic

TRIED_AGAIN = "It is tried again with each step."
"""Ends the notice that a file cannot be written."""
NOT_WRITTEN = "not_written"
"""The type of the line with the number of missing lines and the reason."""
_MOST_WAITING = 10_000_000
"""The most bytes of waiting lines; further lines are lost."""
_STEPS_BACK = 8
"""The most lines that are removed to make room for the `not_written` line."""
_MOST_NAMES = 10_000


# Lines -------------------------------------------------------------------------------------------


def encode(value: Mapping[str, object], ascii: bool = False) -> bytes:
    """An object as a line, without the line's end.

    Args:
        value: The object.
        ascii: True escapes all but ASCII, which takes more room and keeps lone surrogates.
            Otherwise each becomes a question mark, since UTF-8 has none.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold it.
    """
    text = json.dumps(value, ensure_ascii=ascii, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def decode(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None if the line is no JSON object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file: its number from 1, its size in bytes, its object."""

    number: int
    size: int
    value: dict[str, Any]


class Reader:
    """Reads lines in order, and skips those that are no object.

    Args:
        lines: Lines with their ends, for instance an open binary file.

    Attributes:
        passed_over: The number of complete lines skipped so far.
        is_torn: True if the last line has no end and cannot be read.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.passed_over = 0
        self.is_torn = False
        self._lines = lines

    def __iter__(self) -> Iterator[Line]:
        for number, line in enumerate(self._lines, 1):
            value = decode(line)
            if value is not None:
                yield Line(number, len(line), value)
            elif line.strip():
                self.is_torn = not line.endswith(b"\n")
                self.passed_over += not self.is_torn


def append(path: Path, lines: Iterable[bytes], *, durable: bool = False) -> int:
    """Add encoded lines to a file that exists, all of them or none.

    Args:
        path: The file.
        lines: Encoded lines without their ends.
        durable: True waits until they are on the disk.

    Returns:
        The new size of the file.

    Raises:
        OSError: Nothing was added, unless the system refuses to remove a part that was.
    """
    data = b"".join(line + b"\n" for line in lines)
    return atomic.append(path, data, durable=durable, on_new_line=True)


# Files that must not stop a turn -----------------------------------------------------------------


class Upkeep:
    """Collects notices for the user: that a file cannot be written, and that it is whole again.

    Args:
        what: The file, at the beginning of a sentence: `The run log`.
        verb: The participle for its writing: `written`, `saved`.

    Attributes:
        reason: Why the file is incomplete; empty if it is complete.
        notices: Lines that `take_notices` has not returned yet.
    """

    def __init__(self, what: str, verb: str = "written") -> None:
        self.reason = ""
        self.notices: list[str] = []
        self._what = what
        self._verb = verb

    def failed(self, error: Exception) -> None:
        """Note that a write failed; the first failure makes a notice."""
        reason = atomic.reason_of(error)
        if reason != self.reason:
            self.notices.append(f"{self._what} is not being {self._verb}: {reason}. {TRIED_AGAIN}")
        self.reason = reason

    def succeeded(self, lost: int = 0) -> None:
        """Note that all waiting lines are written; `lost` is the number of those that are lost."""
        if self.reason:
            missing = f"{lost:,} lines are missing in it" if lost else "nothing is missing"
            self.notices.append(f"{self._what} is {self._verb} again, {missing}.")
        self.reason = ""

    def take_notices(self) -> list[str]:
        """The notices since the last call."""
        taken, self.notices = self.notices, []
        return taken


class Writer:
    """Appends lines to a file of its own. Nothing here raises: a log never stops a turn.

    A line that cannot be written (a full disk, a limit on file sizes) waits and is tried again with
    the next one. Meanwhile the file ends with a line of type `not_written` with the number of
    missing lines and the reason; it stays if they are lost. If somebody removes the file, another
    one begins.

    Args:
        create: Makes the folder and a new file, mostly by `new_file`. Returns its path and an
            open descriptor. Raises `OSError`.
        upkeep: Collects the notices for the user.

    Attributes:
        path: The file; None before the first line.
        reason: Why the file lacks lines; empty if it lacks none.
    """

    def __init__(self, create: Callable[[], tuple[Path, int]], upkeep: Upkeep) -> None:
        self.path: Path | None = None
        self.reason = ""
        self._create = create
        self._upkeep = upkeep
        self._file: int | None = None
        self._is_closed = False
        self._size = 0
        self._written = 0
        self._last: deque[bytes] = deque(maxlen=_STEPS_BACK)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0

    def write(self, line: bytes) -> None:
        """Append a line after the waiting ones. `line` has no end. After `close` it is dropped."""
        if self._is_closed:
            return
        if self._lost or self._waiting_bytes + len(line) > _MOST_WAITING:
            self._lost += 1
        else:
            self._wait(line + b"\n", self._waiting.append)
        self._flush()

    def close(self) -> None:
        """Write the waiting lines, as far as possible, and close the file."""
        if self._waiting or self._lost:
            self._flush()
        self._is_closed = True
        self._release()

    def _flush(self) -> None:
        """Write the lines that wait, one by one, so that the file grows as far as there is room."""
        try:
            if self._file is None or self._is_removed():
                self._begin()
            assert self._file is not None
            if os.fstat(self._file).st_size > self._size:
                os.ftruncate(self._file, self._size)  # what is missing, or a part of a line
            while self._waiting:
                self._append(self._file, self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
            if self._lost:
                self._append(self._file, self._missing(self._lost))
        except Exception as error:  # the agent's code may have patched what is called here
            self._fail(error)
            return
        self._upkeep.succeeded(self._lost)
        self.reason, self._lost = "", 0

    def _begin(self) -> None:
        self.path, self._file = self._create()
        self._size, self._written = os.fstat(self._file).st_size, 0
        self._last.clear()

    def _append(self, file: int, line: bytes) -> None:
        atomic.write_whole(file, line)
        self._size += len(line)
        self._written += 1
        self._last.append(line)

    def _fail(self, error: Exception) -> None:
        self._upkeep.failed(error)
        self.reason = str(getattr(error, "strerror", "") or atomic.reason_of(error)).rstrip(".")
        if self._file is None:
            return
        # Lines are removed again until the `not_written` line has room.
        for _ in range(_STEPS_BACK):
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
                missing = len(self._waiting) + self._lost
                atomic.write_whole(self._file, self._missing(missing))
                return
            if not self._last:
                break
            line = self._last.pop()
            self._wait(line, self._waiting.appendleft)
            self._size -= len(line)
            self._written -= 1
        with suppress(OSError):
            os.ftruncate(self._file, self._size)

    def _wait(self, line: bytes, put: Callable[[bytes], None]) -> None:
        put(line)
        self._waiting_bytes += len(line)

    def _missing(self, lines: int) -> bytes:
        return encode({"type": NOT_WRITTEN, "lines": lines, "reason": self.reason}) + b"\n"

    def _is_removed(self) -> bool:
        """True if somebody removed the file; counts its lines as lost."""
        assert self._file is not None
        if os.fstat(self._file).st_nlink:
            return False
        self._release()
        self._lost += self._written
        self.reason = self._upkeep.reason = "somebody removed it"
        return True

    def _release(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
        self._file = None


def new_file(folder: Path, stem: str) -> tuple[Path, int]:
    """Open a new private file `STEM.jsonl`, or `STEM_2.jsonl` and so on if that name exists.

    Its lock is held until the descriptor is closed or the process ends: see `is_in_use`.

    Returns:
        Its path, and a descriptor that appends.

    Raises:
        OSError: It cannot be made.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    for number in range(1, _MOST_NAMES):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}_{number}.jsonl")
        with suppress(FileExistsError):
            file = os.open(path, flags, 0o600)
            with suppress(ImportError, OSError):  # Windows; not every file system can
                import fcntl

                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return path, file
    raise FileExistsError(0, f"there is no free name for {stem}")


def is_in_use(path: Path) -> bool | None:
    """True if a process has the file of a `Writer` open; None if the file system does not tell.

    A process that was killed has it open no longer. One that it forked may.
    """
    try:
        import fcntl
    except ImportError:
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EACCES) else None
    finally:
        os.close(file)
    return False
