"""What a turn did to the bindings of the person's variables, and the way back.

Names are bound again to the objects that they had. An object that was changed in place is
replaced by its copy where a cheap one was made before the turn; else it stays as it is, and is
named. For as long as a turn can be undone, the objects that it replaced stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jupyter_agent.checkpoints.copies import MISSING, Copier, differs
from jupyter_agent.kernel.changes import Snapshot, changes, snapshot

KEPT_TURNS = 5

IN_PLACE = "it was changed in place, and no copy of it was made"
SINCE = "it was bound to something else after the turn"
SINCE_IN_PLACE = "it was changed after the turn"
BETWEEN = "it was changed between the turns"

Outcome = Literal["removed", "bound", "copied", "not_restorable", "conflict"]


@dataclass(frozen=True, slots=True)
class Rebound:
    """What became of one name.

    `bound` means to the object that it had before the turn, `copied` to a copy of it, since the
    turn had changed the object itself. In a `conflict` the person's own binding stays.
    """

    name: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """One name: the object it had, what to bind to go back, and the object it was left with.

    `seen` and `print` are the fingerprints of what it had and of what it was left with.
    """

    had: Any
    seen: Any
    back: Any
    left: Any
    print: Any

    @property
    def is_copy(self) -> bool:
        return self.back is not MISSING and self.back is not self.had


@dataclass
class _Under:
    """A turn that is running."""

    before: Snapshot
    others: Mapping[str, object]
    copies: dict[str, Any] = field(default_factory=dict)


_LOST: Any = object()
"""In place of what to go back to: it was changed in place."""


class Bindings:
    """The bindings from before the last turns of one kernel.

    Args:
        turns: How many turns are remembered; with 0 none is.
    """

    def __init__(self, turns: int = KEPT_TURNS) -> None:
        self._turns = turns
        self._running: dict[str, _Under] = {}
        self._done: dict[str, dict[str, _Change]] = {}
        self._undone: dict[str, dict[str, _Change]] = {}

    def begin(self, turn: str, before: Snapshot, namespace: Mapping[str, object]) -> None:
        """A turn begins.

        Args:
            turn: Its id, as its checkpoint has it.
            before: The person's variables.
            namespace: The kernel's whole namespace, where modules are, too.
        """
        self._running.clear()
        if not self._turns:
            return
        others = {name: value for name, value in namespace.items() if name not in before.values}
        under = _Under(before, others)
        copier = Copier()
        # The newest first: they are what the turn is about.
        for name, value in reversed(list(before.values.items())):
            made = copier.copy(value)
            if made is not MISSING and made is not value:
                under.copies[name] = made
        self._running[turn] = under

    def end(self, turn: str, after: Snapshot, namespace: Mapping[str, object]) -> None:
        """The turn is over: what it did to the variables is remembered, the rest let go."""
        under = self._running.pop(turn, None)
        if under is None:
            return
        kinds = {change.name: change.kind for change in changes(under.before, after)}
        for name, copy in under.copies.items():
            if name not in kinds and differs(copy, after.values[name]):
                kinds[name] = "mutated"
        found = {}
        for name, kind in kinds.items():
            had = under.before.values.get(name, under.others.get(name, MISSING))
            seen = under.before.fingerprints.get(name)
            back = under.copies.get(name, _LOST) if kind == "mutated" else _back(name, had, under)
            left = namespace.get(name, MISSING)
            found[name] = _Change(had, seen, back, left, _print(left))
        _remember(self._done, turn, found, self._turns)

    def rewind(
        self, turns: Sequence[str], undo: str, namespace: MutableMapping[str, Any]
    ) -> tuple[Rebound, ...]:
        """Bind the names as they were before the turns, given newest first.

        Args:
            turns: Ids of turns, or of one undo that is taken back.
            undo: The id under which this can be taken back itself.
            namespace: The kernel's.
        """
        wanted: dict[str, _Change] = {}
        broken: set[str] = set()
        for turn in turns:
            for name, change in (self._done.get(turn) or self._undone.get(turn, {})).items():
                newer = wanted.get(name)
                if newer is None:
                    wanted[name] = change
                    continue
                if newer.had is not change.left or newer.seen != change.print:
                    broken.add(name)
                wanted[name] = replace(newer, had=change.had, seen=change.seen, back=change.back)
        results, made = [], {}
        for name, change in wanted.items():
            current = namespace.get(name, MISSING)
            if change.had is current and not change.is_copy and change.back is not _LOST:
                continue
            if why := BETWEEN if name in broken else _obstacle(change, current):
                outcome: Outcome = "not_restorable" if why == IN_PLACE else "conflict"
                results.append(Rebound(name, outcome, why))
                continue
            results.append(_rebind(name, change, namespace))
            made[name] = _Change(
                current, _print(current), current, change.back, _print(change.back)
            )
        _remember(self._undone, undo, made, self._turns)
        return tuple(results)

    def knows(self, turn: str) -> bool:
        """Whether the bindings from before the turn are remembered."""
        return turn in self._done or turn in self._undone

    def changed(self, turn: str) -> tuple[str, ...]:
        """The names that a turn, or an undo, made, bound anew, changed in place or deleted."""
        return tuple(self._done.get(turn) or self._undone.get(turn, {}))

    def forget(self) -> None:
        """Let go of everything."""
        for each in (self._running, self._done, self._undone):
            each.clear()


def _back(name: str, had: Any, under: _Under) -> Any:
    """What to bind to go back to an object that the name has lost."""
    if name not in under.before.values:
        return had
    copy = under.copies.get(name, _LOST)
    is_as_it_was = _print(had) == under.before.fingerprints[name]
    return had if is_as_it_was and (copy is _LOST or not differs(copy, had)) else copy


def _remember(
    done: dict[str, dict[str, _Change]], record: str, found: dict[str, _Change], most: int
) -> None:
    done[record] = found
    while len(done) > most:
        del done[next(iter(done))]


def _obstacle(change: _Change, current: Any) -> str:
    if change.back is _LOST:
        return IN_PLACE
    if current is not change.left:
        return SINCE
    return SINCE_IN_PLACE if _print(current) != change.print else ""


def _rebind(name: str, change: _Change, namespace: MutableMapping[str, Any]) -> Rebound:
    if change.back is MISSING:
        namespace.pop(name, None)
        return Rebound(name, "removed")
    namespace[name] = change.back
    return Rebound(name, "copied" if change.is_copy else "bound")


def _print(value: Any) -> Any:
    return None if value is MISSING else snapshot({"": value}).fingerprints[""]


def names(results: Iterable[Rebound], *outcomes: Outcome) -> list[str]:
    """The names with one of these outcomes."""
    return [each.name for each in results if each.outcome in outcomes]
