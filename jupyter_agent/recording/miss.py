"""The messages of a replay that differs from its recording."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from jupyter_agent.core.messages import Message
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.recording.cassette_model import Cassette, RecordedCall
from jupyter_agent.recording.digests import Item, asked, extend, items, items_before

THIS_CELL = (
    "To record this cell and no other: %agent config mode record, run the cell, "
    "%agent config mode replay; or jupyter agent record NOTEBOOK --cell N."
)
_OF_FIRST_KIND = (
    "was recorded by an earlier version, which did not compare times, durations, ids and paths in "
    "tasks and calls, so that it may answer another task."
)
_OF_EARLIER_RUNS = ("Recorded note: ", "Saved decision to ", "Saved lesson to ")
"""The beginnings of results that change if the note or the entry exists already."""


def explain(
    cassette: Cassette, file_name: str, turn: Sequence[Message], root: Path | None = None
) -> str:
    """The message about the first difference between a recording and its replay.

    Args:
        cassette: The recording.
        file_name: The name of its file.
        turn: The messages of the current turn, for which no reply is recorded.
        root: The workspace's folder: paths in it are the same wherever it lies.
    """
    if _is_of_first_kind(cassette, turn, root):
        return f"{file_name} {_OF_FIRST_KIND} {THIS_CELL}"
    task = next(item.text for item in items(turn[0], root) if item.kind == "task")
    recorded = _recorded_turn(cassette, task)
    if recorded is None:
        return _unknown_task(cassette, file_name, task)
    step = sum(message.role == "assistant" for message in turn) + 1
    if step > len(recorded):
        return f"{file_name} has {len(recorded)} replies for this task, not {step}. {THIS_CELL}"
    current = asked(turn, root)
    for number, (old, new) in enumerate(zip(recorded[step - 1].asked, current, strict=False), 1):
        if old != new:
            which = _which(new.kind, number, current)
            parted = difference(old, new, which)
            again = THIS_CELL
            if old.text.startswith(_OF_EARLIER_RUNS):
                again = f"Start from a folder without what the turn saves. {THIS_CELL}"
            return f"Step {step} went another way than recorded: {parted} {again}"
    if len(current) != len(recorded[step - 1].asked):
        return (
            f"Step {step} went another way than recorded: "
            f"{len(recorded[step - 1].asked)} things were "
            f"said to the model then, {len(current)} now. {THIS_CELL}"
        )
    if step == 1:
        return (
            f"{file_name} holds this task under a digest that is not its own: the line was damaged "
            f"or edited by hand. {THIS_CELL}"
        )
    return f"Step {step} followed other tool calls or results than recorded. {THIS_CELL}"


def _is_of_first_kind(cassette: Cassette, turn: Sequence[Message], root: Path | None) -> bool:
    """True if only the comparison of the first cassettes finds this turn."""
    said = [item for message in turn for item in items_before(message)]
    exactly = [item for message in turn for item in items(message, root)]
    if [item.text.split() for item in said] == [item.text.split() for item in exactly]:
        return False  # blanks at the ends of lines differ: an edit of the task
    digest = extend("", said)
    return any(entry.turn == digest for turn in cassette.turns for entry in turn)


def _recorded_turn(cassette: Cassette, task: str) -> tuple[RecordedCall, ...] | None:
    for turn in cassette.turns:
        if turn[0].asked and turn[0].asked[0].text == task:
            return turn
    return None


def _unknown_task(cassette: Cassette, file_name: str, task: str) -> str:
    tasks = [turn[0].asked[0].text for turn in cassette.turns if turn[0].asked]
    near = difflib.get_close_matches(task, tasks, 1, cutoff=0.3)
    message = f"No reply in {file_name} for the task {one_line(task, 60)!r}."
    if near:
        parted = difference(Item("task", near[0]), Item("task", task))
        message += f" The nearest differs: {parted}"
    return f"{message} {THIS_CELL}"


def _which(kind: str, number: int, current: Sequence[Item]) -> str:
    """The words for one of several items: its kind, and its number among its kind."""
    same = [place for place, item in enumerate(current, 1) if item.kind == kind]
    if len(same) < 2 or number not in same:
        return f"in the {kind}"
    return f"in {kind} {same.index(number) + 1} of {len(same)}"


def difference(recorded: Item, current: Item, where: str = "") -> str:
    """The words around the first difference of two texts, for a message in one line.

    Args:
        recorded: The recorded item.
        current: The item of the replay.
        where: Words for the item; empty: `in the` and its kind.
    """
    where = where or f"in the {current.kind}"
    old, new = recorded.text.split(), current.text.split()
    if old == new:
        return f"{where}, where only white space differs."
    start = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    first = max(0, start - 3)
    before, after = " ".join(old[first : start + 6]), " ".join(new[first : start + 6])
    return f"{where}, recorded {one_line(before)!r}, now {one_line(after)!r}."
