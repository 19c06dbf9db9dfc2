"""Carries out an undo, written to a journal before the first file changes.

An undo is a record like a turn: what was there before it, and what it puts there. So it can be
undone itself, and one that was interrupted is completed from its journal.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write, only_owner, private_folder, temporary_of
from jupyter_agent.undo.journal import (
    FileEntry,
    Journal,
    JournalRecord,
    before_line,
    is_restorable,
    left_line,
    target_line,
)
from jupyter_agent.undo.plan import (
    NO_PLACE,
    NOT_KEPT,
    Undo,
    UndoStep,
    blocked,
    current,
    diff_to,
    in_trash,
    kept_file,
    obstacle,
)
from jupyter_agent.undo.storage import TRASH, Storage
from jupyter_agent.undo.turn import count_missing_folders
from jupyter_agent.undo.versions import MOVED, FileVersion, look

CHANGED_AGAIN = "it was changed in the meantime"
NOT_EMPTY = "there are other files in it"


def apply(storage: Storage, plan: Undo, owner: str) -> Undo:
    """Carry out a plan. A file that changed after it was planned is left as it is.

    Args:
        storage: Where the contents are kept.
        plan: What to do.
        owner: The notebook's name.

    Returns:
        The plan with its id and the outcome of each step.

    Raises:
        AgentError: The journal cannot be written; no file was changed.
        OSError: Another kernel holds the lock for too long.
    """
    with storage.locked():
        if plan.id:
            pending = next((each for each in storage.records() if each.id == plan.id), None)
            if pending is None:
                raise AgentError(
                    "The record of the interrupted undo is gone. Run %agent undo again."
                )
            return replace(plan, steps=_carry_out(storage, storage.journal(pending)))
        journal = _write_down(storage, plan, owner)
        done = _carry_out(storage, journal)
    left = [step for step in plan.steps if step.outcome in ("conflict", "not_restorable")]
    storage.sweep()
    return replace(plan, id=journal.record.id, steps=(*done, *left))


def _write_down(storage: Storage, plan: Undo, owner: str) -> Journal:
    """Write the plan to a new journal, and keep the contents that the undo will replace."""
    steps = [step for step in plan.steps if step.outcome in ("restored", "removed")]
    moves = {
        step.target.kept.removeprefix(f"{MOVED}/"): step.path
        for step in steps
        if step.outcome == "restored" and step.target.kept.startswith(f"{MOVED}/")
    }
    root = storage.workspace.root
    try:
        ids = tuple(record.id for record in plan.records)
        journal = storage.begin(plan.kind, owner, undoes=ids)
        for step in steps:
            before = _kept_before(storage, journal.record, step, moves.get(step.path, ""))
            missing = count_missing_folders(root / step.path, root)
            journal.write(
                before_line(step.path, before, missing),
                target_line(step.path, step.target, step.emptied),
            )
        journal.write({"line": "planned"})
    except OSError as error:
        raise AgentError(f"Nothing was undone: {error.strerror or error}.") from error
    return journal


def _kept_before(
    storage: Storage, record: JournalRecord, step: UndoStep, moves_to: str
) -> FileVersion:
    """What the undo finds, and where it is kept: as a blob, or in the trash if that is too large.

    A file that the undo removes goes to the trash, one that it moves stays the same file.
    """
    place = f"{TRASH}/{record.id}/{step.path}"
    if moves_to:
        return replace(step.now, kept=f"{MOVED}/{moves_to}", why="")
    if step.now.is_folder:
        return step.now
    if step.outcome == "removed" or step.target.is_folder:
        return replace(step.now, kept=place, why="")
    if not step.now.exists or step.now.mark == step.target.mark:
        return step.now
    kept = storage.keep(storage.workspace.root / step.path)
    if kept.mark != step.now.mark:
        return replace(step.now, kept=place)  # it is changing right now: it will be left alone
    return kept if kept.kept else replace(kept, kept=place, why="")


def _carry_out(storage: Storage, journal: Journal) -> tuple[UndoStep, ...]:
    """Do what an undo's journal says, or the rest of it.

    First removes what is in the way, from the lowest folders up; then restores the rest, from the
    uppermost folders down.
    """
    record = journal.record
    work = _Work(storage, journal)
    deepest_first = sorted(record.entries.items(), key=lambda item: -item[0].count("/"))
    for act in (work.put_away, work.remove_folder):
        for path, entry in deepest_first:
            work.attempt(path, entry, act)
    for path, entry in reversed(deepest_first):
        work.attempt(path, entry, work.put_back)
    for path, entry in deepest_first:
        work.attempt(path, entry, work.finish)
    failed = [step.path for step in work.done.values() if step.outcome == "failed"]
    journal.write({"line": "end", "failed": failed})
    steps = (work.done[path] for path in record.entries)
    return tuple(step for step in steps if not work.is_implied(step))


class _Work:
    """Carries out an undo, path by path.

    Attributes:
        done: The outcomes so far, by path. Nothing more is done about these paths.
    """

    def __init__(self, storage: Storage, journal: Journal) -> None:
        self.done: dict[str, UndoStep] = {}
        self._storage = storage
        self._journal = journal

    def attempt(self, path: str, entry: FileEntry, act: Callable[[str, FileEntry], None]) -> None:
        """Call `act` for a path that is not done. An error makes its outcome "failed"."""
        if path in self.done:
            return
        try:
            act(path, entry)
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            self.done[path] = UndoStep(path, "failed", problem)

    def put_away(self, path: str, entry: FileEntry) -> None:
        """Move a file to the trash, or aside, that is to be removed, moved or made a folder."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_same(target) or now.is_folder or not now.exists:
            return
        aside = _aside(self._storage, self._journal.record, path)
        is_moved = entry.before.kept.startswith(f"{MOVED}/")
        trash = aside if is_moved else in_trash(self._storage, entry.before)
        if now.mark == target.mark or trash is None or self._is_in_doubt(path, entry, now):
            return
        private_folder(trash.parent)
        shutil.move(self._place(path), trash)
        if trash.lstat().st_nlink == 1:  # the permissions of a second link are the same
            only_owner(trash)

    def remove_folder(self, path: str, entry: FileEntry) -> None:
        """Remove a folder that is to go, and folders above a removed file that are empty now."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_folder and not target.is_folder and not self._is_in_doubt(path, entry, now):
            try:
                self._place(path).rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.done[path] = UndoStep(path, "conflict", NOT_EMPTY)
                return
        if not target.exists:
            for folder in list(self._place(path).parents)[: entry.emptied]:
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def put_back(self, path: str, entry: FileEntry) -> None:
        """Restore a file, link or folder."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_same(target) or not target.exists:
            return
        if self._is_in_doubt(path, entry, now):
            return
        if target.is_folder:
            self._place(path).mkdir(parents=True, exist_ok=True)
        else:
            _restore(self._storage, self._journal.record, self._place(path), now, target)

    def finish(self, path: str, entry: FileEntry) -> None:
        """Check a path, and note that it is done. Folders get their permissions last."""
        target, now = _target(entry), self._look(path, entry)
        if target.is_folder and now.is_folder:
            self._place(path).chmod(_mode(target))
        elif not now.is_same(target):
            self.done[path] = UndoStep(path, "conflict", CHANGED_AGAIN)
            return
        self._journal.write(left_line(path, target))
        self.done[path] = UndoStep(path, "restored" if target.exists else "removed")

    def is_implied(self, step: UndoStep) -> bool:
        """True for a folder that was restored or removed together with files in it."""
        entry = self._journal.record.entries[step.path]
        is_folder = entry.before.is_folder or not entry.before.exists
        is_folder &= _target(entry).is_folder or not _target(entry).exists
        has_files = any(path.startswith(f"{step.path}/") for path in self._journal.record.entries)
        return is_folder and has_files and step.outcome in ("restored", "removed")

    def _is_in_doubt(self, path: str, entry: FileEntry, now: FileVersion) -> bool:
        """True if a path changed since the plan, or cannot be restored; notes the outcome."""
        storage, record, target = self._storage, self._journal.record, _target(entry)
        if not self._is_as_planned(path, entry, now):
            diff = diff_to(storage, path, target)
            self.done[path] = UndoStep(path, "conflict", CHANGED_AGAIN, diff)
            return True
        if not is_restorable(storage.workspace, path):
            problem = NO_PLACE
        elif problem := blocked(storage, path, {}):
            # A file that is to be removed is gone, whatever is above it now.
            problem = problem if target.exists or now.exists else ""
        elif _put_aside(storage, record, target) is None:
            problem = obstacle(storage, path, now, target, (entry.before.mark,))
        if problem:
            self.done[path] = UndoStep(path, "not_restorable", problem)
        return bool(problem)

    def _is_as_planned(self, path: str, entry: FileEntry, now: FileVersion) -> bool:
        if now.mark in (entry.before.mark, _target(entry).mark):
            return True
        # This undo may already have put it away, maybe before it was interrupted.
        if now.exists:
            return False
        places = (
            in_trash(self._storage, entry.before),
            _aside(self._storage, self._journal.record, path),
        )
        if entry.before.is_folder or any(map(os.path.lexists, filter(None, places))):
            return True
        if not entry.before.kept.startswith(f"{MOVED}/"):
            return False
        moved = self._place(entry.before.kept.removeprefix(f"{MOVED}/"))
        return look(moved, (entry.before.mark,)).mark == entry.before.mark

    def _look(self, path: str, entry: FileEntry) -> FileVersion:
        return current(self._storage, path, {_target(entry).mark, entry.before.mark})

    def _place(self, path: str) -> Path:
        return self._storage.workspace.root / path


def _target(entry: FileEntry) -> FileVersion:
    assert entry.target is not None  # both lines are written at once
    return entry.target


def _restore(
    storage: Storage, record: JournalRecord, place: Path, now: FileVersion, target: FileVersion
) -> None:
    """Make a path what it should be. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if now.mark == target.mark:
        pass  # only its permissions differ
    elif target.kept != "blob":
        source = _put_aside(storage, record, target) or kept_file(storage, target)
        assert source is not None  # otherwise there is an obstacle
        shutil.move(source, place)
    else:
        data = storage.blobs.content(target.digest, target.size)
        if data is None:
            raise OSError(None, NOT_KEPT)
        # Remove the temporary file of this undo if it was killed here before: a folder that
        # contains it could not be removed any more.
        token = hashlib.sha256(os.fsencode(f"{record.id}/{place}")).hexdigest()[:16]
        temporary_of(place, token).unlink(missing_ok=True)
        if target.is_link:
            temporary = temporary_of(place, token)
            temporary.symlink_to(os.fsdecode(data))
            temporary.replace(place)
        else:
            atomic_write(place, data, mode=_mode(target), token=token)
            if target.modified:
                os.utime(place, ns=(target.modified, target.modified))
    if not target.is_link:
        place.chmod(_mode(target))


def _mode(version: FileVersion) -> int:
    """The permission bits to restore."""
    return stat.S_IMODE(version.mode) & 0o777


def _aside(storage: Storage, record: JournalRecord, path: str) -> Path:
    """Where an undo puts a file that it moves, until the file's new place is free."""
    aside = in_trash(storage, FileVersion(kept=f"{TRASH}/{record.id}/{path}"))
    assert aside is not None  # it is below the trash
    return aside


def _put_aside(storage: Storage, record: JournalRecord, target: FileVersion) -> Path | None:
    """The file that this undo has put aside in order to move it; None if there is none."""
    if not target.kept.startswith(f"{MOVED}/"):
        return None
    aside = _aside(storage, record, target.kept.removeprefix(f"{MOVED}/"))
    is_it = os.path.lexists(aside) and look(aside, (target.mark,)).mark == target.mark
    return aside if is_it else None
