"""What is lazy stays lazy: nothing is computed or worked out, and nothing raises."""

from __future__ import annotations

import types
from typing import Any

import pytest

from jupyter_agent.kernel.describe import Level, describe, one_line

LEVELS: tuple[Level, ...] = ("names", "schema", "sample", "full")


def touched(*args: Any, **kwargs: Any) -> Any:
    """Stands for the person's code in a lazy computation."""
    raise AssertionError("the computation ran")


def all_levels(value: object) -> str:
    """The description at schema, after all levels were asked for, alone and inside a list."""
    for level in LEVELS:
        assert describe([value], level)
        assert one_line(value, level)
        assert describe(value, level)
    return describe(value)


def test_polars_frames_are_not_resolved(tmp_path: Any) -> None:
    """Lazy frames of which the schema or the computation fails: neither is asked for."""
    pl = pytest.importorskip("polars")
    frame = pl.LazyFrame({"a": [1]})
    broken = [
        frame.map_batches(touched),
        frame.select(pl.col("missing")),
        frame.with_columns(pl.col("a").map_elements(touched, return_dtype=pl.Int64)),
        pl.scan_csv(tmp_path / "missing.csv"),
        frame.group_by("a"),
    ]
    for value in broken:
        assert all_levels(value).startswith("polars Lazy")


def test_dask_collections_are_not_computed() -> None:
    """Dask frames, arrays, bags and delayed calls whose functions fail."""
    dd = pytest.importorskip("dask.dataframe")
    da = pytest.importorskip("dask.array")
    bag = pytest.importorskip("dask.bag")
    dask = pytest.importorskip("dask")
    pd = pytest.importorskip("pandas")
    meta = pd.DataFrame({"a": [1], "b": ["x"]})
    frame = dd.from_pandas(meta, npartitions=1).map_partitions(touched, meta=meta)
    assert all_levels(frame) == (
        "dask DataFrame, 2 columns, not computed\ncolumns:\n  a: int64\n  b: str"
    )
    assert all_levels(frame.a) == "dask Series, int64, not computed"
    assert "not computed" in all_levels(frame.set_index("a"))
    assert "not computed" in all_levels(frame.groupby("a"))
    assert "not computed" in all_levels(frame.a.sum())
    assert "not computed" in all_levels(dd.from_map(touched, [1, 2], meta=meta))
    array = da.ones((10, 3), chunks=5).map_blocks(touched, dtype=float)
    assert all_levels(array).startswith("dask Array, shape (10, 3), float64, not computed")
    assert "1 partition" in all_levels(bag.from_sequence([1], npartitions=1).map(touched))
    assert "not computed" in all_levels(dask.delayed(touched)(1))


def test_dask_inside_xarray_is_not_computed() -> None:
    """An xarray over a Dask array that fails: its types are told, its values are not fetched."""
    xr = pytest.importorskip("xarray")
    da = pytest.importorskip("dask.array")
    array = da.ones((4, 3), chunks=2).map_blocks(touched, dtype=float)
    dataset = xr.Dataset({"t": (("x", "y"), array)})
    assert "t: float64 (x, y), not in memory" in all_levels(dataset)
    assert "not in memory" in all_levels(dataset["t"])


def test_duckdb_is_not_executed() -> None:
    """A relation whose execution fails, and the connection with a result that is being read."""
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql("select error('the computation ran') as a, 1 as b")
    text = all_levels(relation)
    assert text.startswith("duckdb relation, 2 columns, not computed\ncolumns:\n  a: ")
    assert text.endswith("b: INTEGER")
    pending = connection.execute("select * from range(3)")
    assert all_levels(connection).startswith("duckdb connection")
    assert len(pending.fetchall()) == 3


def test_ibis_is_not_executed() -> None:
    """An expression over a table that no database holds: columns are told, nothing is run."""
    ibis = pytest.importorskip("ibis")
    table = ibis.table({"a": "int", "b": "string"}, name="nowhere")
    assert all_levels(table).startswith("ibis Table, 2 columns, not computed")
    assert all_levels(table.a.sum()) == "ibis IntegerScalar, int64, not computed"


def failing(module: str, name: str, **held: Any) -> object:
    """An object of a library that is not installed, whose every method fails."""
    methods = dict.fromkeys(
        (
            "schema",
            "columns",
            "dtypes",
            "count",
            "collect",
            "take",
            "head",
            "show",
            "__len__",
            "__iter__",
            "__repr__",
            "__str__",
            "materialize",
            "shape",
            "toPandas",
            "rdd",
        ),
        property(touched),
    )
    value = type(name, (), {**methods, "__module__": module})()
    vars(value).update(held)
    return value


@pytest.mark.parametrize(
    ("module", "name", "headline"),
    [
        ("pyspark.sql.dataframe", "DataFrame", "pyspark DataFrame, not computed"),
        ("pyspark.sql.classic.dataframe", "DataFrame", "pyspark DataFrame, not computed"),
        ("pyspark.sql.connect.dataframe", "DataFrame", "pyspark DataFrame, not computed"),
        ("pyspark.pandas.frame", "DataFrame", "pyspark.pandas DataFrame, not computed"),
        ("pyspark.rdd", "RDD", "pyspark RDD, not computed"),
        ("ray.data.dataset", "Dataset", "ray Dataset, not computed"),
        ("ray._raylet", "ObjectRef", "ray ObjectRef, not computed"),
        ("polars.lazyframe.frame", "LazyFrame", "polars LazyFrame, not computed"),
        ("dask.dataframe.core", "DataFrame", "dask DataFrame, not computed"),
    ],
)
def test_stand_ins_are_not_asked(module: str, name: str, headline: str) -> None:
    """Stand-ins for libraries that are not installed: no method of theirs is called."""
    assert all_levels(failing(module, name)).split("\n")[0] == headline


def test_a_known_spark_schema_is_told() -> None:
    """A Spark frame that was asked for its schema before: the columns are told."""
    field = types.SimpleNamespace(
        name="a", dataType=types.SimpleNamespace(simpleString=lambda: "bigint")
    )
    schema = types.SimpleNamespace(fields=[field])
    frame = failing("pyspark.sql.dataframe", "DataFrame", _schema=schema)
    assert all_levels(frame).endswith("columns:\n  a: bigint")
