"""The registry of describers, found by a type's module and name along its ancestors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.arrays import DESCRIBERS as ARRAYS
from jupyter_agent.kernel.describe.callables import DESCRIBERS as CALLABLES
from jupyter_agent.kernel.describe.containers import DESCRIBERS as CONTAINERS
from jupyter_agent.kernel.describe.datafiles import DESCRIBERS as DATA_FILES
from jupyter_agent.kernel.describe.figures import DESCRIBERS as FIGURES
from jupyter_agent.kernel.describe.frames import DESCRIBERS as FRAMES
from jupyter_agent.kernel.describe.introspection import (
    MISSING,
    ancestry,
    class_attribute,
    is_enum,
    module_name,
    type_name,
)
from jupyter_agent.kernel.describe.lazy import DESCRIBERS as LAZY
from jupyter_agent.kernel.describe.models import DESCRIBERS as MODELS
from jupyter_agent.kernel.describe.objects import DESCRIBERS as OBJECTS
from jupyter_agent.kernel.describe.objects import enum_member
from jupyter_agent.kernel.describe.parts import Describer, Level, Listing, Part
from jupyter_agent.kernel.describe.values import DESCRIBERS as VALUES

_BUILT_IN: dict[str, Describer] = {
    **VALUES,
    **CONTAINERS,
    **OBJECTS,
    **CALLABLES,
    **FRAMES,
    **ARRAYS,
    **MODELS,
    **FIGURES,
    **LAZY,
    **DATA_FILES,
}
_OWN_METHODS = ("__llm__", "_repr_llm_")
_MAX_PARTS = 100
_MAX_TEXT = 50_000

_by_name: dict[str, Describer] = {}
# Compared by identity: a metaclass may define `__eq__` and `__hash__`.
_by_class: list[tuple[type, Describer]] = []


def register_describer(target: type | str, function: Describer) -> None:
    """Describe the objects of a class, and of its subclasses, by a function of yours.

    `target` is the class, or its name as "module.Class", which imports nothing: the module is the
    one that defines the class or any package above it ("pandas.DataFrame"). The function is called
    with the value and the level ("schema", "sample" or "full"; the level "names" never asks). It
    gives the text, whose first line is the headline that a digest shows, or the lines one by one,
    for instance as a generator, among them `Listing` and `Nested` for what may be cut or holds
    other values. It must keep to the level: what it gives at "schema" is sent as it is. If it
    fails, or gives no text, the built-in describer takes its place. The last one that was
    registered for a class is the one that counts.
    """
    if isinstance(target, str):
        _by_name[target] = function
    else:
        _by_class.insert(0, (target, function))


def parts_of(value: object, level: Level, most: int = _MAX_PARTS) -> list[Part]:
    """The parts of the value's description, the headline first; never empty, never an error."""
    for describer in _describers_of(type(value)):
        parts = _collected(describer, value, level, most)
        if parts and type(parts[0]) is str and parts[0].strip():
            return parts
    return [type_name(type(value))]


def describer_of(cls: type) -> Describer:
    """The most specific describer for objects of the class."""
    return next(each for each in _describers_of(cls) if each is not _own_text)


def _describers_of(cls: type) -> Iterator[Describer]:
    """The describers for objects of the class, the most specific one first."""
    yield _own_text
    if is_enum(cls):
        yield from _named(cls)
        yield enum_member
    for ancestor in ancestry(cls):
        yield from _named(ancestor)


def _named(cls: type) -> Iterator[Describer]:
    for registered, describer in _by_class:
        if registered is cls:
            yield describer
            break
    full_names = list(_full_names(cls))
    for table in (_by_name, _BUILT_IN):
        yield from (table[full_name] for full_name in full_names if full_name in table)


def _full_names(cls: type) -> Iterator[str]:
    """The name of a class in the module that defines it, then in each package above that."""
    module = module_name(cls)
    while module:
        yield f"{module}.{type_name(cls)}"
        module = module.rpartition(".")[0]


def _collected(describer: Describer, value: object, level: Level, most: int) -> list[Part]:
    """The parts that the describer gives until it ends or fails."""
    parts: list[Part] = []
    try:
        made = describer(value, level)
        for part in _text_parts(made) if issubclass(type(made), str) else islice(made, most):
            if type(part) is not str and issubclass(type(part), str):
                part = str.__str__(part)  # noqa: PLW2901
            parts.append(part)
    except KeyboardInterrupt:
        raise
    except BaseException:
        # Whatever the object's own code does wrong, what is known of it by then stays.
        return parts
    return parts


def _text_parts(made: str | Iterable[Part]) -> Iterator[Part]:
    """A text as its first line and a listing of the others, which a page may cut."""
    text = str.__str__(made)
    lines = text[:_MAX_TEXT].expandtabs().strip("\n").split("\n")
    yield lines[0].strip()
    if len(lines) > 1:
        total = len(lines) - 1 + text.count("\n", _MAX_TEXT)
        yield Listing("lines", total, [line.rstrip() for line in lines[1:]], titled=False)


def _own_text(value: object, level: Level) -> str:
    """The text of the object's own `__llm__` or `_repr_llm_`; empty if it has none.

    The method is looked up on the class: an object that answers to every name has none. Its text is
    trusted at each level, "schema" too: the method's author decides what a model may read.
    """
    cls = type(value)
    for method in _OWN_METHODS:
        function = class_attribute(cls, method)
        if function is MISSING or inspect.iscoroutinefunction(function):
            continue
        text = _called(function, value, cls, level)
        if text:
            return text
    return ""


def _called(function: Any, value: object, cls: type, level: Level) -> str:
    try:
        bound = function.__get__(value, cls) if hasattr(function, "__get__") else function
        result = bound(level) if _takes_argument(bound) else bound()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""
    if inspect.iscoroutine(result):
        result.close()
    return str.__str__(result) if issubclass(type(result), str) else ""


def _takes_argument(bound: Any) -> bool:
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(p.kind in positional for p in inspect.signature(bound).parameters.values())
