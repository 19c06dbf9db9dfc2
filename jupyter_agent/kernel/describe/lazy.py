"""Lazy objects, which are not computed here: polars, Dask, Spark, Ray, DuckDB and ibis.

Reads only data that the object already holds. Columns are left out if they are not known yet,
since their computation may read a file, ask a server or call the user's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_agent.kernel.describe.arrays import dtype, shape
from jupyter_agent.kernel.describe.frames import pandas_dtype
from jupyter_agent.kernel.describe.introspection import (
    MISSING,
    attributes,
    class_attribute,
    type_name,
)
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Part,
    count,
    inert,
    label,
    name,
)

# The values of an ENUM are data: 'a', 'it''s'.
_ENUM = re.compile(r"ENUM\s*\((?:[^')]|'(?:[^']|'')*')*\)", re.IGNORECASE)


def opaque(library: str, hint: str) -> Describer:
    """A describer of objects that hold no data before their computation."""

    def describer(value: Any, level: Level) -> Iterator[Part]:
        yield f"{library} {type_name(type(value))}, not computed"
        if hint:
            yield hint

    return describer


def dask_frame(value: Any, level: Level) -> Iterator[Part]:
    """A Dask DataFrame or Series: its columns, if they are known already."""
    meta = _dask_meta(value)
    kind = type_name(type(value))
    if meta is None:
        yield f"dask {kind}, not computed"
        return
    if hasattr(meta, "columns"):
        yield f"dask {kind}, {count(len(meta.columns), 'column')}, not computed"
        types = zip(meta.columns.tolist(), meta.dtypes.array, strict=True)
        lines = (f"{label(key)}: {pandas_dtype(one)}" for key, one in types)
        yield Listing("columns", len(meta.columns), lines)
    else:
        kept = getattr(meta, "dtype", None)
        yield f"dask {kind}, {pandas_dtype(kept) if kept is not None else '?'}, not computed"


def dask_array(value: Any, level: Level) -> Iterator[Part]:
    """A Dask array: shape, type and number of chunks."""
    blocks = [len(sizes) for sizes in value.chunks]
    yield f"dask Array, shape {shape(value.shape)}, {dtype(value.dtype)}, not computed"
    yield f"chunks: {shape(blocks)}"


def dask_bag(value: Any, level: Level) -> Iterator[Part]:
    """A Dask bag: its number of partitions."""
    yield f"dask Bag, {count(attributes(value)['npartitions'], 'partition')}, not computed"


def spark_frame(value: Any, level: Level) -> Iterator[Part]:
    """A Spark DataFrame: its columns, if it has been asked for them before."""
    held = attributes(value)
    schemas = (held.get(key) for key in ("_schema", "_cached_schema", "schema"))
    schema = next((one for one in schemas if one is not None), None)
    if schema is None:
        yield "pyspark DataFrame, not computed"
        yield "its columns: ask printSchema()"
        return
    fields = attributes(schema)["fields"]
    yield f"pyspark DataFrame, {count(len(fields), 'column')}, not computed"
    lines = (f"{name(f.name)}: {inert(f.dataType.simpleString(), 120)}" for f in fields)
    yield Listing("columns", len(fields), lines)


def duckdb_relation(value: Any, level: Level) -> Iterator[Part]:
    """A DuckDB relation: its columns, known since it was made. It is not executed."""
    columns = list(value.columns)
    yield f"duckdb relation, {count(len(columns), 'column')}, not computed"
    types = zip(columns, value.types, strict=True)
    lines = (f"{name(key)}: {inert(_ENUM.sub('ENUM', str(one)), 120)}" for key, one in types)
    yield Listing("columns", len(columns), lines)


def duckdb_connection(value: Any, level: Level) -> Iterator[Part]:
    """A DuckDB connection, without its tables: that query would end a running one."""
    yield "duckdb connection"
    yield "its tables: ask SHOW TABLES"


def ibis_table(value: Any, level: Level) -> Iterator[Part]:
    """An ibis table: its columns, which follow from the expression."""
    fields = list(value.schema().items())
    yield f"ibis Table, {count(len(fields), 'column')}, not computed"
    lines = (f"{name(key)}: {inert(str(one), 120)}" for key, one in fields)
    yield Listing("columns", len(fields), lines)


def ibis_value(value: Any, level: Level) -> Iterator[Part]:
    """An ibis column or scalar: its type."""
    yield f"ibis {type_name(type(value))}, {inert(str(value.type()), 120)}, not computed"


def _dask_meta(value: Any) -> Any:
    """The empty frame with the result's columns, if it exists: its creation may run code."""
    held = attributes(value)
    expression = held.get("_expr")
    if expression is None:
        return held.get("_meta")
    meta = attributes(expression).get("_meta")
    if meta is not None:
        return meta
    made: Callable[[Any], Any] | Any = class_attribute(type(expression), "_meta")
    return None if made is MISSING or hasattr(made, "__get__") else made


_SCHEMA = "its columns: collect_schema() works them out"
_DASK_FRAMES = ("DataFrame", "Series", "Index", "FrameBase", "_Frame", "Scalar")
DESCRIBERS: dict[str, Describer] = {
    "polars.LazyFrame": opaque("polars", _SCHEMA),
    "polars.LazyGroupBy": opaque("polars", ""),
    "polars.lazyframe.group_by.LazyGroupBy": opaque("polars", ""),
    "polars.Expr": opaque("polars", ""),
    **{f"dask.dataframe.{kind}": dask_frame for kind in _DASK_FRAMES},
    "dask.dataframe.GroupBy": opaque("dask", ""),
    "dask.array.Array": dask_array,
    "dask.bag.Bag": dask_bag,
    "dask.bag.Item": opaque("dask", ""),
    "dask.delayed.Delayed": opaque("dask", ""),
    "distributed.Future": opaque("dask", ""),
    "pyspark.sql.DataFrame": spark_frame,
    "pyspark.sql.GroupedData": opaque("pyspark", ""),
    "pyspark.sql.Column": opaque("pyspark", ""),
    "pyspark.RDD": opaque("pyspark", ""),
    "pyspark.pandas.DataFrame": opaque("pyspark.pandas", ""),
    "pyspark.pandas.Series": opaque("pyspark.pandas", ""),
    "ray.data.Dataset": opaque("ray", "its columns: ask schema()"),
    "ray.data.GroupedData": opaque("ray", ""),
    "ray.ObjectRef": opaque("ray", ""),
    "duckdb.DuckDBPyRelation": duckdb_relation,
    "_duckdb.DuckDBPyRelation": duckdb_relation,
    "duckdb.DuckDBPyConnection": duckdb_connection,
    "_duckdb.DuckDBPyConnection": duckdb_connection,
    "ibis.expr.types.Table": ibis_table,
    "ibis.expr.types.Value": ibis_value,
    "ibis.expr.types.Expr": opaque("ibis", ""),
}
