"""Data frames are read from the HTML of pandas and polars as rows of text."""

from __future__ import annotations

import html

import pandas as pd
import polars as pl
import pytest

from jupyter_agent.core.data_tables import DataTable, is_frame, table_of
from jupyter_agent.core.messages import Output


def shown(value: object, kind: str = "result") -> Output:
    markup = value if isinstance(value, str) else value._repr_html_()  # type: ignore[attr-defined]
    return Output(kind, {"text/html": markup, "text/plain": "x"})  # type: ignore[arg-type]


def texts(table: DataTable | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row] for row in (*table.head, *table.body)]


FRAME = pd.DataFrame({"a": [1, 2], "b <i>": ["<script>1</script>", "x"]})


def test_a_small_frame() -> None:
    """Labels and values come as they are, without any markup."""
    table = table_of(shown(FRAME))
    assert texts(table) == [["", "a", "b <i>"], ["0", "1", "<script>1</script>"], ["1", "2", "x"]]
    assert table is not None and table.shape == "2×2"


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (pd.DataFrame({"a": range(1234)}), "1,234×1"),
        (pd.DataFrame([range(70)]), "1×70"),
        (FRAME.groupby("b <i>").agg({"a": ["mean", "sum"]}), "2×2"),
        (FRAME.set_index(["a", "b <i>"]).assign(z=1), "2×1"),
        (pl.DataFrame({"a": range(1234)}), "1,234×1"),
        (pl.DataFrame({"a": [1, 2], "b": [3, 4]}), "2×2"),
    ],
)
def test_the_shape(value: object, shape: str) -> None:
    """Rows and columns are counted, also of a frame that is shown in parts."""
    table = table_of(shown(value))
    assert table is not None and table.shape == shape


def test_cells_that_cover_others() -> None:
    """A label above two columns covers two columns."""
    table = table_of(shown(FRAME.groupby("b <i>").agg({"a": ["mean", "sum"]})))
    assert table is not None and [cell.across for cell in table.head[0]] == [1, 2]


@pytest.mark.parametrize(
    "output",
    [
        shown("<table><tr><td>1</td></tr></table>"),
        shown('<table class="dataframe">' + "<tr><td>x</td></tr>" * 20_000 + "</table>"),
        shown('<table class="dataframe"></table>'),
        shown('<table class="dataframe"><tr><td>1</td></tr></table>' * 2),
        Output("result", {"text/plain": "a"}),
        Output("stdout", {"text/html": str(FRAME.to_html())}),
    ],
    ids=["another table", "too long", "empty", "two", "text", "printed"],
)
def test_what_is_no_frame(output: Output) -> None:
    """Whatever is no single data frame of a sensible size stays text."""
    assert table_of(output) is None


def test_a_hostile_frame() -> None:
    """Styles, scripts, spans without end and unended tags give text, and little of it."""
    rows = "<tr><td colspan=" + "9" * 5_000 + " rowspan=x onclick=1>" + "y" * 5_000 + "</td></tr>"
    markup = (
        f'<style>td{{}}</style><table border="1" class="dataframe"><script>1</script>{rows}'
        f"<tr><td>{html.escape('<b>')}</td><td>open"
    )
    output = shown(markup)
    assert is_frame(output)
    table = table_of(output)
    assert table is not None
    (cell,) = table.body[0]
    assert (cell.across, cell.down, len(cell.text)) == (100, 1, 200)
