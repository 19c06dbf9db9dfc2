"""`tool_help`: what a request does not say about a tool, for when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError


def help_tools(tools: Sequence[Tool]) -> list[Tool]:
    """`tool_help`, about those of the tools that have more to say; no tool where none has."""
    told = {each.name: each for each in tools if each.more}
    if not told:
        return []

    @tool("reads")
    async def tool_help(name: str) -> ToolReturn:
        """Tell the rare arguments of a tool, and more about its use. Names:"""
        if name not in told:
            raise ToolError(f"There is no more about {name!r}, only about {', '.join(told)}.")
        # Recordings do not compare what is between these tags: an upgrade may say it better.
        text = f'<tool_help name="{name}">\n{told[name].more}\n</tool_help>'
        return ToolReturn(text, quotes=True)

    spec = tool_help.spec
    named = replace(spec, description=f"{spec.description} {', '.join(told)}.")
    return [replace(tool_help, spec=named)]
