"""Finds entries of a workspace's memory that may be outdated, for a person to decide."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Literal

from jupyter_agent.memory.entries import FILES, superseded
from jupyter_agent.memory.scope import Scope
from jupyter_agent.memory.similar import contradicts, fingerprint
from jupyter_agent.memory.store import Located, WorkspaceMemory

OLD_DAYS = 180
FULL = 50
"""Entries of one file from which seed 002 advises a review."""
_PATH = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,5})`")
_MOST_COMPARED = 500
"""Entries of a kind, the newest: each is compared with each."""


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """One finding; `ids` are the entries concerned."""

    kind: Literal["stale", "contradictory", "damaged", "full"]
    ids: tuple[str, ...]
    text: str


def review(
    memory: WorkspaceMemory,
    scope: Scope,
    today: date,
    places: Sequence[Path] = (),
    old_days: int = OLD_DAYS,
) -> list[ReviewFinding]:
    """The stale, contradictory, damaged or excessive entries in a scope.

    Args:
        memory: The memory.
        scope: The part of it.
        today: The date from which age counts.
        places: Folders besides the memory root for the files that entries name.
        old_days: The age in days from which an unconfirmed entry counts as stale.
    """
    everything = list(memory.all(scope))
    gone = superseded(located.entry for located in everything)
    holding = [located for located in everything if located.entry.id not in gone]
    confirmed = _confirmed(memory, scope)
    before = (today - timedelta(days=old_days)).isoformat()
    return [
        *_damaged(memory, scope),
        *_old(holding, confirmed, before, old_days),
        *_missing(holding, (memory.root.path, *places)),
        *_against(holding),
    ]


def _confirmed(memory: WorkspaceMemory, scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in ("decision", "lesson"):
        for _, parsed in memory.parsed(scope, kind):
            found.update(parsed.confirmed)
    return found


def _damaged(memory: WorkspaceMemory, scope: Scope) -> Iterator[ReviewFinding]:
    for kind in ("decision", "lesson"):
        for path, parsed in memory.parsed(scope, kind):
            if parsed.conflicts:
                where = f"line {parsed.conflicts[0]}"
                yield ReviewFinding("damaged", (), f"{path} holds git conflict markers ({where}).")
            if parsed.torn:
                text = f"{path} ends in an unfinished entry; the next save sets it aside."
                yield ReviewFinding("damaged", (), text)
            if len(parsed.entries) > FULL:
                count = len(parsed.entries)
                yield ReviewFinding(
                    "full", (), f"{path} has {count} entries: split or archive some."
                )


def _old(
    holding: Sequence[Located], confirmed: Mapping[str, str], before: str, days: int
) -> Iterator[ReviewFinding]:
    for located in holding:
        entry = located.entry
        last = max(entry.date, confirmed.get(entry.id, ""))
        if last and last < before:
            text = f"{_named(located)}: from {last}, and not confirmed in {days} days."
            yield ReviewFinding("stale", (entry.id,), text)


def _missing(holding: Sequence[Located], places: Sequence[Path]) -> Iterator[ReviewFinding]:
    for located in holding:
        names = dict.fromkeys(_PATH.findall(located.entry.content))
        # A bare name may be anything; a path has a definite place.
        lost = [n for n in names if "/" in n and not any(_exists(p, n) for p in places)]
        if lost:
            text = f"{_named(located)}: names files that are not there: {', '.join(lost)}."
            yield ReviewFinding("stale", (located.entry.id,), text)


def _exists(place: Path, name: str) -> bool:
    try:
        return (place / name).exists()
    except (OSError, ValueError):
        return True


def _against(holding: Sequence[Located]) -> Iterator[ReviewFinding]:
    """Entries under one title, and pairs whose titles or contents differ in a negation."""
    titles: dict[tuple[str, ...], list[Located]] = defaultdict(list)
    for located in holding:
        entry = located.entry
        titles[entry.kind, located.scope, fingerprint(entry.title).exact].append(located)
    for group in titles.values():
        if len(group) > 1:
            ids = tuple(located.entry.id for located in group)
            text = f"{_named(group[0])}: {len(group)} entries have this title; let one supersede."
            yield ReviewFinding("contradictory", ids, text)
    for kind in FILES:
        newest = [located for located in holding if located.entry.kind == kind][-_MOST_COMPARED:]
        said = [(fingerprint(e.entry.title), fingerprint(e.entry.content), e) for e in newest]
        for (title, content, one), (other_title, other_content, other) in combinations(said, 2):
            if title.exact == other_title.exact and one.scope == other.scope:
                continue
            if contradicts(title, other_title) or contradicts(content, other_content):
                ids = (one.entry.id, other.entry.id)
                text = f"{_named(one)} and {_named(other)} seem to contradict each other."
                yield ReviewFinding("contradictory", ids, text)


def _named(located: Located) -> str:
    entry = located.entry
    return f"{entry.id} {entry.title!r} ({located.path})"
