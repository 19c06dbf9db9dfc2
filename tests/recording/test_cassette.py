"""The cassette file: what is written, what is read, and what damage is told how."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from generated import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tape_talk import replaying

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Block, Message, Text, ToolCall, Usage
from jupyter_agent.errors import ConfigError
from jupyter_agent.recording.cassette import (
    Cassette,
    Decision,
    FileState,
    GivenResult,
    PromptFingerprint,
    RecordedResult,
    RecordedStep,
    RecordedSummary,
    RecordedTurn,
    RecordedVariable,
    Retry,
    load,
    record,
    save,
)
from jupyter_agent.recording.varying import unmarked

KEY = "sk-" + "ant-" + "Abc1" * 8
RECORDED = Cassette("anthropic", "claude", "recorded")
SCRIPTED = Cassette("scripted", "script", "scripted")
NONE_WRITTEN: frozenset[tuple[str, str]] = frozenset()
Row = dict[str, Any]


def says(*blocks: Block) -> MessageFinished:
    return MessageFinished(Message("assistant", blocks), Usage(3, 1), "end")


def turn(task: str, steps: int = 2, text: str = "ok", before: str = "") -> RecordedTurn:
    """A turn whose steps but the last call a tool."""
    calls = [
        RecordedStep(
            says(Text(text), ToolCall("c", "look", json.dumps({"n": n}))),
            results=(RecordedResult("look", f"a{n}", f"{n} rows in ⟨{n}.5 s⟩", 0),),
        )
        for n in range(1, steps)
    ]
    return RecordedTurn(task, before, (*calls, RecordedStep(says(Text(text)))))


FULL = RecordedTurn(
    "Count.",
    "0123",
    (
        RecordedStep(
            says(
                Text("I try."), ToolCall("c1", "execute_code", "{}"), ToolCall("c2", "a__b", "{}")
            ),
            said=("Before.",),
            summaries=(RecordedSummary(says(Text("So far."))), RecordedSummary(error="too long")),
            shortened=True,
            overflow=True,
            retries=(Retry("busy", True), Retry("busy")),
            decisions=(Decision(0, "Run it?", ("runs ls",), "no", "person", "mine", "all of ls"),),
            results=(
                RecordedResult("nested", "d0", "x"),
                RecordedResult("execute_code", "d1", "took ⟨3.2 s⟩", 0, {1: {"text/html": "⟨a⟩b"}}),
                RecordedResult("a__b", "d2", "", 1, is_error=True, given=GivenResult((Text("4"),))),
            ),
            schemas={"a__b": {"type": "object", "properties": {"summary": {"type": "string"}}}},
        ),
        RecordedStep(says(Text("Done.")), said=("Now.",), said_after=("Late.",)),
    ),
    PromptFingerprint("aa", "bb", 12),
    None,
    2,
    (RecordedVariable("x", "added", "⟨5⟩ rows"), RecordedVariable("y", "deleted")),
    (FileState("a.txt", "created", 2, 1, "cc", True), FileState("b.txt", "same", digest="dd")),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analysis.cassette.jsonl"


def rows_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


# ---- there and back ------------------------------------------------------------------------------


def test_what_is_saved_is_loaded(path: Path) -> None:
    """A cassette comes back as it was, with each of its fields."""
    cassette = Cassette("openai", "gpt", "recorded", (turn("a"), turn("b", 3), FULL))
    save(cassette, path)
    assert load(path) == cassette
    assert cassette.replies == 7
    once = path.read_bytes()
    save(load(path), path)
    assert path.read_bytes() == once


def test_the_file(path: Path) -> None:
    """A header that says who replied, then a block of lines for each turn, one for a model call."""
    save(Cassette("openai", "gpt", "recorded", (turn("a"), turn("b", 1))), path)
    header, *rows = rows_of(path)
    assert (header["cassette"], header["provider"], header["model"], header["source"]) == (
        2,
        "openai",
        "gpt",
        "recorded",
    )
    kinds = [row["kind"] for row in rows]
    assert kinds == ["turn", "step", "step", "end", "turn", "step", "end"]
    assert rows[0]["task"] == "a" and len(rows[0]["digest"]) == 32
    assert rows[2]["reply"]["message"]["blocks"] == [{"text": "ok", "type": "text"}]
    assert rows[1]["results"] == [
        {"tool": "look", "arguments": "a1", "text": "1 rows in ⟨1.5 s⟩", "call": 0}
    ]
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    assert [len(block.strip().split("\n")) for block in blocks] == [1, 4, 3]


def there_and_back(reply: MessageFinished) -> MessageFinished:
    """A reply as the file gives it back."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        save(replace(RECORDED, turns=(RecordedTurn("t", steps=(RecordedStep(reply),)),)), file)
        return load(file).turns[0].steps[0].reply


@given(st.text(max_size=30), st.text(max_size=10))
@settings(max_examples=examples(300))
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
    assert (
        there_and_back(says(Text("a"), ToolCall("c\ud800", "look\ud800", "{}"))).message.text == "a"
    )


@given(st.text(st.sampled_from("⟨⟩\\ab5\n "), max_size=12))
@settings(max_examples=examples(300))
def test_brackets_in_texts(text: str) -> None:
    """A cassette with any brackets and backslashes in it is as it was recorded."""
    result = RecordedResult("look", "a", text, 0, {0: {"text/html": text}})
    step = RecordedStep(says(ToolCall("c", "look", json.dumps(text))), results=(result,))
    one = RecordedTurn(text, steps=(step,), variables=(RecordedVariable("x", "added", text),))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        save(replace(RECORDED, turns=(one,)), file)
        assert load(file).turns == (one,)


def test_details_of_a_result(path: Path) -> None:
    """A given result may have details of any form, also with the names that the cassette uses."""
    details = {
        "results": ["a", {"text": "⟨5⟩"}, 7],
        "shown": "⟨5⟩",
        "summary": {"text": [1, None]},
        "text": "⟨5⟩",
    }
    given_result = GivenResult((Text("5"),), details=details)
    step = RecordedStep(
        says(ToolCall("c", "a__b", "{}")),
        results=(RecordedResult("a__b", "a", "5", 0, given=given_result),),
    )
    one = RecordedTurn("Count.", steps=(step,))
    save(replace(RECORDED, turns=(one,)), path)
    assert load(path).turns == (one,)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"shown": "⟨5⟩"', '"shown": "5"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="not as it was recorded"):
        load(path)


# ---- recording into a file -----------------------------------------------------------------------


def test_the_first_recording_makes_the_file(path: Path) -> None:
    """No cassette yet: the blank one, with the turn in it."""
    record(path, RECORDED, turn("a"), NONE_WRITTEN)
    assert load(path) == replace(RECORDED, turns=(turn("a"),))


def test_a_second_recording_of_a_cell(path: Path) -> None:
    """It replaces its own turn, in its place, and keeps the others to the byte."""
    save(replace(RECORDED, turns=(turn("a"), turn("b"), turn("c"))), path)
    first, _, third = path.read_text(encoding="utf-8").split("\n\n")[1:]
    again = turn("b", 3, "better")
    record(path, RECORDED, again, NONE_WRITTEN)
    assert load(path).turns == (turn("a"), again, turn("c"))
    blocks = path.read_text(encoding="utf-8").split("\n\n")[1:]
    assert (blocks[0], blocks[2]) == (first, third)


def test_a_cell_whose_conversation_changed(path: Path) -> None:
    """The same task after other cells takes the place of its old recording."""
    old, new = turn("Count.", before="old"), turn("Count.", text="4", before="new")
    save(replace(RECORDED, turns=(turn("a"), old)), path)
    record(path, RECORDED, new, NONE_WRITTEN)
    assert load(path).turns == (turn("a"), new)


def test_the_same_task_twice_in_a_notebook(path: Path) -> None:
    """What this session has recorded is not taken for an old recording."""
    first, second = turn("Go on.", 1, "x", "one"), turn("Go on.", 1, "y", "two")
    record(path, RECORDED, first, NONE_WRITTEN)
    record(path, RECORDED, second, {first.place})
    assert load(path).turns == (first, second)


def test_scripted_until_all_is_recorded(path: Path) -> None:
    """The header says `scripted` as long as one scripted reply is left, and no longer."""
    save(replace(SCRIPTED, turns=(turn("a"), turn("b"))), path)
    record(path, RECORDED, turn("a", text="from a model"), NONE_WRITTEN)
    assert load(path).source == "scripted"
    record(path, RECORDED, turn("b", text="from a model"), {turn("a").place})
    assert load(path).source == "recorded"


def test_one_scripted_turn_recorded_again(path: Path) -> None:
    """A cassette of one turn is recorded as soon as that one is."""
    save(replace(SCRIPTED, turns=(turn("a"),)), path)
    record(path, RECORDED, turn("a"), NONE_WRITTEN)
    assert load(path).source == "recorded"


def test_a_script_in_a_recorded_cassette(path: Path) -> None:
    """A scripted reply is never passed off as a model's."""
    save(replace(RECORDED, turns=(turn("a"), turn("b"))), path)
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
    assert {each.task for each in load(path).turns} == {f"turn {n}" for n in range(24)}


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
    step = RecordedStep(
        says(Text(f"use {KEY} or {value}"), call),
        said=(f"it is {KEY}",),
        results=(RecordedResult("look", "a", f"⟨{value}⟩ {KEY}", 0),),
    )
    one = RecordedTurn(f"log in with {value} and {KEY}", steps=(step,))
    save(Cassette("p", f"m {KEY}", "recorded", (one,)), path)
    text = path.read_text(encoding="utf-8")
    assert KEY not in text
    assert "wörd" not in text
    assert load(path).replies == 1


def test_an_escaped_secret_in_arguments(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that JSON spells with escapes inside of a call's arguments is found as well."""
    monkeypatch.setenv("DB_PASSWORD", "grün" + "kohl" + '"99"')
    call = ToolCall("c", "look", json.dumps({"b": 'grünkohl"99"'}))
    (block,) = there_and_back(says(call)).message.blocks
    assert isinstance(block, ToolCall)
    assert json.loads(block.arguments) == {"b": "[redacted]"}


# ---- damage --------------------------------------------------------------------------------------

Damage = Callable[[list[str]], bytes]


def joined(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def sealed(rows: list[Any]) -> bytes:
    """The rows of one turn without marks, after their header, with the digest that fits them."""
    header, *rest = rows
    plain = [{key: value for key, value in row.items() if key != "digest"} for row in rest]
    texts = [json.dumps(row, sort_keys=True, ensure_ascii=False) for row in plain]
    digest = hashlib.sha256("\n".join(texts).encode("utf-8")).hexdigest()[:32]
    plain[0] = {**plain[0], "digest": digest}
    return joined(*(json.dumps(row, ensure_ascii=False) for row in (header, *plain)))


def header_with(**changes: Any) -> Damage:
    return lambda lines: joined(json.dumps({**json.loads(lines[0]), **changes}), *lines[1:])


def row_with(number: int, **changes: Any) -> Damage:
    """A row of a turn with other fields, and the digest that fits them."""

    def damage(lines: list[str]) -> bytes:
        rows = [json.loads(unmarked(line)) for line in lines]
        rows[number] = {**rows[number], **changes}
        return sealed(rows)

    return damage


def reply_with(**changes: Any) -> Damage:
    def damage(lines: list[str]) -> bytes:
        rows = [json.loads(unmarked(line)) for line in lines]
        rows[2]["reply"] = {**rows[2]["reply"], **changes}
        return sealed(rows)

    return damage


DEEP = "[" * 200_000
WHOLE = {"call": 0, "question": "?", "reasons": [], "answer": "yes", "by": "person"}
RESULT = {"tool": "look", "arguments": "a", "call": 0}
WRONG: list[tuple[int, Row]] = [
    (1, {"task": None}),
    (1, {"task": ["Count."]}),
    (1, {"before": 3}),
    (1, {"source": "invented"}),
    (1, {"runs": "twice"}),
    (1, {"prompt": "a"}),
    (2, {"reply": None}),
    (2, {"reply": []}),
    (2, {"results": "Count."}),
    (2, {"results": 3}),
    (2, {"results": [3]}),
    (2, {"results": ["text"]}),
    (2, {"results": [{"text": 7}]}),
    (2, {"results": [{"tool": "t"}]}),
    (2, {"results": [RESULT, RESULT]}),
    (2, {"results": [{**RESULT, "call": 1}]}),
    (2, {"results": [{**RESULT, "call": -2}]}),
    (2, {"results": [{**RESULT, "shown": "all"}]}),
    (2, {"results": [{**RESULT, "given": {"display": [{"kind": "film"}]}}]}),
    (2, {"summaries": 7}),
    (2, {"summaries": ["said"]}),
    (2, {"retries": [1]}),
    (2, {"schemas": []}),
    (2, {"decisions": None}),
    (2, {"decisions": "yes"}),
    (2, {"decisions": 7}),
    (2, {"decisions": {"call": 0}}),
    (2, {"decisions": [WHOLE, "yes"]}),
    (2, {"decisions": [{**WHOLE, "answer": "sure"}]}),
    (2, {"decisions": [{**WHOLE, "by": "the agent"}]}),
    (2, {"decisions": [{**WHOLE, "call": "first"}]}),
    (2, {"decisions": [{**WHOLE, "call": -1}]}),
    (2, {"decisions": [{**WHOLE, "call": 1}]}),
    (2, {"decisions": [{**WHOLE, "reasons": "because"}]}),
    (2, {"decisions": [WHOLE, WHOLE]}),
    (2, {"decisions": [{"call": 0}]}),
    (2, {"said": None}),
    (2, {"said": 7}),
    (2, {"said": "words"}),
    (2, {"said": [7]}),
    (2, {"said": [None]}),
    (2, {"said": {"a": 1}}),
    (2, {"said_after": [["a"]]}),
    (2, {"said_after": "late"}),
    (5, {"variables": "x"}),
    (5, {"variables": [{"name": "x", "kind": "eaten"}]}),
    (5, {"files": [{"path": "a", "kind": "eaten"}]}),
    (5, {"files": [{"kind": "created"}]}),
]

DAMAGED: dict[str, Damage] = {
    "an empty file": lambda lines: b"",
    "blank lines only": lambda lines: b"\n\n\n",
    "no header": lambda lines: joined(*lines[1:]),
    "the header of a notebook": lambda lines: b'{"cells": [], "nbformat": 4}\n',
    "a list for a header": lambda lines: joined("[1]", *lines[1:]),
    "a number for a header": lambda lines: joined("7", *lines[1:]),
    "a newer version": header_with(cassette=99),
    "an older version": header_with(cassette=1),
    "a version in words": header_with(cassette="one"),
    "a version that is a fraction": header_with(cassette=2.5),
    "an unknown source": header_with(source="invented"),
    "a source of the wrong type": header_with(source=["recorded"]),
    "a truncated line": lambda lines: joined(*lines)[:-10],
    "half a header": lambda lines: lines[0][:30].encode(),
    "a missing first line": lambda lines: joined(lines[0], *lines[2:]),
    "a missing first step": lambda lines: joined(*lines[:2], *lines[3:]),
    "a missing middle step": lambda lines: joined(*lines[:3], *lines[4:]),
    "a missing end": lambda lines: joined(*lines[:-1]),
    "a first line alone": lambda lines: joined(*lines[:2]),
    "reordered steps": lambda lines: joined(*lines[:2], lines[3], lines[2], *lines[4:]),
    "a first line that comes twice": lambda lines: joined(*lines[:2], *lines[1:]),
    "a step that comes twice": lambda lines: joined(*lines[:3], *lines[2:]),
    "an end that comes twice": lambda lines: joined(*lines, lines[-1]),
    "a merge conflict at the top": lambda lines: joined("<<<<<<< HEAD", *lines),
    "a merge conflict inside": lambda lines: joined(
        *lines[:2], "<<<<<<< HEAD", lines[2], "=======", lines[2], ">>>>>>> main", *lines[3:]
    ),
    "NUL bytes": lambda lines: b"\0" * 100,
    "a NUL in a line": lambda lines: joined(*lines).replace(b"Count", b"Co\0nt"),
    "NUL at the end": lambda lines: joined(*lines) + b"\0\0",
    "latin-1": lambda lines: joined(*lines) + "grün".encode("latin-1"),
    "UTF-16": lambda lines: joined(*lines).decode().encode("utf-16"),
    "gzip": lambda lines: b"\x1f\x8b\x08\x00" + bytes(range(256)),
    "a line that is a list": lambda lines: joined(*lines, "[]"),
    "a line that is a number": lambda lines: joined(*lines, "3"),
    "an empty line of JSON": lambda lines: joined(*lines, "{}"),
    "a line of brackets": lambda lines: joined(*lines, DEEP),
    "a line of brackets that close": lambda lines: joined(
        *lines[:2], lines[2][:-1] + ', "x": ' + "[" * 900 + "]" * 900 + "}", *lines[3:]
    ),
    "a header of brackets": lambda lines: joined(DEEP, *lines),
    "a digest that is no text": lambda lines: joined(
        lines[0], json.dumps({**json.loads(lines[1]), "digest": [1]}), *lines[2:]
    ),
    "no digest": lambda lines: joined(
        lines[0], lines[1].replace('"digest"', '"digested"'), *lines[2:]
    ),
    "another kind of line": lambda lines: joined(*lines[:3], '{"kind": "verdict"}', *lines[3:]),
    "another kind that is no text": lambda lines: joined(*lines[:3], '{"kind": []}', *lines[3:]),
    "a kind that is not optional": lambda lines: joined(
        *lines[:3], '{"kind": "verdict", "optional": "true"}', *lines[3:]
    ),
    "a reply without a message": reply_with(message=None),
    "a reply of another kind": reply_with(type="turn_started"),
    "an unknown stop reason": reply_with(stop_reason="bored"),
    "tokens in words": reply_with(usage={"input_tokens": "many"}),
    "an unknown block": reply_with(message={"role": "assistant", "blocks": [{"type": "x"}]}),
    **{f"line {row + 1}: {json.dumps(more)}": row_with(row, **more) for row, more in WRONG},
}

OPTIONAL = '{"kind": "verdict", "optional": true, "words": "⟨fine⟩"}'
HARMLESS: dict[str, Damage] = {
    "CRLF": lambda lines: joined(*lines).replace(b"\n", b"\r\n"),
    "a BOM": lambda lines: b"\xef\xbb\xbf" + joined(*lines),
    "no newline at the end": lambda lines: joined(*lines)[:-1],
    "more newlines at the end": lambda lines: joined(*lines) + b"\n\n",
    "blank lines between": lambda lines: b"\n\n".join(line.encode() for line in lines),
    "no blank lines": lambda lines: joined(*lines),
    "blanks around the lines": lambda lines: joined(*(f"  {line} " for line in lines)),
    "an unknown key in the header": header_with(note="by hand"),
    "escaped characters": lambda lines: joined(*(json.dumps(json.loads(x)) for x in lines)),
    "fields in another order": lambda lines: joined(
        *(json.dumps(json.loads(x), sort_keys=True, ensure_ascii=False) for x in lines)
    ),
}


@pytest.fixture
def good_lines(path: Path) -> list[str]:
    save(replace(RECORDED, turns=(turn("Count.", 3, "drei – ü"),)), path)
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


@pytest.mark.parametrize("kind", DAMAGED)
async def test_damage_is_told_in_one_line(path: Path, good_lines: list[str], kind: str) -> None:
    """Whatever happened to the file: one `ConfigError` that names it, in one line."""
    path.write_bytes(DAMAGED[kind](good_lines))
    with pytest.raises(ConfigError, match=path.name) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("row", "more"), WRONG, ids=[json.dumps(more) for _, more in WRONG])
def test_what_does_not_belong_there(path: Path, good_lines: list[str], row: int, more: Row) -> None:
    """A line with other things in it than a cassette holds there is named."""
    path.write_bytes(row_with(row, **more)(good_lines))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path.name}, line {row + 1}: ")


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_does_no_harm(path: Path, good_lines: list[str], kind: str) -> None:
    """What editors and git do to text files does not spoil a cassette."""
    path.write_bytes(HARMLESS[kind](good_lines))
    assert load(path).turns == (turn("Count.", 3, "drei – ü"),)


@pytest.mark.parametrize("row", [1, 2, 4, 5])
def test_a_field_of_a_later_version(path: Path, good_lines: list[str], row: int) -> None:
    """A field that this version does not know is left out, if the turn is as it was recorded."""
    path.write_bytes(row_with(row, mood={"of": ["the", "model"]})(good_lines))
    (found,) = load(path).turns
    assert found.task == "Count." and len(found.steps) == 3
    added = [*good_lines[:row], good_lines[row][:-1] + ', "mood": 1}', *good_lines[row + 1 :]]
    path.write_bytes(joined(*added))
    with pytest.raises(ConfigError, match="not as it was recorded"):
        load(path)


def test_the_wrong_line_is_named(path: Path, good_lines: list[str]) -> None:
    """The message holds the number of the damaged line."""
    path.write_bytes(joined(*good_lines[:2], "oops", *good_lines[2:]))
    with pytest.raises(ConfigError, match=f"^{path.name}, line 3: not a line of a cassette"):
        load(path)


def test_a_newer_version(path: Path, good_lines: list[str]) -> None:
    """A file from the future says what to do, whatever else is new in its header."""
    path.write_bytes(header_with(cassette=3)(good_lines))
    with pytest.raises(ConfigError, match=r"has cassette format 3; .* Update jupyter-agent-magics"):
        load(path)


def test_an_older_version(path: Path) -> None:
    """A file of format 1 is told in one line, with the command that records it anew."""
    header = {"cassette": 1, "package": "1", "provider": "p", "model": "m", "source": "recorded"}
    entry = {"conversation": "a", "turn": "a", "step": 1, "asked": [["task", "Count."]]}
    path.write_bytes(joined(json.dumps(header), json.dumps(entry)))
    with pytest.raises(ConfigError, match="has cassette format 1") as caught:
        load(path)
    assert str(caught.value).endswith("Record it anew: jupyter agent record NOTEBOOK")
    assert "\n" not in str(caught.value)


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


# ---- tampered ------------------------------------------------------------------------------------

TWO = (turn("Count.", 3, "drei"), FULL, turn("Again.", 2, "zwei"))
"""Their lines in the file, from 0: 0 header, 2-6 Count, 8-11 FULL, 13-16 Again; others blank."""


def swapped(lines: list[str], one: int, two: int) -> list[str]:
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def with_reply_of(lines: list[str], number: int, other: int) -> list[str]:
    row, source = json.loads(lines[number]), json.loads(lines[other])
    row["reply"] = source["reply"]
    lines[number] = json.dumps(row, ensure_ascii=False)
    return lines


def with_text(lines: list[str], number: int, old: str, new: str) -> list[str]:
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new, 1)
    return lines


TAMPERED: dict[str, tuple[int, Callable[[list[str]], list[str]]]] = {
    "a call exchanged": (3, lambda x: with_text(x, 3, '\\"n\\": 1', '\\"n\\": 2')),
    "the calls of two steps exchanged": (3, lambda x: swapped(x, 3, 4)),
    "a reply from another turn": (14, lambda x: with_reply_of(x, 14, 3)),
    "a final reply from another turn": (5, lambda x: with_reply_of(x, 5, 15)),
    "a step from another turn": (3, lambda x: [*x[:5], x[15], *x[6:]]),
    "a result edited": (3, lambda x: with_text(x, 3, "1 rows", "9 rows")),
    "a marked value edited": (3, lambda x: with_text(x, 3, "⟨1.5 s⟩", "⟨9.5 s⟩")),
    "a result taken away": (4, lambda x: with_text(x, 4, '"results"', '"outcomes"')),
    "an answer turned into a yes": (
        9,
        lambda x: with_text(x, 9, '"answer": "no"', '"answer": "yes"'),
    ),
    "a typed line edited": (10, lambda x: with_text(x, 10, "Now.", "Stop.")),
    "a task edited": (2, lambda x: with_text(x, 2, "Count.", "Recount.")),
    "the tasks of two turns exchanged": (2, lambda x: swapped(x, 2, 13)),
    "a variable edited": (11, lambda x: with_text(x, 11, "rows", "cows")),
    "the runs edited": (8, lambda x: with_text(x, 8, '"runs": 2', '"runs": 3')),
    "a line missing": (3, lambda x: [*x[:4], *x[5:]]),
    "a line doubled": (3, lambda x: [*x[:4], *x[3:]]),
    "a line moved within its turn": (3, lambda x: [*x[:3], x[4], x[3], *x[5:]]),
    "a line moved to another turn": (2, lambda x: [*x[:4], *x[5:14], x[4], *x[14:]]),
    "two turns merged in one": (2, lambda x: [*x[:6], *x[14:]]),
    "an end exchanged": (6, lambda x: swapped(x, 6, 11)),
    "a digest from another turn": (
        2,
        lambda x: with_text(x, 2, json.loads(x[2])["digest"], json.loads(x[13])["digest"]),
    ),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_what_is_not_as_it_was_recorded(path: Path, kind: str) -> None:
    """It is found before anything is executed, and the turn or the line is named."""
    save(replace(RECORDED, turns=TWO), path)
    _, change = TAMPERED[kind]
    lines = path.read_text(encoding="utf-8").split("\n")
    assert [n for n, line in enumerate(lines) if line.startswith('{"kind": "turn"')] == [2, 8, 13]
    changed = change([*lines])
    path.write_text("\n".join(changed), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path.name}, line ") and "\n" not in said
    first = next(n for n, (a, b) in enumerate(zip(lines, changed, strict=False)) if a != b)
    begins = max(n for n in (2, 8, 13) if n <= first)
    named = int(said.split(", line ")[1].partition(":")[0]) - 1
    assert begins <= named <= first + 1


def test_whole_turns_may_be_moved_and_taken_away(path: Path) -> None:
    """No turn depends on another one: their order and number are free."""
    save(replace(RECORDED, turns=TWO), path)
    header, *blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    path.write_text("\n\n".join([header, *reversed(blocks)]), encoding="utf-8")
    assert load(path).turns == tuple(reversed(TWO))
    path.write_text("\n\n".join([header, blocks[1]]), encoding="utf-8")
    assert load(path).turns == TWO[1:2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("whole") / "a.cassette.jsonl"
    save(replace(RECORDED, turns=TWO), path)
    return path, path.read_text(encoding="utf-8")


def _values(text: str) -> Any:
    """The lines as JSON values without the marks; None if one is none."""
    try:
        return [unmarked(json.dumps(json.loads(x), sort_keys=True)) for x in text.split("\n") if x]
    except ValueError:
        return None


@given(st.data())
@settings(max_examples=examples(3000))
def test_any_character_of_a_turn(whole: tuple[Path, str], data: st.DataObject) -> None:
    """Change any character of any line of a turn: the file and a line of that turn are named."""
    path, text = whole
    start = text.index("\n\n") + 2
    at = data.draw(st.integers(start, len(text) - 1))
    assume(text[at] != "\n")
    put = data.draw(st.sampled_from(["", "5", "x", '"', " ", "⟨", "⟩", "\\", "}", ",", "é"]))
    changed = text[:at] + put + text[at + data.draw(st.integers(0, 1)) :]
    now = path.with_name("b.cassette.jsonl")
    now.write_text(changed, encoding="utf-8")
    try:
        found = load(now)
    except ConfigError as error:
        assert str(error).startswith("b.cassette.jsonl, line ")
        return
    # Blanks between the fields are nothing; marks may be put in and taken out by hand.
    assert _values(changed) == _values(text)
    assert _without_marks(found) == _without_marks(load(path))


def _without_marks(cassette: Cassette) -> str:
    return unmarked(repr(cassette))


def test_marks_by_hand(path: Path) -> None:
    """Who marks a span of a result, an output or a variable by hand breaks nothing."""
    step = RecordedStep(
        says(ToolCall("c", "look", "{}")),
        results=(RecordedResult("look", "a", "took 5 s", 0, {0: {"text/html": "<b>5</b>"}}),),
    )
    one = RecordedTurn("5", steps=(step,), variables=(RecordedVariable("x", "added", "= 5"),))
    save(replace(RECORDED, turns=(one,)), path)
    text = path.read_text(encoding="utf-8")
    for old, new in (("took 5 s", "took ⟨5 s⟩"), ("<b>5<", "<b>⟨5⟩<"), ("= 5", "= ⟨5⟩")):
        assert text.count(old) == 1
        text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        assert load(path).replies == 1
    marks = [(1, "took ⟨5 s⟩"), (1, "<b>⟨5⟩</b>"), (0, "x: = ⟨5⟩")]
    assert load(path).turns[0].varying() == marks
    path.write_text(text.replace('"task": "5"', '"task": "⟨5⟩"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="not as it was recorded"):
        load(path)


# ---- lines of later kinds ------------------------------------------------------------------------


@pytest.mark.parametrize("place", [2, 3, 4, 5, 6])
def test_an_optional_line(path: Path, good_lines: list[str], place: int) -> None:
    """It is left out of a replay, and kept where the file is written again."""
    path.write_bytes(joined(*good_lines[:place], OPTIONAL, *good_lines[place:]))
    (found,) = load(path).turns
    assert found.steps == turn("Count.", 3, "drei – ü").steps
    record(path, RECORDED, turn("More."), NONE_WRITTEN)
    assert OPTIONAL in path.read_text(encoding="utf-8").split("\n")
    assert load(path).turns[0].others == (OPTIONAL,)
    record(path, RECORDED, turn("Count.", 1), NONE_WRITTEN)
    assert OPTIONAL not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("optional", ["false", "null", "1", '"true"'])
def test_a_line_that_a_replay_needs(path: Path, good_lines: list[str], optional: str) -> None:
    """A kind of line that this version does not know is refused, with what to do."""
    line = f'{{"kind": "verdict", "optional": {optional}}}'
    path.write_bytes(joined(*good_lines[:3], line, *good_lines[3:]))
    with pytest.raises(ConfigError, match=r"line 4: .* kind 'verdict'\. Update jupyter-agent-mag"):
        load(path)


# ---- branches ------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str, fails: bool = False) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *who, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert fails == (done.returncode != 0), done.stdout + done.stderr
    return done.stdout


def on_two_branches(path: Path, one: RecordedTurn, two: RecordedTurn) -> None:
    """Commit a cassette, record a turn on each of two branches, and stand on the second one."""
    folder = path.parent
    git(folder, "init", "-q", "-b", "main")
    for branch, new in (("main", None), ("one", one), ("two", two)):
        if new is not None:
            git(folder, "checkout", "-q", "-b", branch, "main")
            record(path, RECORDED, new, NONE_WRITTEN)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", branch)


CELLS = tuple(turn(f"Cell {n}.", 1 + n % 3, f"{n}") for n in range(5))


@pytest.mark.parametrize(("one", "two"), [(0, 1), (1, 0), (0, 4), (2, 3), (3, 4)])
def test_cells_recorded_on_two_branches(path: Path, one: int, two: int) -> None:
    """A plain merge has both, also of neighbours, and replays them."""
    save(replace(RECORDED, turns=CELLS), path)
    first = replace(turn(f"Cell {one}.", 3, "uno"), before="changed")
    second = turn(f"Cell {two}.", 2, "due")
    on_two_branches(path, first, second)
    git(path.parent, "merge", "-q", "one")
    wanted = list(CELLS)
    wanted[one], wanted[two] = first, second
    assert load(path).turns == tuple(wanted)


async def test_one_cell_recorded_on_two_branches(path: Path) -> None:
    """That is a conflict, which is told with its line; either side of it is a whole cassette."""
    save(replace(RECORDED, turns=CELLS), path)
    on_two_branches(path, turn("Cell 2.", 1, "uno"), turn("Cell 2.", 1, "due"))
    git(path.parent, "merge", "-q", "one", fails=True)
    with pytest.raises(ConfigError, match=r"line \d+: .*a merge conflict"):
        load(path)
    git(path.parent, "checkout", "-q", "--theirs", path.name)
    assert await replaying(path).ask("Cell 2.") == "uno"


@pytest.mark.parametrize("attribute", ["merge", "merge=union"])
def test_new_cells_on_two_branches(path: Path, attribute: str) -> None:
    """Both stand at the end, where plain git sees a conflict: who keeps both sides has both."""
    save(replace(RECORDED, turns=CELLS), path)
    (path.parent / ".gitattributes").write_text(f"*.cassette.jsonl {attribute}\n")
    first, second = turn("New.", 2, "uno"), turn("Newer.", 3, "due")
    on_two_branches(path, first, second)
    is_plain = attribute == "merge"
    git(path.parent, "merge", "-q", "one", fails=is_plain)
    if is_plain:
        with pytest.raises(ConfigError, match="a merge conflict"):
            load(path)
        lines = path.read_text(encoding="utf-8").split("\n")
        kept = [line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
        path.write_text("\n".join(kept), encoding="utf-8")
    assert load(path).turns[:5] == CELLS
    assert {each.task: each for each in load(path).turns[5:]} == {"New.": first, "Newer.": second}
