"""A bounded sample of a text file: its beginning, some later places, its number of lines."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from jupyter_agent.files.textfile import Encoding, detect

HEAD = 4_000_000
"""Bytes that are read at the beginning of a text file."""
BLOCKS, BLOCK = 8, 250_000
"""The number of later places that are read, and the bytes of each. None of UTF-16, whose lines
cannot be found in the middle."""
_MOST_COUNTED = 2_000_000_000
"""Bytes of a file whose lines are counted; the lines of a larger one are estimated."""
_WINDOWS = re.compile(rb"[\x80-\x9f]")
"""Bytes that are control characters in latin-1, and quotation marks or € in Windows' cp1252."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class TextSample:
    """The parts of a text file that were read. Each line in them ends with a newline character.

    Attributes:
        head: The first lines, whole ones.
        blocks: Whole lines of later places; empty if `head` is the whole file.
        encoding: The file's encoding.
        lines: The number of the file's lines, estimated unless `is_counted`.
        size: The file's bytes.
        is_whole: True if `head` is the whole file.
        is_broken: True if a later place does not decode.
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
        return self.is_whole or self.size < _MOST_COUNTED

    @property
    def encoding_name(self) -> str:
        """The encoding in words: `utf-8 with a byte-order mark`."""
        name = self.encoding.name
        mark = " with a byte-order mark" if self.encoding.mark else ""
        if name.startswith("utf-16") and not mark:
            mark = " without a byte-order mark"
        return f"{name}{mark}{', not valid further on' if self.is_broken else ''}"

    @property
    def places(self) -> str:
        """The later places in words; empty if there are none."""
        return f" and of {len(self.blocks)} places further on" if self.blocks else ""


def sample_text(stream: BinaryIO, size: int) -> TextSample | None:
    """Read a sample of a file of `size` bytes; None if it is not text.

    Memory is bounded by `HEAD` and `BLOCKS`, time by one pass that counts lines.
    """
    encoding = _encoding(stream)
    if encoding is None:
        return None
    stream.seek(0)
    # The head and the later places of a slightly larger file would overlap: it is read whole.
    head = stream.read(HEAD if size > HEAD + 2 * BLOCKS * BLOCK else size)
    is_whole = len(head) == size
    text = _decoded(head.removeprefix(encoding.mark), encoding)
    if is_whole:
        lines = text.count("\n") + (text[-1:] not in ("\n", ""))
        return TextSample(text, (), encoding, lines, size, True)
    text = text[: text.rfind("\n") + 1] or text
    is_wide = encoding.name.startswith("utf-16")
    found = [_block(stream, size, place) for place in range(1, BLOCKS + 1) if not is_wide]
    blocks = tuple(_decoded(each, encoding) for each in found if each)
    is_broken = any("\ufffd" in block for block in blocks) and "\ufffd" not in text
    if size < _MOST_COUNTED:
        lines = _count_lines(stream, encoding)
    else:
        lines = size * text.count("\n") // max(1, len(head))
    return TextSample(text, blocks, encoding, lines, size, False, is_broken)


def _encoding(stream: BinaryIO) -> Encoding | None:
    """The encoding by the head; also cp1252, and UTF-16 without a mark, as Windows writes it."""
    found = detect(stream, HEAD)
    stream.seek(0)
    if found is None:
        return _unmarked_utf16(stream.read(4096))
    if found.name != "latin-1":
        return found
    head = stream.read(HEAD)
    with suppress(UnicodeDecodeError):  # the last character is cut while a file is written
        if not codecs.getincrementaldecoder("utf-8")().decode(head).isascii():
            return Encoding()
    with suppress(UnicodeDecodeError):
        if _WINDOWS.search(head) and head.decode("cp1252"):
            return Encoding("cp1252")
    return found


def _unmarked_utf16(head: bytes) -> Encoding | None:
    """UTF-16 of mostly Latin letters, in which every other byte is zero."""
    for name, first in (("utf-16-le", 1), ("utf-16-be", 0)):
        zeros = head[first::2].count(0)
        if zeros * 4 > len(head) and not head[1 - first :: 2].count(0):
            text = _decoded(head, Encoding(name))
            return None if _CONTROLS.search(text) else Encoding(name)
    return None


def _decoded(data: bytes, encoding: Encoding) -> str:
    """The text with uniform line ends, without a last character that is cut."""
    text = codecs.getincrementaldecoder(encoding.name)("replace").decode(data)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _block(stream: BinaryIO, size: int, place: int) -> bytes:
    """Whole lines of a later place."""
    stream.seek(HEAD + (size - HEAD) * place // (BLOCKS + 1))
    data = stream.read(BLOCK)
    return data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]


def _count_lines(stream: BinaryIO, encoding: Encoding) -> int:
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
