"""Reads objects without running any code of their classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import EnumType
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, cast

from jupyter_agent.kernel.describe.parts import name

MISSING = object()

# The descriptors of `type` itself, since a metaclass may replace `__mro__` or `__name__`.
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_module_of = type.__dict__["__module__"].__get__
_dict_of = type.__dict__["__dict__"].__get__

_FIELD_KEYS = 32
_FIELD_LENGTH = 40
_DIGITS = re.compile(r"\d{5}")


def ancestry(cls: type) -> tuple[type, ...]:
    """The class and its base classes, nearest first."""
    return cast("tuple[type, ...]", _mro_of(cls))


def type_name(cls: type) -> str:
    """The class's own name, inert."""
    return name(_name_of(cls))


def module_name(cls: type) -> str:
    """The class's own `__module__`; empty if it has none."""
    try:
        module = _module_of(cls)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


def own_names(cls: type) -> dict[str, Any]:
    """The class's own attributes; calls no descriptor."""
    return {key: value for key, value in _dict_of(cls).items() if type(key) is str}


def class_attribute(cls: type, key: str) -> Any:
    """The attribute of the class or its nearest ancestor, or MISSING."""
    for ancestor in ancestry(cls):
        found = _dict_of(ancestor).get(key, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def attributes(value: object) -> dict[str, Any]:
    """The object's own attributes (its `__dict__` and slots), without properties."""
    cls = type(value)
    found: dict[str, Any] = {}
    holder = class_attribute(cls, "__dict__")
    if type(holder) in (GetSetDescriptorType, MemberDescriptorType):
        held = holder.__get__(value, cls)
        found |= dict.items(held) if issubclass(type(held), dict) else {}
    found.update(_slots(value, cls))
    return {key: held for key, held in found.items() if type(key) is str}


def _slots(value: object, cls: type) -> Iterator[tuple[str, Any]]:
    for ancestor in reversed(ancestry(cls)):
        # The slots of classes that are written in C are their own business.
        if "__slots__" not in _dict_of(ancestor):
            continue
        for key, slot in _dict_of(ancestor).items():
            if type(slot) is MemberDescriptorType and key != "__dict__":
                try:
                    yield key, slot.__get__(value, cls)
                except AttributeError:
                    continue


def is_enum(cls: type) -> bool:
    """True if the class is an enumeration."""
    return issubclass(type(cls), EnumType)


def field_names(mapping: dict[Any, Any]) -> list[str] | None:
    """The keys, if they read as the names of fields; None if they may be data.

    Field names are few, and all of them are identifiers without long numbers in them.
    """
    if not 0 < dict.__len__(mapping) <= _FIELD_KEYS:
        return None
    keys = list(dict.__iter__(mapping))
    return keys if all(type(key) is str and _is_field(key) for key in keys) else None


def _is_field(key: str) -> bool:
    return len(key) <= _FIELD_LENGTH and key.isidentifier() and not _DIGITS.search(key)
