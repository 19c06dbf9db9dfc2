"""Tables: pandas, polars and pyarrow. Columns with their types; rows only if data may be shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from jupyter_agent.kernel.describe.introspection import type_name
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    inert,
    label,
    name,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

_ROWS = {"sample": 5, "full": 30}
_SHOWN_COLUMNS = {"sample": 12, "full": 40}
_MAX_COLUMNS = 5_000


# pandas ------------------------------------------------------------------------------------------


def pandas_frame(value: Any, level: Level) -> Iterator[Part]:
    """A pandas DataFrame: its shape, its columns with their types, its index."""
    rows, columns = value.shape
    yield f"{type_name(type(value))}, {count(rows, 'row')} × {count(columns, 'column')}"
    yield f"index: {_index_text(value.index)}"
    yield from _column_labels(value.columns)
    narrow = value.iloc[:0, :_MAX_COLUMNS] if columns > _MAX_COLUMNS else value
    dtypes = zip(_labels(narrow.columns), narrow.dtypes.array, strict=True)
    yield Listing("columns", columns, (f"{shown}: {pandas_dtype(d)}" for shown, d in dtypes))
    if shows_values(level) and rows:
        head = value.iloc[: _ROWS[level], : _SHOWN_COLUMNS[level]]
        held = [head.iloc[:, place].tolist() for place in range(head.shape[1])]
        records = zip(head.index.tolist(), *held, strict=True)
        yield _rows(records, ["", *_labels(head.columns, level)], rows)


def column_names(value: object) -> list[str]:
    """The names of the columns of a pandas or polars table; none for other objects."""
    tables = {
        each: getattr(sys.modules.get(each), "DataFrame", None) for each in ("pandas", "polars")
    }
    cls = type(value)
    if tables["pandas"] is not None and issubclass(cls, tables["pandas"]):
        return _labels(value.columns)  # type: ignore[attr-defined]
    if tables["polars"] is not None and issubclass(cls, tables["polars"]):
        return [name(each) for each in value.columns[:_MAX_COLUMNS]]  # type: ignore[attr-defined]
    return []


def pandas_series(value: Any, level: Level) -> Iterator[Part]:
    """A pandas Series: its length, its type, its index, and its name."""
    rows = len(value.array)
    headline = f"{type_name(type(value))}, {count(rows, 'row')}, {pandas_dtype(value.dtype)}"
    yield headline + _series_name(value, level)
    yield f"index: {_index_text(value.index)}"
    if shows_values(level) and rows:
        head = value.iloc[: _ROWS[level]]
        yield _rows(zip(head.index.tolist(), head.tolist(), strict=True), None, rows)


def pandas_index(value: Any, level: Level) -> Iterator[Part]:
    """A pandas Index: its length, its type and the names of its levels."""
    yield _index_text(value)
    if shows_values(level):
        yield f"first: {short(value[: _ROWS[level]].tolist(), 400)}"


def pandas_groups(value: Any, level: Level) -> Iterator[Part]:
    """A pandas GroupBy: the grouped frame and its keys. The groups are not computed."""
    held = value.keys if type(value.keys) is list else [value.keys]
    keys = [label(key) if type(key) is str else f"({type_name(type(key))})" for key in held]
    by = ", ".join(keys) if value.keys is not None else "levels of the index"
    yield f"{type_name(type(value))}, by {by}"
    yield Nested("of", value.obj)


def pandas_array(value: Any, level: Level) -> Iterator[Part]:
    """A pandas extension array: its length and its type."""
    yield f"{type_name(type(value))}, {count(len(value), 'item')}, {pandas_dtype(value.dtype)}"
    if shows_values(level):
        yield f"first: {short(list(value[: _ROWS[level]]), 400)}"


def pandas_dtype(dtype: Any) -> str:
    """A column's type, without the data that some types carry: categories, fill values."""
    kind = type_name(type(dtype))
    if kind == "CategoricalDtype":
        if dtype.categories is None:
            return "category"
        order = "ordered, " if dtype.ordered else ""
        return f"category ({order}{count(len(dtype.categories), 'label')})"
    if kind == "SparseDtype":
        return f"Sparse[{pandas_dtype(dtype.subtype)}]"
    return name(str(dtype))


def _index_text(index: Any) -> str:
    kind = type_name(type(index))
    names = [label(one) for one in index.names if type(one) is str]
    named = f", named {', '.join(names)}" if names else ""
    if kind == "MultiIndex":
        levels = ", ".join(pandas_dtype(one.dtype) for one in islice(index.levels, 10))
        return f"{kind}, {count(len(index), 'label')}, {index.nlevels} levels ({levels}){named}"
    return f"{kind}, {count(len(index), 'label')}, {pandas_dtype(index.dtype)}{named}"


def _column_labels(columns: Any) -> Iterator[str]:
    """Facts about columns' labels that are not plain names."""
    kind = type_name(type(columns))
    if kind not in {"Index", "RangeIndex"} or any(type(one) is str for one in columns.names):
        yield f"column labels: {_index_text(columns)}"


def _labels(columns: Any, level: Level = "schema") -> list[str]:
    """The names of columns. The labels of a CategoricalIndex are categories, and so data."""
    shown = columns[:_MAX_COLUMNS].tolist()
    if shows_values(level):
        return [short(one, 40) if type(one) is not str else name(one) for one in shown]
    hidden = type_name(type(columns)) == "CategoricalIndex"
    return ["(category)" if hidden else label(one) for one in shown]


def _series_name(series: Any, level: Level) -> str:
    """The name of a Series if it must be a column's. A row of a frame has its label as name,
    which is data, and the frame's column names as its index."""
    if type(series.name) is not str:
        return ""
    of_a_row = series.index.dtype.kind in "OUTS" or type_name(type(series.index)) == "MultiIndex"
    return f", named {label(series.name)}" if shows_values(level) or not of_a_row else ""


def _rows(records: Iterable[Sequence[Any]], header: Sequence[str] | None, total: int) -> Listing:
    """The first rows, a line for each, the fields between bars."""
    lines = [" | ".join(header)] if header else []
    lines += [" | ".join(short(field, 30) for field in record) for record in records]
    return Listing("rows", total + (1 if header else 0), lines)


# polars ------------------------------------------------------------------------------------------


def polars_frame(value: Any, level: Level) -> Iterator[Part]:
    """A polars DataFrame: its shape, its columns with their types."""
    rows, columns = value.height, value.width
    yield f"polars DataFrame, {count(rows, 'row')} × {count(columns, 'column')}"
    types = zip(value.columns, value.dtypes, strict=True)
    yield Listing("columns", columns, (f"{name(n)}: {polars_dtype(d)}" for n, d in types))
    if shows_values(level) and rows:
        head = value[: _ROWS[level], : _SHOWN_COLUMNS[level]]
        yield _rows(head.rows(), [name(one) for one in head.columns], rows)


def polars_series(value: Any, level: Level) -> Iterator[Part]:
    """A polars Series: its length, its type and its name."""
    named = f", named {name(value.name)}" if value.name else ""
    yield f"polars Series, {count(value.len(), 'row')}, {polars_dtype(value.dtype)}{named}"
    if shows_values(level):
        yield f"first: {short(value[: _ROWS[level]].to_list(), 400)}"


def polars_dtype(dtype: Any, depth: int = 3) -> str:
    """A type of polars, without the categories of an Enum."""
    kind = type_name(dtype if issubclass(type(dtype), type) else type(dtype))
    if kind in {"Enum", "Categorical"} or (kind in {"List", "Array", "Struct"} and not depth):
        return kind
    if kind in {"List", "Array"} and hasattr(dtype, "inner"):
        return f"{kind}({polars_dtype(dtype.inner, depth - 1)})"
    if kind == "Struct" and hasattr(dtype, "fields"):
        fields = dtype.fields
        inside = [f"{name(f.name)}: {polars_dtype(f.dtype, depth - 1)}" for f in fields[:8]]
        more = [f"{len(fields) - 8} more"] if len(fields) > 8 else []
        return f"Struct({', '.join(inside + more)})"
    return inert(str(dtype), 120)


# pyarrow -----------------------------------------------------------------------------------------


def arrow_table(value: Any, level: Level) -> Iterator[Part]:
    """A pyarrow Table or RecordBatch: its shape, its columns with their types."""
    rows, columns = value.num_rows, value.num_columns
    kind = type_name(type(value))
    yield f"pyarrow {kind}, {count(rows, 'row')} × {count(columns, 'column')}"
    schema = value.schema
    fields = (schema.field(place) for place in range(columns))
    yield Listing(
        "columns", columns, (f"{name(f.name)}: {inert(str(f.type), 120)}" for f in fields)
    )
    if shows_values(level) and rows:
        places = range(min(columns, _SHOWN_COLUMNS[level]))
        held = [value.column(place).slice(0, _ROWS[level]).to_pylist() for place in places]
        header = [name(schema.field(place).name) for place in places]
        yield _rows(zip(*held, strict=True), header, rows)


def arrow_array(value: Any, level: Level) -> Iterator[Part]:
    """A pyarrow array: its length and its type."""
    kind = type_name(type(value))
    yield f"pyarrow {kind}, {count(len(value), 'item')}, {inert(str(value.type), 120)}"
    if shows_values(level):
        yield f"first: {short(value.slice(0, _ROWS[level]).to_pylist(), 400)}"


def arrow_schema(value: Any, level: Level) -> Iterator[Part]:
    """A pyarrow Schema: the names and types of its fields."""
    yield f"pyarrow Schema, {count(len(value), 'field')}"
    fields = (value.field(place) for place in range(len(value)))
    lines = (f"{name(f.name)}: {inert(str(f.type), 120)}" for f in fields)
    yield Listing("fields", len(value), lines, titled=False)


DESCRIBERS: dict[str, Describer] = {
    "pandas.DataFrame": pandas_frame,
    "pandas.Series": pandas_series,
    "pandas.Index": pandas_index,
    "pandas.core.groupby.BaseGroupBy": pandas_groups,
    "pandas.api.extensions.ExtensionArray": pandas_array,
    "pandas.core.arrays.ExtensionArray": pandas_array,
    "polars.DataFrame": polars_frame,
    "polars.Series": polars_series,
    "pyarrow.Table": arrow_table,
    "pyarrow.RecordBatch": arrow_table,
    "pyarrow.Array": arrow_array,
    "pyarrow.ChunkedArray": arrow_array,
    "pyarrow.Schema": arrow_schema,
}
