"""The messages of a replay that differs from its recording."""

from __future__ import annotations

import difflib
import shlex

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.recording.cassette import Cassette, RecordedTurn
from jupyter_agent.recording.comparison import Item
from jupyter_agent.recording.varying import learn

_CASSETTE = ".cassette.jsonl"
_AGAIN = "To record this cell anew, %agent config mode record and run it, or in a terminal:"
_PROVE = "It was recorded in a single run. To learn what varies from run to run:"
_OF_EARLIER_RUNS = ("Recorded note: ", "Saved decision to ", "Saved lesson to ")
"""The beginnings of results that change if the note or the entry exists already."""


def record_again(file_name: str, task: str) -> str:
    """How to record one cell anew: a line in words, then the command on a line of its own."""
    return f"{_AGAIN}\njupyter agent record {_notebook(file_name)} --task {_words(task)}"


def _notebook(file_name: str) -> str:
    """The notebook of a cassette, as a word of a command."""
    is_one = file_name.endswith(_CASSETTE) and " or " not in file_name
    return shlex.quote(file_name.removesuffix(_CASSETTE) + ".ipynb") if is_one else "NOTEBOOK"


def _words(task: str) -> str:
    """The first words of a task, as a word of a command."""
    line = next((line for line in task.split("\n") if line.strip()), "")
    return shlex.quote(" ".join(line.split()[:6]))


def unknown_task(cassette: Cassette, file_name: str, task: str) -> str:
    """The message for a task that no turn of a cassette answers."""
    message = f"No reply in {file_name} for the task {one_line(task, 60)!r}."
    near = difflib.get_close_matches(task, [turn.task for turn in cassette.turns], 1, cutoff=0.3)
    if near:
        parted = difference(Item("task", near[0]), Item("task", task))
        message += f" The nearest differs: {parted}"
    return f"{message} {record_again(file_name, task)}"


def without_reply(file_name: str, turn: RecordedTurn, step: int) -> str:
    """The message for a step that a turn has no reply for."""
    steps = len(turn.steps)
    if step > steps:
        what = f"{file_name} has {steps} replies for this task, not {step}."
    else:
        what = f"Step {step} followed other lines of the user than recorded."
    return f"{what} {record_again(file_name, turn.task)}"


def different_result(
    file_name: str, turn: RecordedTurn, step: int, which: tuple[int, int], recorded: str, now: str
) -> str:
    """The message for a result that differs from the recorded one.

    Args:
        file_name: The name of the cassette.
        turn: The recorded turn.
        step: The number of the step that reads the result.
        which: The number of the result among those of its step, and how many they are.
        recorded: Its recorded text.
        now: Its text in this run.
    """
    number, count = which
    where = "in the result" if count < 2 else f"in result {number} of {count}"
    parted = difference(Item("result", recorded), Item("result", now), where)
    again = record_again(file_name, turn.task)
    if recorded.startswith(_OF_EARLIER_RUNS):
        again = f"Start from a folder without what the turn saves. {again}"
    elif turn.runs < 2 and learn(recorded, now) is not None:
        again = f"{_PROVE}\njupyter agent record {_notebook(file_name)} --prove"
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
