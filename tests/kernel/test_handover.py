"""Values on their way between processes: exact, and read with care on the way back."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import os
import pathlib
import re
import shutil
import subprocess
import uuid
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from jupyter_agent.kernel.handover import NotHandedOver, pack, unpack

COLUMNS = {
    "number": [1.5, None],
    "text": ["x", None],
    "object": np.array([{"a": 1}, None], dtype=object),
    "when": pd.to_datetime(["2024-01-01", "2024-07-01"]).tz_localize("Europe/Berlin"),
    "kind": pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True),
    "nullable": pd.array([1, None], dtype="Int64"),
    "flag": pd.array([True, None], dtype="boolean"),
    "month": pd.period_range("2024-01", periods=2, freq="M"),
    "span": pd.interval_range(0, 2),
    "sparse": pd.arrays.SparseArray([0, 1]),
    "arrow": pd.array([1, 2], dtype="int64[pyarrow]"),
    "took": pd.to_timedelta([1, 2], unit="h"),
}
ROWS = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", None])


class Colour(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


def there_and_back(value: object, folder: Path, restricted: bool) -> Any:
    path = folder / uuid.uuid4().hex
    return unpack(pack(value, path), path, restricted=restricted)


@pytest.fixture(params=[False, True], ids=["there", "back"])
def restricted(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_frames_come_back_equal(tmp_path: Path, restricted: bool) -> None:
    """A frame of many types, with an index of two levels: all is as before, and can be changed."""
    frame = pd.DataFrame(COLUMNS, index=ROWS)
    frame.attrs["unit"] = "m"
    frame.columns.name = "column"
    found = there_and_back(frame, tmp_path, restricted)
    pd.testing.assert_frame_equal(found, frame, check_freq=True)
    assert (found.attrs, found.dtypes.tolist()) == (frame.attrs, frame.dtypes.tolist())
    found.loc[("a", 1), "number"] = 7.0
    assert frame["number"].iloc[0] == 1.5


def test_arrays_come_back_equal(tmp_path: Path, restricted: bool) -> None:
    """Arrays of any order and type keep both; a changed copy changes neither array nor file."""
    for array in (
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::2],
        np.zeros(2, dtype=[("a", "i4"), ("b", "U3")]),
        np.array([1, "a"], dtype=object),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.zeros((0, 3)),
        np.ma.masked_array([1, 2], [False, True]),
    ):
        found = there_and_back(array, tmp_path, restricted)
        assert (type(found), found.dtype, found.shape) == (type(array), array.dtype, array.shape)
        assert found.flags.f_contiguous == array.copy(order="K").flags.f_contiguous
        assert found.tolist() == array.tolist()
    path, array = tmp_path / "array", np.arange(3)
    record = pack(array, path)
    unpack(record, path, restricted=restricted)[0] = 9  # type: ignore[index]
    assert unpack(record, path, restricted=restricted)[0] == 0  # type: ignore[index]
    array.flags.writeable = False
    assert not there_and_back(array, tmp_path, restricted).flags.writeable


def test_arrow_tables_go_by_arrow(tmp_path: Path, restricted: bool) -> None:
    """Tables of PyArrow and Polars keep schema, metadata and categories, and go as Arrow files."""
    table = pa.table(
        {"a": [1, None], "c": pa.array(["x", "y"]).dictionary_encode()},
        metadata={"source": "here"},
    )
    record = pack(table.slice(1), tmp_path / "table")
    found: Any = unpack(record, tmp_path / "table", restricted=restricted)
    assert record["how"] == "Table" and found.equals(table.slice(1), check_metadata=True)
    batch = table.to_batches()[0]
    assert there_and_back(batch, tmp_path, restricted).equals(batch)
    frame = pl.DataFrame(
        {
            "e": pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"])),
            "c": pl.Series(["u", None], dtype=pl.Categorical),
            "when": pl.Series([datetime.datetime(2024, 1, 1)] * 2).dt.replace_time_zone("UTC"),
            "nested": [[1], [2, None]],
        }
    )
    record = pack(frame, tmp_path / "frame")
    found = unpack(record, tmp_path / "frame", restricted=restricted)
    assert record["how"] == "polars" and found.equals(frame) and found.schema == frame.schema


def test_tables_that_arrow_cannot_store(tmp_path: Path, restricted: bool) -> None:
    """A table whose dictionaries differ by chunk goes by pickle; Polars' objects are told."""
    chunks = [pa.array(list(each)).dictionary_encode() for each in ("ab", "cb")]
    table = pa.table({"kind": pa.chunked_array(chunks)})
    assert there_and_back(table, tmp_path, restricted).equals(table)
    frame = pl.DataFrame({"any": [{1}, None]}, schema={"any": pl.Object})
    with pytest.raises(NotHandedOver, match="Object is not supported"):
        pack(frame, tmp_path / "frame")


def test_other_values_come_back_equal(tmp_path: Path, restricted: bool) -> None:
    """Plain values, those of the standard library, and of modules that are imported here."""
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    for value in (
        {"a": [1, 2.5, 1j, "ü", b"x", None, ..., (True,), {1}, frozenset([2]), range(3)]},
        datetime.datetime(2024, 7, 1, tzinfo=zone),
        [decimal.Decimal("1.10"), uuid.UUID(int=1), pathlib.PurePosixPath("a/b"), type(None)],
        [collections.Counter("aab"), collections.OrderedDict(a=1), collections.deque([1], 3)],
        [pd.Timestamp("2024", tz=zone), pd.Timedelta(1, "h"), pd.Period("2024-01"), pd.NaT],
        [re.compile("a+"), Colour.RED, Point(1, 2), np.float32(0.5)],
        collections.defaultdict(list, a=[1]),
    ):
        assert there_and_back(value, tmp_path, restricted) == value
    assert str(there_and_back(ValueError("bad"), tmp_path, restricted)) == "bad"
    matrix = there_and_back(scipy.sparse.csr_matrix([[1, 0]]), tmp_path, restricted)
    assert matrix.toarray().tolist() == [[1, 0]]
    drawn = np.random.default_rng(1)
    assert there_and_back(drawn, tmp_path, restricted).random() == drawn.random()


def test_a_model_comes_back(tmp_path: Path) -> None:
    """A fitted model of scikit-learn, which is imported here, predicts the same."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = np.random.default_rng(0).random((50, 3))
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    model.fit(data, data[:, 0] > 0.5)
    found = there_and_back(model, tmp_path, True)
    assert (found.predict(data) == model.predict(data)).all()


def test_what_cannot_go_is_told(tmp_path: Path) -> None:
    """Values without a copy, and what the notebook alone defines: the reason in one line."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def double(x): return 2 * x\nclass Mine: pass\none = [Mine()]", space)
    for value, reason in (
        (space["double"], "it needs the function double, which only exists where it was defined"),
        (space["one"], "it needs the class Mine, which only exists where it was defined"),
        ((i for i in "ab"), "cannot pickle 'generator' object"),
        (lambda: 1, "<lambda>"),
        (re, "module"),
    ):
        with pytest.raises(NotHandedOver, match=re.escape(reason)) as told:
            there_and_back(value, tmp_path, False)
        assert "\n" not in str(told.value)


class _Calls:
    """Unpickles as the result of a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call


def test_the_way_back_runs_no_foreign_calls(tmp_path: Path) -> None:
    """A value that would call a function while it is read is refused, and nothing is called."""
    target = tmp_path / "target"
    for function, *arguments in (
        (os.system, f"touch {target}"),
        (subprocess.Popen, ["touch", str(target)]),
        (eval, f"open({str(target)!r}, 'w')"),
        (open, str(target), "w"),
        (getattr, collections.OrderedDict, "fromkeys"),
        (type, "Made", (), {}),
        (shutil.rmtree, str(tmp_path)),
        (np.save, str(target), [1]),
        (pd.DataFrame.to_csv, pd.DataFrame(), str(target)),
        (pd.eval, "1"),
        (pd.io.common.os.mkdir, str(target)),
        (unpack, {}, target),
    ):
        with pytest.raises(NotHandedOver, match="must not run here"):
            there_and_back([_Calls(function, *arguments)], tmp_path, True)
    assert not target.exists() and tmp_path.exists()


def test_the_way_back_exchanges_no_method(tmp_path: Path) -> None:
    """A value that sets attributes of a class or a function is refused, even if reading it then
    fails, and the class is as before: the next call of the method would run the agent's call.
    """
    for named, attribute, rest in (
        (b"ccollections\nCounter\n", "most_common", b""),
        (b"ccollections\nCounter\n", "a_new_one", b""),
        (b"cpathlib\nPurePath\n", "joinpath", b"0cos\nsystem\n"),
        (b"ccopyreg\n_reconstructor\n", "__defaults__", b""),
    ):
        # The value's attribute is set: (None, {attribute: ()}) is a state with attributes.
        state = b"N}X" + len(attribute).to_bytes(4, "little") + attribute.encode() + b")s\x86b"
        path = tmp_path / uuid.uuid4().hex
        path.write_bytes(b"\x80\x04" + named + state + rest + b".")
        path.with_name(f"{path.name}.buffers").touch()
        with pytest.raises(NotHandedOver, match="it changes "):
            unpack({"how": "pickle", "buffers": []}, path, restricted=True)
    assert collections.Counter("aab").most_common(1) == [("a", 2)]
    assert not hasattr(collections.Counter, "a_new_one")
    assert pathlib.PurePath("a").joinpath("b") == pathlib.PurePath("a/b")
    assert there_and_back(collections.Counter("aab"), tmp_path, True) == {"a": 2, "b": 1}


def test_the_way_back_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of a module that is not imported here is refused by the module's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_module.py").write_text("class Thing: pass\n")
    import importlib
    import sys

    record = pack(importlib.import_module("their_module").Thing(), tmp_path / "thing")
    del sys.modules["their_module"]
    with pytest.raises(NotHandedOver, match="the module their_module, which is not imported here"):
        unpack(record, tmp_path / "thing", restricted=True)
    assert "their_module" not in sys.modules


def test_damaged_files_are_told(tmp_path: Path) -> None:
    """A file that was cut off is an error in one line, not a crash."""
    for value in (np.arange(1000), pa.table({"a": range(1000)}), pl.DataFrame({"a": range(1000)})):
        path = tmp_path / type(value).__module__.replace(".", "_")
        record = pack(value, path)
        for each in path.parent.glob(f"{path.name}*"):
            each.write_bytes(each.read_bytes()[: each.stat().st_size // 2])
        with pytest.raises(NotHandedOver):
            unpack(record, path, restricted=True)
