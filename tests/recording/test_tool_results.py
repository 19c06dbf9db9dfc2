"""What a replay says of files that are there already: what the recording said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.core.events import FileChange, MessageFinished
from jupyter_agent.core.messages import Message, ToolSpec, Usage
from jupyter_agent.core.redact import redact
from jupyter_agent.core.tool import Tool, ToolReturn
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette_model import Cassette, FileState, RecordedCall, Remembered
from jupyter_agent.recording.tool_results import FileRecorder, FileReplayer, ToolRecording, call_key
from jupyter_agent.recording.tools import replayed_server_tools, with_recorded_results
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.mcp_tools import any_arguments
from jupyter_agent.tools.search import search_tools

OK = MessageFinished(Message("assistant", ()), Usage(), "tool_use")


class Desk:
    """The file tools of a workspace, recorded first, replayed afterwards."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = Workspace(root)
        self.past: ToolRecording | None = None
        tools = [*file_tools(self.workspace), *search_tools(self.workspace)]
        tools = with_recorded_results(tools, self.workspace, lambda: self.past)
        self._tools: dict[str, Any] = {tool.name: tool.function for tool in tools}

    def __call__(self, name: str, **values: Any) -> str:
        result = self._tools[name](**values)
        return str(result.content if isinstance(result, ToolReturn) else result)

    def record(self) -> FileRecorder:
        self.past = taking = FileRecorder(self.workspace)
        return taking

    def replay(self, *turns: tuple[RecordedCall, ...], since: int | None = None) -> FileReplayer:
        cassette = Cassette("p", "m", "recorded", turns)
        begun = time.time_ns() if since is None else since
        time.sleep(0.05)  # the clock of file systems is coarse
        self.past = recalled = FileReplayer(cassette, self.workspace, begun)
        return recalled


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def entry(
    remembered: tuple[Remembered, ...] = (), files: tuple[FileState, ...] = ()
) -> RecordedCall:
    return RecordedCall("c", "t", 1, (), OK, remembered=remembered, files=files)


def test_a_live_turn_is_told_as_it_is(desk: Desk) -> None:
    """Without a cassette nothing is remembered and nothing is made up."""
    assert desk("write_file", path="a.txt", content="1\n").startswith("Created")
    assert "unchanged" in desk("write_file", path="a.txt", content="1\n")


def test_a_file_that_is_there_already(desk: Desk) -> None:
    """A replay says `Created` as the recording did, and writes what it has to."""
    taking = desk.record()
    assert desk("write_file", path="a.txt", content="1\n").startswith("Created")
    known = taking.take()
    desk.replay((entry(known),)).enter(known, ())
    (desk.root / "a.txt").write_text("2\n")
    assert desk("write_file", path="a.txt", content="1\n").startswith("Created")
    assert (desk.root / "a.txt").read_text() == "1\n"


def test_an_edit_that_is_in_place(desk: Desk) -> None:
    """An edited file is read and edited again as if it were the old one, and stays as it is."""
    (desk.root / "a.py").write_text("x = 1\ny = 1\n")
    taking = desk.record()
    said = [
        desk("read_file", path="a.py"),
        desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2"),
        desk("edit_file", path="a.py", old_str="y = 1", new_str="y = 2"),
    ]
    known = taking.take()
    left = (desk.root / "a.py").read_bytes()
    desk.replay((entry(known),)).enter(known, ())
    again = [
        desk("read_file", path="a.py"),
        desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2"),
        desk("edit_file", path="a.py", old_str="y = 1", new_str="y = 2"),
    ]
    assert again == said
    assert (desk.root / "a.py").read_bytes() == left


def test_an_edit_that_is_not_in_place_is_made(desk: Desk) -> None:
    """Where the file is as it was before, the tool does its work."""
    (desk.root / "a.py").write_text("x = 1\n")
    taking = desk.record()
    desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2")
    known = taking.take()
    (desk.root / "a.py").write_text("x = 1\n")
    desk.replay((entry(known),)).enter(known, ())
    assert desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2").startswith("Changed")
    assert (desk.root / "a.py").read_text() == "x = 2\n"


def test_a_file_of_the_persons(desk: Desk) -> None:
    """Where the file is neither, an edit that does not fit is an error, as it would be live."""
    (desk.root / "a.py").write_text("x = 1\n")
    taking = desk.record()
    desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2")
    known = taking.take()
    (desk.root / "a.py").write_text("x = 3\n")
    desk.replay((entry(known),)).enter(known, ())
    with pytest.raises(ToolError, match="does not occur"):
        desk("edit_file", path="a.py", old_str="x = 1", new_str="x = 2")
    assert desk("read_file", path="a.py").endswith("x = 3")


def test_another_call_is_not_answered_from_the_past(desk: Desk) -> None:
    """Only the same call with the same arguments, and each recorded one once."""
    taking = desk.record()
    desk("write_file", path="a.txt", content="1\n")
    known = taking.take()
    desk.replay((entry(known),)).enter(known, ())
    assert "unchanged" in desk("write_file", path="./a.txt", content="1\n")
    assert desk("write_file", path="a.txt", content="1\n").startswith("Created")
    assert "unchanged" in desk("write_file", path="a.txt", content="1\n")


def test_what_is_outside_is_not_looked_at(desk: Desk) -> None:
    """A path that leads outside is no file of the workspace, whatever a cassette says."""
    assert call_key(desk.workspace, "write_file", {"path": "../x"}).path == ""
    state = FileState("../../etc/passwd", "created", 1, 0, "aaaa")
    recalled = desk.replay((entry(files=(state,)),))
    recalled.enter((), (state,))
    assert recalled.files([], ()) == []
    assert recalled.leftovers() == frozenset()


def test_leftovers_are_not_listed_before_they_are_made(desk: Desk) -> None:
    """What an earlier execution left is hidden until the replay has made it, too."""
    taking = desk.record()
    desk("write_file", path="a.txt", content="1\n")
    known = taking.take()
    recalled = desk.replay((entry(known),))
    recalled.enter(known, ())
    assert recalled.leftovers() == {desk.workspace.root / "a.txt"}
    desk("write_file", path="a.txt", content="1\n")
    assert recalled.leftovers() == frozenset()


def test_a_file_that_is_made_meanwhile_is_no_leftover(desk: Desk) -> None:
    """Code that writes a file makes it new."""
    state = FileState("a.txt", "created", 1, 0, "aaaa")
    recalled = desk.replay((entry(files=(state,)),), since=1)
    (desk.root / "a.txt").write_text("1\n")
    assert recalled.leftovers() == frozenset()


CREATED = FileChange("a.txt", "created", 2, 0)
CHANGED = FileChange("a.txt", "changed", 1, 1)


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
def test_the_receipt(
    desk: Desk,
    then: list[FileChange],
    rewritten_then: tuple[str, ...],
    now: list[FileChange],
    rewritten_now: tuple[str, ...],
    told: list[FileChange],
) -> None:
    """A file that ends up as it did in the recording is told as it was told then."""
    (desk.root / "a.txt").write_text("1\n2\n")
    taking = desk.record()
    assert taking.files(then, rewritten_then) == then
    recalled = desk.replay((entry(files=taking.states),))
    recalled.enter((), taking.states)
    assert recalled.files(now, rewritten_now) == told


def test_the_receipt_of_a_file_that_ended_up_otherwise(desk: Desk) -> None:
    """What the code no longer writes is not told; what it writes differently is."""
    (desk.root / "a.txt").write_text("1\n2\n")
    taking = desk.record()
    taking.files([CREATED], ())
    (desk.root / "a.txt").write_text("3\n")
    recalled = desk.replay((entry(files=taking.states),))
    recalled.enter((), taking.states)
    assert recalled.files([], ()) == []
    three = FileChange("a.txt", "created", 1, 0)
    assert recalled.files([three], ()) == [three]


def test_a_file_that_a_later_turn_changed(desk: Desk) -> None:
    """What an earlier turn read and found is told as it was, though the file is changed now."""
    (desk.root / "a.py").write_text("doble = 1\n")
    (desk.root / "b.py").write_text("doble = 2\n")
    looks = [("read_file", {"path": "a.py"}), ("search_files", {"pattern": "doble"})]
    taking = desk.record()
    said = [desk(name, **values) for name, values in looks]
    looked = taking.take()
    (desk.root / "a.py").write_text("double = 1\n")  # by the code of a later turn
    taking.files([FileChange("a.py", "changed", 1, 1)], ())
    turns = (entry(looked),), (entry(files=taking.states),)
    desk.replay(*turns).enter(looked, ())
    assert [desk(name, **values) for name, values in looks] == said
    (desk.root / "b.py").write_text("double = 2\n")
    desk.replay(*turns).enter(looked, ())
    assert desk("search_files", pattern="doble") != said[1]


def test_a_file_that_was_not_there_yet(desk: Desk) -> None:
    """A read and an edit that failed before the file was written fail again, in the same words."""
    calls = [
        ("read_file", {"path": "a.py"}),
        ("edit_file", {"path": "a.py", "old_str": "1", "new_str": "2"}),
        ("write_file", {"path": "a.py", "content": "x = 1\n"}),
        ("read_file", {"path": "a.py"}),
    ]

    def said() -> list[str]:
        found = []
        for name, values in calls:
            try:
                found.append(desk(name, **values))
            except ToolError as error:
                found.append(str(error))
        return found

    taking = desk.record()
    then = said()
    known = taking.take()
    assert "no file a.py" in then[0] and then[3].endswith("x = 1")
    desk.replay((entry(known),)).enter(known, ())
    assert said() == then
    (desk.root / "a.py").unlink()
    desk.replay((entry(known),)).enter(known, ())
    assert said() == then


def test_a_file_that_is_read_before_and_after_an_edit(desk: Desk) -> None:
    """The same call twice in one reply: each is told what it found."""
    calls = [
        ("write_file", {"path": "a.py", "content": "x = 1\n"}),
        ("read_file", {"path": "a.py"}),
        ("edit_file", {"path": "a.py", "old_str": "1", "new_str": "2"}),
        ("read_file", {"path": "a.py"}),
    ]
    taking = desk.record()
    then = [desk(name, **values) for name, values in calls]
    known = taking.take()
    desk.replay((entry(known),)).enter(known, ())
    assert [desk(name, **values) for name, values in calls] == then


def test_a_secret_that_was_written(desk: Desk) -> None:
    """A replay knows the content without the secret, and does not put that in its place."""
    secret, edit = f"token={'ghp_' + 'a1' * 15}\n", {"old_str": "token", "new_str": "TOKEN"}
    taking = desk.record()
    written = desk("write_file", path="a.env", content=secret)
    desk("edit_file", path="a.env", **edit)
    known = taking.take()
    left = (desk.root / "a.env").read_text()
    desk.replay((entry(known),)).enter(known, ())
    assert desk("write_file", path="a.env", content=redact(secret)) == written
    desk("edit_file", path="a.env", **edit)
    assert (desk.root / "a.env").read_text() == left == secret.replace("token", "TOKEN")


async def test_a_server_that_did_not_answer(desk: Desk) -> None:
    """Its failure is told again, and nobody is asked."""
    asked = []

    async def call(**arguments: Any) -> ToolReturn:
        asked.append(arguments)
        raise ToolError("no answer after 2 s")

    schema: dict[str, Any] = {"type": "object"}
    live = Tool(ToolSpec("far__add", "", schema), call, any_arguments(schema), "executes")
    (tool,) = with_recorded_results([live], desk.workspace, lambda: desk.past)
    taking = desk.record()
    with pytest.raises(ToolError, match="no answer"):
        await tool.function(a=1)
    known = taking.take()
    desk.replay((entry(known),)).enter(known, ())
    told = await tool.function(a=1)
    assert isinstance(told, ToolReturn)
    assert (told.content, told.is_error) == ("no answer after 2 s", True)
    assert asked == [{"a": 1}]


def test_a_notebook_whose_outputs_were_saved(desk: Desk) -> None:
    """It is read as it was before it was executed; one with other cells is read as it is."""

    def save(source: str, *texts: str) -> None:
        cell = nbformat.v4.new_code_cell(source, id="one")
        cell.outputs = [nbformat.v4.new_output("stream", text=text) for text in texts]
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), desk.root / "a.ipynb")

    save("print(1)")
    taking = desk.record()
    then = desk("read_file", path="a.ipynb")
    known = taking.take()
    save("print(1)", "1")
    desk.replay((entry(known),)).enter(known, ())
    assert desk("read_file", path="a.ipynb") == then
    save("print(2)", "2")
    desk.replay((entry(known),)).enter(known, ())
    assert "print(2)" in desk("read_file", path="a.ipynb")


@pytest.mark.parametrize(("then", "now"), [("30 min", "60 min"), ("2024-01-02", "2024-01-03")])
async def test_a_server_is_not_taken_for_having_said_more(then: str, now: str, desk: Desk) -> None:
    """What a server said to one question is no answer to another."""
    spec = ToolSpec("trips__count", "", {"type": "object"})

    async def count(**arguments: Any) -> str:
        return f"longer than {arguments['than']}"

    tool = Tool(spec, count, any_arguments(spec.parameters), "executes")
    (asked,) = with_recorded_results([tool], desk.workspace, lambda: desk.past)
    taking = desk.record()
    await asked.function(than=then)
    desk.replay((entry(known := taking.take()),)).enter(known, ())
    (gone,) = with_recorded_results(
        replayed_server_tools({spec.name: {}}), desk.workspace, lambda: desk.past
    )
    with pytest.raises(ToolError, match="not called like this"):
        await gone.function(than=now)
    assert (await gone.function(than=then)).content == f"longer than {then}"


def test_a_secret_that_is_still_there(desk: Desk) -> None:
    """Only arguments that come out of a cassette count as redacted; their digest is the same."""
    key = "sk-" + "ant-" + "Abc1" * 8
    live, kept = (
        call_key(desk.workspace, "write_file", {"path": "a.txt", "content": text})
        for text in (key, redact(key))
    )
    assert (live.is_redacted, kept.is_redacted) == (False, True)
    assert live.arguments == kept.arguments
