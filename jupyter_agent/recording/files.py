"""The files of recorded turns: which results a replay gives because the files are there already.

A second execution of a notebook finds the files that the first one wrote: `write_file` would report
no change, and `edit_file` that the old text does not occur. In a replay the tools run for real, but
give the recorded result if the file is in its recorded state.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_agent.core.events import FileChange
from jupyter_agent.core.messages import ToolResult
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette import Cassette, FileState, RecordedResult, change_of

if TYPE_CHECKING:
    from jupyter_agent.recording.results import CallKey

_NOTEBOOK = ".ipynb"
_LARGEST = 64 * 1024 * 1024
WRITES = ("created", "changed")
READERS = frozenset({"read_file", "describe_file"})
"""The tools that tell what is in one file."""
_NONE = re.compile(r"Nothing in \d+ files fits ").match
"""Finds the line of a search that found nothing."""


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


def _process_start() -> int:
    """The time at which this process began, in nanoseconds."""
    import psutil  # type: ignore[import-untyped]

    began = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux gives it from the boot on, and the time of the boot in whole seconds.
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        began += boot - psutil.boot_time()
    return int(began * 1e9)


@dataclass
class RecordedFiles:
    """The files that the turns of a cassette left behind.

    Args:
        cassette: The recording.
        workspace: The workspace of the replay.
        since: Files older than this time in nanoseconds are from an earlier execution; 0: the
            start of this process, which is the kernel's.

    Attributes:
        states: The files of the turn that is replayed.
    """

    cassette: Cassette
    workspace: Workspace
    since: int = 0
    states: tuple[FileState, ...] = ()

    def __post_init__(self) -> None:
        self.since = self.since or _process_start()
        self._left: dict[str, str] = {}
        self._created: set[str] = set()
        self._deleted: set[str] = set()
        for turn in self.cassette.turns:
            for step in turn.steps:
                for result in step.results:
                    change = result.given.details.get("change") if result.given else None
                    self._note(result.path, change, result.after)
            for state in turn.files:
                self._note(state.path, state.kind, state.digest)

    def _note(self, path: str, change: object, left: str) -> None:
        if path and change in (*WRITES, "same", "unchanged"):
            self._left[path] = left
        if path and change == "created":
            self._created.add(path)
        if path and change == "deleted":
            self._deleted.add(path)

    def are_given(self, key: CallKey, recorded: RecordedResult) -> bool:
        """True if a recorded result is given in place of a run, since its file is in place."""
        # A recorded text with `[redacted]` must not replace a file with the real secret.
        in_place = ("edit_file", *READERS, *(("write_file",) if key.is_redacted else ()))
        if key.tool not in in_place or not key.before:
            return False
        if key.before == recorded.before:
            # What is known of a file's data depends on the libraries that are installed.
            is_described = key.tool == "describe_file"
            return is_described or (key.tool == "read_file" and key.path.endswith(_NOTEBOOK))
        return key.before in (recorded.after, self._left.get(key.path))

    def are_same(self, recorded: RecordedResult, result: ToolResult) -> bool:
        """True if the result of a run differs only because of files that are there already."""
        if recorded.tool in READERS:
            return False
        if recorded.tool == "search_files":
            return recorded.is_error == result.is_error and self._is_same_elsewhere(
                recorded, result
            )
        return not (recorded.is_error or result.is_error)

    def _is_same_elsewhere(self, recorded: RecordedResult, result: ToolResult) -> bool:
        """True if two searches differ at most in files that are in their recorded state."""
        left = [path for path, after in self._left.items() if after == self._digest(path) != ""]
        gone = [path for path in self._deleted if not self._digest(path)]
        as_recorded = tuple(f"{path}:" for path in (*left, *gone))

        def elsewhere(text: str) -> list[str]:
            lines = text.split("\n")
            return [line for line in lines if not line.startswith(as_recorded) and not _NONE(line)]

        given = recorded.given.content if recorded.given else ()
        then = "\n".join(block.text for block in given if block.type == "text")
        return elsewhere(then) == elsewhere(result.text)

    def _digest(self, path: str) -> str:
        return digest(self.workspace, path)

    def refresh_mtime(self, recorded: RecordedResult) -> None:
        """Refreshes the mtime of a file that already has the recorded content."""
        change = recorded.given.details.get("change") if recorded.given else None
        if recorded.path and change in WRITES:
            with contextlib.suppress(OSError, ToolError):
                os.utime(self.workspace.resolve(recorded.path))

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        """Reports unchanged outcomes exactly as recorded, in the recorded order.

        Args:
            changes: The turn's changes of files.
            rewritten: Paths of files that its code rewrote with equal content.
        """
        current = {change.path: change for change in changes}
        same = set(rewritten)
        found: list[FileChange] = []
        for state in self.states:
            present = current.pop(state.path, None)
            is_as_recorded = self._is_as_recorded(state, present, state.path in same)
            if present is None and not is_as_recorded:
                continue
            change = change_of(state)
            if change is None:
                if present is not None and not is_as_recorded:
                    found.append(present)
            elif present is not None and present.kind == state.kind and not is_as_recorded:
                found.append(present)
            else:
                found.append(change)
        return [*found, *current.values()]

    def _is_as_recorded(
        self, state: FileState, present: FileChange | None, was_rewritten: bool
    ) -> bool:
        if state.kind == "deleted":
            return not (self.workspace.root / state.path).exists()
        if state.varies:
            return present is not None or was_rewritten
        return bool(state.digest) and self._digest(state.path) == state.digest

    def leftovers(self) -> frozenset[Path]:
        """Files that the recorded turns create and that exist from an earlier execution."""
        found = set()
        for path in self._created:
            try:
                target = self.workspace.resolve(path)
                if target.stat().st_mtime_ns < self.since:
                    found.add(target)
            except (OSError, ToolError):
                continue
        return frozenset(found)
