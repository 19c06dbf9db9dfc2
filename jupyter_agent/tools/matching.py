"""The process in which `search_files` runs a regular expression, so that it can be stopped.

Standard input holds a request as JSON, standard output gets the answer. Nothing outside of the
standard library is imported, so that it starts in a few hundredths of a second.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import Encoding, detect, open_regular, size
from jupyter_agent.tools import notebooks

MATCHES = 200
FILE_BYTES = 10 * 1024 * 1024
LINE_CHARACTERS = 20_000
SHOWN_CHARACTERS = 300


@dataclass
class RegexSearch:
    """A regular expression, what it has found so far and what was left out."""

    expression: re.Pattern[str]
    lines: list[str] = field(default_factory=list)
    binary: int = 0
    large: int = 0
    unreadable: int = 0
    cut: int = 0

    def file(self, shown: str, path: Path) -> None:
        """Add a file's matching lines, as long as there is room for them."""
        try:
            with open_regular(path, shown) as stream:
                data = stream.read(FILE_BYTES + 1)
        except (ToolError, OSError):
            self.unreadable += 1
            return
        encoding = detect(io.BytesIO(data), len(data))
        if len(data) > FILE_BYTES:
            self.large += 1
        elif encoding is None:
            self.binary += 1
        else:
            self._text(shown, data, encoding)

    def _text(self, shown: str, data: bytes, encoding: Encoding) -> None:
        for place, line in _lines(shown, encoding.decode(data)):
            self.cut += len(line) > LINE_CHARACTERS
            found = self.expression.search(line, 0, LINE_CHARACTERS)
            if found:
                self.lines.append(f"{place}: {_around(line, found.start())}")
                if self.full:
                    return

    @property
    def full(self) -> bool:
        return len(self.lines) >= MATCHES

    def notices(self) -> list[str]:
        """What was left out, one line each."""
        counted = (
            (self.binary, "binary files skipped"),
            (self.large, f"files of more than {size(FILE_BYTES)} skipped"),
            (self.unreadable, "files could not be read"),
            (self.cut, f"lines searched only up to character {LINE_CHARACTERS}"),
        )
        notices = [f"[{count} {what}]" for count, what in counted if count]
        if self.full:
            notices.append(f"[stopped at {MATCHES} matches; narrow with path, glob or pattern]")
        return notices


def _lines(shown: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line with its place: `path:line`, in notebooks `path:cell number:line`."""
    notebook = notebooks.parse(text) if shown.lower().endswith(".ipynb") else None
    if notebook is None:
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            yield f"{shown}:{number}", line.removesuffix("\r")
        return
    for cell, source in enumerate(notebooks.sources(notebook), 1):
        for number, line in enumerate(source.split("\n"), 1):
            yield f"{shown}:cell {cell}:{number}", line.removesuffix("\r")


def _around(line: str, position: int) -> str:
    """The part of a line around a match."""
    if len(line) <= SHOWN_CHARACTERS:
        return line
    first = max(position - SHOWN_CHARACTERS // 3, 0)
    last = first + SHOWN_CHARACTERS
    return ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Search the files `[[shown, path], ...]` for `pattern`: lines found, notices."""
    warnings.simplefilter("ignore")
    search = RegexSearch(re.compile(request["pattern"]))
    for shown, path in request["files"]:
        if search.full:
            break
        search.file(shown, Path(path))
    return {"lines": search.lines, "notices": search.notices()}


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin.buffer)
    sys.stdout.buffer.write(json.dumps(answer(request)).encode())
    sys.stdout.flush()
    os._exit(0)  # what is left to tidy up would only take time
