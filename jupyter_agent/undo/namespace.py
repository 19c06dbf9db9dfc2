"""What a turn did to the bindings of the person's variables, and the way back.

Names are bound again to the objects that they had. An object that was changed in place is
replaced by its copy where a cheap one was made before the turn; else it stays as it is, and is
named. For as long as a turn can be undone, the objects that it replaced stay in memory. Variables
of the environment, the working folder and the state of random generators go back, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, GeneratorType
from typing import Any, Literal

from jupyter_agent.kernel.changes import Snapshot, changes, snapshot
from jupyter_agent.undo import process_state
from jupyter_agent.undo.copies import (
    DIGEST_BYTES,
    MISSING,
    Copier,
    Origins,
    Restorer,
    differs,
    digest,
    digest_bytes,
    is_constant,
    reached,
)

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


@dataclass
class _State:
    """What a name stands for at one moment.

    Two turns that follow each other share the state between them. So an undo that binds a copy
    makes it the object of that state, and the turn before finds it.

    Attributes:
        value: The object; MISSING where the name is not bound.
        print: The object's fingerprint at that moment.
        copy: Its copy from that moment, which nobody else gets to see; MISSING where there is none.
        origins: The originals of the copy and of what is in it.
        digest: Of a large array or table that is not copied, what tells whether it was changed.
    """

    value: Any
    print: Any = None
    copy: Any = MISSING
    origins: Origins = field(default_factory=dict)
    digest: Any = None

    def is_of(self, value: Any) -> bool:
        """Whether this is the object, or an equal text."""
        both_texts = type(self.value) is str and type(value) is str
        return self.value is value or bool(both_texts and self.value == value)

    def is_unchanged(self, value: Any) -> bool:
        """Whether the object is as it was at that moment."""
        if _print(value) != self.print or (self.copy is not MISSING and differs(self.copy, value)):
            return False
        return self.digest is None or digest(value) == self.digest


@dataclass(frozen=True, slots=True)
class _Change:
    """What a turn or an undo did to one name."""

    before: _State
    after: _State


@dataclass
class _Under:
    """A turn that is running. `partial` are the names of objects that are not copied whole."""

    before: Snapshot
    others: Mapping[str, object]
    around: Mapping[str, Any]
    states: dict[str, _State] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is remembered of a turn or an undo.

    `unseen` are variables that its code uses, of which it is not known whether they changed.
    """

    changes: Mapping[str, _Change]
    unseen: tuple[str, ...] = ()


class Bindings:
    """The bindings from before the last turns of one kernel.

    Args:
        turns: How many turns are remembered; with 0 none is.
    """

    def __init__(self, turns: int = KEPT_TURNS) -> None:
        self._turns = turns
        self._running: dict[str, _Under] = {}
        self._done: dict[str, _Turn] = {}
        self._undone: dict[str, _Turn] = {}
        self._now: dict[str, _State] = {}
        self._restorer = Restorer()

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
        under = _Under(before, others, process_state.take())
        under.states, under.partial = _states(before)
        self._running[turn] = under

    def end(
        self,
        turn: str,
        after: Snapshot,
        namespace: Mapping[str, object],
        code: Iterable[str] = (),
    ) -> None:
        """The turn is over: what it did to the variables is remembered, the rest let go.

        Args:
            turn: Its id.
            after: The person's variables.
            namespace: The kernel's whole namespace.
            code: What ran; of the variables that it names `unseen` gives those that cannot be seen
                through.
        """
        under = self._running.pop(turn, None)
        if under is None:
            return
        kinds = {change.name: change.kind for change in changes(under.before, after)}
        for name, state in under.states.items():
            if name not in kinds and _is_changed(state, after.values[name]):
                kinds[name] = "mutated"
        left = {name: namespace.get(name, MISSING) for name in kinds}
        afters, _ = _states(snapshot({n: v for n, v in left.items() if v is not MISSING}))
        found = {
            name: _Change(self._before(name, under), afters.get(name, _State(MISSING)))
            for name in kinds
        }
        found |= self._around(under.around, process_state.take())
        _prune([change.before for change in found.values()])
        unseen = _named(code, under.partial - found.keys())
        shown = tuple(f"{name} ({type(under.before.values[name]).__name__})" for name in unseen)
        self._now |= {name: change.after for name, change in found.items()}
        self._remember(self._done, turn, _Turn(found, shown))

    def rewind(
        self, turns: Sequence[str], undo: str, namespace: MutableMapping[str, Any]
    ) -> tuple[Rebound, ...]:
        """Bind the names as they were before the turns, given newest first.

        Args:
            turns: Ids of turns, or of one undo that is taken back.
            undo: The id under which this can be taken back itself.
            namespace: The kernel's.
        """
        wanted, broken = self._wanted(turns)
        everything = _Everything(namespace)
        results, going = [], {}
        for name, change in wanted.items():
            current = everything.get(name)
            if name == process_state.FOLDER and current is MISSING:
                current = change.after.value  # it has just gone with the turn's files
            if change.before.is_of(current) and change.before.is_unchanged(current):
                continue
            if why := BETWEEN if name in broken else _obstacle(name, change, current):
                outcome: Outcome = "not_restorable" if why == IN_PLACE else "conflict"
                results.append(Rebound(name, outcome, why))
            else:
                going[name] = change
        made = {}
        for name, value in self._targets(going).items():
            rebound = everything.bind(name, value, going[name].before)
            results.append(rebound)
            if rebound.outcome != "not_restorable":
                state = going[name].before
                state.value, state.print = value, _print_of(name, value)
                made[name] = _Change(going[name].after, state)
        self._now |= {name: change.after for name, change in made.items()}
        self._remember(self._undone, undo, _Turn(made))
        order = list(wanted)
        return tuple(sorted(results, key=lambda each: order.index(each.name)))

    def knows(self, turn: str) -> bool:
        """Whether the bindings from before the turn are remembered."""
        return turn in self._done or turn in self._undone

    def changed(self, turn: str) -> tuple[str, ...]:
        """The names that a turn, or an undo, made, bound anew, changed in place or deleted."""
        return tuple(self._of(turn).changes)

    def mutated(self, turn: str) -> tuple[str, ...]:
        """The variables that a turn changed in place, as far as that is seen."""
        found = self._of(turn).changes.items()
        return tuple(
            name
            for name, change in found
            if change.before.value is change.after.value and not process_state.is_named(name)
        )

    def lost(self, turn: str) -> tuple[str, ...]:
        """The variables that a turn changed in place, and of which there is no copy."""
        found = self._of(turn).changes
        return tuple(name for name in self.mutated(turn) if found[name].before.copy is MISSING)

    def unseen(self, turn: str) -> tuple[str, ...]:
        """Variables that a turn's code uses, and that may have changed unseen, with their types."""
        return self._of(turn).unseen

    def forget(self) -> None:
        """Let go of everything."""
        for each in (self._running, self._done, self._undone, self._now):
            each.clear()
        self._restorer = Restorer()

    def _of(self, turn: str) -> _Turn:
        return self._done.get(turn) or self._undone.get(turn) or _Turn({})

    def _before(self, name: str, under: _Under) -> _State:
        """The state of a name when the turn began: the one that was left, where it is the same."""
        known = self._now.get(name)
        if name not in under.states:
            had = under.others.get(name, MISSING)
            same = known is not None and known.value is had
            return known if known and same else _State(had, _print(had))
        state = under.states[name]
        if known is None or not known.is_of(state.value) or not _is_same(known, state):
            return state
        # Copies of one moment share what their originals share.
        known.print, known.copy, known.origins = state.print, state.copy, state.origins
        known.digest = state.digest
        return known

    def _around(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, _Change]:
        found = {}
        for name in before.keys() | after.keys():
            had, has = before.get(name, MISSING), after.get(name, MISSING)
            if had == has or (name == process_state.NUMPY and had is MISSING):
                continue
            known = self._now.get(name)
            state = known if known is not None and known.is_of(had) else _State(had)
            found[name] = _Change(state, _State(has))
        return dict(sorted(found.items()))

    def _wanted(self, turns: Sequence[str]) -> tuple[dict[str, _Change], set[str]]:
        """What to do to each name, and the names that somebody else changed between the turns."""
        wanted: dict[str, _Change] = {}
        broken: set[str] = set()
        for turn in turns:
            for name, change in self._of(turn).changes.items():
                newer = wanted.get(name)
                if newer is not None and newer.before is not change.after:
                    broken.add(name)
                wanted[name] = _Change(change.before, newer.after if newer else change.after)
        return wanted, broken

    def _targets(self, going: Mapping[str, _Change]) -> dict[str, Any]:
        """What to bind each name to."""
        found = {name: change.before.value for name, change in going.items()}
        moments: dict[int, list[str]] = {}
        for name, change in going.items():
            if change.before.copy is not MISSING:
                moments.setdefault(id(change.before.origins), []).append(name)
        for together in moments.values():
            states = [going[name].before for name in together]
            copies = [state.copy for state in states]
            made = self._restorer.restore(copies, states[0].origins)
            found.update(zip(together, made, strict=True))
        return found

    def _remember(self, done: dict[str, _Turn], record: str, found: _Turn) -> None:
        done[record] = found
        if len(done) <= self._turns:
            return
        while len(done) > self._turns:
            del done[next(iter(done))]
        kept = [
            state
            for turn in (*self._done.values(), *self._undone.values())
            for change in turn.changes.values()
            for state in (change.before, change.after)
        ]
        known = {id(state) for state in kept}
        self._now = {name: state for name, state in self._now.items() if id(state) in known}
        self._restorer.forget_all_but([state.origins for state in kept])


class _Everything:
    """The kernel's namespace, and the state of its process."""

    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        self._namespace = namespace
        self._around = process_state.take()

    def get(self, name: str) -> Any:
        there = self._around if process_state.is_named(name) else self._namespace
        return there.get(name, MISSING)

    def bind(self, name: str, value: Any, state: _State) -> Rebound:
        outcome: Outcome = "removed" if value is MISSING else "bound"
        if process_state.is_named(name):
            try:
                process_state.remove(name) if value is MISSING else process_state.put(name, value)
            except (OSError, ValueError) as error:
                return Rebound(name, "not_restorable", f"the system refuses: {error}")
        elif value is MISSING:
            self._namespace.pop(name, None)
        else:
            self._namespace[name] = value
            outcome = "bound" if value is state.value else "copied"
        return Rebound(name, outcome)


def _states(taken: Snapshot) -> tuple[dict[str, _State], set[str]]:
    """The states of variables at one moment, and the names of those that are not copied whole."""
    copier, room = Copier(), DIGEST_BYTES
    states, partial = {}, set()
    # The newest first: they are what a turn is about.
    for name, value in reversed(list(taken.values.items())):
        state = _State(value, taken.fingerprints[name], copier.copy(value), copier.origins)
        states[name] = state
        if state.copy is not MISSING:
            whole = copier.is_whole
        elif 0 < (size := digest_bytes(value)) <= room:
            room -= size
            state.digest = _digest(value)
            # Objects inside of a generator or a function may change unseen.
            whole = type(value) not in (GeneratorType, FunctionType) or is_constant(value)
        else:
            whole = is_constant(value)
        if not whole:
            partial.add(name)
    return states, partial


def _digest(value: Any) -> Any:
    try:
        return digest(value)
    except Exception:
        return None  # it cannot be read


def _is_changed(state: _State, value: Any) -> bool:
    if state.copy is not MISSING:
        return differs(state.copy, value)
    return state.digest is not None and _digest(value) != state.digest


def _is_same(known: _State, state: _State) -> bool:
    if known.print != state.print or known.digest != state.digest:
        return False
    if known.copy is MISSING or state.copy is MISSING:
        return True
    return not differs(known.copy, state.copy)


def _prune(states: Iterable[_State]) -> None:
    """Let go of the originals that belong to variables which did not change."""
    by_moment: dict[int, list[_State]] = {}
    for state in states:
        by_moment.setdefault(id(state.origins), []).append(state)
    for together in by_moment.values():
        kept = reached([state.copy for state in together], together[0].origins)
        for state in together:
            state.origins = kept


_NAME = re.compile(r"[^\W\d]\w*")


def _named(code: Iterable[str], names: Collection[str]) -> list[str]:
    """Those of the names that stand in the code."""
    words = {word for text in code for word in _NAME.findall(text)}
    return sorted(words.intersection(names))


def _obstacle(name: str, change: _Change, current: Any) -> str:
    target, left = change.before, change.after
    if target.copy is MISSING and not target.is_unchanged(target.value):
        return IN_PLACE
    if not left.is_of(current):
        return SINCE_IN_PLACE if process_state.is_named(name) else SINCE
    return "" if left.is_unchanged(current) else SINCE_IN_PLACE


def _print_of(name: str, value: Any) -> Any:
    return None if process_state.is_named(name) else _print(value)


def _print(value: Any) -> Any:
    return None if value is MISSING else snapshot({"": value}).fingerprints[""]


def names(results: Iterable[Rebound], *outcomes: Outcome) -> list[str]:
    """The names with one of these outcomes."""
    return [each.name for each in results if each.outcome in outcomes]
