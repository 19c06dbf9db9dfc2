"""The cassettes of some notebooks, held against the tasks that the notebooks give."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import cassette_of
from jupyter_agent.notebooks.check.findings import CassetteSummary, Finding
from jupyter_agent.notebooks.check.notebook_scan import NotebookScan, RequestedTurn
from jupyter_agent.notebooks.check.replay import record_again
from jupyter_agent.notebooks.check.traces import Machine, strings
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.cassette_model import Cassette
from jupyter_agent.recording.coverage import coverage, nearest, task_of
from jupyter_agent.recording.digests import extend

_NUMBERED = re.compile(r", line (\d+):")


class Tapes:
    """Every cassette that some notebooks use, read once.

    Args:
        books: The notebooks, and those beside them that may share a cassette.
    """

    def __init__(self, books: Iterable[NotebookScan]) -> None:
        self._read: dict[Path, Cassette | ConfigError] = {}
        self._uses: defaultdict[Path, list[tuple[NotebookScan, RequestedTurn]]] = defaultdict(list)
        self._open: set[Path] = set()
        self._told: set[Path] = set()
        for book in books:
            for asked in book.asked:
                self._uses[asked.cassette.resolve()].append((book, asked))
            if book.is_open:
                # It may ask for anything, so that nothing of its cassettes is an orphan.
                cassettes = (cassette_of(book.path), *book.cassettes)
                self._open |= {path.resolve() for path in cassettes}

    def facts(self, book: NotebookScan) -> tuple[CassetteSummary, ...]:
        """What the notebook's cassettes say of themselves, as far as they can be read."""
        return tuple(
            CassetteSummary(
                path, tape.source, tape.provider, tape.model, len(tape.turns), tape.replies
            )
            for path in book.cassettes
            if isinstance(tape := self._tape(path), Cassette)
        )

    def findings(self, book: NotebookScan, machine: Machine) -> Iterator[Finding]:
        """What is wrong with the notebook's cassettes. What concerns a file is told once."""
        for path in book.cassettes:
            is_new, tape = path.resolve() not in self._told, self._tape(path)
            self._told.add(path.resolve())
            if isinstance(tape, ConfigError):
                yield _unread(book, path, tape)
            else:
                yield from self._uncovered(book, path, tape, is_new)
            if is_new:
                yield from given_away(path, machine)

    def is_used(self, cassette: Path) -> bool:
        """Whether any of the notebooks uses, or may use, a cassette."""
        return cassette.resolve() in {*self._uses, *self._open}

    def _tape(self, path: Path) -> Cassette | ConfigError:
        key = path.resolve()
        if key not in self._read:
            try:
                self._read[key] = load(path)
            except ConfigError as error:
                self._read[key] = error
        return self._read[key]

    def _uncovered(
        self, book: NotebookScan, path: Path, tape: Cassette, is_new: bool
    ) -> Iterator[Finding]:
        """A notebook's tasks without a recording; and, once, what is odd about the recordings.

        Each kernel replays a cassette from its beginning, so that notebooks may share turns.
        """
        of_books: dict[Path, list[RequestedTurn]] = {}
        for user, asked in self._uses[path.resolve()]:
            of_books.setdefault(user.path, []).append(asked)
        covers = {
            user: coverage([asked.task for asked in those], tape, user.resolve().parent)
            for user, those in of_books.items()
        }
        for number in covers[book.path].missing:
            yield _unrecorded(book, of_books[book.path][number], tape)
        if is_new:
            lines = _turn_lines(path, tape)
            yield from _altered(path, tape, lines)
            if path.resolve() not in self._open:
                unasked = [set(cover.orphans) for cover in covers.values()]
                for number in sorted(set.intersection(*unasked)):
                    yield _orphan(book, path, tape, number, lines)


def given_away(path: Path, machine: Machine) -> Iterator[Finding]:
    """What a cassette must not hold, line by line. A file that is no text holds nothing."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return
    for number, line in enumerate(lines, 1):
        traces = {trace for text in _texts(line) for trace in machine.traces(text)}
        for trace in sorted(traces, key=lambda trace: (trace.severity, trace.message)):
            yield Finding(
                trace.severity,
                trace.kind,
                f"{path.name} holds {trace.message}",
                "Record the turn anew without it, and take a secret back."
                if trace.kind == "secret"
                else "Record the turn anew without it, or allow it with --allow.",
                path,
                number,
            )


def _texts(line: str) -> Iterator[str]:
    try:
        return strings(json.loads(line))
    except (ValueError, RecursionError):
        return iter((line,))


def _unread(book: NotebookScan, path: Path, error: ConfigError) -> Finding:
    if not path.exists():
        return Finding(
            "error",
            "no-cassette",
            f"there is no cassette {path.name}, and {_turns(len(book.asked))} to replay.",
            f"Record it: {record_again(book.path)}",
            book.path,
            book.line(book.asked[0].cell),
            book.asked[0].cell,
        )
    found = _NUMBERED.search(str(error))
    line = int(found[1]) if found else 1
    again = f"Restore the file, or: {record_again(book.path)}"
    return Finding("error", "damaged", " ".join(str(error).split()), again, path, line)


def _unrecorded(book: NotebookScan, asked: RequestedTurn, tape: Cassette) -> Finding:
    name, task = asked.cassette.name, one_line(asked.task.text, 60)
    parted = nearest(asked.task.text, tape, book.path.resolve().parent)
    hint = f" The nearest differs {parted}" if parted else ""
    return Finding(
        "error",
        "not-recorded",
        f"{name} holds no recording of the task {task!r}.{hint}",
        f"To record this cell alone: {record_again(book.path, asked.cell)}",
        book.path,
        book.line(asked.cell),
        asked.cell,
    )


def _orphan(
    book: NotebookScan, path: Path, tape: Cassette, number: int, lines: dict[int, int]
) -> Finding:
    task = one_line(task_of(tape.turns[number]), 60)
    return Finding(
        "warning",
        "orphan",
        f"{path.name} holds a recording that no cell asks for: {task!r}",
        f"Put the cell back, or record the notebook anew: {record_again(book.path)}",
        path,
        lines[number],
    )


def _altered(path: Path, tape: Cassette, lines: dict[int, int]) -> Iterator[Finding]:
    """Turns whose task is not what their digest was made from: somebody edited the file."""
    for number, turn in enumerate(tape.turns):
        if turn[0].turn != extend("", turn[0].asked):
            yield Finding(
                "error",
                "damaged",
                f"{path.name}, line {lines[number]}: the task does not fit its digest, so that it "
                "is not found in a replay.",
                "Restore the file, or record the turn anew.",
                path,
                lines[number],
            )


def _turn_lines(path: Path, tape: Cassette) -> dict[int, int]:
    """The line of the file on which each recorded turn begins."""
    rows = path.read_text(encoding="utf-8-sig").split("\n")
    written = [number for number, row in enumerate(rows, 1) if row.strip()][1:]
    starts, place = {}, 0
    for number, turn in enumerate(tape.turns):
        starts[number] = written[place]
        place += len(turn)
    return starts


def _turns(number: int) -> str:
    return "1 turn of the agent" if number == 1 else f"{number} turns of the agent"
