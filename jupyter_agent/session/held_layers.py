"""Settings in the kernel's memory that the agent's code changed, as they were before.

The counterpart of `config.held`, which does this for files: `%agent config` and IPython's
configuration are objects of this process. A value that the user sets again counts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from jupyter_agent import config

_NONE = object()
Layers = Sequence[config.Layer]


class HeldLayers:
    """The layers of settings that this process holds.

    Args:
        current: Returns the layers as they are in memory.
    """

    def __init__(self, current: Callable[[], Layers]) -> None:
        self._current = current
        self._before: list[Mapping[str, object]] = []
        self._held: dict[tuple[int, str], tuple[object, object]] = {}

    def begin(self) -> None:
        """Remember the values: a turn begins."""
        self._before = [dict(layer.values) for layer in self.counting()]

    def end(self) -> list[str]:
        """Hold the changes since `begin`. Returns the names of the changed settings."""
        changed = set(_put_back_defaults())
        for number, (layer, before) in enumerate(zip(self._current(), self._before, strict=True)):
            for key in layer.values.keys() | before.keys():
                old, new = before.get(key, _NONE), layer.values.get(key, _NONE)
                if old != new:
                    known = self._held.get((number, key))
                    self._held[number, key] = old, new
                    changed |= {key} if known != (old, new) else set()
        return sorted(changed)

    def counting(self) -> list[config.Layer]:
        """The layers, with earlier values in place of those that the agent's code set."""
        return [self._without_held(number, layer) for number, layer in enumerate(self._current())]

    @property
    def keys(self) -> list[str]:
        """The settings whose change waits for the user's decision."""
        now = self._current()
        return sorted({key for (n, key), (_, new) in self._held.items() if _has(now[n], key, new)})

    def release(self, key: str) -> None:
        """Let a setting count: the user has set it."""
        self._held = {place: values for place, values in self._held.items() if place[1] != key}

    def accept(self) -> None:
        """Let the changed values count."""
        self._held.clear()

    def _without_held(self, number: int, layer: config.Layer) -> config.Layer:
        values = dict(layer.values)
        for (place, key), (old, new) in self._held.items():
            if place != number or not _has(layer, key, new):
                continue
            values.pop(key, None)
            if old is not _NONE:
                values[key] = old
        return config.Layer(layer.source, values)


def _has(layer: config.Layer, key: str, value: object) -> bool:
    found = layer.values.get(key, _NONE)
    return bool(found == value)


def _defaults() -> dict[str, dict[str, Any]]:
    """The default values of each group of settings; all settings share these objects."""
    groups = {
        name: field.default
        for name, field in config.Settings.model_fields.items()
        if isinstance(field.default, BaseModel)
    }
    return {name: vars(group) for name, group in groups.items()}


_AT_FIRST = deepcopy(_defaults())


def _put_back_defaults() -> list[str]:
    """Restore changed default values. Returns the names of the changed settings."""
    changed = []
    for name, values in _defaults().items():
        for key, value in _AT_FIRST[name].items():
            if values.get(key, _NONE) != value:
                values[key] = deepcopy(value)
                changed.append(f"{name}.{key}")
    return changed
