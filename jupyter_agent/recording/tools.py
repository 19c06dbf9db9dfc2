"""Tools whose words depend on what an earlier execution of the notebook left, or on a server."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jupyter_agent.core.messages import JsonObject, ToolSpec, is_served
from jupyter_agent.core.tool import Tool, ToolReturn
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.recording.cassette_model import Remembered
from jupyter_agent.recording.tool_results import CallKey, ToolRecording, touch

_REMEMBERED = frozenset(
    {"write_file", "edit_file", "read_file", "search_files"}
    | {"record_note", "workspace_save_memory"}
)


def remembering(
    tools: list[Tool], workspace: Workspace, past: Callable[[], ToolRecording | None]
) -> list[Tool]:
    """The tools, which in a recording take down what they found, and in a replay tell it again.

    Args:
        tools: Any tools; those that have nothing to do with files, notes or servers stay as
            they are.
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
            with _failures_taken_down(now, about):
                result = run(**values)
            return _settled(now, about, result)

        @functools.wraps(run)
        async def waiting(**values: Any) -> str | ToolReturn:
            now = past()
            if now is None:
                return await run(**values)  # type: ignore[no-any-return]
            about = touch(workspace, tool.name, values)
            if (then := now.instead(about)) is not None:
                return _returned(then)
            with _failures_taken_down(now, about):
                result = await run(**values)
            return _settled(now, about, result)

        return replace(tool, function=waiting if inspect.iscoroutinefunction(run) else function)

    return [
        with_past(tool) if tool.name in _REMEMBERED or is_served(tool.name) else tool
        for tool in tools
    ]


@contextmanager
def _failures_taken_down(now: ToolRecording, about: CallKey) -> Iterator[None]:
    """A file that was not there to be read, or a server that did not answer, is told of again."""
    try:
        yield
    except ToolError as error:
        now.settle(about, Remembered(about.tool, about.arguments, str(error), is_error=True))
        raise


def _settled(now: ToolRecording, about: CallKey, result: str | ToolReturn) -> ToolReturn:
    """The result of a run as it is to be told. A picture from a file is the same in a replay."""
    known = _remembered(about.tool, about.arguments, result)
    from_file = known.blocks and not known.is_served
    return _returned(known if from_file else now.settle(about, known))


def recalled_tools(served: Mapping[str, JsonObject]) -> list[Tool]:
    """Tools of MCP servers in a replay, for `remembering`: they know what is recorded, no more.

    Args:
        served: Their schemas by name.
    """
    return [_recalled(name, schema) for name, schema in served.items()]


def _recalled(name: str, schema: JsonObject) -> Tool:
    async def call(**arguments: Any) -> ToolReturn:
        raise ToolError(f"{name} was not called like this when the cell was recorded.")

    spec = ToolSpec(name, "A tool of an MCP server, as it was recorded.", schema)
    return Tool(spec, call, any_arguments(schema), "executes")


def _remembered(tool: str, arguments: str, result: str | ToolReturn) -> Remembered:
    if isinstance(result, str):
        return Remembered(tool, arguments, result)
    said = {"text": result.content} if isinstance(result.content, str) else {}
    blocks = () if isinstance(result.content, str) else result.content
    return Remembered(
        tool,
        arguments,
        **said,
        blocks=blocks,
        is_error=result.is_error,
        display=result.display,
        details=dict(result.details),
    )


def _returned(known: Remembered) -> ToolReturn:
    return ToolReturn(known.blocks or known.text, known.display, known.details, known.is_error)
