"""The folder of checkpoints: its lock, its contents, its records, and how large it may become.

<state folder>/checkpoints/
  .lock             held while anything here is changed but a turn's own journal
  blobs/            contents of files, by digest
  known.json        digests of the workspace's small files, so that few are read again
  <record>/         one folder for each turn and each undo: journal.jsonl, and while code runs
                    picture.json, alive and running
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from jupyter_agent.checkpoints import journal
from jupyter_agent.checkpoints.blobs import Blobs
from jupyter_agent.checkpoints.journal import Journal, Kind, Record
from jupyter_agent.checkpoints.pictures import load_known, pictured_digests
from jupyter_agent.checkpoints.states import State, read
from jupyter_agent.errors import ConfigError
from jupyter_agent.tools.textfile import size
from jupyter_agent.workspace import Workspace

FOLDER = "checkpoints"
TRASH = "trash"
LOCK_SECONDS = 10
_ID = re.compile(r"\d{8}_\d{6}_\d{6}_[0-9a-f]{6}")
_STAMP = "%Y%m%d_%H%M%S_%f"
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept.

    Args:
        file_bytes: The largest file that is kept before a file tool writes it.
        total_bytes: All contents together; the oldest turns are dropped first.
        records: Turns and undos that are remembered.
        advance_file_bytes: The largest file that is kept in advance, before code runs.
        advance_bytes: What is kept in advance, all together.
        advance_files: How many files are kept in advance, those that changed last.
        scanned_files: How many files of a workspace are looked at.
    """

    file_bytes: int = 20 * 1024 * 1024
    total_bytes: int = 500 * 1024 * 1024
    records: int = 200
    advance_file_bytes: int = 1024 * 1024
    advance_bytes: int = 50 * 1024 * 1024
    advance_files: int = 2_000
    scanned_files: int = 20_000


class Shelf:
    """The folder of one workspace. Any number of kernels may use it at the same time.

    Raises:
        ConfigError: The folder cannot be made, or is a link.
    """

    def __init__(self, workspace: Workspace, limits: Limits) -> None:
        self.workspace = workspace
        self.limits = limits
        self.folder = workspace.ensure_state_folder() / FOLDER
        if Path(os.path.realpath(self.folder)) != self.folder:
            raise ConfigError(f"{self.folder} is a link. Replace it by a folder.")
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The folder {self.folder} cannot be made: {error.strerror}."
            ) from error
        self.blobs = Blobs(self.folder / "blobs")
        self._lock = FileLock(self.folder / ".lock", timeout=LOCK_SECONDS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock; it may be held already by this thread.

        Raises:
            OSError: Somebody else holds it for too long.
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

    def keep_with_room(self, path: Path) -> State:
        """Like `keep`, dropping the oldest turns where that is needed."""
        with contextlib.suppress(OSError):
            self.make_room(min(os.lstat(path).st_size, self.limits.file_bytes))
        return self.keep(path)

    def make_room(self, count: int) -> None:
        """See that so many bytes can be kept, as far as dropping the oldest turns helps."""
        if self.blobs.total + count > self.limits.total_bytes:
            self.sweep(count)

    def keep(self, path: Path, most: int | None = None, durable: bool = True) -> State:
        """What is at a path, its content kept where that is possible; `why` says where not.

        Raises:
            OSError: The file cannot be looked at.
        """
        most = self.limits.file_bytes if most is None else most
        state, data = read(path, most)
        if not state.is_there:
            return state
        if data is None:
            why = "it is no file" if state.mark.startswith("kind:") else f"larger than {size(most)}"
            return replace(state, why=why)
        if self.blobs.has(state.digest):
            return replace(state, kept="blob")
        if self.blobs.total + len(data) > self.limits.total_bytes:
            return replace(state, why=f"{size(self.limits.total_bytes)} are kept already")
        try:
            self.blobs.keep(state.digest, data, durable)
        except OSError as error:
            return replace(state, why=f"it could not be kept ({error.strerror})")
        return replace(state, kept="blob")

    def sweep(self, room: int = 0) -> None:
        """Drop the oldest records until the rest is within the limits, and what nobody needs."""
        records = self.records()
        droppable = [record for record in records if record.ended]
        kept = list(records)
        advance = self._advance()
        while droppable:
            wanted = advance.union(*(record.digests() for record in kept))
            if (
                len(kept) <= self.limits.records
                and self.blobs.size(wanted) + room <= self.limits.total_bytes
            ):
                break
            oldest = droppable.pop(0)
            kept.remove(oldest)
            shutil.rmtree(self.folder / oldest.id, ignore_errors=True)
        self.blobs.sweep(advance.union(*(record.digests() for record in kept)))

    def older(self, days: float) -> list[str]:
        """The ids of records that are older by their name and by the system's dates."""
        limit = timedelta(days=days)
        now = datetime.now(UTC)
        found = []
        for name in self._names():
            with contextlib.suppress(OSError, ValueError, OverflowError):
                begun = datetime.strptime(name[:22], _STAMP).replace(tzinfo=UTC)
                changed = datetime.fromtimestamp((self.folder / name).lstat().st_mtime, UTC)
                if now - begun > limit and now - changed > limit:
                    found.append(name)
        return found

    def drop(self, names: list[str]) -> None:
        """Remove records, and the contents that no other one needs. Needs the lock."""
        for name in names:
            if not (self.folder / name).is_symlink():
                shutil.rmtree(self.folder / name, ignore_errors=True)
        self.sweep()

    def _advance(self) -> set[str]:
        digests = {digest for _, digest in load_known(self.folder).values()}
        for name in self._names():
            digests |= pictured_digests(self.folder / name)
        return digests

    # Records -------------------------------------------------------------------------------------

    def records(self, owner: str | None = None) -> list[Record]:
        """What is remembered, oldest first; only what one owner did, where one is given."""
        found = (journal.read(self.folder / name) for name in self._names())
        return [each for each in found if each and owner in (None, each.owner)]

    def begin(
        self, kind: Kind, owner: str, task: str = "", undoes: tuple[str, ...] = ()
    ) -> Journal:
        """Begin a record, with an id that comes after all others."""
        stamp = datetime.now(UTC).strftime(_STAMP)
        last = max((name[:22] for name in self._names()), default="")
        if stamp <= last:  # the clock was set back, or is coarse
            after = datetime.strptime(last, _STAMP).replace(tzinfo=UTC)
            stamp = (after + _TICK).strftime(_STAMP)
        record = Record(f"{stamp}_{secrets.token_hex(3)}", kind, owner, task, undoes)
        return Journal(self.folder / record.id, record)

    def running_lock(self, record: Record) -> FileLock:
        """The lock that is held as long as a record is being written."""
        return FileLock(self.folder / record.id / "running", thread_local=False)

    def is_running(self, record: Record) -> bool:
        """Whether some kernel is at it."""
        if record.ended:
            return False
        lock = self.running_lock(record)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def _names(self) -> list[str]:
        try:
            return sorted(each.name for each in self.folder.iterdir() if _ID.fullmatch(each.name))
        except OSError:
            return []
