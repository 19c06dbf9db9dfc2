"""The checkpoint of a running turn: keeps files before the turn changes them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from jupyter_agent.core.events import FileChange
from jupyter_agent.kernel.writes import Writes, watched
from jupyter_agent.undo.differences import ChangeKind, changed_lines, differences
from jupyter_agent.undo.journal import FileEntry, Journal, before_line, left_line, notice_line
from jupyter_agent.undo.scan import Scanner
from jupyter_agent.undo.snapshot import (
    SNAPSHOT_FILE,
    Digests,
    FileSnapshot,
    Fingerprint,
    load_known,
    save_known,
)
from jupyter_agent.undo.storage import Storage
from jupyter_agent.undo.versions import ABSENT, FileVersion, look, mark_of

ALIVE = "alive"
"""The file of the heartbeat."""
_BEAT = 0.5
_MOST_NAMED = 20
_CACHES = frozenset(
    {"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache"}
)


class Checkpoint:
    """What one turn is undone from. `Checkpoints.begin` makes it, `end` ends it.

    No method fails because a file cannot be kept: `notices` says so instead.

    Attributes:
        id: The turn's id, unique in the workspace.
    """

    def __init__(
        self, storage: Storage, scanner: Scanner, journal: Journal, running: FileLock
    ) -> None:
        self.id = journal.record.id
        self._storage = storage
        self._scanner = scanner
        self._journal = journal
        self._running = running
        self._root = storage.workspace.root
        self._thread_lock = threading.RLock()  # file tools run on threads of their own
        self._problems: list[str] = []
        self._known: Digests | None = None
        self._blobs_seen: set[str] = set()
        self._snapshot_before: FileSnapshot | None = None
        self._entries_then = 0
        self._some_not_kept = False
        self._snapshot_after: FileSnapshot | None = None
        self._heartbeat: _Heartbeat | None = None
        self._written: set[str] = set()
        self._writes: Writes | None = None
        self._had_children = False
        self._named: set[str] = set()

    @property
    def rewritten(self) -> frozenset[str]:
        """Files that code wrote again with the content that they had before."""
        return frozenset(self._written) - {change.path for change in self.touched}

    @property
    def notices(self) -> tuple[str, ...]:
        """What cannot be restored, and why, one line each."""
        return tuple(dict.fromkeys([*self._journal.record.notices, *self._problems]))

    @property
    def touched(self) -> tuple[FileChange, ...]:
        """The files that differ now from before the turn, in the order of their first change."""
        found = []
        for path, entry in self._journal.record.entries.items():
            before, after = entry.before.mark, entry.after
            if before != after and not _is_as_before(self._root / path, entry.before):
                kind: ChangeKind = "deleted" if not after else "changed" if before else "created"
                if not self._comes_with_files(path, entry):
                    found.append(FileChange(path, kind))
        return tuple(found)

    def _comes_with_files(self, path: str, entry: FileEntry) -> bool:
        """True for a folder that was created or deleted together with files in it."""
        is_folder = entry.before.is_folder or (self._root / path).is_dir()
        entries = self._journal.record.entries
        return is_folder and any(each.startswith(f"{path}/") for each in entries)

    def before(self, path: str) -> bytes | None:
        """The content of a file before the turn; None if there was none, or it was not kept."""
        entry = self._journal.record.entries.get(path)
        return self._storage.blobs.content(entry.before.digest) if entry else None

    # File tools ----------------------------------------------------------------------------------

    def before_write(self, path: Path, data: bytes) -> None:
        """Keep a file that a tool is about to write.

        Args:
            path: The file, resolved, inside of the workspace.
            data: What the tool will write.
        """
        name = path.relative_to(self._root).as_posix()
        with self._locked(f"{name}: what was there before could not be kept"):
            self._note_before(name, path)
            self._journal.write(left_line(name, FileVersion(mark_of(data))))

    def _note_before(self, name: str, path: Path) -> None:
        entry = self._journal.record.entries.get(name)
        if entry is None:
            before = self._before(name, path)
            lines = [before_line(name, before, count_missing_folders(path, self._root))]
            if before.why:
                lines.append(notice_line(f"{name}: cannot be restored, since {before.why}"))
            self._journal.write(*lines)
        elif not self._code_runs and look(path).mark not in (entry.before.mark, *entry.left):
            self._journal.write({"line": "between", "path": name})

    def _before(self, name: str, path: Path) -> FileVersion:
        """Keep what is at a path that the turn is about to change for the first time."""
        before = self._snapshot_before
        if not self._code_runs or before is None:
            return self._storage.keep_with_room(path)
        # Running code calls the tool, and may itself have changed the file before.
        fingerprint = before.files.get(name)
        if self._scanner.scan().files.get(name) == fingerprint:
            return self._storage.keep_with_room(path)
        return ABSENT if fingerprint is None else before.version(name)

    # Code ----------------------------------------------------------------------------------------

    @contextmanager
    def code(self, text: str = "") -> Iterator[None]:
        """A context for an execution of the agent's code: notes which files it changes.

        Args:
            text: The code.
        """
        self.before_code()
        try:
            with watched(text) as self._writes:
                yield
        finally:
            self.after_code()

    def before_code(self) -> None:
        """Take a snapshot, and keep the contents of small files."""
        with self._noting_errors("The files that code changes could not be kept for an undo"):
            snapshot = self._scanner.scan()
            self._note_what_others_changed(snapshot)
            is_new = not self._is_kept_already(snapshot)
            if is_new:
                with self._storage.locked():
                    self._keep(snapshot)
            self._start_heartbeat()
            # If the kernel is killed, unsynced lines survive. A power cut takes them, but takes
            # what the code wrote a moment ago, too.
            self._journal.write({"line": "code", "running": True}, durable=is_new)

    def _is_kept_already(self, snapshot: FileSnapshot) -> bool:
        """True if no file changed since the last snapshot, and all that can be kept is kept."""
        last = self._snapshot_before
        if (
            last is None
            or self._some_not_kept  # tried again before each execution
            or self._entries_then != len(self._journal.record.entries)
            or not last.has_same_files(snapshot)
            or any(map(last.is_racy, snapshot.files))
        ):
            return False
        self._snapshot_before = replace(snapshot, digests=last.digests)
        return True

    def _keep(self, snapshot: FileSnapshot) -> None:
        last, entries = self._snapshot_before, len(self._journal.record.entries)
        snapshot = replace(snapshot, digests=self._keep_in_advance(snapshot))
        self._snapshot_before, self._entries_then = snapshot, entries
        if not snapshot.complete:
            most = self._storage.limits.scanned_files
            self._say(
                f"Only {most:,} files were looked at: changes of other files cannot be undone."
            )
        if last is None or last.digests != snapshot.digests or not last.has_same_files(snapshot):
            snapshot.save(self._journal.folder)

    def after_code(self) -> None:
        """Write to the journal what the code has changed."""
        with self._noting_errors("The files that code changed could not be recorded for an undo"):
            if self._heartbeat is not None:
                self._heartbeat.pause()
            before = self._snapshot_before
            if not self._code_runs or before is None:
                return
            after = self._scanner.scan()
            found = differences(before, after, self._root)
            self._written.update(path for path, kind in found.items() if kind == "changed")
            if self._writes is not None:
                # A process that an earlier execution started may still run.
                self._had_children |= self._writes.has_children or _has_children()
                self._writes.has_children = self._had_children
            record, writes = self._journal.record, self._writes
            changes = changed_lines(self._root, record, before, after, found=found, writes=writes)
            lines = list(changes)
            if writes is not None:
                lines += self._notices_of_unscanned(writes, before, after)
            self._writes = None
            # If nothing changed, this line need not be synced: without it, the next kernel would
            # only compare the files once more.
            self._journal.write(*lines, {"line": "code", "running": False}, durable=bool(lines))
            self._snapshot_after = after

    def _notices_of_unscanned(
        self, writes: Writes, before: FileSnapshot, after: FileSnapshot
    ) -> list[dict[str, Any]]:
        """Notices about files that the code wrote, and that scans skip or do not reach."""
        found = (Path(path) for path in sorted(writes.paths - self._named))
        paths = [path for path in found if self._is_worth_a_notice(path)]
        names = [path.relative_to(self._root).as_posix() for path in paths]
        names = [name for name in names if self._is_unscanned(name, before, after)]
        room = max(0, _MOST_NAMED - len(self._named))
        lines = [f"{name}: cannot be restored, since undo does not look at it" for name in names]
        if len(names) > room:
            lines[room:] = [
                "More files were changed that undo does not look at: they cannot be restored."
            ]
        self._named.update(map(str, paths))
        return [notice_line(line) for line in lines if line not in self._journal.record.notices]

    def _is_unscanned(self, name: str, before: FileSnapshot, after: FileSnapshot) -> bool:
        entries = self._journal.record.entries
        if name in entries or name in before.files or name in after.files:
            return False
        if self._scanner.leaves_out(name):
            return True
        is_all = before.complete and after.complete
        return not is_all and os.path.lexists(self._root / name)

    def _is_worth_a_notice(self, path: Path) -> bool:
        """True for a file of the person's; False for folders, caches and files of ours."""
        if not path.is_relative_to(self._root) or path == self._root:
            return False
        parts = path.relative_to(self._root).parts
        if not _CACHES.isdisjoint(parts) or path.name.startswith(".jupyter_agent-"):
            return False
        is_own = self._scanner.hides(path) or self._storage.workspace.protects(path)
        return not (path.is_dir() or is_own)

    @property
    def _code_runs(self) -> bool:
        return self._journal.record.code_runs

    def _note_what_others_changed(self, now: FileSnapshot) -> None:
        """Note files of this turn that somebody else changed while no code ran."""
        for name, entry in self._journal.record.entries.items():
            last = self._snapshot_after
            if entry.unclear or (last and now.files.get(name) == last.files.get(name)):
                continue
            if look(self._root / name).mark not in (entry.before.mark, *entry.left):
                self._journal.write({"line": "between", "path": name})

    def _keep_in_advance(self, snapshot: FileSnapshot) -> dict[str, str]:
        """Keep the contents of small files, the latest first. Returns their digests by path."""
        limits, record = self._storage.limits, self._journal.record
        if self._known is None:
            self._known = load_known(self._storage.folder)
        latest = sorted(snapshot.files.items(), key=lambda item: -item[1].modified)
        kept: dict[str, str] = {}
        self._some_not_kept = False
        room = limits.advance_bytes
        self._storage.make_room(min(room, sum(each.size for each in snapshot.files.values())))
        for name, found in latest:
            # A file that this turn has changed is already kept as it was before the turn.
            if found.size > limits.advance_file_bytes or name in record.entries:
                continue
            if found.size > room or len(kept) >= limits.advance_files:
                self._say(
                    "Not all files could be kept in advance: of the files that code changes, only "
                    "those with the most recent changes before it can be restored."
                )
                break
            if digest := self._keep_one(name, found, snapshot, self._known):
                kept[name] = digest
                room -= found.size
            else:
                self._some_not_kept = True
        self._known = {name: each for name, each in self._known.items() if name in snapshot.files}
        return kept

    def _keep_one(
        self, name: str, fingerprint: Fingerprint, snapshot: FileSnapshot, known: Digests
    ) -> str:
        """Keep a file, unless it is kept already. Returns its digest, or "" if that fails."""
        if name in known and known[name][0] == fingerprint:
            digest = known[name][1]
            if digest in self._blobs_seen or self._storage.blobs.has(digest):
                self._blobs_seen.add(digest)
                return digest
        try:
            # Without making room: a sweep would remove blobs that no record mentions yet.
            version = self._storage.keep(
                self._root / name, self._storage.limits.advance_file_bytes, durable=False
            )
        except OSError:
            return ""
        if not version.kept or version.mode != fingerprint.mode:
            return ""
        self._blobs_seen.add(version.digest)
        if not snapshot.is_racy(name):
            known[name] = fingerprint, version.digest
        return version.digest

    # The end -------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the turn: complete its journal, drop what is beyond the limits, release the lock."""
        try:
            with self._locked("The undo record of this turn could not be completed"):
                if self._code_runs:
                    self.after_code()
                self._journal.write({"line": "end"})
                if self._known is not None:
                    save_known(self._storage.folder, self._known)
                clear_away(self._journal.folder)
                self._storage.sweep()
        finally:
            if self._heartbeat is not None:
                self._heartbeat.stop()
            self._running.release()

    # Notices and locks ---------------------------------------------------------------------------

    def _start_heartbeat(self) -> None:
        if self._heartbeat is None:
            self._heartbeat = _Heartbeat(self._journal.folder / ALIVE)
        self._heartbeat.start()

    def _say(self, text: str) -> None:
        if text not in self._journal.record.notices:
            self._journal.write(notice_line(text))

    @contextmanager
    def _locked(self, problem: str) -> Iterator[None]:
        """Hold the storage's lock, needed for all but this turn's own journal."""
        with self._noting_errors(problem), self._storage.locked():
            yield

    @contextmanager
    def _noting_errors(self, problem: str) -> Iterator[None]:
        """Turn an OSError into a notice that starts with `problem`."""
        with self._thread_lock:
            try:
                yield
            except OSError as error:
                self._problems.append(f"{problem}: {error.strerror or error}.")


def clear_away(folder: Path) -> None:
    """Remove the files that a record's folder has only while code runs."""
    for name in (SNAPSHOT_FILE, ALIVE):
        with contextlib.suppress(OSError):
            (folder / name).unlink()


class _Heartbeat:
    """Sets a file's time twice a second while code runs, so that a crash can be dated.

    Has one thread for a whole turn: starting one takes longer than most code runs.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._running = False
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="checkpoint").start()

    def start(self) -> None:
        """Begin to beat. Raises OSError if the file cannot be made."""
        self._path.touch(mode=0o600)
        self._running = True

    def pause(self) -> None:
        """Stop until the next `start`."""
        self._running = False

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_BEAT):
            with contextlib.suppress(OSError):
                if self._running:
                    os.utime(self._path)


def _has_children() -> bool:
    """True if child processes run. Some ways to start one are not seen by the audit hook."""
    try:
        return bool(Path("/proc/self/task", str(os.getpid()), "children").read_bytes())
    except OSError:
        return False


def _is_as_before(path: Path, before: FileVersion) -> bool:
    with contextlib.suppress(OSError):
        return look(path).is_same(before)
    return False


def count_missing_folders(path: Path, root: Path) -> int:
    """How many of the folders above a path do not exist."""
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    return sum(not os.path.lexists(folder) for folder in above)
