"""What the model reads below an error: the names that exist where one was not found."""

from __future__ import annotations

import pytest
from live_kernel import LiveKernel

FRAME = """
import pandas as pd
columns = {"trip_minutes": [1, 2], "fare_usd": [3, 4], "Zone": ["a", "b"]}
trips = pd.DataFrame(columns, index=["x", "y"])
"""


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("trips['minutes']", "Nearest columns: trip_minutes."),
        ("trips[['Zone', 'fare']]", "Nearest columns: fare_usd."),
        ("trips.groupby('zones').size()", "Nearest columns: Zone."),
        ("trips.sort_values('fare usd')", "Nearest columns: fare_usd."),
        ("trips['weather']", "The columns: trip_minutes, fare_usd, Zone."),
        ("trips.fare", "Nearest columns: fare_usd.)"),
        ("trips.gruopby('Zone')", "Nearest attributes: groupby."),
        ("trips.assign(a=lambda t: t['fare'])", "Nearest columns: fare_usd."),
        ("pd.read_cvs('a.csv')", "Nearest attributes: read_csv"),
    ],
)
def test_tables(kernel: LiveKernel, code: str, hint: str) -> None:
    """Code names a column or a method that a table does not have."""
    kernel.helper(FRAME)
    assert f"(hint: {hint}" in kernel.agent(code).result.text


def test_labels_of_rows_are_data(kernel: LiveKernel) -> None:
    """A row that is not there: neither the columns nor the labels of other rows are told."""
    kernel.helper(FRAME)
    assert "hint" not in kernel.agent("trips.loc['z']").result.text


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("total_count = 3\ntotal_cuont", "Nearest variables: total_count."),
        ("np.zeros(3)", "It is not imported: import numpy as np."),
        ("config = {'host': 1, 'port': 2}\nconfig['prot']", "Nearest keys: port."),
        (
            "def area(width, *, height=2, **more): ...\narea(3, 4)",
            "Its parameters: area(width, *, height=…, **more).",
        ),
        (
            "class Box:\n    def __init__(self, size, colour='red'): ...\nBox(sise=3)",
            "Its parameters: __init__(size, colour=…).",
        ),
        ("class Box:\n    size = 3\nBox().sise", "Nearest attributes: size."),
    ],
)
def test_names(kernel: LiveKernel, code: str, hint: str) -> None:
    """Code misspells a variable, a key, a parameter or an attribute of its own."""
    assert f"(hint: {hint})" in kernel.agent(code).result.text


def test_files(kernel: LiveKernel) -> None:
    """Code opens a file whose name differs from one that is there."""
    (kernel.folder / "sales_2025.csv").write_text("a\n1\n")
    text = kernel.agent("open('sales-2025.csv')").result.text
    assert "(hint: Nearest files: sales_2025.csv.)" in text


def test_data_are_not_told(kernel: LiveKernel) -> None:
    """A dictionary by names of people: its keys are data."""
    code = "people = {'Ada Lovelace': 1, 'Alan Turing': 2}\npeople['Ada']"
    assert "hint" not in kernel.agent(code).result.text


def test_no_code_of_a_class_runs(kernel: LiveKernel) -> None:
    """An object whose every special method says that it was called."""
    code = """
class Loud:
    def __getattr__(self, name):
        if name == "wanted": raise AttributeError(name, name=name, obj=self)
        print("getattr", name)
    def __dir__(self): print("dir"); return []
    @property
    def wanting(self): print("property")
Loud().wanted
"""
    result = kernel.agent(code).result
    assert result.text.count("getattr") == result.text.count("__getattr__")
    assert "(hint: Nearest attributes: wanting.)" in result.text
