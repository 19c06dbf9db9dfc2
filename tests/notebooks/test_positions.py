"""Where cells are in a notebook's file."""

from __future__ import annotations

import json

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.notebooks.check.positions import cell_lines


@given(st.lists(st.text(max_size=20), max_size=5), st.sampled_from([None, 1, 4]))
def test_every_cell_is_found(sources: list[str], indent: int | None) -> None:
    """In any layout of the file the reported line holds the first line of the cell's source."""
    cells = [{"metadata": {"cells": ["["]}, "source": [source, "\n"]} for source in sources]
    text = json.dumps({"metadata": {"a": "}"}, "cells": cells, "nbformat": 4}, indent=indent)
    lines = text.split("\n")
    found = cell_lines(text)
    assert len(found) == len(sources)
    for source, line in zip(sources, found, strict=True):
        assert json.dumps(source) in lines[line - 1]


def test_as_nbformat_writes_it() -> None:
    """The line of each cell's first line of source, in a file as front ends save it."""
    cells = [nbformat.v4.new_markdown_cell("# Title\ntext"), nbformat.v4.new_code_cell("a = 1")]
    text = nbformat.writes(nbformat.v4.new_notebook(cells=cells))
    first, second = cell_lines(text)
    assert "# Title" in text.split("\n")[first - 1]
    assert "a = 1" in text.split("\n")[second - 1]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"cells": 3}', '{"cells": [', '{"cells": [{]}', "[" * 100_000]
)
def test_what_is_no_notebook(text: str) -> None:
    """In a file that is no notebook nothing is found, without an error."""
    assert cell_lines(text) == []
