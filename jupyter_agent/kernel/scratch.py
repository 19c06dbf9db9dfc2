"""Scratch: a copy of the person's names in which code binds without touching theirs.

Names are read as the person has them now; what scratch code binds or deletes stays in scratch until
the turn ends. Objects are shared, so a change in place reaches the person's object. Functions of
the person's see their own globals, and `global` in them writes there; so does `import __main__`.
Functions that leave scratch see the person's globals from then on.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from jupyter_agent.kernel.changes import Snapshot, changes, snapshot
from jupyter_agent.kernel.marks import is_marked
from jupyter_agent.kernel.shadow import swapped

_MISSING = object()
_WORD = re.compile(r"[^\W\d]\w*")
_GLOBAL = frozenset(
    {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
)
"""The instructions that look a name up among the globals."""
_OF_FUNCTION = ("__kwdefaults__", "__annotations__", "__doc__", "__module__", "__qualname__")
_CLASS = "a class: its methods see the names of scratch"
_WRAPPER = "a function that holds another one, which sees the names of scratch"


@dataclass(frozen=True, slots=True)
class Adopted:
    """Names that left scratch.

    Attributes:
        kept: The names that are the person's now.
        left: The others, each with the reason.
    """

    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(slots=True)
class Overlay:
    """The names of one scratch.

    Attributes:
        space: The names as its code sees them.
        base: The person's names as scratch last took them over. What differs is scratch's own.
        wanted: The names that are to leave scratch if its attempt wins the vote.
    """

    space: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)
    wanted: dict[str, None] = field(default_factory=dict)

    def owns(self, name: str) -> bool:
        """True if scratch code has bound or deleted a name."""
        return self.space.get(name, _MISSING) is not self.base.get(name, _MISSING)

    def take(self, name: str, value: object) -> None:
        """Bind a name in scratch alone, even to the object that the person had."""
        self.space[name] = value
        self.base.pop(name, None)


class Scratch:
    """The scratch namespace of one turn in one shell.

    Args:
        shell: The IPython shell.

    Attributes:
        holds: True while attempts are compared: all of the agent's code runs in scratch, and
            what is to leave it is only noted.
    """

    def __init__(self, shell: Any) -> None:
        self.holds = False
        self._shell = shell
        self._person: dict[str, Any] = shell.user_ns
        self._own = Overlay()

    def forget(self) -> None:
        """Discard the scratch names, as at the end of a turn."""
        # New dicts: functions that were stored in a kept object go on reading the old ones.
        self._own, self.holds = Overlay(), False

    def set_aside(self) -> Overlay:
        """Begin anew; returns the names so far, for `adopt`."""
        aside, self._own = self._own, Overlay()
        return aside

    @contextmanager
    def using(self, overlay: Overlay) -> Iterator[None]:
        """Let scratch be these names in this context: those of one delegate among several."""
        before, self._own = self._own, overlay
        try:
            yield
        finally:
            self._own = before

    def names(self) -> Mapping[str, Any]:
        """The names as scratch code sees them now."""
        self._refresh()
        return self._own.space

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the names that code binds in this context: they are to leave scratch."""
        before = dict(self.names())
        yield
        own = self._own
        own.wanted |= {
            name: None
            for name, value in self.names().items()
            if before.get(name, _MISSING) is not value and not name.startswith("_")
        }

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
            if each is shell and is_marked():
                raise AttributeError("Scratch code cannot exchange the namespace: bind names.")
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
                name for name in self._own.base if not name.startswith("_") and self._own.owns(name)
            )
        )

    def adopt(self, names: Iterable[str], overlay: Overlay | None = None) -> Adopted:
        """Bind scratch names in the person's namespace, to the same objects.

        A function that scratch code defined is bound as a copy that sees the person's globals, if
        each global name that it uses means the same there. Classes are left: their methods see
        the names of scratch.

        Args:
            names: The names. While `holds` is True they are only noted.
            overlay: What `set_aside` returned; None for the scratch of now.
        """
        own = overlay or self._own
        if self.holds and overlay is None:
            own.wanted |= dict.fromkeys(names)
            return Adopted()
        left: dict[str, str] = {}
        functions: dict[str, FunctionType] = {}
        kept: dict[str, object] = {}
        for name in dict.fromkeys(names):
            value = own.space.get(name, _MISSING)
            if value is _MISSING or not own.owns(name):
                left[name] = "scratch code has not bound it"
            elif issubclass(type(value), type) and vars(value).get("__module__") == "__main__":
                left[name] = _CLASS
            elif type(value) is FunctionType and value.__globals__ is own.space:
                functions[name] = value
            else:
                kept[name] = own.base[name] = value
        while reasons := {name: why for name in functions if (why := _tied(name, functions, own))}:
            left |= reasons
            functions = {name: each for name, each in functions.items() if name not in reasons}
        for name, function in functions.items():
            kept[name] = own.space[name] = own.base[name] = _with_globals(function, self._person)
        self._person.update(kept)
        return Adopted(tuple(kept), tuple(f"{name} ({why})" for name, why in left.items()))

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

    def _refresh(self) -> None:
        """Take over what the person's namespace has now, except for names that scratch changed."""
        own, person = self._own, self._person
        for name in own.base.keys() - person.keys():
            if not own.owns(name):
                del own.space[name]
        for name, value in list(person.items()):
            if not own.owns(name):
                own.space[name] = value
        own.base = dict(person)


def _tied(name: str, functions: Mapping[str, FunctionType], own: Overlay) -> str:
    """Why a function cannot leave scratch together with the others; empty if it can."""
    function = functions[name]
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # empty
        if type(held) is FunctionType and held.__globals__ is own.space:
            return _WRAPPER
    for used in _global_names(function.__code__):
        if own.owns(used) and used not in functions:
            return f"a function that uses `{used}`, which is another object outside of scratch"
    return ""


def _global_names(code: CodeType) -> Iterator[str]:
    """The names that code, and the functions in it, look up among the globals."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            yield instruction.argval
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _global_names(part)


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """A copy of a function that sees these names."""
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    for attribute in _OF_FUNCTION:
        setattr(made, attribute, getattr(function, attribute))
    vars(made).update(vars(function))
    return made


def scratch_hint(error: BaseException) -> str:
    """What to do about an error that the same code has in scratch alone; empty for any other."""
    if type(error).__name__ != "PicklingError":
        return ""
    return "Scratch definitions cannot be pickled: define and use them without scratch."
