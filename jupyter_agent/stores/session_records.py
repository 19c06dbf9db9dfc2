"""Records of the tasks and results of each session, for other sessions of the workspace.

`agent-transcripts/<start>-<notebook>-<session>.jsonl` in the memory root: one line when the
session starts, when a turn starts, for each tool call, when a turn ends, and when the session ends.
Lines are only appended, so a killed kernel loses no written line. Rules, not a model, sum up the
lines of a session.
"""

from __future__ import annotations

import io
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_agent.core.events import (
    AttemptStarted,
    Event,
    MessageFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Voted,
)
from jupyter_agent.core.messages import Text
from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.files.atomic import atomic_write, private_folder, write_whole
from jupyter_agent.files.jsonl import NOT_WRITTEN, Reader, Upkeep, Writer, encode, new_file
from jupyter_agent.memory.scope import MemoryRoot

FOLDER = "agent-transcripts"
_TASK_LIMIT = 500
_ANSWER_LIMIT = 500
_NOT_IN_NAME = re.compile(r"[^\w.-]+")
_RECENT = 50
_READ_LIMIT = 8 * 1024 * 1024


class SessionRecord:
    """A sink that keeps the record of one session. A record that cannot be written never stops it.

    The file is made with the first turn. It does not fold events into a `TurnView` as the
    transcript does: of a turn it needs a few words, and a view's cost grows with its steps.

    Args:
        root: The memory root.
        notebook: The notebook's name; empty if it is unknown.
        session: The session's name.
        now: The clock.
    """

    lasting_only = True

    def __init__(
        self,
        root: MemoryRoot,
        notebook: str = "",
        session: str = "default",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folder = root.path / FOLDER
        self._root = root
        self._notebook = notebook
        self._session = session
        self._now = now
        self._step = 0
        self._answers: dict[int, str] = {}
        self._attempt = 0
        self._saved: list[str] = []
        self._finished = False
        self._upkeep = Upkeep("The session's record")
        self._writer = Writer(self._create, self._upkeep)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._answers, self._attempt, self._saved, self._step = {}, 0, [], 0
            self._write("turn_started", task=plain(event.task)[:_TASK_LIMIT], model=event.model)
        elif isinstance(event, StepStarted):
            self._step = event.number
        elif isinstance(event, MessageFinished):
            words = [b.text for b in event.message.blocks if isinstance(b, Text)]
            if text := plain("\n".join(words))[:_ANSWER_LIMIT]:
                self._answers[self._attempt] = text
        elif isinstance(event, AttemptStarted):
            self._attempt = event.number
        elif isinstance(event, Voted):
            self._attempt = event.attempt
        elif isinstance(event, ToolStarted):
            self._write("step", number=self._step, tool=event.call.name)
        elif isinstance(event, ToolFinished):
            if saved := event.result.details.get("saved"):
                self._saved.append(str(saved["title"]))
        elif isinstance(event, TurnFinished):
            changed = [f"{change.kind} {change.path}" for change in event.receipt.files]
            variables = [change.name for change in event.receipt.variables]
            self._write(
                "turn_finished",
                stop_reason=event.stop_reason,
                answer=self._answers.get(self._attempt, ""),
                files=changed,
                variables=variables[:100],
                saved=self._saved,
                error=event.error,
            )

    def finish(self) -> None:
        """End the session: write its summary as the last line. Later calls do nothing."""
        if self._finished or self.path is None:
            return
        self._finished = True
        if account := read_record(self.path):
            self._write("session_finished", summary=account.summary)
        self._writer.close()

    def take_notices(self) -> list[str]:
        """The notices since the last call."""
        return self._upkeep.take_notices()

    @property
    def path(self) -> Path | None:
        """The record; None before the first turn."""
        return self._writer.path

    @property
    def problem(self) -> str:
        """Why the record is incomplete; empty if it is complete."""
        reason = self._writer.reason
        return f"The record of the session cannot be written: {reason}." if reason else ""

    def _write(self, kind: str, **data: Any) -> None:
        self._writer.write(self._line(kind, **data))

    def _line(self, kind: str, **data: Any) -> bytes:
        line = {"type": kind, "time": self._now().isoformat(timespec="seconds"), **data}
        return encode(redact_json(line, secret_values()))

    def _create(self) -> tuple[Path, int]:
        if not Path(os.path.realpath(self._folder)).is_relative_to(self._root.path):
            raise OSError(0, "agent-transcripts leads out of the memory root")
        if not self._folder.exists():
            # What people asked for is theirs: git gets it only when they say so.
            private_folder(self._folder)
            atomic_write(self._folder / ".gitignore", b"*\n", private=True)
        stem = Path(self._notebook).stem or "kernel"
        name = _NOT_IN_NAME.sub("_", f"{stem[:60]}-{self._session[:40]}")
        stamp = self._now().astimezone().strftime("%Y%m%d_%H%M%S")
        started = self._line(
            "session_started",
            notebook=self._notebook,
            session=self._session,
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        path, file = new_file(self._folder, f"{stamp}-{name}")
        try:
            write_whole(file, started + b"\n")
        except OSError:
            os.close(file)
            path.unlink()
            raise
        return path, file


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """The task of one turn, and its end; `running` if it has not ended."""

    task: str
    stop_reason: str
    answer: str = ""
    files: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    steps: int = 0
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The state and the turns of a session.

    `state` is `working`, `idle`, `finished`, or `gone` if its kernel died.
    """

    path: Path
    notebook: str
    session: str
    started: str
    updated: str
    state: str
    turns: tuple[TurnSummary, ...]

    @property
    def doing(self) -> str:
        """Its current task, in one line."""
        if not self.turns or self.state != "working":
            return self.state
        turn = self.turns[-1]
        where = f"step {turn.steps}, {turn.tool}" if turn.tool else "thinking"
        return f"working on: {one_line(turn.task, 100)} ({where})"

    @property
    def summary(self) -> str:
        """Its finished turns: always the same text for the same record."""
        ends = Counter(turn.stop_reason for turn in self.turns)
        counts = ", ".join(f"{count} {_ENDS.get(end, end)}" for end, count in ends.items())
        lines = [
            f"{len(self.turns)} turn{'s' * (len(self.turns) != 1)}: {counts}."
            if counts
            else "No turn."
        ]
        lines += [f"- {one_line(turn.task, 160)}{_outcome(turn)}" for turn in self.turns[-_RECENT:]]
        changed = dict.fromkeys(file for turn in self.turns for file in turn.files)
        saved = dict.fromkeys(title for turn in self.turns for title in turn.saved)
        if changed:
            lines.append(f"Files: {', '.join(changed)}.")
        if saved:
            lines.append(f"Saved to memory: {'; '.join(one_line(title, 100) for title in saved)}.")
        return "\n".join(lines)


_ENDS = {
    "end": "answered",
    "step_limit": "at the step limit",
    "budget": "out of budget",
    "error": "failed",
    "running": "running",
}


def accounts(root: MemoryRoot, most: int = _RECENT) -> list[Account]:
    """The sessions of a memory root, the newest first. Files that cannot be read are left out."""
    found = sorted((root.path / FOLDER).glob("*.jsonl"), reverse=True)[:most]
    return [account for path in found if (account := read_record(path))]


def read_record(path: Path) -> Account | None:
    """The account of a record; None if the file is none. Skips a torn last line."""
    lines = _lines(path)
    if not lines or lines[0].get("type") != "session_started":
        return None
    first = lines[0]
    turns: list[TurnSummary] = []
    finished = False
    for line in lines[1:]:
        finished = line.get("type") == "session_finished"
        _fold(turns, line)
    running = bool(turns) and turns[-1].stop_reason == "running"
    state = "working" if running else "idle"
    if finished:
        state = "finished"
    elif not _alive(first):
        state = "gone"
    return Account(
        path,
        _word(first.get("notebook")),
        _word(first.get("session")),
        _word(first.get("time")),
        _word(lines[-1].get("time")),
        state,
        tuple(turns),
    )


def _fold(turns: list[TurnSummary], line: Mapping[str, Any]) -> None:
    kind = line.get("type")
    if kind == "turn_started":
        turns.append(TurnSummary(str(line.get("task", "")), "running"))
    elif kind == "step" and turns:
        last = turns[-1]
        steps = line["number"] if isinstance(line.get("number"), int) else last.steps
        turns[-1] = TurnSummary(
            last.task, last.stop_reason, steps=steps, tool=_word(line.get("tool"))
        )
    elif kind == "turn_finished" and turns:
        turns[-1] = TurnSummary(
            turns[-1].task,
            _word(line.get("stop_reason")),
            answer=str(line.get("answer", "")),
            files=_texts(line.get("files")),
            saved=_texts(line.get("saved")),
            steps=turns[-1].steps,
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        if not path.is_file():  # reading a pipe would block
            return []
        with path.open("rb") as stream:
            data = stream.read(_READ_LIMIT)
    except OSError:
        return []
    values = [line.value for line in Reader(io.BytesIO(data))]
    return [value for value in values if value.get("type") != NOT_WRITTEN]


def _alive(first: Mapping[str, Any]) -> bool:
    """True if the session's process may still run; always True for another computer."""
    pid = first.get("pid")
    if first.get("host") != socket.gethostname() or not isinstance(pid, int) or os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_word(item) for item in value) if isinstance(value, list) else ()


def _word(value: Any) -> str:
    """A text of a record on one line, inert, since others may have written it."""
    return one_line(str(value or ""), 300)


def _outcome(turn: TurnSummary) -> str:
    if turn.stop_reason == "end":
        return f" -> {one_line(turn.answer, 160)}" if turn.answer else ""
    return f" ({_ENDS.get(turn.stop_reason, turn.stop_reason)})"
