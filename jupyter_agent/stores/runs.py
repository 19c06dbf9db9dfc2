"""Reads run logs back: a list of turns, each as events and as a transcript.

A log may be unfinished, if its kernel was killed or still writes, and may hold lines of another
version or of somebody else: unreadable lines are counted and skipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from jupyter_agent.core.codec import event_from_json
from jupyter_agent.core.events import (
    Event,
    MessageFinished,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    TurnFinished,
    TurnStop,
)
from jupyter_agent.core.messages import ToolCall, Usage
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.errors import AgentError
from jupyter_agent.files.jsonl import NOT_WRITTEN, Reader, decode
from jupyter_agent.stores.repeats import Restoring

_NAME = re.compile(r"agent_run_(\d{8}_\d{6})(?:_(\d+))?\.jsonl")
_HEAD = 64 * 1024
_TAIL = 64 * 1024
_MOST = 16 * 1024 * 1024
"""Bytes of a log's beginning and of its end that are read for a summary, where lines are long."""
_TASK = 200
_SEARCHED = 1_000
"""The most logs that are searched for the turns of a notebook."""
_Json = dict[str, Any]
_STOPS = get_args(TurnStop)
_STEPS = {"turn_finished": "steps", "step_started": "number", "requested": "step"}
"""The field with the number of steps, by kind of line."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A turn in one row. Fields that its log lacks are None, or empty.

    `stop` is None if the turn has not ended: it is running, or its kernel died. `turn` is the
    number of the turn in its notebook, from 1.
    """

    path: Path
    started: datetime | None = None
    task: str = ""
    provider: str = ""
    model: str = ""
    steps: int | None = None
    usage: Usage | None = None
    stop: TurnStop | None = None
    seconds: float | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its time."""

    number: int
    time: datetime | None
    event: Event


@dataclass(frozen=True, slots=True)
class Run:
    """A log that was read.

    Attributes:
        events: The events in order, with every reference replaced by its text.
        prompt: The `prompt` line: system prompt, schemas of the tools, context.
        passed_over: The number of lines that are no events of this version.
        lost: The number of dangling references.
        is_torn: True if the last line is incomplete.
        missing: The number of lines that could not be written, by the log's own account.
        why_missing: The reason for the missing lines.
    """

    path: Path
    events: tuple[LoggedEvent, ...] = ()
    prompt: Mapping[str, Any] = field(default_factory=dict)
    passed_over: int = 0
    lost: int = 0
    is_torn: bool = False
    missing: int = 0
    why_missing: str = ""

    @property
    def view(self) -> TurnView:
        """The view of the turn."""
        view = TurnView()
        for logged in self.events:
            # A log by somebody else may hold events with invalid content.
            with suppress(LookupError, TypeError, ValueError, AttributeError):
                view = reduce(view, logged.event)
        return view

    @property
    def has_ended(self) -> bool:
        return any(isinstance(logged.event, TurnFinished) for logged in self.events)


def log_files(folder: Path) -> list[Path]:
    """The run logs in a folder, newest first. Links are left out: they may lead anywhere."""
    try:
        if folder.is_symlink():
            return []
        found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
        ordinary = [path for path in found if path.is_file() and not path.is_symlink()]
    except OSError:  # also if a folder above forbids to look
        return []
    return sorted(ordinary, key=_age, reverse=True)


def runs(folder: Path, most: int | None = None) -> list[RunSummary]:
    """A summary of each run in a folder of logs, newest first.

    Only the beginning and the end of each file are read.

    Args:
        folder: The folder of logs.
        most: The largest number of runs; None: all.
    """
    return [summary_of(path) for path in log_files(folder)[:most]]


def summary_of(path: Path) -> RunSummary:
    """One run in a row, from the first and the last lines of its log."""
    try:
        first, last = _first_line(path), _Ending(path)
    except OSError:
        return RunSummary(path)
    began, ended = _time(first), _time(last.line)
    finished = last.finish
    stop = finished.get("stop_reason")
    return RunSummary(
        path,
        began,
        one_line(_words(first, "task"), _TASK),
        one_line(_words(first, "provider")),
        one_line(_words(first, "model")),
        last.steps,
        _usage(finished),
        stop if stop in _STOPS else None,
        (ended - began).total_seconds() if began and ended else None,
        _count(first, "turn") or None,
    )


def turns_of(folder: Path, notebook: str) -> dict[int, Path]:
    """The logs of a notebook's turns, by the turns' numbers, the newest turn first.

    Args:
        folder: The folder of logs. Only the newest are looked at.
        notebook: The notebook's path, as the logs have it; empty for turns in no known notebook.
    """
    found: dict[int, Path] = {}
    for path in log_files(folder)[:_SEARCHED]:
        with suppress(OSError):
            first = _first_line(path)
            number = _count(first, "turn")
            if number > 0 and _words(first, "notebook") == notebook:
                found.setdefault(number, path)
    return dict(sorted(found.items(), reverse=True))


def read_run(path: Path) -> Run:
    """A whole log.

    Raises:
        AgentError: The file cannot be read.
    """
    try:
        return _read(path)
    except OSError as error:
        raise AgentError(f"The log {path.name} cannot be read: {error.strerror}.") from None


def read_lines(path: Path) -> Iterator[_Json]:
    """Each line of a log with its references replaced by texts; skips lines of other kinds.

    Raises:
        OSError: The file cannot be read.
    """
    reading = _Reading()
    with path.open("rb") as stream:
        for line in Reader(stream):
            if (whole := reading.whole(line.value)) is not None:
                yield whole


def _read(path: Path) -> Run:
    reading = _Reading()
    calls: dict[str, ToolCall] = {}
    events: list[LoggedEvent] = []
    prompt: _Json = {}
    missing, why = 0, ""
    unknown = 0
    with path.open("rb") as stream:
        lines = Reader(stream)
        for each in lines:
            line = reading.whole(each.value)
            kind = line["type"] if line else ""
            if line and kind == "prompt":
                prompt = line
            elif line and kind == NOT_WRITTEN:
                missing, why = missing + _count(line, "lines"), _words(line, "reason")
            elif line and (event := _event(line, calls)) is not None:
                said = [*_before(line), event]
                events += (LoggedEvent(_count(line, "seq"), _time(line), one) for one in said)
                if isinstance(event, MessageFinished):
                    calls.update({call.id: call for call in event.message.tool_calls})
            else:
                unknown += 1
    return Run(
        path,
        tuple(events),
        prompt,
        passed_over=lines.passed_over + unknown,
        lost=reading.lost,
        is_torn=lines.is_torn,
        missing=missing,
        why_missing=why,
    )


class _Reading:
    """The earlier lines of a log, to which later ones refer."""

    def __init__(self) -> None:
        self._restoring = Restoring()
        self._model = ""
        self._limit = 0

    @property
    def lost(self) -> int:
        return self._restoring.lost

    def whole(self, line: _Json) -> _Json | None:
        """The line with its references replaced; None if it is no line of a log."""
        if not isinstance(line.get("type"), str):
            return None
        try:
            whole = self._restoring.restore(line)
        except RecursionError:
            return None
        if whole["type"] in ("turn_started", "requested"):
            self._model = _words(whole, "model") or self._model
        if whole["type"] in ("step_started", "requested"):
            self._limit = _count(whole, "limit") or self._limit
        if whole["type"] == "requested":
            whole["model"] = self._model
            if "step" in whole:
                whole["limit"] = self._limit
        return whole


def _before(line: _Json) -> Iterator[Event]:
    """The events of a line before its own: the start of a step, and the text of a reply that was
    given up or never finished."""
    if line["type"] == "requested" and (number := _count(line, "step")):
        yield StepStarted(number, _count(line, "limit"))
    streamed = line.get("streamed")
    if isinstance(streamed, dict):
        if thinking := _words(streamed, "thinking"):
            yield ThinkingDelta(thinking)
        if text := _words(streamed, "text"):
            yield TextDelta(text)


def _event(line: _Json, calls: Mapping[str, ToolCall]) -> Event | None:
    if line.get("type") == "tool_started":
        call = calls.get(str(line.get("call_id")))
        return None if call is None else ToolStarted(call)
    try:
        return event_from_json({k: v for k, v in line.items() if k not in ("seq", "time")})
    except (ValidationError, RecursionError):
        return None


def _first_line(path: Path) -> _Json:
    """The line with the task, within the first bytes of a log; empty if it is not there."""
    with path.open("rb") as stream:
        data = stream.read(_HEAD)
        if b"\n" not in data:
            data += stream.read(_MOST)
    lines = (line.value for line in Reader(io.BytesIO(data)))
    return next((line for line in lines if line.get("type") == "turn_started"), {})


class _Ending:
    """The end of a log, read backwards as far as needed.

    Attributes:
        line: The last readable line.
        finish: The line of the turn's end; empty if there is none.
        steps: The number of steps, if it is found.
    """

    def __init__(self, path: Path) -> None:
        self.line: _Json = {}
        self.finish: _Json = {}
        self.steps: int | None = None
        window = _TAIL
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            while True:
                begin = max(0, size - window)
                stream.seek(begin)
                self._look(stream.read(size - begin), begin > 0)
                if begin == 0 or window >= _MOST or self.steps is not None:
                    return
                window *= 4

    def _look(self, data: bytes, is_cut: bool) -> None:
        parts = data.split(b"\n")
        for part in reversed(parts[1:] if is_cut else parts):
            line = decode(part)
            kind = _words(line, "type") if line else ""
            if line is None or kind in ("", NOT_WRITTEN):
                continue
            self.line = self.line or line
            if kind == "turn_finished":
                self.finish = line
            if found := _count(line, _STEPS.get(kind, "")):
                self.steps = found
                return


def _usage(line: _Json) -> Usage | None:
    found = line.get("usage")
    if not isinstance(found, dict):
        return None
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    counts = [found.get(name, 0) for name in names]
    return Usage(*counts) if all(type(count) is int for count in counts) else None


def _words(line: _Json, key: str) -> str:
    text = line.get(key)
    return text if isinstance(text, str) else ""


def _count(line: _Json, key: str) -> int:
    number = line.get(key)
    return number if isinstance(number, int) else 0


def _time(line: _Json) -> datetime | None:
    try:
        time = datetime.fromisoformat(line["time"])
    except (LookupError, TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def _age(path: Path) -> tuple[str, int]:
    found = _NAME.fullmatch(path.name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)
