"""Finds changes of the user's variables: compares a snapshot before a turn with one after it.

A snapshot holds each object and a fingerprint of its content. Binding and deletion are found
exactly, mutation in place by the fingerprint, which must be cheap: small arrays are read
whole, large ones at some thousand places; containers by their length and the identity of
up to 64 of their items; other objects by the identity of their public attributes. A change of one
cell deep inside a large table, or two levels down in nested containers, can pass unseen.
"""

from __future__ import annotations

import functools
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from jupyter_agent.core.events import VariableChange

WHOLE_BYTES = 16_384
"""Arrays up to this size are read whole."""
SAMPLES = 2_048
"""Places at which a larger array is read."""
ITEMS = 64
"""Items of a container, columns of a table or attributes of an object that are looked at."""

FEW = 4
"""So many items are remembered by reference once they are not kept alive, more by address."""

_OPAQUE = (str, bytes, int, float, complex, bool, type(None), type, range, frozenset)
_CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType)
Fingerprint = Hashable
Summary = Callable[[object], str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The variables at one moment, in the order of their creation.

    Keeps the objects alive, so that no other object can get the same identity. Suits the length
    of a turn; for longer keep `faded()`.
    """

    values: Mapping[str, object]
    fingerprints: Mapping[str, Fingerprint]

    def faded(self) -> Snapshot:
        """A snapshot that keeps no object alive: a deleted table frees its memory."""
        traces = {name: _Trace(value) for name, value in self.values.items()}
        prints = {name: _faded(each) for name, each in self.fingerprints.items()}
        return Snapshot(traces, prints)


def snapshot(variables: Mapping[str, object]) -> Snapshot:
    """Take a snapshot. Never fails: an object whose content cannot be read counts by identity."""
    seen: dict[int, Fingerprint] = {}
    prints: dict[str, Fingerprint] = {}
    for name, value in variables.items():
        if id(value) not in seen:
            seen[id(value)] = _guarded(value)
        prints[name] = seen[id(value)]
    return Snapshot(dict(variables), prints)


def changes(
    before: Snapshot,
    after: Snapshot,
    summary: Summary = lambda value: type(value).__name__,
    mutated: Collection[str] = (),
) -> tuple[VariableChange, ...]:
    """The variables that were added, bound to another object, mutated in place, or deleted.

    Args:
        before: The earlier snapshot.
        after: The later one.
        summary: Describes an object in a few words.
        mutated: Names of objects with known mutations, which snapshots may miss.
    """
    found = [
        VariableChange(name, kind, summary(value), type(value).__name__, _shape(value))
        for name, value in after.values.items()
        if (kind := _kind(name, before, after, mutated)) is not None
    ]
    gone = [
        _deleted(name, value, summary)
        for name, value in before.values.items()
        if name not in after.values
    ]
    return (*found, *gone)


def _deleted(name: str, value: object, summary: Summary) -> VariableChange:
    if type(value) is _Trace:
        return VariableChange(name, "deleted", value.type_name, value.type_name)
    return VariableChange(name, "deleted", summary(value), type(value).__name__, _shape(value))


def _shape(value: Any) -> tuple[int, ...]:
    """The lengths along an object's axes, for types whose shape costs nothing; else empty."""
    kind = type(value)
    if kind in _SIZED:
        return (len(value),)
    try:
        names = {f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}" for cls in kind.__mro__}
        if not names.isdisjoint(_SHAPED):
            return tuple(int(length) for length in value.shape)
    except Exception:
        return ()  # a class of the user's that fails, or has no module
    return ()


def _kind(name: str, before: Snapshot, after: Snapshot, mutated: Collection[str]) -> Any:
    if name not in before.values:
        return "added"
    if not _is_same(before.values[name], after.values[name]):
        return "changed"
    is_other = before.fingerprints[name] != after.fingerprints[name]
    return "mutated" if is_other or name in mutated else None


def _guarded(value: object) -> Fingerprint:
    try:
        return _fingerprint(value)
    except Exception:
        return None  # foreign code failed: the object has no fingerprint


def _fingerprint(value: Any) -> Fingerprint:
    kind = type(value)
    if kind in (FunctionType, type):
        return _own_attributes(value)
    if kind in _OPAQUE or isinstance(value, _CODE):
        return None
    if issubclass(kind, (list, tuple, deque, set)):
        return len(value), _Same(_spread(value))
    if issubclass(kind, dict):
        return len(value), _Same(_spread(value)), _Same(_spread(value.values()))
    if kind is bytearray:
        return len(value), zlib.crc32(value[:WHOLE_BYTES]), zlib.crc32(value[-WHOLE_BYTES:])
    for cls in kind.__mro__:
        reader = _READERS.get(f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}")
        if reader is not None:
            return reader(value)
    return _attributes(value)


def _spread(items: Any) -> Iterable[object]:
    """The first and the last items of a container; the first ones if it has no order."""
    half = ITEMS // 2
    if len(items) <= ITEMS:
        return list(items)
    try:
        return [*islice(items, half), *islice(reversed(items), half)]
    except TypeError:
        return list(islice(items, ITEMS))


class _Same:
    """Objects compared by identity.

    Keeps them alive until `faded`, so that no other object can get their addresses.
    """

    __slots__ = ("_ids", "_items", "_traces")

    def __init__(self, items: Iterable[object]) -> None:
        self._items = tuple(items)
        self._ids = tuple(map(id, self._items))
        self._traces: tuple[_Trace, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or self._ids != other._ids:
            return False
        pairs = [
            *zip(self._traces, other._items, strict=False),
            *zip(other._traces, self._items, strict=False),
        ]
        return all(trace.leads_to(item) for trace, item in pairs)

    def __hash__(self) -> int:
        return len(self._ids)

    def faded(self) -> _Same:
        same = _Same(())
        same._ids = self._ids
        if len(self._items) <= FEW:
            # The storage of a column: its successor may get the same address.
            same._traces = tuple(map(_Trace, self._items))
        return same


def _faded(fingerprint: Fingerprint) -> Fingerprint:
    if isinstance(fingerprint, _Same):
        return fingerprint.faded()
    if isinstance(fingerprint, tuple):
        return tuple(map(_faded, fingerprint))
    return fingerprint


class _Trace:
    """A trace of an object that is not kept alive."""

    __slots__ = ("_id", "_reference", "type_name")

    def __init__(self, value: object) -> None:
        self._id = id(value)
        self.type_name = type(value).__name__
        try:
            self._reference: weakref.ref[object] | None = weakref.ref(value)
        except TypeError:
            self._reference = None  # lists, dicts, numbers: an address must do

    def leads_to(self, value: object) -> bool:
        if self._reference is not None:
            return self._reference() is value
        return self._id == id(value) and self.type_name == type(value).__name__


def _is_same(before: object, after: object) -> bool:
    # Not isinstance: it would ask a user's object for its class, which may fail.
    return before.leads_to(after) if type(before) is _Trace else before is after


def _own_attributes(value: Any) -> Fingerprint:
    """The attributes of a function, or of a class of the user's."""
    if type(value) is type and value.__module__ != "__main__":
        return None
    state = dict(vars(value))
    names = tuple(name for name in state if not name.startswith("__"))[:ITEMS]
    return names, _Same(state[name] for name in names)


def _attributes(value: Any) -> Fingerprint:
    state = getattr(value, "__dict__", None)
    if not isinstance(state, dict):
        slots = (name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ()))
        state = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    # Private attributes are often caches, which fill up when an object is merely used.
    cls = type(value)
    public = {
        name: item
        for name, item in state.items()
        if not name.startswith("_")
        and not isinstance(getattr(cls, name, None), functools.cached_property)
    }
    names = tuple(islice(public, ITEMS))
    return len(public), names, _Same(public[name] for name in names)


def _array(array: Any) -> Fingerprint:
    """A numpy array: its shape and type, and its bytes or a sample of them."""
    form = (array.shape, str(array.dtype), array.strides, array.flags.writeable)
    if array.dtype.hasobject:
        step = max(1, array.size // ITEMS)
        return form, _Same(array.flat[::step][:ITEMS].tolist())
    if array.nbytes <= WHOLE_BYTES:
        return form, zlib.crc32(array.tobytes())
    size = array.size
    places = [index * (size - 1) // (SAMPLES - 1) for index in range(SAMPLES)]
    return form, zlib.crc32(array.flat[places].tobytes())


def _extension(values: Any) -> Fingerprint:
    """The storage of a pandas column: a numpy array, or an Arrow one, which never mutates."""
    arrow = getattr(values, "_pa_array", None)
    if arrow is not None:
        return _Same((arrow,))
    inner = getattr(values, "_ndarray", None)
    inner = getattr(values, "_data", None) if inner is None else inner
    inner = values if inner is None else inner
    mask = getattr(values, "_mask", None)
    codes = () if mask is None else _array(mask)
    return (_array(inner), codes) if hasattr(inner, "strides") else _Same((inner,))


def _pandas(value: Any) -> Fingerprint:
    """A DataFrame or a Series, by its storage blocks."""
    axes: tuple[Hashable, ...] = tuple(
        (len(axis), _Same((axis,)), str(axis.name)) for axis in value.axes
    )
    axes = (*axes, str(getattr(value, "name", "")) if value.ndim == 1 else "")
    blocks = value._mgr.blocks
    attrs = (*value.attrs, _Same(value.attrs.values())) if value.attrs else ()
    return axes, attrs, tuple(_extension(block.values) for block in blocks[:ITEMS])


def _polars(value: Any) -> Fingerprint:
    first_and_last = (value.row(0), value.row(-1)) if len(value) else ()
    return value.shape, tuple(value.columns[:ITEMS]), hash(str(first_and_last))


def _tensor(value: Any) -> Fingerprint:
    """A torch tensor, by torch's own count of changes in place."""
    return tuple(value.shape), value._version


_READERS: dict[str, Callable[[Any], Fingerprint]] = {
    "numpy.ndarray": _array,
    "pandas.DataFrame": _pandas,
    "pandas.Series": _pandas,
    "polars.DataFrame": _polars,
    "torch.Tensor": _tensor,
}
_SIZED = (list, tuple, dict, set, frozenset, deque, str, bytes, bytearray, range)
_SHAPED = frozenset({*_READERS, "polars.Series"})
