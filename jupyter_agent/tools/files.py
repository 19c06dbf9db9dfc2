"""The tools for files: reading, writing, editing, listing and searching in one workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_agent.core.tool import Tool
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.describing import FileSight, describing_tools
from jupyter_agent.tools.editing import BeforeWrite, editing_tools, nothing_before
from jupyter_agent.tools.reading import reading_tools
from jupyter_agent.tools.search import Hidden, nothing_hidden, search_tools

FILE_TOOLS = frozenset(
    {"read_file", "describe_file", "write_file", "edit_file", "list_files", "search_files"}
)


def file_tools(
    workspace: Workspace,
    hidden: Hidden = nothing_hidden,
    withheld: Callable[[], bool] = lambda: False,
    skill_file: Callable[[str], Path] | None = None,
    before_write: BeforeWrite = nothing_before,
    described: Callable[[], FileSight] | None = FileSight,
) -> list[Tool]:
    """`read_file`, `describe_file`, `write_file`, `edit_file`, `list_files` and `search_files`.

    Each takes paths inside of the workspace only, and shows them relative to its root. What it
    refuses is a `ToolError`, and then nothing was changed. `hidden` gives files that are never
    listed or searched, since they differ between a recording and its replay; `withheld` whether
    what code has shown, which the state folder keeps, must not be read; `skill_file` the real
    path of a skill's file, which `read_file` reads besides. `before_write` is told of each write
    before it is made, so that what is there can be kept. `described` says how much `describe_file`
    may tell; None leaves it out.
    """
    return [
        *reading_tools(workspace, withheld, skill_file),
        *(describing_tools(workspace, described, withheld) if described is not None else ()),
        *editing_tools(workspace, before_write),
        *search_tools(workspace, hidden),
    ]
