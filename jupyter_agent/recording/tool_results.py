"""Records the results of tools and the changes of files, and replays them.

A second execution of a notebook finds the files that the first one wrote: `write_file` would report
no change, and `edit_file` that the old text does not occur. In a replay the tools run for real, but
return the recorded result if the file is in its recorded state.

MCP servers are not asked in a replay: they may be gone, cost money, or change something. Their
recorded results are returned.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from jupyter_agent.core.events import FileChange
from jupyter_agent.core.messages import is_served
from jupyter_agent.core.redact import MARK
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette_model import Cassette, FileState, Remembered
from jupyter_agent.recording.digests import exact_json

_NOTEBOOK = ".ipynb"
_LARGEST = 64 * 1024 * 1024
WRITES = ("created", "changed")
_NONE = re.compile(r"Nothing in \d+ files fits ").match
"""Finds the line of a search that found nothing."""


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies a call of a tool for files, notes, or of a server.

    `before` is the digest of the file that it names. `is_redacted` is True if a secret was removed
    from the arguments before they were recorded, so that they are not the model's own.
    """

    tool: str
    arguments: str
    path: str
    before: str
    is_redacted: bool = False


class ToolRecording(Protocol):
    """Records tool results, or replays them. `lookup` comes before a run, `record` after it."""

    def lookup(self, key: CallKey) -> Remembered | None:
        """The recorded result in place of a run; None if the tool must run."""

    def record(self, key: CallKey, result: Remembered) -> Remembered:
        """Records a tool result, or replays it: returns the result to show after a run."""

    def leftovers(self) -> frozenset[Path]:
        """Files of an earlier execution that this one will create later."""

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        """The changes of files for the receipt, at the end of the turn.

        Args:
            changes: The turn's changes of files.
            rewritten: Paths of files that its code rewrote with equal content.
        """


def call_key(workspace: Workspace, tool: str, values: Mapping[str, Any]) -> CallKey:
    """The key of a call, with the state of its file before the run."""
    text = json.dumps(values, ensure_ascii=False, default=str)
    counting = exact_json(values, workspace.root)
    arguments = hashlib.sha256(counting.encode("utf-8", "replace")).hexdigest()[:16]
    path = values.get("path")
    if not isinstance(path, str) or is_served(tool):
        return CallKey(tool, arguments, "", "")
    try:
        shown = workspace.relative(workspace.resolve(path))
    except ToolError:
        return CallKey(tool, arguments, "", "")
    return CallKey(tool, arguments, shown, digest(workspace, shown), MARK in text)


def digest(workspace: Workspace, path: str) -> str:
    """The digest of a file in the workspace; empty if it does not exist, or is large.

    A notebook's digest covers its cells without outputs, which each execution writes anew.
    """
    try:
        target = workspace.resolve(path)
        if not target.is_file() or target.stat().st_size > _LARGEST:
            return ""
        data = target.read_bytes()
        counting = _cells(data) if target.suffix == _NOTEBOOK else data
        return hashlib.sha256(counting).hexdigest()[:16]
    except (OSError, ToolError):
        return ""


def _cells(data: bytes) -> bytes:
    """The kinds and sources of a notebook's cells; all data if it is no notebook."""
    try:
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(data)["cells"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return data
    return json.dumps(cells).encode()


class FileRecorder:
    """Records tool results and the changes of files during a turn."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._one_by_one = threading.Lock()
        self._results: list[Remembered] = []
        self.states: tuple[FileState, ...] = ()

    def lookup(self, key: CallKey) -> Remembered | None:
        """None: while recording every tool runs."""
        return None

    def record(self, key: CallKey, result: Remembered) -> Remembered:
        after = digest(self._workspace, key.path) if key.path else ""
        self.keep(replace(result, path=key.path, before=key.before, after=after))
        return result

    def keep(self, result: Remembered) -> Remembered:
        """Record a result that carries its file's digests already."""
        with self._one_by_one:
            self._results.append(result)
        return result

    def take(self) -> tuple[Remembered, ...]:
        """The results recorded since the last call."""
        with self._one_by_one:
            taken, self._results = tuple(self._results), []
        return taken

    def leftovers(self) -> frozenset[Path]:
        """Empty: a recording treats all files of the folder alike."""
        return frozenset()

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        changed = {change.path for change in changes}
        states = [
            FileState(c.path, c.kind, c.lines_added, c.lines_removed, self._left(c.path))
            for c in changes
        ]
        same = sorted(set(rewritten) - changed)
        self.states = (*states, *(FileState(p, "same", digest=self._left(p)) for p in same))
        return list(changes)

    def _left(self, path: str) -> str:
        return digest(self._workspace, path)


def _process_start() -> int:
    """The time at which this process began, in nanoseconds."""
    import psutil  # type: ignore[import-untyped]

    began = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux gives it from the boot on, and the time of the boot in whole seconds.
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        began += boot - psutil.boot_time()
    return int(began * 1e9)


class FileReplayer:
    """Replays tool results and changes of files from a cassette, for one kernel's turns.

    Args:
        cassette: The recording.
        workspace: The workspace of the replay.
        since: Files older than this time in nanoseconds are from an earlier execution; 0: the
            start of this process, which is the kernel's.

    Attributes:
        served: The names of the MCP tools that were called, with their schemas.
    """

    def __init__(self, cassette: Cassette, workspace: Workspace, since: int = 0) -> None:
        self._workspace = workspace
        self._since = since or _process_start()
        self._one_by_one = threading.Lock()
        self._pending: list[Remembered] = []
        self._states: tuple[FileState, ...] = ()
        self._last: dict[str, str] = {}
        self._created: set[str] = set()
        self._deleted: set[str] = set()
        self.served = {
            name: schema
            for turn in cassette.turns
            for entry in turn
            for name, schema in entry.schemas.items()
        }
        for turn in cassette.turns:
            for entry in turn:
                for recorded in entry.remembered:
                    self._note(recorded.path, recorded.details.get("change"), recorded.after)
                for state in entry.files:
                    self._note(state.path, state.kind, state.digest)

    def _note(self, path: str, change: object, left: str) -> None:
        if path and change in (*WRITES, "same", "unchanged"):
            self._last[path] = left
        if path and change == "created":
            self._created.add(path)
        if path and change == "deleted":
            self._deleted.add(path)

    def enter(self, remembered: Sequence[Remembered], states: tuple[FileState, ...]) -> None:
        """Set the results of the reply that is served, and the file states of its turn."""
        with self._one_by_one:
            self._pending = list(remembered)
        self._states = states

    def lookup(self, key: CallKey) -> Remembered | None:
        recorded = self._find(key)
        if recorded is None:
            return None
        if recorded.is_served:
            return self._serve(recorded)
        # A recorded text with `[redacted]` must not replace a file with the real secret.
        in_place = ("edit_file", "read_file", *(("write_file",) if key.is_redacted else ()))
        if key.tool not in in_place or not key.before:
            return None
        if key.before == recorded.before:
            is_notebook = key.tool == "read_file" and key.path.endswith(_NOTEBOOK)
            return self._serve(recorded) if is_notebook else None
        if key.before in (recorded.after, self._last.get(key.path)):
            return self._serve(recorded)
        return None

    def record(self, key: CallKey, result: Remembered) -> Remembered:
        recorded = self._find(key)
        if recorded is None:
            return result
        if key.tool == "search_files":
            is_same = recorded.is_error == result.is_error and self._is_same_elsewhere(
                recorded, result
            )
        else:
            is_same = key.tool != "read_file" and not (recorded.is_error or result.is_error)
        served = self._serve(recorded)
        return served if is_same else result

    def _is_same_elsewhere(self, recorded: Remembered, result: Remembered) -> bool:
        """True if two searches differ at most in files that are in their recorded state."""
        left = [path for path, after in self._last.items() if after == self._digest(path) != ""]
        gone = [path for path in self._deleted if not self._digest(path)]
        as_recorded = tuple(f"{path}:" for path in (*left, *gone))

        def elsewhere(search: Remembered) -> list[str]:
            lines = search.text.split("\n")
            return [line for line in lines if not line.startswith(as_recorded) and not _NONE(line)]

        return elsewhere(recorded) == elsewhere(result)

    def _digest(self, path: str) -> str:
        return digest(self._workspace, path)

    def knows(self, key: CallKey) -> bool:
        """True if a result for this call is recorded."""
        return self._find(key) is not None

    def _find(self, key: CallKey) -> Remembered | None:
        call = (key.tool, key.arguments)
        with self._one_by_one:
            return next((k for k in self._pending if (k.tool, k.arguments) == call), None)

    def _serve(self, recorded: Remembered) -> Remembered:
        with self._one_by_one:
            if recorded in self._pending:
                self._pending.remove(recorded)
        self._refresh_mtime(recorded)
        return recorded

    def _refresh_mtime(self, recorded: Remembered) -> None:
        """Refreshes the mtime of a file that already has the recorded content."""
        if recorded.path and recorded.details.get("change") in WRITES:
            with contextlib.suppress(OSError, ToolError):
                os.utime(self._workspace.resolve(recorded.path))

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        """Reports unchanged outcomes exactly as recorded, in the recorded order."""
        current = {change.path: change for change in changes}
        found: list[FileChange] = []
        for state in self._states:
            present = current.pop(state.path, None)
            if present is None and not self._is_as_recorded(state):
                continue
            if state.kind != "same":
                found.append(self._as_recorded_change(state, present))
            elif present is not None and not self._is_as_recorded(state):
                found.append(present)
        return [*found, *current.values()]

    def _as_recorded_change(self, state: FileState, present: FileChange | None) -> FileChange:
        if present is not None and present.kind == state.kind and not self._is_as_recorded(state):
            return present
        if state.kind == "same":
            raise ValueError("a file that was not changed is no change")
        return FileChange(state.path, state.kind, state.lines_added, state.lines_removed)

    def _is_as_recorded(self, state: FileState) -> bool:
        if state.kind == "deleted":
            return not (self._workspace.root / state.path).exists()
        return bool(state.digest) and digest(self._workspace, state.path) == state.digest

    def leftovers(self) -> frozenset[Path]:
        """Files that the recorded turns create and that exist from an earlier execution."""
        found = set()
        for path in self._created:
            try:
                target = self._workspace.resolve(path)
                if target.stat().st_mtime_ns < self._since:
                    found.add(target)
            except (OSError, ToolError):
                continue
        return frozenset(found)
