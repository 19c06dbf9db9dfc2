"""A table in few tokens, for small models: each column with its type and its first values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice, zip_longest
from typing import Any

from jupyter_agent.kernel.describe.frames import column_names, pandas_dtype, pandas_frame
from jupyter_agent.kernel.describe.introspection import module_name, type_name
from jupyter_agent.kernel.describe.parts import Level, count, inert, label, shows_values
from jupyter_agent.kernel.describe.registry import describer_of
from jupyter_agent.kernel.describe.values import short

_ROWS = 50
"""The first rows, in which a column's values are looked for."""
_VALUES = 3
_NUMBERS = 2
_COLUMNS = 100
"""Columns that are looked at."""
_LONGEST_VALUE = 24
_COUNTED = 2_000_000
"""Cells of a table whose missing values are counted."""


def brief_frame(value: Any, level: Level, limit: int) -> str:
    """A pandas DataFrame: one line with its columns and their types.

    With values (`level` is `sample`) each column has a line of its own, with its first different
    values and the number of its missing ones. Empty for any other object, and where the person
    registered a describer.

    Args:
        value: The object.
        level: What may be shown.
        limit: Characters, about; of columns that find no room the names are told.
    """
    cls = type(value)
    is_plain = module_name(cls).partition(".")[0] == "pandas" and type_name(cls) == "DataFrame"
    if not is_plain or describer_of(cls) is not pandas_frame:
        return ""
    names = column_names(value)
    headline = f"DataFrame, {count(len(value), 'row')}{_index(value.index)}"
    if shows_values(level):
        columns, around, between = list(_with_values(value, names[:_COLUMNS])), "\n- ", "\n- "
    else:
        columns, around, between = list(_with_types(value, names[:_COLUMNS])), ", columns: ", ", "
    if len(names) > _COLUMNS or sum(len(each) + len(between) for each in columns) > limit:
        # Half of the room is for the names of the others.
        sizes = accumulate(len(each) + len(between) for each in columns)
        kept = sum(size <= limit // 2 for size in sizes)
        rest = inert(", ".join(names[kept:]), max(0, limit // 2 - 60))
        columns[kept:] = [f"and {count(len(names) - kept, 'column')} more: {rest}"]
    return f"{headline}{around}{between.join(columns)}" if columns else headline


def _index(index: Any) -> str:
    names = [label(one) for one in index.names if type(one) is str]
    kind = type_name(type(index))
    if kind == "RangeIndex" and not names:
        return ""
    return f", index: {', '.join(names) or kind}"


def _with_types(value: Any, names: list[str]) -> Iterator[str]:
    for name, dtype in zip(names, value.dtypes.array[: len(names)], strict=True):
        yield f"{name} {pandas_dtype(dtype)}"


def _with_values(value: Any, names: list[str]) -> Iterator[str]:
    missing: list[int] = []
    if value.size <= _COUNTED:
        missing = value.isna().sum().tolist()
    columns = zip_longest(names, value.dtypes.array[: len(names)], missing[: len(names)])
    for place, (name, dtype, absent) in enumerate(columns):
        words = [f"{name}: {pandas_dtype(dtype)}"]
        if len(value):
            held = value.iloc[:_ROWS, place].tolist()
            first = dict.fromkeys(short(one, _LONGEST_VALUE) for one in held)
            most = _NUMBERS if dtype.kind in "iuf" else _VALUES
            words.append(": " + ", ".join(islice(first, most)))
        if absent:
            words.append(f" ({absent:,} missing)")
        yield "".join(words)
