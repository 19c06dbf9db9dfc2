"""Undo of variables: names are bound again to the objects that they had before a turn.

An object that was changed in place is replaced by its copy from before the turn, if one was made;
otherwise it stays as it is, and is named. The objects that a turn replaced stay in memory as long
as it can be undone. Environment variables, the working folder and the state of random generators
are restored, too.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, GeneratorType, ModuleType
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
    is_like,
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
    """What an undo did with one name.

    Attributes:
        name: The variable, or a part of the process state.
        outcome: `bound` to the object from before the turn; `copied`: bound to a copy of it, since
            the turn changed the object itself; `removed`; left alone in a `conflict` with the
            person's changes, or as `not_restorable`.
        why: Why it was left alone.
    """

    name: str
    outcome: Outcome
    why: str = ""


@dataclass
class _State:
    """The value of a name at one moment.

    Two consecutive turns share the state between them: an undo of the second that binds a copy
    makes the copy the `value` of that state, so that an undo of the first recognizes it.

    Attributes:
        value: The object; MISSING if the name is not bound.
        fingerprint: The object's fingerprint at that moment.
        copy: Its copy from that moment, which is never handed out; MISSING if there is none.
        origins: The originals of the copy and of the copies in it.
        digest: Shows whether an object that is not copied was changed; see `copies.digest`.
    """

    value: Any
    fingerprint: Any = None
    copy: Any = MISSING
    origins: Origins = field(default_factory=dict)
    digest: Any = None

    def is_of(self, value: Any) -> bool:
        """True for the very object, or for an equal string."""
        both_texts = type(self.value) is str and type(value) is str
        return self.value is value or bool(both_texts and self.value == value)

    def is_unchanged(self, value: Any) -> bool:
        """True if the object does not differ from that moment."""
        if _fingerprint(value) != self.fingerprint or (
            self.copy is not MISSING and differs(self.copy, value)
        ):
            return False
        return self.digest is None or digest(value) == self.digest


@dataclass(frozen=True, slots=True)
class _Change:
    """What a turn or an undo did to one name."""

    before: _State
    after: _State


@dataclass
class _RunningTurn:
    """A turn that is running.

    Attributes:
        before: The person's variables when it began.
        others: The other names of the kernel's namespace.
        process: The process state.
        states: The states of the person's variables.
        partial: Variables with something inside that may change unseen.
    """

    before: Snapshot
    others: Mapping[str, object]
    process: Mapping[str, Any]
    states: dict[str, _State] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Done:
    """What is remembered of a turn or an undo.

    Attributes:
        changes: What it did to each name.
        unseen: Variables that its code uses and that may have changed unseen, with their types.
    """

    changes: Mapping[str, _Change]
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AsBefore:
    """The person's variables as they were when a running turn began, as far as they can be had.

    Attributes:
        objects: Those that were rebound, deleted or changed in place: the objects, or copies of
            what they were.
        lost: The names of those that changed in place and have no copy.
        unseen: The names of those that the turn's code uses and that may have changed unseen.
    """

    objects: Mapping[str, object]
    lost: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class Bindings:
    """Remembers the variables from before the last turns of one kernel, and restores them.

    Args:
        turns: How many turns to remember.
    """

    def __init__(self, turns: int = KEPT_TURNS) -> None:
        self._turns = turns
        self._running: dict[str, _RunningTurn] = {}
        self._done: dict[str, _Done] = {}
        self._undone: dict[str, _Done] = {}
        self._now: dict[str, _State] = {}
        self._restorer = Restorer()

    def begin(self, turn: str, before: Snapshot, namespace: Mapping[str, object]) -> None:
        """Begin a turn: copy the variables.

        Args:
            turn: The id of its checkpoint.
            before: The person's variables.
            namespace: The kernel's whole namespace, which has modules, too.
        """
        self._running.clear()
        if not self._turns:
            return
        others = {name: value for name, value in namespace.items() if name not in before.values}
        running = _RunningTurn(before, others, process_state.take())
        running.states, running.partial = _states(before)
        self._running[turn] = running

    def is_unchanged(self, turn: str, name: str, value: object) -> bool:
        """True if an object surely has the content of the beginning of a running turn.

        False if it has not, or if neither a copy nor a digest was made of it.
        """
        running = self._running.get(turn)
        state = running.states.get(name) if running else None
        if state is None or state.value is not value:
            return False
        if state.copy is not MISSING:
            return is_like(state.copy, value)
        return state.digest is not None and _digest(value) == state.digest

    def end(
        self,
        turn: str,
        after: Snapshot,
        namespace: Mapping[str, object],
        code: Iterable[str] = (),
    ) -> None:
        """End a turn: remember what it changed, and free the other copies.

        Args:
            turn: Its id.
            after: The person's variables.
            namespace: The kernel's whole namespace.
            code: The code that ran, for `unseen`.
        """
        running = self._running.pop(turn, None)
        if running is None:
            return
        kinds = {change.name: change.kind for change in changes(running.before, after)}
        for name, state in running.states.items():
            if name not in kinds and _is_changed(state, after.values[name]):
                kinds[name] = "mutated"
        left = {name: namespace.get(name, MISSING) for name in kinds}
        afters, _ = _states(snapshot({n: v for n, v in left.items() if v is not MISSING}))
        found = {
            name: _Change(self._before(name, running), afters.get(name, _State(MISSING)))
            for name in kinds
        }
        found |= self._process_changes(running.process, process_state.take())
        _prune([change.before for change in found.values()])
        unseen = _reached(code, running.partial - found.keys(), running.before.values)
        shown = tuple(f"{name} ({type(running.before.values[name]).__name__})" for name in unseen)
        self._now |= {name: change.after for name, change in found.items()}
        self._remember(self._done, turn, _Done(found, shown))

    def as_before(self, turn: str, after: Snapshot, code: Iterable[str] = ()) -> AsBefore:
        """The variables of the beginning of a running turn that are not so any more; nothing is
        bound.

        Args:
            turn: The turn.
            after: The person's variables now.
            code: The code that ran, for `unseen`.
        """
        running = self._running.get(turn)
        if running is None:
            return AsBefore({})
        found: dict[str, object] = {}
        changed: list[str] = []
        for name, state in running.states.items():
            if not state.is_unchanged(state.value):
                changed.append(name)
            if after.values.get(name, MISSING) is not state.value:
                found[name] = state.value
        copied = [name for name in changed if running.states[name].copy is not MISSING]
        if copied:
            states = [running.states[name] for name in copied]
            made = Restorer().restore([state.copy for state in states], states[0].origins)
            found |= dict(zip(copied, made, strict=True))
        lost = tuple(name for name in changed if name not in copied)
        unseen = _reached(code, running.partial.difference(changed), running.before.values)
        return AsBefore(found, lost, tuple(unseen))

    def put_back(
        self,
        turn: str,
        after: Snapshot,
        namespace: MutableMapping[str, Any],
        code: Iterable[str] = (),
    ) -> tuple[Rebound, ...]:
        """End a turn, and bind all names as they were when it began.

        Args:
            turn: Its id.
            after: The person's variables.
            namespace: The kernel's whole namespace, which is changed.
            code: The code that ran.

        Returns:
            What was done with each variable that the turn changed. What could not be put back is
            all that is remembered of the turn.
        """
        running = self._running.get(turn)
        if running is None:
            return ()
        self.end(turn, after, namespace, code)
        undo = f"{turn}-back"
        results = self.rewind([turn], undo, namespace)
        known = {**running.others, **running.before.values}
        for name in [*namespace.keys() - known.keys() - after.values.keys()]:
            del namespace[name]
        for name, value in running.others.items():
            if namespace.get(name, MISSING) is not value:  # modules, and names with an underscore
                namespace[name] = value
        left = set(names(results, "conflict", "not_restorable"))
        done = self._done[turn]
        kept = {name: change for name, change in done.changes.items() if name in left}
        self._done[turn] = _Done(kept, done.unseen)
        del self._undone[undo]
        return results

    def rewind(
        self, turns: Sequence[str], undo: str, namespace: MutableMapping[str, Any]
    ) -> tuple[Rebound, ...]:
        """Bind the names as they were before the turns.

        Args:
            turns: Ids of turns, newest first; or the id of an undo to take back.
            undo: The id of this undo, by which it can be taken back itself.
            namespace: The kernel's whole namespace, which is changed.

        Returns:
            What was done with each name that is not as before already.
        """
        wanted, broken = self._wanted(turns)
        kernel = _Names(namespace)
        results, going = [], {}
        for name, change in wanted.items():
            current = kernel.get(name)
            if name == process_state.FOLDER and current is MISSING:
                current = change.after.value  # undoing the turn's files has just removed it
            if change.before.is_of(current) and change.before.is_unchanged(current):
                continue
            if why := BETWEEN if name in broken else _obstacle(name, change, current):
                outcome: Outcome = "not_restorable" if why == IN_PLACE else "conflict"
                results.append(Rebound(name, outcome, why))
            else:
                going[name] = change
        made = {}
        for name, value in self._targets(going).items():
            rebound = kernel.bind(name, value, going[name].before)
            results.append(rebound)
            if rebound.outcome != "not_restorable":
                state = going[name].before
                state.value, state.fingerprint = value, _fingerprint_of(name, value)
                made[name] = _Change(going[name].after, state)
        self._now |= {name: change.after for name, change in made.items()}
        self._remember(self._undone, undo, _Done(made))
        order = list(wanted)
        return tuple(sorted(results, key=lambda each: order.index(each.name)))

    def knows(self, turn: str) -> bool:
        """True if the turn or the undo is remembered."""
        return turn in self._done or turn in self._undone

    def changed(self, turn: str) -> tuple[str, ...]:
        """The names that a turn or an undo created, rebound, changed in place or deleted."""
        return tuple(self._of(turn).changes)

    def mutated(self, turn: str) -> tuple[str, ...]:
        """The variables that a turn changed in place, as far as that can be seen."""
        found = self._of(turn).changes.items()
        return tuple(
            name
            for name, change in found
            if change.before.value is change.after.value and not process_state.is_named(name)
        )

    def lost(self, turn: str) -> tuple[str, ...]:
        """The variables that a turn changed in place and that have no copy."""
        found = self._of(turn).changes
        return tuple(name for name in self.mutated(turn) if found[name].before.copy is MISSING)

    def unseen(self, turn: str) -> tuple[str, ...]:
        """Variables that a turn's code uses and that may have changed unseen, with their types."""
        return self._of(turn).unseen

    def drop(self, turn: str) -> None:
        """Forget one turn."""
        self._running.pop(turn, None)
        self._done.pop(turn, None)

    def forget(self) -> None:
        """Forget all turns, and free all objects."""
        for each in (self._running, self._done, self._undone, self._now):
            each.clear()
        self._restorer = Restorer()

    def _of(self, turn: str) -> _Done:
        return self._done.get(turn) or self._undone.get(turn) or _Done({})

    def _before(self, name: str, running: _RunningTurn) -> _State:
        """The state of a name when the turn began: the last turn's, if nothing changed since."""
        known = self._now.get(name)
        if name not in running.states:
            had = running.others.get(name, MISSING)
            same = known is not None and known.value is had
            return known if known and same else _State(had, _fingerprint(had))
        state = running.states[name]
        if known is None or not known.is_of(state.value) or not _is_same(known, state):
            return state
        # The new copies: all variables of one moment must share objects as their originals do.
        known.fingerprint, known.digest = state.fingerprint, state.digest
        known.copy, known.origins = state.copy, state.origins
        return known

    def _process_changes(
        self, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, _Change]:
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
        """The change to take back for each name; and the names that changed between the turns."""
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
        """The object to bind each name to. Copies of one moment are restored together."""
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

    def _remember(self, done: dict[str, _Done], record: str, found: _Done) -> None:
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


class _Names:
    """The kernel's namespace and the process state in one."""

    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        self._namespace = namespace
        self._process = process_state.take()

    def get(self, name: str) -> Any:
        there = self._process if process_state.is_named(name) else self._namespace
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
    """The states of variables now, and the names of those that may change unseen."""
    copier, room = Copier(), DIGEST_BYTES
    states, partial = {}, set()
    # The newest first, since the limits on copies are shared, and turns use new variables most.
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


def without_copies(taken: Snapshot) -> tuple[str, ...]:
    """The variables that can change inside, and of which no whole copy is made now."""
    states, partial = _states(taken)
    return tuple(
        name
        for name in taken.values
        if (name in partial or states[name].copy is MISSING) and not is_constant(taken.values[name])
    )


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
    if known.fingerprint != state.fingerprint or known.digest != state.digest:
        return False
    if known.copy is MISSING or state.copy is MISSING:
        return True
    return not differs(known.copy, state.copy)


def _prune(states: Iterable[_State]) -> None:
    """Free the originals that belong only to variables that did not change."""
    by_moment: dict[int, list[_State]] = {}
    for state in states:
        by_moment.setdefault(id(state.origins), []).append(state)
    for together in by_moment.values():
        kept = reached([state.copy for state in together], together[0].origins)
        for state in together:
            state.origins = kept


_NAME = re.compile(r"[^\W\d]\w*")
_MOST_INSIDE = 5_000
"""Objects inside of the used ones that are looked at."""
_WHOLE_NAMESPACE = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "gc", "get_ipython", "user_ns", "__main__"}
)
"""Names by which code reaches variables that it does not name."""


def _reached(
    code: Iterable[str], names: Collection[str], values: Mapping[str, object]
) -> list[str]:
    """The names that code may use, sorted.

    These are the names in it, in the person's functions and classes that it uses, and of objects
    inside of what it uses; all names if it looks at the namespace as a whole.

    Args:
        code: The code.
        names: The names in question.
        values: The person's variables.
    """
    words: set[str] = set()
    left = {word for text in code for word in _NAME.findall(text)} if names else set()
    while left:
        words |= left
        if not words.isdisjoint(_WHOLE_NAMESPACE):
            return sorted(names)
        used = [values[word] for word in left if word in values]
        inside = _inside(used)
        left = {word for value in used for word in _words_of(value)}
        left |= {name for name in names if id(values[name]) in inside}
        left -= words
    return sorted(words.intersection(names))


def _inside(values: Sequence[object]) -> frozenset[int]:
    """The ids of what objects hold, up to some depth; what functions and types hold is left out,
    but for a function's closure and its defaults. Runs none of their code.
    """
    seen: dict[int, object] = {}
    left = [*values]
    while left and len(seen) < _MOST_INSIDE:
        value = left.pop()
        if id(value) in seen or isinstance(value, ModuleType | type | CodeType):
            continue
        seen[id(value)] = value
        if type(value) is FunctionType:
            left += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        else:
            left += gc.get_referents(value)
    return frozenset(seen)


def _words_of(value: object) -> Iterator[str]:
    """The names in the code of a function, a class or an object of the person's."""
    yield from _words_of_function(value)
    kind = value if type(value) is type else type(value)
    for cls in kind.__mro__:
        if vars(cls).get("__module__") == "__main__":
            for member in vars(cls).values():
                yield from _words_of_function(member)


def _words_of_function(value: object) -> Iterator[str]:
    if type(value) in (staticmethod, classmethod):
        value = value.__func__  # type: ignore[attr-defined]
    elif type(value) is property:
        value = value.fget
    if type(value) is FunctionType:
        yield from _words_in(value.__code__)


def _words_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if type(each) is CodeType:
            yield from _words_in(each)


def _obstacle(name: str, change: _Change, current: Any) -> str:
    """Why a name cannot go back; empty if it can."""
    target, left = change.before, change.after
    if target.copy is MISSING and not target.is_unchanged(target.value):
        return IN_PLACE
    if not left.is_of(current):
        return SINCE_IN_PLACE if process_state.is_named(name) else SINCE
    return "" if left.is_unchanged(current) else SINCE_IN_PLACE


def _fingerprint_of(name: str, value: Any) -> Any:
    return None if process_state.is_named(name) else _fingerprint(value)


def _fingerprint(value: Any) -> Any:
    return None if value is MISSING else snapshot({"": value}).fingerprints[""]


def names(results: Iterable[Rebound], *outcomes: Outcome) -> list[str]:
    """The names with one of these outcomes."""
    return [each.name for each in results if each.outcome in outcomes]
