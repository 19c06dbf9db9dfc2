"""Follows the turns of other kernels by their run logs, while they are written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.files.jsonl import Reader
from jupyter_agent.stores.runs import log_files

_MOST_AT_ONCE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TurnProgress:
    """How far a turn is.

    Attributes:
        steps: The steps that it began.
        tokens: The tokens of its replies so far, sent and received, with those of its delegates.
        now: What it does, in a few words; empty when it is over.
    """

    steps: int = 0
    tokens: int = 0
    now: str = ""


class LogFollower:
    """The turns that begin in a workspace from now on, by the place of their notebook.

    Args:
        logs: The folder of the run logs, which need not exist yet.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._passed = {path.name for path in log_files(logs)}
        self._open: dict[str, _Log] = {}

    def look(self) -> None:
        """Read what was written since. Logs that cannot be read are left out."""
        for path in log_files(self._logs):
            if path.name not in self._passed and path.name not in self._open:
                self._open[path.name] = _Log(path)
        for log in self._open.values():
            with suppress(OSError):
                log.read_on()

    def progress(self, place: str) -> TurnProgress | None:
        """The newest turn of the notebook at a place, as the logs call it; None before its first.

        A log that others write at the same time is no nuisance: each has the place of its own.
        """
        logs = [log for log in self._open.values() if log.place == place]
        return max(logs, key=lambda log: log.number).progress if logs else None

    def forget(self, place: str) -> None:
        """Leave out the turns of a place up to now."""
        self.look()
        for name in [name for name, log in self._open.items() if log.place == place]:
            del self._open[name]
            self._passed.add(name)


class _Log:
    """One log, read as far as it is written.

    Attributes:
        place: The notebook that its first line names.
        number: The number of the turn in that notebook.
    """

    def __init__(self, path: Path) -> None:
        self.place = ""
        self.number = 0
        self.progress = TurnProgress()
        self._path = path
        self._read = 0
        self._calls: dict[str, str] = {}

    def read_on(self) -> None:
        """Read the whole lines that are new. Raises `OSError`."""
        if self._path.stat().st_size <= self._read:
            return
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            data = stream.read(_MOST_AT_ONCE)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == _MOST_AT_ONCE:
            whole = data  # the middle of a line without use for this
        self._read += len(whole)
        for line in Reader(whole.splitlines(keepends=True)):
            with suppress(LookupError, TypeError, ValueError, AttributeError):
                self._fold(line.value)

    def _fold(self, line: dict[str, Any]) -> None:
        kind, before = line.get("type"), self.progress
        if kind == "turn_started":
            self.place, self.number = str(line.get("notebook", "")), int(line.get("turn", 0))
        elif kind in ("requested", "step_started"):
            steps = int(line.get("step" if kind == "requested" else "number", before.steps))
            self.progress = replace(before, steps=steps, now=f"step {steps}: thinking")
        elif kind == "message_finished":
            self.progress = replace(before, tokens=before.tokens + _used(line))
            blocks = line["message"]["blocks"]
            self._calls |= {b["id"]: b["name"] for b in blocks if b.get("type") == "tool_call"}
        elif kind == "delegated" and line["event"]["type"] == "message_finished":
            self.progress = replace(before, tokens=before.tokens + _used(line["event"]))
        elif kind == "tool_started":
            name = one_line(str(self._calls.get(line["call_id"], "a tool")), 40)
            self.progress = replace(before, now=f"step {before.steps}: {name}")
        elif kind == "retrying":
            self.progress = replace(before, now=f"step {before.steps}: asks the model again")
        elif kind == "turn_finished":
            self.progress = replace(before, now="")


def _used(line: dict[str, Any]) -> int:
    """The tokens of a reply."""
    usage = line.get("usage", {})
    return int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
