"""What a replay says where what happened is not what was recorded."""

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
"""How results begin that are others where the note or the entry is there already."""


def explain(
    cassette: Cassette, file_name: str, turn: Sequence[Message], root: Path | None = None
) -> str:
    """The first difference between what was recorded and what happened.

    Args:
        cassette: What was recorded.
        file_name: How its file is called.
        turn: The messages of the turn at hand; the last of them has no recorded reply.
        root: The workspace's folder: paths in it are the same wherever it lies.
    """
    if _is_of_first_kind(cassette, turn, root):
        return f"{file_name} {_OF_FIRST_KIND} {THIS_CELL}"
    task = next(item.text for item in items(turn[0], root) if item.kind == "task")
    then = _recorded_turn(cassette, task)
    if then is None:
        return _unknown_task(cassette, file_name, task)
    step = sum(message.role == "assistant" for message in turn) + 1
    if step > len(then):
        return f"{file_name} has {len(then)} replies for this task, not {step}. {THIS_CELL}"
    now = asked(turn, root)
    for number, (was, is_now) in enumerate(zip(then[step - 1].asked, now, strict=False), 1):
        if was != is_now:
            which = _which(is_now.kind, number, now)
            parted = difference(was, is_now, which)
            again = THIS_CELL
            if was.text.startswith(_OF_EARLIER_RUNS):
                again = f"Start from a folder without what the turn saves. {THIS_CELL}"
            return f"Step {step} went another way than recorded: {parted} {again}"
    if len(now) != len(then[step - 1].asked):
        return (
            f"Step {step} went another way than recorded: {len(then[step - 1].asked)} things were "
            f"said to the model then, {len(now)} now. {THIS_CELL}"
        )
    if step == 1:
        return (
            f"{file_name} holds this task under a digest that is not its own: the line was damaged "
            f"or edited by hand. {THIS_CELL}"
        )
    return f"Step {step} followed other tool calls or results than recorded. {THIS_CELL}"


def _is_of_first_kind(cassette: Cassette, turn: Sequence[Message], root: Path | None) -> bool:
    """Whether only the way of comparing that the first cassettes had finds this turn."""
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


def _which(kind: str, number: int, now: Sequence[Item]) -> str:
    """Which of the things that were said it is."""
    same = [place for place, item in enumerate(now, 1) if item.kind == kind]
    if len(same) < 2 or number not in same:
        return f"in the {kind}"
    return f"in {kind} {same.index(number) + 1} of {len(same)}"


def difference(then: Item, now: Item, where: str = "") -> str:
    """The words around the first place where two texts part, for a message in one line.

    Args:
        then: What was recorded.
        now: What happened.
        where: Which of the things said it is; `in the` and its kind without this.
    """
    where = where or f"in the {now.kind}"
    old, new = then.text.split(), now.text.split()
    if old == new:
        return f"{where}, where only white space differs."
    start = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    first = max(0, start - 3)
    before, after = " ".join(old[first : start + 6]), " ".join(new[first : start + 6])
    return f"{where}, recorded {one_line(before)!r}, now {one_line(after)!r}."
