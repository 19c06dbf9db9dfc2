"""The checkpoint of a running turn: what files were before the turn changed them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from jupyter_agent.kernel.effects import Writes, watched
from jupyter_agent.undo.journal import FileEntry, Journal, before_line, left_line, notice_line
from jupyter_agent.undo.scan import FileSnapshot, Fingerprint, Scanner, differences
from jupyter_agent.undo.snapshot import (
    PICTURE,
    StoredSnapshot,
    changed_lines,
    load_known,
    save_known,
)
from jupyter_agent.undo.storage import Storage
from jupyter_agent.undo.versions import ABSENT, FileVersion, look, mark_of

ALIVE = "alive"
_BEAT = 0.5
_NAMED = 20
_CACHES = frozenset(
    {"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache"}
)


@dataclass(frozen=True, slots=True)
class Touched:
    """A file that the turn has changed. `path` is relative to the workspace's root."""

    path: str
    kind: Literal["created", "changed", "deleted"]


class Checkpoint:
    """What one turn is undone from. Made by `Checkpoints.begin`, ended by `end`.

    Nothing here stops a turn: what cannot be kept is said in `notices`.

    Attributes:
        id: The turn's, unique in the workspace.
    """

    def __init__(
        self, shelf: Storage, scanner: Scanner, journal: Journal, running: FileLock
    ) -> None:
        self.id = journal.record.id
        self._shelf = shelf
        self._scanner = scanner
        self._journal = journal
        self._running = running
        self._root = shelf.workspace.root
        self._one_by_one = threading.RLock()  # file tools run on threads of their own
        self._problems: list[str] = []
        self._known: dict[str, tuple[Fingerprint, str]] | None = None
        self._checked: set[str] = set()
        self._kept: StoredSnapshot | None = None
        self._entries_kept = 0
        self._missed = False
        self._last: FileSnapshot | None = None
        self._heart: _Heart | None = None
        self._written: set[str] = set()
        self._writes: Writes | None = None
        self._had_children = False
        self._unkept: set[str] = set()

    @property
    def rewritten(self) -> frozenset[str]:
        """Files that code wrote anew, and that hold what they held before."""
        return frozenset(self._written) - {touched.path for touched in self.touched}

    @property
    def notices(self) -> tuple[str, ...]:
        """What cannot be restored, and why, one line each."""
        return tuple(dict.fromkeys([*self._journal.record.notices, *self._problems]))

    @property
    def touched(self) -> tuple[Touched, ...]:
        """What the turn has changed so far, in order; not what is as it was before."""
        found = []
        for path, entry in self._journal.record.entries.items():
            before, after = entry.before.mark, entry.after
            if before != after and not _is_as_before(self._root / path, entry.before):
                kind: Any = "deleted" if not after else "changed" if before else "created"
                if not self._comes_with_files(path, entry):
                    found.append(Touched(path, kind))
        return tuple(found)

    def _comes_with_files(self, path: str, entry: FileEntry) -> bool:
        """Whether a path is a folder that came or went with what is in it."""
        is_folder = entry.before.is_folder or (self._root / path).is_dir()
        entries = self._journal.record.entries
        return is_folder and any(each.startswith(f"{path}/") for each in entries)

    def before(self, path: str) -> bytes | None:
        """What a file held before the turn; None where nothing was there, or it is not kept."""
        entry = self._journal.record.entries.get(path)
        return self._shelf.blobs.content(entry.before.digest) if entry else None

    # File tools ----------------------------------------------------------------------------------

    def before_write(self, path: Path, data: bytes) -> None:
        """A tool is about to write `data` to a resolved path inside of the workspace."""
        name = path.relative_to(self._root).as_posix()
        with self._patiently(f"{name}: what was there before could not be kept"):
            self._note_before(name, path)
            self._journal.write(left_line(name, FileVersion(mark_of(data))))

    def _note_before(self, name: str, path: Path) -> None:
        entry = self._journal.record.entries.get(name)
        if entry is None:
            before = self._before(name, path)
            lines = [before_line(name, before, missing_folders(path, self._root))]
            if before.why:
                lines.append(notice_line(f"{name}: cannot be restored, since {before.why}"))
            self._journal.write(*lines)
        elif not self._code_runs and look(path).mark not in (entry.before.mark, *entry.left):
            self._journal.write({"line": "between", "path": name})

    def _before(self, name: str, path: Path) -> FileVersion:
        """What was at the path when the turn began to change it, its content kept."""
        if not self._code_runs or self._kept is None:
            return self._shelf.keep_with_room(path)
        # A tool called by running code, which may have changed the file itself before.
        now = self._scanner.look().files.get(name)
        then = self._kept.picture.files.get(name)
        if now == then:
            return self._shelf.keep_with_room(path)
        return ABSENT if then is None else self._kept.state(name)

    # Code ----------------------------------------------------------------------------------------

    @contextmanager
    def code(self, text: str = "") -> Iterator[None]:
        """Around each execution of the agent's code, `text`: what it changes is noticed."""
        self.before_code()
        try:
            with watched(text) as self._writes:
                yield
        finally:
            self.after_code()

    def before_code(self) -> None:
        """Keep the small files, and take down what the others look like."""
        with self._noticing("The files that code changes could not be kept"):
            picture = self._scanner.look()
            self._note_what_others_changed(picture)
            fresh = not self._goes_on(picture)
            if fresh:
                with self._shelf.locked():
                    self._keep(picture)
            self._beat()
            # A kernel that is killed leaves what it wrote; only a power cut takes what is not
            # synced, and then what the code wrote a moment ago as well.
            self._journal.write({"line": "code", "running": True}, durable=fresh)

    def _goes_on(self, picture: FileSnapshot) -> bool:
        """Go on with what is kept, if that is all of a picture, as before most executions.

        What could not be kept is tried again each time.
        """
        kept = self._kept
        if (
            kept is None
            or self._missed
            or self._entries_kept != len(self._journal.record.entries)
            or not kept.picture.is_like(picture)
            or any(map(kept.picture.is_racy, picture.files))
        ):
            return False
        self._kept = StoredSnapshot(picture, kept.digests)
        return True

    def _keep(self, picture: FileSnapshot) -> None:
        entries = len(self._journal.record.entries)
        before, self._kept = self._kept, StoredSnapshot(picture, self._keep_in_advance(picture))
        self._entries_kept = entries
        if not picture.complete:
            most = self._shelf.limits.scanned_files
            self._say(f"Only {most:,} files were looked at, of which code may change others.")
        if before is None or not self._kept.is_like(before):
            self._kept.save(self._journal.folder)

    def after_code(self) -> None:
        """Note what the code has changed."""
        with self._noticing("The files that code changed could not be noted"):
            if self._heart is not None:
                self._heart.rest()
            if not self._code_runs or self._kept is None:
                return
            after = self._scanner.look()
            self._written.update(differences(self._kept.picture, after, self._root).changed)
            if self._writes is not None:
                # A process that was started in this turn may go on.
                self._had_children |= self._writes.has_children or _has_children()
                self._writes.has_children = self._had_children
            record, writes = self._journal.record, self._writes
            lines = list(changed_lines(self._root, record, self._kept, after, writes=writes))
            if writes is not None:
                lines += self._not_looked_at(writes, after)
            self._writes = None
            # Where nothing changed, the line may wait for the next one that is synced: without
            # it, only what was seen to change would be looked at once more.
            self._journal.write(*lines, {"line": "code", "running": False}, durable=bool(lines))
            self._last = after

    def _not_looked_at(self, writes: Writes, after: FileSnapshot) -> list[dict[str, Any]]:
        """Notices about files that the code wrote, and that are left out or beyond the limit."""
        found = (Path(path) for path in sorted(writes.paths - self._unkept))
        paths = [path for path in found if self._is_worth_a_notice(path)]
        names = [path.relative_to(self._root).as_posix() for path in paths]
        names = [name for name in names if self._is_beyond(name, after)]
        room = max(0, _NAMED - len(self._unkept))
        lines = [f"{name}: cannot be restored, since undo does not look at it" for name in names]
        if len(names) > room:
            lines[room:] = ["More files were changed that undo does not look at."]
        self._unkept.update(map(str, paths))
        return [notice_line(line) for line in lines if line not in self._journal.record.notices]

    def _is_beyond(self, name: str, after: FileSnapshot) -> bool:
        """Whether a file that was written is none of those that are looked at."""
        pictures = [after, *([self._kept.picture] if self._kept else [])]
        if name in self._journal.record.entries or any(name in each.files for each in pictures):
            return False
        if self._scanner.leaves_out(name):
            return True
        is_all = all(picture.complete for picture in pictures)
        return not is_all and os.path.lexists(self._root / name)

    def _is_worth_a_notice(self, path: Path) -> bool:
        """Whether a path is a file of the person's, which is there, or was until now."""
        if not path.is_relative_to(self._root) or path == self._root:
            return False
        parts = path.relative_to(self._root).parts
        if not _CACHES.isdisjoint(parts) or path.name.startswith(".jupyter_agent-"):
            return False
        is_own = self._scanner.hides(path) or self._shelf.workspace.protects(path)
        return not (path.is_dir() or is_own)

    @property
    def _code_runs(self) -> bool:
        return self._journal.record.code_runs

    def _note_what_others_changed(self, now: FileSnapshot) -> None:
        """Files of this turn that somebody else changed while no code ran."""
        for name, entry in self._journal.record.entries.items():
            if entry.unclear or (self._last and now.files.get(name) == self._last.files.get(name)):
                continue
            if look(self._root / name).mark not in (entry.before.mark, *entry.left):
                self._journal.write({"line": "between", "path": name})

    def _keep_in_advance(self, picture: FileSnapshot) -> dict[str, str]:
        """The digests of what is kept of the workspace, the latest files first."""
        limits, record = self._shelf.limits, self._journal.record
        if self._known is None:
            self._known = load_known(self._shelf.folder)
        latest = sorted(picture.files.items(), key=lambda item: -item[1].modified)
        kept: dict[str, str] = {}
        self._missed = False
        room = limits.advance_bytes
        self._shelf.make_room(min(room, sum(stamp.size for stamp in picture.files.values())))
        for name, stamp in latest:
            # What the turn has changed is kept as it was before that.
            if stamp.size > limits.advance_file_bytes or name in record.entries:
                continue
            if stamp.size > room or len(kept) >= limits.advance_files:
                self._say(
                    "Not all files could be kept in advance: of those that code changes, the "
                    "ones that were changed last before can be restored."
                )
                break
            if digest := self._digest(name, stamp, picture):
                kept[name] = digest
                room -= stamp.size
            else:
                self._missed = True
        self._known = {name: found for name, found in self._known.items() if name in picture.files}
        return kept

    def _digest(self, name: str, stamp: Fingerprint, picture: FileSnapshot) -> str:
        """The digest of a file that is kept; empty where it cannot be kept."""
        known = self._known if self._known is not None else {}
        if name in known and known[name][0] == stamp:
            digest = known[name][1]
            if digest in self._checked or self._shelf.blobs.has(digest):
                self._checked.add(digest)
                return digest
        try:
            # Nothing is dropped to make room: what was just kept is noted nowhere yet.
            state = self._shelf.keep(
                self._root / name, self._shelf.limits.advance_file_bytes, durable=False
            )
        except OSError:
            return ""
        if not state.kept or state.mode != stamp.mode:
            return ""
        self._checked.add(state.digest)
        if not picture.is_racy(name):
            known[name] = stamp, state.digest
        return state.digest

    # The end -------------------------------------------------------------------------------------

    def end(self) -> None:
        """The turn is over. What it left is known from now on."""
        try:
            with self._patiently("The checkpoint could not be ended"):
                if self._code_runs:
                    self.after_code()
                self._journal.write({"line": "end"})
                if self._known is not None:
                    save_known(self._shelf.folder, self._known)
                clear_away(self._journal.folder)
                self._shelf.sweep()
        finally:
            if self._heart is not None:
                self._heart.stop()
            self._running.release()

    # Notices and locks ---------------------------------------------------------------------------

    def _beat(self) -> None:
        if self._heart is None:
            self._heart = _Heart(self._journal.folder / ALIVE)
        self._heart.beat()

    def _say(self, text: str) -> None:
        if text not in self._journal.record.notices:
            self._journal.write(notice_line(text))

    @contextmanager
    def _patiently(self, problem: str) -> Iterator[None]:
        """Hold the locks, for what touches more than this turn's own record."""
        with self._noticing(problem), self._shelf.locked():
            yield

    @contextmanager
    def _noticing(self, problem: str) -> Iterator[None]:
        """What the system refuses becomes a notice that starts with `problem`."""
        with self._one_by_one:
            try:
                yield
            except OSError as error:
                self._problems.append(f"{problem}: {error.strerror or error}.")


def clear_away(folder: Path) -> None:
    """Remove what a record's folder holds only while code runs."""
    for name in (PICTURE, ALIVE):
        with contextlib.suppress(OSError):
            (folder / name).unlink()


class _Heart:
    """Says twice a second that the kernel is alive while code runs, so that a crash can be dated.

    One thread for a turn: to start one takes longer than most of what is executed.

    Args:
        path: The file whose time is set.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._running = False
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="checkpoint").start()

    def beat(self) -> None:
        """Code runs from now on. Raises OSError where the file cannot be made."""
        self._path.touch(mode=0o600)
        self._running = True

    def rest(self) -> None:
        """Code does not run any more."""
        self._running = False

    def stop(self) -> None:
        """It will not run again."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_BEAT):
            with contextlib.suppress(OSError):
                if self._running:
                    os.utime(self._path)


def _has_children() -> bool:
    """Whether processes run that this one has started: some ways to start one are not seen."""
    try:
        return bool(Path("/proc/self/task", str(os.getpid()), "children").read_bytes())
    except OSError:
        return False


def _is_as_before(path: Path, before: FileVersion) -> bool:
    with contextlib.suppress(OSError):
        return look(path).is_same(before)
    return False


def missing_folders(path: Path, root: Path) -> int:
    """How many of the folders above a path are not there."""
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    return sum(not os.path.lexists(folder) for folder in above)
