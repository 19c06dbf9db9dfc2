"""Recording a conversation and replaying it: what must match, and what a miss says."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.core.events import MessageFinished, TextDelta
from jupyter_agent.core.history import task_index
from jupyter_agent.core.messages import (
    Context,
    Image,
    Message,
    Said,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.errors import ProviderError, ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.llm.tokens import TokenCounter
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.coverage import Task, coverage
from jupyter_agent.recording.digests import Item, extend, items, items_before, normalized
from jupyter_agent.recording.miss import THIS_CELL
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.replay import Replay

KEY = "sk-" + "ant-" + "Abc1" * 8
LOOK = {"text": "I look.", "calls": [{"name": "look", "arguments": {"path": "a.csv"}}]}
SCRIPT: list[tuple[str, list[Any]]] = [
    ("Count the rows.", [LOOK, LOOK, {"text": "344 rows."}]),
    ("And the columns?", [LOOK, {"text": "8 columns."}]),
    ("Go on.", [{"text": "First."}]),
    ("Go on.", [{"text": "Second."}]),
]


def user(task: str, context: str = "") -> Message:
    extra = (Context(context),) if context else ()
    return Message("user", (Text(task), *extra))


class Talk:
    """One conversation: tasks in, words out. Each call of a tool gets the next of `results`."""

    def __init__(self, provider: Model, results: Sequence[str] = ()) -> None:
        self.provider = provider
        self.history: list[Message] = []
        self.replies: list[MessageFinished] = []
        self.results = list(results)

    async def ask(self, task: str, context: str = "", system: str = "s") -> str:
        self.history.append(user(task, context))
        if isinstance(self.provider, Recorder):
            self.provider.begin()
        while True:
            reply = await one_reply(self.provider, self.history, system)
            self.replies.append(reply)
            self.history.append(reply.message)
            if not reply.message.tool_calls:
                break
            self.history.append(self._answers(reply.message))
        if isinstance(self.provider, Recorder):
            self.provider.commit()
        return reply.message.text

    def _answers(self, message: Message) -> Message:
        texts = [self.results.pop(0) if self.results else "344" for _ in message.tool_calls]
        made = zip(message.tool_calls, texts, strict=True)
        return Message("user", tuple(ToolResult(call.id, (Text(text),)) for call, text in made))


async def one_reply(
    provider: Model, messages: Sequence[Message], system: str = "s"
) -> MessageFinished:
    """The finished message of one model call, which comes last."""
    tools = (ToolSpec(f"tool of {system}", "", {}),)
    parts = [part async for part in provider.stream(Request(system, tuple(messages), tools))]
    (reply,) = [part for part in parts if isinstance(part, MessageFinished)]
    assert parts[-1] is reply
    return reply


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analysis.cassette.jsonl"


async def recorded(path: Path, *tasks: str, results: Sequence[str] = ()) -> Talk:
    talk = Talk(Recorder(Scripted(SCRIPT), path), results)
    for task in tasks:
        await talk.ask(task)
    return talk


def replaying(path: Path, results: Sequence[str] = ()) -> Talk:
    return Talk(Replay(load(path), path.name), results)


async def mismatch(path: Path, task: str, results: Sequence[str] = ()) -> str:
    with pytest.raises(ReplayMismatch) as caught:
        await replaying(path, results).ask(task)
    assert "\n" not in str(caught.value)
    assert not caught.value.retryable
    return str(caught.value)


# ---------------------------------------------------------------- there and back


async def test_replay_gives_what_was_recorded(path: Path) -> None:
    """The same tasks get equal replies: words, calls, usage, stop reasons."""
    live = await recorded(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    assert await again.ask("Count the rows.") == "344 rows."
    assert await again.ask("And the columns?") == "8 columns."
    assert (again.replies, again.history) == (live.replies, live.history)


async def test_a_recorder_passes_everything_on(path: Path) -> None:
    """Deltas and the message arrive as the provider streams them."""
    request = Request("s", (user("Go on."),))
    direct = [part async for part in Scripted(SCRIPT).stream(request)]
    recorder = Recorder(Scripted(SCRIPT), path)
    assert [part async for part in recorder.stream(request)] == direct
    assert isinstance(direct[0], TextDelta)
    assert (recorder.name, recorder.model, recorder.source) == ("scripted", "script", "scripted")


async def test_nothing_is_written_before_the_commit(path: Path) -> None:
    """A turn that fails leaves no trace, and none in the next turn's recording."""
    recorder = Recorder(Scripted(SCRIPT), path)
    recorder.begin()
    await one_reply(recorder, [user("Count the rows.")])
    assert not path.exists()
    recorder.begin()
    recorder.commit()
    assert not path.exists()
    await Talk(recorder).ask("Go on.")
    assert load(path).replies == 1


async def test_replay_says_where_its_replies_come_from(path: Path) -> None:
    """Model and source are those of the cassette."""
    await recorded(path, "Go on.")
    replay = Replay(load(path), path.name)
    assert (replay.name, replay.model, replay.source) == ("replay", "script", "scripted")


async def test_recording_a_cell_again(path: Path) -> None:
    """A second session that records one cell replaces its lines and keeps the others."""
    await recorded(path, "Count the rows.", "And the columns?")
    better = [("Count the rows.", [{"text": "Still 344."}])]
    await Talk(Recorder(Scripted(better), path)).ask("Count the rows.")
    assert load(path).replies == 3
    assert await replaying(path).ask("Count the rows.") == "Still 344."


async def test_the_same_notebook_recorded_twice(path: Path) -> None:
    """A recording that changes nothing gives the same bytes."""
    tasks = ("Count the rows.", "Go on.", "And the columns?", "Go on.")
    await recorded(path, *tasks)
    once = path.read_bytes()
    await recorded(path, *tasks)
    assert path.read_bytes() == once


async def test_the_same_task_twice(path: Path) -> None:
    """Two cells with one task each get their own reply, in the notebook's order."""
    await recorded(path, "Go on.", "Go on.")
    again = replaying(path)
    assert [await again.ask("Go on."), await again.ask("Go on.")] == ["First.", "Second."]


async def test_a_cell_that_is_run_twice_in_replay(path: Path) -> None:
    """The second run follows the recording of the turn, since the conversation is longer."""
    await recorded(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    asked = ["Count the rows.", "Count the rows.", "And the columns?", "And the columns?"]
    answers = [await again.ask(task) for task in asked]
    assert answers == ["344 rows.", "344 rows.", "8 columns.", "8 columns."]


async def test_cells_in_another_order(path: Path) -> None:
    """A cell alone, without those above it, is replayed as well."""
    await recorded(path, "Count the rows.", "And the columns?")
    assert await replaying(path).ask("And the columns?") == "8 columns."


async def test_two_replays_side_by_side(path: Path) -> None:
    """One replay serves two conversations at once."""
    await recorded(path, "Count the rows.")
    replay = Replay(load(path), path.name)
    both = await asyncio.gather(*(Talk(replay).ask("Count the rows.") for _ in range(2)))
    assert both == ["344 rows."] * 2


async def test_a_shortened_history(path: Path) -> None:
    """A conversation that was reset starts anew."""
    await recorded(path, "Count the rows.")
    again = replaying(path)
    await again.ask("Count the rows.")
    again.history.clear()
    assert await again.ask("Count the rows.") == "344 rows."


# ---------------------------------------------------------------- what counts


async def test_context_and_system_prompt_do_not_count(path: Path) -> None:
    """What the session adds, the system prompt and the tools may change between versions."""
    await recorded(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    assert await again.ask("Count the rows.", "<context>x = 1</context>", "new") == "344 rows."
    assert await again.ask("And the columns?", "<context>y</context>", "newer") == "8 columns."


async def test_blanks_around_a_task_do_not_count(path: Path) -> None:
    """Blanks at the ends of the task and of its lines are not meant."""
    await recorded(path, "Count the rows.")
    assert await replaying(path).ask("\n Count the rows.  \n") == "344 rows."


SAME = [
    ("<a.B object at 0x7f3d561bf430>", "<a.B object at 0x55d0a1b2c3d4>"),
    ("run 123e4567-e89b-12d3-a456-426614174000", "run 00000000-1111-2222-3333-444444444444"),
    ("RUN 123E4567-E89B-12D3-A456-426614174000", "RUN 00000000-1111-2222-3333-44444444444F"),
    ("written 2026-01-02T03:04:05.678Z", "written 2027-11-12T13:14:15Z"),
    ("written 2026-01-02 03:04:05+01:00", "written 2026-01-02 03:04:06+01:00"),
    ("at 03:04:05", "at 13:14:15.123"),
    ("saved to /" + "tmp/pytest-of-me/x1/a.csv", "saved to /" + "tmp/tmpabc/a.csv"),
    ("'/" + "private/tmp/a'", "'/" + "var/folders/zz/T/b'"),
    ("/" + "home/ann/data/a.csv", "/" + "Users/bob/data/a.csv"),
    ("done in 0.12s", "done in 3.4s"),
    ("12.3 ms ± 45 µs per loop", "9 ms ± 1.2 ms per loop"),
    ("12.3 μs ± 45 ns per loop", "9.1 μs ± 2 ns per loop"),
    ("Wall time: 3.2 s", "Wall time: 981 ms"),
    ("CPU times: user 1min 2s, sys: 3 ms", "CPU times: user 2min 4s, sys: 40 ms"),
    ("took 3 seconds", "took 14.5 seconds"),
    ("  saved_by: agent, a b.ipynb, session default, m", "  saved_by: agent, session default, m"),
    ("a  \nb\n", "a\nb"),
]
DIFFERENT = [
    ("344 rows", "345 rows"),
    ("mean 5,076.0", "mean 5,076.1"),
    ("2026-01-02", "2026-01-03"),
    ("version 1.2.3", "version 1.2.4"),
    ("0x10", "0x11"),
    ("columns: a, b", "columns: a, c"),
    ("/" + "home/ann/a.csv", "/" + "home/ann/b.csv"),
    ("5 sheep", "6 sheep"),
    ("12 m", "13 m"),
    ("a b", "a  b"),
    ("a\n\nb", "a\nb"),
]


@pytest.mark.parametrize(("then", "now"), SAME)
async def test_what_differs_from_run_to_run_does_not_count(path: Path, then: str, now: str) -> None:
    """Addresses, ids, times, temporary paths and durations in a result may change."""
    await recorded(path, "Count the rows.", results=[then, "3"])
    assert await replaying(path, [now, "3"]).ask("Count the rows.") == "344 rows."


@pytest.mark.parametrize(("then", "now"), DIFFERENT)
async def test_numbers_and_words_count(path: Path, then: str, now: str) -> None:
    """A result that says something else is another conversation."""
    await recorded(path, "Count the rows.", results=[then, "3"])
    assert "Step 2 went another way than recorded" in await mismatch(path, "Count the rows.", [now])


OTHER_WORDS = [
    ("Convert 0x123456789 to decimal.", "Convert 0x987654321 to decimal."),
    ("What is at 0x4000?", "What is at 0x8000?"),
    ("Who is https://a.org/Users/12?", "Who is https://a.org/Users/13?"),
    ("Sum /home/2023/a.csv", "Sum /home/2024/a.csv"),
    ("Which trips were longer than 30 min?", "Which trips were longer than 60 min?"),
    ("Which trips were longer than 30 min?", "Which trips were longer than 30 s?"),
    ("longer than 30 min?", "longer than 30  min?"),
    ("What happened on 2024-01-02 10:00?", "What happened on 2024-01-02 11:00?"),
    ("Since 2024-01-02T10:00:00Z.", "Since 2024-01-03T10:00:00Z."),
    ("What happened at 10:00:00?", "What happened at 22:00:00?"),
    ("Within 5 ms ± 1 ms?", "Within 5 ms ± 2 ms?"),
    ("Plot Ann.", "Plot ann."),
    ("Plot Ann.", "Plot Bob."),
    ("One.\nTwo.", "One.\n\nTwo."),
    ("One.  \nTwo.", "One.\nTwo."),
    ("Order 123e4567-e89b-12d3-a456-426614174000", "Order 00000000-1111-2222-3333-444444444444"),
    ("Read /" + "tmp/2023.csv", "Read /" + "tmp/2024.csv"),
    ("Read /" + "home/ann/2023.csv", "Read /" + "home/ann/2024.csv"),
    ("Colour it 0x00ff00.", "Colour it 0xff0000."),
    ("Save it as <duration>.", "Save it as 30 min."),
]
SAME_WORDS = [
    ("Read /" + "tmp/a.csv", "Read /private/" + "tmp/a.csv"),
    ("What is <a.B object at 0x7f3d561bf430>?", "What is <a.B object at 0x55d0a1b2c3d4>?"),
    (f"Log in with {KEY}.", f"Log in with {KEY.replace('1', '2')}."),
]


@pytest.mark.parametrize(("then", "now"), OTHER_WORDS)
async def test_tasks_are_compared_to_the_letter(path: Path, then: str, now: str) -> None:
    """Another number, unit, date, name, case or blank is another task, with a turn of its own."""
    script: list[tuple[str, list[Any]]] = [(then, [{"text": "Then."}]), (now, [{"text": "Now."}])]
    await Talk(Recorder(Scripted(script[:1]), path)).ask(then)
    message = await mismatch(path, now)
    assert ("No reply in analysis.cassette.jsonl" in message) == ("<" not in then)
    recorder = Recorder(Scripted(script[1:]), path)
    await Talk(recorder).ask(now)
    assert len(load(path).turns) == 2
    assert [await replaying(path).ask(task) for task in (then, now)] == ["Then.", "Now."]


@pytest.mark.parametrize(("then", "now"), SAME_WORDS)
async def test_secrets_and_machines_are_no_part_of_a_task(path: Path, then: str, now: str) -> None:
    """Home folders, temporary folders, memory addresses and secrets do not count."""
    await Talk(Recorder(Scripted([(then, [{"text": "Done."}])]), path)).ask(then)
    assert await replaying(path).ask(now) == "Done."


async def test_the_home_of_whoever_replays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file below one's own home is the same for everybody; other such paths are data."""
    script: list[tuple[str, list[Any]]] = [("Read /home/ann/a.csv", [{"text": "Done."}])]
    monkeypatch.setenv("HOME", "/home/ann")
    await Talk(Recorder(Scripted(script), path)).ask("Read /home/ann/a.csv")
    monkeypatch.setenv("HOME", "/Users/bob")
    assert await replaying(path).ask("Read /Users/bob/a.csv") == "Done."
    await mismatch(path, "Read /Users/eve/a.csv")


@pytest.mark.parametrize(("then", "now"), OTHER_WORDS)
def test_typed_lines_and_arguments_are_compared_to_the_letter(then: str, now: str) -> None:
    """What the person typed meanwhile and what a call is given count as a task does."""
    for made in (
        lambda text: Message("user", (Said(text),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({"q": text})),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({"q": [text]})),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({text: 1})),)),
    ):
        assert items(made(then)) != items(made(now))
        assert items(made(then)) == items(made(then))


def test_blanks_around_an_argument_count() -> None:
    """An edit may consist of them."""
    calls = [ToolCall("c", "f", json.dumps({"new": text})) for text in ("a", "a ", "\na", " ", "")]
    assert len({items(Message("assistant", (call,)))[0].text for call in calls}) == 5


def test_a_secret_in_an_argument_is_what_the_file_keeps_of_it() -> None:
    """A key at the start of a line of code is taken out, whatever JSON makes of the line's end."""
    live, kept = (
        Message("assistant", (ToolCall("c", "f", json.dumps({"code": f"a = (\n{key})"})),))
        for key in (KEY, "[redacted]")
    )
    assert items(live) == items(kept)


async def test_the_workspace_may_lie_anywhere(tmp_path: Path) -> None:
    """A path inside of the workspace is the same in another folder; its name is not."""
    path = tmp_path / "a.cassette.jsonl"
    here, there = (Workspace(tmp_path / name) for name in ("here", "there"))
    task = "Read {}/data/a.csv, then {}."
    typed, moved = (task.format(place.root, place.root) for place in (here, there))
    script = [(typed, [{"text": "Read."}])]
    await Talk(Recorder(Scripted(script), path, here)).ask(typed)
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert await Talk(Replay(load(path), path.name, there)).ask(moved) == "Read."
    for other in (moved.replace("a.csv", "b.csv"), moved.replace("there", "there2")):
        with pytest.raises(ReplayMismatch):
            await Talk(Replay(load(path), path.name, there)).ask(other)
    covered = coverage([Task(moved), Task(typed)], load(path), there.root)
    assert covered.missing == (1,)


def test_deep_arguments() -> None:
    """Arguments that are nested as deeply as JSON allows are compared as well."""
    deep = json.dumps({"a": "x"})
    for _ in range(400):
        deep = f'{{"a": {deep}}}'
    (one,) = items(Message("assistant", (ToolCall("c", "f", deep),)))
    (two,) = items(Message("assistant", (ToolCall("c", "f", deep.replace("x", "y")),)))
    assert one != two


def as_first_recorded(path: Path, *turns: Sequence[Message]) -> None:
    """Give the cassette the digests and the texts of the first cassettes."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    made = []
    for line, messages in zip(lines, turns, strict=True):
        said = [item for message in messages for item in items_before(message)]
        new = [[item.kind, item.text] for item in items_before(messages[-1])]
        digest = extend("", said)
        made.append(json.loads(line) | {"conversation": digest, "turn": digest, "asked": new})
    path.write_text("\n".join([header, *map(json.dumps, made), ""]), encoding="utf-8")


async def test_a_cassette_of_an_earlier_version(path: Path) -> None:
    """Where it may mean another task it says so, and how to record again; else it still serves."""
    call = {"name": "wait", "arguments": {"for": "30 min"}}
    script: list[tuple[str, list[Any]]] = [
        ("Only the trips longer than 30 min.", [{"text": "12 trips."}]),
        ("Wait.", [{"text": "I wait.", "calls": [call]}, {"text": "Done."}]),
        ("Go on.", [{"text": "Fine."}]),
    ]
    talk = Talk(Recorder(Scripted(script), path))
    for task, _ in script:
        talk.history.clear()
        await talk.ask(task)
    waited = [user("Wait."), talk.replies[1].message]
    waited.append(Message("user", (ToolResult("c", (Text("344"),)),)))
    first = user(script[0][0])
    as_first_recorded(path, [first], waited[:1], waited, [user("Go on.")])
    for task in (script[0][0], "Only the trips longer than 60 min.", "Wait."):
        message = await mismatch(path, task)
        assert "recorded by an earlier version" in message and message.endswith(THIS_CELL)
    assert await replaying(path).ask("Go on.") == "Fine."


def test_order_and_blanks_of_arguments_do_not_count() -> None:
    """Arguments are compared as values, not as text."""
    one = Message("assistant", (ToolCall("c1", "look", '{"a": 1, "b": "ü"}'),))
    two = Message("assistant", (ToolCall("x9", "look", '{"b":"\\u00fc","a":1}'),))
    assert items(one) == items(two) == [Item("call", 'look {"a": 1, "b": "ü"}')]


def test_words_between_calls_do_not_count() -> None:
    """Only calls count of a model's message."""
    assert items(Message("assistant", (Text("I look."),))) == []


def test_pictures_count_by_their_kind() -> None:
    """A figure's bytes differ from one library version to the next."""
    one, two = (
        Message("user", (ToolResult("c", (Text("a"), Image("image/png", data))),))
        for data in (base64.b64encode(bytes([n])).decode() for n in (1, 2))
    )
    assert items(one) == items(two) == [Item("result", "a\n[image/png]")]


def test_an_error_is_another_result() -> None:
    """The same words as an error and as a result differ."""
    good, bad = (Message("user", (ToolResult("c", (Text("a"),), e),)) for e in (False, True))
    assert items(good) != items(bad)


def test_the_digest_goes_on() -> None:
    """It depends on each item, its kind and the order, and grows step by step."""
    a, b = Item("task", "a"), Item("call", "b")
    assert extend(extend("", [a]), [b]) == extend("", [a, b])
    assert len({extend("", some) for some in ([a], [b], [a, b], [b, a], [a, a], [])}) == 6
    assert extend("", [Item("task", "b")]) != extend("", [b])


def test_where_the_turn_starts() -> None:
    """At the last message that a person typed; notes of the session and results do not count."""
    result = Message("user", (ToolResult("c", (Text("a"),)),))
    note = Message("user", (Context("The step limit is reached."),))
    messages = [user("a"), Message("assistant", (Text("b"),)), user("c"), result, note]
    assert task_index(messages) == 2
    with pytest.raises(ValueError, match="no task"):
        task_index([note])


@given(st.text(max_size=40))
@settings(deadline=None)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    """The normal form is a fixed point, so that it can be compared with what is stored."""
    assert normalized(normalized(text)) == normalized(text)


async def test_odd_names_of_tools(path: Path) -> None:
    """A name with a lone surrogate is a conversation like any other."""
    script = [("Go.", [{"calls": [{"name": "look\ud800"}]}, {"text": "Done."}])]
    await Talk(Recorder(Scripted(script), path)).ask("Go.")
    assert await replaying(path).ask("Go.") == "Done."


# ---------------------------------------------------------------- what a miss says


async def test_a_changed_result(path: Path) -> None:
    """The message names the step and shows the words around the first difference."""
    then = "the table has three hundred and 344 rows and 8 columns in all of it"
    await recorded(path, "Count the rows.", results=["1", then])
    now = then.replace("344", "345")
    assert await mismatch(path, "Count the rows.", ["1", now]) == (
        "Step 3 went another way than recorded: in the result, recorded 'three hundred and 344 "
        "rows and 8 columns in', now 'three hundred and 345 rows and 8 columns in'. " + THIS_CELL
    )


async def test_a_changed_result_far_inside(path: Path) -> None:
    """In a long result the first difference is shown, not the start."""
    then = " ".join(f"w{n}" for n in range(5000))
    await recorded(path, "Count the rows.", results=[then])
    message = await mismatch(path, "Count the rows.", [then.replace("w4000 ", "other ")])
    assert "'w3997 w3998 w3999 w4000" in message
    assert "now 'w3997 w3998 w3999 other" in message
    assert len(message) < 500


async def test_a_result_that_differs_in_blanks_only(path: Path) -> None:
    """Where the words are the same, the message says that only blanks differ."""
    await recorded(path, "Count the rows.", results=["a b"])
    message = await mismatch(path, "Count the rows.", ["a  b"])
    assert "where only white space differs" in message


async def test_a_result_that_became_longer(path: Path) -> None:
    """What came after the recorded end is shown."""
    await recorded(path, "Count the rows.", results=["one two"])
    message = await mismatch(path, "Count the rows.", ["one two three"])
    assert "recorded 'one two', now 'one two three'" in message


async def test_more_steps_than_recorded(path: Path) -> None:
    """A turn that goes on where the recording ended says so."""
    await recorded(path, "Go on.")
    talk = replaying(path)
    await talk.ask("Go on.")
    talk.history.append(Message("user", (ToolResult("c", (Text("a"),)),)))
    with pytest.raises(ReplayMismatch, match="has 1 replies for this task, not 2"):
        await one_reply(talk.provider, talk.history)


async def test_an_unknown_task(path: Path) -> None:
    """The nearest recorded task is shown."""
    await recorded(path, "Count the rows.", "And the columns?")
    message = await mismatch(path, "Count the rows, please.")
    assert "Count the rows." in message
    assert "analysis.cassette.jsonl" in message
    assert message.endswith(THIS_CELL)


async def test_a_damaged_digest(path: Path) -> None:
    """Where the words are the same and the digest is not, the file is what is wrong."""
    await recorded(path, "Count the rows.")
    header, first, *rest = path.read_text(encoding="utf-8").splitlines()
    line = json.loads(first) | {"conversation": "0" * 64, "turn": "0" * 64}
    path.write_text("\n".join([header, json.dumps(line), *rest]), encoding="utf-8")
    assert "damaged or edited by hand" in await mismatch(path, "Count the rows.")


async def test_a_task_like_no_other(path: Path) -> None:
    """Where nothing is near, nothing is suggested."""
    await recorded(path, "Count the rows.")
    message = await mismatch(path, "zzz")
    assert "Count" not in message


async def test_a_miss_keeps_secrets(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in a result is in no error message."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2hunter2")
    await recorded(path, "Count the rows.", results=["a b c"])
    message = await mismatch(path, "Count the rows.", [f"a {KEY} hunter2hunter2"])
    assert KEY not in message
    assert "hunter2" not in message


async def test_secrets_in_a_conversation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds none of them, and yet the notebook replays."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2hunter2")
    call = {"name": "look", "arguments": {"key": KEY, "password": "hunter2hunter2"}}
    script = [(f"Log in with {KEY}.", [{"text": KEY, "calls": [call]}, {"text": "In."}])]
    talk = Talk(Recorder(Scripted(script), path), [f"hello hunter2hunter2 {KEY}"])
    await talk.ask(f"Log in with {KEY}.")
    text = path.read_text(encoding="utf-8")
    assert KEY not in text
    assert "hunter2" not in text
    again = replaying(path, [f"hello hunter2hunter2 {KEY}"])
    assert await again.ask(f"Log in with {KEY}.") == "In."


@pytest.mark.deep
async def test_long_conversations_stay_fast(path: Path) -> None:
    """Each message is looked at once: a thousand steps take no quadratic time."""
    replies: list[Any] = [{"calls": [{"name": "look"}]}] * 1000 + [{"text": "Done."}]
    talk = Talk(Recorder(Scripted([("Go.", replies)]), path), ["x" * 2000] * 1000)
    async with asyncio.timeout(20):
        await talk.ask("Go.")
        assert await replaying(path, ["x" * 2000] * 1000).ask("Go.") == "Done."


async def test_a_provider_that_fails(path: Path) -> None:
    """Its error passes through the recorder."""
    recorder = Recorder(Scripted([]), path)
    with pytest.raises(ProviderError, match="no turn for the task"):
        await one_reply(recorder, [user("What?")])
    await recorder.close()


async def test_entries_hold_what_was_asked(path: Path) -> None:
    """The file shows a reader the task and the results, normalized."""
    await recorded(path, "Count the rows.", results=["at 10:11:12", "4"])
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert [line["asked"] for line in lines[1:]] == [
        [["task", "Count the rows."]],
        [["result", "at <time>"]],
        [["result", "4"]],
    ]


async def test_the_same_task_from_the_same_state(path: Path) -> None:
    """Two fresh conversations with the same task are two recordings, served in their order."""
    script = [("Go.", [{"text": "one"}]), ("Go.", [{"text": "two"}])]
    recorder = Recorder(Scripted(script), path)
    assert [await Talk(recorder).ask("Go.") for _ in range(2)] == ["one", "two"]
    player = Replay(load(path), path.name)
    assert [await Talk(player).ask("Go.") for _ in range(3)] == ["one", "two", "two"]
    again = Recorder(Scripted([("Go.", [{"text": "uno"}]), ("Go.", [{"text": "due"}])]), path)
    for _ in range(2):
        await Talk(again).ask("Go.")
    assert [turn[0].reply.message.text for turn in load(path).turns] == ["uno", "due"]


async def test_the_tools_of_servers_that_are_gone(tmp_path: Path) -> None:
    """What they counted for is known, and all of them where the model called one that is none."""
    far = [ToolSpec(f"far__{name}", "Far away.", {"type": "object"}) for name in ("a", "b")]
    here = ToolSpec("look", "Looks.", {"type": "object"})
    calls = [{"name": "far__a"}, {"name": "far__c"}]
    replies = [*({"text": "", "calls": [call]} for call in calls), {"text": "Done."}]
    path = tmp_path / "a.cassette.jsonl"
    recorder = Recorder(Scripted([("Go.", replies)]), path)
    history = [user("Go.")]
    recorder.begin()
    for _ in replies:
        request = Request("s", tuple(history), (here, *far))
        async for part in recorder.stream(request):
            if isinstance(part, MessageFinished):
                history.append(part.message)
                results = [ToolResult(c.id, (Text("1"),)) for c in part.message.tool_calls]
                history.append(Message("user", tuple(results)))
    recorder.commit()
    (turn,) = load(path).turns
    assert [set(entry.schemas) for entry in turn] == [{"far__a"}, {"far__a", "far__b"}, set()]
    counter = TokenCounter()
    counter.recorded = Replay(load(path), path.name).prompt_tokens
    alone = Request("s", request.messages, (here,))
    assert counter.request(alone) == TokenCounter().request(request)
    assert counter.request(alone) > TokenCounter().request(alone)
