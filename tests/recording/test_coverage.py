"""Which tasks a cassette answers, and which of its turns nobody asks for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import Message, Text, Usage
from jupyter_agent.recording.cassette import Cassette, RecordedStep, RecordedTurn
from jupyter_agent.recording.coverage import Task, coverage, nearest

WORDS = st.lists(st.sampled_from(["Count.", "Plot it.", "Why?", "Go on."]), max_size=6)


def cassette_of(tasks: Sequence[str]) -> Cassette:
    reply = MessageFinished(Message("assistant", (Text("ok"),)), Usage(), "end")
    turns = tuple(
        RecordedTurn(task, f"{n}", (RecordedStep(reply),)) for n, task in enumerate(tasks)
    )
    return Cassette("p", "m", "recorded", turns)


@given(WORDS, WORDS)
def test_nothing_is_counted_twice(asked: list[str], recorded: list[str]) -> None:
    """Each turn answers one task or is an orphan, and no task takes a turn of another's words."""
    found = coverage([Task(text) for text in asked], cassette_of(recorded))
    used = [turn for turns in found.recorded for turn in turns]
    assert sorted([*used, *found.orphans]) == list(range(len(recorded)))
    for text, turns in zip(asked, found.recorded, strict=True):
        assert all(recorded[turn] == text for turn in turns)
    for text in set(asked):
        lacking = sum(asked[number] == text for number in found.missing)
        assert lacking == max(0, asked.count(text) - recorded.count(text))


@given(WORDS)
def test_what_was_recorded_is_whole(tasks: list[str]) -> None:
    """A cassette of just these tasks leaves nothing missing and nothing over."""
    found = coverage([Task(text) for text in tasks], cassette_of(tasks))
    assert not found.missing
    assert not found.orphans


@given(WORDS, st.permutations(range(6)))
def test_the_order_of_the_turns_does_not_matter(tasks: list[str], order: list[int]) -> None:
    """A cell that was recorded anew may stand anywhere in the file."""
    moved = [tasks[number] for number in order if number < len(tasks)]
    found = coverage([Task(text) for text in tasks], cassette_of(moved))
    assert not found.missing
    assert not found.orphans


def test_a_task_that_repeats() -> None:
    """A call in a loop takes all the turns of its words that cells leave over."""
    tape = cassette_of(["Go on.", "Go on.", "Go on.", "Why?"])
    found = coverage([Task("Go on.", repeats=True), Task("Go on.")], tape)
    assert found.recorded == ((1, 2), (0,))
    assert found.orphans == (3,)


def test_calls_that_share_their_words() -> None:
    """Two loops with the same words share the turns: neither is missing."""
    tape = cassette_of(["Go on.", "Go on."])
    found = coverage([Task("Go on.", True), Task("Go on.", True)], tape)
    assert found.missing == ()
    assert found.orphans == ()


@pytest.mark.parametrize("typed", ["Count.  ", "\nCount.\n", "Count.\t"])
def test_white_space_at_the_ends(typed: str) -> None:
    """What an editor strips does not make another task."""
    assert coverage([Task(typed)], cassette_of(["Count."])).recorded == ((0,),)


def test_what_differs_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path below one's own home folder is the same task for everybody, as it is in a replay."""
    monkeypatch.setenv("HOME", "/home/ada")
    tape = cassette_of(["Read <home>/data.csv"])
    assert coverage([Task("Read /home/ada/data.csv")], tape).missing == ()


def test_the_nearest_task() -> None:
    """A task that was edited is shown with the words in which it differs."""
    tape = cassette_of(["Which species is heaviest?", "Plot it."])
    told = nearest("Which species is lightest?", tape)
    assert "heaviest" in told
    assert "lightest" in told
    assert nearest("Completely other words 123", tape) == ""
    assert nearest("Plot it.", tape) == ""


def test_a_turn_without_a_task() -> None:
    """A turn with an empty task is an orphan: no cell asks for it."""
    assert coverage([Task("Count.")], cassette_of([""])).orphans == (0,)


@pytest.mark.parametrize("typed", ["Trips over 60 min", "Trips  over 30 min", "trips over 30 min"])
def test_another_task(typed: str) -> None:
    """Tasks are compared to the letter: another number, blank or case is missing."""
    found = coverage([Task(typed)], cassette_of(["Trips over 30 min"]))
    assert (found.missing, found.orphans) == ((0,), (0,))


def test_a_skill_in_front_of_a_task() -> None:
    """A skill of a folder that the notebook names while it runs is no part of the task."""
    tape = cassette_of(["Write it up."])
    assert coverage([Task("/report /tables Write it up.")], tape).missing == ()
    assert coverage([Task("/tmp/a.csv Write it down.")], tape).missing == (0,)
