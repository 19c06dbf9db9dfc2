"""The checkpoints of one notebook: begin a turn, plan an undo, apply it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from jupyter_agent.core.plaintext import count
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo.apply import apply
from jupyter_agent.undo.differences import changed_lines, differences
from jupyter_agent.undo.journal import JournalRecord
from jupyter_agent.undo.plan import Undo, plan_of, redoable, rest_of, standing
from jupyter_agent.undo.scan import Scanner
from jupyter_agent.undo.snapshot import load_snapshot
from jupyter_agent.undo.storage import Storage, StorageLimits
from jupyter_agent.undo.turn import ALIVE, Checkpoint, clear_away

NOTHING = "There is no turn to undo."
NOTHING_BACK = "There is no undo to take back: none was made since the last turn."


def _without_secrets(task: str) -> str:
    """A task without secrets. Call it before cutting: half of a key is not recognized."""
    return redact(task[:20_000], secret_values())


class Checkpoints:
    """Begins the turns of a notebook, and undoes them.

    Args:
        workspace: The workspace whose files are kept.
        owner: The notebook's name. A kernel undoes its own turns, and those of kernels of the
            same notebook that have ended.
        limits: How much is kept.
        hidden: Returns files that are never kept, as resolved paths.

    Raises:
        ConfigError: The state folder cannot be used.
    """

    def __init__(
        self,
        workspace: Workspace,
        owner: str = "",
        limits: StorageLimits | None = None,
        hidden: Callable[[], frozenset[Path]] = frozenset,
    ) -> None:
        self.owner = owner
        self._storage = Storage(workspace, limits or StorageLimits())
        self._scanner = Scanner(workspace, self._storage.limits.scanned_files, hidden)

    def begin(self, task: str = "") -> Checkpoint:
        """Begin a turn. Call `end` of its checkpoint, however the turn ends.

        Args:
            task: The person's task; its beginning is kept, without secrets.

        Raises:
            AgentError: The checkpoints cannot be written: the turn could not be undone.
        """
        try:
            with self._storage.locked():
                self.settle()
                journal = self._storage.begin("turn", self.owner, _without_secrets(task)[:200])
                running = self._storage.running_lock(journal.record)
                running.acquire()
        except OSError as error:
            raise AgentError(f"{error.strerror or error}.") from error
        return Checkpoint(self._storage, self._scanner, journal, running)

    def turns(self) -> list[JournalRecord]:
        """The turns that this kernel can undo, newest first."""
        return self._mine(standing(self._storage.records(self.owner)))

    def turns_of_others(self) -> list[JournalRecord]:
        """The turns that other running kernels of the same notebook can undo, newest first."""
        found = list(standing(self._storage.records(self.owner)))
        mine = {record.id for record in self._mine(found)}
        return [record for record in found if record.id not in mine]

    def remarks(self) -> list[str]:
        """Says which turns cannot be undone here, one line each."""
        others, foreign = len(self.turns_of_others()), self._storage.foreign()
        found = []
        if others:
            found.append(f"{count(others, 'turn')} of other running kernels: undo them there.")
        if foreign:
            found.append(
                f"{count(foreign, 'turn')} in {STATE_FOLDER}/checkpoints, not written by you in "
                "this folder with this version: not undone."
            )
        return found

    def _mine(self, records: Iterable[JournalRecord]) -> list[JournalRecord]:
        """The records of this kernel, and of kernels of the notebook that have ended."""
        alive: dict[str, bool] = {}
        found = []
        for record in records:
            if record.kernel not in alive:
                alive[record.kernel] = self._storage.is_of_other_kernel(record)
            if not alive[record.kernel]:
                found.append(record)
        return found

    def plan(self, turns: int = 1, over: Collection[str] = ()) -> Undo:
        """What undoing the last turns would do. After an interrupted undo: the rest of it.

        Args:
            turns: How many turns to go back.
            over: Paths to restore even if somebody else has changed them since.

        Raises:
            AgentError: There are fewer turns, one is running, or the folder is in use.
        """
        records = self._settled()
        if pending := self._pending(self._mine(records)):
            return pending
        found = self._mine(standing(records))
        if not found:
            raise AgentError(" ".join([NOTHING, *self.remarks()]))
        if turns > len(found):
            raise AgentError(f"There are only {count(len(found), 'turn')} to undo, not {turns}.")
        chosen = found[:turns]
        if any(self._storage.is_running(record) for record in chosen):
            raise AgentError("The turn is still running. Wait for it, or interrupt the kernel.")
        return plan_of(self._storage, "undo", chosen, over, self._others())

    def plan_back(self) -> Undo:
        """What taking back the last undo would do. After an interrupted undo: the rest of it.

        Raises:
            AgentError: There is no undo since the last turn.
        """
        records = self._mine(self._settled())
        if pending := self._pending(records):
            return pending
        last = redoable(records)
        if last is None:
            raise AgentError(NOTHING_BACK)
        return plan_of(self._storage, "redo", [last], (), self._others())

    def apply(self, plan: Undo) -> Undo:
        """Carry out a plan. A file that changed after it was planned is left as it is.

        Returns:
            The plan with the outcome of each step.

        Raises:
            AgentError: The journal cannot be written; no file was changed.
        """
        try:
            return apply(self._storage, plan, self.owner)
        except OSError as error:
            raise AgentError(f"Not undone: {error.strerror or error}.") from error

    def forget(self, days: float, spared: Collection[str] = (), show: bool = False) -> int:
        """Drop old records of all notebooks, and the contents that only they need.

        Args:
            days: Drop what is older. Records with a date in the future are not old.
            spared: Ids of records to keep.
            show: Count only.

        Returns:
            How many turns were dropped, or would be. A record that cannot be read counts as one.

        Raises:
            AgentError: The folder cannot be used, or another kernel holds its lock.
        """
        try:
            old = [name for name in self._storage.older(days) if name not in spared]
            if not old:
                return 0
            with self._storage.locked():
                found = {record.id: record for record in self._storage.records()}
                # Nothing can be undone from a record that cannot be read, so it goes, too.
                going = [name for name in old if name not in found or self._may_go(found[name])]
                if not show:
                    self._storage.drop(going)
        except OSError as error:
            raise AgentError(f"{error.strerror or error}.") from error
        return sum(name not in found or found[name].kind == "turn" for name in going)

    def _may_go(self, record: JournalRecord) -> bool:
        return bool(record.ended) and not self._storage.is_of_other_kernel(record)

    def settle(self) -> None:
        """End the turns of kernels that died.

        Files that changed while a turn's last code ran count as the turn's, up to the time at which
        its kernel was last seen alive. Later changes are somebody else's.

        Raises:
            OSError: The folder cannot be written, or another kernel holds its lock.
        """
        with self._storage.locked():
            for record in self._storage.records():
                if record.ended or self._storage.is_running(record):
                    continue
                if record.kind == "turn":
                    self._end(record)
                elif not record.planned:
                    shutil.rmtree(self._storage.folder / record.id, ignore_errors=True)

    def settle_if_possible(self) -> None:
        """Like `settle`, but does nothing if the folder cannot be written."""
        with suppress(OSError):
            self.settle()

    def _end(self, record: JournalRecord) -> None:
        journal = self._storage.journal(record)
        before = load_snapshot(journal.folder) if record.code_runs else None
        if before is not None:
            root = self._storage.workspace.root
            try:
                alive = (journal.folder / ALIVE).stat().st_mtime_ns
            except OSError:
                alive = before.began
            after = self._scanner.scan()
            found = differences(before, after, root)
            lines = changed_lines(root, record, before, after, found=found, stopped=alive)
            journal.write(*lines, {"line": "code", "running": False})
        journal.write({"line": "end"})
        clear_away(journal.folder)

    def _others(self) -> list[JournalRecord]:
        """The turns that are not this kernel's, of any notebook."""
        records = self._storage.records()
        ours = {record.id for record in self._mine(r for r in records if r.owner == self.owner)}
        return [record for record in standing(records) if record.id not in ours]

    def _settled(self) -> list[JournalRecord]:
        try:
            self.settle()
        except OSError as error:
            raise AgentError(f"Not undone: {error.strerror or error}.") from error
        return self._storage.records(self.owner)

    def _pending(self, records: list[JournalRecord]) -> Undo | None:
        """The rest of an undo that was interrupted; None if a turn has run since."""
        last = records[-1] if records else None
        if last is None or last.kind == "turn" or last.ended or not last.planned:
            return None
        undone = [record for record in records if record.id in last.undoes]
        return rest_of(self._storage, last, tuple(reversed(undone)))
