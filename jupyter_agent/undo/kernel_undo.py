"""Undo for one kernel: keeps files and variables before each turn, and restores them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_agent.config import UndoSettings
from jupyter_agent.core.events import FileChange
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files.atomic import reason_of
from jupyter_agent.files.diff import compare
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.changes import Snapshot
from jupyter_agent.kernel.notebook_page import CellEdit
from jupyter_agent.undo import process_state
from jupyter_agent.undo.cells import CellEdits
from jupyter_agent.undo.checkpoints import Checkpoints
from jupyter_agent.undo.command import UndoReport, listed, preview, redo, undo
from jupyter_agent.undo.namespace import IN_PLACE, AsBefore, Bindings, names, without_copies
from jupyter_agent.undo.storage import FOLDER, StorageLimits
from jupyter_agent.undo.turn import Checkpoint

_COMPARED = 1_000_000
"""Bytes of a file above which its lines are not counted."""
_MEGABYTE = 1024 * 1024
_PLANNING = "planning"
"""The id of a turn that puts names back and has no checkpoint."""
_ATTEMPT = "attempt"
"""The id of an attempt of a turn."""
_INPUTS = "inputs"
"""The id of a turn whose inputs are kept for a check of its answer."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What code in scratch did to the person's variables all the same, and what was put back.

    Attributes:
        objects: The changed variables, with the objects that they had then; without those that
            were deleted.
        restored: The names that are as before again.
        lost: The names that are not.
        unseen: The variables that the code names and that may have changed unseen, with types.
    """

    objects: Mapping[str, object]
    restored: frozenset[str]
    lost: tuple[str, ...]
    unseen: tuple[str, ...] = ()


class KernelUndo:
    """Keeps what turns are about to change, and undoes them.

    A turn runs even if nothing can be kept; `notices` says why.

    Args:
        workspace: Returns the workspace, which may change with its setting.
        owner: The notebook's name.
        hidden: Returns files that are never kept.
        namespace: The kernel's variables.

    Attributes:
        notices: What of the last turn cannot be restored, one line each.
        rewritten: Files that its code wrote again with the same content.
        mutated: Variables that it changed in place.
        cells: The edits of the open notebook.
    """

    def __init__(
        self,
        workspace: Callable[[], Workspace],
        owner: str,
        hidden: Callable[[], frozenset[Path]],
        namespace: MutableMapping[str, Any],
    ) -> None:
        self.notices: tuple[str, ...] = ()
        self.rewritten: frozenset[str] = frozenset()
        self.mutated: tuple[str, ...] = ()
        self._workspace = workspace
        self._owner = owner
        self._hidden = hidden
        self._namespace = namespace
        self._bindings = Bindings()
        self._attempts = Bindings(turns=1)
        self._inputs = Bindings(turns=1)
        self.cells = CellEdits()
        self._own: set[str] = set()
        self._checkpoints: tuple[object, Checkpoints] | None = None
        self._checkpoint: Checkpoint | None = None
        self._planning = ""
        self._unseen: tuple[str, ...] = ()

    def begin(
        self, task: str, before: Snapshot, settings: UndoSettings, only_plans: bool = False
    ) -> None:
        """Begin a turn. Call `end`, however the turn ends.

        Args:
            task: The person's task.
            before: The person's variables.
            settings: The settings of undo.
            only_plans: True if `put_back` follows, whether undo is enabled or not.
        """
        self.notices, self.rewritten, self.mutated = (), frozenset(), ()
        self._checkpoint, self._unseen = None, ()
        if settings.enabled:
            try:
                self._checkpoint = self._of(settings).begin(task)
                self._own.add(self._checkpoint.id)
            except (
                Exception
            ) as error:  # the agent's code may have replaced functions that are called here
                self.notices = (f"This turn cannot be undone: {_why(error)}",)
        turn = self._checkpoint.id if self._checkpoint else _PLANNING if only_plans else ""
        self._planning = turn if only_plans else ""
        if turn:
            self._bindings.begin(turn, before, self._namespace)

    def put_back(self, after: Callable[[], Snapshot], code: Iterable[str] = ()) -> frozenset[str]:
        """Bind the names as they were before the running turn, once, if it only plans.

        Args:
            after: Returns the person's variables.
            code: The code that ran.

        Returns:
            The variables that are as before. Those that are not, or may not be, are in the
            notices of `end`.
        """
        turn, self._planning = self._planning, ""
        if not turn:
            return frozenset()
        results = self._bindings.put_back(turn, after(), self._namespace, code)
        unseen = self._bindings.unseen(turn)
        self._unseen = tuple(f"{each}: not checked for changes inside" for each in unseen)
        return frozenset(names(results, "bound", "copied", "removed"))

    def keep_inputs(self, before: Snapshot) -> None:
        """Copy the person's variables as they are before the turn, for `inputs`."""
        self._inputs.begin(_INPUTS, before, self._namespace)

    def inputs(self, after: Snapshot, code: Iterable[str] = ()) -> AsBefore:
        """The person's variables of before the turn, which are freed with this.

        Args:
            after: The person's variables now.
            code: The code that ran.
        """
        try:
            return self._inputs.as_before(_INPUTS, after, code)
        finally:
            self.forget_inputs()

    def forget_inputs(self) -> None:
        """Free what `keep_inputs` kept."""
        self._inputs.forget()

    def begin_attempt(self, before: Snapshot) -> None:
        """Begin one of several attempts of the running turn: copy the person's variables."""
        self._attempts.begin(_ATTEMPT, before, self._namespace)

    def end_attempt(self, after: Snapshot, code: Iterable[str] = ()) -> Reached:
        """End the attempt: bind the person's variables as they were when it began.

        Args:
            after: The person's variables.
            code: The code that ran.
        """
        now = dict(self._namespace)
        found = self._attempts.put_back(_ATTEMPT, after, self._namespace, code)
        results = [each for each in found if not process_state.is_named(each.name)]
        unseen = self._attempts.unseen(_ATTEMPT)
        self._attempts.forget()
        return Reached(
            {each.name: now[each.name] for each in results if each.name in now},
            frozenset(names(results, "bound", "copied", "removed")),
            tuple(names(results, "not_restorable", "conflict")),
            unseen,
        )

    def without_copies(self, before: Snapshot) -> tuple[str, ...]:
        """The variables that could not be put back after a change in place: there is no copy."""
        return without_copies(before)

    def before_write(self, path: Path, data: bytes) -> None:
        """Keep a file that a tool is about to write."""
        if self._checkpoint is not None:
            self._checkpoint.before_write(path, data)

    def is_unchanged(self, name: str, value: object) -> bool:
        """True if a variable is known to have the content of before the running turn."""
        checkpoint = self._checkpoint
        return checkpoint is not None and self._bindings.is_unchanged(checkpoint.id, name, value)

    def edited(self, edits: Iterable[CellEdit]) -> None:
        """Note edits that a tool has made in the open notebook."""
        if self._checkpoint is not None:
            self.cells.note(self._checkpoint.id, edits)

    def around_code(self, code: str = "") -> AbstractContextManager[None]:
        """A context for an execution of the agent's code."""
        return self._checkpoint.code(code) if self._checkpoint is not None else nullcontext()

    def end(self, after: Snapshot, code: Iterable[str] = ()) -> tuple[FileChange, ...]:
        """End the turn.

        Args:
            after: The person's variables.
            code: The code that ran.

        Returns:
            The files that it changed, with the numbers of lines added and removed.
        """
        checkpoint, self._checkpoint = self._checkpoint, None
        self.notices = (*self._lost(_PLANNING), *self._unseen)  # `begin`'s were shown
        self._bindings.drop(_PLANNING)
        if checkpoint is None:
            return ()
        try:
            self._bindings.end(checkpoint.id, after, self._namespace, code)
            self.mutated = self._bindings.mutated(checkpoint.id)
            root = self._workspace().root
            self.rewritten = checkpoint.rewritten
            return tuple(
                _with_lines(change, root / change.path, checkpoint) for change in checkpoint.touched
            )
        finally:
            checkpoint.end()
            self.notices = (*checkpoint.notices, *self._lost(checkpoint.id), *self._unseen)

    def _lost(self, turn: str) -> tuple[str, ...]:
        """A line for each variable that a turn changed in place and that has no copy."""
        found = self._bindings.lost(turn)
        return tuple(f"{name}: cannot be restored, since {IN_PLACE}" for name in found)

    def cell_edits(
        self, settings: UndoSettings, turns: int = 1, forth: bool = False
    ) -> tuple[str, ...]:
        """The turns whose edits of the notebook `undo` leaves to its page; with `forth`, `redo`.

        `cells.restore` takes them, once the rest is done. Raises as `undo` does.
        """
        checkpoints = self._enabled(settings)
        plan = checkpoints.plan_back() if forth else checkpoints.plan(turns)
        return plan.turns if self.cells.titles(plan.turns, forth) else ()

    def undo(self, settings: UndoSettings, turns: int = 1, over: Sequence[str] = ()) -> UndoReport:
        """Undo the last turns.

        Args:
            settings: The settings of undo.
            turns: How many turns.
            over: Files to restore even if they were changed after the turn.

        Raises:
            ConfigError: Undo is switched off.
            AgentError: There is no such turn, or it cannot be undone now.
        """
        return undo(self._enabled(settings), self._bindings, self._namespace, turns, over)

    def redo(self, settings: UndoSettings) -> UndoReport:
        """Take the last undo back. Raises as `undo` does."""
        return redo(self._enabled(settings), self._bindings, self._namespace)

    def preview(self, settings: UndoSettings, turns: int = 1, over: Sequence[str] = ()) -> str:
        """Say what `undo` would do. Raises as it would."""
        checkpoints = self._enabled(settings)
        text = preview(checkpoints, self._bindings, turns, over)
        titles = self.cells.titles(checkpoints.plan(turns, over).turns)
        lines = [
            f"  notebook, {title}: would be taken back, unless changed since" for title in titles
        ]
        return "\n".join([text, *lines])

    def listed(self, settings: UndoSettings) -> str:
        """List the turns that can be undone. Raises `ConfigError` if undo is switched off."""
        return listed(self._enabled(settings), self._bindings, self.cells)

    def forget(self, settings: UndoSettings, days: float, show: bool = False) -> int:
        """Drop old turns, so that they cannot be undone any more. Those of this kernel stay.

        Args:
            settings: The settings of undo.
            days: Drop what is older.
            show: Count only.

        Returns:
            How many turns were dropped, or would be.

        Raises:
            AgentError: The folder cannot be used.
        """
        if not os.path.isdir(self._workspace().state_folder / FOLDER):  # noqa: PTH112 (never raises)
            return 0
        return self._of(settings).forget(days, self._own, show)

    def _enabled(self, settings: UndoSettings) -> Checkpoints:
        if not settings.enabled:
            raise ConfigError(
                "%agent undo is switched off (undo.enabled is false). "
                "Switch it on: %agent config undo.enabled true"
            )
        return self._of(settings)

    def _of(self, settings: UndoSettings) -> Checkpoints:
        workspace = self._workspace()
        depends_on = (workspace.root, settings)
        if self._checkpoints is None or self._checkpoints[0] != depends_on:
            limits = StorageLimits(
                file_bytes=int(settings.max_file_mb * _MEGABYTE),
                total_bytes=int(settings.max_total_mb * _MEGABYTE),
            )
            made = Checkpoints(workspace, self._owner, limits, self._hidden)
            self._checkpoints = depends_on, made
        return self._checkpoints[1]


def _with_lines(change: FileChange, path: Path, checkpoint: Checkpoint) -> FileChange:
    """The change with the numbers of lines added and removed, if the file is a small text."""
    old = _text(checkpoint.before(change.path))
    new = _text(_read(path)) if change.kind != "deleted" else ""
    if new is None or (old is None and change.kind != "created"):
        return change
    diff = compare(old, new, change.path)
    return replace(change, lines_added=diff.added, lines_removed=diff.removed)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= _COMPARED else None
    except OSError:
        return None


def _text(data: bytes | None) -> str | None:
    """Decodes small UTF-8 texts; None for anything else."""
    if data is None or len(data) > _COMPARED or b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, AgentError) else f"{reason_of(error)}."
