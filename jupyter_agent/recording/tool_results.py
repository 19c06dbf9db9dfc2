"""What a recorded turn found and left in the workspace, so that a replay gives the same again.

A notebook that writes a file finds it there when it is executed once more: `write_file` would then
say that it changed nothing, and `edit_file` that the old text does not occur. In a replay the tools
run for real, but where a file is as the recording left it they say what they said then.

MCP servers are not asked in a replay: they may be gone, cost money, or change something. What they
said when the turn was recorded is given again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
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
    """A call of a tool for a file or for notes.

    `before` is the digest of the file it names. `is_redacted` says that the arguments are not
    what the model sent: a secret was taken out of them before they were recorded.
    """

    tool: str
    arguments: str
    path: str
    before: str
    is_redacted: bool = False


class ToolRecording(Protocol):
    """Told of each such call before and after it is run."""

    def instead(self, touch: CallKey) -> Remembered | None:
        """What to give in place of a run, where its work is done already."""

    def settle(self, touch: CallKey, now: Remembered) -> Remembered:
        """What to give after a run, which may have failed."""

    def leftovers(self) -> frozenset[Path]:
        """Files that are there from an earlier execution, and that the notebook has yet to make."""

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        """What the receipt says of files, at the end of the turn.

        Args:
            changes: What the turn did to files.
            rewritten: Those that its code wrote anew without a difference.
        """


def touch(workspace: Workspace, tool: str, values: Mapping[str, Any]) -> CallKey:
    """Take down what a call is about to find."""
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
    """The digest of a file in the workspace; empty where there is none, or it is large.

    Of a notebook its cells count, and not their outputs, which each execution writes anew.
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
    """The kinds and sources of a notebook's cells; all of it where it is none."""
    try:
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(data)["cells"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return data
    return json.dumps(cells).encode()


class FileRecorder:
    """The past as it is taken down, while a turn is recorded."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._one_by_one = threading.Lock()
        self._remembered: list[Remembered] = []
        self.states: tuple[FileState, ...] = ()

    def instead(self, touch: CallKey) -> Remembered | None:
        """Nothing: everything is run."""
        return None

    def settle(self, touch: CallKey, now: Remembered) -> Remembered:
        after = digest(self._workspace, touch.path) if touch.path else ""
        self.keep(replace(now, path=touch.path, before=touch.before, after=after))
        return now

    def keep(self, known: Remembered) -> Remembered:
        """Take down what was remembered before, with the files as they were then."""
        with self._one_by_one:
            self._remembered.append(known)
        return known

    def take(self) -> tuple[Remembered, ...]:
        """What was taken down since the last time."""
        with self._one_by_one:
            taken, self._remembered = tuple(self._remembered), []
        return taken

    def leftovers(self) -> frozenset[Path]:
        """Nothing: a recording takes the folder as it is."""
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
    """When this process began, in nanoseconds."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().create_time() * 1e9)


class FileReplayer:
    """The past as a cassette has it, for the turns of one kernel that are replayed.

    Args:
        cassette: What was recorded.
        workspace: Where it is replayed.
        since: The time in nanoseconds before which a file is from an earlier execution; 0: the
            start of this process, which is the kernel's.

    Attributes:
        served: The names of the MCP tools that were called, with their schemas.
    """

    def __init__(self, cassette: Cassette, workspace: Workspace, since: int = 0) -> None:
        self._workspace = workspace
        self._since = since or _process_start()
        self._one_by_one = threading.Lock()
        self._here: list[Remembered] = []
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
                for known in entry.remembered:
                    self._note(known.path, known.details.get("change"), known.after)
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
        """A recorded reply is served: what its calls said then, and what the turn left."""
        with self._one_by_one:
            self._here = list(remembered)
        self._states = states

    def instead(self, touch: CallKey) -> Remembered | None:
        known = self._find(touch)
        if known is None:
            return None
        if known.is_served:
            return self._serve(known)
        # What is written with a mark in a secret's place must not take the place of the secret.
        in_place = ("edit_file", "read_file", *(("write_file",) if touch.is_redacted else ()))
        if touch.tool not in in_place or not touch.before:
            return None
        if touch.before == known.before:
            is_notebook = touch.tool == "read_file" and touch.path.endswith(_NOTEBOOK)
            return self._serve(known) if is_notebook else None
        if touch.before in (known.after, self._last.get(touch.path)):
            return self._serve(known)
        return None

    def settle(self, touch: CallKey, now: Remembered) -> Remembered:
        known = self._find(touch)
        if known is None:
            return now
        if touch.tool == "search_files":
            is_then = known.is_error == now.is_error and self._is_same_elsewhere(known, now)
        else:
            is_then = touch.tool != "read_file" and not (known.is_error or now.is_error)
        served = self._serve(known)
        return served if is_then else now

    def _is_same_elsewhere(self, known: Remembered, now: Remembered) -> bool:
        """Whether two searches differ at the most in files that are as the recording left them."""
        left = [path for path, after in self._last.items() if after == self._digest(path) != ""]
        gone = [path for path in self._deleted if not self._digest(path)]
        settled = tuple(f"{path}:" for path in (*left, *gone))

        def elsewhere(known: Remembered) -> list[str]:
            lines = known.text.split("\n")
            return [line for line in lines if not line.startswith(settled) and not _NONE(line)]

        return elsewhere(known) == elsewhere(now)

    def _digest(self, path: str) -> str:
        return digest(self._workspace, path)

    def knows(self, touch: CallKey) -> bool:
        """Whether it is recorded what such a call gave."""
        return self._find(touch) is not None

    def _find(self, touch: CallKey) -> Remembered | None:
        key = (touch.tool, touch.arguments)
        with self._one_by_one:
            return next((k for k in self._here if (k.tool, k.arguments) == key), None)

    def _serve(self, known: Remembered) -> Remembered:
        with self._one_by_one:
            if known in self._here:
                self._here.remove(known)
        self._touch(known)
        return known

    def _touch(self, known: Remembered) -> None:
        """What is in place already counts as written now, as it was when it was recorded."""
        if known.path and known.details.get("change") in WRITES:
            with contextlib.suppress(OSError, ToolError):
                os.utime(self._workspace.resolve(known.path))

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        """Each file that ends up as it did then is told as it was then, in the order of then."""
        now = {change.path: change for change in changes}
        found: list[FileChange] = []
        for state in self._states:
            present = now.pop(state.path, None)
            if present is None and not self._is_as_then(state):
                continue
            if state.kind != "same":
                found.append(self._as_then(state, present))
            elif present is not None and not self._is_as_then(state):
                found.append(present)
        return [*found, *now.values()]

    def _as_then(self, state: FileState, present: FileChange | None) -> FileChange:
        if present is not None and present.kind == state.kind and not self._is_as_then(state):
            return present
        if state.kind == "same":
            raise ValueError("a file that was not changed is no change")
        return FileChange(state.path, state.kind, state.lines_added, state.lines_removed)

    def _is_as_then(self, state: FileState) -> bool:
        if state.kind == "deleted":
            return not (self._workspace.root / state.path).exists()
        return bool(state.digest) and digest(self._workspace, state.path) == state.digest

    def leftovers(self) -> frozenset[Path]:
        """Files that the recorded turns made, and that are there from an execution before this."""
        found = set()
        for path in self._created:
            try:
                target = self._workspace.resolve(path)
                if target.stat().st_mtime_ns < self._since:
                    found.add(target)
            except (OSError, ToolError):
                continue
        return frozenset(found)
