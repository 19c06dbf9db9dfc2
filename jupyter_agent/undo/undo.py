"""Undo: what would change, and the change itself, written down before it is made.

An undo is a record like a turn's: what was there before it, and what it puts there. So it can be
undone itself, and one that was interrupted is carried on from its journal.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write, private_folder, temporary_of
from jupyter_agent.files.diff import compare
from jupyter_agent.files.textfile import detect
from jupyter_agent.undo.journal import (
    FileEntry,
    Journal,
    JournalRecord,
    before_line,
    is_restorable,
    left_line,
    target_line,
)
from jupyter_agent.undo.snapshot import NOT_SEEN
from jupyter_agent.undo.storage import TRASH, Storage
from jupyter_agent.undo.turn import missing_folders
from jupyter_agent.undo.versions import MOVED, FileVersion, look

Action = Literal["restore", "remove", "conflict", "not_restorable"]
Outcome = Literal["restored", "removed", "conflict", "not_restorable", "failed"]

CHANGED_SINCE = "it was changed after the turn"
CHANGED_AGAIN = "it was changed while this was under way"
CHANGED_BETWEEN = "it was changed between the turns"
BY_ANOTHER = "a turn of another kernel left it like this"
NOT_KEPT = "its content is not kept any more"
BY_A_LINK = "a folder above it is a link now"
BY_A_FILE = "a file stands where its folder was"
NO_PLACE = "nothing is ever put there"
NOT_EMPTY = "there are other files in it"
_COMPARED_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UndoStep:
    """What an undo does about one file. `path` is relative to the workspace's root.

    `why` and `diff` (from what is there to what would be put there) go with a conflict.
    """

    path: str
    action: Action
    now: FileVersion
    target: FileVersion
    folders: int = 0
    why: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo would do. `records` are undone by it, the newest first.

    `pending` is an undo that was interrupted and that is carried on.
    """

    kind: Literal["undo", "redo"]
    records: tuple[JournalRecord, ...]
    steps: tuple[UndoStep, ...]
    pending: str = ""


@dataclass(frozen=True, slots=True)
class UndoneFile:
    """What became of one file."""

    path: str
    outcome: Outcome
    why: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo did. `turns` are the ids of the turns that it undid or brought back."""

    kind: Literal["undo", "redo"]
    id: str
    turns: tuple[str, ...]
    files: tuple[UndoneFile, ...]


@dataclass
class _Wanted:
    """What several records, taken together, ask for one path."""

    target: FileVersion
    left: set[str]
    folders: int
    unclear: str = ""
    sure: bool = True
    of_others: set[str] = field(default_factory=set)


def plan_of(
    shelf: Storage,
    kind: Literal["undo", "redo"],
    records: Sequence[JournalRecord],
    over: Collection[str] = (),
    others: Collection[JournalRecord] = (),
) -> UndoPlan:
    """What undoing the records, given newest first, would do now.

    Args:
        shelf: Where they are.
        kind: Whether turns are undone, or an undo is taken back.
        records: What is undone.
        over: Paths that are restored even where somebody else has changed them.
        others: Turns of other kernels: what they left as it is, is theirs.
    """
    wanted = _wanted(records)
    for other in others:
        for path in wanted.keys() & other.entries.keys():
            if other.entries[path].sure or not wanted[path].sure:
                wanted[path].of_others.update(other.entries[path].left)
    found: dict[str, UndoStep] = {}
    for path, each in sorted(wanted.items()):
        step = _step(shelf, path, each, over=path in over, above=found)
        if step is not None:
            found[path] = step
    steps = sorted(found.values(), key=lambda step: step.action == "remove")
    return UndoPlan(kind, tuple(records), tuple(steps))


def _wanted(records: Sequence[JournalRecord]) -> dict[str, _Wanted]:
    wanted: dict[str, _Wanted] = {}
    for record in records:
        for path, entry in record.entries.items():
            if not entry.left and not entry.unclear:
                continue
            newer = wanted.get(path)
            if newer is None:
                wanted[path] = _Wanted(
                    entry.before, set(entry.left), entry.folders, entry.unclear, entry.sure
                )
                continue
            if newer.target.mark not in (entry.before.mark, *entry.left):
                newer.unclear = newer.unclear or CHANGED_BETWEEN
            newer.unclear = newer.unclear or entry.unclear
            newer.target = entry.before
            newer.folders = max(newer.folders, entry.folders)
    return wanted


def _step(
    shelf: Storage, path: str, wanted: _Wanted, over: bool, above: Mapping[str, UndoStep]
) -> UndoStep | None:
    """What to do about one path; None where it is as it should be already.

    Args:
        above: What is done about the paths before this one, among them the folders above it.
    """
    target = wanted.target
    try:
        now = _now(shelf, path, {target.mark, *wanted.left})
    except OSError as error:
        return UndoStep(path, "not_restorable", FileVersion(), target, why=str(error.strerror))
    if now.is_same(target):
        return None
    step = UndoStep(path, "restore" if target.is_there else "remove", now, target, wanted.folders)
    if problem := _obstacle(shelf, path, now, target, wanted.left, above):
        return replace(step, action="not_restorable", why=problem)
    conflict = wanted.unclear
    if not conflict and now.mark not in (*wanted.left, target.mark):
        conflict = CHANGED_SINCE
    if not conflict and now.mark in wanted.of_others:
        conflict = BY_ANOTHER
    if conflict and not over:
        # What was not seen to be the turn's may be anybody's, and much.
        diff = "" if conflict == NOT_SEEN else _diff(shelf, path, target)
        return replace(step, action="conflict", why=conflict, diff=diff)
    return step


def _now(shelf: Storage, path: str, known: Collection[str]) -> FileVersion:
    """What is at a path, not beyond a link.

    It has that very name: some file systems do not tell cases apart.
    """
    root = shelf.workspace.root
    if any((root / folder).is_symlink() for folder in Path(path).parents[:-1]):
        return FileVersion()
    found = look(root / path, known)
    return found if not found.is_there or _is_case_exact(root / path) else FileVersion()


def _is_case_exact(place: Path) -> bool:
    other = place.with_name(place.name.swapcase())
    if other == place or not os.path.lexists(other):
        return True
    return place.name in os.listdir(place.parent)  # noqa: PTH208 (names, not paths)


def _obstacle(
    shelf: Storage,
    path: str,
    now: FileVersion,
    target: FileVersion,
    left: Collection[str] = (),
    above: Mapping[str, UndoStep] | None = None,
) -> str:
    """Why a path cannot be restored; empty where it can.

    Args:
        left: Marks of what may be there: a folder is in the way of a file only if it is not.
        above: What is about to be done about paths above this one.
    """
    if problem := _refused(shelf, path):
        return problem
    if problem := _blocked(shelf, path, above or {}):
        return problem
    if now.mark.startswith("kind:") and now.mark not in left and not target.is_folder:
        return "something that is no file is there now"
    if not target.is_there or target.is_folder or now.mark == target.mark:
        return ""
    if not target.kept:
        return target.why or NOT_KEPT
    if target.kept == "blob":
        return "" if shelf.blobs.has(target.digest) else NOT_KEPT
    source = _source(shelf, target)
    return "" if source and look(source, (target.mark,)).mark == target.mark else NOT_KEPT


def _refused(shelf: Storage, path: str) -> str:
    """Why nothing is ever written at a path; empty where it may be."""
    return "" if is_restorable(shelf.workspace, path) else NO_PLACE


def _blocked(shelf: Storage, path: str, above: Mapping[str, UndoStep]) -> str:
    """Why the folder of a path cannot be used, unless what is there is about to be put away."""
    root = shelf.workspace.root
    for folder in reversed(Path(path).parents[:-1]):
        step = above.get(folder.as_posix())
        if step is not None and step.action in ("restore", "remove") and not step.now.is_folder:
            return ""
        if (root / folder).is_symlink():
            return BY_A_LINK
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            return BY_A_FILE
    return ""


def rest_of(
    shelf: Storage,
    kind: Literal["undo", "redo"],
    record: JournalRecord,
    undone: tuple[JournalRecord, ...],
) -> UndoPlan:
    """What is left to do of an undo that was interrupted."""
    steps = []
    for path, entry in record.entries.items():
        target = entry.target or entry.before
        now = _now(shelf, path, (target.mark,))
        if not now.is_same(target):
            action: Action = "restore" if target.is_there else "remove"
            steps.append(UndoStep(path, action, now, target, entry.emptied))
    return UndoPlan(kind, undone, tuple(steps), record.id)


# Doing it ----------------------------------------------------------------------------------------


def apply(shelf: Storage, plan: UndoPlan, owner: str) -> UndoResult:
    """Do what a plan says, as far as things still are as it found them.

    Raises:
        AgentError: It could not be written down; then nothing was changed.
        OSError: Another kernel uses the checkpoints for too long.
    """
    turns = plan.records[0].undoes if plan.kind == "redo" and plan.records else None
    with shelf.locked():
        if plan.pending:
            pending = next((r for r in shelf.records() if r.id == plan.pending), None)
            if pending is None:
                raise AgentError("The undo that was interrupted is gone. Undo again.")
            undone = carry_out(shelf, shelf.journal(pending))
            return undone if turns is None else replace(undone, turns=turns)
        journal = _written_down(shelf, plan, owner)
        undone = carry_out(shelf, journal)
    left = [
        UndoneFile(step.path, step.action, step.why, step.diff)
        for step in plan.steps
        if step.action in ("conflict", "not_restorable")
    ]
    shelf.sweep()
    undone = replace(undone, files=(*undone.files, *left))
    return undone if turns is None else replace(undone, turns=turns)


def _written_down(shelf: Storage, plan: UndoPlan, owner: str) -> Journal:
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


def _kept_before(shelf: Storage, journal: Journal, step: UndoStep, moves_to: str) -> FileVersion:
    """What an undo finds, and where it keeps it: what it removes or is large, in the trash."""
    place = f"{TRASH}/{journal.record.id}/{step.path}"
    if moves_to:
        return replace(step.now, kept=f"{MOVED}/{moves_to}", why="")
    if step.now.is_folder:
        return step.now
    if step.action == "remove" or step.target.is_folder:
        return replace(step.now, kept=place, why="")
    if not step.now.is_there or step.now.mark == step.target.mark:
        return step.now
    kept = shelf.keep(shelf.workspace.root / step.path)
    if kept.mark != step.now.mark:
        return replace(step.now, kept=place)  # it changes at this moment: nothing will be done
    return kept if kept.kept else replace(kept, kept=place, why="")


def carry_out(shelf: Storage, journal: Journal) -> UndoResult:
    """Do what an undo's journal says; what is done already stays done.

    First goes what is in the way, from the lowest folders up; then the rest comes, from the
    uppermost folders down.
    """
    record = journal.record
    work = _Work(shelf, journal)
    deepest_first = sorted(record.entries.items(), key=lambda item: -item[0].count("/"))
    for act in (work.put_away, work.remove_folder):
        for path, entry in deepest_first:
            work.attempt(path, entry, act)
    for path, entry in reversed(deepest_first):
        work.attempt(path, entry, work.put_back)
    for path, entry in deepest_first:
        work.attempt(path, entry, work.finish)
    failed = [done.path for done in work.done.values() if done.outcome == "failed"]
    journal.write({"line": "end", "failed": failed})
    files = tuple(
        done
        for path in record.entries
        if (done := work.done[path]) and not work.goes_without_saying(done)
    )
    return UndoResult("redo" if record.kind == "redo" else "undo", record.id, record.undoes, files)


class _Work:
    """An undo that is being carried out, path by path.

    Attributes:
        done: What became of each path; of one that is in there, no more is done.
    """

    def __init__(self, shelf: Storage, journal: Journal) -> None:
        self.done: dict[str, UndoneFile] = {}
        self._shelf = shelf
        self._journal = journal
        self._folders: set[str] = set()

    def attempt(self, path: str, entry: FileEntry, act: Callable[[str, FileEntry], None]) -> None:
        """Do one thing about a path, unless it is done with."""
        if path in self.done:
            return
        try:
            act(path, entry)
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            self.done[path] = UndoneFile(path, "failed", problem)

    def put_away(self, path: str, entry: FileEntry) -> None:
        """Put a file into the trash, or aside, that is to go, or that a folder is to replace."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_same(target) or now.is_folder or not now.is_there:
            return
        aside = _aside(self._shelf, self._journal.record, path)
        is_moved = entry.before.kept.startswith(f"{MOVED}/")
        trash = aside if is_moved else _in_trash(self._shelf, entry.before)
        if now.mark == target.mark or trash is None or self._is_in_doubt(path, entry, now):
            return
        private_folder(trash.parent)
        shutil.move(self._place(path), trash)

    def remove_folder(self, path: str, entry: FileEntry) -> None:
        """Remove a folder that is to go, or that a file is to replace; and what goes with files."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_folder and not target.is_folder and not self._is_in_doubt(path, entry, now):
            try:
                self._place(path).rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                self.done[path] = UndoneFile(path, "conflict", NOT_EMPTY)
                return
        if not target.is_there:
            _remove_empty(self._place(path), entry.emptied)

    def put_back(self, path: str, entry: FileEntry) -> None:
        """Put what was there before into its place."""
        target, now = _target(entry), self._look(path, entry)
        if now.is_same(target) or not target.is_there:
            return
        if self._is_in_doubt(path, entry, now):
            return
        if target.is_folder:
            self._place(path).mkdir(parents=True, exist_ok=True)
            self._folders.add(path)
        else:
            _put(self._shelf, self._journal.record, self._place(path), now, target)

    def finish(self, path: str, entry: FileEntry) -> None:
        """Note that a path is as it should be. Folders get their permissions last."""
        target, now = _target(entry), self._look(path, entry)
        if target.is_folder and now.is_folder:
            self._place(path).chmod(_mode(target))
        elif not now.is_same(target):
            self.done[path] = UndoneFile(path, "conflict", CHANGED_AGAIN)
            return
        self._journal.write(left_line(path, target))
        self.done[path] = UndoneFile(path, "restored" if target.is_there else "removed")

    def goes_without_saying(self, done: UndoneFile) -> bool:
        """Whether a path is a folder that came or went with files which are told of."""
        entry = self._journal.record.entries[done.path]
        is_folder = entry.before.is_folder or not entry.before.is_there
        is_folder &= _target(entry).is_folder or not _target(entry).is_there
        below = any(path.startswith(f"{done.path}/") for path in self._journal.record.entries)
        return is_folder and below and done.outcome in ("restored", "removed")

    def _is_in_doubt(self, path: str, entry: FileEntry, now: FileVersion) -> bool:
        """Whether a path is not as the plan found it, or cannot be used; then that is noted."""
        target = _target(entry)
        if not self._is_as_found(path, entry, now):
            diff = _diff(self._shelf, path, target)
            self.done[path] = UndoneFile(path, "conflict", CHANGED_AGAIN, diff)
        else:
            left = (entry.before.mark,)
            record = self._journal.record
            problem = _refused(self._shelf, path) or _blocked_or_lost(
                self._shelf, record, path, now, target, left
            )
            if not problem:
                return False
            self.done[path] = UndoneFile(path, "not_restorable", problem)
        return True

    def _is_as_found(self, path: str, entry: FileEntry, now: FileVersion) -> bool:
        if now.mark in (entry.before.mark, _target(entry).mark):
            return True
        # This undo, interrupted or not, has put it away already.
        if now.is_there:
            return False
        places = (
            _in_trash(self._shelf, entry.before),
            _aside(self._shelf, self._journal.record, path),
        )
        if entry.before.is_folder or any(map(os.path.lexists, filter(None, places))):
            return True
        if not entry.before.kept.startswith(f"{MOVED}/"):
            return False
        moved = self._place(entry.before.kept.removeprefix(f"{MOVED}/"))
        return look(moved, (entry.before.mark,)).mark == entry.before.mark

    def _look(self, path: str, entry: FileEntry) -> FileVersion:
        return _now(self._shelf, path, {_target(entry).mark, entry.before.mark})

    def _place(self, path: str) -> Path:
        return self._shelf.workspace.root / path


def _target(entry: FileEntry) -> FileVersion:
    assert entry.target is not None  # both lines are written at once
    return entry.target


def _blocked_or_lost(
    shelf: Storage,
    record: JournalRecord,
    path: str,
    now: FileVersion,
    target: FileVersion,
    left: Collection[str],
) -> str:
    if problem := _blocked(shelf, path, {}):
        # What is to go is gone, whatever stands above it now.
        return problem if target.is_there or now.is_there else ""
    moved = target.kept.startswith(f"{MOVED}/")
    if moved and _staged(shelf, record, target) is not None:
        return ""
    return _obstacle(shelf, path, now, target, left)


def _put(
    shelf: Storage, record: JournalRecord, place: Path, now: FileVersion, target: FileVersion
) -> None:
    """Make a path what it should be. Raises OSError where the system refuses."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if now.mark == target.mark:
        pass  # only its permissions differ
    elif target.kept != "blob":
        source = _staged(shelf, record, target) or _source(shelf, target)
        assert source is not None  # otherwise there is an obstacle
        shutil.move(source, place)
    else:
        data = shelf.blobs.content(target.digest, target.size)
        if data is None:
            raise OSError(None, NOT_KEPT)
        # Where this undo was killed here before, its new file is left: a folder with that in it
        # could not be removed any more.
        token = hashlib.sha256(os.fsencode(f"{record.id}/{place}")).hexdigest()[:16]
        temporary_of(place, token).unlink(missing_ok=True)
        if target.is_link:
            _link(place, os.fsdecode(data), token)
        else:
            atomic_write(place, data, mode=_mode(target), token=token)
            if target.modified:
                os.utime(place, ns=(target.modified, target.modified))
    if not target.is_link:
        place.chmod(_mode(target))


def _mode(state: FileVersion) -> int:
    """The permission bits that are put back."""
    return stat.S_IMODE(state.mode) & 0o777


def _aside(shelf: Storage, record: JournalRecord, path: str) -> Path:
    """Where an undo puts a file that it moves, until its place is free."""
    aside = _in_trash(shelf, FileVersion(kept=f"{TRASH}/{record.id}/{path}"))
    assert aside is not None  # it is below the trash
    return aside


def _staged(shelf: Storage, record: JournalRecord, target: FileVersion) -> Path | None:
    """A file that this undo has put aside in order to move it."""
    if not target.kept.startswith(f"{MOVED}/"):
        return None
    aside = _aside(shelf, record, target.kept.removeprefix(f"{MOVED}/"))
    is_it = os.path.lexists(aside) and look(aside, (target.mark,)).mark == target.mark
    return aside if is_it else None


def _link(place: Path, to: str, token: str) -> None:
    temporary = temporary_of(place, token)
    temporary.symlink_to(to)
    temporary.replace(place)


def _in_trash(shelf: Storage, state: FileVersion) -> Path | None:
    """Where in the trash a state's content is, or will be; None where it is not put there."""
    if not state.kept.startswith(f"{TRASH}/"):
        return None
    folder = shelf.workspace.state_folder
    place = folder / state.kept
    if not Path(os.path.realpath(place.parent)).is_relative_to(folder / TRASH):
        raise OSError(None, f"{folder / TRASH} is a link")
    return place


def _source(shelf: Storage, target: FileVersion) -> Path | None:
    """The very file that is to be put back, where it is kept as one."""
    if not target.kept.startswith(f"{MOVED}/"):
        return _in_trash(shelf, target)
    path = target.kept.removeprefix(f"{MOVED}/")
    if not is_restorable(shelf.workspace, path):
        return None
    source = shelf.workspace.root / path
    return source if Path(os.path.realpath(source)) == source else None


def _remove_empty(place: Path, count: int) -> None:
    """Remove folders that the turn made, from the lowest up, as long as they are empty."""
    for folder in list(place.parents)[:count]:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _diff(shelf: Storage, path: str, target: FileVersion) -> str:
    """From what is there to what would be put there; empty where one of them is no text."""
    try:
        place = shelf.workspace.root / path
        now = b"" if not place.exists() else _small(place)
    except OSError:
        return ""
    kept = target.kept == "blob"
    wanted = shelf.blobs.content(target.digest, target.size) if kept else b""
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


def standing(records: Sequence[JournalRecord]) -> Iterator[JournalRecord]:
    """The turns that are not undone, newest first."""
    by_id = {record.id: record for record in records}
    undone: set[str] = set()
    for record in records:
        if record.kind == "undo" and record.ended:
            undone.update(done_by(record, by_id))
        elif record.kind == "redo" and record.ended and not record.failed:
            for back in record.undoes:
                undone.difference_update(by_id[back].undoes if back in by_id else ())
    turns = (record for record in records if record.kind == "turn" and record.id not in undone)
    return reversed(list(turns))


def redoable(records: Sequence[JournalRecord]) -> JournalRecord | None:
    """The last undo that was not taken back, unless a turn has run since."""
    stack: list[JournalRecord] = []
    for record in records:
        if record.kind == "turn":
            stack.clear()
        elif record.ended and record.kind == "undo":
            stack.append(record)
        elif record.ended and not record.failed and stack:
            stack.pop()
    return stack[-1] if stack else None


def done_by(undo: JournalRecord, by_id: Mapping[str, JournalRecord]) -> list[str]:
    """The turns that an undo has undone: those without a file for which it failed."""
    failed = set(undo.failed)
    return [
        turn for turn in undo.undoes if turn not in by_id or failed.isdisjoint(by_id[turn].entries)
    ]
