"""Voting: a turn makes several attempts at its task, and takes the value that most of them have.

Each attempt begins with the same conversation and the same variables, and is run by the loop like
an ordinary turn. Where it runs is the caller's affair (`Attempts`): nothing that it binds may
reach the person before the vote. The steps, the tokens and the time of all attempts count against
the limits of the one turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_agent.agent.loop import Agent, RunningTurn, TurnOutcome
from jupyter_agent.core.events import (
    AttemptStarted,
    Event,
    MessageFinished,
    Noticed,
    QuestionAnswered,
    QuestionAsked,
    Sink,
    Steered,
    ToolFinished,
    Voted,
)
from jupyter_agent.core.history import INTERRUPTED_NOTE, repair, task_index
from jupyter_agent.core.legible import stable
from jupyter_agent.core.messages import Context, Message, Said, ToolResult, Usage
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.errors import ProviderError, ReplayMismatch, broken_off
from jupyter_agent.llm.answer_format import as_fitting_answer, fits
from jupyter_agent.llm.code_protocol import ACT
from jupyter_agent.llm.value_blocks import plain_numbers, unquoted

_NUMBER = re.compile(r"((?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))")
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""How far two numbers may be apart by rounding alone."""
_NOT_RUN = ("refused", "not_run")
_SHORT = 40
"""Characters of a value that are shown."""
_HEARD = "(The person said this while another attempt at this task ran:)\n{lines}"
_TAKEN = (
    "(Several attempts were made at this task, each in scratch, and the result of this one was "
    "taken.{names})"
)
_NOT_TAKEN = "(Nothing that the code of this task bound was kept.)"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """What an attempt did to the person's variables.

    Args:
        is_intact: True if it left all of them as they were.
        lost: The names that could not be put back: no other attempt may follow.
    """

    is_intact: bool = True
    lost: tuple[str, ...] = ()


class Attempts(Protocol):
    """Where attempts run. They are numbered from 1 in their order."""

    def begin(self) -> None:
        """Begin the next attempt, with the variables of before the first one."""

    def end(self) -> AttemptEnd:
        """End it: keep what it bound aside, and put the person's variables back."""

    def adopt(self, number: int) -> tuple[Sequence[str], Sequence[str]]:
        """Give the person what an attempt bound: the names, and those that are left with why."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that has ended.

    Args:
        number: Its number, from 1.
        outcome: How it ended.
        history: The conversation with its messages.
        value: Its value, normalized; None if it has no vote, since it ended without success.
        is_intact: True if it left the person's variables as they were.
        heard: What the person typed and answered while it ran, line by line.
    """

    number: int
    outcome: TurnOutcome
    history: tuple[Message, ...] = ()
    value: str | None = None
    is_intact: bool = True
    heard: tuple[str, ...] = ()


async def run_attempts(
    agent: Agent, history: list[Message], emit: Sink, place: Attempts
) -> TurnOutcome:
    """Run one turn in `agent.samples` attempts; the arguments and the outcome are as of `run_turn`.

    Afterwards `history` has the messages of the attempt that was taken alone. An interrupt, and an
    error that is no failure of the model, end the turn at once, and nothing is taken.
    """
    base = list(history)
    made: list[Attempt] = []
    turn: RunningTurn | None = None
    try:
        over = ""
        while len(made) < agent.samples and not over:
            history[:] = [*base, *_heard(made)]
            emit(AttemptStarted(len(made) + 1, agent.samples))
            turn = RunningTurn(agent, history, seen := _Seen(emit), turn)
            place.begin()
            try:
                outcome = await turn.outcome()
            finally:
                end = place.end()
            if outcome.stop_reason == "interrupted":
                history[:] = [*base, Message("user", (Context(INTERRUPTED_NOTE),))]
                return outcome
            if outcome.error and not _is_of_model(outcome.error):
                return outcome
            made.append(seen.attempt(len(made) + 1, outcome, history, end))
            over = _why_over(agent, turn, end)
        outcome = _decided(history, emit, place, made, over)
        for text in agent.user.said():
            history.append(Message("user", (Said(text),)))
            emit(Steered(text))
    except Exception as error:
        history[:] = repair(history)
        outcome = TurnOutcome("error", Usage(), broken_off(error))
    is_whole = not any(each.outcome.error for each in made)
    return replace(outcome, usage=turn.usage if turn else Usage(), is_whole=is_whole)


def _decided(
    history: list[Message], emit: Sink, place: Attempts, made: Sequence[Attempt], over: str
) -> TurnOutcome:
    """Take one attempt, tell why, and put its messages into the history."""
    vote = Vote(made)
    taken = vote.taken
    if taken is None:  # the model failed each time
        history[:] = made[0].history
        return made[0].outcome
    values = tuple(_short(each.value) for each in made)
    emit(Voted(taken.number, " ".join(filter(None, (vote.text, over))), values))
    note = _NOT_TAKEN
    if taken.value is not None:
        kept, left = place.adopt(taken.number)
        names = f" What it bound is the person's now: {', '.join(kept)}." if kept else ""
        names += f" Not carried over: {'; '.join(left)}." if left else ""
        note = _TAKEN.format(names=names)
        if left:
            emit(Noticed(f"Not carried over from scratch: {'; '.join(left)}.", in_sight=True))
    later = _heard(made[taken.number :])
    history[:] = [*taken.history, Message("user", (Context(note),)), *later]
    return taken.outcome


def _heard(made: Sequence[Attempt]) -> Iterator[Message]:
    """What the person said during attempts, for a conversation that lacks it."""
    if lines := "\n".join(text for each in made for text in each.heard):
        yield Message("user", (Context(_HEARD.format(lines=lines)),))


def _is_of_model(error: Exception) -> bool:
    """True if another attempt may succeed where the model failed."""
    return isinstance(error, ProviderError) and not isinstance(error, ReplayMismatch)


def _why_over(agent: Agent, turn: RunningTurn, end: AttemptEnd) -> str:
    """Why there is no further attempt, in a sentence; empty if there may be one."""
    if end.lost:
        return f"No more attempts: {', '.join(end.lost)} could not be put back."
    if turn.steps >= agent.max_steps:
        return "No more attempts: the step limit of the turn is reached."
    reached = agent.budget.used_up(turn.usage)
    return f"No more attempts: {reached[0].lower()}{reached[1:]}." if reached else ""


class Vote:
    """Compares attempts by their values.

    Attempts that left the person's variables as they were come first: if there are any, they alone
    count. The most frequent value wins, of several such values the earliest.

    Args:
        made: The attempts, in order.

    Attributes:
        taken: The attempt to take: the first one with the winning value. If none succeeded, the
            first that has an answer at all; None if the model failed each time.
        text: The result in a line for the user.
    """

    def __init__(self, made: Sequence[Attempt]) -> None:
        voters = [each for each in made if each.value is not None]
        intact = [each for each in voters if each.is_intact]
        self._made, self._counted = made, intact or voters
        self._spoilt = len(voters) - len(self._counted)
        self._failed = len(made) - len(voters)
        groups: list[list[Attempt]] = []
        for each in self._counted:
            found = next((g for g in groups if same_value(g[0].value, each.value)), None)
            if found is None:
                groups.append([each])
            else:
                found.append(each)
        self._groups = groups
        answered = (each for each in made if each.outcome.error is None)
        self._best = max(groups, key=len, default=[])
        self.taken = self._best[0] if self._best else next(answered, None)
        self.text = " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        total = len(self._made)
        if not self._best:
            yield f"None of {count(total, 'attempt')} succeeded."
            return
        yield self._agreement(total)
        if self._spoilt:
            yield f"{count(self._spoilt, 'attempt')} changed your variables and did not count."
        if self._failed:
            yield f"{count(self._failed, 'attempt')} did not succeed."

    def _agreement(self, total: int) -> str:
        best, counted = self._best, self._counted
        if len(best) == total > 1:
            return f"All {total} attempts agree."
        if len(counted) == 1:
            return f"Only attempt {best[0].number} of {total} counts."
        value = _short(best[0].value)
        if len(self._groups) == 1:
            return f"{len(best)} of {total} attempts agree on {value}."
        if len(best) == 1:
            shown = ", ".join(_short(each.value) for each in counted)
            values = f"{len(counted)} attempts, {len(self._groups)} different values"
            return f"{values}: {shown}. The first is taken."
        others = [_short(each.value) for each in counted if each not in best]
        which = "the other" if len(others) == 1 else "the others"
        tie = sum(len(group) == len(best) for group in self._groups) > 1
        more = " As many agree on another value; the earliest is taken." if tie else ""
        agree = f"{len(best)} of {total} attempts agree on {value}"
        return f"{agree}; {which}: {', '.join(others)}.{more}"


class _Seen:
    """A sink that passes events on, and notes what an attempt showed, said, and was told."""

    def __init__(self, emit: Sink) -> None:
        self._emit = emit
        self._heard: list[str] = []
        self._question = ""
        self._code: set[str] = set()
        self._text = ""
        self._ran: list[ToolResult] = []

    def __call__(self, event: Event) -> None:
        match event:
            case MessageFinished(message=message):
                self._code |= {call.id for call in message.tool_calls if call.name == ACT}
                self._text = "" if message.tool_calls else message.text
            case ToolFinished(result=result) if result.call_id in self._code:
                if result.details.get("state") not in _NOT_RUN:
                    self._ran.append(result)
            case QuestionAsked(question=question):
                self._question = question
            case QuestionAnswered(text=text, by="person"):
                self._heard.append(f"{self._question} – {text}")
            case Steered(text=text):
                self._heard.append(text)
        self._emit(event)

    def attempt(
        self, number: int, outcome: TurnOutcome, history: Sequence[Message], end: AttemptEnd
    ) -> Attempt:
        """The attempt that has ended."""
        task = history[task_index(history)].text
        value = self._value(task) if outcome.stop_reason == "end" else None
        return Attempt(number, outcome, tuple(history), value, end.is_intact, tuple(self._heard))

    def _value(self, task: str) -> str | None:
        """The attempt's value; None if its last code failed.

        That is what the last code with an output showed; the text of the answer if there is none.
        Where the task gives a format with places, `@name[value]`, it is the values in them.
        """
        if self._ran and self._ran[-1].is_error:
            return None
        shown = (_shown(result) for result in reversed(self._ran) if not result.is_error)
        output = next(filter(str.strip, shown), "")
        for text in (self._text, output):
            if fits(task, text):
                parts = as_fitting_answer(task, text).split("@")
                return " ".join(sorted(normalized(part.strip(" ,;\n")) for part in parts)).strip()
        return normalized(output or self._text)


def _shown(result: ToolResult) -> str:
    """What code printed, and the value of its last expression; else what it displayed."""
    for kinds in (("stdout", "result"), ("display",)):
        shown = [str(o.data.get("text/plain", "")) for o in result.display if o.kind in kinds]
        if any(map(str.strip, shown)):
            return "\n".join(shown)
    return ""


def normalized(text: str) -> str:
    """A value without differences of blanks, quotes, addresses and numpy's number types."""
    return " ".join(unquoted(plain_numbers(stable(text)).strip()).split())


def same_value(one: str | None, other: str | None) -> bool:
    """True if two normalized values differ at most by the rounding of their numbers."""
    if one is None or other is None:
        return one is other
    ours, theirs = _NUMBER.split(one), _NUMBER.split(other)
    return (
        len(ours) == len(theirs)
        and ours[::2] == theirs[::2]
        and all(map(_same_number, ours[1::2], theirs[1::2]))
    )


def _same_number(one: str, other: str) -> bool:
    if one == other:
        return True
    if one.lstrip("+-").isdecimal() and other.lstrip("+-").isdecimal():
        return int(one) == int(other)  # exact, however long
    return math.isclose(float(one), float(other), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _short(value: str | None) -> str:
    """A value as the user sees it; empty for none."""
    if value is None:
        return ""
    return one_line(value, _SHORT) if value.strip() else "no value"
