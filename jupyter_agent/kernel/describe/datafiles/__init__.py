"""Files of data, before code reads them: their columns, types, encoding and odd lines.

One bounded look, whatever the size. Text is looked at here, by the standard library; what needs a
library, or unpacks a format, happens in a process of its own. Values (ranges, first rows) are told
only where values may be shown.
"""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import open_regular
from jupyter_agent.kernel.describe.datafiles.delimited import delimited, find_delimiter
from jupyter_agent.kernel.describe.datafiles.records import json_file, json_lines
from jupyter_agent.kernel.describe.datafiles.sandbox import ask_apart
from jupyter_agent.kernel.describe.datafiles.text import TextSample, sample_text
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Part,
    count,
    inert,
    shows_values,
)

_SECONDS = 10.0
_FIRST_LINES = {"sample": 3, "full": 10}
_APART = ((b"PAR1", "parquet"), (b"SQLite format 3\0", "sqlite"))
_OTHERS = (
    (b"\xd0\xcf\x11\xe0", "an old Office file: .xls is read by pandas with xlrd"),
    (b"\x1f\x8b", "compressed by gzip: pandas reads the table in it"),
    (b"ARROW1", "Feather: pyarrow reads it"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"%PDF-", "a PDF"),
)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to be described by its content. `shown` is its name for the model."""

    path: Path
    shown: str = ""


def data_file(value: DataFile, level: Level) -> Iterator[Part]:
    """A file: its kind and size, and what its kind has: columns, tables, sheets, keys."""
    shown = value.shown or value.path.name
    try:
        stream = open_regular(value.path, shown)
    except ToolError as error:  # a pipe would block
        yield str(error)
        return
    except OSError as error:
        yield f"{shown} cannot be read: {error.strerror or type(error).__name__}"
        return
    with stream:
        size = os.fstat(stream.fileno()).st_size
        headline = f"{shown}, {_bytes(size)}"
        rest = iter(_parts(value.path, stream, size, level))
        yield f"{headline}, {next(rest)}"
        yield from rest


def _parts(path: Path, stream: BinaryIO, size: int, level: Level) -> Iterable[Part]:
    """What follows the size."""
    start = stream.read(16)
    if not size:
        return ["empty"]
    for magic, kind in _APART:
        if start.startswith(magic):
            return _apart(kind, path, level)
    if start.startswith(b"PK") and zipfile.is_zipfile(stream):
        return _apart("archive", path, level)
    for magic, words in _OTHERS:
        if start.startswith(magic):
            return [words]
    sample = sample_text(stream, size)
    if sample is None:
        return ["not text: a binary format that is not known here"]
    return _text(path, sample, level)


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return count(size, "byte")


def _apart(kind: str, path: Path, level: Level) -> list[Part]:
    """A binary format, looked at in a process of its own."""
    words = {"parquet": "Parquet", "sqlite": "SQLite database", "archive": "a zip archive"}[kind]
    answer = ask_apart(kind, path, {"level": level}, _SECONDS)
    if "problem" in answer:
        return [f"{words}, {inert(str(answer['problem']), 200)}"]
    return [
        part if isinstance(part, str) else Listing(part[0], part[1], part[2])
        for part in answer["parts"]
    ]


def _text(path: Path, sample: TextSample, level: Level) -> Iterator[Part]:
    suffix = path.suffix.casefold()
    if suffix in (".jsonl", ".ndjson"):
        yield from json_lines(sample, level)
    elif sample.head.lstrip()[:1] in ("{", "[") and suffix not in (".csv", ".tsv"):
        yield from json_file(sample, level)
    elif not sample.head.strip():
        yield f"{count(sample.lines, 'blank line')}, {sample.encoding_name}"
    elif delimiter := find_delimiter(sample.head, suffix):
        try:
            yield from list(delimited(path, sample, delimiter, level))
        except csv.Error as error:  # such as a quotation mark that nothing closes
            yield f"text that is no table: {inert(str(error), 100)}, {sample.encoding_name}"
    else:
        yield from _plain(sample, level)


def _plain(sample: TextSample, level: Level) -> Iterator[Part]:
    """Text that is no table."""
    about = "" if sample.is_counted else "about "
    yield f"text, {about}{count(sample.lines, 'line')}, {sample.encoding_name}"
    lines = sample.head.splitlines()
    longest = max(map(len, lines), default=0)
    if longest > 100_000:
        yield f"a line of {longest:,} characters{'' if sample.is_whole else ' or more'}"
    if shows_values(level):
        first = lines[: _FIRST_LINES[level]]
        yield Listing("first lines", len(first), [inert(each, 200) for each in first])


DESCRIBERS: dict[str, Describer] = {f"{__name__}.DataFile": data_file}
