"""Learns what varies in a recording from a second run of the same turns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.recording.cassette import (
    Cassette,
    FileState,
    RecordedResult,
    RecordedStep,
    RecordedTurn,
    RecordedVariable,
)
from jupyter_agent.recording.files import READERS
from jupyter_agent.recording.varying import hint, learn, match, spans, unmarked

_CLOCK = re.compile(r"\b(?:perf_counter|process_time|monotonic|time\.time|default_timer)\b")


@dataclass(frozen=True, slots=True)
class Variation:
    """A line of a result, or a variable, with values that vary from run to run.

    Args:
        task: The task of its turn.
        step: The number of the step that gave it, from 1; 0 for a variable of the receipt.
        line: The line with its marks.
    """

    task: str
    step: int
    line: str

    @property
    def words(self) -> str:
        """One line for a person: the marked line, and hints."""
        hints = dict.fromkeys(hint(span) for span in spans(self.line))
        where = f"step {self.step}:" if self.step else "variable"
        return f"{where} {one_line(self.line, 80)} ({'; '.join(hints)})"


@dataclass(frozen=True, slots=True)
class Unlike:
    """A result that has another form in the second run, so that no replay can follow it.

    Args:
        task: The task of its turn.
        step: The number of the step that gave it, from 1.
        words: The first lines that differ.
    """

    task: str
    step: int
    words: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A cassette in which the spans that vary are marked, and the results that have no form."""

    cassette: Cassette
    unlike: tuple[Unlike, ...] = ()

    @property
    def variations(self) -> tuple[Variation, ...]:
        """All varying spans of the cassette."""
        return variations(self.cassette)


def variations(cassette: Cassette) -> tuple[Variation, ...]:
    """The lines of a cassette's results that vary, in the order of its turns."""
    return tuple(
        Variation(turn.task, step, line) for turn in cassette.turns for step, line in turn.varying()
    )


def learn_cassette(first: Cassette, again: Cassette, times: Iterable[datetime] = ()) -> Learned:
    """Mark what varies between a recording and a second run of it.

    Args:
        first: The recording, which may have marks already.
        again: The same turns, recorded by a `Rerun`. Turns without a second run stay as they are.
        times: The times of the runs, by which a printed date of today is known.
    """
    unlike: list[Unlike] = []
    left = list(again.turns)
    learner = _Learner(tuple(times), unlike)
    turns = []
    for turn in first.turns:
        other = next((each for each in left if _is_rerun(turn, each)), None)
        if other is not None:
            left.remove(other)
        turns.append(learner.turn(turn, other) if other is not None else turn)
    return Learned(replace(first, turns=tuple(turns)), tuple(unlike))


def _is_rerun(turn: RecordedTurn, other: RecordedTurn) -> bool:
    return turn.task == other.task and [s.reply for s in turn.steps] == [
        s.reply for s in other.steps
    ]


class _Learner:
    """Marks the turns of a cassette.

    Args:
        times: The times of the runs.
        unlike: Gets the results that have another form in the second run.
    """

    def __init__(self, times: Sequence[datetime], unlike: list[Unlike]) -> None:
        self._times = times
        self._unlike = unlike
        self._task, self._step = "", 0

    def turn(self, turn: RecordedTurn, again: RecordedTurn) -> RecordedTurn:
        self._task = turn.task
        steps = []
        for self._step, (step, other) in enumerate(zip(turn.steps, again.steps, strict=True), 1):
            steps.append(self._marked_step(step, other))
        return replace(
            turn,
            steps=tuple(steps),
            runs=turn.runs + 1,
            variables=tuple(_variables(turn.variables, again.variables, self._times)),
            files=tuple(_files(turn.files, again.files)),
        )

    def _marked_step(self, step: RecordedStep, again: RecordedStep) -> RecordedStep:
        left = list(again.results)
        results = []
        for result in step.results:
            key = result.call, result.tool, result.arguments
            other = next((r for r in left if (r.call, r.tool, r.arguments) == key), None)
            if other is None:
                results.append(result)
                continue
            left.remove(other)
            results.append(self._marked_result(result, other, _measures(step, result)))
        return replace(step, results=tuple(results))

    def _marked_result(
        self, result: RecordedResult, again: RecordedResult, measures: bool
    ) -> RecordedResult:
        if result.given is not None and result.tool not in READERS:
            return result  # a replay gives it as it is
        now = unmarked(again.text)
        text = learn(result.text, now, self._times, measures)
        if text is None:
            words = _first_lines(unmarked(result.text), now)
            self._unlike.append(Unlike(self._task, self._step, words))
            return result
        return replace(result, text=text, shown=self._shown(result, again))

    def _shown(self, result: RecordedResult, again: RecordedResult) -> dict[int, dict[str, str]]:
        """The rich outputs that vary; the others are as each run makes them."""
        found: dict[int, dict[str, str]] = {}
        for number, texts in result.shown.items():
            for name, text in texts.items():
                now = again.shown.get(number, {}).get(name)
                if now is None:
                    continue
                learned = learn(text, unmarked(now), self._times)
                if learned is None or spans(learned) or unmarked(now) != unmarked(text):
                    found.setdefault(number, {})[name] = learned or text
        return found


def _measures(step: RecordedStep, result: RecordedResult) -> bool:
    """True if the code of a call looks at a clock."""
    calls = step.reply.message.tool_calls
    return 0 <= result.call < len(calls) and bool(_CLOCK.search(calls[result.call].arguments))


def _variables(
    recorded: Sequence[RecordedVariable],
    again: Sequence[RecordedVariable],
    times: Sequence[datetime],
) -> Iterator[RecordedVariable]:
    now = {(each.name, each.kind): each for each in again}
    for variable in recorded:
        other = now.get((variable.name, variable.kind))
        if other is None:
            yield variable
        else:
            learned = learn(variable.summary, unmarked(other.summary), times)
            yield replace(variable, summary=learned or variable.summary)


def _files(recorded: Sequence[FileState], again: Sequence[FileState]) -> Iterator[FileState]:
    now = {(each.path, each.kind): each for each in again}
    for state in recorded:
        other = now.get((state.path, state.kind))
        differs = other is not None and other.digest != state.digest
        yield replace(state, varies=state.varies or differs)


def _first_lines(recorded: str, now: str) -> str:
    """The first lines that differ, and the likely reason."""
    then, current = recorded.split("\n"), now.split("\n")
    if sorted(then) == sorted(current):
        return f"the same lines in another order ({one_line(then[0], 60)!r}): sort them"
    for old, new in zip(then, current, strict=False):
        if learn(old, new) is None and match(old, new) is None:
            return f"{one_line(old, 60)!r} became {one_line(new, 60)!r}"
    at = min(len(then), len(current))
    line = (then if len(then) > len(current) else current)[at]
    what = "is gone" if len(then) > len(current) else "was added"
    difference = difflib.unified_diff(then, current, n=0, lineterm="")
    extra = next((x[1:] for x in difference if x[:1] in "+-" and x[:3] not in ("+++", "---")), line)
    return f"{one_line(extra, 60)!r} {what}: the second run has other lines (set a seed, or sort)"
