"""What a check finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Severity = Literal["error", "warning", "notice"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        severity: An `error` fails the check; a `warning` does so where it is strict; a `notice`
            never does.
        kind: A word for programs: `not-recorded`, `orphan`, `secret`.
        message: What is wrong, in one line.
        remedy: What to do about it, in one line; empty where the message says it.
        file: The notebook or the cassette.
        line: The line of the file, from 1.
        cell: The number of the notebook's cell, from 0 over all cells; None without one.
    """

    severity: Severity
    kind: str
    message: str
    remedy: str
    file: Path
    line: int = 1
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class CassetteSummary:
    """What a cassette says of itself: who replied, and how often."""

    path: Path
    source: str
    provider: str
    model: str
    turns: int
    replies: int


@dataclass(frozen=True, slots=True)
class Checked:
    """One notebook after its check.

    Attributes:
        path: The notebook.
        asked: How many turns of the agent it asks for, as far as that can be read.
        tapes: The cassettes that it uses.
        findings: What is wrong with it and with its cassettes.
        replayed: Whether it was executed from its cassettes.
        unreplayed: Why it was not; empty where it was.
        seconds: How long the execution took.
    """

    path: Path
    asked: int
    tapes: tuple[CassetteSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    replayed: bool = False
    unreplayed: str = ""
    seconds: float = 0.0

    @property
    def errors(self) -> int:
        return count(self.findings, "error")

    @property
    def warnings(self) -> int:
        return count(self.findings, "warning")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All notebooks, and what is wrong with files that belong to none of them."""

    notebooks: tuple[Checked, ...]
    beside: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*(f for book in self.notebooks for f in book.findings), *self.beside)

    @property
    def errors(self) -> int:
        return count(self.findings, "error")

    @property
    def warnings(self) -> int:
        return count(self.findings, "warning")


def count(findings: Iterable[Finding], severity: Severity) -> int:
    """How many findings have a severity."""
    return sum(finding.severity == severity for finding in findings)
