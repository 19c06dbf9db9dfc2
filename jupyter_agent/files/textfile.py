"""Opens and decodes text files: kinds of files, encodings, byte-order marks.

Standard library only: the search's own process imports this file.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from jupyter_agent.errors import ToolError
from jupyter_agent.files.atomic import STATE_FOLDER

EDITABLE_BYTES = 20 * 1024 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_HEAD_BYTES = 8192
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """Turns a text file's bytes into text and back: a codec's name and a byte-order mark."""

    name: str = "utf-8"
    mark: bytes = b""

    def decode(self, data: bytes) -> str:
        return data.removeprefix(self.mark).decode(self.name)

    def encode(self, text: str) -> bytes:
        """The bytes of a text. Raises `UnicodeEncodeError` for characters the codec lacks."""
        return self.mark + text.encode(self.name)


def detect(stream: BinaryIO, limit: int) -> Encoding | None:
    """The encoding of a file, judged by at most `limit` bytes; None if it is not text.

    Invalid UTF-8 counts as latin-1, which decodes any byte and encodes it back. The stream ends
    at its start.
    """
    stream.seek(0)
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name, mark) if _decodes(stream, name, limit) else None
    if b"\0" in head:
        return None
    if _decodes(stream, "utf-8", limit):
        return Encoding()
    return None if _CONTROLS.search(head) else Encoding("latin-1")


def _decodes(stream: BinaryIO, name: str, limit: int) -> bool:
    decoder = codecs.getincrementaldecoder(name)()
    left = limit
    try:
        while left > 0 and (chunk := stream.read(min(left, 1 << 20))):
            decoder.decode(chunk)
            left -= len(chunk)
        decoder.decode(b"", final=not stream.read(1))
    except UnicodeDecodeError:
        return False
    finally:
        stream.seek(0)
    return True


def open_regular(path: Path, shown: str) -> BinaryIO:
    """Open a regular file for reading; never blocks, as a pipe would.

    Raises:
        ToolError: It is missing (with near names), or a folder, pipe, socket or device.
        OSError: The system refuses.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        raise ToolError(_missing(path, shown)) from None
    refuse_special(mode, shown)
    wanted = ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
    flags = os.O_RDONLY
    for name in wanted:
        flags |= getattr(os, name, 0)
    return os.fdopen(os.open(path, flags), "rb")


def refuse_special(mode: int, shown: str) -> None:
    """Raise a ToolError unless the mode is that of a regular file."""
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            hint = " Use list_files to see what it holds." if kind == "a folder" else ""
            raise ToolError(f"{shown} is {kind}, not a file.{hint}")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{shown} is not a regular file.")


def _missing(path: Path, shown: str) -> str:
    if path.parent.parts[-2:] == (STATE_FOLDER, "outputs"):
        return (
            f"There is no file {shown} any more: long outputs are kept as long as "
            "outputs.keep_days and outputs.keep_mb say. Run the code again if you need it."
        )
    folder = shown.rpartition("/")[0]
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, 10_000))
    except OSError:
        return f"There is no file {shown}, and no folder {folder or '.'}. Try list_files."
    spelled = {name.casefold(): name for name in reversed(names)}
    near = difflib.get_close_matches(path.name.casefold(), spelled, 3)
    prefix = f"{folder}/" if folder else ""
    hint = f" Near names: {', '.join(prefix + spelled[name] for name in near)}." if near else ""
    return f"There is no file {shown}.{hint or ' Try list_files.'}"


@contextlib.contextmanager
def system_refusals(action: str) -> Iterator[None]:
    """Turn an `OSError` into a `ToolError`, one line for the model: `action` failed, and why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ToolError(f"{action} is not possible: {reason}.") from None


def size(count: int) -> str:
    """A number of bytes in words, for instance `1.5 MB`."""
    if count < 1024:
        return f"{count} bytes"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f} KB"
    return f"{count / 1024 / 1024:.1f} MB"
