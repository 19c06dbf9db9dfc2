"""`read_file`: text, notebooks, pictures and everything that is neither."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.core.messages import Image

from .conftest import CallTool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_numbered_lines(call: CallTool, root: Path) -> None:
    """Lines come with their numbers, right-aligned in six columns."""
    (root / "a.txt").write_text("one\n\n  three", encoding="utf-8")
    result = await call("read_file", path="a.txt")
    assert result.text == "     1|one\n     2|\n     3|  three"
    assert not result.is_error


async def test_only_newlines_end_lines(call: CallTool, root: Path) -> None:
    """Form feeds and Unicode separators are part of a line, as editors count them."""
    (root / "a.txt").write_bytes("a\x0cb\u2028c\r\nd\n".encode())
    assert (await call("read_file", path="a.txt")).text == "     1|a\x0cb\u2028c\n     2|d"


async def test_window(call: CallTool, root: Path) -> None:
    """Offset is the first line, limit a number of lines; what follows is announced."""
    (root / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 11)), encoding="utf-8")
    assert (await call("read_file", path="a.txt", offset=9)).text == "     9|l9\n    10|l10"
    text = (await call("read_file", path="a.txt", offset=2, limit=2)).text
    assert text == "     2|l2\n     3|l3\n[more lines follow; read on with offset=4]"
    assert (await call("read_file", path="a.txt", limit=1)).text.startswith("     1|l1\n[more")
    beyond = await call("read_file", path="a.txt", offset=11)
    assert beyond.is_error
    assert beyond.text == "a.txt has 10 lines; there is no line 11."


@pytest.mark.parametrize("arguments", [{"offset": 0}, {"limit": 0}, {"offset": -1}, {"limit": "2"}])
async def test_bad_window(call: CallTool, root: Path, arguments: dict[str, object]) -> None:
    """A window before line one is refused by the schema."""
    (root / "a.txt").write_text("a", encoding="utf-8")
    assert (await call("read_file", path="a.txt", **arguments)).is_error


async def test_long_file(call: CallTool, root: Path) -> None:
    """Head and tail, with a notice that says what is missing and how to read it."""
    (root / "a.txt").write_text("".join(f"l{i}\n" for i in range(1, 2001)), encoding="utf-8")
    lines = (await call("read_file", path="a.txt")).text.split("\n")
    assert lines[499:502] == [
        "   500|l500",
        "[lines 501 to 1900 of 2000 left out; read them with offset=501 and a limit]",
        "  1901|l1901",
    ]
    assert lines[-1] == "  2000|l2000"
    rest = (await call("read_file", path="a.txt", offset=501, limit=1400)).text.split("\n")
    assert (rest[0], rest[-2]) == ("   501|l501", "  1900|l1900")


async def test_just_short_enough(call: CallTool, root: Path) -> None:
    """A file that fits into head and tail is shown whole."""
    (root / "a.txt").write_text("x\n" * 600, encoding="utf-8")
    text = (await call("read_file", path="a.txt")).text
    assert text.count("\n") == 599
    assert "left out" not in text


async def test_wide_lines_are_bounded_together(call: CallTool, root: Path) -> None:
    """Many wide lines are bounded together."""
    (root / "a.txt").write_text(("x" * 1500 + "\n") * 400, encoding="utf-8")
    text = (await call("read_file", path="a.txt")).text
    assert len(text) < 60_000
    assert "of 400 left out" in text
    assert len((await call("read_file", path="a.txt", offset=1, limit=400)).text) < 60_000


async def test_single_huge_line(call: CallTool, root: Path) -> None:
    """A line of a megabyte is cut, with a notice."""
    (root / "a.json").write_text("x" * 1_000_000 + "\nend\n", encoding="utf-8")
    text = (await call("read_file", path="a.json")).text
    assert len(text) < 3_000
    assert "[998000 more characters of this line left out]" in text
    assert text.endswith("     2|end")


async def test_gigabyte(call: CallTool, root: Path) -> None:
    """A file of a gigabyte is read in bounded memory and time, with a notice."""
    with (root / "big.log").open("wb") as stream:
        stream.write(b"a line of a log\n" * 65536)
        stream.truncate(1 << 30)
    tracemalloc.start()
    begun = time.monotonic()
    text = (await call("read_file", path="big.log")).text
    seconds = time.monotonic() - begun
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "only the first 256.0 MB were looked at" in text
    assert len(text) < 60_000
    assert peak < 50_000_000
    assert seconds < 20


async def test_empty(call: CallTool, root: Path) -> None:
    """An empty file, or one with only a byte-order mark, is reported as empty."""
    (root / "a.txt").write_bytes(b"")
    (root / "b.txt").write_bytes(b"\xef\xbb\xbf")
    for path in ("a.txt", "b.txt"):
        result = await call("read_file", path=path)
        assert (result.text, result.is_error) == (f"{path} is empty.", False)


@pytest.mark.parametrize(
    ("data", "line", "notice"),
    [
        ("naïve".encode("latin-1"), "naïve", "latin-1"),
        ("caf\xe9".encode("latin-1"), "café", "latin-1"),
        (b"\xef\xbb\xbfna\xc3\xafve", "naïve", ""),
        ("naïve".encode("utf-16"), "naïve", "utf-16-le"),
        (b"\xfe\xff" + "naïve".encode("utf-16-be"), "naïve", "utf-16-be"),
        (b"a\r\n", "a", ""),
    ],
)
async def test_encodings(call: CallTool, root: Path, data: bytes, line: str, notice: str) -> None:
    """Other encodings are read and named, without marks and carriage returns."""
    (root / "a.txt").write_bytes(data)
    text = (await call("read_file", path="a.txt")).text
    assert text.split("\n")[0] == f"     1|{line}"
    assert text.partition("\n")[2] == (f"[a.txt is stored as {notice}]" if notice else "")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\nplain", "PDF"),
        (b"PK\x03\x04\x00", "ZIP or Office"),
        (b"abc\x00def", "unknown kind"),
        (bytes(range(1, 256)), "unknown kind"),
    ],
)
async def test_binary(call: CallTool, root: Path, data: bytes, kind: str) -> None:
    """A binary file is described, not dumped."""
    (root / "a.bin").write_bytes(data)
    text = (await call("read_file", path="a.bin")).text
    assert text == f"a.bin is a binary file ({kind}, {len(data)} bytes): not shown."


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0x", "image/jpeg"),
        (b"GIF89ax", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPx", "image/webp"),
    ],
)
async def test_images(call: CallTool, root: Path, data: bytes, media_type: str) -> None:
    """Pictures go to the model as pictures, whatever their name."""
    (root / "plot").write_bytes(data)
    content = (await call("read_file", path="plot")).content
    assert content[1] == Image(media_type, base64.b64encode(data).decode())


async def test_large_image(call: CallTool, root: Path) -> None:
    """A picture too large for providers is described with the limit."""
    (root / "plot.png").write_bytes(PNG + b"\0" * 5_300_000)
    result = await call("read_file", path="plot.png")
    assert len(result.content) == 1
    assert "too large" in result.text


async def test_missing(call: CallTool, root: Path) -> None:
    """A missing file is answered with near names, a missing folder with its name."""
    (root / "sub").mkdir()
    (root / "sub" / "Measurements.csv").write_text("a", encoding="utf-8")
    near = await call("read_file", path="sub/measurement.csv")
    assert near.is_error
    assert near.text == ("There is no file sub/measurement.csv. Near names: sub/Measurements.csv.")
    assert "no folder none" in (await call("read_file", path="none/a.csv")).text


async def test_notebook(call: CallTool, root: Path) -> None:
    """A notebook comes as numbered cells with their source and short text outputs."""
    outputs = [
        new_output("stream", text="hello\n"),
        new_output("display_data", {"text/plain": "<Figure>", "image/png": "AAAA"}),
        new_output("error", ename="KeyError", evalue="'x'", traceback=["long"]),
        new_output("execute_result", {"text/plain": "y" * 5000}),
    ]
    cells = [new_markdown_cell("# Title"), new_code_cell("a = 1\nprint(a)", outputs=outputs)]
    nbformat.write(new_notebook(cells=cells), root / "a.ipynb")
    text = (await call("read_file", path="a.ipynb")).text
    lines = [line.partition("|")[2] or line for line in text.split("\n")]
    assert lines[:12] == [
        "[cell 1: markdown]",
        "# Title",
        "[cell 2: code]",
        "a = 1",
        "print(a)",
        "[output: stdout]",
        "hello",
        "[output: image/png, text/plain]",
        "<Figure>",
        "[output: error]",
        "KeyError: 'x'",
        "[output: text/plain]",
    ]
    assert lines[13] == "[the rest of 5000 characters left out]"
    assert "AAAA" not in text


@pytest.mark.parametrize(
    "data",
    ["{torn", "[]", '{"cells": 1}', '{"cells": [1]}', '{"cells": [{"source": 1}]}', "[" * 100_000],
)
async def test_torn_notebook(call: CallTool, root: Path, data: str) -> None:
    """A damaged notebook is shown as text, with a note."""
    (root / "a.ipynb").write_text(data, encoding="utf-8")
    text = (await call("read_file", path="a.ipynb")).text
    assert text.endswith("[a.ipynb is not a readable notebook; this is its plain text]")


async def test_odd_notebook(call: CallTool, root: Path) -> None:
    """Outputs of any shape do not break the reading."""
    cells = [
        {"cell_type": "code", "source": ["a\n", "b"], "outputs": [1, {}, {"data": 3}]},
        {"source": "", "outputs": "none"},
        {"source": "c", "outputs": [{"output_type": "stream", "text": 7}]},
    ]
    (root / "a.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert not (await call("read_file", path="a.ipynb")).is_error
