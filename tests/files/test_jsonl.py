"""JSON Lines: what is appended comes back, whatever the disk, a crash or somebody else did."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.files.jsonl import (
    NOT_WRITTEN,
    Reader,
    Upkeep,
    Writer,
    append,
    decode,
    encode,
    new_file,
)

values = st.dictionaries(
    st.text(), st.text() | st.integers() | st.none() | st.lists(st.text(), max_size=3), max_size=4
)
surrogates = st.dictionaries(st.text(), st.text(st.characters(codec=None), max_size=20))


@given(values)
def test_what_is_written_comes_back(value: dict[str, Any]) -> None:
    """An object is one line, in UTF-8 or ASCII, and is read back equal."""
    for is_ascii in (False, True):
        line = encode(value, ascii=is_ascii)
        assert b"\n" not in line and decode(line) == value


@given(surrogates)
def test_lone_surrogates(value: dict[str, Any]) -> None:
    """ASCII keeps them; UTF-8 has a question mark for each, and the line can be read."""
    assert decode(encode(value, ascii=True)) == value
    read = decode(encode(value))
    assert read is not None
    text = "".join(value.values())
    assert len("".join(read.values())) == len(text)


@settings(max_examples=examples(60))
@given(st.lists(values, max_size=5), st.floats(0, 1))
def test_cut_anywhere(written: list[dict[str, Any]], cut: float) -> None:
    """The lines before a cut are read; the last one counts as torn, and none as skipped."""
    data = b"".join(encode(value) + b"\n" for value in written)
    data = data[: int(cut * len(data))]
    reader = Reader(io.BytesIO(data))
    read = [line.value for line in reader]
    assert read == written[: len(read)]
    rest = data.rpartition(b"\n")[2]
    assert reader.is_torn == (bool(rest) and decode(rest) is None)
    assert reader.passed_over == 0


@pytest.mark.parametrize(
    "foreign",
    [
        b"no json",
        b"[1]",
        b"3",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5_000 + b"}",
    ],
)
def test_what_is_passed_over(foreign: bytes) -> None:
    """Foreign lines are counted; numbers and sizes are those of the file."""
    reader = Reader([b'{"a": 1}\n', foreign + b"\n", b"  \n", b'{"b": 2}'])
    assert [(line.number, line.size, line.value) for line in reader] == [
        (1, 9, {"a": 1}),
        (4, 8, {"b": 2}),
    ]
    assert reader.passed_over == 1 and not reader.is_torn
    reader = Reader([foreign])
    assert list(reader) == [] and reader.is_torn and reader.passed_over == 0


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may become longer than this."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_appending(tmp_path: Path) -> None:
    """All lines are appended or none; after a torn line they start on a new line."""
    path = tmp_path / "a.jsonl"
    with pytest.raises(FileNotFoundError):
        append(path, [b"{}"])
    path.write_bytes(b'{"a": 1}\n{"to')
    with room_for(path.stat().st_size + 5), pytest.raises(OSError, match="too large"):
        append(path, [b'{"b": 2}', b'{"c": 3}'])
    assert path.read_bytes() == b'{"a": 1}\n{"to'
    size = append(path, [b'{"b": 2}', b'{"c": 3}'], durable=True)
    assert path.read_bytes() == b'{"a": 1}\n{"to\n{"b": 2}\n{"c": 3}\n' and size == 32
    path.with_name("link").symlink_to(path)
    with pytest.raises(OSError, match="is a link"):
        append(path.with_name("link"), [b"{}"])


def lines(writer: Writer) -> list[dict[str, Any]]:
    assert writer.path is not None
    return [json.loads(line) for line in writer.path.read_bytes().splitlines()]


def writer_in(folder: Path) -> tuple[Writer, Upkeep]:
    upkeep = Upkeep("The log")
    return Writer(lambda: new_file(folder, "log"), upkeep), upkeep


def test_a_full_disk(tmp_path: Path) -> None:
    """The file counts the missing lines; once there is room they are written, with a notice."""
    writer, upkeep = writer_in(tmp_path)
    for number in range(20):
        writer.write(encode({"n": number}))
    assert writer.path is not None and stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    with room_for(writer.path.stat().st_size + 20):
        for number in range(20, 25):
            writer.write(encode({"n": number}))
    assert writer.reason == "File too large"
    assert upkeep.take_notices() == [
        "The log is not being written: file too large. It is tried again with each step."
    ]
    *kept, missing = lines(writer)
    assert missing == {"type": NOT_WRITTEN, "lines": 25 - len(kept), "reason": "File too large"}
    assert kept == [{"n": number} for number in range(len(kept))] and len(kept) > 10
    writer.write(encode({"n": 25}))
    assert lines(writer) == [{"n": number} for number in range(26)]
    assert upkeep.take_notices() == ["The log is written again, nothing is missing."]
    assert writer.reason == upkeep.reason == ""


def test_more_waits_than_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost lines are counted in the file for good."""
    monkeypatch.setattr("jupyter_agent.files.jsonl._MOST_WAITING", 20)
    writer, upkeep = writer_in(tmp_path)
    writer.write(encode({"n": 0}))
    with room_for(9):
        for number in range(1, 6):
            writer.write(encode({"n": number}))
    writer.write(encode({"n": 6}))
    found = lines(writer)
    assert found[:2] == [{"n": 0}, {"n": 1}]
    count = sum(line["lines"] for line in found if line.get("type") == NOT_WRITTEN)
    assert count == 7 - sum("n" in line for line in found) > 0
    assert f"{count} lines are missing in it" in upkeep.take_notices()[-1]


def test_a_file_that_somebody_removes(tmp_path: Path) -> None:
    """A new file begins, counts the lines of the removed one, and continues."""
    writer, upkeep = writer_in(tmp_path)
    writer.write(b'{"n":0}')
    writer.write(b'{"n":1}')
    assert writer.path is not None
    writer.path.unlink()
    writer.write(b'{"n":2}')
    assert lines(writer) == [
        {"n": 2},
        {"type": NOT_WRITTEN, "lines": 2, "reason": "somebody removed it"},
    ]
    assert upkeep.take_notices() == ["The log is written again, 2 lines are missing in it."]


def test_after_the_end(tmp_path: Path) -> None:
    """A line after `close` is dropped, and nothing stays open."""
    writer, _ = writer_in(tmp_path)
    writer.write(b"{}")
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    writer.close()
    writer.write(b'{"late":1}')
    assert lines(writer) == [{}]
    if before:
        assert len(list(descriptors.iterdir())) == before - 1


def test_names(tmp_path: Path) -> None:
    """A name that a file or a link has already is skipped."""
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    for name in ("log_2.jsonl", "log_3.jsonl"):
        path, file = new_file(tmp_path, "log")
        os.close(file)
        assert path.name == name
    assert not (tmp_path / "elsewhere").exists()
