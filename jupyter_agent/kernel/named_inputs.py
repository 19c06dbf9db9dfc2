"""The person's variables that a task only reads: found where the agent's code spoils them.

A look after each execution compares the identities of a few names; only the content of those in the
task is compared, by the fingerprint of `changes`, which can miss a change deep inside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from jupyter_agent.core.asked_changes import INPUTS, Asked, asked_change
from jupyter_agent.kernel.changes import Snapshot, changes, snapshot
from jupyter_agent.source.cell import parse_cell

_MENDED = (
    "`{0}` is the person's {1} again: the code had bound something else to it. Compute from it, "
    "and give a new value a name of its own."
)
_REBOUND = (
    "`{0}` is no longer the person's {1}, which is still needed. Unless the task asks for the "
    "change, give the new value a name of its own, and bind `{0}` to {2}['{0}'] again."
)
_MUTATED = (
    "`{0}` was changed in place, though the task only reads it: the person still needs it as it "
    "was. Work on a copy."
)
_MISSING = object()
_WORD = re.compile(r"[^\W\d]\w*")
_TABLES = frozenset({"pandas", "polars", "numpy", "geopandas", "xarray", "pyarrow"})
_DATA_IN_TASK = re.compile(
    r"[\[{]|\b(?:example|sample|dummy|synthetic|random|made[- ]up)\b"
    r"|\b(?:simulat|invent|generat)\w*",
    re.IGNORECASE,
)
_DRAWS = re.compile(r"\b(?:random|rand|randn|randint|default_rng|normal|choice|arange|linspace)\b")


@dataclass(frozen=True, slots=True)
class Spoilt:
    """What an execution did to the inputs.

    Attributes:
        lines: A line for the model about each of them.
        mended: The names that are bound to the person's object again.
        rebound: The names that are not, whose objects are in `INPUTS`.
        mutated: The names whose objects were changed in place.
    """

    lines: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    rebound: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()


class NamedInputs:
    """Watches the inputs of one turn.

    Args:
        namespace: The kernel's variables.
        task: The task in the person's words.
        before: The person's variables when the turn began.
        mends: Whether a name that was rebound is bound to its earlier object again, once: for weak
            models. They are also told where it is not sure that the task asks for the change.
        is_same: Whether the object of a name is known to have the content of before the turn, in
            spite of its fingerprint.

    Attributes:
        mended: The names that were bound again, in order.
    """

    def __init__(
        self,
        namespace: MutableMapping[str, Any],
        task: str,
        before: Snapshot,
        mends: bool,
        is_same: Callable[[str, object], bool] = lambda name, value: False,
    ) -> None:
        self.mended: list[str] = []
        self._namespace = namespace
        self._mends = mends
        self._is_same = is_same
        self._kept: dict[str, object] = {}
        self._asked: dict[str, Asked] = {
            word: asked_change(task, word)
            for word in dict.fromkeys(_WORD.findall(task))
            if word in before.values
        }
        watched = ("input", "unsure") if mends else ("input",)
        named = {name for name, asked in self._asked.items() if asked in watched}
        self._prints = {name: before.fingerprints[name] for name in named}
        if not _DATA_IN_TASK.search(task):
            named |= {
                name
                for name, value in before.values.items()
                if self._asked.get(name) != "change" and _is_table(value)
            }
        self._objects = {name: before.values[name] for name in named}

    def after(self, code: str) -> Spoilt:
        """Look after an execution. Each name is reported once.

        Args:
            code: The code that ran.
        """
        lines: list[str] = []
        mended: list[str] = []
        rebound: list[str] = []
        for name, is_invented in self._rebound(code):
            was = self._objects.pop(name)
            self._prints.pop(name, None)
            if self._mends and (is_invented or self._asked.get(name) == "input"):
                self._namespace[name] = was
                mended.append(name)
                lines.append(_MENDED.format(name, type(was).__name__))
            else:
                self._keep(name, was)
                rebound.append(name)
                lines.append(_REBOUND.format(name, type(was).__name__, INPUTS))
        mutated = self._mutated()
        for name in mutated:
            del self._prints[name]
            lines.append(_MUTATED.format(name))
        self.mended += mended
        return Spoilt(tuple(lines), tuple(mended), tuple(rebound), tuple(mutated))

    def protected(self, code: str) -> frozenset[str]:
        """The names that code has no business to bind: what it bound in scratch stays there.

        Args:
            code: The code that ran in scratch.
        """
        invented = set(_invented(code))
        return frozenset(
            name for name in self._objects if name in invented or self._asked.get(name) == "input"
        )

    def close(self) -> None:
        """End the turn: free the objects, and take `INPUTS` out of the kernel."""
        if self._namespace.get(INPUTS) is self._kept:
            del self._namespace[INPUTS]
        self._objects, self._prints, self._kept = {}, {}, {}

    def _keep(self, name: str, was: object) -> None:
        self._kept[name] = was
        self._namespace[INPUTS] = self._kept

    def _rebound(self, code: str) -> list[tuple[str, bool]]:
        """The names that the code rebound, each with whether it is to data of its own invention."""
        space = self._namespace
        found = [n for n, was in self._objects.items() if space.get(n, _MISSING) is not was]
        if not found:
            return []
        words = set(_WORD.findall(code))  # the person may rebind a name meanwhile, in another cell
        invented = set(_invented(code))
        return [
            (name, name in invented)
            for name in found
            if name in words and (name in self._prints or name in invented)
        ]

    def _mutated(self) -> list[str]:
        values = {name: self._objects[name] for name in self._prints}
        found = changes(Snapshot(values, self._prints), snapshot(values)) if values else ()
        return [each.name for each in found if not self._is_same(each.name, values[each.name])]


def _is_table(value: object) -> bool:
    """True for a data frame, a series or an array, by its class alone."""
    module: object = type(value).__module__
    return (
        isinstance(module, str)
        and module.partition(".")[0] in _TABLES
        and any("shape" in vars(cls) for cls in type(value).__mro__)
    )


def _invented(code: str) -> Iterator[str]:
    """The names that code binds to data that it spells out itself, without having read them."""
    found = parse_cell(code)
    read: set[str] = set()
    for statement in found[1].body if found else ():
        here = {
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name not in read | here and _spells_data_out(value):
                    yield name
        read |= here


def _spells_data_out(value: ast.expr) -> bool:
    """True if an expression holds at least four constants in a list or dict, or draws numbers."""
    if _DRAWS.search(ast.unparse(value)):
        return True
    literals = [node for node in ast.walk(value) if isinstance(node, ast.Dict | ast.List)]
    constants = {
        id(part)
        for literal in literals
        for part in ast.walk(literal)
        if isinstance(part, ast.Constant)
    }
    return len(constants) >= 4
