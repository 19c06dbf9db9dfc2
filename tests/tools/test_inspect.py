"""`inspect_variable` as a model calls it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.tools.inspect import inspect_tools
from jupyter_agent.tools.toolbox import Toolbox


class Lazy:
    """A table that must not be computed."""

    computed = False

    def _fail(self, *_: object) -> Any:
        type(self).computed = True
        raise AssertionError("computed")

    compute = collect = head = __len__ = __iter__ = __repr__ = __getitem__ = _fail
    shape = columns = property(_fail)


async def inspect(
    variables: Mapping[str, object], shapes_only: bool = False, **arguments: object
) -> ToolResult:
    toolbox = Toolbox(inspect_tools(lambda: variables, lambda: shapes_only))
    return await toolbox.run(ToolCall("c1", "inspect_variable", json.dumps(arguments)))


async def test_details_grow() -> None:
    """More detail adds first the structure, next some values, and in the end more of them."""
    variables = {"words": [f"word {n}" for n in range(50)]}
    texts = [
        (await inspect(variables, name="words", detail=detail)).text
        for detail in ("schema", "sample", "full")
    ]
    assert texts[0].startswith("words: list, 50 items") and "word 0" not in texts[0]
    assert "word 1" in texts[1] and "word 40" not in texts[1]
    assert "word 40" in texts[2]


async def test_no_values_unless_asked_for() -> None:
    """Without a detail the structure is given, and no value."""
    assert (await inspect({"a": ["word"]}, name="a")).text == "a: list, 1 item (str)"


@pytest.mark.parametrize("detail", ["schema", "sample", "full"])
async def test_shapes_only(detail: str) -> None:
    """With data withheld each detail gives the structure only."""
    variables = {"a": {"key": "word", "other": ["word", "another word"]}}
    result = await inspect(variables, True, name="a", detail=detail)
    assert result.text.startswith("a: dict, 2 keys") and "word" not in result.text


async def test_an_unknown_name() -> None:
    """A misspelled name is an error with the near names."""
    result = await inspect({"penguins": 1, "other": 2}, name="pengins")
    assert (
        result.is_error and "There is no variable 'pengins'. Near names: penguins." in result.text
    )


@pytest.mark.parametrize("name", ["df.columns", "rows[0]", "", "_private", "1 + 1"])
async def test_an_expression_is_no_name(name: str) -> None:
    """An expression, or nothing, is refused without being evaluated."""
    result = await inspect({"df": Lazy(), "rows": [1]}, name=name)
    assert result.is_error and "use execute_code for an expression" in result.text


async def test_an_unknown_detail() -> None:
    """The schema refuses an unknown detail."""
    result = await inspect({"a": 1}, name="a", detail="everything")
    assert result.is_error and "do not fit its schema: detail" in result.text


@pytest.mark.parametrize("detail", ["schema", "sample"])
async def test_a_lazy_object_is_not_computed(detail: str) -> None:
    """A lazy table whose computation raises is described without being computed."""
    Lazy.__module__ = "dask.dataframe.core"
    result = await inspect({"lazy": Lazy()}, name="lazy", detail=detail)
    assert not result.is_error and "Lazy" in result.text
    assert detail == "sample" or not Lazy.computed


async def test_a_hostile_object() -> None:
    """An object that fails at everything is described by its type."""

    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("hostile")

    result = await inspect({"it": Hostile()}, name="it", detail="full")
    assert not result.is_error and "Hostile" in result.text


async def test_a_large_variable_is_bounded() -> None:
    """The full description of a list of a million texts is short."""
    result = await inspect({"it": ["x" * 1_000] * 100_000}, name="it", detail="full")
    assert len(result.text) < 21_000
