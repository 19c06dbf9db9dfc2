"""The checkpoints of one notebook: begun with each turn, and what undo goes back to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.undo import undo
from jupyter_agent.undo.journal import JournalRecord
from jupyter_agent.undo.scan import Scanner
from jupyter_agent.undo.snapshot import changed_lines, load_picture
from jupyter_agent.undo.storage import Storage, StorageLimits
from jupyter_agent.undo.turn import ALIVE, Checkpoint, clear_away
from jupyter_agent.undo.undo import UndoPlan, UndoResult

NOTHING = "There is no turn to undo."
NOTHING_BACK = "There is no undo to take back: none was made since the last turn."


def _without_secrets(task: str) -> str:
    """The beginning of a task; what is cut off could be half of a key."""
    return redact(task[:20_000], secret_values())


class Checkpoints:
    """What a notebook's turns can be undone from.

    Args:
        workspace: Whose files are kept.
        owner: The notebook's name. A kernel undoes its own turns, and those of kernels of the
            same notebook that have ended.
        limits: How much is kept.
        hidden: Gives files that are no part of the person's work, as resolved paths.

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
        self._shelf = Storage(workspace, limits or StorageLimits())
        self._scanner = Scanner(workspace, self._shelf.limits.scanned_files, hidden)

    def begin(self, task: str = "") -> Checkpoint:
        """A turn begins. Its checkpoint must be ended, however the turn ends.

        Raises:
            AgentError: The checkpoints cannot be written: the turn could not be undone.
        """
        try:
            with self._shelf.locked():
                self.settle()
                journal = self._shelf.begin("turn", self.owner, _without_secrets(task)[:200])
                running = self._shelf.running_lock(journal.record)
                running.acquire()
        except OSError as error:
            raise AgentError(f"{error.strerror or error}.") from error
        return Checkpoint(self._shelf, self._scanner, journal, running)

    def turns(self) -> list[JournalRecord]:
        """The turns that this kernel can undo, newest first."""
        return self._mine(undo.standing(self._shelf.records(self.owner)))

    def turns_of_others(self) -> list[JournalRecord]:
        """The turns that other running kernels of the same notebook can undo, newest first."""
        standing = list(undo.standing(self._shelf.records(self.owner)))
        mine = {record.id for record in self._mine(standing)}
        return [record for record in standing if record.id not in mine]

    def remarks(self) -> list[str]:
        """What lies there and is not undone, one line each."""
        others, foreign = len(self.turns_of_others()), self._shelf.foreign()
        found = []
        if others:
            found.append(f"{others} of other running kernels: undo them there.")
        if foreign:
            found.append(
                f"{foreign} in {STATE_FOLDER}/checkpoints that were not written by you in this "
                "folder with this version: they are not undone."
            )
        return found

    def _mine(self, records: Iterable[JournalRecord]) -> list[JournalRecord]:
        """The records of this kernel, and of kernels of the notebook that have ended."""
        alive: dict[str, bool] = {}
        found = []
        for record in records:
            if record.kernel not in alive:
                alive[record.kernel] = self._shelf.is_of_other_kernel(record)
            if not alive[record.kernel]:
                found.append(record)
        return found

    def plan(self, turns: int = 1, over: Collection[str] = ()) -> UndoPlan:
        """What undoing the last turns would do.

        An undo that was interrupted is carried on first: then the plan is what is left of it.

        Args:
            turns: How many turns to go back.
            over: Paths that are restored although somebody else has changed them since.

        Raises:
            AgentError: There are not so many turns, one is running, or the folder is in use.
        """
        records = self._settled()
        if pending := self._pending(self._mine(records)):
            return pending
        found = self._mine(undo.standing(records))
        if not found:
            raise AgentError(" ".join([NOTHING, *self.remarks()]))
        if turns > len(found):
            count = f"{len(found)} turns" if len(found) > 1 else "1 turn"
            raise AgentError(f"There are only {count} to undo, not {turns}.")
        chosen = found[:turns]
        if any(self._shelf.is_running(record) for record in chosen):
            raise AgentError("The turn is still running. Wait for it, or interrupt the kernel.")
        return undo.plan_of(self._shelf, "undo", chosen, over, self._others())

    def plan_back(self) -> UndoPlan:
        """What taking back the last undo would do.

        Raises:
            AgentError: There is no undo since the last turn.
        """
        records = self._mine(self._settled())
        if pending := self._pending(records):
            return pending
        last = undo.redoable(records)
        if last is None:
            raise AgentError(NOTHING_BACK)
        return undo.plan_of(self._shelf, "redo", [last], (), self._others())

    def apply(self, plan: UndoPlan) -> UndoResult:
        """Do what a plan says. Each file is looked at again: what changed since is a conflict.

        Raises:
            AgentError: It cannot be written down; then nothing was changed.
        """
        try:
            return undo.apply(self._shelf, plan, self.owner)
        except OSError as error:
            raise AgentError(f"Not undone: {error.strerror or error}.") from error

    def forget(self, days: float, spared: Collection[str] = (), show: bool = False) -> int:
        """Drop records that are older, in any notebook's name, and the contents that only they had.

        Args:
            days: The age in days. What is dated in the future is not old.
            spared: Ids of records that stay.
            show: Whether to count only.

        Returns:
            How many turns were dropped, or would be; what cannot be read counts as one.

        Raises:
            AgentError: Somebody else uses the folder for too long.
        """
        try:
            old = [name for name in self._shelf.older(days) if name not in spared]
            if not old:
                return 0
            with self._shelf.locked():
                found = {record.id: record for record in self._shelf.records()}
                # What no version can read goes, too: nothing can be undone from it.
                going = [name for name in old if name not in found or self._may_go(found[name])]
                if not show:
                    self._shelf.drop(going)
        except OSError as error:
            raise AgentError(f"{error.strerror or error}.") from error
        return sum(name not in found or found[name].kind == "turn" for name in going)

    def _may_go(self, record: JournalRecord) -> bool:
        return bool(record.ended) and not self._shelf.is_of_other_kernel(record)

    def settle(self) -> None:
        """End what a kernel that died has left unfinished.

        Its last execution is looked at: what changed until the kernel was last seen alive is the
        turn's, what changed later is somebody else's.
        """
        with self._shelf.locked():
            for record in self._shelf.records():
                if record.ended or self._shelf.is_running(record):
                    continue
                if record.kind == "turn":
                    self._end(record)
                elif not record.planned:
                    shutil.rmtree(self._shelf.folder / record.id, ignore_errors=True)

    def settle_if_possible(self) -> None:
        """`settle`, for who only looks: where the folder cannot be written, nothing is ended."""
        with suppress(OSError):
            self.settle()

    def _end(self, record: JournalRecord) -> None:
        journal = self._shelf.journal(record)
        picture = load_picture(journal.folder) if record.code_runs else None
        if picture is not None:
            root = self._shelf.workspace.root
            try:
                alive = (journal.folder / ALIVE).stat().st_mtime_ns
            except OSError:
                alive = picture.picture.began
            after = self._scanner.look()
            lines = list(changed_lines(root, record, picture, after, stopped=alive))
            journal.write(*lines, {"line": "code", "running": False})
        journal.write({"line": "end"})
        clear_away(journal.folder)

    def _others(self) -> list[JournalRecord]:
        """The turns of other kernels, which may have written the same files."""
        records = self._shelf.records()
        ours = {record.id for record in self._mine(r for r in records if r.owner == self.owner)}
        return [record for record in undo.standing(records) if record.id not in ours]

    def _settled(self) -> list[JournalRecord]:
        try:
            self.settle()
        except OSError as error:
            raise AgentError(f"Not undone: {error.strerror or error}.") from error
        return self._shelf.records(self.owner)

    def _pending(self, records: list[JournalRecord]) -> UndoPlan | None:
        """What is left of an undo that was interrupted, where nothing has happened since."""
        last = records[-1] if records else None
        if last is None or last.kind == "turn" or last.ended or not last.planned:
            return None
        kind: Literal["undo", "redo"] = "redo" if last.kind == "redo" else "undo"
        undone = [record for record in records if record.id in last.undoes]
        return undo.rest_of(self._shelf, kind, last, tuple(reversed(undone)))
