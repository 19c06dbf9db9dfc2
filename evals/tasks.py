"""The values of an evaluation: tasks, attempts at them, and judgements of the attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Kind = Literal[
    "right",
    "wrong value",
    "wrong format",
    "error",
    "no code that ran",
    "input spoilt",
    "time-out",
    "not judged",
]
FAILURES: tuple[Kind, ...] = (
    "wrong value",
    "wrong format",
    "error",
    "no code that ran",
    "input spoilt",
    "time-out",
)
"""The kinds of failure. `not judged` is none: the evaluation itself could not run the task."""


@dataclass(frozen=True, eq=False)
class Task:
    """One task of a set.

    Attributes:
        set: The set it is from, such as `DABench easy`: what a report has a row for.
        id: Its name, unique over all sets.
        text: What an agent is asked.
        setup: Cells that run before; they leave the variables of the task.
        files: What lies in the working folder: a file or a folder, by its name there. Agents get
            copies.
        wants: `words` if the answer is judged, `code` if the code that gives it is.
        key: What the judge needs to know; no agent sees it.
    """

    set: str
    id: str
    text: str
    setup: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    wants: Literal["words", "code"] = "words"
    key: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Attempt:
    """What one agent made of one task. It grows while the agent works.

    Attributes:
        answer: The agent's last words, or what its code printed.
        code: The code that ran without an error, in order, as one text.
        ran: True if any code of the agent ran without an error.
        calls: Model calls.
        input_tokens, output_tokens: Tokens of all calls, the cached ones included.
        seconds: From the task to the answer, without the kernel's start and the set-up.
        failure: The reason in a line if the agent or its last code failed; `time-out` if its time
            was over.
    """

    answer: str = ""
    code: str = ""
    ran: bool = False
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True)
class Judgement:
    """Whether an attempt is right, and if not, how it failed; `detail` is for a reader."""

    kind: Kind
    detail: str = ""


@dataclass(frozen=True)
class Limits:
    """What each agent may use for one task.

    Attributes:
        steps: Model calls.
        reply_tokens: Tokens of one reply.
        seconds: Seconds from the task to the answer.
    """

    steps: int = 6
    reply_tokens: int = 700
    seconds: float = 300.0


class Collection(Protocol):
    """Where tasks come from: one publisher's data in a folder.

    Attributes:
        name: Its name in reports.
        source: Where its data can be had, as Markdown.
    """

    name: str
    source: str

    def tasks(self) -> list[Task]:
        """All tasks of the folder.

        Raises:
            DataError: The folder holds something else.
        """

    def judge(self, task: Task, attempt: Attempt) -> Judgement:
        """Compare an attempt with the key. Failures of the agent itself are known already."""

    def close(self) -> None:
        """End what judging started."""


class Agent(Protocol):
    """Something that solves tasks.

    Attributes:
        name: Its name in reports.
        about: What it is, in a sentence.
    """

    name: str
    about: str

    def attempt(self, task: Task, folder: Path) -> Attempt:
        """Solve a task in an empty folder. Failures of the agent are part of the attempt.

        Raises:
            SetupError: The task itself cannot be set up here.
        """

    def close(self) -> None:
        """End what the attempts started."""


class DataError(Exception):
    """The data are not as published; the message says what to do, in one line."""


class SetupError(Exception):
    """A task's own cells fail here; the message is their error."""
