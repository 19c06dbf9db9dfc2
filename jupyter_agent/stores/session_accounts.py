"""Reads the records of sessions: what each agent and each delegate does now, and has done.

A record may be unfinished, if its kernel was killed or still writes, and others may have written
into it: its texts are data, and lines that cannot be read are left out. Rules, not a model, sum up
the lines of a session.
"""

from __future__ import annotations

import io
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.files.jsonl import NOT_WRITTEN, Reader, is_in_use
from jupyter_agent.memory.scope import MemoryRoot

FOLDER = "agent-transcripts"
RUNNING = "running"
"""The end of what has not ended."""
_RECENT = 50
_READ_LIMIT = 8 * 1024 * 1024
_HEAD = 64 * 1024
_MOST_LINES = 200
_MOST_DELEGATES = 1_000
_TOO_MANY = 10**15
"""Others may have written a number of thousands of digits."""
_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AgentWork:
    """What one agent did: a turn, or a delegate of a turn.

    Attributes:
        number: The number of the turn in its notebook, or of the delegate in its turn; 0 if it is
            unknown.
        task: Its task; of a delegate the first words.
        stop_reason: Why it ended; `running` if it has not ended.
        answer: The first words of its answer or report.
        began: When it began, in ISO 8601.
        steps: The steps so far.
        tokens: The tokens so far, sent and received; those of a turn with its delegates' tokens.
        lines: Its newest tool calls, a line each.
        waits: The question that waits for the person; empty if none does.
        error: Why it ended without an answer.
        names: The variables that it changed, or hands over.
        tool: The tool that it called last.
        where: Where a delegate's code runs: `kernel` or `process`; empty for a turn.
        files: The files that it changed.
        saved: The titles of the entries that it saved.
        delegates: The delegates of a turn, by number.
    """

    number: int = 0
    task: str = ""
    stop_reason: str = RUNNING
    answer: str = ""
    began: str = ""
    steps: int = 0
    tokens: int = 0
    lines: tuple[str, ...] = ()
    waits: str = ""
    error: str = ""
    names: tuple[str, ...] = ()
    tool: str = ""
    where: str = ""
    files: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    delegates: tuple[AgentWork, ...] = ()

    @property
    def now(self) -> str:
        """What it does, in a line, while it runs."""
        if at_work := sum(each.stop_reason == RUNNING for each in self.delegates):
            return f"{count(at_work, 'delegate')} at work"
        return self.lines[-1] if self.lines else "thinking"


@dataclass(frozen=True, slots=True)
class Account:
    """The state and the turns of a session.

    Attributes:
        state: `working`, `idle`, `finished`, or `gone` if its kernel died.
        is_own: True if this process writes the record.
        is_certain: False if nobody here can tell whether its kernel lives, on another computer.
    """

    path: Path
    notebook: str
    session: str
    started: str
    updated: str
    state: Literal["working", "idle", "finished", "gone"]
    turns: tuple[AgentWork, ...]
    is_own: bool = False
    is_certain: bool = True

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
        counts = ", ".join(f"{number} {_ENDS.get(end, end)}" for end, number in ends.items())
        lines = [f"{count(len(self.turns), 'turn')}: {counts}." if counts else "No turn."]
        lines += [f"- {one_line(turn.task, 160)}{_outcome(turn)}" for turn in self.turns[-_RECENT:]]
        changed = dict.fromkeys(file for turn in self.turns for file in turn.files)
        saved = dict.fromkeys(title for turn in self.turns for title in turn.saved)
        if changed:
            lines.append(f"Files: {', '.join(changed)}.")
        if saved:
            lines.append(f"Saved to memory: {'; '.join(one_line(title, 100) for title in saved)}.")
        return "\n".join(lines)

    def state_of(self, work: AgentWork) -> str:
        """The state of a turn or a delegate of this session, in a line."""
        if work.stop_reason != RUNNING:
            words = _STATES.get(work.stop_reason, work.stop_reason)
            return f"{words}: {one_line(work.error, 100)}" if work.error else words
        if self.state in ("gone", "finished"):
            return "ended with its kernel"
        now = f"waiting for a person: {work.waits}" if work.waits else f"working: {work.now}"
        return now if self.is_certain else f"{now} (when last heard of, on another computer)"


_ENDS = {
    "end": "answered",
    "step_limit": "at the step limit",
    "budget": "out of budget",
    "error": "failed",
}
_STATES = {**_ENDS, "end": "done"}


def accounts(root: MemoryRoot, most: int = _RECENT) -> list[Account]:
    """The sessions of a memory root, the newest first. Files that cannot be read are left out."""
    found = sorted((root.path / FOLDER).glob("*.jsonl"), reverse=True)[:most]
    return [account for path in found if (account := read_record(path))]


def latest_accounts(root: MemoryRoot, most: int, most_bytes: int) -> tuple[list[Account], int]:
    """The sessions whose records were written to last, and the number of the other records.

    Args:
        root: The memory root.
        most: The largest number of records that are read.
        most_bytes: What is read of each: its first line and its end.
    """
    folder = root.path / FOLDER
    files: list[tuple[int, str]] = []
    try:
        # As for the writer: a link must not lead out of the root.
        if Path(os.path.realpath(folder)).is_relative_to(root.path):
            with os.scandir(folder) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(".jsonl") and stat.S_ISREG(found.st_mode):
                        files.append((found.st_mtime_ns, entry.name))
    except OSError:
        pass  # there is none yet, or a folder above forbids to look
    files.sort(reverse=True)
    paths = [folder / name for _, name in files]
    return [a for path in paths[:most] if (a := read_record(path, most_bytes))], len(paths[most:])


def read_record(path: Path, most_bytes: int = _READ_LIMIT) -> Account | None:
    """The account of a record; None if the file is none. Skips a torn last line.

    Args:
        path: The record.
        most_bytes: The size from which only the first line and the end are read.
    """
    lines = _lines(path, most_bytes)
    if not lines or lines[0].get("type") != "session_started":
        return None
    first = lines[0]
    turns: list[AgentWork] = []
    finished = False
    for line in lines[1:]:
        finished = line.get("type") == "session_finished"
        _fold(turns, line)
    running = bool(turns) and turns[-1].stop_reason == RUNNING
    lives = _lives(path, first)
    state: Literal["working", "idle", "finished", "gone"] = "working" if running else "idle"
    if finished:
        state = "finished"
    elif lives is False:
        state = "gone"
    return Account(
        path,
        _word(first.get("notebook")),
        _word(first.get("session")),
        _word(first.get("time")),
        _word(lines[-1].get("time")),
        state,
        tuple(turns),
        _is_here(first) and first.get("pid") == os.getpid(),
        lives is not None,
    )


# The lines of a record ---------------------------------------------------------------------------


def _fold(turns: list[AgentWork], line: _Json) -> None:
    """Take one more line into the turns. Lines of a turn whose begin was not read are left out."""
    kind = line.get("type")
    if kind == "turn_started":
        if turns:
            turns[-1] = _broken_off(turns[-1])
        task = str(line.get("task", ""))
        turns.append(AgentWork(_count(line, "number"), task, began=_word(line.get("time"))))
    elif turns and kind == "delegate_started":
        turns[-1] = _with_delegate(turns[-1], line)
    elif turns and isinstance(kind, str) and (changed := _CHANGES.get(kind)):
        turns[-1] = _changed(turns[-1], line, changed)


def _with_delegate(turn: AgentWork, line: _Json) -> AgentWork:
    begun = AgentWork(
        _count(line, "delegate"),
        _word(line.get("task")),
        began=_word(line.get("time")),
        where=_word(line.get("where")),
    )
    others = [each for each in turn.delegates if each.number != begun.number]
    delegates = sorted([*others, begun], key=lambda each: each.number)
    return replace(turn, delegates=tuple(delegates[:_MOST_DELEGATES]))


def _changed(
    turn: AgentWork, line: _Json, change: Callable[[AgentWork, _Json], AgentWork]
) -> AgentWork:
    """The turn after a line about itself or about one of its delegates."""
    number = _count(line, "delegate")
    if not number:
        return change(turn, line)
    delegates = [change(d, line) if d.number == number else d for d in turn.delegates]
    return replace(turn, delegates=tuple(delegates))


def _step(work: AgentWork, line: _Json) -> AgentWork:
    steps, tool = _count(line, "number") or work.steps, _word(line.get("tool"))
    said = f"step {steps}: {tool} {_word(line.get('what'))}".rstrip()
    return replace(
        work,
        steps=steps,
        tokens=_count(line, "tokens") or work.tokens,
        lines=(*work.lines, said)[-_MOST_LINES:],
        tool=tool,
        waits="",
    )


def _waiting(work: AgentWork, line: _Json) -> AgentWork:
    return replace(work, waits=_word(line.get("question")) or "a question")


def _going_on(work: AgentWork, line: _Json) -> AgentWork:
    return replace(work, waits="")


def _ended(work: AgentWork, line: _Json, answer: str, names: str) -> AgentWork:
    """The turn or the delegate after its last line.

    Args:
        work: The turn or the delegate.
        line: The line.
        answer: The field with the first words of the answer.
        names: The field with the names of variables.
    """
    return replace(
        _broken_off(work),
        stop_reason=_word(line.get("stop_reason")) or "error",
        answer=str(line.get(answer, "")),
        steps=_count(line, "steps") or work.steps,
        tokens=_count(line, "tokens") or work.tokens,
        error=_word(line.get("error")),
        names=_texts(line.get(names)),
        files=_texts(line.get("files")),
        saved=_texts(line.get("saved")),
    )


def _broken_off(work: AgentWork) -> AgentWork:
    """The same, ended: what has no line about its end was stopped."""
    if work.stop_reason != RUNNING:
        return work
    delegates = tuple(map(_broken_off, work.delegates))
    return replace(work, stop_reason="interrupted", waits="", tool="", delegates=delegates)


_CHANGES: dict[str, Callable[[AgentWork, _Json], AgentWork]] = {
    "step": _step,
    "delegate_step": _step,
    "waits": _waiting,
    "answered": _going_on,
    "turn_finished": partial(_ended, answer="answer", names="variables"),
    "delegate_finished": partial(_ended, answer="report", names="names"),
}


def _lines(path: Path, most_bytes: int) -> list[dict[str, Any]]:
    """The lines of a record; of a long one the first and the last."""
    try:
        if not path.is_file():  # reading a pipe would block
            return []
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            if size <= most_bytes:
                data = stream.read(most_bytes)
            else:
                data = stream.readline(_HEAD)
                stream.seek(size - most_bytes)
                stream.readline(most_bytes)  # the rest of a line
                data += stream.read(most_bytes)
    except OSError:
        return []
    values = [line.value for line in Reader(io.BytesIO(data))]
    return [value for value in values if value.get("type") != NOT_WRITTEN]


def _lives(path: Path, first: _Json) -> bool | None:
    """Whether the kernel of a record lives; None if nobody here can tell.

    Its lock alone is not enough (a process that the agent's code forked holds it, too, and not
    every file system has locks), and neither is the number of its process, which another process
    may have by now, or which a killed one keeps until its parent takes notice.
    """
    is_open = is_in_use(path)
    if not _is_here(first):
        return is_open or None
    return is_open is not False and _has_process(first.get("pid"))


def _has_process(pid: object) -> bool:
    """True if there may be a process of that number."""
    if not isinstance(pid, int) or os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _is_here(first: _Json) -> bool:
    return first.get("host") == socket.gethostname()


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_word(item) for item in value) if isinstance(value, list) else ()


def _count(line: _Json, key: str) -> int:
    value = line.get(key)
    return value if type(value) is int and 0 < value < _TOO_MANY else 0


def _word(value: Any) -> str:
    """A text of a record on one line, inert, since others may have written it."""
    return one_line(str(value or ""), 300)


def _outcome(turn: AgentWork) -> str:
    if turn.stop_reason == "end":
        return f" -> {one_line(turn.answer, 160)}" if turn.answer else ""
    return f" ({_ENDS.get(turn.stop_reason, turn.stop_reason)})"
