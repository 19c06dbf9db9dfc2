"""Attempts run one after the other, their values are compared, and one attempt is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from jupyter_agent.agent.loop import Agent, TurnOutcome
from jupyter_agent.agent.voting import (
    Attempt,
    AttemptEnd,
    Vote,
    normalized,
    run_attempts,
    same_value,
)
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.events import (
    AttemptStarted,
    Event,
    MessageFinished,
    ReplySource,
    Steered,
    StepStarted,
    Voted,
)
from jupyter_agent.core.messages import Message, Text, Usage
from jupyter_agent.core.ports import Nobody, ReplyPart, Request
from jupyter_agent.errors import ProviderError, ReplayMismatch
from jupyter_agent.tools.toolbox import Toolbox


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("np.float64(0.30000000000000004)", "0.3"),
        ("42", "42.0"),
        ("'a  b'", "a b"),
        ("(1, -2.5e-3)\n", "(1,\t-0.0025)"),
        ("<A at 0x7f0011223344>", "<A at 0x7fee11223344>"),
        ("1e-17", "0.0"),
    ],
)
def test_the_same_value(one: str, other: str) -> None:
    """Rounding, blanks, quotes, number types and addresses make no difference."""
    assert same_value(normalized(one), normalized(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "2"),
        ("1 row", "1 rows"),
        ("0.3", "0.3001"),
        ("10000000000000001", "10000000000000002"),
        ("[1, 2]", "[1]"),
        ("v1", "v2"),
        ("nan", "inf"),
    ],
)
def test_other_values(one: str, other: str) -> None:
    """Words, whole numbers and the count of numbers are compared exactly."""
    assert not same_value(normalized(one), normalized(other))


def made(*values: str | None, spoilt: tuple[int, ...] = ()) -> list[Attempt]:
    failed = TurnOutcome("error", Usage(), ProviderError("no"))
    ended = TurnOutcome("end", Usage())
    return [
        Attempt(n, failed if value is None else ended, (), value, n not in spoilt)
        for n, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("attempts", "taken", "text"),
    [
        (made("7", "7.0", "7"), 1, "All 3 attempts agree."),
        (made("6", "7", "7"), 2, "2 of 3 attempts agree on 7; the other: 6."),
        (made("5", "7", "6", "7"), 2, "2 of 4 attempts agree on 7; the others: 5, 6."),
        (made("3", "1", "2"), 1, "3 attempts, 3 different values: 3, 1, 2. The first is taken."),
        (
            made("1", "2", "2", "1"),
            1,
            "2 of 4 attempts agree on 1; the others: 2, 2. "
            "As many agree on another value; the earliest is taken.",
        ),
        (
            made(None, "7", "7"),
            2,
            "2 of 3 attempts agree on 7. 1 attempt did not succeed.",
        ),
        (
            made("7", "7", "8", spoilt=(1, 2)),
            3,
            "Only attempt 3 of 3 counts. 2 attempts changed your variables and did not count.",
        ),
        (made("7", "7", spoilt=(1, 2)), 1, "All 2 attempts agree."),
        (made("", ""), 1, "All 2 attempts agree."),
        (made("x" * 99, ""), 1, f"2 attempts, 2 different values: {'x' * 39}…, no value."),
        (made(None, None), None, "None of 2 attempts succeeded."),
    ],
)
def test_the_vote(attempts: list[Attempt], taken: int | None, text: str) -> None:
    """Intact attempts come first, the most frequent value wins, of equal ones the earliest."""
    vote = Vote(attempts)
    assert (vote.taken.number if vote.taken else None) == taken
    assert vote.text.startswith(text), vote.text


class Model:
    """Gives the replies in order: a text, or an error."""

    name, model = "local", "local-1"
    source: ReplySource = "live"

    def __init__(self, *replies: str | Exception) -> None:
        self.requests: list[Request] = []
        self._replies = iter(replies)

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        self.requests.append(request)
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        yield MessageFinished(Message("assistant", (Text(reply),)), Usage(10, 1), "end")

    def body(self, request: Request) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        """Nothing to release."""


class Person(Nobody):
    """Types these lines, each at one look."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)

    def said(self) -> tuple[str, ...]:
        return tuple(filter(None, [next(self._lines, "")]))


class Place:
    """Notes what it is asked for. The attempts of `losing` do what cannot be put back."""

    def __init__(self, *losing: int) -> None:
        self.log: list[str] = []
        self._losing = losing

    def begin(self) -> None:
        self.log.append("begin")

    def end(self) -> AttemptEnd:
        self.log.append("end")
        lost = ("df",) if self.log.count("end") in self._losing else ()
        return AttemptEnd(not lost, lost)

    def adopt(self, number: int) -> tuple[Sequence[str], Sequence[str]]:
        self.log.append(f"adopt {number}")
        return ["total"], []


class Turn:
    """A turn of three attempts at a task."""

    def __init__(self, model: Model, *losing: int, task: str = "How many?", **options: Any) -> None:
        self.events: list[Event] = []
        self.history = [Message("user", (Text(task),))]
        self.place = Place(*losing)
        self._agent = Agent(model, Toolbox([]), "system", samples=3, **options)

    async def run(self) -> TurnOutcome:
        return await run_attempts(self._agent, self.history, self.events.append, self.place)

    @property
    def vote(self) -> str:
        (voted,) = (event for event in self.events if isinstance(event, Voted))
        return voted.text

    @property
    def text(self) -> str:
        return "\n".join(getattr(b, "text", "") for m in self.history for b in m.blocks)


async def test_attempts_in_order() -> None:
    """Each begins with the task alone, asks for another reply, and goes on counting."""
    model = Model("6", "7", "7")
    turn = Turn(model)
    outcome = await turn.run()
    assert (outcome.stop_reason, outcome.usage, outcome.is_whole) == ("end", Usage(30, 3), True)
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    assert [request.attempt for request in model.requests] == [0, 1, 2]
    steps = [e.number for e in turn.events if isinstance(e, (AttemptStarted, StepStarted))]
    assert steps == [1, 1, 2, 2, 3, 3]
    assert turn.place.log == ["begin", "end"] * 3 + ["adopt 2"]
    assert [m.role for m in turn.history] == ["user", "assistant", "user"]
    assert "\n7\n(Several attempts were made" in turn.text and "now: total." in turn.text


async def test_values_in_their_places() -> None:
    """Where the task gives a format the values in it are compared, whatever is said around them."""
    model = Model("@mean[16.5], @n[4]", "I found:\n@n[4] @mean[16.50]", "@mean[15], @n[4]")
    turn = Turn(model, task="Mean and count, as @mean[mean], @n[count]?")
    await turn.run()
    assert turn.vote == "2 of 3 attempts agree on mean[16.5] n[4]; the other: mean[15] n[4]."


async def test_what_a_person_types() -> None:
    """A line is read by the attempt that runs, by those after it, and is in the conversation, too,
    where an earlier attempt is taken.
    """
    model = Model("6", "7", "7", "6", "6")
    turn = Turn(model, user=Person("", "In euros.", "", "", "Thanks."))
    await turn.run()
    read = ["In euros." in str(request.messages) for request in model.requests]
    assert read == [False, False, True, True]
    assert [e.text for e in turn.events if isinstance(e, Steered)] == ["In euros.", "Thanks."]
    assert turn.vote.startswith("2 of 3 attempts agree on 6")
    assert turn.text.count("In euros.") == turn.text.count("Thanks.") == 1


async def test_limits_of_the_turn() -> None:
    """The limits are those of the whole turn: attempts that are over by then are compared."""
    turn = Turn(Model("6", "7"), max_steps=2)
    assert (await turn.run()).stop_reason == "end"
    assert turn.vote.endswith("No more attempts: the step limit of the turn is reached.")
    turn = Turn(Model("6"), budget=Budget(tokens=5))
    assert (await turn.run()).stop_reason == "end"
    assert turn.vote.endswith("No more attempts: the budget of 5 tokens is used up.")
    turn = Turn(Model("6", "7"), 2)
    await turn.run()
    assert turn.vote.endswith("No more attempts: df could not be put back.")
    assert turn.place.log[-1] == "adopt 1"


async def test_failures() -> None:
    """A failed call costs its attempt; what no other attempt can mend ends the turn."""
    turn = Turn(Model(ProviderError("down"), "7", "7"))
    outcome = await turn.run()
    assert (outcome.error, outcome.is_whole) == (None, False)
    assert turn.vote == "2 of 3 attempts agree on 7. 1 attempt did not succeed."
    turn = Turn(Model(*(ProviderError(f"down {n}") for n in range(3))))
    assert str((await turn.run()).error) == "down 0"
    assert turn.place.log == ["begin", "end"] * 3 and len(turn.history) == 1
    for error in (ReplayMismatch("another task"), ZeroDivisionError("a bug")):
        turn = Turn(Model(error, "7"))
        assert (await turn.run()).stop_reason == "error"
        assert turn.place.log == ["begin", "end"]
