"""The messages of a replay that differs from its recording."""

from __future__ import annotations

import difflib

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.recording.cassette import Cassette, RecordedTurn
from jupyter_agent.recording.comparison import Item
from jupyter_agent.recording.varying import learn

THIS_CELL = (
    "To record this cell and no other: %agent config mode record, run the cell, "
    "%agent config mode replay; or jupyter agent record NOTEBOOK --cell N."
)
PROVE = "To learn what varies from run to run: jupyter agent record NOTEBOOK --prove."
_OF_EARLIER_RUNS = ("Recorded note: ", "Saved decision to ", "Saved lesson to ")
"""The beginnings of results that change if the note or the entry exists already."""


def unknown_task(cassette: Cassette, file_name: str, task: str) -> str:
    """The message for a task that no turn of a cassette answers."""
    message = f"No reply in {file_name} for the task {one_line(task, 60)!r}."
    near = difflib.get_close_matches(task, [turn.task for turn in cassette.turns], 1, cutoff=0.3)
    if near:
        parted = difference(Item("task", near[0]), Item("task", task))
        message += f" The nearest differs: {parted}"
    return f"{message} {THIS_CELL}"


def without_reply(file_name: str, turn: RecordedTurn, step: int) -> str:
    """The message for a step that a turn has no reply for."""
    steps = len(turn.steps)
    if step > steps:
        return f"{file_name} has {steps} replies for this task, not {step}. {THIS_CELL}"
    return f"Step {step} followed other lines of the user than recorded. {THIS_CELL}"


def different_result(
    turn: RecordedTurn, step: int, which: tuple[int, int], recorded: str, now: str
) -> str:
    """The message for a result that differs from the recorded one.

    Args:
        turn: The recorded turn.
        step: The number of the step that reads the result.
        which: The number of the result among those of its step, and how many they are.
        recorded: Its recorded text.
        now: Its text in this run.
    """
    number, count = which
    where = "in the result" if count < 2 else f"in result {number} of {count}"
    parted = difference(Item("result", recorded), Item("result", now), where)
    again = THIS_CELL
    if recorded.startswith(_OF_EARLIER_RUNS):
        again = f"Start from a folder without what the turn saves. {THIS_CELL}"
    elif turn.runs < 2 and learn(recorded, now) is not None:
        again = f"It was recorded in a single run. {PROVE} {THIS_CELL}"
    return f"Step {step} went another way than recorded: {parted} {again}"


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
