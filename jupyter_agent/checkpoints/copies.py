"""Cheap copies of a person's objects, and whether an object still is as its copy.

Only exact types are copied whose copying runs no code of the person's: built-in containers, numpy
arrays, pandas and polars tables. Other objects in a container are the same objects in its copy.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

MISSING: Any = object()
"""Where there is no copy, or no object."""

OBJECT_BYTES = 10_000_000
TOTAL_BYTES = 50_000_000
_ITEMS = 100_000
"""Items of containers that hold other containers, which are looked at one by one."""
_DEPTH = 20

_ATOMS = frozenset({str, bytes, int, float, complex, bool, type(None), range, type})
_DICTS = frozenset({dict, defaultdict, OrderedDict, Counter})
_SEQUENCES = frozenset({list, tuple, deque})


class Copier:
    """Copies objects within limits. An object that is met twice has one copy.

    Args:
        object_bytes: The most that the copy of one variable takes.
        total_bytes: The most that all copies take.
    """

    def __init__(self, object_bytes: int = OBJECT_BYTES, total_bytes: int = TOTAL_BYTES) -> None:
        self._object_bytes = object_bytes
        self._left = total_bytes
        # With the objects themselves, so that no other one can take their places.
        self._copies: dict[int, tuple[Any, Any]] = {}

    def copy(self, value: object) -> Any:
        """A copy, the value itself where it cannot change, or MISSING where none is made."""
        one = _Copy(self._copies, min(self._object_bytes, self._left))
        try:
            made = one.copy(value)
        except Exception:  # it is too large, or foreign code failed
            for place in one.made:
                del self._copies[place]
            return MISSING
        self._left -= one.used
        return made


class _TooMuch(Exception):
    """The copy would be larger than it may."""


class _Copy:
    """The copy of one variable, with everything in it that can be copied."""

    def __init__(self, copies: dict[int, tuple[Any, Any]], room: int) -> None:
        self.used = 0
        self.made: list[int] = []
        self._copies = copies
        self._room = room
        self._items = _ITEMS

    def copy(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if id(value) in self._copies:
            return self._copies[id(value)][1]
        maker = _maker(kind)
        if maker is None or depth > _DEPTH:
            if depth == 0:
                return MISSING
            return value
        made = maker(self, value, depth)
        self.note(value, made)
        return made

    def note(self, value: Any, made: Any) -> None:
        if id(value) not in self._copies:
            self._copies[id(value)] = value, made
            self.made.append(id(value))

    def take(self, count: int) -> None:
        self.used += count
        if self.used > self._room:
            raise _TooMuch

    def inner(self, items: Iterable[Any], depth: int) -> list[Any]:
        items = list(items)
        if _are_atoms(items):
            return items
        self._items -= len(items)
        if self._items < 0:
            raise _TooMuch
        return [self.copy(item, depth + 1) for item in items]

    def sequence(self, value: Any, depth: int) -> Any:
        self.take(sys.getsizeof(value))
        if type(value) is tuple:
            made = self.inner(value, depth)
            same = all(one is other for one, other in zip(made, value, strict=True))
            return value if same else tuple(made)
        empty: Any = deque(maxlen=value.maxlen) if type(value) is deque else []
        self.note(value, empty)  # it may hold itself
        empty.extend(self.inner(value, depth))
        return empty

    def mapping(self, value: Any, depth: int) -> Any:
        self.take(sys.getsizeof(value))
        if not _are_atoms(value):
            raise _TooMuch  # a key of the person's own class would be asked for its hash
        made = value.copy()
        self.note(value, made)
        values = list(value.values())
        if not _are_atoms(values):
            # Not its own `update`, which of a Counter adds.
            dict.update(made, zip(value, self.inner(values, depth), strict=True))
        return made

    def plain(self, value: Any, depth: int) -> Any:
        self.take(sys.getsizeof(value))
        if type(value) is set and not _are_atoms(value):
            raise _TooMuch
        return value.copy()

    def array(self, value: Any, depth: int) -> Any:
        if value.dtype.hasobject:
            raise _TooMuch
        self.take(value.nbytes)
        return value.copy(order="K")

    def pandas(self, value: Any, depth: int) -> Any:
        if value.attrs or any(not _is_pandas_own(block.values) for block in value._mgr.blocks):
            raise _TooMuch  # its parts would be copied by code that is not pandas'
        sizes = value.memory_usage(index=True, deep=False)
        self.take(int(sizes if value.ndim == 1 else sizes.sum()))
        return value.copy(deep=True)

    def polars(self, value: Any, depth: int) -> Any:
        return value.clone()  # shares its columns, which never change


_Maker = Callable[[_Copy, Any, int], Any]
_LIBRARIES: dict[str, tuple[str, _Maker]] = {
    "ndarray": ("numpy", _Copy.array),
    "DataFrame": ("pandas", _Copy.pandas),
    "Series": ("pandas", _Copy.pandas),
}


def _maker(kind: type) -> _Maker | None:
    if kind in _SEQUENCES:
        return _Copy.sequence
    if kind in _DICTS:
        return _Copy.mapping
    if kind in (set, bytearray):
        return _Copy.plain
    # By identity with the library's own class: anybody may call a class of theirs DataFrame.
    name, (module, maker) = kind.__name__, _LIBRARIES.get(kind.__name__, ("", _Copy.plain))
    if module and getattr(sys.modules.get(module), name, None) is kind:
        return maker
    if getattr(sys.modules.get("polars"), name, None) is kind and name in ("DataFrame", "Series"):
        return _Copy.polars
    return None


def _are_atoms(items: Iterable[Any]) -> bool:
    return set(map(type, items)) <= _ATOMS


def _is_pandas_own(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] in ("numpy", "pandas")


# Comparing ---------------------------------------------------------------------------------------


def differs(copy: Any, value: Any) -> bool:
    """Whether an object is no more as its copy was made. Asks no `__eq__` of the person's."""
    try:
        return _differs(copy, value, set())
    except Exception:
        return False  # it cannot be told


def _differs(old: Any, new: Any, under_way: set[tuple[int, int]]) -> bool:
    kind = type(old)
    if old is new:
        return False
    if kind is not type(new):
        return True
    if kind in _ATOMS:
        return bool(old != new and (old == old or new == new))  # noqa: PLR0124 (NaN)
    if (id(old), id(new)) in under_way:
        return False
    under_way.add((id(old), id(new)))
    if kind in _SEQUENCES:
        return len(old) != len(new) or _any_differs(old, new, under_way)
    if kind in _DICTS:
        return (
            len(old) != len(new)
            or _any_differs(old, new, under_way)
            or _any_differs(old.values(), new.values(), under_way)
        )
    if kind in (set, bytearray):
        return not (kind is bytearray or _are_atoms(new)) or bool(old != new)
    return _table_differs(old, new, kind)


def _any_differs(old: Iterable[Any], new: Iterable[Any], under_way: set[tuple[int, int]]) -> bool:
    one, other = list(old), list(new)
    if _are_atoms(one) and _are_atoms(other) and one == other:
        return False
    return any(_differs(a, b, under_way) for a, b in zip(one, other, strict=True))


def _table_differs(old: Any, new: Any, kind: type) -> bool:
    maker = _maker(kind)
    if maker is _Copy.array:
        form = (old.shape, old.dtype) != (new.shape, new.dtype)
        return form or old.tobytes() != new.tobytes()
    if maker is _Copy.pandas:
        # Objects in a column would be compared by code of their own.
        blocks = (*old._mgr.blocks, *new._mgr.blocks)
        return not any(block.dtype == object for block in blocks) and not old.equals(new)
    # A polars table shares its columns with its copy: `changes` sees which were replaced.
    return maker is None
