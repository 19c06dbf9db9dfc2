"""Pictures for a model: their size, and what is no picture after all."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib
from typing import Any

import pytest
from pace import processor_seconds

from jupyter_agent.core.messages import Image
from jupyter_agent.kernel.images import picture

Pillow = pytest.importorskip("PIL.Image")
MOST_BYTES = 5 * 1024 * 1024 * 3 // 4
"""What providers take of one picture, before base64."""


def stored(image: Any, kind: str = "PNG") -> str:
    """The picture as a notebook stores it."""
    target = io.BytesIO()
    image.save(target, kind)
    return base64.b64encode(target.getvalue()).decode("ascii")


def png(width: int, height: int, mode: str = "RGB") -> dict[str, str]:
    return {"image/png": stored(Pillow.new(mode, (width, height)))}


def opened(image: Image | None) -> Any:
    """The picture as a provider decodes it."""
    assert image is not None
    raw = base64.b64decode(image.data, validate=True)
    found = Pillow.open(io.BytesIO(raw))
    found.load()
    assert found.get_format_mimetype() == image.media_type
    return found


def header(width: int, height: int) -> bytes:
    """The first bytes of a PNG of that size, and nothing of its content."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    )


def encoded(raw: bytes, kind: str = "image/png") -> dict[str, str]:
    return {kind: base64.b64encode(raw).decode("ascii")}


# Size --------------------------------------------------------------------------------------------


def test_a_small_picture_is_unchanged() -> None:
    """A PNG of at most 768 pixels is sent byte for byte."""
    for size in ((1, 1), (100, 50), (768, 768)):
        data = png(*size)
        assert picture(data) == Image("image/png", data["image/png"])


@pytest.mark.parametrize(
    ("size", "scaled"),
    [((1536, 768), (768, 384)), ((400, 800), (384, 768)), ((769, 1), (768, 1)), ((3000, 3), None)],
)
def test_a_large_picture_is_scaled(size: tuple[int, int], scaled: tuple[int, int] | None) -> None:
    """A larger PNG is scaled to 768 pixels on its longest side and keeps its form."""
    found = opened(picture(png(*size)))
    assert max(found.size) == 768
    assert scaled is None or found.size == scaled


def test_the_longest_side_is_a_setting() -> None:
    """Another longest side: pictures are scaled to it, and smaller ones are left alone."""
    assert opened(picture(png(400, 200), 100)).size == (100, 50)
    assert opened(picture(png(2000, 100), 2000)).size == (2000, 100)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_colours_of_every_kind(mode: str) -> None:
    """Grey, palettes, transparency, sixteen bits: each is scaled to a picture that opens."""
    found = opened(picture(png(1000, 500, mode)))
    assert found.size == (768, 384)
    assert found.mode == ("RGBA" if mode in ("LA", "P", "RGBA") else "RGB")


@pytest.mark.parametrize("size", [(60, 30), (2000, 1000)])
def test_a_jpeg(size: tuple[int, int]) -> None:
    """A JPEG, small or large: it is sent as a picture that opens, within the size."""
    data = {"image/jpeg": stored(Pillow.new("RGB", size, "red"), "JPEG")}
    found = opened(picture(data))
    assert max(found.size) == min(768, max(size))
    red, green, blue = found.convert("RGB").getpixel((0, 0))
    assert red > 240 and green < 15 and blue < 15


def test_a_jpeg_in_print_colours() -> None:
    """A JPEG in CMYK: it opens."""
    data = {"image/jpeg": stored(Pillow.new("CMYK", (900, 900)), "JPEG")}
    assert opened(picture(data)).size == (768, 768)


def test_noise_stays_within_the_providers_limit() -> None:
    """A large picture of noise is sent within the provider's limit of bytes."""
    noise = Pillow.frombytes("RGB", (1300, 1300), random.Random(1).randbytes(3 * 1300 * 1300))
    image = picture({"image/png": stored(noise)}, 1300)
    assert image is None or len(base64.b64decode(image.data)) <= MOST_BYTES


def test_line_breaks_in_base64() -> None:
    """Base64 with line breaks, as notebooks store it, is sent without them."""
    data = png(10, 10)["image/png"]
    broken = "\n".join(data[i : i + 20] for i in range(0, len(data), 20)) + "\n"
    assert picture({"image/png": broken}) == Image("image/png", data)


def test_png_is_preferred() -> None:
    """Of a bundle with PNG and JPEG the PNG is sent."""
    data = {**png(10, 10), "image/jpeg": "x"}
    assert picture(data) == Image("image/png", data["image/png"])


# What is no picture ------------------------------------------------------------------------------

WHOLE = base64.b64decode(png(50, 50)["image/png"])
BROKEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "text": {"text/plain": "x"},
    "svg": {"image/svg+xml": "<svg/>"},
    "empty": {"image/png": ""},
    "not base64": {"image/png": "§§§"},
    "half base64": {"image/png": "iVBORw0KGgo"},
    "not text": {"image/png": b"x"},
    "words": encoded(b"this is no picture"),
    "empty jpeg": {"image/jpeg": ""},
    "cut jpeg": encoded(
        base64.b64decode(stored(Pillow.new("RGB", (99, 99)), "JPEG"))[:200], "image/jpeg"
    ),
    "cut signature": encoded(WHOLE[:10]),
    "signature only": encoded(WHOLE[:8]),
    "header only": encoded(header(50, 50)),
    "cut": encoded(WHOLE[: len(WHOLE) // 2]),
    "damaged": encoded(WHOLE[:40] + b"\x00" * (len(WHOLE) - 40)),
    "no size": encoded(header(0, 0)),
    "huge header": encoded(header(60_000, 60_000)),
    "very huge header": encoded(header(2**31 - 1, 2**31 - 1)),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_picture(data: dict[str, Any]) -> None:
    """A missing or damaged picture and a decompression bomb are refused at once."""
    assert picture(data) is None
    assert processor_seconds(lambda: picture(data), 1) < 1


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_below_the_threshold() -> None:
    """A header of a hundred million pixels without content is refused."""
    assert picture(encoded(header(10_000, 10_000))) is None
