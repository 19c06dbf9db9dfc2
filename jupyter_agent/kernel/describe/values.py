"""Plain values: text, numbers, dates, paths; and the short form of a value."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import PurePath
from typing import Any

from jupyter_agent.kernel.describe.introspection import ancestry, is_enum, module_name, type_name
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Part,
    count,
    inert,
    shows_values,
)

SHORT = 60
_SHORT_ITEMS = 4
_SHORT_DEPTH = 2
_FULL_TEXT = 30_000
_MAX_BITS = 256


def short(value: object, limit: int = SHORT, depth: int = _SHORT_DEPTH) -> str:
    """The value in a few characters; for any but plain values the type, without running code."""
    cls = type(value)
    if is_enum(cls):
        return inert(f"{type_name(cls)}.{_member_name(value)}", limit)
    for ancestor in ancestry(cls):
        full_name = f"{module_name(ancestor).partition('.')[0]}.{type_name(ancestor)}"
        if full_name == "builtins.dict" and depth:
            return inert(_short_mapping(value, depth), limit)
        if full_name in _SHORT_SEQUENCES and depth:
            brackets, items = _SHORT_SEQUENCES[full_name]
            return inert(_short_sequence(brackets, items(value), depth), limit)
        if full_name in _SHORT_FORMS:
            return inert(_SHORT_FORMS[full_name](value), limit)
        if full_name in _OWN_FORMS and ancestor is cls:
            return inert(_OWN_FORMS[full_name](value), limit)
    return inert(f"<{type_name(cls)}>", limit)


def plain_value(value: Any, level: Level) -> Iterator[Part]:
    """A value without structure: its type, and the value if the level shows it."""
    kind = type_name(type(value))
    yield f"{kind}: {short(value, 100)}" if shows_values(level) else kind


def text(value: Any, level: Level) -> Iterator[Part]:
    """A text: its length and its start; at "full" its lines."""
    length = str.__len__(value)
    headline = f"{type_name(type(value))}, {count(length, 'character')}"
    if level == "full" and length > SHORT:
        yield headline
        start = str.__getitem__(value, slice(0, _FULL_TEXT))
        lines = start.split("\n")
        # Indented, so that no line of the text can pass for one of the description.
        yield Listing("lines", len(lines), lines)
        if length > _FULL_TEXT:
            yield f"... {length - _FULL_TEXT:,} more characters"
    elif shows_values(level):
        yield f"{headline}: {short(value)}"
    else:
        yield headline


def binary(value: Any, level: Level) -> Iterator[Part]:
    """Bytes: their number and the first ones."""
    headline = f"{type_name(type(value))}, {count(_byte_count(value), 'byte')}"
    yield f"{headline}: {short(value)}" if shows_values(level) else headline


def nothing(value: Any, level: Level) -> str:
    """None, `...` and NotImplemented are their own description."""
    return repr(value)


def _byte_count(value: Any) -> int:
    if type(value) is memoryview:
        return value.nbytes
    return bytes.__len__(value) if issubclass(type(value), bytes) else bytearray.__len__(value)


def _short_sequence(brackets: str, items: Iterable[Any], depth: int) -> str:
    shown = [short(item, 24, depth - 1) for item in islice(items, _SHORT_ITEMS + 1)]
    if len(shown) > _SHORT_ITEMS:
        shown[-1] = "…"
    return brackets[0] + ", ".join(shown) + brackets[-1]


def _short_mapping(value: Any, depth: int) -> str:
    pairs = list(islice(dict.items(value), _SHORT_ITEMS + 1))
    shown = [f"{short(k, 24, depth - 1)}: {short(v, 24, depth - 1)}" for k, v in pairs]
    if len(shown) > _SHORT_ITEMS:
        shown[-1] = "…"
    return "{" + ", ".join(shown) + "}"


def _short_set(value: Any) -> Iterator[Any]:
    # Sorted, since the order of texts in a set differs from kernel to kernel.
    base = set if issubclass(type(value), set) else frozenset
    return iter(sorted(islice(base.__iter__(value), 1_000), key=lambda item: short(item, 200)))


def _whole_number(value: Any) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= _MAX_BITS else f"(a whole number of {bits:,} bits)"


def _short_text(value: Any) -> str:
    return repr(str.__getitem__(value, slice(0, 400)))


def _short_bytes(value: Any) -> str:
    return repr(bytes(memoryview(value)[:400]))


def _memory(value: Any) -> str:
    return repr(bytes(value[:40])) if value.ndim == 1 and value.contiguous else "…"


def _member_name(value: Any) -> str:
    found = object.__getattribute__(value, "__dict__").get("_name_")
    return str(found) if found is not None else "(combined)"


def _item(value: Any) -> str:
    """A numpy scalar: numpy's own text for dates and records, Python's for the rest."""
    made = value.item()
    return str(value) if type(made) is type(value) else short(made)


def _pattern(value: Any) -> str:
    return repr(value.pattern[:100])


def _path(value: Any) -> str:
    return repr(PurePath.__str__(value)[:200])


def _decimal(value: Any) -> str:
    digits = value.as_tuple().digits
    return str(value) if len(digits) < 100 else f"(a decimal of {len(digits):,} digits)"


def _fraction(value: Any) -> str:
    return f"{_whole_number(value.numerator)}/{_whole_number(value.denominator)}"


def _slice(value: Any) -> str:
    return f"slice({short(value.start, 20)}, {short(value.stop, 20)}, {short(value.step, 20)})"


_SHORT_SEQUENCES: dict[str, tuple[str, Callable[[Any], Iterable[Any]]]] = {
    "builtins.list": ("[]", list.__iter__),
    "builtins.tuple": ("()", tuple.__iter__),
    "builtins.set": ("{}", _short_set),
    "builtins.frozenset": ("{}", _short_set),
}
_SHORT_FORMS: dict[str, Callable[[Any], str]] = {
    "builtins.list": lambda value: "[…]",
    "builtins.tuple": lambda value: "(…)",
    "builtins.set": lambda value: "{…}",
    "builtins.frozenset": lambda value: "{…}",
    "builtins.dict": lambda value: "{…}",
    "builtins.NoneType": lambda value: "None",
    "builtins.ellipsis": lambda value: "...",
    "builtins.bool": lambda value: "True" if value else "False",
    "builtins.int": _whole_number,
    "builtins.float": float.__repr__,
    "builtins.complex": complex.__repr__,
    "builtins.str": _short_text,
    "builtins.bytes": _short_bytes,
    "builtins.bytearray": _short_bytes,
    "builtins.memoryview": _memory,
    "builtins.slice": _slice,
    "builtins.range": lambda value: repr(value) if abs(value.start) < 10**18 else "range(…)",
    "builtins.type": lambda value: f"<class {type_name(value)}>",
    "datetime.datetime": datetime.datetime.isoformat,
    "datetime.date": datetime.date.isoformat,
    "datetime.time": datetime.time.isoformat,
    "datetime.timedelta": datetime.timedelta.__str__,
    "re.Pattern": _pattern,
    "pathlib.PurePath": _path,
    "numpy.generic": _item,
}
# For a subclass these might run code of the user's.
_OWN_FORMS: dict[str, Callable[[Any], str]] = {
    "decimal.Decimal": _decimal,
    "fractions.Fraction": _fraction,
    "uuid.UUID": str,
    "numpy.datetime64": str,
    "numpy.timedelta64": str,
    "pandas.Timestamp": str,
    "pandas.Timedelta": str,
    "pandas.Period": str,
    "pandas.Interval": str,
    "pandas.NaTType": lambda value: "NaT",
    "pandas.NAType": lambda value: "NA",
}

_PLAIN = (
    *("builtins." + name for name in ("bool", "int", "float", "complex", "slice")),
    *("datetime." + name for name in ("datetime", "date", "time", "timedelta", "tzinfo")),
    *("pandas." + name for name in ("Timestamp", "Timedelta", "Period", "NaTType", "NAType")),
    *("decimal.Decimal", "fractions.Fraction", "uuid.UUID", "re.Pattern", "re.Match"),
    *("pathlib.PurePath", "pathlib._local.PurePath", "numpy.generic", "pandas.Interval"),
)
DESCRIBERS: dict[str, Describer] = {
    **dict.fromkeys(_PLAIN, plain_value),
    **dict.fromkeys(("builtins.NoneType", "builtins.ellipsis"), nothing),
    "builtins.NotImplementedType": nothing,
    "builtins.str": text,
    "builtins.bytes": binary,
    "builtins.bytearray": binary,
    "builtins.memoryview": binary,
}
