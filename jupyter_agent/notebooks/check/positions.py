"""Where in a notebook's file a cell is, for reports that point at a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def cell_lines(text: str) -> list[int]:
    """The line of the file, from 1, on which the source of each cell begins.

    Args:
        text: The file as it is. Where it is no notebook of format 4 there are no lines.
    """
    try:
        cells = dict(_members(text, _skip(text, 0)))["cells"]
        return [_line(text, _source(text, start)) for start in _elements(text, cells)]
    except (KeyError, ValueError, RecursionError):
        return []


def _source(text: str, cell: int) -> int:
    """Where a cell's source begins: at its first line where it is written as a list."""
    start = dict(_members(text, cell)).get("source", cell)
    if text[start] == "[":
        return next(_elements(text, start), start)
    return start


def _members(text: str, start: int) -> Iterator[tuple[str, int]]:
    """The keys of the object that begins at `start`, with the starts of their values."""
    place = _opened(text, start, "{")
    while text[place] != "}":
        key, place = _DECODER.raw_decode(text, place)
        place = _opened(text, place, ":")
        yield key, place
        place = _after(text, place)


def _elements(text: str, start: int) -> Iterator[int]:
    """The starts of the elements of the array that begins at `start`."""
    place = _opened(text, start, "[")
    while text[place] != "]":
        yield place
        place = _after(text, place)


def _opened(text: str, start: int, mark: str) -> int:
    place = _skip(text, start)
    if text[place] != mark:
        raise ValueError(f"no {mark} there")
    return _skip(text, place + 1)


def _after(text: str, start: int) -> int:
    """The place after a value and the comma that may follow it."""
    place = _skip(text, _DECODER.raw_decode(text, start)[1])
    return _skip(text, place + 1) if text[place] == "," else place


def _skip(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    place = match.end() if match else start
    if place >= len(text):
        raise ValueError("the text ends too early")
    return place


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
