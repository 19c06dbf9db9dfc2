"""`%agent undo`: undo turns, preview that, redo; and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.core.plaintext import count, one_line, plain
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.undo.cells import CellEdits
from jupyter_agent.undo.checkpoints import NOTHING, Checkpoints
from jupyter_agent.undo.journal import JournalRecord
from jupyter_agent.undo.namespace import IN_PLACE, Bindings, Rebound, names
from jupyter_agent.undo.plan import Undo, UndoStep
from jupyter_agent.undo.storage import TRASH

_LISTED = 20
NO_CHANGE = "no change was seen"
_DONE = {
    "restored": "restored",
    "removed": "removed, to the trash",
    "conflict": "left as it is: ",
    "not_restorable": "not restorable: ",
    "failed": "failed: ",
}
_PLANNED = {
    "restored": "would be restored",
    "removed": "would go to the trash",
    "conflict": "would be left as it is: ",
    "not_restorable": "not restorable: ",
}


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What an undo says: `text` to the person, `news` to the model with its next task.

    Attributes:
        subject: What was undone, or taken back.
        changes: What was put back or left, a line each.
        hints: What the person should know or may do then, a line each.
    """

    subject: str
    changes: tuple[str, ...]
    hints: tuple[str, ...]
    news: str

    @property
    def text(self) -> str:
        changes = self.changes or (f"{NO_CHANGE}, so nothing was put back",)
        return "\n".join([self.subject, *(f"  {line}" for line in changes), *self.hints])


def undo(
    checkpoints: Checkpoints,
    bindings: Bindings,
    namespace: MutableMapping[str, Any],
    turns: int = 1,
    over: Sequence[str] = (),
) -> UndoReport:
    """Undo the last turns.

    Args:
        checkpoints: Undoes files.
        bindings: Undoes variables.
        namespace: The kernel's variables.
        turns: How many turns.
        over: Files to restore even if they were changed after the turn.

    Raises:
        AgentError: There is no such turn, or it cannot be undone now.
    """
    return _apply(checkpoints.plan(turns, over), checkpoints, bindings, namespace)


def redo(
    checkpoints: Checkpoints, bindings: Bindings, namespace: MutableMapping[str, Any]
) -> UndoReport:
    """Take the last undo back.

    Raises:
        AgentError: There is none, or it cannot be taken back now.
    """
    return _apply(checkpoints.plan_back(), checkpoints, bindings, namespace)


def preview(
    checkpoints: Checkpoints, bindings: Bindings, turns: int = 1, over: Sequence[str] = ()
) -> str:
    """Say what `undo` would do. Raises `AgentError` as `undo` does."""
    return _preview(checkpoints.plan(turns, over), bindings)


def _apply(
    plan: Undo,
    checkpoints: Checkpoints,
    bindings: Bindings,
    namespace: MutableMapping[str, Any],
) -> UndoReport:
    undone = checkpoints.apply(plan)
    records = [record.id for record in undone.records]
    rebound = bindings.rewind(records, undone.id, namespace)
    forgotten = [record for record in records if not bindings.knows(record)]
    unseen = [*_notices(undone.records), *_unseen(undone.records, bindings)]
    return UndoReport(
        f"{'Taken back' if undone.kind == 'redo' else 'Undone'}: {_subject(undone)}",
        tuple(_changes(undone, rebound, bool(forgotten))),
        (*unseen, *_hints(undone)),
        _news(undone, rebound),
    )


def listed(checkpoints: Checkpoints, bindings: Bindings, cells: CellEdits) -> str:
    """List the turns that can be undone, the newest first."""
    checkpoints.settle_if_possible()
    turns, others = checkpoints.turns(), checkpoints.turns_of_others()
    rows = [
        f"{number:>3}  {_named(turn)}  {_changed(turn, bindings, cells)}"
        for number, turn in enumerate(turns[:_LISTED], 1)
    ]
    more = [f"     and {len(turns) - _LISTED} earlier ones"] if len(turns) > _LISTED else []
    theirs = [
        f"  -  {_named(turn)}  {_files(turn)}  of another kernel; undo it there"
        for turn in others[:_LISTED]
    ]
    first = "%agent undo N goes back N turns:" if turns else NOTHING
    return "\n".join([first, *rows, *more, *theirs, *checkpoints.remarks()])


def _changed(turn: JournalRecord, bindings: Bindings, cells: CellEdits) -> str:
    if edits := len(cells.titles([turn.id])):
        return f"{_files(turn)}, {count(edits, 'edit')} of the notebook"
    all_is_known = bindings.knows(turn.id) and not turn.notices
    nothing = all_is_known and not bindings.changed(turn.id) and not turn.entries
    return NO_CHANGE if nothing else _files(turn)


def _files(turn: JournalRecord) -> str:
    return count(sum(bool(entry.left) for entry in turn.entries.values()), "file")


def _preview(plan: Undo, bindings: Bindings) -> str:
    what = "carried on" if plan.id else "taken back" if plan.kind == "redo" else "undone"
    lines = [f"Would be {what}: {_subject(plan)}"]
    for step in plan.steps:
        found = _line(step.path, _PLANNED[step.outcome] + step.why, step.diff)
        lines += [f"  {line}" for line in found]
    if not plan.steps:
        lines.append("  no file would change")
    lines += _notices(plan.records)
    if not any(bindings.knows(record.id) for record in plan.records):
        lines.append("  variables: their values are not kept, so none would change")
    elif changed := dict.fromkeys(
        name for record in plan.records for name in bindings.changed(record.id)
    ):
        lost = {name for record in plan.records for name in bindings.lost(record.id)}
        kept = [name for name in changed if name not in lost]
        if kept:
            lines.append(f"  {', '.join(map(plain, kept))}: would be as before")
        lines += [f"  {plain(name)}: not restorable: {IN_PLACE}" for name in sorted(lost)]
    lines += _unseen(plan.records, bindings)
    return "\n".join(lines)


def _notices(records: Iterable[JournalRecord]) -> list[str]:
    """The notices of turns, but for files that the report lists anyway."""
    found = (
        notice
        for record in records
        for notice in record.notices
        if not any(notice.startswith(f"{path}: cannot be restored") for path in record.entries)
    )
    return [f"  {one_line(notice, 300)}" for notice in dict.fromkeys(found)]


def _unseen(records: Iterable[JournalRecord], bindings: Bindings) -> list[str]:
    names = dict.fromkeys(name for record in records for name in bindings.unseen(record.id))
    return [f"  not checked for changes inside: {', '.join(map(plain, names))}"] if names else []


def _changes(undone: Undo, rebound: Sequence[Rebound], variables_forgotten: bool) -> Iterator[str]:
    for step in undone.steps:
        yield from _line(step.path, _DONE[step.outcome] + step.why, step.diff)
    yield from _variables(rebound)
    if variables_forgotten:
        yield "variables: their values are not kept any more, so they stay as they are"


def _hints(undone: Undo) -> Iterator[str]:
    outcomes = {step.outcome for step in undone.steps}
    number = len(undone.turns)
    if "failed" in outcomes:
        yield (
            f"%agent undo tries again what failed; %agent undo {number + 1} goes on to the turn "
            "before."
            if undone.kind == "undo"
            else "%agent undo redo tries again what failed."
        )
    if "removed" in outcomes:
        # Not by name, which contains the time: the line stays in notebooks that are replayed.
        yield f"The trash is the newest folder in {STATE_FOLDER}/{TRASH}"
    if "conflict" in outcomes:
        yield (
            "To restore a file that was left: %agent undo redo, then %agent undo "
            f"{number} --over FILE"
        )
    elif undone.kind == "undo":
        yield "To take it back: %agent undo redo"


def _variables(rebound: Sequence[Rebound]) -> list[str]:
    kinds = [
        ("bound as before", names(rebound, "bound")),
        ("removed", names(rebound, "removed")),
        ("bound to a copy from before, since they were changed in place", names(rebound, "copied")),
    ]
    lines = [f"{', '.join(found)}: {what}" for what, found in kinds if found]
    left = [each for each in rebound if each.outcome in ("conflict", "not_restorable")]
    return [*lines, *(f"{each.name}: left as it is: {each.why}" for each in left)]


def _line(path: str, what: str, diff: str) -> list[str]:
    indented = [f"  {line}" for line in plain(diff).split("\n")] if diff else []
    return [f"{one_line(path, 200)}: {what}", *indented]


def _subject(undo: Undo) -> str:
    turns = [record for record in undo.records if record.kind == "turn"]
    if not turns:
        return "the last undo"
    if len(turns) == 1:
        return f"the turn {_named(turns[0])}"
    return f"{len(turns)} turns, back to before {_named(turns[-1])}"


def _named(record: JournalRecord) -> str:
    task = redact(record.task, secret_values())  # an earlier version kept secrets in it
    return f"“{one_line(task, 60) or '(no task)'}”"


# For the model -----------------------------------------------------------------------------------


def _news(undone: Undo, rebound: Sequence[Rebound]) -> str:
    """Tells the model what changed behind its back."""
    if undone.kind == "redo":
        first = "The person took back the last undo: what it had undone is there again."
    else:
        number = len(undone.turns)
        which = "your last turn" if number == 1 else f"your last {number} turns"
        first = f"The person undid {which}. What you did there is not so any more."
    files = [
        ("Files put back as they were", _paths(undone.steps, "restored")),
        ("Files removed", _paths(undone.steps, "removed")),
        (
            "Files that were left as they are",
            _paths(undone.steps, "conflict", "not_restorable", "failed"),
        ),
        ("Variables bound as before", names(rebound, "bound", "copied")),
        ("Variables removed", names(rebound, "removed")),
        ("Variables left as they are", names(rebound, "conflict", "not_restorable")),
    ]
    lines = [f"{what}: {_some(found)}" for what, found in files if found]
    return "\n".join([first, *lines])


def _paths(steps: Iterable[UndoStep], *outcomes: str) -> list[str]:
    return [one_line(step.path, 200) for step in steps if step.outcome in outcomes]


def _some(found: list[str]) -> str:
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(found[:_LISTED]) + more
