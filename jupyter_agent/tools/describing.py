"""`describe_file`: what a file of data holds, before code reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.files.textfile import open_regular, system_refusals
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.describe import Level, describe
from jupyter_agent.kernel.describe.datafiles import DataFile

LIMIT = 4_000
"""Characters of one description."""


@dataclass(frozen=True, slots=True)
class FileSight:
    """How much of a file the model may be told.

    Attributes:
        values: True for ranges and first rows, too.
        is_withheld: True for nothing at all.
        why: The setting that withholds what is withheld.
    """

    values: bool = True
    is_withheld: bool = False
    why: str = ""


def describing_tools(
    workspace: Workspace,
    sight: Callable[[], FileSight] = FileSight,
    withheld: Callable[[], bool] = lambda: False,
) -> list[Tool]:
    """`describe_file`, for one workspace.

    Args:
        workspace: Where the files are.
        sight: How much the model may be told, asked for each call.
        withheld: Whether outputs of code are withheld from the model: then what the state folder
            keeps of them is, too.
    """

    @tool("reads")
    def describe_file(
        path: Annotated[str, Field(description="Relative to the workspace.")],
    ) -> str:
        """Describe a data file (CSV, JSON, Parquet, Excel, SQLite, text) before you load it.

        Rows, columns, types, ranges, missing values, delimiter, encoding, odd lines.
        """
        allowed = sight()
        if allowed.is_withheld:
            raise ToolError(f"Files are not described: {allowed.why}.")
        if withheld() and workspace.protects(workspace.resolve(path)):
            raise ToolError(f"{path} may hold outputs of code, which are withheld from you.")
        target = workspace.readable(path)
        shown = workspace.relative(target)
        with system_refusals(f"Reading {shown}"):
            open_regular(target, shown).close()
        level: Level = "sample" if allowed.values else "schema"
        text = describe(DataFile(target, shown), level, LIMIT)
        return (
            text if allowed.values else f"{text}\n(values and ranges are withheld: {allowed.why})"
        )

    return [describe_file]
