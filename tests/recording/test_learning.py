"""What a second run of a recording teaches: the spans that vary, and what has no form."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tape_talk import Script, Talk, player, recorded, recorder, replaying

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, Usage
from jupyter_agent.core.tool import ToolReturn
from jupyter_agent.errors import ReplayMismatch
from jupyter_agent.recording.cassette import (
    Cassette,
    FileState,
    GivenResult,
    RecordedResult,
    RecordedStep,
    RecordedTurn,
    RecordedVariable,
    load,
    save,
)
from jupyter_agent.recording.learning import Learned, learn_cassette, variations
from jupyter_agent.recording.player import Rerun

CALLS = Message("assistant", tuple(ToolCall(f"c{n}", "look", "{}") for n in range(3)))
REPLY = MessageFinished(CALLS, Usage(), "tool_use")
DONE = RecordedStep(MessageFinished(Message("assistant", (Text("Done."),)), Usage(), "end"))


def step(*texts: str) -> RecordedStep:
    results = (RecordedResult("look", f"a{n}", text, n) for n, text in enumerate(texts))
    return RecordedStep(REPLY, results=tuple(results))


def turn(*texts: str, task: str = "Count.") -> RecordedTurn:
    return RecordedTurn(task, steps=(step(*texts), DONE))


def of(*turns: RecordedTurn) -> Cassette:
    return Cassette("p", "m", "recorded", turns)


def learned(first: RecordedTurn, again: RecordedTurn) -> RecordedTurn:
    found = learn_cassette(of(first), of(again))
    assert not found.unlike
    return found.cassette.turns[0]


def texts_of(found: RecordedTurn) -> list[str]:
    return [result.text for result in found.steps[0].results]


# ---- what is marked ------------------------------------------------------------------------------


def test_results_that_vary() -> None:
    """Each result is compared with that of the same call, and its runs are counted."""
    found = learned(turn("a 1", "b", "c 3.2 s"), turn("a 2", "b", "c 4 ms"))
    assert texts_of(found) == ["a ⟨1⟩", "b", "c ⟨3.2 s⟩"]
    assert found.runs == 2
    assert learned(found, turn("a 5", "b", "c 1 s")).runs == 3
    assert texts_of(learned(found, turn("a 5", "b", "c 1 s"))) == texts_of(found)


def test_what_is_told() -> None:
    """Each line that varies is told with its task, its step, its values and a hint."""
    first, again = turn("x\na 1 b\ny"), turn("x\na 2 b\ny")
    found = learn_cassette(of(turn("a"), first), of(turn("a"), again))
    (one,) = found.variations
    assert (one.task, one.step, one.line) == ("Count.", 1, "a ⟨1⟩ b")
    assert one.words == "step 1: a ⟨1⟩ b (set a seed if it is random)"
    assert variations(found.cassette) == found.variations


def test_turns_without_a_second_run() -> None:
    """A turn that was not run again stays as it is."""
    other = turn("a 1", task="Other.")
    found = learn_cassette(of(turn("a 1"), other), of(turn("a 2"))).cassette.turns
    assert found[1] == other and found[1].runs == 1
    assert learn_cassette(of(other), of()) == Learned(of(other))


def test_the_same_task_twice() -> None:
    """Two turns of one task are told apart by their replies and their order."""
    first, again = of(turn("a 1"), turn("b 1")), of(turn("a 2"), turn("b 2"))
    found = learn_cassette(first, again).cassette.turns
    assert [texts_of(each) for each in found] == [["a ⟨1⟩"], ["b ⟨1⟩"]]
    strange = replace(turn("a 2"), steps=(DONE,))
    assert learn_cassette(of(turn("a 1")), of(strange)).cassette == of(turn("a 1"))


def test_today_is_known() -> None:
    """The date of both runs varies, though it is the same in both."""
    now = datetime.now(UTC)
    text = f"on {now:%Y-%m-%d} of 2001-01-01"
    found = learn_cassette(of(turn(text)), of(turn(text)), [now]).cassette.turns[0]
    assert texts_of(found) == [f"on ⟨{now:%Y-%m-%d}⟩ of 2001-01-01"]


def test_given_results_are_not_marked() -> None:
    """What a replay gives as it is cannot vary, but a file that is read can."""
    for tool, text in (("a__b", "at 5"), ("write_file", "at 5"), ("read_file", "at ⟨5⟩")):
        one, two = (
            replace(
                turn(),
                steps=(
                    RecordedStep(
                        REPLY,
                        results=(RecordedResult(tool, "a", f"at {n}", 0, given=GivenResult()),),
                    ),
                ),
            )
            for n in (5, 6)
        )
        assert texts_of(learned(one, two)) == [text]


def test_outputs_that_vary() -> None:
    """Of the rich outputs those that vary are kept with their marks; the others are not kept."""
    one, two = (
        replace(
            turn(),
            steps=(
                RecordedStep(
                    REPLY,
                    results=(
                        RecordedResult(
                            "look",
                            "a",
                            "x",
                            0,
                            {0: {"text/html": "<b>same</b>"}, 1: {"text/html": f"<b>{n}</b>"}},
                        ),
                    ),
                ),
            ),
        )
        for n in (5, 6)
    )
    assert learned(one, two).steps[0].results[0].shown == {1: {"text/html": "<b>⟨5⟩</b>"}}


def test_variables_and_files_that_vary() -> None:
    """Summaries of variables get marks; a file with other content in each run is known as such."""
    one, two = (
        replace(
            turn("a"),
            variables=(
                RecordedVariable("x", "added", f"{n} rows"),
                RecordedVariable("y", "added", "list" if n == 5 else "a dict of 5"),
                RecordedVariable("z", "added" if n == 5 else "changed", f"{n}"),
            ),
            files=(
                FileState("a.txt", "created", 1, 0, f"{n}"),
                FileState("b.txt", "created", 1, 0, "same"),
                FileState("c.txt", "created" if n == 5 else "changed", 1, 0, f"{n}"),
            ),
        )
        for n in (5, 6)
    )
    found = learned(one, two)
    assert [each.summary for each in found.variables] == ["⟨5⟩ rows", "list", "5"]
    assert [each.varies for each in found.files] == [True, False, False]
    assert learned(found, one).files == found.files


# ---- what has no form ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "again", "words"),
    [
        ("a\nb 1", "a\nfive", "'b 1' became 'five'"),
        ("a\nb", "a", "'b' is gone"),
        ("a", "a\nb", "'b' was added"),
        ("a x\nb", "b\na x", "the same lines in another order"),
        ("b 1\na\na", "a\na\nb 1", "sort them"),
    ],
)
def test_a_result_of_another_form(first: str, again: str, words: str) -> None:
    """Other lines or types are no variation: they are told with the step and the lines."""
    found = learn_cassette(of(turn("x", first)), of(turn("x", again)))
    (one,) = found.unlike
    assert (one.task, one.step) == ("Count.", 1)
    assert words in one.words and "\n" not in one.words
    assert texts_of(found.cassette.turns[0]) == ["x", first]


def test_marks_are_no_difference() -> None:
    """A second run that was itself marked is compared by its plain text."""
    assert texts_of(learned(turn("a ⟨1⟩"), turn("a ⟨2⟩"))) == ["a ⟨1⟩"]
    brackets = "a \\⟨1\\⟩"  # which are the text's own
    assert texts_of(learned(turn(brackets), turn(brackets))) == [brackets]


# ---- run for real --------------------------------------------------------------------------------

LOOK = {"text": "I look.", "calls": [{"name": "look", "arguments": {"n": 1}}]}
FOLDER = "<tmp>/tmpab12cd34".replace("<tmp>", "/" + "tmp")
OTHER = "<tmp>/tmpz_9xk0qw".replace("<tmp>", "/" + "tmp")
THIRD = "<tmp>/tmp0000000x".replace("<tmp>", "/" + "tmp")
OPEN = {"text": "", "calls": [{"name": "look", "arguments": {"path": f"{FOLDER}/a.csv"}}]}
SCRIPT: Script = (("Count.", [LOOK, OPEN, {"text": "Done."}]),)


async def twice(path: Path, first: list[str], again: list[str]) -> Learned:
    """Record a turn, run it again from the recording, and save what was learned."""
    await recorded(path, SCRIPT, ["Count."], results=first)
    second = path.with_name("again.jsonl")
    talk = Talk(Rerun(load(path), path.name, recorder(second), None), results=again)
    assert await talk.ask("Count.") == "Done."
    found = learn_cassette(load(path), load(second))
    save(found.cassette, path)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.cassette.jsonl"


async def test_a_second_run_goes_on_over_differences(path: Path) -> None:
    """No model is asked again, and a third run of yet other values gives the recorded ones."""
    found = await twice(path, ["took 3.2 s", "x"], ["took 4.1 s", "x"])
    assert [one.line for one in found.variations] == ["took ⟨3.2 s⟩"]
    talk = replaying(path, results=["took 7 ms", "x"])
    assert await talk.ask("Count.") == "Done."
    assert [r.text for message in talk.history for r in message.tool_results] == ["took 3.2 s", "x"]
    with pytest.raises(ReplayMismatch):
        await replaying(path, results=["lasted 7 ms", "x"]).ask("Count.")


async def test_a_second_run_of_another_form(path: Path) -> None:
    """It goes on as well, and what has no form is told."""
    found = await twice(path, ["a\nb", "x"], ["a", "x"])
    assert [(one.step, one.words.split(":")[0]) for one in found.unlike] == [(1, "'b' is gone")]


async def test_a_call_that_names_a_temporary_folder(path: Path) -> None:
    """It runs with the folder of this run, and its result shows the recorded one."""
    first, again = ([f"made {folder}", f"read {folder}/a.csv"] for folder in (FOLDER, OTHER))
    found = await twice(path, first, again)
    assert not found.unlike
    talk = replaying(path, results=[f"made {THIRD}", f"read {THIRD}/a.csv"])
    assert await talk.ask("Count.") == "Done."
    assert talk.ran[1]["path"].endswith("/tmp0000000x/a.csv")
    shown = [r.text for message in talk.history for r in message.tool_results]
    assert shown == ["made <tmp>/tmpab12cd34", "read <tmp>/tmpab12cd34/a.csv"]


async def test_outputs_are_shown_as_recorded(path: Path) -> None:
    """What the user sees of a result that varies is what was recorded, in each kind of output."""

    def result(number: int) -> ToolReturn:
        data = {"text/plain": f"took {number} s", "text/html": f"<b>took {number} s</b>"}
        return ToolReturn(f"took {number} s", (Output("display", data),))

    script: Script = (("Count.", [LOOK, {"text": "Done."}]),)
    await recorded(path, script, ["Count."], results=[result(3)])
    second = path.with_name("again.jsonl")
    rerun = Rerun(load(path), path.name, recorder(second), None)
    await Talk(rerun, results=[result(4)]).ask("Count.")
    save(learn_cassette(load(path), load(second)).cassette, path)
    talk = Talk(player(path), results=[result(77)])
    await talk.ask("Count.")
    (told,) = [event.result for event in talk.events if hasattr(event, "result")]
    assert told.display == result(3).display
    assert told.details == {"varying": ["3 s"]}
