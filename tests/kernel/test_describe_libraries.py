"""Objects of libraries, as far as these are installed: what is told of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_agent.kernel.describe import describe


def import_of(name: str) -> Any:
    return pytest.importorskip(name)


def polars_frame() -> Any:
    pl = import_of("polars")
    return pl.DataFrame({"a": [1], "b": [{"c": ["x"]}]})


def xarray_dataset() -> Any:
    values = import_of("numpy").ones((2, 3))
    return import_of("xarray").Dataset({"t": (("x", "y"), values)}, {"x": [1, 2]}, {"units": "K"})


def pipeline() -> Any:
    steps = [("scale", import_of("sklearn.preprocessing").StandardScaler().fit([[1.0], [2.0]]))]
    return import_of("sklearn.pipeline").Pipeline(steps)


def network() -> Any:
    nn = import_of("torch").nn
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU()).eval()


def drawing() -> Any:
    figure = import_of("matplotlib.figure").Figure(figsize=(4, 3))
    figure.subplots().plot([1], [2])
    return figure


def structured() -> Any:
    np = import_of("numpy")
    return np.zeros(3, dtype=[("a", "i4"), ("b", "f8", (2,))])


def model() -> Any:
    pydantic = import_of("pydantic")
    return pydantic.create_model("Made", a=(int, 1), b=(list[str], ["x"]))()


EXPECTED: dict[str, tuple[Callable[[], Any], str]] = {
    "polars frame": (
        polars_frame,
        "polars DataFrame, 1 row × 2 columns\ncolumns:\n  a: Int64\n  b: Struct(c: List(String))",
    ),
    "polars series": (
        lambda: polars_frame()["a"],
        "polars Series, 1 row, Int64, named a",
    ),
    "pyarrow table": (
        lambda: import_of("pyarrow").table({"a": [1]}),
        "pyarrow Table, 1 row × 1 column\ncolumns:\n  a: int64",
    ),
    "xarray dataset": (
        xarray_dataset,
        "xarray Dataset, 1 variable, sizes (x: 2, y: 3)\ncoordinates:\n  x: int64 (x)\n"
        "variables:\n  t: float64 (x, y)\nattrs: units",
    ),
    "xarray array": (
        lambda: xarray_dataset()["t"],
        "xarray DataArray, float64 (x, y), sizes (x: 2, y: 3), named t\n"
        "coordinates:\n  x: int64 (x)",
    ),
    "sparse array": (
        lambda: import_of("scipy.sparse").csr_array([[1.0, 0.0]]),
        "csr_array, shape (1, 2), float64, csr, 1 stored value",
    ),
    "sparse matrix": (
        lambda: import_of("scipy.sparse").lil_matrix((2, 2)),
        "lil_matrix, shape (2, 2), float64, lil",
    ),
    "pipeline": (
        pipeline,
        "Pipeline, 1 step\nsteps:\n  scale: StandardScaler, fitted, 3 parameters\n"
        "    parameters:\n      copy: bool\n      with_mean: bool\n      with_std: bool\n"
        "    learnt:\n      n_features_in_: int\n      n_samples_seen_: float64\n"
        "      mean_: ndarray, shape (1,), float64\n      var_: ndarray, shape (1,), float64\n"
        "      scale_: ndarray, shape (1,), float64",
    ),
    "torch tensor": (
        lambda: import_of("torch").ones(2, 3),
        "torch Tensor, shape (2, 3), torch.float32, cpu",
    ),
    "torch module": (
        network,
        "torch Sequential, 9 parameters, evaluation mode\nmodules:\n"
        "  0: torch Linear, 9 parameters, evaluation mode\n    parameters:\n"
        "      weight: torch Parameter, shape (3, 2), torch.float32, cpu, requires grad\n"
        "      bias: torch Parameter, shape (3,), torch.float32, cpu, requires grad\n"
        "  1: torch ReLU, 0 parameters, evaluation mode",
    ),
    "figure": (
        drawing,
        "Figure, 4.0 × 3.0 inches, 1 axes\naxes:\n  Axes, 1 line\n    scales: linear × linear",
    ),
    "structured array": (
        structured,
        "ndarray, shape (3,), fields\nfields:\n  a: int32\n  b: float64 (2,)",
    ),
    "pydantic model": (
        model,
        "Made, pydantic model, 2 fields\na: int\nb: list, 1 item (str)",
    ),
}


@pytest.mark.parametrize(("made", "text"), EXPECTED.values(), ids=EXPECTED.keys())
def test_what_is_told_of_each(made: Callable[[], Any], text: str) -> None:
    """One object of each library at schema: its whole description."""
    assert describe(made()) == text


def test_an_estimator_that_is_not_fitted_says_so() -> None:
    """An estimator before it is fitted: its parameters by name and type."""
    text = describe(import_of("sklearn.linear_model").LinearRegression())
    assert text.startswith("LinearRegression, not fitted, ")
    assert "fit_intercept: bool" in text
    assert "learnt" not in text


def test_a_sample_of_each_shows_values() -> None:
    """Arrays and tables at sample: the first values follow."""
    np = import_of("numpy")
    assert describe(np.arange(10), "sample").endswith("first: [0, 1, 2, 3, 4, 5]")
    assert describe(np.zeros((0, 3)), "sample") == "ndarray, shape (0, 3), float64"


@pytest.mark.parametrize(
    ("made", "end"),
    [
        (polars_frame, "rows:\n  a | b\n  1 | {'c': ['x']}"),
        (lambda: import_of("pyarrow").table({"a": [1]}), "rows:\n  a\n  1"),
        (lambda: import_of("torch").tensor([[1, 2], [3, 4]]), "first: [1, 2]"),
        (lambda: import_of("scipy.sparse").csr_array([[1, 0]]), "first stored: [1]"),
        (xarray_dataset, "attrs:\n  units: 'K'"),
    ],
)
def test_samples_of_other_libraries(made: Callable[[], Any], end: str) -> None:
    """Objects of other libraries at sample: a few values follow the structure."""
    assert describe(made(), "sample").endswith(end)
