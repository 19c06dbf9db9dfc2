"""The tool that describes a variable without running any code of the model's."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.describe import describe

Detail = Literal["schema", "sample", "full"]


def inspect_tools(
    variables: Callable[[], Mapping[str, object]], shapes_only: Callable[[], bool]
) -> list[Tool]:
    """`inspect_variable`.

    Args:
        variables: Gives the person's variables.
        shapes_only: Whether no data may reach the model: then each detail is that of `schema`.
    """

    @tool("reads")
    async def inspect_variable(
        name: str,
        detail: Annotated[
            Detail, Field(description="schema: structure only; sample: some values; full: more.")
        ] = "schema",
    ) -> str:
        """Describe a variable of the kernel: its type, structure and, on request, values.

        Never starts a computation: lazy tables are described by their structure.
        """
        present = variables()
        if name not in present:
            raise ToolError(_unknown(name, present))
        level: Detail = "schema" if shapes_only() else detail
        return f"{name}: {describe(present[name], level)}"

    return [inspect_variable]


def _unknown(name: str, present: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, present, 3)
    hint = f" Near names: {', '.join(near)}." if near else ""
    return (
        f"There is no variable {name!r}.{hint} This takes a plain name; use execute_code for an "
        "expression."
    )
