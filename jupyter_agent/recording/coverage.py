"""Which tasks of a notebook a cassette holds replies for, and which replies nobody asks for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_agent.recording.cassette_model import Cassette, RecordedCall
from jupyter_agent.recording.digests import Item, exact
from jupyter_agent.recording.miss import difference

_SKILLS = re.compile(r"^(?:/[\w-]+\s+)+")


@dataclass(frozen=True, slots=True)
class Task:
    """A task as a notebook gives it.

    Args:
        text: As it is typed, without the names of skills in front of it.
        repeats: Whether it may be asked any number of times, as by a call in a loop.
    """

    text: str
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """How tasks and recorded turns go together, by their numbers from 0.

    Attributes:
        recorded: For each task the turns that answer it; none for one that is missing.
        orphans: The turns that no task asks for.
    """

    recorded: tuple[tuple[int, ...], ...]
    orphans: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """The tasks without a recording."""
        return tuple(number for number, turns in enumerate(self.recorded) if not turns)


def coverage(tasks: Sequence[Task], cassette: Cassette, root: Path | None = None) -> Coverage:
    """Give each task the recorded turns that answer it, in the order of both.

    A task takes one turn, the first that is left. Those that repeat share what is left after
    that. Tasks are compared to the letter, as in a replay.

    Args:
        tasks: Those of a notebook, in its order.
        cassette: What was recorded.
        root: The workspace's folder: paths in it are the same wherever it lies.
    """
    left: dict[str, list[int]] = {}
    for number, turn in enumerate(cassette.turns):
        left.setdefault(task_of(turn), []).append(number)
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
    orphans = tuple(number for number in range(len(cassette.turns)) if number not in used)
    return Coverage(recorded, orphans)


def _answering(text: str, left: Mapping[str, list[int]], root: Path | None) -> list[int]:
    """The turns for a task. A skill that only the run knows may still stand in front of it."""
    text = exact(text, root)
    return left.get(text) or left.get(exact(_SKILLS.sub("", text), root), [])


def task_of(turn: Sequence[RecordedCall]) -> str:
    """The task of a recorded turn, as it is compared; empty where its first line holds none."""
    return next((item.text for item in turn[0].asked if item.kind == "task"), "")


def nearest(task: str, cassette: Cassette, root: Path | None = None) -> str:
    """How the recorded task that is most like `task` differs from it; empty without one."""
    wanted, tasks = exact(task, root), [task_of(turn) for turn in cassette.turns]
    near = difflib.get_close_matches(wanted, tasks, 1, cutoff=0.3)
    if not near or near[0] == wanted:
        return ""
    return difference(Item("task", near[0]), Item("task", wanted))
