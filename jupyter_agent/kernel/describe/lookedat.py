"""One bounded look at a text file: its head, a few places further on, its number of lines."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import BinaryIO

from jupyter_agent.files.textfile import Encoding, detect

HEAD = 4_000_000
"""Bytes that are read at the beginning of a text file."""
BLOCKS, BLOCK = 8, 250_000
"""Blocks that are read further on, and the bytes of each; none of UTF-16, which may be cut."""
_MOST_COUNTED = 2_000_000_000
"""Bytes of a file whose lines are counted; those of a larger one are estimated."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was read of a text file.

    Attributes:
        head: Whole lines of its beginning.
        blocks: Whole lines of places further on.
        encoding: Its encoding.
        lines: The number of all its lines, which `is_counted` or estimated.
        size: Its bytes.
        is_whole: True if `head` is all of it.
        is_broken: True if a place further on does not decode.
    """

    head: str
    blocks: tuple[str, ...]
    encoding: Encoding
    lines: int
    size: int
    is_whole: bool
    is_broken: bool = False

    @property
    def is_counted(self) -> bool:
        return self.size < _MOST_COUNTED

    @property
    def spelled(self) -> str:
        """The encoding in words."""
        mark = " with a byte-order mark" if self.encoding.mark else ""
        return f"{self.encoding.name}{mark}{', not valid further on' if self.is_broken else ''}"

    @property
    def further(self) -> str:
        """The places further on, in words."""
        return f" and of {len(self.blocks)} places further on" if self.blocks else ""


def look_at(stream: BinaryIO, size: int) -> Look | None:
    """Look at a file of `size` bytes; None if it is not text.

    Memory and time are bounded whatever the file holds, but for the count of its lines, which
    reads it once.
    """
    encoding = detect(stream, HEAD)
    if encoding is None:
        return None
    # A little more than the head is read whole: places further on would overlap.
    head = stream.read(HEAD if size > HEAD + 2 * BLOCKS * BLOCK else size)
    is_whole = len(head) == size
    text = _decoded(head.removeprefix(encoding.mark), encoding)
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    is_wide = encoding.name.startswith("utf-16")
    places = () if is_whole or is_wide else range(1, BLOCKS + 1)
    found = [_block(stream, size, place) for place in places]
    blocks = tuple(_decoded(each, encoding) for each in found if each)
    # A block begins and ends with a whole line, so that nothing is cut in it.
    is_broken = any("\ufffd" in text for text in blocks) and "\ufffd" not in text
    if size < _MOST_COUNTED:
        lines = _lines(stream, encoding)
    else:
        lines = size * text.count("\n") // len(head)
    return Look(text, blocks, encoding, lines, size, is_whole, is_broken)


def _decoded(data: bytes, encoding: Encoding) -> str:
    return codecs.getincrementaldecoder(encoding.name)("replace").decode(data)


def _block(stream: BinaryIO, size: int, place: int) -> bytes:
    """Whole lines of a later part."""
    stream.seek(HEAD + (size - HEAD) * place // (BLOCKS + 1))
    data = stream.read(BLOCK)
    return data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]


def _lines(stream: BinaryIO, encoding: Encoding) -> int:
    """The number of lines of a whole file."""
    stream.seek(0)
    is_wide = encoding.name.startswith("utf-16")
    decoder = codecs.getincrementaldecoder(encoding.name)("replace")
    found, last = 0, ""
    while chunk := stream.read(1 << 22):
        if is_wide:
            text = decoder.decode(chunk)
            found += text.count("\n")
            last = text[-1:] or last
        else:
            found += chunk.count(b"\n")
            last = chr(chunk[-1])
    return found + (last not in ("\n", ""))
