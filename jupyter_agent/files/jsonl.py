"""JSON Lines: one object a line, appended, and read back as far as it can be read.

A writer that dies leaves one unfinished line at most, and the next line starts on a line of its
own. Readers pass over what they cannot read, and count it.
"""

from __future__ import annotations

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
"""The type of the line that says how many lines are missing in a file, and why."""
_MOST_WAITING = 10_000_000
"""Bytes of lines that wait to be written; what comes after them is lost."""
_STEPS_BACK = 8
"""Lines that may be taken back so that there is room for the line that says what is missing."""
_MOST_NAMES = 10_000


# Lines -------------------------------------------------------------------------------------------


def encode(value: Mapping[str, object], ascii: bool = False) -> bytes:
    """An object as a line, without the line's end.

    Args:
        value: The object.
        ascii: Whether to escape all but ASCII, which takes more room and keeps lone surrogates as
            they are. Otherwise each becomes a question mark, since UTF-8 has none.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold it.
    """
    text = json.dumps(value, ensure_ascii=ascii, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def decode(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None where there is none that can be read."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was read: its number in the file from 1, its size in bytes, its object."""

    number: int
    size: int
    value: dict[str, Any]


class Reader:
    """Reads lines in order, passing over what is no object.

    Args:
        lines: With their ends, for instance an open binary file.

    Attributes:
        passed_over: How many lines with an end were passed over so far.
        is_torn: Whether the last line has no end and cannot be read.
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
        lines: Without their ends.
        durable: Whether to wait until they are on the disk.

    Returns:
        The size of the file now.

    Raises:
        OSError: Nothing was added, unless the system refuses to cut off what was.
    """
    data = b"".join(line + b"\n" for line in lines)
    return atomic.append(path, data, durable=durable, on_new_line=True)


# Files that must not stop a turn -----------------------------------------------------------------


class Upkeep:
    """Tells the person, once each, that a file cannot be written and that it is whole again.

    Args:
        what: The file, at the beginning of a sentence: `The run log`.
        verb: What is done with it: `written`, `saved`.

    Attributes:
        reason: Why the file does not hold everything now; empty where it does.
        notices: Lines that `take_notices` has not given yet.
    """

    def __init__(self, what: str, verb: str = "written") -> None:
        self.reason = ""
        self.notices: list[str] = []
        self._what = what
        self._verb = verb

    def failed(self, error: Exception) -> None:
        """Something could not be written."""
        reason = atomic.reason_of(error)
        if reason != self.reason:
            self.notices.append(f"{self._what} is not being {self._verb}: {reason}. {TRIED_AGAIN}")
        self.reason = reason

    def succeeded(self, lost: int = 0) -> None:
        """All that waited is written, but for so many lines that are lost."""
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
    the next one. Until then the file ends with a line of type `not_written` that says how many
    lines are missing and why; it stays where they are lost. Where somebody removes the file,
    another one begins.

    Args:
        create: Makes the folder and a new file, mostly by `new_file`. Gives its path and an open
            descriptor. Raises `OSError`.
        upkeep: Takes what the person should know.

    Attributes:
        path: The file; None before the first line.
        reason: Why the file does not hold all lines now; empty where it does.
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
        """Append a line, after those that wait. `line` has no end. Dropped after `close`."""
        if self._is_closed:
            return
        if self._lost or self._waiting_bytes + len(line) > _MOST_WAITING:
            self._lost += 1
        else:
            self._wait(line + b"\n", self._waiting.append)
        self._flush()

    def close(self) -> None:
        """Write what waits, as far as that is possible, and close the file."""
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
        with suppress(ImportError, OSError):  # Windows removes no file that is open
            import fcntl

            # So other kernels see that the file is in use. Not every file system can.
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)

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
        # Lines are taken back until there is room to say what is missing.
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
        """Whether somebody removed the file; its lines then count as lost."""
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
    """Open a new private file `STEM.jsonl`, or `STEM_2.jsonl` and so on where that name is taken.

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
            return path, os.open(path, flags, 0o600)
    raise FileExistsError(0, f"there is no free name for {stem}")
