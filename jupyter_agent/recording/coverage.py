"""Matches the tasks of a notebook with the turns of a cassette, and finds those without a match."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_agent.recording.cassette import Cassette
from jupyter_agent.recording.comparison import Item, exact
from jupyter_agent.recording.miss import difference

_SKILLS = re.compile(r"^(?:/[\w-]+\s+)+")


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a notebook.

    Args:
        text: Its text, without the names of skills in front.
        repeats: True if it may run any number of times, as in a loop.
    """

    text: str
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """The matches of tasks and recorded turns, by their numbers from 0.

    Attributes:
        recorded: For each task the turns that answer it; empty for a missing one.
        orphans: The turns without a task.
    """

    recorded: tuple[tuple[int, ...], ...]
    orphans: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """The tasks without a recording."""
        return tuple(number for number, turns in enumerate(self.recorded) if not turns)


def coverage(tasks: Sequence[Task], cassette: Cassette, root: Path | None = None) -> Coverage:
    """Match each task with the recorded turns that answer it, in the order of both.

    Each task gets the first turn that is left; the tasks that repeat share the remaining ones.
    Tasks are compared to the letter, as in a replay.

    Args:
        tasks: The tasks of a notebook, in its order.
        cassette: The recorded turns.
        root: The workspace's folder: paths in it are the same wherever it lies.
    """
    left: dict[str, list[int]] = {}
    for number, turn in enumerate(cassette.turns):
        if not turn.of:
            left.setdefault(turn.task, []).append(number)
    wanted = [_answering(task.text, left, root) for task in tasks]
    once = {
        number: (turns.pop(0),)
        for number, turns in enumerate(wanted)
        if turns and not tasks[number].repeats
    }
    recorded = tuple(
        tuple(turns) if tasks[number].repeats else once.get(number, ())
        for number, turns in enumerate(wanted)
    )
    used = {turn for turns in recorded for turn in turns}
    answered = {cassette.turns[number].task for number in used}
    orphans = tuple(
        number
        for number, turn in enumerate(cassette.turns)
        if number not in used and turn.of not in answered
    )
    return Coverage(recorded, orphans)


def _answering(text: str, left: Mapping[str, list[int]], root: Path | None) -> list[int]:
    """The turns for a task, also after the name of a skill that only a run knows."""
    text = exact(text, root)
    return left.get(text) or left.get(exact(_SKILLS.sub("", text), root), [])


def nearest(task: str, cassette: Cassette, root: Path | None = None) -> str:
    """A line about the difference to the most similar recorded task; empty if none is similar."""
    wanted, tasks = exact(task, root), [turn.task for turn in cassette.turns]
    near = difflib.get_close_matches(wanted, tasks, 1, cutoff=0.3)
    if not near or near[0] == wanted:
        return ""
    return difference(Item("task", near[0]), Item("task", wanted))
