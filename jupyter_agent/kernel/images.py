"""Pictures of code's outputs for a model, bounded in size."""

from __future__ import annotations

import base64
import binascii
import io
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from jupyter_agent.core.messages import Image

LONGEST_SIDE = 768
"""Pixels of the longest side of a picture, by default."""
_MOST_BYTES = 3_500_000
_PNG = b"\x89PNG\r\n\x1a\n"


def picture(data: Mapping[str, Any], longest_side: int = LONGEST_SIDE) -> Image | None:
    """The PNG or JPEG of a MIME bundle, scaled down to at most `longest_side` pixels.

    None if there is none, the data is no picture, or it is too large and Pillow, which scales it,
    is not installed.
    """
    for media_type in ("image/png", "image/jpeg"):
        if isinstance(data.get(media_type), str):
            try:
                raw = base64.b64decode("".join(data[media_type].split()), validate=True)
            except (binascii.Error, ValueError):
                return None
            return _bounded(media_type, raw, longest_side)
    return None


def _bounded(media_type: str, raw: bytes, longest_side: int) -> Image | None:
    size = _png_size(raw) if media_type == "image/png" else None
    if size and max(size) <= longest_side and len(raw) <= _MOST_BYTES:
        return _image(media_type, raw) if _is_whole_png(raw) else None
    return _scaled(raw, longest_side)


def _image(media_type: str, raw: bytes) -> Image:
    return Image(media_type, base64.b64encode(raw).decode("ascii"))


def _png_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height from the header, so that small pictures need no library."""
    if raw[:8] != _PNG or raw[12:16] != b"IHDR" or len(raw) < 24:
        return None
    width, height = struct.unpack(">II", raw[16:24])
    return width, height


def _is_whole_png(raw: bytes) -> bool:
    """True if all chunks are complete and undamaged: a model's server refuses a whole request
    with a broken picture, in this turn and each later one."""
    kinds: list[bytes] = []
    at = len(_PNG)
    while at + 12 <= len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        body, check = raw[at + 4 : at + 8 + length], raw[at + 8 + length : at + 12 + length]
        if check != struct.pack(">I", zlib.crc32(body)):
            return False
        kinds.append(body[:4])
        at += 12 + length
    return b"IDAT" in kinds and kinds[-1] == b"IEND" and 0 not in (_png_size(raw) or (0,))


def _scaled(raw: bytes, longest_side: int) -> Image | None:
    try:
        from PIL import Image as Pillow
    except ImportError:
        return None
    try:
        with Pillow.open(io.BytesIO(raw)) as opened:
            small = opened.convert("RGBA" if opened.mode in ("P", "LA", "RGBA") else "RGB")
        small.thumbnail((longest_side, longest_side))
        for kind, picture in (("PNG", small), ("JPEG", small.convert("RGB"))):
            stored = io.BytesIO()
            picture.save(stored, kind)
            if stored.tell() <= _MOST_BYTES:
                return _image(f"image/{kind.lower()}", stored.getvalue())
    except Exception:
        return None  # a broken picture, or one made to blow up when it is opened
    return None
