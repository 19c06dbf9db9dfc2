"""Tools whose words depend on what an earlier execution of the notebook left behind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jupyter_agent.llm.entries import Remembered
from jupyter_agent.llm.past import Past, touch
from jupyter_agent.tools.tool import Tool, ToolReturn
from jupyter_agent.workspace import Workspace

_REMEMBERED = frozenset(
    {"write_file", "edit_file", "read_file", "record_note", "workspace_save_memory"}
)


def remembering(
    tools: list[Tool], workspace: Workspace, past: Callable[[], Past | None]
) -> list[Tool]:
    """The tools, which in a recording take down what they found, and in a replay tell it again.

    Args:
        tools: Any tools; those that have nothing to do with files or notes stay as they are.
        workspace: Where they work.
        past: Gives the past of the turn at hand; None where it is neither recorded nor replayed.
    """

    def with_past(tool: Tool) -> Tool:
        run: Callable[..., Any] = tool.function

        @functools.wraps(run)
        def function(**values: Any) -> str | ToolReturn:
            now = past()
            if now is None:
                return run(**values)  # type: ignore[no-any-return]
            about = touch(workspace, tool.name, values)
            if (then := now.instead(about)) is not None:
                return _returned(then)
            result = run(**values)
            known = _remembered(tool.name, about.arguments, result)
            return result if known is None else _returned(now.settle(about, known))

        return replace(tool, function=function)

    return [with_past(tool) if tool.name in _REMEMBERED else tool for tool in tools]


def _remembered(tool: str, arguments: str, result: str | ToolReturn) -> Remembered | None:
    """A result of words; None for pictures and for errors, which are always told as they are."""
    if isinstance(result, str):
        return Remembered(tool, arguments, result)
    if result.is_error or not isinstance(result.content, str):
        return None
    return Remembered(tool, arguments, result.content, result.display, dict(result.details))


def _returned(known: Remembered) -> ToolReturn:
    return ToolReturn(known.text, known.display, known.details)
