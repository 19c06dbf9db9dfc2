"""Copies the person's objects, compares them with their copies, and restores them.

Copies built-in containers, numpy arrays, pandas and polars tables, and dataclasses, by exact type,
so that no code of the person's classes runs. A copy of a container has the same other objects in it
as the container itself.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import sys
import types
import uuid
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

MISSING: Any = object()
"""No copy, or no object."""

OBJECT_BYTES = 10_000_000
TOTAL_BYTES = 50_000_000
DIGEST_BYTES = 200_000_000
"""Bytes of arrays and tables without a copy that `digest` reads, all together."""
_ITEMS = 100_000
"""Items of a variable that are copied one by one, since they are not all of simple types."""
_DEPTH = 20

_ATOMS: Set[type] = frozenset({str, bytes, int, float, complex, bool, type(None), range})
_KEYS: Set[type] = _ATOMS | {type}
"""Types whose hash and comparison run no code of the person's."""
_DICTS = frozenset({dict, defaultdict, OrderedDict, Counter})
_SEQUENCES = frozenset({list, tuple, deque})
_CONSTANT = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type),
    *(frozenset, slice, re.Pattern, enum.Enum, pathlib.PurePath, uuid.UUID),
    *(decimal.Decimal, fractions.Fraction, type(...), type(NotImplemented)),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)
"""Types whose instances cannot change, or whose changes a snapshot or a digest shows."""

Origins = Mapping[int, tuple[Any, Any]]
"""Copies with their originals, by the id of the copy."""


class Copier:
    """Copies objects within limits. Variables that share an object share its copy.

    Args:
        object_bytes: The most bytes for the copy of one variable.
        total_bytes: The most bytes for all copies.

    Attributes:
        origins: All copies so far, with their originals.
        is_whole: True if the last copy contains everything in the object that can change.
    """

    def __init__(
        self, object_bytes: float = OBJECT_BYTES, total_bytes: float = TOTAL_BYTES
    ) -> None:
        self.origins: dict[int, tuple[Any, Any]] = {}
        self.is_whole = True
        self._object_bytes = object_bytes
        self._left = total_bytes
        # With the originals, so that their ids are not used again.
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._partial: set[int] = set()

    def copy(self, value: object) -> Any:
        """A copy; the value itself if it cannot change; MISSING if it cannot be copied."""
        one = _Copy(self._copies, self._partial, min(self._object_bytes, self._left))
        try:
            made = one.copy(value)
        except Exception:  # too large, or a library's code failed
            for place in one.made:
                del self._copies[place]
            self.is_whole = False
            return MISSING
        self._left -= one.used
        self.is_whole = one.is_whole
        self.origins.update((id(self._copies[i][1]), self._copies[i][::-1]) for i in one.made)
        return made

    def substitute(self, value: object, other: object) -> None:
        """Use another object as the copy of a value from now on."""
        self._copies[id(value)] = value, other


class _NotCopied(Exception):
    """The copy exceeds a limit, or cannot be made without running the person's code."""


class _Copy:
    """Makes the copy of one variable."""

    def __init__(self, copies: dict[int, tuple[Any, Any]], partial: set[int], room: float) -> None:
        self.used = 0
        self.made: list[int] = []
        self.is_whole = True
        self._copies = copies
        self._partial = partial
        self._room = room
        self._items = _ITEMS

    def copy(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if id(value) in self._copies:
            self.is_whole &= id(value) not in self._partial
            return self._copies[id(value)][1]
        maker = _maker(kind)
        if maker is None or depth > _DEPTH:
            self.is_whole &= is_constant(value)
            return value if depth else MISSING
        outer, self.is_whole = self.is_whole, True
        made = maker(self, value, depth)
        self.note(value, made)
        if not self.is_whole:
            self._partial.add(id(value))
        self.is_whole &= outer
        return made

    def note(self, value: Any, made: Any) -> None:
        if id(value) not in self._copies:
            self._copies[id(value)] = value, made
            self.made.append(id(value))

    def take(self, count: int) -> None:
        self.used += count
        if self.used > self._room:
            raise _NotCopied

    def inner(self, items: Iterable[Any], depth: int) -> list[Any]:
        items = list(items)
        if _are_atoms(items):
            return items
        self._items -= len(items)
        if self._items < 0:
            raise _NotCopied
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
        if not _are_atoms(value, _KEYS):
            raise _NotCopied  # copying would call `__hash__` of a person's class
        made = value.copy()
        self.note(value, made)
        values = list(value.values())
        if not _are_atoms(values):
            # Not its own `update`, which of a Counter adds.
            dict.update(made, zip(value, self.inner(values, depth), strict=True))
        return made

    def plain(self, value: Any, depth: int) -> Any:
        self.take(sys.getsizeof(value))
        if type(value) is set and not _are_atoms(value, _KEYS):
            raise _NotCopied
        return value.copy()

    def array(self, value: Any, depth: int) -> Any:
        self.take(value.nbytes)
        made = value.copy(order="K")
        if value.dtype.names is None and value.dtype.hasobject:
            self.note(value, made)  # it may hold itself
            made.flat[:] = _column(self.inner(value.ravel().tolist(), depth))
        elif value.dtype.hasobject:
            raise _NotCopied
        made.flags.writeable = value.flags.writeable
        return made

    def pandas(self, value: Any, depth: int) -> Any:
        if any(not _is_pandas_own(block.values) for block in value._mgr.blocks):
            raise _NotCopied  # a library's extension arrays are copied by its own code
        if not _is_plain(value.attrs):
            raise _NotCopied  # pandas would call `__deepcopy__` of the person's objects
        sizes = value.memory_usage(index=True, deep=False)
        self.take(int(sizes if value.ndim == 1 else sizes.sum()))
        # The copy of a column of objects has the same objects in its cells.
        cells = (_cells(block.values) for block in value._mgr.blocks)
        self.is_whole &= all(
            _is_constant_kind(kind) for found in cells for kind in set(map(type, found))
        )
        return value.copy(deep=True)

    def record(self, value: Any, depth: int) -> Any:
        """A dataclass instance, made without calling its `__init__`."""
        self.take(sys.getsizeof(value))
        made = object.__new__(type(value))
        self.note(value, made)
        fields = _fields(value)
        self._items -= len(fields)
        if self._items < 0:
            raise _NotCopied
        for name, item in fields.items():
            object.__setattr__(made, name, self.copy(item, depth + 1))
        return made

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
    # Compared with the library's own class: the person may have a class of the same name.
    name, (module, maker) = kind.__name__, _LIBRARIES.get(kind.__name__, ("", _Copy.plain))
    if module and getattr(sys.modules.get(module), name, None) is kind:
        return maker
    if getattr(sys.modules.get("polars"), name, None) is kind and name in ("DataFrame", "Series"):
        return _Copy.polars
    return _Copy.record if _is_dataclass(kind) else None


def is_constant(value: Any) -> bool:
    """True if nothing inside of an object can change that a snapshot or a digest would miss."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if type(each) in _ATOMS or id(each) in seen:
            continue
        seen.add(id(each))
        held = _held(each)
        if held is None and not _is_constant_kind(type(each)):
            return False
        waiting += held or ()
    return True


def _held(value: Any) -> Iterable[Any] | None:
    """What a tuple, or a function, method or class of the notebook, holds; None for others."""
    kind = type(value)
    if kind is tuple:
        return list(value)
    if kind is types.FunctionType:
        return _held_by_function(value) if value.__module__ == "__main__" else None
    if kind is types.MethodType:
        return (value.__self__, value.__func__) if value.__module__ == "__main__" else None
    if kind is types.BuiltinFunctionType:
        return (value.__self__,) if _maker(type(value.__self__)) else None
    if kind in (classmethod, staticmethod):
        return (value.__func__,)
    if kind is property:
        return (value.fget, value.fset, value.fdel)
    return _held_by_class(value) if issubclass(kind, type) else None


def _held_by_function(function: types.FunctionType) -> list[Any]:
    attributes, keywords = vars(function).values(), (function.__kwdefaults__ or {}).values()
    return [*attributes, *(function.__defaults__ or ()), *keywords, *_closed_over(function)]


def _closed_over(function: types.FunctionType) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing was assigned yet
            found.append(cell.cell_contents)
    return found


def _held_by_class(cls: type) -> list[Any] | None:
    """Methods and public attributes of a class and of its bases, if it is one of the notebook."""
    # Not `vars(cls)` or `cls.__bases__`, which may run code of a metaclass.
    attributes = type.__getattribute__(cls, "__dict__")
    if attributes.get("__module__") != "__main__":
        return None
    is_dataclass = "__dataclass_fields__" in attributes
    found: list[Any] = list(type.__getattribute__(cls, "__bases__"))
    for name, item in attributes.items():
        if isinstance(item, (classmethod, staticmethod, property)):
            found.append(item)
        elif isinstance(item, types.FunctionType):
            is_generated = is_dataclass and item.__code__.co_filename == "<string>"
            found += [] if is_generated else [item]
        # Other descriptors, as those of slots, hold nothing themselves.
        elif not name.startswith("_") and not hasattr(type(item), "__get__"):
            found.append(item)
    return found


def _is_constant_kind(kind: type) -> bool:
    if kind in _ATOMS or issubclass(kind, _CONSTANT):
        return True
    scalar = getattr(sys.modules.get("numpy"), "generic", None)
    return (scalar is not None and issubclass(kind, scalar)) or (
        str(kind.__module__).startswith("pandas._libs") and kind.__name__ in _SCALARS
    )


_SCALARS = ("Timestamp", "Timedelta", "Period", "Interval", "NAType", "NaTType")


def _is_dataclass(kind: type) -> bool:
    """True if all data of the instances is in `__dict__` and ordinary slots."""
    if type(kind) is not type or "__dataclass_fields__" not in vars(kind):
        return False
    own = [vars(cls) for cls in kind.__mro__[:-1]]
    slots = (slot for names in own for slot in _slots(names.get("__slots__", ())))
    places = types.MemberDescriptorType
    return all(
        isinstance(vars(cls)[slot], places)
        for slot in slots
        for cls in kind.__mro__
        if slot in vars(cls)
    )


def _slots(names: Any) -> Iterable[str]:
    found = (names,) if isinstance(names, str) else names
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _fields(value: Any) -> dict[str, Any]:
    """The instance attributes of a dataclass instance."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        for slot in _slots(vars(cls).get("__slots__", ())):
            try:
                found[slot] = object.__getattribute__(value, slot)
            except AttributeError:
                continue
    return found


def _column(items: list[Any]) -> Any:
    made = sys.modules["numpy"].empty(len(items), dtype=object)
    for place, item in enumerate(items):
        made[place] = item
    return made


def _cells(values: Any) -> list[Any]:
    """The cells of a pandas block of objects; empty for other blocks."""
    is_objects = str(getattr(values, "dtype", "")) == "object"
    return list(values.ravel()) if is_objects and hasattr(values, "ravel") else []


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True if a value consists of built-in containers and simple values only."""
    kind = type(value)
    if kind in _KEYS:
        return True
    if depth > _DEPTH or kind not in (dict, list, tuple, set):
        return False
    items = [*value, *value.values()] if kind is dict else value
    return all(_is_plain(item, depth + 1) for item in items)


def _are_atoms(items: Iterable[Any], atoms: Set[type] = _ATOMS) -> bool:
    return set(map(type, items)) <= atoms


def _is_pandas_own(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] in ("numpy", "pandas")


def inside(value: Any) -> list[Any]:
    """The objects that a container, array or dataclass instance contains."""
    kind = type(value)
    if kind in _SEQUENCES:
        return list(value)
    if kind in _DICTS:
        return list(value.values())
    maker = _maker(kind)
    if maker is _Copy.array and value.dtype.hasobject:
        return list(value.ravel())
    return list(_fields(value).values()) if maker is _Copy.record else []


def reached(copies: Iterable[Any], origins: Origins) -> dict[int, tuple[Any, Any]]:
    """The entries of `origins` for these copies and all copies inside of them."""
    found: dict[int, tuple[Any, Any]] = {}
    waiting = list(copies)
    while waiting:
        copy = waiting.pop()
        if id(copy) in origins and id(copy) not in found:
            found[id(copy)] = origins[id(copy)]
            waiting += inside(copy)
    return found


# Going back --------------------------------------------------------------------------------------


class Restorer:
    """Restores objects from their copies.

    An object that does not differ from its copy is used itself. Any other is replaced by a new
    copy, which counts as the same object from then on: names and containers that shared an object
    share one again.
    """

    def __init__(self) -> None:
        self._same: dict[int, list[Any]] = {}

    def restore(self, copies: Sequence[Any], origins: Origins) -> list[Any]:
        """Restore the objects from which copies were made.

        Args:
            copies: Copies that were made at one moment.
            origins: The originals of all copies of that moment.
        """
        nodes = reached(copies, origins)
        found = {key: self._like(copy, original) for key, (copy, original) in nodes.items()}
        while changed := [key for key in nodes if not _fits(found[key], nodes[key][0], found)]:
            found.update(dict.fromkeys(changed, MISSING))
        copier = Copier(float("inf"), float("inf"))
        for key, there in found.items():
            if there is not MISSING:
                copier.substitute(nodes[key][0], there)
        made = [copier.copy(copy) for copy in copies]
        for new, copy in copier.origins.values():
            if id(copy) in nodes:
                self._count_as_same(nodes[id(copy)][1], new)
        return made

    def forget_all_but(self, origins: Iterable[Origins]) -> None:
        """Free the objects that none of these `origins` mentions."""
        wanted = {id(original) for each in origins for _, original in each.values()}
        self._same = {
            key: same
            for key, same in self._same.items()
            if any(id(object_) in wanted for object_ in same)
        }

    def _like(self, copy: Any, original: Any) -> Any:
        """The latest of the objects that count as the original and equal the copy, or MISSING."""
        same = self._same.get(id(original), [original])
        return next((each for each in reversed(same) if is_like(copy, each)), MISSING)

    def _count_as_same(self, original: Any, new: Any) -> None:
        same = self._same.setdefault(id(original), [original])
        same.append(new)
        self._same[id(new)] = same


def _fits(found: Any, copy: Any, others: Mapping[int, Any]) -> bool:
    """True if an object contains exactly the objects that were found for its copy's contents."""
    if found is MISSING or found is copy:
        return True
    pairs = zip(inside(copy), inside(found), strict=True)
    return all(others.get(id(inner), there) is there for inner, there in pairs)


# Comparing ---------------------------------------------------------------------------------------


def differs(copy: Any, value: Any) -> bool:
    """True if an object surely differs from its copy. Calls no `__eq__` of the person's classes."""
    try:
        return _differs(copy, value, set())
    except Exception:
        return False


def is_like(copy: Any, value: Any) -> bool:
    """True if an object surely equals its copy."""
    try:
        return not _differs(copy, value, set())
    except Exception:
        return False


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
        return not (kind is bytearray or _are_atoms(new, _KEYS)) or bool(old != new)
    return _table_differs(old, new, under_way)


def _any_differs(old: Iterable[Any], new: Iterable[Any], under_way: set[tuple[int, int]]) -> bool:
    one, other = list(old), list(new)
    if _are_atoms(one) and _are_atoms(other) and one == other:
        return False
    return any(_differs(a, b, under_way) for a, b in zip(one, other, strict=True))


def _table_differs(old: Any, new: Any, under_way: set[tuple[int, int]]) -> bool:
    maker = _maker(type(old))
    if maker is _Copy.record:
        one, other = _fields(old), _fields(new)
        return list(one) != list(other) or _any_differs(one.values(), other.values(), under_way)
    if maker is _Copy.array:
        return _arrays_differ(old, new, under_way)
    if maker is _Copy.pandas:
        return _frames_differ(old, new, under_way)
    if maker is _Copy.polars:
        return bool(digest(old) != digest(new))
    return True


def _arrays_differ(old: Any, new: Any, under_way: set[tuple[int, int]]) -> bool:
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return True
    if old.flags.writeable != new.flags.writeable:
        return True
    if old.dtype.hasobject:
        return _any_differs(old.ravel().tolist(), new.ravel().tolist(), under_way)
    return bool(old.tobytes() != new.tobytes())


def _frames_differ(old: Any, new: Any, under_way: set[tuple[int, int]]) -> bool:
    if _any_differs([old.attrs], [new.attrs], under_way):
        return True
    if old.flags.allows_duplicate_labels != new.flags.allows_duplicate_labels:
        return True
    objects = [_cells(block.values) for block in old._mgr.blocks]
    others = [_cells(block.values) for block in new._mgr.blocks]
    if not any(objects) and not any(others):
        return not old.equals(new) or _names_of(old) != _names_of(new)
    # `equals` would call `__eq__` of the objects in a column.
    if len(objects) != len(others) or _names_of(old) != _names_of(new):
        return True
    if not all(one.equals(other) for one, other in zip(old.axes, new.axes, strict=True)):
        return True
    return any(
        _cells_differ(one.values, other.values, under_way)
        for one, other in zip(old._mgr.blocks, new._mgr.blocks, strict=True)
    )


def _cells_differ(old: Any, new: Any, under_way: set[tuple[int, int]]) -> bool:
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return True
    if old.dtype == object:
        return _any_differs(list(old.ravel()), list(new.ravel()), under_way)
    same = old.equals(new) if hasattr(old, "equals") else old.tobytes() == new.tobytes()
    return not same


def _names_of(frame: Any) -> list[str]:
    own = repr(frame.name) if frame.ndim == 1 else ""
    return [own, *(repr(list(axis.names)) for axis in frame.axes)]


# Large objects -----------------------------------------------------------------------------------

_ROW = 4_096


def digest(value: Any) -> Any:
    """A value that differs after each change of a large array or table; None for other types.

    For a generator it is the position; for a function of the notebook the identities of its default
    values and of the variables of its closure.
    """
    if type(value) is types.GeneratorType:
        return _generator_digest(value)
    if type(value) is types.FunctionType:
        keywords = value.__kwdefaults__ or {}
        held = (*(value.__defaults__ or ()), *keywords.values(), *_closed_over(value))
        return tuple(keywords), tuple(map(_atom_or_id, held))
    maker = _maker(type(value))
    if maker is _Copy.array and not value.dtype.hasobject:
        return value.shape, str(value.dtype), value.flags.writeable, _array_digest(value)
    if maker is _Copy.pandas:
        blocks = (getattr(block.values, "_ndarray", block.values) for block in value._mgr.blocks)
        numbers = [_array_digest(each) for each in blocks if hasattr(each, "strides")]
        return value.shape, tuple(numbers), repr(value.attrs)
    if maker is _Copy.polars:
        return _polars_digest(value)
    return None


def _generator_digest(value: Any) -> Any:
    frame = value.gi_frame
    if frame is None or value.gi_running:
        return value.gi_running
    local = frame.f_locals.items()
    return frame.f_lasti, tuple((name, _atom_or_id(item)) for name, item in local)


def _atom_or_id(item: Any) -> Any:
    return item if type(item) in _ATOMS else id(item)


def _polars_digest(value: Any) -> Any:
    form = value.shape, getattr(value, "name", None) or repr(getattr(value, "schema", ""))
    if value.estimated_size() > OBJECT_BYTES:
        value = value.gather_every(max(1, len(value) // _ROW))
    hashed = value.hash_rows() if hasattr(value, "hash_rows") else value.hash()
    # In the order of the rows, so that swapped rows differ.
    return form, zlib.crc32(hashed.to_numpy().tobytes())


def digest_bytes(value: Any) -> int:
    """How many bytes of an object `digest` reads; 0 if it returns None."""
    if type(value) is types.GeneratorType:
        return 1
    if type(value) is types.FunctionType:
        return int(value.__module__ == "__main__")
    maker = _maker(type(value))
    if maker is _Copy.array:
        return 0 if value.dtype.hasobject else int(value.nbytes)
    if maker is _Copy.pandas:
        return sum(int(getattr(block.values, "nbytes", 0)) for block in value._mgr.blocks)
    return int(value.estimated_size()) if maker is _Copy.polars else 0


def _array_digest(array: Any) -> int:
    """A checksum over row and column sums of the bytes: fast, and it differs if values swap."""
    if array.dtype.hasobject:
        return zlib.crc32(repr(list(map(id, array.ravel().tolist()))).encode())
    flat = array.ravel(order="K")
    data = flat.view("u1")
    whole = len(data) // (8 * _ROW) * 8 * _ROW
    table = data[:whole].view("u8").reshape(-1, _ROW)
    found = zlib.crc32(data[whole:].tobytes())
    for way in (0, 1):
        found = zlib.crc32(table.sum(axis=way).tobytes(), found)
    return found
