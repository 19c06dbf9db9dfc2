"""Plans an undo: which records it takes back, and what it does with each file."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from jupyter_agent.files.diff import compare
from jupyter_agent.files.textfile import detect
from jupyter_agent.undo.differences import NOT_SEEN
from jupyter_agent.undo.journal import FileEntry, JournalRecord, is_restorable
from jupyter_agent.undo.storage import TRASH, Storage
from jupyter_agent.undo.versions import ABSENT, MOVED, FileVersion, look

StepOutcome = Literal["restored", "removed", "conflict", "not_restorable", "failed"]

CHANGED_SINCE = "it was changed after the turn"
CHANGED_BETWEEN = "it was changed between the turns"
BY_ANOTHER = "a turn of another kernel left it like this"
NOT_KEPT = "its content is not kept any more"
BY_A_LINK = "a folder above it is a link now"
BY_A_FILE = "a file is in the place of its folder"
NO_PLACE = "undo never writes there"
_COMPARED_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UndoStep:
    """What an undo does with one file.

    Attributes:
        path: Relative to the workspace's root.
        outcome: In a plan the expected outcome, afterwards the real one.
        why: The reason why a file is left as it is.
        diff: For a conflict: from what is there to what the undo would have put there.
        now: What is there before the undo.
        target: What the undo puts there.
        emptied: How many of the folders above it to remove if they are empty afterwards.
    """

    path: str
    outcome: StepOutcome
    why: str = ""
    diff: str = ""
    now: FileVersion = ABSENT
    target: FileVersion = ABSENT
    emptied: int = 0


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo or a redo: a plan, and once it is applied, its result.

    Attributes:
        kind: What it is.
        records: The records that it takes back, newest first; for a redo the undo.
        steps: What it does with each file.
        id: The id of its own record. A plan has one only if it completes an interrupted undo.
    """

    kind: Literal["undo", "redo"]
    records: tuple[JournalRecord, ...]
    steps: tuple[UndoStep, ...]
    id: str = ""

    @property
    def turns(self) -> tuple[str, ...]:
        """The ids of the turns that it undoes or brings back."""
        if self.kind == "redo" and self.records:
            return self.records[0].undoes
        return tuple(record.id for record in self.records)


# Which records -----------------------------------------------------------------------------------


def standing(records: Sequence[JournalRecord]) -> Iterator[JournalRecord]:
    """The turns that are not undone, newest first.

    Args:
        records: All records, oldest first.
    """
    by_id = {record.id: record for record in records}
    undone: set[str] = set()
    for record in records:
        if record.kind == "undo" and record.ended:
            # A turn with a file for which the undo failed can be undone again.
            failed = set(record.failed)
            undone.update(
                turn
                for turn in record.undoes
                if turn not in by_id or failed.isdisjoint(by_id[turn].entries)
            )
        elif record.kind == "redo" and record.ended and not record.failed:
            for back in record.undoes:
                undone.difference_update(by_id[back].undoes if back in by_id else ())
    turns = (record for record in records if record.kind == "turn" and record.id not in undone)
    return reversed(list(turns))


def redoable(records: Sequence[JournalRecord]) -> JournalRecord | None:
    """The last undo that was not taken back; None if a turn has run since.

    Args:
        records: All records, oldest first.
    """
    stack: list[JournalRecord] = []
    for record in records:
        if record.kind == "turn":
            stack.clear()
        elif record.ended and record.kind == "undo":
            stack.append(record)
        elif record.ended and not record.failed and stack:
            stack.pop()
    return stack[-1] if stack else None


# Planning ----------------------------------------------------------------------------------------


def plan_of(
    storage: Storage,
    kind: Literal["undo", "redo"],
    records: Sequence[JournalRecord],
    over: Collection[str] = (),
    others: Collection[JournalRecord] = (),
) -> Undo:
    """Plan to take back records, from what is in the workspace now.

    Args:
        storage: Where the contents are kept.
        kind: Whether turns are undone, or an undo is taken back.
        records: The records to take back, newest first.
        over: Paths to restore even if somebody else has changed them.
        others: Turns of other kernels. A file that is as one of them left it, is theirs.
    """
    merged = _merged(records)
    left_by_others: dict[str, set[str]] = {}
    for other in others:
        for path in merged.keys() & other.entries.keys():
            if other.entries[path].sure or not merged[path].sure:
                left_by_others.setdefault(path, set()).update(other.entries[path].left)
    found: dict[str, UndoStep] = {}
    for path, entry in sorted(merged.items()):
        step = _step(storage, path, entry, found, left_by_others.get(path, ()), path in over)
        if step is not None:
            found[path] = step
    steps = sorted(found.values(), key=lambda step: step.outcome == "removed")
    return Undo(kind, tuple(records), tuple(steps))


def rest_of(storage: Storage, record: JournalRecord, undone: tuple[JournalRecord, ...]) -> Undo:
    """The rest of an interrupted undo.

    Args:
        storage: Where the contents are kept.
        record: The undo's own record.
        undone: The records that it takes back, newest first.
    """
    steps = []
    for path, entry in record.entries.items():
        target = entry.target or entry.before
        now = current(storage, path, (target.mark,))
        if not now.is_same(target):
            steps.append(_done(path, now, target, entry.emptied))
    return Undo("redo" if record.kind == "redo" else "undo", undone, tuple(steps), record.id)


def _merged(records: Sequence[JournalRecord]) -> dict[str, FileEntry]:
    """One entry for each path: `before` from the oldest record, `left` from the newest."""
    merged: dict[str, FileEntry] = {}
    for record in records:
        for path, entry in record.entries.items():
            if not entry.left and not entry.unclear:
                continue
            newer = merged.get(path)
            if newer is None:
                merged[path] = replace(entry)
                continue
            if newer.before.mark not in (entry.before.mark, *entry.left):
                newer.unclear = newer.unclear or CHANGED_BETWEEN
            newer.unclear = newer.unclear or entry.unclear
            newer.before = entry.before
            newer.new_folders = max(newer.new_folders, entry.new_folders)
    return merged


def _step(
    storage: Storage,
    path: str,
    entry: FileEntry,
    above: Mapping[str, UndoStep],
    left_by_others: Collection[str],
    over: bool,
) -> UndoStep | None:
    """Plan what to do with one path; None if it is already as it should be.

    Args:
        storage: Where the contents are kept.
        path: The path.
        entry: What the records say about it.
        above: The steps so far, among them those of the folders above.
        left_by_others: Marks of what other kernels left there.
        over: True to restore it even if somebody else has changed it.
    """
    target = entry.before
    try:
        now = current(storage, path, {target.mark, *entry.left})
    except OSError as error:
        return UndoStep(path, "not_restorable", str(error.strerror), target=target)
    if now.is_same(target):
        return None
    step = _done(path, now, target, entry.new_folders)
    if problem := obstacle(storage, path, now, target, entry.left, above):
        return replace(step, outcome="not_restorable", why=problem)
    conflict = entry.unclear
    if not conflict and now.mark not in (*entry.left, target.mark):
        conflict = CHANGED_SINCE
    if not conflict and now.mark in left_by_others:
        conflict = BY_ANOTHER
    if conflict and not over:
        # A file that the turn was not seen to change may be anybody's, and large.
        diff = "" if conflict == NOT_SEEN else diff_to(storage, path, target)
        return replace(step, outcome="conflict", why=conflict, diff=diff)
    return step


def _done(path: str, now: FileVersion, target: FileVersion, emptied: int) -> UndoStep:
    outcome: StepOutcome = "restored" if target.exists else "removed"
    return UndoStep(path, outcome, now=now, target=target, emptied=emptied)


# Looking at files --------------------------------------------------------------------------------


def current(storage: Storage, path: str, known: Collection[str]) -> FileVersion:
    """What is at a path under exactly that name; nothing if a folder above it is a link.

    Args:
        storage: The storage of the workspace.
        path: Relative to the workspace's root.
        known: Marks to compare with, as for `look`.

    Raises:
        OSError: The system refuses.
    """
    place = storage.workspace.root / path
    if any((storage.workspace.root / above).is_symlink() for above in Path(path).parents[:-1]):
        return ABSENT
    found = look(place, known)
    return found if not found.exists or _is_case_exact(place) else ABSENT


def _is_case_exact(place: Path) -> bool:
    """False if a file system that ignores case has the file under another spelling."""
    other = place.with_name(place.name.swapcase())
    if other == place or not os.path.lexists(other):
        return True
    return place.name in os.listdir(place.parent)  # noqa: PTH208 (names, not paths)


def obstacle(
    storage: Storage,
    path: str,
    now: FileVersion,
    target: FileVersion,
    left: Collection[str],
    above: Mapping[str, UndoStep] | None = None,
) -> str:
    """Why a path cannot be restored; empty if it can.

    Args:
        storage: Where the contents are kept.
        path: The path.
        now: What is there.
        target: What is to be there.
        left: Marks of what the turn left there: a folder among them may be replaced by a file.
        above: The steps that are planned for folders above the path.
    """
    if not is_restorable(storage.workspace, path):
        return NO_PLACE
    if problem := blocked(storage, path, above or {}):
        return problem
    if now.mark.startswith("kind:") and now.mark not in left and not target.is_folder:
        return "something other than a file is there now"
    if not target.exists or target.is_folder or now.mark == target.mark:
        return ""
    if not target.kept:
        return target.why or NOT_KEPT
    if target.kept == "blob":
        return "" if storage.blobs.has(target.digest) else NOT_KEPT
    source = kept_file(storage, target)
    return "" if source and look(source, (target.mark,)).mark == target.mark else NOT_KEPT


def blocked(storage: Storage, path: str, above: Mapping[str, UndoStep]) -> str:
    """Why nothing can be put below the folders above a path; empty if it can.

    Args:
        storage: The storage of the workspace.
        path: The path.
        above: Planned steps. A file that one of them replaces by a folder is no obstacle.
    """
    root = storage.workspace.root
    for folder in reversed(Path(path).parents[:-1]):
        step = above.get(folder.as_posix())
        if step is not None and step.outcome in ("restored", "removed") and not step.now.is_folder:
            return ""
        if (root / folder).is_symlink():
            return BY_A_LINK
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            return BY_A_FILE
    return ""


def in_trash(storage: Storage, version: FileVersion) -> Path | None:
    """Where in the trash a file is, or goes; None if it is not kept there.

    Raises:
        OSError: The trash is a link.
    """
    if not version.kept.startswith(f"{TRASH}/"):
        return None
    folder = storage.workspace.state_folder
    place = folder / version.kept
    if not Path(os.path.realpath(place.parent)).is_relative_to(folder / TRASH):
        raise OSError(None, f"{folder / TRASH} is a link")
    return place


def kept_file(storage: Storage, target: FileVersion) -> Path | None:
    """The file to move back, in the trash or elsewhere in the workspace; None if there is none."""
    if not target.kept.startswith(f"{MOVED}/"):
        return in_trash(storage, target)
    path = target.kept.removeprefix(f"{MOVED}/")
    if not is_restorable(storage.workspace, path):
        return None
    source = storage.workspace.root / path
    return source if Path(os.path.realpath(source)) == source else None


def diff_to(storage: Storage, path: str, target: FileVersion) -> str:
    """The diff from what is there to the target; empty unless both are small texts."""
    if target.exists and target.kept != "blob":
        return ""
    try:
        place = storage.workspace.root / path
        now = b"" if not place.exists() else _small(place)
    except OSError:
        return ""
    wanted = storage.blobs.content(target.digest, target.size) if target.kept == "blob" else b""
    old, new = _text(now), _text(wanted)
    return "" if old is None or new is None else compare(old, new, path).text


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
