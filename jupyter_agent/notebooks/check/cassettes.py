"""The cassettes of some notebooks, held against the tasks that the notebooks give."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import cassette_of
from jupyter_agent.notebooks.check.findings import CassetteSummary, Finding
from jupyter_agent.notebooks.check.notebook_scan import NotebookScan, RequestedTurn
from jupyter_agent.notebooks.check.replay import record_again
from jupyter_agent.notebooks.check.traces import Machine, strings
from jupyter_agent.recording.cassette import Cassette, RecordedTurn, load
from jupyter_agent.recording.coverage import coverage, nearest
from jupyter_agent.recording.learning import variations

_NUMBERED = re.compile(r", line (\d+):")


class UsedCassettes:
    """Every cassette that some notebooks use, read once.

    Args:
        scans: The notebooks, and those beside them that may share a cassette.
    """

    def __init__(self, scans: Iterable[NotebookScan]) -> None:
        self._read: dict[Path, Cassette | ConfigError] = {}
        self._uses: defaultdict[Path, list[tuple[NotebookScan, RequestedTurn]]] = defaultdict(list)
        self._open: set[Path] = set()
        self._reported: set[Path] = set()
        for scan in scans:
            for turn in scan.turns:
                self._uses[turn.cassette.resolve()].append((scan, turn))
            if scan.is_open:
                # It may ask for anything, so that nothing of its cassettes is an orphan.
                cassettes = (cassette_of(scan.path), *scan.cassettes)
                self._open |= {path.resolve() for path in cassettes}

    def facts(self, scan: NotebookScan) -> tuple[CassetteSummary, ...]:
        """What the notebook's cassettes say of themselves, as far as they can be read."""
        return tuple(
            CassetteSummary(
                path,
                cassette.source,
                cassette.provider,
                cassette.model,
                len(cassette.turns),
                cassette.replies,
            )
            for path in scan.cassettes
            if isinstance(cassette := self._load(path), Cassette)
        )

    def findings(self, scan: NotebookScan, machine: Machine) -> Iterator[Finding]:
        """What is wrong with the notebook's cassettes. What concerns a file is told once."""
        for path in scan.cassettes:
            is_new, cassette = path.resolve() not in self._reported, self._load(path)
            self._reported.add(path.resolve())
            if isinstance(cassette, ConfigError):
                yield _unread(scan, path, cassette)
            else:
                yield from self._uncovered(scan, path, cassette, is_new)
            if is_new:
                yield from given_away(path, machine)

    def is_used(self, cassette: Path) -> bool:
        """Whether any of the notebooks uses, or may use, a cassette."""
        return cassette.resolve() in {*self._uses, *self._open}

    def _load(self, path: Path) -> Cassette | ConfigError:
        key = path.resolve()
        if key not in self._read:
            try:
                self._read[key] = load(path)
            except ConfigError as error:
                self._read[key] = error
        return self._read[key]

    def _uncovered(
        self, scan: NotebookScan, path: Path, cassette: Cassette, is_new: bool
    ) -> Iterator[Finding]:
        """A notebook's tasks without a recording; and, once, what is odd about the recordings.

        Each kernel replays a cassette from its beginning, so that notebooks may share turns.
        """
        of_notebooks: dict[Path, list[RequestedTurn]] = {}
        for user, turn in self._uses[path.resolve()]:
            of_notebooks.setdefault(user.path, []).append(turn)
        covers = {
            user: coverage([turn.task for turn in those], cassette, user.resolve().parent)
            for user, those in of_notebooks.items()
        }
        for number in covers[scan.path].missing:
            yield _unrecorded(scan, of_notebooks[scan.path][number], cassette)
        if is_new:
            yield from _varying(scan, path, cassette)
            if path.resolve() not in self._open:
                unasked = [set(cover.orphans) for cover in covers.values()]
                for number in sorted(set.intersection(*unasked)):
                    yield _orphan(scan, path, cassette.turns[number])


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
                "Record the turn again without it, and revoke the secret."
                if trace.kind == "secret"
                else "Record the turn again without it, or allow it with --allow.",
                path,
                number,
            )


def _texts(line: str) -> Iterator[str]:
    try:
        return strings(json.loads(line))
    except (ValueError, RecursionError):
        return iter((line,))


def _unread(scan: NotebookScan, path: Path, error: ConfigError) -> Finding:
    if not path.exists():
        turns = count(len(scan.turns), "turn")
        return Finding(
            "error",
            "no-cassette",
            f"there is no cassette {path.name}, and {turns} of the agent to replay.",
            f"Record it: {record_again(scan.path)}",
            scan.path,
            scan.line(scan.turns[0].cell),
            scan.turns[0].cell,
        )
    found = _NUMBERED.search(str(error))
    line = int(found[1]) if found else 1
    again = f"Restore the file, or: {record_again(scan.path)}"
    return Finding("error", "damaged", " ".join(str(error).split()), again, path, line)


def _unrecorded(scan: NotebookScan, turn: RequestedTurn, cassette: Cassette) -> Finding:
    name, task = turn.cassette.name, one_line(turn.task.text, 60)
    parted = nearest(turn.task.text, cassette, scan.path.resolve().parent)
    hint = f" The nearest differs {parted}" if parted else ""
    return Finding(
        "error",
        "not-recorded",
        f"{name} holds no recording of the task {task!r}.{hint}",
        f"To record this cell alone: {record_again(scan.path, turn.cell)}",
        scan.path,
        scan.line(turn.cell),
        turn.cell,
    )


def _orphan(scan: NotebookScan, path: Path, turn: RecordedTurn) -> Finding:
    return Finding(
        "warning",
        "orphan",
        f"{path.name} holds a recording that no cell asks for: {one_line(turn.task, 60)!r}",
        f"Put the cell back, or record the notebook anew: {record_again(scan.path)}",
        path,
        turn.line,
    )


def _varying(scan: NotebookScan, path: Path, cassette: Cassette) -> Iterator[Finding]:
    """What a replay does not compare, and turns of which that is not known."""
    for turn in cassette.turns:
        alone = replace(cassette, turns=(turn,))
        for variation in variations(alone):
            yield Finding(
                "notice",
                "varies",
                f"{one_line(turn.task, 40)!r}, {variation.words}",
                "It is not compared. Mend the code if it should not vary.",
                path,
                turn.line,
            )
    once = [turn for turn in cassette.turns if turn.runs < 2]
    if once:
        yield Finding(
            "notice",
            "recorded-once",
            f"{path.name}: {count(len(once), 'turn')} ran only once while recorded, so that it is "
            "not known what varies from run to run.",
            f"To learn it without asking a model: jupyter agent record {scan.path.name} --prove",
            path,
            once[0].line,
        )
