"""Scratch: a copy of the person's names in which code binds without touching theirs.

Names are read as the person has them now; what scratch code binds or deletes stays in scratch until
the turn ends. Objects are shared, so a change in place reaches the person's object. Functions of
the person's see their own globals, and `global` in them writes there; so does `import __main__`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from jupyter_agent.kernel.changes import Snapshot, changes, snapshot
from jupyter_agent.kernel.marks import is_marked
from jupyter_agent.kernel.shadow import swapped

_MISSING = object()
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Adopted:
    """Names that left scratch.

    Attributes:
        kept: The names that are the person's now.
        left: The others, each with the reason.
    """

    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Scratch:
    """The scratch namespace of one turn in one shell.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._person: dict[str, Any] = shell.user_ns
        self._space: dict[str, Any] = {}
        self._base: dict[str, Any] = {}

    def forget(self) -> None:
        """Discard the scratch names, as at the end of a turn."""
        # A new dict: functions that were stored in a kept object go on reading the old one.
        self._space, self._base = {}, {}

    def names(self) -> Mapping[str, Any]:
        """The names as scratch code sees them now."""
        self._refresh()
        return self._space

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the agent's code in this context run in scratch; other code keeps its namespace.

        IPython and its magics take the namespace from two attributes of the shell. They become
        properties of its class meanwhile, which tell by the caller's mark. Setting the attributes
        on the shell instead would give scratch to the person's code, too, which may run at the same
        time (in a subshell, in a thread, or while the agent's code awaits something): what it binds
        would be lost. The scratch names are a copy, since the interpreter and C code pass by the
        methods of a dict that looks names up in another one.
        """
        shell, space = self._shell, self.names()
        kind = type(shell)
        globals_of = kind.user_global_ns.fget
        theirs = getattr(kind, "user_ns", None)  # newer shells have a property of their own

        def local(each: Any) -> Any:
            if each is shell and is_marked():
                return space
            return theirs.fget(each) if theirs else vars(each)["user_ns"]

        def set_local(each: Any, value: Any) -> None:
            if theirs:
                theirs.fset(each, value)
            else:
                vars(each)["user_ns"] = value

        def all_(each: Any) -> Any:
            return space if each is shell and is_marked() else globals_of(each)

        with (
            swapped(kind, "user_ns", property(local, set_local)),
            swapped(kind, "user_global_ns", property(all_)),
        ):
            yield

    def shadows(self) -> tuple[str, ...]:
        """The person's names that mean something else in scratch, sorted."""
        return tuple(
            sorted(
                name
                for name, value in self._base.items()
                if not name.startswith("_") and self._space.get(name, _MISSING) is not value
            )
        )

    def adopt(self, names: list[str]) -> Adopted:
        """Bind scratch names in the person's namespace, to the same objects.

        Functions and classes that scratch code defined are left: their globals are scratch's.
        """
        kept, left = [], []
        for name in dict.fromkeys(names):
            value = self._space.get(name, _MISSING)
            if value is _MISSING or self._base.get(name, _MISSING) is value:
                left.append(f"{name} (scratch code has not bound it)")
            elif self._is_definition(value):
                left.append(f"{name} (a definition: make it without scratch)")
            else:
                self._person[name] = self._base[name] = value
                kept.append(name)
        return Adopted(tuple(kept), tuple(left))

    def looked_at(self, code: str) -> Snapshot:
        """A snapshot of the person's objects that code mentions, for `mutated`."""
        hidden = self._shell.user_ns_hidden
        words = [w for w in dict.fromkeys(_WORD.findall(code)) if w in self._person]
        return snapshot({w: self._person[w] for w in words if hidden.get(w) is not self._person[w]})

    def mutated(self, before: Snapshot, is_same: Callable[[str, object], bool]) -> tuple[str, ...]:
        """The names of a snapshot whose objects were changed in place since, as far as seen.

        Args:
            before: The earlier snapshot.
            is_same: Whether a variable is known to have its content in spite of the fingerprint.
        """
        found = changes(before, snapshot(before.values))
        names = [change.name for change in found if change.kind == "mutated"]
        return tuple(name for name in names if not is_same(name, before.values[name]))

    def _is_definition(self, value: object) -> bool:
        kind = type(value)
        if issubclass(kind, FunctionType):
            return object.__getattribute__(value, "__globals__") is self._space
        return issubclass(kind, type) and vars(value).get("__module__") == "__main__"

    def _refresh(self) -> None:
        """Take over what the person's namespace has now, except for names that scratch changed."""
        space, base, person = self._space, self._base, self._person
        for name in base.keys() - person.keys():
            if space.get(name, _MISSING) is base[name]:
                del space[name]
        for name, value in list(person.items()):
            if space.get(name, _MISSING) is base.get(name, _MISSING):
                space[name] = value
        self._base = dict(person)


def scratch_hint(error: BaseException) -> str:
    """What to do about an error that the same code has in scratch alone; empty for any other."""
    if type(error).__name__ != "PicklingError":
        return ""
    return "Scratch definitions cannot be pickled: define and use them without scratch."
