"""The folder that holds what turns are undone from: its lock, blobs and records, and its limits.

<state folder>/checkpoints/
  .lock             held by whoever changes anything here but its own journal
  blobs/            contents of files, by digest
  kernels/          a lock for each kernel, held as long as it runs
  known.json        digests of the workspace's small files, so that few are read again
  <record>/         one folder for each turn and each undo: journal.jsonl; during a turn `running`,
                    a lock, and once code runs picture.json, a snapshot, and `alive`, a heartbeat
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import private_folder
from jupyter_agent.files.shared import is_locked, process_token
from jupyter_agent.files.textfile import size
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import journal
from jupyter_agent.undo.blobs import Blobs
from jupyter_agent.undo.journal import FILE, Journal, JournalRecord, Kind, Seal
from jupyter_agent.undo.snapshot import load_known, load_snapshot
from jupyter_agent.undo.versions import FileVersion, read

FOLDER = "checkpoints"
TRASH = "trash"
LOCK_SECONDS = 10
_ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9]{6}_[0-9a-f]{6}")
_TOKEN = re.compile(r"[0-9a-f]{16}")
_LAST_YEAR = 9999
_KERNELS = "kernels"
_RUNNING = "running"
_SECRET = secrets.token_bytes(32)
_held: dict[Path, FileLock] = {}
"""The locks of this kernel, until it ends."""
_TIME_FORMAT = "%Y%m%d_%H%M%S_%f"
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """How much is kept.

    Args:
        file_bytes: The largest file that is kept before a file tool writes it.
        total_bytes: All blobs together; the oldest turns are dropped first.
        records: Turns that are kept; undos do not count.
        advance_file_bytes: The largest file that is kept before code runs.
        advance_bytes: All files together that are kept before code runs.
        advance_files: How many files are kept before code runs; those that changed last.
        scanned_files: How many files of a workspace are scanned.
    """

    file_bytes: int = 20 * 1024 * 1024
    total_bytes: int = 500 * 1024 * 1024
    records: int = 200
    advance_file_bytes: int = 1024 * 1024
    advance_bytes: int = 50 * 1024 * 1024
    advance_files: int = 2_000
    scanned_files: int = 20_000


class Storage:
    """The checkpoints folder of one workspace. Several kernels may use it at the same time.

    Raises:
        ConfigError: The folder cannot be made, or is a link.
    """

    def __init__(self, workspace: Workspace, limits: StorageLimits) -> None:
        self.workspace = workspace
        self.limits = limits
        self.folder = workspace.ensure_state_folder() / FOLDER
        if Path(os.path.realpath(self.folder)) != self.folder:
            raise ConfigError(f"{self.folder} is a link. Replace it by a folder.")
        try:
            private_folder(self.folder)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.folder} cannot be made: {error.strerror}."
            ) from error
        for name in ("blobs", _KERNELS, ".lock"):
            if os.path.islink(self.folder / name):  # noqa: PTH114 (never raises)
                raise ConfigError(f"{self.folder / name} is a link. Remove it.")
        if os.path.lexists(self.folder / ".lock") and not (self.folder / ".lock").is_file():
            raise ConfigError(f"{self.folder / '.lock'} is not a regular file. Remove it.")
        try:
            secret = trust.personal_key()
        except ConfigError:
            secret = _SECRET  # only this kernel can undo its turns
        self.seal = Seal(secret, workspace.root)
        self._ended: dict[str, tuple[tuple[int, ...], JournalRecord]] = {}
        self.blobs = Blobs(self.folder / "blobs")
        self._lock = FileLock(self.folder / ".lock", timeout=LOCK_SECONDS, mode=0o600)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock. A thread that holds it may take it again.

        Raises:
            OSError: Another kernel holds it for more than ten seconds.
        """
        try:
            self._lock.acquire()
        except Timeout:
            raise OSError(f"{self.folder} is in use by another kernel") from None
        try:
            yield
        finally:
            self._lock.release()

    # Contents ------------------------------------------------------------------------------------

    def keep_with_room(self, path: Path) -> FileVersion:
        """Like `keep`, but drops the oldest turns if there is no room."""
        with contextlib.suppress(OSError):
            self.make_room(min(os.lstat(path).st_size, self.limits.file_bytes))
        return self.keep(path)

    def make_room(self, count: int) -> None:
        """Drop the oldest turns until so many bytes can be kept, if that is possible."""
        if self.blobs.total + count > self.limits.total_bytes:
            self.sweep(count)

    def keep(self, path: Path, most: int | None = None, durable: bool = True) -> FileVersion:
        """Keep what is at a path.

        Args:
            path: The file.
            most: The most bytes to keep; None for the limit of files that tools write.
            durable: Wait until the content is on the disk.

        Returns:
            What is there. If it is not kept, `why` says why.

        Raises:
            OSError: The file cannot be read.
        """
        most = self.limits.file_bytes if most is None else most
        version, data = read(path, most)
        if not version.exists:
            return version
        if data is None:
            is_file = not version.mark.startswith("kind:")
            return replace(
                version, why=f"larger than {size(most)}" if is_file else "it is not a regular file"
            )
        if self.blobs.content(version.digest, len(data)) is not None:
            return replace(version, kept="blob")
        if self.blobs.total + len(data) > self.limits.total_bytes:
            return replace(
                version, why=f"{size(self.limits.total_bytes)} are kept already (undo.max_total_mb)"
            )
        try:
            self.blobs.keep(version.digest, data, durable)
        except OSError as error:
            return replace(version, why=f"it could not be kept ({error.strerror})")
        return replace(version, kept="blob")

    def sweep(self, room: int = 0) -> None:
        """Drop finished records, the oldest ones beyond the limits, and blobs that none needs.

        Args:
            room: Bytes that must be free afterwards.
        """
        kept = self.records()
        for record in [record for record in finished(kept) if record.ended]:
            kept.remove(record)
            self._drop(record)
        droppable = [record for record in kept if record.ended]
        advance = self._advance()
        while droppable:
            wanted = advance.union(*(record.digests() for record in kept))
            if (
                sum(record.kind == "turn" for record in kept) <= self.limits.records
                and len(kept) <= 3 * self.limits.records
                and self.blobs.size(wanted) + room <= self.limits.total_bytes
            ):
                break
            oldest = droppable.pop(0)
            kept.remove(oldest)
            self._drop(oldest)
        self.blobs.sweep(advance.union(*(record.digests() for record in kept)))

    def _drop(self, record: JournalRecord) -> None:
        shutil.rmtree(self.folder / record.id, ignore_errors=True)
        self._ended.pop(record.id, None)

    def older(self, days: float) -> list[str]:
        """The ids of records that are older, by their name and by the folder's date."""
        limit = timedelta(days=days)
        now = datetime.now(UTC)
        found = []
        for name in self._names():
            with contextlib.suppress(OSError, ValueError, OverflowError):
                begun = datetime.strptime(name[:22], _TIME_FORMAT).replace(tzinfo=UTC)
                changed = datetime.fromtimestamp((self.folder / name).lstat().st_mtime, UTC)
                if now - begun > limit and now - changed > limit:
                    found.append(name)
        return found

    def drop(self, names: list[str]) -> None:
        """Remove records, and blobs that no other record needs. Needs the lock."""
        for name in names:
            if not (self.folder / name).is_symlink():
                shutil.rmtree(self.folder / name, ignore_errors=True)
        self.sweep()

    def _advance(self) -> set[str]:
        """The digests of what was kept before code ran."""
        digests = {digest for _, digest in load_known(self.folder).values()}
        for name in self._names():
            if snapshot := load_snapshot(self.folder / name):
                digests |= set(snapshot.digests.values())
        return digests

    def journal(self, record: JournalRecord) -> Journal:
        """The journal of a record, to append to."""
        return Journal(self.folder / record.id, record, self.seal)

    # Records -------------------------------------------------------------------------------------

    def records(self, owner: str | None = None) -> list[JournalRecord]:
        """All records, or those of one owner, oldest first."""
        found = (self._read(name) for name in self._names())
        return [each for each in found if each and owner in (None, each.owner)]

    def _read(self, name: str) -> JournalRecord | None:
        """The record of an id. One that has ended is read again only if its file changed."""
        try:
            found = (self.folder / name / FILE).lstat()
        except OSError:
            return None
        fingerprint = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if name in self._ended and self._ended[name][0] == fingerprint:
            return self._ended[name][1]
        record = journal.read(self.folder / name, self.seal)
        if record and record.ended:
            self._ended[name] = fingerprint, record
        return record

    def foreign(self) -> int:
        """How many records have no valid signature of this person for this workspace."""
        written = [name for name in self._names() if os.path.lexists(self.folder / name / FILE)]
        return len(written) - len(self.records())

    def begin(
        self, kind: Kind, owner: str, task: str = "", undoes: tuple[str, ...] = ()
    ) -> Journal:
        """Begin a record. Its id sorts after all others.

        Args:
            kind: What it is.
            owner: The notebook's name.
            task: The beginning of the task.
            undoes: The ids of the records that it takes back.

        Raises:
            OSError: It cannot be written.
        """
        time = datetime.now(UTC).strftime(_TIME_FORMAT)
        ahead = (name for name in self._names() if name[:22] >= time)
        ours = (name for name in ahead if journal.read(self.folder / name, self.seal))
        last = max((name[:22] for name in ours), default="")
        if time <= last:  # the clock was set back, or is coarse
            time = (_time(last) + _TICK).strftime(_TIME_FORMAT)
        name = f"{time}_{secrets.token_hex(3)}"
        return self.journal(JournalRecord(name, kind, owner, task, undoes, self._own_kernel()))

    # Kernels -------------------------------------------------------------------------------------

    def is_of_other_kernel(self, record: JournalRecord) -> bool:
        """True if another kernel wrote the record, and still runs."""
        if record.kernel == process_token():
            return False
        path = self.folder / _KERNELS / f"{record.kernel}.lock"
        if not _TOKEN.fullmatch(record.kernel) or not path.is_file():
            return False
        return is_locked(path)

    def _own_kernel(self) -> str:
        """This kernel's id. Takes the lock by which others see that it runs."""
        kernel = process_token()
        path = self.folder / _KERNELS / f"{kernel}.lock"
        if not path.exists():
            self._remove_locks_of_ended_kernels()
            private_folder(path.parent)
            lock = FileLock(path, mode=0o600, thread_local=False)
            lock.acquire(timeout=LOCK_SECONDS)
            _held[path] = lock
        return kernel

    def _remove_locks_of_ended_kernels(self) -> None:
        with contextlib.suppress(OSError):
            for path in list((self.folder / _KERNELS).iterdir()):
                if path.is_file() and not self.is_of_other_kernel(
                    JournalRecord("", kernel=path.stem)
                ):
                    path.unlink()

    def running_lock(self, record: JournalRecord) -> FileLock:
        """The lock that a kernel holds while it writes a record."""
        return FileLock(self.folder / record.id / _RUNNING, mode=0o600, thread_local=False)

    def is_running(self, record: JournalRecord) -> bool:
        """True if a kernel is writing the record."""
        return not record.ended and is_locked(self.folder / record.id / _RUNNING)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if _is_id(entry.name) and entry.is_dir(follow_symlinks=False)
                )
        except OSError:
            return []


def foreign_records(workspace: Workspace) -> int:
    """How many turns lie in a workspace's checkpoints that this user did not write there.

    Makes nothing there.
    """
    folder = workspace.state_folder / FOLDER
    if not folder.is_dir() or Path(os.path.realpath(folder)) != folder:
        return 0
    written = [path for path in folder.iterdir() if _is_id(path.name) and (path / FILE).is_file()]
    try:
        seal = Seal(trust.personal_key(), workspace.root) if written else None
    except ConfigError:
        return len(written)
    return sum(journal.read(path, seal) is None for path in written) if seal else 0


def finished(records: Sequence[JournalRecord]) -> list[JournalRecord]:
    """Records that no undo and no redo needs any more, in the order in which to remove them.

    These are an undo with the redo that took it back; and an undone turn with its undo, if the same
    kernel has run another turn since, so that there is no redo.
    """
    by_id = {record.id: record for record in records}
    found: dict[str, JournalRecord] = {}
    for record in records:
        if record.kind == "redo" and record.ended and not record.failed:
            # The undo first: without it the turn counts, with or without the redo.
            undos = [by_id[undo] for undo in record.undoes if undo in by_id]
            found |= {each.id: each for each in (*undos, record)}
    for place, record in enumerate(records):
        is_final = record.kind == "undo" and record.ended and not record.failed
        later = (each for each in records[place + 1 :] if each.kernel == record.kernel)
        if is_final and record.id not in found and any(each.kind == "turn" for each in later):
            turns = [by_id[turn] for turn in record.undoes if turn in by_id]
            found |= {each.id: each for each in (*turns, record)}
    return list(found.values())


@lru_cache(maxsize=2_000)
def _is_id(name: str) -> bool:
    """True for the name of a record: with a valid date, and one that can be increased."""
    if not _ID.fullmatch(name):
        return False
    try:
        return _time(name[:22]).year < _LAST_YEAR
    except ValueError:
        return False


def _time(text: str) -> datetime:
    return datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)
