"""At schema not one data value leaves the kernel: markers are planted in the data of every type."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_agent.kernel.describe import describe, one_line

TEXT = "MARKER text"
NAME = "marker_value"
NUMBER = 987654321
DATE = datetime.date(1987, 6, 5)
MARKERS = re.compile(r"marker|987[,_.]?654|1987|1[.]2345678", re.IGNORECASE)


def import_of(name: str) -> Any:
    return pytest.importorskip(name)


# Plain Python ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Record:
    text: str = TEXT
    number: int = NUMBER
    inner: dict[str, Any] = dataclasses.field(default_factory=lambda: {TEXT: {NUMBER: TEXT}})


@dataclasses.dataclass(slots=True)
class SlottedRecord:
    text: str = NAME


class Plain:
    shared = TEXT

    def __init__(self) -> None:
        self.text = TEXT
        self.number = NUMBER
        self.inner = {"key": [NAME]}

    def __repr__(self) -> str:
        return f"<{TEXT}>"


class Kind(enum.Enum):
    ONE = TEXT
    TWO = NUMBER


class Word(enum.StrEnum):
    ONE = TEXT


class Number(enum.IntFlag):
    ONE = NUMBER


Pair = collections.namedtuple("Pair", "left right", defaults=(NUMBER, TEXT))


def called(
    text: str = TEXT,
    number: typing.Literal[987654321] = 987654321,  # type: ignore[assignment]
    *,
    word: typing.Annotated[list[str], "MARKER", 987654321] = (NAME,),  # type: ignore[assignment]
) -> None:
    """Take defaults."""


def annotated(value: Any = None) -> Any:
    """Have annotations that are objects."""


annotated.__annotations__ = {
    "value": typing.Annotated[typing.Literal["MARKER text", 987654321], NUMBER],
    "return": dict[str, typing.Literal["MARKER text"]] | None,
}


def default_dict() -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = collections.defaultdict(list)
    grouped[NAME].append(TEXT)
    return grouped


def chained() -> BaseException:
    error = ValueError(TEXT, NUMBER)
    error.add_note(TEXT)
    error.__cause__ = KeyError(NAME)
    return error


def open_file() -> io.TextIOBase:
    file = io.StringIO(TEXT)
    file.name = TEXT  # type: ignore[attr-defined]
    return file


PYTHON: dict[str, Callable[[], object]] = {
    "str": lambda: TEXT,
    "bytes": TEXT.encode,
    "bytearray": lambda: bytearray(TEXT.encode()),
    "memoryview": lambda: memoryview(TEXT.encode()),
    "int": lambda: NUMBER,
    "float": lambda: 1.2345678,
    "complex": lambda: complex(NUMBER, NUMBER),
    "Decimal": lambda: decimal.Decimal(NUMBER),
    "Fraction": lambda: fractions.Fraction(1, NUMBER),
    "date": lambda: DATE,
    "datetime": lambda: datetime.datetime(1987, 6, 5),
    "timedelta": lambda: datetime.timedelta(seconds=NUMBER),
    "UUID": lambda: uuid.UUID(int=NUMBER),
    "Path": lambda: pathlib.Path(TEXT),
    "Pattern": lambda: re.compile(TEXT),
    "Match": lambda: re.match("M", TEXT),
    "slice": lambda: slice(NUMBER, NUMBER, NUMBER),
    "range": lambda: range(NUMBER, NUMBER + 2),
    "list": lambda: [TEXT, NUMBER, DATE, [TEXT], {TEXT: TEXT}],
    "tuple": lambda: (TEXT, NUMBER, (TEXT,)),
    "named tuple": lambda: Pair(TEXT, [NUMBER]),
    "set": lambda: {TEXT, NUMBER},
    "frozenset": lambda: frozenset({TEXT}),
    "deque": lambda: collections.deque([TEXT], maxlen=5),
    "dict values": lambda: {"key": TEXT, "number": NUMBER, "nested": {"deeper": [TEXT]}},
    "dict keys": lambda: {TEXT: 1, NUMBER: 2, DATE: 3},
    "dict of many": lambda: {f"{NAME}_{i}": i for i in range(100)},
    "dict of numbers in names": lambda: {f"id_{NUMBER}": 1},
    "dict keys view": {NAME: 1}.keys,
    "dict values view": {"a": NAME}.values,
    "dict items view": {NAME: NAME}.items,
    "mappingproxy": lambda: types.MappingProxyType({NAME: TEXT}),
    "OrderedDict": lambda: collections.OrderedDict([("key", TEXT)]),
    "Counter": lambda: collections.Counter([NAME]),
    "defaultdict": default_dict,
    "ChainMap": lambda: collections.ChainMap({TEXT: TEXT}),
    "UserDict": lambda: collections.UserDict({TEXT: TEXT}),
    "array": lambda: array.array("q", [NUMBER]),
    "dataclass": Record,
    "dataclass with slots": SlottedRecord,
    "dataclass itself": lambda: Record,
    "plain object": Plain,
    "plain class": lambda: Plain,
    "namespace": lambda: types.SimpleNamespace(text=TEXT, number=NUMBER),
    "enum member": lambda: Kind.ONE,
    "enum": lambda: Kind,
    "str enum member": lambda: Word.ONE,
    "int flag": lambda: Number.ONE,
    "named tuple itself": lambda: Pair,
    "exception": chained,
    "exception group": lambda: ExceptionGroup(TEXT, [ValueError(TEXT)]),
    "function": lambda: called,
    "annotated function": lambda: annotated,
    "lambda": lambda: lambda x=TEXT: x,
    "closure": lambda: functools.wraps(called)(lambda: TEXT),
    "partial": lambda: functools.partial(called, TEXT, number=NUMBER),
    "cached": lambda: functools.lru_cache(called),
    "bound method": lambda: Plain().__init__,  # type: ignore[misc]
    "builtin method": lambda: TEXT.upper,
    "generator": lambda: (part for part in [TEXT]),
    "iterator": lambda: iter([TEXT]),
    "map": lambda: map(str, [NUMBER]),
    "file": open_file,
    "bytes file": lambda: io.BytesIO(TEXT.encode()),
    "timezone": lambda: datetime.timezone(datetime.timedelta(hours=1), TEXT),
}


# Libraries ---------------------------------------------------------------------------------------


def pandas_frame() -> Any:
    pd = import_of("pandas")
    frame = pd.DataFrame(
        {
            "text": [TEXT, None],
            "number": [NUMBER, 1],
            "when": pd.to_datetime([DATE, None]),
            "label": pd.Categorical([NAME, None]),
        },
        index=pd.Index([TEXT, NAME]),
    )
    frame["object"] = [{TEXT: NUMBER}, Plain()]
    frame.attrs = {TEXT: TEXT, "source": TEXT}
    return frame


def pandas_all() -> list[Any]:
    pd = import_of("pandas")
    frame = pandas_frame()
    pairs = pd.MultiIndex.from_tuples([(NAME, NUMBER)], names=["outer", None])
    pivot = pd.DataFrame([[1]], columns=pd.CategoricalIndex([NAME]))
    return [
        frame,
        frame["text"],
        frame["label"],
        frame.loc[NAME],
        frame.index,
        frame["label"].array,
        frame.groupby("text"),
        frame.groupby(["text", "label"], observed=True)["number"],
        frame.groupby(frame["text"]),
        frame.groupby(lambda key: TEXT),
        frame.groupby([[NAME, NAME]]),
        pairs,
        pd.DataFrame([[1]], index=pairs, columns=["a"]),
        pd.DataFrame([[1]], columns=pd.DatetimeIndex([DATE])),
        pivot,
        pivot.T,
        pd.Series([NUMBER] * 3, dtype=pd.SparseDtype(int, NUMBER)),
        pd.Series([1], index=[NUMBER], name=NUMBER),
        pd.Series([1], name=DATE),
        pd.interval_range(NUMBER, NUMBER + 2),
        pd.RangeIndex(NUMBER, NUMBER + 3),
        pd.date_range(DATE, periods=3, freq="D"),
        pd.period_range("1987-06", periods=2, freq="M"),
        pd.Timestamp(DATE),
        pd.Timedelta(NUMBER, "s"),
        pd.Period("1987-06", "M"),
        pd.Interval(NUMBER, NUMBER + 1),
        pd.CategoricalDtype([NAME]),
        pd.array([NUMBER, None], dtype="Int64"),
        pd.array([NAME, None], dtype="string"),
    ]


def numpy_all() -> list[Any]:
    np = import_of("numpy")
    record = np.dtype([((TEXT, "a"), "i8"), ("b", [("c", "f8", (2,))])], metadata={"x": TEXT})
    return [
        np.array([NUMBER]),
        np.array([TEXT]),
        np.array([TEXT, NUMBER, Plain()], dtype=object),
        np.array(NUMBER),
        np.array([(NUMBER, ([1.5, 2.5],))], dtype=record),
        np.array([(NUMBER, ([1.5, 2.5],))], dtype=record)[0],
        record,
        np.array(["1987-06-05"], dtype="datetime64[D]"),
        np.datetime64("1987-06-05"),
        np.int64(NUMBER),
        np.str_(TEXT),
        np.float64(1.2345678),
        np.ma.masked_array([NUMBER], mask=[False], fill_value=NUMBER),
    ]


def polars_all() -> list[Any]:
    pl = import_of("polars")
    frame = pl.DataFrame(
        {
            "text": [TEXT],
            "number": [NUMBER],
            "when": [DATE],
            "nested": [{"inner": [TEXT]}],
            "choice": pl.Series([NAME], dtype=pl.Enum([NAME])),
            "choices": pl.Series([[NAME]], dtype=pl.List(pl.Enum([NAME]))),
            "label": pl.Series([NAME], dtype=pl.Categorical),
        }
    )
    lazy = frame.lazy().filter(pl.col("text") == TEXT)
    return [frame, *frame.get_columns(), lazy, pl.col("a") == TEXT, pl.lit(NUMBER), frame.schema]


def pyarrow_all() -> list[Any]:
    pa = import_of("pyarrow")
    table = pa.table(
        {"text": [TEXT], "number": [NUMBER], "label": pa.array([NAME]).dictionary_encode()}
    ).replace_schema_metadata({"MARKER": TEXT})
    return [
        table,
        table.column(0),
        table.to_batches()[0],
        pa.array([TEXT]),
        table.schema,
        pa.scalar(TEXT),
    ]


def xarray_all() -> list[Any]:
    xr = import_of("xarray")
    dataset = xr.Dataset(
        {"t": (("x",), [NUMBER])},
        coords={"x": [TEXT], "when": ("x", [DATE])},
        attrs={"units": TEXT, "MARKER key": NUMBER},
    )
    return [dataset, dataset["t"], dataset["x"], dataset["t"].variable]


def scipy_all() -> list[Any]:
    sparse = import_of("scipy.sparse")
    formats = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
    return [getattr(sparse.csr_array([[NUMBER, 0]]), f"to{kind}")() for kind in formats] + [
        sparse.csr_matrix([[NUMBER]])
    ]


def sklearn_all() -> list[Any]:
    np = import_of("numpy")
    linear = import_of("sklearn.linear_model")
    pipeline = import_of("sklearn.pipeline")
    preprocessing = import_of("sklearn.preprocessing")
    pandas = import_of("pandas")
    data = pandas.DataFrame({"a": [NUMBER, NUMBER + 1.0]})
    model = linear.LogisticRegression(C=NUMBER, solver="lbfgs", class_weight={TEXT: NUMBER})
    fitted = linear.LinearRegression().fit(np.array([[NUMBER], [1]]), [NUMBER, 1])
    encoder = preprocessing.OneHotEncoder().fit([[TEXT]])
    scaler = preprocessing.StandardScaler().fit(data)
    return [model, fitted, encoder, scaler, pipeline.make_pipeline(scaler, model)]


def torch_all() -> list[Any]:
    torch = import_of("torch")
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(layer.weight, NUMBER)
    layer.note = TEXT
    optimizer = torch.optim.SGD(layer.parameters(), lr=NUMBER)
    return [
        torch.tensor([NUMBER]),
        torch.tensor(NUMBER),
        layer,
        layer.weight,
        optimizer,
        torch.nn.Sequential(layer),
    ]


def matplotlib_all() -> list[Any]:
    figures = import_of("matplotlib.figure")
    figure = figures.Figure()
    axes = figure.subplots()
    axes.plot([NUMBER], [NUMBER], label=TEXT)
    axes.set(title=TEXT, xlabel=TEXT, ylabel=TEXT)
    figure.suptitle(TEXT)
    return [figure, axes, axes.lines[0], axes.title]


def duckdb_all() -> list[Any]:
    duckdb = import_of("duckdb")
    connection = duckdb.connect()
    values = f"'{NAME}'::ENUM('{NAME}', 'it''s (MARKER)') as choice, {NUMBER} as number"
    nested = f"{{'a': '{NAME}'::ENUM('{NAME}')}} as nested, ['{TEXT}'] as texts"
    return [connection.sql(f"select {values}, {nested}"), connection]


def dask_all() -> list[Any]:
    dd = import_of("dask.dataframe")
    da = import_of("dask.array")
    dask = import_of("dask")
    frame = dd.from_pandas(pandas_frame().drop(columns="object").sort_index(), npartitions=1)
    return [
        frame,
        frame["text"],
        frame["label"],
        frame.index,
        da.from_array([NUMBER]),
        dask.delayed(str)(TEXT),
    ]


def ibis_all() -> list[Any]:
    ibis = import_of("ibis")
    table = ibis.table({"a": "string"}, name="t").filter(ibis._.a == TEXT)
    return [table, table.a == TEXT, ibis.literal(NUMBER), ibis.literal(TEXT)]


def pydantic_all() -> list[Any]:
    pydantic = import_of("pydantic")
    model = pydantic.create_model("Made", text=(str, TEXT), inner=(dict[str, int], {TEXT: NUMBER}))
    made = model()
    try:
        model(text=NUMBER)
    except pydantic.ValidationError as error:
        return [model, made, error]
    return []


LIBRARIES: dict[str, Callable[[], list[Any]]] = {
    "pandas": pandas_all,
    "numpy": numpy_all,
    "polars": polars_all,
    "pyarrow": pyarrow_all,
    "xarray": xarray_all,
    "scipy": scipy_all,
    "sklearn": sklearn_all,
    "torch": torch_all,
    "matplotlib": matplotlib_all,
    "duckdb": duckdb_all,
    "dask": dask_all,
    "ibis": ibis_all,
    "pydantic": pydantic_all,
}


def leaks(value: object) -> list[str]:
    """The texts about the value, alone and inside others, in which a marker is found."""
    around = (value, [value], {"key": value}, {1: value}, types.SimpleNamespace(held=value))
    texts = [describe(one) for one in around] + [one_line(one) for one in around]
    return [text for text in texts if MARKERS.search(text)]


@pytest.mark.parametrize("made", PYTHON.values(), ids=PYTHON.keys())
def test_python_objects_keep_their_data(made: Callable[[], object]) -> None:
    """Markers in the data of each type of Python: none is in a text at schema."""
    assert leaks(made()) == []


@pytest.mark.parametrize("made", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_objects_of_libraries_keep_their_data(made: Callable[[], list[Any]]) -> None:
    """Markers in values, labels, categories, attributes, metadata: none is in a text at schema."""
    for value in made():
        assert leaks(value) == []


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        NUMBER,
        [TEXT],
        (NUMBER,),
        {TEXT},
        {"key": TEXT},
        {TEXT: 1},
        Record(),
        Plain(),
        Kind.ONE,
        chained(),
        called,
        DATE,
        pathlib.Path(TEXT),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_sample_does_show_data(value: object) -> None:
    """The same markers at sample: there they are, so that the test above can fail."""
    shown = describe(value, "sample")
    assert MARKERS.search(shown) or "Kind.ONE" in shown


def test_samples_of_frames_show_data() -> None:
    """A frame at sample and at full: its labels and values are there."""
    for level in ("sample", "full"):
        text = describe(pandas_frame(), level)  # type: ignore[arg-type]
        assert all(marker in text for marker in (TEXT, NAME, str(NUMBER), "1987-06-05"))
        assert "<Plain>" in text


def test_names_tell_nothing_else() -> None:
    """All objects at the level names: only the type's name."""
    for made in PYTHON.values():
        value = made()
        assert describe(value, "names") == one_line(value, "names") == type(value).__name__
