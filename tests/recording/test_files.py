"""What a replay says of files that are there already: what the recording said."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tape_talk import Talk, recorder

from jupyter_agent.core.events import FileChange, MessageFinished, ToolFinished
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolSpec, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.core.redact import redact
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.errors import ReplayMismatch, ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.cassette import (
    Cassette,
    FileState,
    GivenResult,
    RecordedResult,
    RecordedStep,
    RecordedTurn,
    load,
    save,
)
from jupyter_agent.recording.files import RecordedFiles, digest
from jupyter_agent.recording.player import Player, Rerun
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.results import call_key
from jupyter_agent.recording.tape import CallMade, ModelAsked, Tape
from jupyter_agent.recording.wrappers import RecordedModel, served_tools
from jupyter_agent.tools.describing import FileSight
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.search import search_tools
from jupyter_agent.tools.toolbox import Toolbox

Calls = list[tuple[str, dict[str, Any]]]
READ_A = ("read_file", {"path": "a.py"})
WRITE_A = ("write_file", {"path": "a.py", "content": "x = 1\n"})
WRITE = ("write_file", {"path": "a.txt", "content": "1\n"})


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": "a.py", "old_str": old, "new_str": new}


class Desk:
    """The file tools of a workspace: one turn that calls them is recorded, and replayed later."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.workspace = Workspace(self.root)
        self.path = folder / "a.cassette.jsonl"
        tools = [*file_tools(self.workspace), *search_tools(self.workspace)]
        self.tools = list({tool.name: tool for tool in tools}.values())
        self.is_missed = False

    async def turn(self, tape: Tape, calls: Calls, task: str = "Go.") -> list[str]:
        """The results of a turn's calls, also if it ends with a miss."""
        named = [{"name": name, "arguments": values} for name, values in calls]
        script = Scripted([(task, [{"calls": named}, {"text": "Done."}])]) if calls else None
        talk = Talk(tape, script, names=(), tools=self.tools)
        self.is_missed = False
        try:
            await talk.ask(task)
        except ReplayMismatch:
            self.is_missed = True
        return [result.text for message in talk.history for result in message.tool_results]

    async def record(self, *calls: tuple[str, dict[str, Any]], task: str = "Go.") -> list[str]:
        return await self.turn(recorder(self.path, self.workspace), [*calls], task)

    async def replay(self, task: str = "Go.") -> list[str]:
        return await self.turn(self.player(), [], task)

    def player(self) -> Player:
        return Player(load(self.path), self.path.name, self.workspace)

    def left(self, *states: FileState) -> RecordedFiles:
        """The files of a recorded turn, from an execution before this moment."""
        time.sleep(0.05)  # the clock of file systems is coarse
        return files_of(self.workspace, *states, since=time.time_ns())


def files_of(workspace: Workspace, *states: FileState, since: int = 0) -> RecordedFiles:
    step = RecordedStep(MessageFinished(Message("assistant", ()), Usage(), "end"))
    cassette = Cassette("p", "m", "recorded", (RecordedTurn("Go.", steps=(step,), files=states),))
    kept = RecordedFiles(cassette, workspace, since)
    kept.states = states
    return kept


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_live_turn_is_told_as_it_is(desk: Desk) -> None:
    """Without a cassette nothing is remembered and nothing is made up."""
    (first,) = await desk.turn(Tape(), [WRITE])
    (second,) = await desk.turn(Tape(), [WRITE])
    assert first.startswith("Created") and "unchanged" in second


async def test_a_file_that_is_there_already(desk: Desk) -> None:
    """A replay says `Created` as the recording did, and writes what it has to."""
    said = await desk.record(WRITE)
    assert said[0].startswith("Created")
    assert await desk.replay() == said
    (desk.root / "a.txt").write_text("2\n")
    assert await desk.replay() == said
    assert (desk.root / "a.txt").read_text() == "1\n"
    (desk.root / "a.txt").unlink()
    assert await desk.replay() == said
    assert (desk.root / "a.txt").read_text() == "1\n"


async def test_an_edit_that_is_in_place(desk: Desk) -> None:
    """An edited file is read and edited again as if it were the old one, and stays as it is."""
    (desk.root / "a.py").write_text("x = 1\ny = 1\n")
    said = await desk.record(READ_A, edit("x = 1", "x = 2"), edit("y = 1", "y = 2"))
    left = (desk.root / "a.py").read_bytes()
    assert await desk.replay() == said
    assert not desk.is_missed
    assert (desk.root / "a.py").read_bytes() == left


async def test_an_edit_that_is_not_in_place_is_made(desk: Desk) -> None:
    """Where the file is as it was before, the tool does its work."""
    (desk.root / "a.py").write_text("x = 1\n")
    said = await desk.record(edit("x = 1", "x = 2"))
    (desk.root / "a.py").write_text("x = 1\n")
    assert await desk.replay() == said and said[0].startswith("Changed")
    assert (desk.root / "a.py").read_text() == "x = 2\n"


async def test_a_file_of_the_persons(desk: Desk) -> None:
    """Where the file is neither, an edit that does not fit is an error and a miss."""
    (desk.root / "a.py").write_text("x = 1\n")
    await desk.record(edit("x = 1", "x = 2"), READ_A)
    (desk.root / "a.py").write_text("x = 3\n")
    edited, read = await desk.replay()
    assert "does not occur" in edited and read.endswith("x = 3")
    assert desk.is_missed
    assert (desk.root / "a.py").read_text() == "x = 3\n"


async def test_a_described_file_is_told_as_it_was(desk: Desk) -> None:
    """While a file is what it was, a replay gives its recorded description, whatever libraries and
    settings there are; of another file it tells what that holds."""
    (desk.root / "a.csv").write_text("n\n1\n2\n")
    said = await desk.record(("describe_file", {"path": "a.csv"}))
    assert "n: integer, 1 to 2" in said[0]
    desk.tools = file_tools(desk.workspace, described=lambda: FileSight(False, why="of settings"))
    assert await desk.replay() == said and not desk.is_missed
    (desk.root / "a.csv").write_text("n\n1\nx\n")
    (now,) = await desk.replay()
    assert "n: integer (but 1 text)" in now and desk.is_missed


def test_what_is_outside_is_not_looked_at(desk: Desk) -> None:
    """A path that leads outside is no file of the workspace, whatever a cassette says."""
    call = ToolCall("c", "write_file", '{"path": "../x", "content": ""}')
    assert call_key(desk.workspace, call).path == ""
    kept = desk.left(FileState("../../etc/passwd", "created", 1, 0, "aaaa"))
    assert kept.files([], ()) == []
    assert kept.leftovers() == frozenset()


async def test_leftovers_are_not_listed_before_they_are_made(desk: Desk) -> None:
    """What an earlier execution left is hidden until the replay has made it, too."""
    await desk.record(WRITE)
    time.sleep(0.05)
    kept = RecordedFiles(load(desk.path), desk.workspace, time.time_ns())
    assert kept.leftovers() == {desk.root / "a.txt"}
    time.sleep(0.05)
    await desk.replay()
    assert kept.leftovers() == frozenset()


def test_a_file_that_is_made_meanwhile_is_no_leftover(desk: Desk) -> None:
    """Code that writes a file makes it new."""
    kept = files_of(desk.workspace, FileState("a.txt", "created", 1, 0, "aaaa"), since=1)
    (desk.root / "a.txt").write_text("1\n")
    assert kept.leftovers() == frozenset()


# ---- the receipt ---------------------------------------------------------------------------------

CREATED = FileChange("a.txt", "created", 2, 0)
CHANGED = FileChange("a.txt", "changed", 1, 1)


async def states_of(
    desk: Desk, changes: list[FileChange], rewritten: tuple[str, ...] = ()
) -> tuple[FileState, ...]:
    """The files of a turn as they are recorded."""
    tape = recorder(desk.path, desk.workspace)
    model = RecordedModel(tape, Scripted([("Go.", [{"text": "Done."}])]))
    request = Request("s", (Message("user", (Text("Go."),)),))
    tape.begin(request.messages)
    assert [part async for part in model.stream(request)]
    assert tape.files(tuple(changes), rewritten) == tuple(changes)
    tape.commit()
    return load(desk.path).turns[0].files


@pytest.mark.parametrize(
    ("then", "rewritten_then", "now", "rewritten_now", "told"),
    [
        ([CREATED], (), [CREATED], (), [CREATED]),
        ([CREATED], (), [CHANGED], (), [CREATED]),
        ([CREATED], (), [], (), [CREATED]),
        ([CREATED], (), [], ("a.txt",), [CREATED]),
        ([CHANGED], (), [CREATED], (), [CHANGED]),
        ([], ("a.txt",), [CREATED], (), []),
        ([], ("a.txt",), [], ("a.txt",), []),
        ([], (), [CREATED], (), [CREATED]),
    ],
)
async def test_the_receipt(
    desk: Desk,
    then: list[FileChange],
    rewritten_then: tuple[str, ...],
    now: list[FileChange],
    rewritten_now: tuple[str, ...],
    told: list[FileChange],
) -> None:
    """A file that ends up as it did in the recording is told as it was told then."""
    (desk.root / "a.txt").write_text("1\n2\n")
    kept = files_of(desk.workspace, *await states_of(desk, then, rewritten_then))
    assert kept.files(now, rewritten_now) == told


async def test_the_receipt_of_a_file_that_ended_up_otherwise(desk: Desk) -> None:
    """What the code no longer writes is not told; what it writes differently is."""
    (desk.root / "a.txt").write_text("1\n2\n")
    kept = files_of(desk.workspace, *await states_of(desk, [CREATED]))
    (desk.root / "a.txt").write_text("3\n")
    assert kept.files([], ()) == []
    three = FileChange("a.txt", "created", 1, 0)
    assert kept.files([three], ()) == [three]


def test_the_receipt_of_a_file_that_varies(desk: Desk) -> None:
    """A file with other content in each run is told as recorded, if this run wrote it."""
    kept = files_of(desk.workspace, FileState("a.txt", "created", 2, 0, "aaaa", varies=True))
    (desk.root / "a.txt").write_text("3\n")
    assert kept.files([FileChange("a.txt", "created", 1, 0)], ()) == [CREATED]
    assert kept.files([CHANGED], ()) == [CREATED]
    assert kept.files([], ("a.txt",)) == [CREATED]
    assert kept.files([], ()) == []


def test_the_receipt_of_a_deleted_file(desk: Desk) -> None:
    """A file that is gone was deleted, by this run or by an earlier one."""
    gone = FileState("a.txt", "deleted", 0, 2)
    assert files_of(desk.workspace, gone).files([], ()) == [FileChange("a.txt", "deleted", 0, 2)]
    (desk.root / "a.txt").write_text("1\n")
    assert files_of(desk.workspace, gone).files([], ()) == []


# ---- reads ---------------------------------------------------------------------------------------


async def test_a_file_that_a_later_turn_changed(desk: Desk) -> None:
    """What an earlier turn read and found is told as it was, though the file is changed now."""
    (desk.root / "a.py").write_text("doble = 1\n")
    (desk.root / "b.py").write_text("doble = 2\n")
    said = await desk.record(READ_A, ("search_files", {"pattern": "doble"}))
    (desk.root / "a.py").write_text("double = 1\n")
    await desk.record(("read_file", {"path": "b.py"}), task="Change it.")  # by the code of a turn
    cassette = load(desk.path)
    (first, second) = cassette.turns
    files = (FileState("a.py", "changed", 1, 1, digest(desk.workspace, "a.py")),)
    save(Cassette("p", "m", "scripted", (first, replace(second, files=files))), desk.path)
    assert await desk.replay() == said
    assert not desk.is_missed
    (desk.root / "b.py").write_text("double = 2\n")
    assert (await desk.replay())[1] != said[1]
    assert desk.is_missed


async def test_a_file_that_was_not_there_yet(desk: Desk) -> None:
    """A read and an edit that failed before the file was written fail again, in the same words."""
    then = await desk.record(READ_A, edit("1", "2"), WRITE_A, READ_A)
    assert "no file a.py" in then[0] and then[3].endswith("x = 1")
    assert await desk.replay() == then
    (desk.root / "a.py").unlink()
    assert await desk.replay() == then


async def test_a_file_that_is_read_before_and_after_an_edit(desk: Desk) -> None:
    """The same call twice in one reply: each is told what it found."""
    then = await desk.record(WRITE_A, READ_A, edit("1", "2"), READ_A)
    assert then[1] != then[3]
    assert await desk.replay() == then
    assert not desk.is_missed


async def test_a_secret_that_was_written(desk: Desk) -> None:
    """A replay knows the content without the secret, and does not put that in its place."""
    secret = f"token={'ghp_' + 'a1' * 15}\n"
    write = ("write_file", {"path": "a.env", "content": secret})
    change = ("edit_file", {"path": "a.env", "old_str": "token", "new_str": "TOKEN"})
    said = await desk.record(write, change)
    left = (desk.root / "a.env").read_text()
    assert await desk.replay() == said
    assert (desk.root / "a.env").read_text() == left == secret.replace("token", "TOKEN")


async def test_a_notebook_whose_outputs_were_saved(desk: Desk) -> None:
    """It is read as it was before it was executed; one with other cells is read as it is."""

    def save_notebook(source: str, *texts: str) -> None:
        cell = nbformat.v4.new_code_cell(source, id="one")
        cell.outputs = [nbformat.v4.new_output("stream", text=text) for text in texts]
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), desk.root / "a.ipynb")

    save_notebook("print(1)")
    then = await desk.record(("read_file", {"path": "a.ipynb"}))
    save_notebook("print(1)", "1")
    assert await desk.replay() == then
    save_notebook("print(2)", "2")
    assert "print(2)" in (await desk.replay())[0]
    assert desk.is_missed


def test_a_secret_that_is_still_there(desk: Desk) -> None:
    """Only arguments that come out of a cassette count as redacted; their digest is the same."""
    key = "sk-" + "ant-" + "Abc1" * 8
    live, kept = (
        call_key(
            desk.workspace,
            ToolCall("c", "write_file", f'{{"path": "a.txt", "content": "{text}"}}'),
        )
        for text in (key, redact(key))
    )
    assert (live.is_redacted, kept.is_redacted) == (False, True)
    assert live.arguments == kept.arguments


# ---- servers -------------------------------------------------------------------------------------


def far(name: str, asked: list[Any], fails: bool = False) -> Tool:
    async def call(**arguments: Any) -> str:
        asked.append(arguments)
        if fails:
            raise ToolError("no answer after 2 s")
        return f"longer than {arguments['than']}"

    schema: dict[str, Any] = {"type": "object"}
    return Tool(ToolSpec(name, "", schema), call, any_arguments(schema), "executes")


async def test_a_server_that_did_not_answer(desk: Desk) -> None:
    """Its failure is told again, and nobody is asked."""
    asked: list[Any] = []
    desk.tools = [far("far__add", asked, fails=True)]
    said = await desk.record(("far__add", {"a": 1}))
    assert said == ["no answer after 2 s"]
    assert await desk.replay() == said
    assert load(desk.path).turns[0].steps[0].results[0].is_error
    assert asked == [{"a": 1}]


async def test_a_server_that_is_gone(desk: Desk) -> None:
    """A replay has the tools that were called, gives their results, and asks no server."""
    asked: list[Any] = []
    desk.tools = [far("trips__count", asked)]
    said = await desk.record(("trips__count", {"than": "30 min"}))
    desk.tools = served_tools(desk.player())
    assert await desk.replay() == said == ["longer than 30 min"]
    assert asked == [{"than": "30 min"}]


@pytest.mark.parametrize(("then", "now"), [("30 min", "60 min"), ("2024-01-02", "2024-01-03")])
async def test_a_server_is_not_taken_for_having_said_more(then: str, now: str, desk: Desk) -> None:
    """What a server said to one question is no answer to another."""
    desk.tools = [far("trips__count", [])]
    await desk.record(("trips__count", {"than": then}))
    cassette = load(desk.path)
    (turn,) = cassette.turns
    call = ToolCall("c", "trips__count", f'{{"than": "{now}"}}')
    asked = MessageFinished(Message("assistant", (call,)), Usage(), "tool_use")
    other = RecordedStep(asked, results=turn.steps[0].results, schemas=turn.steps[0].schemas)
    edited = RecordedTurn(turn.task, steps=(other, turn.steps[1]))
    save(Cassette("p", "m", "scripted", (edited,)), desk.path)
    desk.tools = served_tools(desk.player())
    (said,) = await desk.replay()
    assert "not called like this" in said
    assert desk.is_missed


async def test_a_given_result_comes_back_whole(desk: Desk) -> None:
    """What model, user and log got of a server is given again."""
    result = ToolReturn(
        (Text("⟨5⟩ rows"),),
        (Output("display", {"text/html": "<b>5</b>"}),),
        {"results": ["a"], "characters": 5},
    )

    async def call(**arguments: Any) -> ToolReturn:
        return result

    schema: dict[str, Any] = {"type": "object"}
    desk.tools = [Tool(ToolSpec("a__b", "", schema), call, any_arguments(schema), "executes")]
    await desk.record(("a__b", {}))
    talk = Talk(desk.player(), None, names=(), tools=served_tools(desk.player()))
    await talk.ask("Go.")
    (told,) = [event.result for event in talk.events if isinstance(event, ToolFinished)]
    assert (told.content, told.display, told.details) == (
        result.content,
        result.display,
        result.details,
    )


@pytest.mark.parametrize("kind", ["rerun", "cached"])
def test_a_given_result_inside_of_code_is_recorded_again(desk: Desk, kind: str) -> None:
    """A nested call whose file is in place gives the recorded result, which is kept once more."""
    (desk.root / "a.py").write_text("x = 2\n")
    act = ToolCall("c", "execute_code", '{"code": "read_file(\'a.py\')"}')
    inner = ToolCall("c.1", "read_file", '{"path": "a.py"}')
    read = next(tool for tool in desk.tools if tool.name == "read_file")
    nested = Toolbox([read]).prepare(inner)
    assert isinstance(nested, Prepared)
    key = call_key(desk.workspace, nested)
    recorded = RecordedResult(
        "read_file",
        key.arguments,
        given=GivenResult((Text("x = 1"),)),
        path="a.py",
        before="another",
        after=key.before,
    )
    acts = MessageFinished(Message("assistant", (act,)), Usage(), "tool_use")
    says = MessageFinished(Message("assistant", (Text("Done."),)), Usage(), "end")
    steps = (RecordedStep(acts, results=(recorded,)), RecordedStep(says))
    cassette = Cassette("p", "m", "recorded", (RecordedTurn("Go.", steps=steps),))
    task = Message("user", (Text("Go."),))
    if kind == "rerun":
        into = desk.path.with_name("again.cassette.jsonl")
        notes = Recorder(into, desk.workspace, name="p", model="m")
        tape: Tape = Rerun(cassette, desk.path.name, notes, desk.workspace)
    else:
        save(cassette, desk.path)
        notes = Recorder(desk.path, desk.workspace, name="p", model="m")
        tape = Cached(desk.path, notes, desk.workspace)
    tape.begin([task])
    assert tape.lookup(ModelAsked(Request("s", (task,)))) == acts
    for sink in tape.sinks:
        sink(acts)
    given = tape.lookup(CallMade(nested, is_nested=True))
    assert given is not None and given.text == "x = 1"
    notes.commit()
    (again,) = load(desk.path if kind == "cached" else into).turns
    assert again.steps[0].results == (recorded,)
