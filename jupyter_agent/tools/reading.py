"""`read_file`: text by numbered lines, notebooks by cells, pictures as pictures."""

from __future__ import annotations

import base64
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from jupyter_agent.core.messages import Image, Text
from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import (
    EDITABLE_BYTES,
    Encoding,
    detect,
    open_regular,
    size,
    system_refusals,
)
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools import notebooks

HEAD_LINES, HEAD_CHARACTERS = 500, 40_000
TAIL_LINES, TAIL_CHARACTERS = 100, 10_000
LINE_CHARACTERS = 2_000
SCANNED_BYTES = 256 * 1024 * 1024
# Providers take 5 MB of base64.
IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
_BINARY_KINDS = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP or Office"),
    (b"\x1f\x8b", "gzip"),
    (b"PAR1", "Parquet"),
    (b"ARROW1", "Feather"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "NumPy array"),
    (b"SQLite format 3\0", "SQLite"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
)


def reading_tools(
    workspace: Workspace,
    withheld: Callable[[], bool] = lambda: False,
    skill_file: Callable[[str], Path] | None = None,
) -> list[Tool]:
    """`read_file`, for one workspace.

    Args:
        workspace: Where to read.
        withheld: Whether outputs of code are withheld from the model: then logs and kept outputs
            in the state folder are, too.
        skill_file: Gives the real path of `skill:NAME/path`, or raises `ToolError`; None where
            there are no skills.
    """

    @tool("reads")
    def read_file(
        path: Annotated[str, Field(description="Relative to the workspace.")],
        offset: Annotated[int | None, Field(ge=1, description="First line, from 1.")] = None,
        limit: Annotated[int | None, Field(ge=1, description="Number of lines.")] = None,
    ) -> ToolReturn:
        """Read a file of the workspace.

        Lines come as `     1|text`; the number and the bar are not part of the file. Of a long
        file you get the beginning and the end: use offset and limit for the rest.

        More:
        - Notebooks come as cells, images as images; other binary files are only described.
        """
        if skill_file is not None and path.startswith("skill:"):
            return _read(skill_file(path), path, offset, limit, in_workspace=False)
        if withheld() and workspace.protects(workspace.resolve(path)):
            raise ToolError(
                f"{path} may hold outputs of code, which are withheld from you "
                "(privacy.outputs is shapes)."
            )
        target = workspace.readable(path)
        return _read(target, workspace.relative(target), offset, limit)

    return [read_file]


def _read(
    target: Path, shown: str, offset: int | None, limit: int | None, in_workspace: bool = True
) -> ToolReturn:
    with system_refusals(f"Reading {shown}"), open_regular(target, shown) as stream:
        total = os.fstat(stream.fileno()).st_size
        head = stream.read(16)
        if media_type := _image_type(head):
            return _image(stream, shown, media_type, total)
        encoding = None if _binary_kind(head) else detect(stream, SCANNED_BYTES)
        if encoding is None:
            kind = _binary_kind(head) or "unknown kind"
            return ToolReturn(f"{shown} is a binary file ({kind}, {size(total)}): not shown.")
        if total <= len(encoding.mark):
            return ToolReturn(f"{shown} is empty.", details={"path": shown} if in_workspace else {})
        text = _text(stream, shown, encoding, offset, limit)
        # What is missing is said to be "left out". A file with these words costs a question later.
        is_whole = in_workspace and offset is limit is None and "left out" not in text
        return ToolReturn(text, details={"path": shown} if is_whole else {})


def _text(
    stream: BinaryIO, shown: str, encoding: Encoding, offset: int | None, limit: int | None
) -> str:
    notices = []
    total = os.fstat(stream.fileno()).st_size
    lines: Iterable[str] | None = None
    if shown.lower().endswith(".ipynb"):
        lines = _notebook_lines(stream, encoding, total)
        if lines is None:
            notices.append(f"{shown} is not a readable notebook; this is its plain text")
    if lines is None:
        lines = _lines(stream, encoding)
        if total > SCANNED_BYTES:
            looked = size(SCANNED_BYTES)
            notices.append(f"{shown} has {size(total)}; only the first {looked} were looked at")
        if encoding.name != "utf-8":
            notices.append(f"{shown} is stored as {encoding.name}")
    if offset is None and limit is None:
        excerpt = _head_and_tail(lines)
    else:
        excerpt = _window(lines, offset or 1, limit or HEAD_LINES, shown)
    return "\n".join([excerpt, *(f"[{notice}]" for notice in notices)])


def _notebook_lines(stream: BinaryIO, encoding: Encoding, total: int) -> Iterator[str] | None:
    if total > EDITABLE_BYTES:
        return None
    stream.seek(0)
    notebook = notebooks.parse(encoding.decode(stream.read()))
    return notebooks.cell_lines(notebook) if notebook is not None else None


def _lines(stream: BinaryIO, encoding: Encoding) -> Iterator[str]:
    """A text's lines without their ends, each cut to a bearable length, in bounded memory."""
    stream.seek(len(encoding.mark))
    text = io.TextIOWrapper(stream, encoding.name, errors="replace", newline="\n")
    read = 0
    try:
        while read < SCANNED_BYTES and (line := text.readline(LINE_CHARACTERS)):
            cut, rest = 0, line
            read += len(line)
            while not rest.endswith("\n") and read < SCANNED_BYTES:
                if not (rest := text.readline(1 << 20)):
                    break
                cut += len(rest.rstrip("\r\n"))
                read += len(rest)
            notice = f"… [{cut} more characters of this line left out]" if cut else ""
            yield line.removesuffix("\n").removesuffix("\r") + notice
    finally:
        text.detach()  # the stream is closed by whoever opened it


def _head_and_tail(lines: Iterable[str]) -> str:
    numbered = enumerate(lines, 1)
    head: list[str] = []
    characters = 0
    for number, line in numbered:
        head.append(_numbered(number, line))
        characters += len(line)
        if len(head) >= HEAD_LINES or characters >= HEAD_CHARACTERS:
            break
    tail = deque(numbered, maxlen=TAIL_LINES + 1)
    if not tail:
        return "\n".join(head)
    total = tail[-1][0]
    characters = sum(len(line) for _, line in tail)
    while tail and (characters > TAIL_CHARACTERS or len(tail) > TAIL_LINES):
        characters -= len(tail.popleft()[1])
    first, last = len(head) + 1, total - len(tail)
    notice = (
        f"[lines {first} to {last} of {total} left out; read them with offset={first} and a limit]"
    )
    middle = [notice] if last >= first else []
    return "\n".join([*head, *middle, *(_numbered(number, line) for number, line in tail)])


def _window(lines: Iterable[str], offset: int, limit: int, shown: str) -> str:
    numbered = enumerate(lines, 1)
    window: list[str] = []
    characters, number = 0, 0
    for number, line in numbered:
        if number < offset:
            continue
        window.append(_numbered(number, line))
        characters += len(line)
        if len(window) >= limit or characters >= HEAD_CHARACTERS + TAIL_CHARACTERS:
            break
    if not window:
        raise ToolError(f"{shown} has {number} lines; there is no line {offset}.")
    if next(islice(numbered, 1), None) is not None:
        window.append(f"[more lines follow; read on with offset={number + 1}]")
    return "\n".join(window)


def _numbered(number: int, line: str) -> str:
    return f"{number:>6}|{line}"


def _image_type(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def _image(stream: BinaryIO, shown: str, media_type: str, total: int) -> ToolReturn:
    described = f"{shown} is an image ({media_type}, {size(total)})"
    if total > IMAGE_BYTES:
        return ToolReturn(
            f"{described}: too large to be shown. The limit is {size(IMAGE_BYTES)}; "
            "make a smaller copy first."
        )
    stream.seek(0)
    data = base64.b64encode(stream.read(IMAGE_BYTES)).decode("ascii")
    return ToolReturn((Text(f"{described}."), Image(media_type, data)))


def _binary_kind(head: bytes) -> str | None:
    return next((kind for magic, kind in _BINARY_KINDS if head.startswith(magic)), None)
