"""Records of the tasks and results of each session, for other sessions of the workspace.

`agent-transcripts/<start>-<notebook>-<session>.jsonl` in the memory root: one line when the
session starts, when a turn starts, for each tool call, when a question waits for the person and
when it is answered, when a turn ends, and when the session ends; of a delegate also a line when it
begins, for each of its replies that calls tools, and when it has ended. Lines are only appended, so
a killed kernel loses no written line. `session_accounts` reads them back.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptStarted,
    Delegated,
    Event,
    MessageFinished,
    QuestionAnswered,
    QuestionAsked,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Voted,
)
from jupyter_agent.core.legible import line, stable
from jupyter_agent.core.messages import Text, ToolResult
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.files.atomic import atomic_write, private_folder, write_whole
from jupyter_agent.files.jsonl import Upkeep, Writer, encode, new_file
from jupyter_agent.memory.scope import MemoryRoot
from jupyter_agent.stores.delegate_lines import DelegateLines, called
from jupyter_agent.stores.session_accounts import FOLDER, read_record

_TASK_LIMIT = 500
_ANSWER_LIMIT = 500
_QUESTION_LIMIT = 200
_LONGEST_SECRET = 4_000
_NOT_IN_NAME = re.compile(r"[^\w.-]+")


class SessionRecord:
    """A sink that keeps the record of one session. A record that cannot be written never stops it.

    The file is made with the first turn, and locked until the record is finished or the process
    ends, so that readers know whether it lives. It does not fold events into a `TurnView` as the
    transcript does: of a turn it needs a few words, and a view's cost grows with its steps.

    Args:
        root: The memory root.
        notebook: The notebook's name; empty if it is unknown.
        session: The session's name.
        now: The clock.
        number: Returns the number of the turn that begins, in its notebook; 0 if it is unknown.
    """

    lasting_only = True

    def __init__(
        self,
        root: MemoryRoot,
        notebook: str = "",
        session: str = "default",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        number: Callable[[], int] = lambda: 0,
    ) -> None:
        self._folder = root.path / FOLDER
        self._root = root
        self._notebook = notebook
        self._session = session
        self._now = now
        self._number = number
        self._step = self._tokens = 0
        self._answers: dict[int, str] = {}
        self._attempt = 0
        self._saved: list[str] = []
        self._finished = False
        self._one_by_one = RLock()
        self._upkeep = Upkeep("The session's record")
        self._writer = Writer(self._create, self._upkeep)
        self._delegates = DelegateLines(self._write)

    def __call__(self, event: Event) -> None:
        with self._one_by_one:
            self._note(event)

    @contextmanager
    def waiting(self, asked: ApprovalAsked) -> Iterator[None]:
        """Note in this context that running code waits for the person, in any thread."""
        number = self._delegates.number(asked.call_id)
        of = {"delegate": number} if number else {}
        question = line(asked.question, _QUESTION_LIMIT)
        with self._one_by_one:
            self._write("waits", **of, question=question)
        try:
            yield
        finally:
            with self._one_by_one:
                self._write("answered", **of)

    def _note(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._begin(event)
            case StepStarted(number=number):
                self._step = number
            case AttemptStarted(number=number) | Voted(attempt=number):
                self._attempt = number
            case MessageFinished():
                self._reply(event)
            case ToolStarted(call=call):
                self._write("step", number=self._step, **called(call), tokens=self._tokens)
            case ToolFinished(result=result):
                self._result(result)
            case ApprovalAsked() | QuestionAsked() if not self._delegates.number(event.call_id):
                self._write("waits", question=line(event.question, _QUESTION_LIMIT))
            case ApprovalAnswered() | QuestionAnswered():
                if not self._delegates.number(event.call_id):
                    self._write("answered")
            case Delegated():
                self._delegated(event)
            case TurnFinished():
                self._end(event)

    def _begin(self, event: TurnStarted) -> None:
        self._answers, self._attempt, self._saved, self._step = {}, 0, [], 0
        self._tokens = 0
        self._delegates.begin()
        task = _start(event.task, _TASK_LIMIT)
        self._write("turn_started", number=self._number(), task=task, model=event.model)

    def _reply(self, event: MessageFinished) -> None:
        self._tokens += event.usage.total_tokens
        self._delegates.called(event.message.tool_calls)
        words = [b.text for b in event.message.blocks if isinstance(b, Text)]
        if text := _start("\n".join(words), _ANSWER_LIMIT):
            self._answers[self._attempt] = text

    def _delegated(self, event: Delegated) -> None:
        if isinstance(event.event, MessageFinished):
            self._tokens += event.event.usage.total_tokens
        self._delegates(event)

    def _result(self, result: ToolResult) -> None:
        self._delegates.ended(result)
        if saved := result.details.get("saved"):
            self._saved.append(str(saved["title"]))

    def _end(self, event: TurnFinished) -> None:
        changed = [f"{change.kind} {change.path}" for change in event.receipt.files]
        variables = [change.name for change in event.receipt.variables]
        self._write(
            "turn_finished",
            stop_reason=event.stop_reason,
            steps=self._step,
            tokens=event.usage.total_tokens,
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


def _start(text: str, limit: int) -> str:
    """The beginning of a text. Secrets are taken out first: half of one does not look like one."""
    return stable(text[: limit + _LONGEST_SECRET])[:limit]
