"""The cassette file: what is written, what is read, and what damage is told how."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Block, Message, Text, ToolCall, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.errors import ConfigError
from jupyter_agent.recording.cassette import load, record, save
from jupyter_agent.recording.cassette_model import Cassette, RecordedCall
from jupyter_agent.recording.digests import Item
from jupyter_agent.recording.replay import Replay

KEY = "sk-" + "ant-" + "Abc1" * 8
RECORDED = Cassette("anthropic", "claude", "recorded")
SCRIPTED = Cassette("scripted", "script", "scripted")
NONE_WRITTEN: frozenset[str] = frozenset()


def entry(digest: str, step: int = 1, text: str = "ok", task: str = "Count.") -> RecordedCall:
    asked = (Item("task", task),) if step == 1 else (Item("result", "3"),)
    reply = MessageFinished(Message("assistant", (Text(text),)), Usage(3, 1), "end")
    return RecordedCall(digest, f"t-{digest}", step, asked, reply)


def turn(name: str, steps: int = 2, text: str = "ok") -> tuple[RecordedCall, ...]:
    return tuple(entry(f"{name}{n}", n, text, name) for n in range(1, steps + 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analysis.cassette.jsonl"


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_what_is_saved_is_loaded(path: Path) -> None:
    """A cassette comes back as it was."""
    cassette = Cassette("openai", "gpt", "recorded", (turn("a"), turn("b", 3)))
    save(cassette, path)
    assert load(path) == cassette
    assert cassette.replies == 5


def test_the_file(path: Path) -> None:
    """A header that says who replied, then one line for each model call."""
    save(Cassette("openai", "gpt", "recorded", (turn("a"),)), path)
    header, first, second = lines_of(path)
    assert (header["cassette"], header["provider"], header["model"], header["source"]) == (
        1,
        "openai",
        "gpt",
        "recorded",
    )
    assert (first["conversation"], first["step"], second["step"]) == ("a1", 1, 2)
    assert first["finished"]["message"]["blocks"] == [{"text": "ok", "type": "text"}]


def says(*blocks: Block) -> MessageFinished:
    return MessageFinished(Message("assistant", blocks), Usage(), "end")


def there_and_back(reply: MessageFinished) -> MessageFinished:
    """A reply as the file gives it back."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        save(Cassette("p", "m", "recorded", ((RecordedCall("d", "t", 1, (), reply),),)), file)
        return load(file).turns[0][0].reply


@given(st.text(max_size=30), st.text(max_size=10))
@settings(deadline=None)
def test_any_words_come_back(words: str, name: str) -> None:
    """Whatever a model says and calls survives the file: line separators, NUL, directions."""
    reply = says(Text(words), ToolCall("c", name, "{}"))
    assert there_and_back(reply) == reply


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_line_separators_in_words(character: str) -> None:
    """Only a newline ends a line of the file, whatever else Unicode calls a line break."""
    reply = says(Text(f"one{character}two"))
    assert there_and_back(reply) == reply


def test_lone_surrogates_in_a_name() -> None:
    """A name that no file can carry does not lose the recording."""
    assert there_and_back(says(Text("a"), ToolCall("c", "look\ud800", "{}"))).message.text == "a"


# ---------------------------------------------------------------- recording into a file


def test_the_first_recording_makes_the_file(path: Path) -> None:
    """No cassette yet: the blank one, with the turn in it."""
    record(path, RECORDED, turn("a"), NONE_WRITTEN)
    assert load(path) == Cassette("anthropic", "claude", "recorded", (turn("a"),))


def test_a_second_recording_of_a_cell(path: Path) -> None:
    """It replaces the lines of its own turn, in their place, and keeps the others."""
    save(Cassette("anthropic", "claude", "recorded", (turn("a"), turn("b"), turn("c"))), path)
    again = turn("b", 3, "better")
    record(path, RECORDED, again, NONE_WRITTEN)
    assert load(path).turns == (turn("a"), again, turn("c"))


def test_a_cell_whose_conversation_changed(path: Path) -> None:
    """The same task after other cells takes the place of its old recording."""
    old = entry("old", task="Count.")
    new = RecordedCall("new", old.turn, 1, old.asked, entry("x", text="4").reply)
    save(Cassette("anthropic", "claude", "recorded", (turn("a"), (old,))), path)
    record(path, RECORDED, (new,), NONE_WRITTEN)
    assert load(path).turns == (turn("a"), (new,))


def test_the_same_task_twice_in_a_notebook(path: Path) -> None:
    """What this session has recorded is not taken for an old recording."""
    first = RecordedCall("one", "t", 1, (Item("task", "Go on."),), entry("x").reply)
    second = RecordedCall("two", "t", 1, (Item("task", "Go on."),), entry("y").reply)
    record(path, RECORDED, (first,), NONE_WRITTEN)
    record(path, RECORDED, (second,), frozenset({"one"}))
    assert load(path).turns == ((first,), (second,))


def test_scripted_until_all_is_recorded(path: Path) -> None:
    """The header says `scripted` as long as one scripted reply is left, and no longer."""
    save(Cassette("scripted", "script", "scripted", (turn("a"), turn("b"))), path)
    record(path, RECORDED, turn("a", text="from a model"), NONE_WRITTEN)
    assert load(path).source == "scripted"
    record(path, RECORDED, turn("b", text="from a model"), frozenset({"a1"}))
    assert load(path).source == "recorded"


def test_one_scripted_turn_recorded_again(path: Path) -> None:
    """A cassette of one turn is recorded as soon as that one is."""
    save(Cassette("scripted", "script", "scripted", (turn("a"),)), path)
    record(path, RECORDED, turn("a"), NONE_WRITTEN)
    assert load(path).source == "recorded"


def test_a_script_in_a_recorded_cassette(path: Path) -> None:
    """A scripted reply is never passed off as a model's."""
    save(Cassette("anthropic", "claude", "recorded", (turn("a"), turn("b"))), path)
    record(path, SCRIPTED, turn("a"), NONE_WRITTEN)
    assert load(path).source == "scripted"


def test_many_recorders_of_one_file(path: Path) -> None:
    """None of the turns is lost."""
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(record, path, RECORDED, turn(f"turn {n}"), NONE_WRITTEN) for n in range(24)
        ]
    for job in jobs:
        job.result()
    names = {first[0].asked[0].text for first in load(path).turns}
    assert names == {f"turn {n}" for n in range(24)}


def test_nothing_is_left_behind(path: Path) -> None:
    """The write is a rename: no temporary file and no lock file beside the cassette."""
    record(path, RECORDED, turn("a"), NONE_WRITTEN)
    record(path, RECORDED, turn("b"), NONE_WRITTEN)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """Where nothing can be written, what was there stays whole."""
    folder = tmp_path / "gone"
    with pytest.raises(OSError, match="gone"):
        save(RECORDED, folder / "a.cassette.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_not_overwritten(path: Path) -> None:
    """Recording into a damaged cassette is refused, and its bytes stay."""
    path.write_bytes(b"<<<<<<< HEAD\n")
    with pytest.raises(ConfigError):
        record(path, RECORDED, turn("a"), NONE_WRITTEN)
    assert path.read_bytes() == b"<<<<<<< HEAD\n"


def test_secrets_never_reach_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither known shapes nor values from the environment, in any field."""
    value = 'p4ss "wörd" \\ 1'
    monkeypatch.setenv("DB_PASSWORD", value)
    call = ToolCall("c", "look", json.dumps({"a": KEY, "b": value}))
    message = Message("assistant", (Text(f"use {KEY} or {value}"), call))
    reply = MessageFinished(message, Usage(), "tool_use")
    asked = (Item("task", f"log in with {value} and {KEY}"),)
    save(Cassette("p", f"m {KEY}", "recorded", ((RecordedCall("d", "t", 1, asked, reply),),)), path)
    text = path.read_text(encoding="utf-8")
    assert KEY not in text
    assert "wörd" not in text
    assert load(path).replies == 1


def test_an_escaped_secret_in_arguments(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that JSON spells with escapes inside of a call's arguments is found as well."""
    monkeypatch.setenv("DB_PASSWORD", "grün" + "kohl" + '"99"')
    call = ToolCall("c", "look", json.dumps({"b": 'grünkohl"99"'}))
    reply = MessageFinished(Message("assistant", (call,)), Usage(), "tool_use")
    save(Cassette("p", "m", "recorded", ((RecordedCall("d", "t", 1, (), reply),),)), path)
    (block,) = load(path).turns[0][0].reply.message.blocks
    assert isinstance(block, ToolCall)
    assert json.loads(block.arguments) == {"b": "[redacted]"}


# ---------------------------------------------------------------- damage

Damage = Callable[[list[str]], bytes]


def joined(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def header_with(**changes: Any) -> Damage:
    return lambda lines: joined(json.dumps({**json.loads(lines[0]), **changes}), *lines[1:])


def first_entry_with(**changes: Any) -> Damage:
    return lambda lines: joined(
        lines[0], json.dumps({**json.loads(lines[1]), **changes}), *lines[2:]
    )


def finished_with(**changes: Any) -> Damage:
    def damage(lines: list[str]) -> bytes:
        data = json.loads(lines[1])
        data["finished"] = {**data["finished"], **changes}
        return joined(lines[0], json.dumps(data), *lines[2:])

    return damage


DEEP = "[" * 200_000

DAMAGED: dict[str, Damage] = {
    "an empty file": lambda lines: b"",
    "blank lines only": lambda lines: b"\n\n\n",
    "no header": lambda lines: joined(*lines[1:]),
    "the header of a notebook": lambda lines: b'{"cells": [], "nbformat": 4}\n',
    "a list for a header": lambda lines: joined("[1]", *lines[1:]),
    "a number for a header": lambda lines: joined("7", *lines[1:]),
    "a newer version": header_with(cassette=99),
    "a version in words": header_with(cassette="one"),
    "an unknown source": header_with(source="invented"),
    "a source of the wrong type": header_with(source=["recorded"]),
    "a truncated line": lambda lines: joined(*lines)[:-40],
    "half a header": lambda lines: lines[0][:30].encode(),
    "a missing first step": lambda lines: joined(lines[0], *lines[2:]),
    "a missing middle step": lambda lines: joined(lines[0], lines[1], *lines[3:]),
    "reordered steps": lambda lines: joined(lines[0], lines[2], lines[1], lines[3]),
    "a step that comes twice": lambda lines: joined(*lines[:3], *lines[2:]),
    "a merge conflict at the top": lambda lines: joined("<<<<<<< HEAD", *lines),
    "a merge conflict inside": lambda lines: joined(
        *lines[:2], "<<<<<<< HEAD", lines[2], "=======", lines[2], ">>>>>>> main", lines[3]
    ),
    "NUL bytes": lambda lines: b"\0" * 100,
    "a NUL in a line": lambda lines: joined(*lines).replace(b"Count", b"Co\0nt"),
    "NUL at the end": lambda lines: joined(*lines) + b"\0\0",
    "latin-1": lambda lines: joined(*lines) + "grün".encode("latin-1"),
    "UTF-16": lambda lines: joined(*lines).decode().encode("utf-16"),
    "gzip": lambda lines: b"\x1f\x8b\x08\x00" + bytes(range(256)),
    "an entry that is a list": lambda lines: joined(*lines, "[]"),
    "an entry that is a number": lambda lines: joined(*lines, "3"),
    "an empty entry": lambda lines: joined(*lines, "{}"),
    "a line of brackets": lambda lines: joined(*lines, DEEP),
    "a header of brackets": lambda lines: joined(DEEP, *lines),
    "a step in words": first_entry_with(step="first"),
    "a step that is null": first_entry_with(step=None),
    "a step without end": lambda lines: joined(*lines).replace(b'"step": 1,', b'"step": 1e999,'),
    "a conversation that is a list": first_entry_with(conversation=[1]),
    "a conversation that is an object": first_entry_with(conversation={}),
    "a turn that is a list": first_entry_with(turn=["a"]),
    "asked in words": first_entry_with(asked="Count."),
    "asked that is a number": first_entry_with(asked=3),
    "asked in threes": first_entry_with(asked=[["task", "a", "b"]]),
    "remembered in words": first_entry_with(remembered="yes"),
    "remembered without a tool": first_entry_with(remembered=[{"text": "Created a."}]),
    "remembered with an unknown output": first_entry_with(
        remembered=[{"tool": "t", "arguments": "a", "text": "x", "display": [{"kind": "film"}]}]
    ),
    "a file that was eaten": first_entry_with(files=[{"path": "a", "kind": "eaten"}]),
    "a file without a path": first_entry_with(files=[{"kind": "created"}]),
    "told in words": first_entry_with(told="all"),
    "a decision about a call that is not there": first_entry_with(decisions=[{"call": 7}]),
    "said that is no list": first_entry_with(said="hello"),
    "a reply that is a list": first_entry_with(finished=[]),
    "a reply that is null": first_entry_with(finished=None),
    "a reply without a message": finished_with(message=None),
    "a reply of another kind": finished_with(type="turn_started"),
    "an unknown stop reason": finished_with(stop_reason="bored"),
    "tokens in words": finished_with(usage={"input_tokens": "many"}),
    "an unknown block": finished_with(message={"role": "assistant", "blocks": [{"type": "x"}]}),
}

HARMLESS: dict[str, Damage] = {
    "CRLF": lambda lines: joined(*lines).replace(b"\n", b"\r\n"),
    "a BOM": lambda lines: b"\xef\xbb\xbf" + joined(*lines),
    "no newline at the end": lambda lines: joined(*lines)[:-1],
    "more newlines at the end": lambda lines: joined(*lines) + b"\n\n",
    "blank lines between": lambda lines: b"\n\n".join(line.encode() for line in lines),
    "blanks around the lines": lambda lines: joined(*(f"  {line} " for line in lines)),
    "an unknown key in the header": header_with(note="by hand"),
    "an unknown key in an entry": first_entry_with(seconds=3),
    "escaped characters": lambda lines: joined(*(json.dumps(json.loads(x)) for x in lines)),
}


@pytest.fixture
def good_lines(path: Path) -> list[str]:
    save(Cassette("p", "m", "recorded", (turn("Count.", 3, "drei – ü"),)), path)
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", DAMAGED)
async def test_damage_is_told_in_one_line(path: Path, good_lines: list[str], kind: str) -> None:
    """Whatever happened to the file: one `ConfigError` that names it, in one line."""
    path.write_bytes(DAMAGED[kind](good_lines))
    with pytest.raises(ConfigError, match=path.name) as caught:
        await use(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_does_no_harm(path: Path, good_lines: list[str], kind: str) -> None:
    """What editors and git do to text files does not spoil a cassette."""
    path.write_bytes(HARMLESS[kind](good_lines))
    assert load(path).turns == (turn("Count.", 3, "drei – ü"),)


async def use(path: Path) -> None:
    """Load a cassette and ask it something."""
    replay = Replay(load(path), path.name)
    request = Request("", (Message("user", (Text("Count."),)),))
    async for _ in replay.stream(request):
        pass


def test_a_line_that_comes_twice(path: Path, good_lines: list[str]) -> None:
    """A first step that is there twice is harmless or told, and never anything else."""
    path.write_bytes(joined(*good_lines[:2], *good_lines[1:]))
    assert load(path).replies == 4


def test_the_wrong_line_is_named(path: Path, good_lines: list[str]) -> None:
    """The message holds the number of the damaged line."""
    path.write_bytes(joined(*good_lines[:2], "oops", *good_lines[2:]))
    with pytest.raises(ConfigError, match=f"^{path.name}, line 3: not a recorded reply"):
        load(path)


def test_a_newer_version(path: Path, good_lines: list[str]) -> None:
    """A file from the future says what to do, whatever else is new in its header."""
    path.write_bytes(header_with(cassette=2)(good_lines))
    with pytest.raises(ConfigError, match=r"has cassette format 2; .* Update jupyter-agent-magics"):
        load(path)


def test_no_file(path: Path) -> None:
    """A missing cassette says how to make one."""
    with pytest.raises(ConfigError, match=r"^There is no cassette analysis\.cassette\.jsonl\."):
        load(path)


def test_a_folder(path: Path) -> None:
    """A folder in the cassette's place is told in one line."""
    path.mkdir()
    with pytest.raises(ConfigError, match=r"^The cassette analysis\.cassette\.jsonl cannot be"):
        load(path)


def test_a_link_that_leads_nowhere(path: Path) -> None:
    """A dangling symlink is a missing cassette."""
    path.symlink_to(path.with_name("nothing"))
    with pytest.raises(ConfigError, match=r"^There is no cassette"):
        load(path)


def test_an_empty_conversation_is_nothing_special(path: Path) -> None:
    """A cassette without replies loads: it was made, and nothing was recorded yet."""
    save(RECORDED, path)
    assert load(path) == RECORDED
