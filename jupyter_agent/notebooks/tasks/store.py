"""The folder of a list's notebooks, and what is known of its tasks: a line for each that begins or
ends, appended under a lock, so that several commands may work at one list.

`FOLDER/.jupyter_agent/tasks.jsonl`: `task`, `state` (running, done, failed, interrupted), `time`,
`list` (the path of the list from the folder), `mode`, `parts` (a digest of each thing that decides
the task), and at the end `seconds`, `steps`, `tokens`, `cost`, and `why` or `answer`. The last line
of a task counts. Who works at a task holds its claim, a lock that the system frees with the
process: a line `running` without a held claim is of a command that was killed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.errors import AgentError, ToolError
from jupyter_agent.files import jsonl, shared
from jupyter_agent.files.atomic import STATE_FOLDER, private_folder, reason_of
from jupyter_agent.notebooks.find import TASKS

RecordedState = Literal["running", "done", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """What a task took. A field that is not known is None.

    Attributes:
        steps: The steps of its agent cell.
        tokens: The tokens of that cell's model calls, sent and received.
        cost: Their price in US dollars.
        seconds: How long the whole notebook took.
    """

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The last that is known of a task.

    Attributes:
        task: Its name.
        state: What became of it.
        number: The number of its line, which grows with each line.
        mode: Where the replies came from, as the command said; empty if it did not say.
        parts: The digests of what decides the task.
        numbers: What it took.
        words: The answer in one line, or why it failed.
    """

    task: str
    state: RecordedState
    number: int = 0
    mode: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    numbers: TaskNumbers = TaskNumbers()
    words: str = ""


class TaskStore:
    """The records and claims of one folder.

    Args:
        folder: Where the executed notebooks go.
        listed: The list of tasks.
    """

    def __init__(self, folder: Path, listed: Path) -> None:
        self._folder = folder.absolute()  # for processes elsewhere
        self._state = self._folder / STATE_FOLDER
        self._file = self._folder / TASKS
        self._list = Path(os.path.relpath(listed.resolve(), folder.resolve())).as_posix()
        self._read: tuple[tuple[int, int], dict[str, TaskRecord]] | None = None

    def open(self) -> None:
        """Make the folder.

        Raises:
            AgentError: It cannot be made, or holds the notebooks of another list.
        """
        with self._failing():
            self._folder.mkdir(parents=True, exist_ok=True)
            private_folder(self._state, follow_link=False)
        others = {line.value.get("list") for line in self._lines()} - {None, self._list}
        if others:
            raise AgentError(
                f"{self._folder} holds the notebooks of another list ({min(map(str, others))}). "
                "Give another folder by --to."
            )

    def refuse_foreign(self, tasks: Iterable[str]) -> None:
        """Refuse to replace notebooks that no run has written.

        Raises:
            AgentError: There is one in the folder.
        """
        for task in tasks:
            if task not in self.records() and self.notebook(task).exists():
                raise AgentError(
                    f"{self.notebook(task)} is there already, and no run has written it. "
                    "Move it away, give the task another name, or another folder by --to."
                )

    def records(self) -> Mapping[str, TaskRecord]:
        """The last record of each task by its name, as the file is now."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._problem(error) from None
        stamp = (found.st_size, found.st_mtime_ns)
        if self._read is None or self._read[0] != stamp:
            records = (_record(line) for line in self._lines())
            self._read = stamp, {record.task: record for record in records if record}
        return self._read[1]

    def begin(
        self, record: TaskRecord, counts: Callable[[TaskRecord | None], bool]
    ) -> TaskRecord | None:
        """Append the record of a task that begins, unless its last one counts: gives that one.

        Raises:
            AgentError: It cannot be written.
        """
        with self._failing(), shared.locked(self._file, self._state):
            last = self.records().get(record.task)
            if counts(last):
                return last
            self._append(record)
        return None

    def add(self, record: TaskRecord) -> None:
        """Append the record of a task, whose number is ignored.

        Raises:
            AgentError: It cannot be written.
        """
        with self._failing(), shared.locked(self._file, self._state):
            self._append(record)

    def _append(self, record: TaskRecord) -> None:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "list": self._list,
            "task": record.task,
            "state": record.state,
            "mode": record.mode,
            "parts": dict(record.parts),
            "words": record.words,
            "steps": record.numbers.steps,
            "tokens": record.numbers.tokens,
            "cost": record.numbers.cost,
            "seconds": record.numbers.seconds,
        }
        kept = {key: value for key, value in line.items() if value not in (None, "", {})}
        encoded = jsonl.encode(redact_json(kept, secret_values()))
        if self._file.exists():
            jsonl.append(self._file, [encoded], durable=True)
        else:
            shared.replace(self._file, encoded + b"\n")

    def claim(self, task: str) -> Callable[[], None] | None:
        """Take a task for this process. Gives what lets go of it; None if another has it.

        Raises:
            AgentError: The claim cannot be made.
        """
        with self._failing():
            return shared.claim(shared.lock_file(self.notebook(task), self._state))

    def execution_lock(self, task: str) -> Path:
        """The lock file that is held while the notebook of a task is executed."""
        with self._failing():
            return shared.lock_file(self.notebook(task).with_suffix(".executed"), self._state)

    def notebook(self, task: str) -> Path:
        """Where the notebook of a task is written."""
        return self._folder / f"{task}.ipynb"

    def _lines(self) -> Iterator[jsonl.Line]:
        try:
            data = shared.read_regular(self._file)
        except ToolError as error:
            raise AgentError(str(error)) from None
        return iter(jsonl.Reader(io.BytesIO(data or b"")))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except ToolError as error:
            raise AgentError(str(error)) from None
        except OSError as error:
            raise self._problem(error) from None

    def _problem(self, error: OSError) -> AgentError:
        return AgentError(
            f"{self._folder} cannot be used for the notebooks ({reason_of(error)}). "
            "Correct that, or give another folder by --to."
        )


def _record(line: jsonl.Line) -> TaskRecord | None:
    """The record in a line; None if it is none. Fields that somebody spoiled are unknown."""
    value = line.value
    task, parts = value.get("task"), value.get("parts")
    state: Any = value.get("state")
    if not isinstance(task, str) or state not in get_args(RecordedState):
        return None
    numbers = {key: _number(value.get(key)) for key in ("steps", "tokens", "cost", "seconds")}
    return TaskRecord(
        task=task,
        state=state,
        number=line.number,
        mode=_word(value.get("mode")),
        parts={_word(k): _word(v) for k, v in parts.items()} if isinstance(parts, dict) else {},
        numbers=TaskNumbers(**numbers),
        words=_word(value.get("words")),
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
