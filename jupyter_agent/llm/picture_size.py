"""Width and height of a picture, from its first bytes, without a library."""

from __future__ import annotations

import base64
import binascii
import struct

from jupyter_agent.core.messages import Image

_HEAD = 65_536
"""Characters of base64 text that are looked at: JPEG keeps its size behind thumbnails."""
_PNG = b"\x89PNG\r\n\x1a\n"
_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG markers in the range of frames that begin none."""


def picture_size(image: Image) -> tuple[int, int] | None:
    """Width and height in pixels; None if the format is unknown or damaged."""
    try:
        raw = base64.b64decode(image.data[:_HEAD])
    except (binascii.Error, ValueError):
        return None
    try:
        size = _png(raw) or _gif(raw) or _webp(raw) or _jpeg(raw)
    except (struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _png(raw: bytes) -> tuple[int, int] | None:
    if raw[:8] != _PNG or raw[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", raw[16:24])
    return width, height


def _gif(raw: bytes) -> tuple[int, int] | None:
    if raw[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    width, height = struct.unpack("<HH", raw[6:10])
    return width, height


def _webp(raw: bytes) -> tuple[int, int] | None:
    if raw[:4] != b"RIFF" or raw[8:12] != b"WEBP":
        return None
    match raw[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", raw[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return (
                int.from_bytes(raw[24:27], "little") + 1,
                int.from_bytes(raw[27:30], "little") + 1,
            )
    return None


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    """The size in the first frame header: segments are skipped by their lengths."""
    if raw[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", raw[at + 2 : at + 4])[0])
    return None
