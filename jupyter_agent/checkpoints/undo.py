"""Undo: what would change, and the change itself, written down before it is made.

An undo is a record like a turn's: what was there before it, and what it puts there. So it can be
undone itself, and one that was interrupted is carried on from its journal.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from jupyter_agent.checkpoints.journal import (
    Entry,
    Journal,
    Record,
    before_line,
    left_line,
    target_line,
)
from jupyter_agent.checkpoints.shelf import TRASH, Shelf
from jupyter_agent.checkpoints.states import MOVED, State, look
from jupyter_agent.checkpoints.turn import missing_folders
from jupyter_agent.errors import AgentError
from jupyter_agent.tools.diffs import compare
from jupyter_agent.tools.textfile import detect
from jupyter_agent.workspace import atomic_write, private_folder

Action = Literal["restore", "remove", "conflict", "not_restorable"]
Outcome = Literal["restored", "removed", "conflict", "not_restorable", "failed"]

CHANGED_SINCE = "it was changed after the turn"
CHANGED_AGAIN = "it was changed while this was under way"
CHANGED_BETWEEN = "it was changed between the turns"
NOT_KEPT = "its content is not kept any more"
BY_A_LINK = "a folder above it is a link now"
_COMPARED_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Step:
    """What an undo does about one file. `path` is relative to the workspace's root.

    `why` and `diff` (from what is there to what would be put there) go with a conflict.
    """

    path: str
    action: Action
    now: State
    target: State
    folders: int = 0
    why: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an undo would do. `records` are undone by it, the newest first.

    `pending` is an undo that was interrupted and that is carried on.
    """

    kind: Literal["undo", "redo"]
    records: tuple[Record, ...]
    steps: tuple[Step, ...]
    pending: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file."""

    path: str
    outcome: Outcome
    why: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did. `turns` are the ids of the turns that it undid or brought back."""

    kind: Literal["undo", "redo"]
    id: str
    turns: tuple[str, ...]
    files: tuple[Done, ...]


@dataclass
class _Wanted:
    """What several records, taken together, ask for one path."""

    target: State
    left: set[str]
    folders: int
    unclear: str = ""


def plan_of(
    shelf: Shelf,
    kind: Literal["undo", "redo"],
    records: Sequence[Record],
    over: Collection[str] = (),
) -> Plan:
    """What undoing the records, given newest first, would do now.

    Args:
        over: Paths that are restored even where somebody else has changed them.
    """
    wanted = _wanted(records)
    steps = (_step(shelf, path, each, over=path in over) for path, each in sorted(wanted.items()))
    # What is put back first may be a file that is to be removed where it is now.
    found = sorted((step for step in steps if step), key=lambda step: step.action == "remove")
    return Plan(kind, tuple(records), tuple(found))


def _wanted(records: Sequence[Record]) -> dict[str, _Wanted]:
    wanted: dict[str, _Wanted] = {}
    for record in records:
        for path, entry in record.entries.items():
            if not entry.left and not entry.unclear:
                continue
            newer = wanted.get(path)
            if newer is None:
                wanted[path] = _Wanted(entry.before, set(entry.left), entry.folders, entry.unclear)
                continue
            if newer.target.mark not in (entry.before.mark, *entry.left):
                newer.unclear = newer.unclear or CHANGED_BETWEEN
            newer.unclear = newer.unclear or entry.unclear
            newer.target = entry.before
            newer.folders = max(newer.folders, entry.folders)
    return wanted


def _step(shelf: Shelf, path: str, wanted: _Wanted, over: bool) -> Step | None:
    """What to do about one path; None where it is as it should be already."""
    target = wanted.target
    try:
        now = look(shelf.workspace.root / path, {target.mark, *wanted.left})
    except OSError as error:
        return Step(path, "not_restorable", State(), target, why=str(error.strerror))
    if now.is_same(target):
        return None
    step = Step(path, "restore" if target.is_there else "remove", now, target, wanted.folders)
    if problem := _obstacle(shelf, path, now, target):
        return replace(step, action="not_restorable", why=problem)
    conflict = wanted.unclear
    if not conflict and now.mark not in (*wanted.left, target.mark):
        conflict = CHANGED_SINCE
    if conflict and not over:
        diff = _diff(shelf, path, target)
        return replace(step, action="conflict", why=conflict, diff=diff)
    return step


def _obstacle(shelf: Shelf, path: str, now: State, target: State) -> str:
    """Why a path cannot be restored; empty where it can."""
    parent = (shelf.workspace.root / path).parent
    if Path(os.path.realpath(parent)) != parent:
        return BY_A_LINK
    if now.mark.startswith("kind:"):
        return "something that is no file is there now"
    if not target.is_there or now.mark == target.mark:
        return ""
    if not target.kept:
        return target.why or NOT_KEPT
    if target.kept == "blob":
        return "" if shelf.blobs.has(target.digest) else NOT_KEPT
    source = _source(shelf, target)
    return "" if source and look(source, (target.mark,)).mark == target.mark else NOT_KEPT


def rest_of(
    shelf: Shelf, kind: Literal["undo", "redo"], record: Record, undone: tuple[Record, ...]
) -> Plan:
    """What is left to do of an undo that was interrupted."""
    steps = []
    for path, entry in record.entries.items():
        target = entry.target or entry.before
        now = look(shelf.workspace.root / path, (target.mark,))
        if not now.is_same(target):
            action: Action = "restore" if target.is_there else "remove"
            steps.append(Step(path, action, now, target, entry.emptied))
    return Plan(kind, undone, tuple(steps), record.id)


# Doing it ----------------------------------------------------------------------------------------


def apply(shelf: Shelf, plan: Plan, owner: str) -> Undone:
    """Do what a plan says, as far as things still are as it found them.

    Raises:
        AgentError: It could not be written down; then nothing was changed.
        OSError: Another kernel uses the checkpoints for too long.
    """
    with shelf.locked():
        if plan.pending:
            pending = next((r for r in shelf.records() if r.id == plan.pending), None)
            if pending is None:
                raise AgentError("The undo that was interrupted is gone. Undo again.")
            return carry_out(shelf, Journal(shelf.folder / pending.id, pending))
        journal = _written_down(shelf, plan, owner)
        undone = carry_out(shelf, journal)
    left = [
        Done(step.path, step.action, step.why, step.diff)
        for step in plan.steps
        if step.action in ("conflict", "not_restorable")
    ]
    shelf.sweep()
    return replace(undone, files=(*undone.files, *left))


def _written_down(shelf: Shelf, plan: Plan, owner: str) -> Journal:
    ids = tuple(record.id for record in plan.records)
    try:
        journal = shelf.begin(plan.kind, owner, undoes=ids)
        moves = {
            step.target.kept.removeprefix(f"{MOVED}/"): step.path
            for step in plan.steps
            if step.action == "restore" and step.target.kept.startswith(f"{MOVED}/")
        }
        for step in plan.steps:
            if step.action in ("restore", "remove"):
                path = shelf.workspace.root / step.path
                journal.write(
                    before_line(
                        step.path,
                        _kept_before(shelf, journal, step, moves.get(step.path, "")),
                        missing_folders(path, shelf.workspace.root),
                    ),
                    target_line(step.path, step.target, step.folders),
                )
        journal.write({"line": "planned"})
    except OSError as error:
        raise AgentError(f"Nothing was undone: {error.strerror or error}.") from error
    return journal


def _kept_before(shelf: Shelf, journal: Journal, step: Step, moves_to: str) -> State:
    """What an undo finds, and where it keeps it: what it removes or is large, in the trash."""
    place = f"{TRASH}/{journal.record.id}/{step.path}"
    if step.action == "remove" and moves_to:
        return replace(step.now, kept=f"{MOVED}/{moves_to}", why="")
    if step.action == "remove":
        return replace(step.now, kept=place, why="")
    if not step.now.is_there or step.now.mark == step.target.mark:
        return step.now
    kept = shelf.keep(shelf.workspace.root / step.path)
    if kept.mark != step.now.mark:
        return replace(step.now, kept=place)  # it changes at this moment: nothing will be done
    return kept if kept.kept else replace(kept, kept=place, why="")


def carry_out(shelf: Shelf, journal: Journal) -> Undone:
    """Do what an undo's journal says; what is done already stays done."""
    record, files = journal.record, []
    for path, entry in record.entries.items():
        done = _carried_out(shelf, path, entry)
        if done.outcome in ("restored", "removed") and entry.target is not None:
            journal.write(left_line(path, entry.target))
        files.append(done)
    journal.write({"line": "end"})
    return Undone(
        "redo" if record.kind == "redo" else "undo", record.id, record.undoes, tuple(files)
    )


def _carried_out(shelf: Shelf, path: str, entry: Entry) -> Done:
    target = entry.target
    assert target is not None  # both lines are written at once
    place = shelf.workspace.root / path
    outcome: Outcome = "restored" if target.is_there else "removed"
    try:
        now = look(place, {target.mark, entry.before.mark})
        if not now.is_same(target):
            if not _is_as_found(shelf, now, entry):
                return Done(path, "conflict", CHANGED_AGAIN, _diff(shelf, path, target))
            if problem := _obstacle(shelf, path, now, target):
                return Done(path, "not_restorable", problem)
            _put(shelf, place, now, entry, target)
        if not target.is_there:
            _remove_empty(place, entry.emptied)
    except OSError as error:
        return Done(path, "failed", error.strerror or str(error))
    return Done(path, outcome)


def _is_as_found(shelf: Shelf, now: State, entry: Entry) -> bool:
    target = entry.target
    if now.mark == entry.before.mark or (target is not None and now.mark == target.mark):
        return True
    # An undo that was interrupted had put it into the trash already.
    trash = _in_trash(shelf, entry.before)
    return not now.is_there and trash is not None and os.path.lexists(trash)


def _put(shelf: Shelf, place: Path, now: State, entry: Entry, target: State) -> None:
    """Make a path what it should be. Raises OSError where the system refuses."""
    trash = _in_trash(shelf, entry.before)
    if now.is_there and trash is not None:
        private_folder(trash.parent)
        shutil.move(place, trash)
        now = State()
    if not target.is_there:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if now.mark == target.mark:
        pass  # only its permissions differ
    elif target.kept != "blob":
        source = _source(shelf, target)
        assert source is not None  # otherwise there is an obstacle
        shutil.move(source, place)
    else:
        data = shelf.blobs.content(target.digest)
        if data is None:
            raise OSError(None, NOT_KEPT)
        if target.is_link:
            _link(place, os.fsdecode(data))
        else:
            atomic_write(place, data, mode=stat.S_IMODE(target.mode))
    if not target.is_link:
        place.chmod(stat.S_IMODE(target.mode))


def _link(place: Path, to: str) -> None:
    temporary = place.with_name(f".jupyter_agent-{secrets.token_hex(8)}.tmp")
    temporary.symlink_to(to)
    temporary.replace(place)


def _in_trash(shelf: Shelf, state: State) -> Path | None:
    """Where in the trash a state's content is, or will be; None where it is not put there."""
    if not state.kept.startswith(f"{TRASH}/"):
        return None
    folder = shelf.workspace.state_folder
    place = folder / state.kept
    if not Path(os.path.realpath(place.parent)).is_relative_to(folder / TRASH):
        raise OSError(None, f"{folder / TRASH} is a link")
    return place


def _source(shelf: Shelf, target: State) -> Path | None:
    """The very file that is to be put back, where it is kept as one."""
    if not target.kept.startswith(f"{MOVED}/"):
        return _in_trash(shelf, target)
    source = shelf.workspace.root / target.kept.removeprefix(f"{MOVED}/")
    return source if Path(os.path.realpath(source)) == source else None


def _remove_empty(place: Path, count: int) -> None:
    """Remove folders that the turn made, from the lowest up, as long as they are empty."""
    for folder in list(place.parents)[:count]:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _diff(shelf: Shelf, path: str, target: State) -> str:
    """From what is there to what would be put there; empty where one of them is no text."""
    try:
        place = shelf.workspace.root / path
        now = b"" if not place.exists() else _small(place)
    except OSError:
        return ""
    wanted = shelf.blobs.content(target.digest) if target.kept == "blob" else b""
    texts = [_text(data) for data in (now, wanted)]
    if None in texts or (target.is_there and target.kept != "blob"):
        return ""
    return compare(texts[0] or "", texts[1] or "", path).text


def _small(place: Path) -> bytes | None:
    found = os.lstat(place)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _COMPARED_BYTES:
        return None
    return place.read_bytes()


def _text(data: bytes | None) -> str | None:
    if data is None or len(data) > _COMPARED_BYTES:
        return None
    encoding = detect(io.BytesIO(data), len(data))
    return encoding.decode(data) if encoding else None


# Which records -----------------------------------------------------------------------------------


def standing(records: Sequence[Record]) -> Iterator[Record]:
    """The turns that are not undone, newest first."""
    by_id = {record.id: record for record in records}
    undone: set[str] = set()
    for record in records:
        if record.kind == "undo" and record.ended:
            undone.update(record.undoes)
        elif record.kind == "redo" and record.ended:
            for back in record.undoes:
                undone.difference_update(by_id[back].undoes if back in by_id else ())
    turns = (record for record in records if record.kind == "turn" and record.id not in undone)
    return reversed(list(turns))


def redoable(records: Sequence[Record]) -> Record | None:
    """The last undo that was not taken back, unless a turn has run since."""
    stack: list[Record] = []
    for record in records:
        if record.kind == "turn":
            stack.clear()
        elif record.ended and record.kind == "undo":
            stack.append(record)
        elif record.ended and stack:
            stack.pop()
    return stack[-1] if stack else None
