"""What the policy may know of the kernel's names: which are modules, functions, paths, short texts.

Nothing of a person's object is run for it: only exact built-in types are looked into.
"""

from __future__ import annotations

import io
import types
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from jupyter_agent.policy import Known

_LONGEST = 2_000
_CALLABLES = (types.FunctionType, types.BuiltinFunctionType, type, types.MethodType)
_NOBODYS = frozenset({"", "__main__", "builtins"})
_BUFFERS = (io.StringIO, io.BytesIO)


class KnownNames(Mapping[str, Known]):
    """A view of a namespace; a name is looked up when the policy asks for it."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getitem__(self, name: str) -> Known:
        return known(self._namespace[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespace)

    def __len__(self) -> int:
        return len(self._namespace)


def known(value: object) -> Known:
    """What the policy needs of one value."""
    kind = type(value)
    if kind is str:
        text = str(value)
        return Known(text=text) if len(text) <= _LONGEST else Known()
    # Not isinstance(): it asks the object for its `__class__`, which may be code of the person's.
    if issubclass(kind, types.ModuleType):
        names: dict[str, Any] = object.__getattribute__(value, "__dict__")
        return Known(qualified=_text(names.get("__name__")))
    if issubclass(kind, PurePath) and kind.__module__.startswith("pathlib"):
        return Known(qualified=f"pathlib.{kind.__name__}()", text=str(value))
    if kind in _BUFFERS:
        return Known(in_memory=True)
    if issubclass(kind, _CALLABLES):
        module, name = _named(value)
        # What the person or the agent defined in the notebook has no name in any library.
        return Known() if module in _NOBODYS else Known(qualified=f"{module}.{name}")
    module, name = _named(kind)
    return Known() if module in _NOBODYS else Known(qualified=f"{module}.{name}()")


def _named(value: Any) -> tuple[str, str]:
    if issubclass(type(value), type):
        # A metaclass may have its own way to look attributes up.
        found = (type.__getattribute__(value, name) for name in ("__module__", "__qualname__"))
        module, name = map(_text, found)
        return module, name
    owner = getattr(value, "__self__", None) if type(value) is types.BuiltinFunctionType else None
    module = owner.__name__ if type(owner) is types.ModuleType else value.__module__
    return _text(module), _text(getattr(value, "__qualname__", ""))


def _text(value: object) -> str:
    return value if type(value) is str else ""
