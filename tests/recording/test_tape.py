"""Recording a conversation and replaying it: what must match, and what a miss says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tape_talk import Script, Talk, Watcher, cached, player, recorded, recorder, replaying

from jupyter_agent.core.events import (
    ApprovalAsked,
    Compacted,
    MessageFinished,
    Retrying,
    Steered,
    TextDelta,
)
from jupyter_agent.core.history import task_index
from jupyter_agent.core.messages import (
    Context,
    Message,
    Said,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.errors import ConfigError, ContextOverflow, ProviderError, ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.llm.tokens import TokenCounter
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.cassette import load, save
from jupyter_agent.recording.comparison import Digests
from jupyter_agent.recording.coverage import Task, coverage
from jupyter_agent.recording.learning import learn_cassette
from jupyter_agent.recording.player import Rerun
from jupyter_agent.recording.tape import ModelAsked, ShorteningDue, Tape
from jupyter_agent.recording.varying import parse
from jupyter_agent.recording.wrappers import RecordedModel, carry_out_now

KEY = "sk-" + "ant-" + "Abc1" * 8
LOOK = {"text": "I look.", "calls": [{"name": "look", "arguments": {"path": "a.csv"}}]}
WIPE = {"text": "I wipe.", "calls": [{"name": "wipe"}]}
SCRIPT: Script = (
    ("Count the rows.", [LOOK, LOOK, {"text": "344 rows."}]),
    ("And the columns?", [LOOK, {"text": "8 columns."}]),
    ("Go on.", [{"text": "First."}]),
    ("Go on.", [{"text": "Second."}]),
)


def user(task: str) -> Message:
    return Message("user", (Text(task),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analysis.cassette.jsonl"


async def take(path: Path, *tasks: str, **how: Any) -> Talk:
    return await recorded(path, SCRIPT, tasks, **how)


async def mismatch(path: Path, task: str, results: Sequence[str | ToolReturn] = ()) -> str:
    with pytest.raises(ReplayMismatch) as caught:
        await replaying(path, results=results).ask(task)
    assert len(str(caught.value)) < 700
    assert "jupyter agent record" in str(caught.value)
    assert not caught.value.retryable
    return str(caught.value)


# ---- there and back ------------------------------------------------------------------------------


async def test_replay_gives_what_was_recorded(path: Path) -> None:
    """The same tasks get equal replies: words, calls, usage, stop reasons."""
    live = await take(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    assert await again.ask("Count the rows.") == "344 rows."
    assert await again.ask("And the columns?") == "8 columns."
    assert (again.replies, again.history) == (live.replies, live.history)


async def test_a_recorder_passes_everything_on(path: Path) -> None:
    """Deltas and the message arrive as the provider streams them."""
    request = Request("s", (user("Go on."),))
    direct = [part async for part in Scripted(SCRIPT).stream(request)]
    model = RecordedModel(recorder(path), Scripted(SCRIPT))
    assert [part async for part in model.stream(request)] == direct
    assert isinstance(direct[0], TextDelta)
    assert (model.name, model.model, model.source) == ("scripted", "script", "scripted")


async def test_a_blank_tape() -> None:
    """A live turn is what it is without a tape, and writes nothing."""
    talk = Talk(Tape(), Scripted(SCRIPT))
    assert await talk.ask("Count the rows.") == "344 rows."
    assert len(talk.ran) == 2


async def test_nothing_is_written_before_the_commit(path: Path) -> None:
    """A turn that fails leaves no trace, and none in the next turn's recording."""
    tape = recorder(path)
    script = [("Count the rows.", [LOOK]), ("Go on.", [{"text": "First."}])]
    talk = Talk(tape, Scripted(script))
    with pytest.raises(ProviderError):
        await talk.ask("Count the rows.")
    assert not path.exists()
    tape.begin([user("x")])
    tape.commit()
    assert not path.exists()
    await Talk(tape, Scripted(script)).ask("Go on.")
    assert load(path).replies == 1


async def test_replay_says_where_its_replies_come_from(path: Path) -> None:
    """Model and source are those of the cassette."""
    await take(path, "Go on.")
    model = replaying(path).model
    assert (model.name, model.model, model.source) == ("replay", "script", "scripted")


async def test_recording_a_cell_again(path: Path) -> None:
    """A second session that records one cell replaces its turn and keeps the others."""
    await take(path, "Count the rows.", "And the columns?")
    better = [("Count the rows.", [{"text": "Still 344."}])]
    await recorded(path, better, ["Count the rows."])
    assert load(path).replies == 3
    assert await replaying(path).ask("Count the rows.") == "Still 344."


async def test_the_same_notebook_recorded_twice(path: Path) -> None:
    """A recording that changes nothing gives the same bytes."""
    tasks = ("Count the rows.", "Go on.", "And the columns?", "Go on.")
    await take(path, *tasks)
    once = path.read_bytes()
    await take(path, *tasks)
    assert path.read_bytes() == once


async def test_the_same_task_twice(path: Path) -> None:
    """Two cells with one task each get their own reply, in the notebook's order."""
    await take(path, "Go on.", "Go on.")
    again = replaying(path)
    assert [await again.ask("Go on."), await again.ask("Go on.")] == ["First.", "Second."]


async def test_a_cell_that_is_run_twice_in_replay(path: Path) -> None:
    """The second run follows the recording of the turn, since the conversation is longer."""
    await take(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    asked = ["Count the rows.", "Count the rows.", "And the columns?", "And the columns?"]
    answers = [await again.ask(task) for task in asked]
    assert answers == ["344 rows.", "344 rows.", "8 columns.", "8 columns."]


async def test_cells_in_another_order(path: Path) -> None:
    """A cell alone, without those above it, is replayed as well."""
    await take(path, "Count the rows.", "And the columns?")
    assert await replaying(path).ask("And the columns?") == "8 columns."


async def test_two_conversations_of_one_tape(path: Path) -> None:
    """One tape serves the conversations of a kernel, one turn after the other."""
    await take(path, "Count the rows.", "And the columns?")
    tape = player(path)
    one, two = Talk(tape), Talk(tape)
    assert await one.ask("Count the rows.") == await two.ask("Count the rows.") == "344 rows."
    assert await one.ask("And the columns?") == "8 columns."


async def test_a_shortened_history(path: Path) -> None:
    """A conversation that was reset starts anew."""
    await take(path, "Count the rows.")
    again = replaying(path)
    await again.ask("Count the rows.")
    again.history.clear()
    assert await again.ask("Count the rows.") == "344 rows."


async def test_the_same_task_from_the_same_state(path: Path) -> None:
    """Two fresh conversations with the same task are two recordings, served in their order."""
    tape, script = recorder(path), Scripted([("Go.", [{"text": x}]) for x in ("one", "two")])
    assert [await Talk(tape, script).ask("Go.") for _ in range(2)] == ["one", "two"]
    again = player(path)
    assert [await Talk(again).ask("Go.") for _ in range(3)] == ["one", "two", "two"]
    tape, script = recorder(path), Scripted([("Go.", [{"text": x}]) for x in ("uno", "due")])
    for _ in range(2):
        await Talk(tape, script).ask("Go.")
    assert [turn.steps[0].reply.message.text for turn in load(path).turns] == ["uno", "due"]


async def test_odd_names_of_tools(path: Path) -> None:
    """A name with a lone surrogate is a conversation like any other."""
    script = [("Go.", [{"calls": [{"name": "look\ud800"}]}, {"text": "Done."}])]
    await recorded(path, script, ["Go."])
    assert await replaying(path).ask("Go.") == "Done."


async def test_calls_that_cannot_run(path: Path) -> None:
    """A call of no tool, and one with broken arguments, are recorded as what the model read."""
    calls = [{"name": "lok"}, {"name": "look", "arguments": "{broken"}, {"name": "look"}]
    script = [("Go.", [{"calls": calls}, {"text": "Done."}])]
    await recorded(path, script, ["Go."], results=["3"])
    (step, _) = load(path).turns[0].steps
    assert [result.call for result in step.results] == [0, 1, 2]
    assert await replaying(path, results=["3"]).ask("Go.") == "Done."
    await mismatch(path, "Go.", ["4"])


async def test_a_failed_try(path: Path) -> None:
    """A model call that failed at first is shown again, though the replay waits for nothing."""
    await Talk(recorder(path), _Failing(ProviderError("busy", retryable=True))).ask("Go on.")
    again = replaying(path)
    assert await again.ask("Go on.") == "First."
    assert [event.reason for event in again.events if isinstance(event, Retrying)] == ["busy"]


async def test_a_conversation_that_was_too_long(path: Path) -> None:
    """Where a model refused the conversation, the replay's is shortened at the same place."""
    calls = [{"calls": [{"name": "look", "arguments": {"n": n}}]} for n in range(12)]
    script = [("Go.", [*calls, {"text": "Done."}])]
    results = [f"{n} " + "x" * 9000 for n in range(12)]
    model = _Failing(ContextOverflow("too long"), script, after=12)
    live = Talk(recorder(path), model, results)
    assert await live.ask("Go.") == "Done."
    assert load(path).turns[0].steps[-1].overflow
    again = replaying(path, results=results)
    assert await again.ask("Go.") == "Done."
    assert again.history == live.history
    assert [event for event in again.events if isinstance(event, Compacted)]


async def test_a_summary(path: Path) -> None:
    """A model's summary and a failed one are recorded, and given where they were written."""
    tape, history = recorder(path), (user("Go."),)
    asked = ModelAsked(Request("s", history, purpose="summary"))
    answers = [
        MessageFinished(Message("assistant", (Text(text),)), Usage(), "end") for text in ("a", "b")
    ]
    tape.begin(history)
    tape.record(ShorteningDue(), True)
    tape.record(asked, answers[0])
    tape.record(ModelAsked(Request("s", history)), answers[1])
    tape.commit()
    replay = player(path)
    replay.begin(history)
    assert replay.lookup(ShorteningDue()) is True
    assert replay.lookup(asked) == answers[0]
    with pytest.raises(ProviderError, match="no summary was recorded"):
        replay.lookup(asked)
    assert replay.lookup(ModelAsked(Request("s", history))) == answers[1]
    failing = recorder(path)
    failing.begin(history)
    failing.failed(asked.request, ProviderError("busy"), False)
    failing.record(ModelAsked(Request("s", history)), answers[1])
    failing.commit()
    replay = player(path)
    replay.begin(history)
    with pytest.raises(ProviderError, match="busy"):
        replay.lookup(asked)


async def test_calls_by_running_code(path: Path) -> None:
    """What running code calls is recorded with its step, and checked in any order."""

    def tool_for(tape: Tape, reads: list[tuple[str, str]], said: list[str]) -> Tool:
        async def call(**arguments: Any) -> str:
            for number, (name, text) in enumerate(reads):
                arguments_text = json.dumps({"name": name})
                spec = ToolSpec("far__read", "", {"type": "object"})
                model = any_arguments(spec.parameters)
                inner = Tool(spec, call, model, "executes")
                prepared = Prepared(
                    ToolCall(f"n{number}", "far__read", arguments_text),
                    inner,
                    model.model_validate_json(arguments_text),
                )
                result = carry_out_now(
                    prepared, tape, lambda _, text=text: ToolResult("n", (Text(text),))
                )
                said.append(result.text)
            return "done"

        spec = ToolSpec("run", "", {"type": "object"})
        return Tool(spec, call, any_arguments(spec.parameters), "executes")

    script: Script = (("Go.", [{"calls": [{"name": "run"}]}, {"text": "Done."}]),)
    tape, said = recorder(path), list[str]()
    tool = tool_for(tape, [("a", "1"), ("b", "2"), ("a", "3")], said)
    await Talk(tape, Scripted(script), tools=[tool]).ask("Go.")
    assert [result.call for result in load(path).turns[0].steps[0].results] == [-1, -1, -1, 0]
    again, heard = player(path), list[str]()
    tool = tool_for(again, [("b", "x"), ("a", "x"), ("a", "x"), ("a", "live")], heard)
    assert await Talk(again, tools=[tool]).ask("Go.") == "Done."
    assert heard == ["2", "1", "3", "live"]


class _Failing(Scripted):
    """Fails at one call."""

    def __init__(self, error: ProviderError, script: Script = SCRIPT, after: int = 0) -> None:
        super().__init__(script)
        self._error = error
        self._left = after

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        self._left -= 1
        if self._left == -1:
            raise self._error
        async for part in super().stream(request):
            yield part


async def test_a_provider_that_fails(path: Path) -> None:
    """Its error passes through the recorder."""
    with pytest.raises(ProviderError, match="no turn for the task"):
        await recorded(path, [], ["What?"])


@pytest.mark.deep
async def test_long_conversations_stay_fast(path: Path) -> None:
    """Each message is looked at once: a thousand steps take no quadratic time."""
    replies: list[Any] = [{"calls": [{"name": "look", "arguments": {"n": n}}]} for n in range(1000)]
    script = [("Go.", [*replies, {"text": "Done."}])]
    results = [f"{n} " + "x" * 2000 for n in range(1000)]
    async with asyncio.timeout(60):
        await recorded(path, script, ["Go."], results=results)
        assert await replaying(path, results=results).ask("Go.") == "Done."


# ---- what counts ---------------------------------------------------------------------------------


async def test_context_and_system_prompt_do_not_count(path: Path) -> None:
    """What the session adds and the system prompt may change between versions; it is told once."""
    await take(path, "Count the rows.", "And the columns?")
    again = replaying(path)
    assert await again.ask("Count the rows.", "<context>x = 1</context>", "new") == "344 rows."
    (notice,) = again.tape.notices()
    assert "the system prompt is not what the model was told" in notice
    assert await again.ask("And the columns?", "<context>y</context>", "newer") == "8 columns."
    assert again.tape.notices() == []


async def test_blanks_around_a_task_do_not_count(path: Path) -> None:
    """Blanks at the ends of a task are not meant."""
    await take(path, "Count the rows.")
    assert await replaying(path).ask("\n Count the rows.  \n") == "344 rows."


SAME = [
    ("<a.B object at 0x7f3d561bf430>", "<a.B object at 0x55d0a1b2c3d4>"),
    ("saved to /" + "tmp/x1/a.csv", "saved to /private/" + "tmp/x1/a.csv"),
    ("'/" + "private/tmp/a'", "'/" + "var/folders/zz/y/T/a'"),
    (
        "/" + "home/ann/env/lib/python3.11/site-packages/pandas/core.py",
        "/" + "opt/lib/python3.12/site-packages/pandas/core.py",
    ),
    (f"key {KEY}", f"key {KEY.replace('1', '2')}"),
    (
        '<stored_data source="m">\n  saved_by: agent, a b.ipynb, session default, m',
        '<stored_data source="m">\n  saved_by: agent, session default, m',
    ),
    (
        "<stored_data source=\"m\">\n  last_updated: '2026-01-02'",
        "<stored_data source=\"m\">\n  last_updated: '2027-01-02'",
    ),
    (
        '<skill_content name="plots">\nOld words.\n</skill_content>',
        '<skill_content name="plots">\nBetter words.\n</skill_content>',
    ),
    ("got {'a', 'b'}", "got {'b', 'a'}"),
]
DIFFERENT = [
    ("344 rows", "345 rows"),
    ("mean 5,076.0", "mean 5,076.1"),
    ("2026-01-02", "2026-01-03"),
    ("version 1.2.3", "version 1.2.4"),
    ("0x10", "0x11"),
    ("0x7f3d561bf430", "0x55d0a1b2c3d4"),
    ("columns: a, b", "columns: a, c"),
    ("/" + "home/ann/a.csv", "/" + "home/ann/b.csv"),
    ("/" + "home/ann/data/a.csv", "/" + "Users/bob/data/a.csv"),
    ("5 sheep", "6 sheep"),
    ("12 m", "13 m"),
    ("a b", "a  b"),
    ("a\n\nb", "a\nb"),
    ("a  \nb\n", "a\nb"),
    # Compared without their times and durations before format 2.
    ("run 123e4567-e89b-12d3-a456-426614174000", "run 00000000-1111-2222-3333-444444444444"),
    ("written 2026-01-02T03:04:05.678Z", "written 2027-11-12T13:14:15Z"),
    ("written 2026-01-02 03:04:05+01:00", "written 2026-01-02 03:04:06+01:00"),
    ("at 03:04:05", "at 13:14:15.123"),
    ("saved to /" + "tmp/x1/a.csv", "saved to /" + "tmp/tmpabc/a.csv"),
    ("done in 0.12s", "done in 3.4s"),
    ("mean trip 23 min", "mean trip 31 min"),
    ("12.3 ms ± 45 µs per loop", "9 ms ± 1.2 ms per loop"),
    ("Wall time: 3.2 s", "Wall time: 981 ms"),
    ("CPU times: user 1min 2s, sys: 3 ms", "CPU times: user 2min 4s, sys: 40 ms"),
    ("took 3 seconds", "took 14.5 seconds"),
]


@pytest.mark.parametrize(("then", "now"), SAME)
async def test_what_differs_from_machine_to_machine(path: Path, then: str, now: str) -> None:
    """Addresses, paths of the machine, secrets and the package's own words may change."""
    await take(path, "Count the rows.", results=[then, "3"])
    assert await replaying(path, results=[now, "3"]).ask("Count the rows.") == "344 rows."


@pytest.mark.parametrize(("then", "now"), DIFFERENT)
async def test_all_else_counts(path: Path, then: str, now: str) -> None:
    """A result that says something else is another conversation, also with a time in it."""
    await take(path, "Count the rows.", results=[then, "3"])
    assert "Step 2 went another way than recorded" in await mismatch(path, "Count the rows.", [now])


async def test_an_error_is_another_result(path: Path) -> None:
    """The same words as an error and as a result differ."""
    await take(path, "Count the rows.", results=["a", "b"])
    await mismatch(path, "Count the rows.", ["!a", "b"])


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
    ("Is it ⟨5⟩?", "Is it ⟨6⟩?"),
    ("Is {'a', 'b'} a set?", "Is {'b', 'a'} a set?"),
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
    await recorded(path, script[:1], [then])
    assert "No reply in analysis.cassette.jsonl" in await mismatch(path, now)
    await recorded(path, script[1:], [now])
    assert len(load(path).turns) == 2
    assert [await replaying(path).ask(task) for task in (then, now)] == ["Then.", "Now."]


@pytest.mark.parametrize(("then", "now"), SAME_WORDS)
async def test_secrets_and_machines_are_no_part_of_a_task(path: Path, then: str, now: str) -> None:
    """Temporary folders, memory addresses and secrets do not count."""
    await recorded(path, [(then, [{"text": "Done."}])], [then])
    assert await replaying(path).ask(now) == "Done."


async def test_the_home_of_whoever_replays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file below one's own home is the same for everybody; other such paths are data."""
    script: list[tuple[str, list[Any]]] = [("Read /home/ann/a.csv", [{"text": "Done."}])]
    monkeypatch.setenv("HOME", "/home/ann")
    await recorded(path, script, ["Read /home/ann/a.csv"])
    monkeypatch.setenv("HOME", "/Users/bob")
    assert await replaying(path).ask("Read /Users/bob/a.csv") == "Done."
    await mismatch(path, "Read /Users/eve/a.csv")


async def test_the_workspace_may_lie_anywhere(tmp_path: Path) -> None:
    """A path inside of the workspace is the same in another folder; its name is not."""
    path = tmp_path / "a.cassette.jsonl"
    here, there = (Workspace(tmp_path / name) for name in ("here", "there"))
    task = "Read {}/data/a.csv, then {}."
    typed, moved = (task.format(place.root, place.root) for place in (here, there))
    await recorded(path, [(typed, [{"text": "Read."}])], [typed], here)
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert await replaying(path, there).ask(moved) == "Read."
    for other in (moved.replace("a.csv", "b.csv"), moved.replace("there", "there2")):
        with pytest.raises(ReplayMismatch):
            await replaying(path, there).ask(other)
    covered = coverage([Task(moved), Task(typed)], load(path), there.root)
    assert covered.missing == (1,)


def test_where_the_turn_starts() -> None:
    """At the last message that a person typed; notes of the session and results do not count."""
    result = Message("user", (ToolResult("c", (Text("a"),)),))
    note = Message("user", (Context("The step limit is reached."),))
    messages = [user("a"), Message("assistant", (Text("b"),)), user("c"), result, note]
    assert task_index(messages) == 2
    with pytest.raises(ValueError, match="no task"):
        task_index([note])


# ---- any character -------------------------------------------------------------------------------

WORDS = st.text("abc 0123456789.,:;-+()[]{}'\"\\⟨⟩<>/%=±µé\n", min_size=1, max_size=40)
TYPED = ["Only the trips longer than 30 min, please."]
RUNS = (
    "mean trip 23 min on 2026-01-02, took 3.2 s\n{'a': 1} of 12 (5 %)\n  x   y\n0  1.5  2",
    "mean trip 23 min on 2026-01-02, took 4.1 s\n{'a': 1} of 12 (5 %)\n  x   y\n0  1.5  2",
)
CONVERSATION: Script = (("Count the trips over 30 min.", [LOOK, LOOK, {"text": "12."}]),)


async def learned(folder: Path) -> Path:
    """A turn with a typed line and a result, recorded in two runs that differ in a duration."""
    path, again = folder / "a.cassette.jsonl", folder / "again.cassette.jsonl"
    await recorded(
        path, CONVERSATION, [CONVERSATION[0][0]], results=[RUNS[0], "3"], user=typing(TYPED[0])
    )
    rerun = Rerun(load(path), path.name, recorder(again), None)
    await Talk(rerun, results=[RUNS[1], "3"], user=typing("ignored")).ask(CONVERSATION[0][0])
    save(learn_cassette(load(path), load(again)).cassette, path)
    return path


def typing(line: str) -> Watcher:
    return Watcher(lines=[[line]])


def is_missed(path: Path, task: str, result: str) -> bool:
    async def replay() -> None:
        await replaying(path, results=[result, "3"]).ask(task)

    try:
        asyncio.run(replay())
    except ReplayMismatch:
        return True
    return False


def changed(text: str, data: st.DataObject, at: int | None = None) -> str:
    """The text with one character replaced, taken away or put in."""
    place = data.draw(st.integers(0, len(text) - 1)) if at is None else at
    put = data.draw(st.sampled_from(["", "5", "x", " ", ".", "{", "⟨", "\\"]))
    keep = data.draw(st.booleans())
    return text[:place] + put + text[place + (not keep) :]


@pytest.fixture(scope="module")
def learned_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(learned(tmp_path_factory.mktemp("learned")))


@given(st.data())
@settings(max_examples=examples(500))
def test_any_character_of_a_task(learned_path: Path, data: st.DataObject) -> None:
    """Change any character of the task, and the replay misses."""
    task = CONVERSATION[0][0]
    other = changed(task, data)
    assume(other.strip() and other.strip() != task)
    assert not is_missed(learned_path, task, RUNS[1])
    assert is_missed(learned_path, other, RUNS[1])


@given(st.data())
@settings(max_examples=examples(1000))
def test_any_character_of_a_result(learned_path: Path, data: st.DataObject) -> None:
    """Change any visible character of a result that is not marked, and the replay misses."""
    text = load(learned_path).turns[0].steps[0].results[0].text
    assert [each for each, varies in parse(text) if varies] == ["3.2 s"]
    start = RUNS[0].index("3.2 s")
    places = [n for n in range(len(RUNS[0])) if not start - 1 <= n < start + 5]
    other = changed(RUNS[0], data, data.draw(st.sampled_from(places)))
    # How many blanks align the columns is not compared where a number varies.
    assume([line.split() for line in other.split("\n")] != [x.split() for x in RUNS[0].split("\n")])
    assert is_missed(learned_path, CONVERSATION[0][0], other)


@given(WORDS, st.data())
@settings(max_examples=examples(500))
def test_any_character_of_any_result(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    """Of a result without marks each character counts, and each blank."""
    path = tmp_path_factory.mktemp("any") / "a.cassette.jsonl"
    asyncio.run(take(path, "Count the rows.", results=[text, "3"]))
    assert not is_missed(path, "Count the rows.", text)
    other = changed(text, data)
    assume(other != text)
    assert is_missed(path, "Count the rows.", other)


async def test_what_varies_is_shown_as_recorded(learned_path: Path) -> None:
    """Another duration than in both runs is no miss, and the model reads the recorded one."""
    talk = replaying(learned_path, results=[RUNS[0].replace("3.2 s", "981 ms"), "3"])
    assert await talk.ask(CONVERSATION[0][0]) == "12."
    (read,) = talk.history[2].tool_results
    assert read.text == RUNS[0]


async def test_a_typed_line_that_was_changed(path: Path) -> None:
    """A replay types what was recorded, whatever the user types meanwhile."""
    await take(path, "Count the rows.", user=typing(TYPED[0]))
    again = replaying(path, user=typing("something else"))
    assert await again.ask("Count the rows.") == "344 rows."
    assert [event.text for event in again.events if isinstance(event, Steered)] == TYPED


@given(st.data())
@settings(max_examples=examples(200))
def test_any_character_of_a_typed_line(data: st.DataObject) -> None:
    """A conversation with another typed line is another conversation."""
    other = changed(TYPED[0], data)
    assume(other.strip() != TYPED[0])
    one, two = (
        Digests().conversation([user("a"), Message("user", (Said(text),))])
        for text in (TYPED[0], other)
    )
    assert one != two


# ---- the user ------------------------------------------------------------------------------------

ASKING: Script = (("Wipe it.", [WIPE, {"text": "Done."}]),)


async def test_a_question_is_answered_as_it_was(path: Path) -> None:
    """A recorded yes lets the call run, a recorded no refuses it with the same words."""
    for answer, ran in (("yes", 1), ("no", 0)):
        live = await recorded(path, ASKING, ["Wipe it."], user=Watcher([answer]))
        again = replaying(path)
        assert await again.ask("Wipe it.") == "Done."
        assert (len(live.ran), len(again.ran)) == (ran, ran)
        assert again.history == live.history
        assert again.user.asked == []
        assert [event for event in again.events if isinstance(event, ApprovalAsked)]


async def test_a_question_that_was_not_asked(path: Path) -> None:
    """Where nothing was recorded, nobody says yes."""
    script = [("Look.", [LOOK, {"text": "Done."}])]
    await recorded(path, script, ["Look."])
    (turn,) = load(path).turns
    assert turn.steps[0].decisions == ()


@pytest.mark.parametrize(("steps", "task"), [(9, "Go on."), (1, "Count the rows.")])
async def test_lines_that_came_too_late(path: Path, steps: int, task: str) -> None:
    """What was typed after the last reply is recorded with it, and typed again, once."""
    script = [("Go on.", [{"text": "First."}]), ("Count the rows.", [LOOK, {"text": "So far."}])]
    user = Watcher(lines=[[], ["Too late."]])
    live = Talk(recorder(path), Scripted(script), user=user, max_steps=steps)
    said = await live.ask(task)
    (turn,) = load(path).turns
    assert turn.steps[-1].said_after == ("Too late.",)
    again = replaying(path, max_steps=steps)
    assert await again.ask(task) == said
    assert again.history == live.history


# ---- what a miss says ----------------------------------------------------------------------------


async def test_a_changed_result(path: Path) -> None:
    """The message names the step and shows the words around the first difference."""
    then = "the table has three hundred and 344 rows and 8 columns in all of it"
    await take(path, "Count the rows.", results=["1", then])
    now = then.replace("344", "345")
    message = await mismatch(path, "Count the rows.", ["1", now])
    assert message.startswith(
        "Step 3 went another way than recorded: in the result, recorded 'three hundred and 344 "
        "rows and 8 columns in', now 'three hundred and 345 rows and 8 columns in'."
    )
    assert "recorded in a single run" in message and "--prove" in message


async def test_a_changed_result_of_another_form(path: Path) -> None:
    """Where no second run could learn the difference, none is advised."""
    await take(path, "Count the rows.", results=["a b"])
    message = await mismatch(path, "Count the rows.", ["a b c"])
    assert "--prove" not in message


async def test_a_changed_result_far_inside(path: Path) -> None:
    """In a long result the first difference is shown, not the start."""
    then = " ".join(f"w{n}" for n in range(5000))
    await take(path, "Count the rows.", results=[then])
    message = await mismatch(path, "Count the rows.", [then.replace("w4000 ", "other ")])
    assert "'w3997 w3998 w3999 w4000" in message
    assert "now 'w3997 w3998 w3999 other" in message
    assert len(message) < 500


async def test_a_result_that_differs_in_blanks_only(path: Path) -> None:
    """Where the words are the same, the message says that only blanks differ."""
    await take(path, "Count the rows.", results=["a b"])
    message = await mismatch(path, "Count the rows.", ["a  b"])
    assert "where only white space differs" in message


async def test_a_result_that_became_longer(path: Path) -> None:
    """What came after the recorded end is shown."""
    await take(path, "Count the rows.", results=["one two"])
    message = await mismatch(path, "Count the rows.", ["one two three"])
    assert "recorded 'one two', now 'one two three'" in message


async def test_which_of_several_results(path: Path) -> None:
    """Of several results of a step the message names the one that differs."""
    calls = [{"name": "look", "arguments": {"n": n}} for n in range(3)]
    script = [("Go.", [{"calls": calls}, {"text": "Done."}])]
    await recorded(path, script, ["Go."], results=["a", "b", "c"])
    assert "in result 2 of 3" in await mismatch(path, "Go.", ["a", "x", "c"])


async def test_more_steps_than_recorded(path: Path) -> None:
    """A turn that goes on where the recording ended says so."""
    await take(path, "Go on.")
    tape = player(path)
    history = [user("Go on.")]
    tape.begin(history)
    model = RecordedModel(tape)
    assert [part async for part in model.stream(Request("s", tuple(history)))]
    history.append(Message("assistant", (Text("First."),)))
    with pytest.raises(ReplayMismatch, match="has 1 replies for this task, not 2"):
        [part async for part in model.stream(Request("s", tuple(history)))]


async def test_an_unknown_task(path: Path) -> None:
    """The nearest recorded task is shown."""
    await take(path, "Count the rows.", "And the columns?")
    message = await mismatch(path, "Count the rows, please.")
    assert "Count the rows." in message
    assert "analysis.cassette.jsonl" in message


async def test_a_task_like_no_other(path: Path) -> None:
    """Where nothing is near, nothing is suggested."""
    await take(path, "Count the rows.")
    assert "Count" not in await mismatch(path, "zzz")


async def test_a_miss_keeps_secrets(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in a result is in no error message."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2hunter2")
    await take(path, "Count the rows.", results=["a b c"])
    message = await mismatch(path, "Count the rows.", [f"a {KEY} hunter2hunter2"])
    assert KEY not in message
    assert "hunter2" not in message


async def test_secrets_in_a_conversation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds none of them, and yet the notebook replays."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2hunter2")
    call = {"name": "look", "arguments": {"key": KEY, "password": "hunter2hunter2"}}
    script = [(f"Log in with {KEY}.", [{"text": KEY, "calls": [call]}, {"text": "In."}])]
    results = [f"hello hunter2hunter2 {KEY}"]
    await recorded(path, script, [f"Log in with {KEY}."], results=results)
    text = path.read_text(encoding="utf-8")
    assert KEY not in text
    assert "hunter2" not in text
    again = replaying(path, results=results)
    assert await again.ask(f"Log in with {KEY}.") == "In."


async def test_turns_hold_what_was_asked(path: Path) -> None:
    """The file shows a reader the task and the results, as they were."""
    await take(path, "Count the rows.", results=["at 10:11:12", "4"])
    (turn,) = load(path).turns
    assert turn.task == "Count the rows."
    assert [[result.text for result in step.results] for step in turn.steps] == [
        ["at 10:11:12"],
        ["4"],
        [],
    ]


# ---- tools of servers ----------------------------------------------------------------------------


async def test_the_tools_of_servers_that_are_gone(path: Path) -> None:
    """What they counted for is known, and all of them where the model called one that is none."""
    calls = [{"name": "far__a"}, {"name": "far__c"}]
    replies = [*({"text": "", "calls": [call]} for call in calls), {"text": "Done."}]
    names = ["look", "far__a", "far__b"]
    live = await recorded(path, [("Go.", replies)], ["Go."], names=names)
    (turn,) = load(path).turns
    assert [set(step.schemas) for step in turn.steps] == [{"far__a"}, {"far__a", "far__b"}, set()]
    specs = [ToolSpec(name, "", {"type": "object"}) for name in names]
    request = Request("s", tuple(live.history), tuple(specs))
    alone = Request("s", request.messages, tuple(specs[:1]))
    counter = TokenCounter()
    counter.recorded = player(path).fixed_tokens
    assert counter.request(alone) == TokenCounter().request(request)
    assert counter.request(alone) > TokenCounter().request(alone)


# ---- cached: replayed as far as it was recorded, asked from there on, recorded as a whole --------

SEE = {"text": "I look.", "calls": [{"name": "look", "arguments": {}}]}
COUNT: tuple[str, list[Any]] = ("Count.", [SEE, {"text": "3."}])


def of(talk: Talk) -> Cached:
    assert isinstance(talk.tape, Cached)
    return talk.tape


async def test_nothing_is_asked_twice(path: Path) -> None:
    """A second conversation is answered without a model, and the file stays as it is."""
    first = await cached(path, COUNT, results=["3 rows"]).ask("Count.")
    before = path.read_bytes()
    again = cached(path, results=["3 rows"])
    assert await again.ask("Count.") == first == "3."
    assert not of(again).is_asking
    assert again.model.source == "scripted"
    assert path.read_bytes() == before


async def test_a_turn_that_goes_another_way(path: Path) -> None:
    """The model is asked from the first difference on, and the turn is replaced as a whole."""
    await cached(path, COUNT, results=["3 rows"]).ask("Count.")
    other = Talk(Cached(path, recorder(path)), _Answers("4."), ["4 rows"])
    assert await other.ask("Count.") == "4."
    assert of(other).replayed.total_tokens == 0
    cassette = load(path)
    assert [len(turn.steps) for turn in cassette.turns] == [2]
    assert await cached(path, results=["4 rows"]).ask("Count.") == "4."


class _Answers(Scripted):
    """Gives one answer, whatever was said."""

    def __init__(self, text: str) -> None:
        super().__init__([])
        self._text = text

    async def stream(self, request: Request) -> Any:
        script = Scripted([(request.messages[0].text, [{"text": self._text}])])
        async for part in script.stream(Request("s", request.messages[:1])):
            yield part


async def test_a_new_turn_after_replayed_ones(path: Path) -> None:
    """What is new is added, what was there stays."""
    await cached(path, ("Count.", [{"text": "3."}])).ask("Count.")
    talk = cached(path, ("Go on.", [{"text": "More."}]))
    assert await talk.ask("Count.") == "3."
    assert await talk.ask("Go on.") == "More."
    assert of(talk).is_asking
    assert [turn.task for turn in load(path).turns] == ["Count.", "Go on."]
    again = cached(path)
    assert [await again.ask("Count."), await again.ask("Go on.")] == ["3.", "More."]


async def test_a_turn_that_fails_is_not_recorded(path: Path) -> None:
    """Nothing is written before the turn is done."""
    await cached(path, ("Count.", [{"text": "3."}])).ask("Count.")
    before = path.read_bytes()
    talk = cached(path)
    await talk.ask("Count.")
    with pytest.raises(ProviderError, match="no turn for the task"):
        await talk.ask("Something else.")
    assert path.read_bytes() == before


async def test_a_cassette_that_is_damaged_meanwhile(path: Path) -> None:
    """It is told when the next turn begins; nobody is asked, nothing is overwritten."""
    talk = cached(path, ("Count.", [{"text": "3."}]), ("Go on.", [{"text": "More."}]))
    await talk.ask("Count.")
    path.write_text("no cassette")
    with pytest.raises(ConfigError, match="no cassette"):
        await talk.ask("Go on.")
    assert path.read_text() == "no cassette"


async def test_a_cached_turn_with_marks(learned_path: Path, tmp_path: Path) -> None:
    """What varies is no miss for it, and keeps its marks where the turn goes on otherwise."""
    path = tmp_path / "a.cassette.jsonl"
    path.write_bytes(learned_path.read_bytes())
    talk = cached(path, results=[RUNS[0].replace("3.2 s", "981 ms"), "3"])
    assert await talk.ask(CONVERSATION[0][0]) == "12."
    assert not of(talk).is_asking
    other = Talk(
        Cached(path, recorder(path)), _Answers("Other."), [RUNS[0].replace("3.2", "9"), "4"]
    )
    assert await other.ask(CONVERSATION[0][0]) == "Other."
    (turn,) = load(path).turns
    assert "⟨3.2 s⟩" in turn.steps[0].results[0].text
    assert turn.steps[1].results[0].text == "4"
    assert turn.steps[1].said == tuple(TYPED)
    assert json.loads(path.read_text().splitlines()[0])["source"] == "scripted"
