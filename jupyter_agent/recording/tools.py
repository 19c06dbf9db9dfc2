"""Wraps tools whose results depend on an earlier execution of the notebook, or on a server."""

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
from jupyter_agent.recording.tool_results import CallKey, ToolRecording, call_key

_REMEMBERED = frozenset(
    {"write_file", "edit_file", "read_file", "search_files"}
    | {"record_note", "workspace_save_memory"}
)


def with_recorded_results(
    tools: list[Tool], workspace: Workspace, recording: Callable[[], ToolRecording | None]
) -> list[Tool]:
    """Wraps tools so that their results are recorded, or replayed.

    Args:
        tools: Any tools; only those for files, notes or servers are wrapped.
        workspace: The workspace of the tools.
        recording: Returns the recording of the current turn; None if it has none.
    """

    def with_recording(tool: Tool) -> Tool:
        run: Callable[..., Any] = tool.function

        @functools.wraps(run)
        def function(**values: Any) -> str | ToolReturn:
            current = recording()
            if current is None:
                return run(**values)  # type: ignore[no-any-return]
            key = call_key(workspace, tool.name, values)
            if (recorded := current.lookup(key)) is not None:
                return _returned(recorded)
            with _failure_recorded(current, key):
                result = run(**values)
            return _recorded(current, key, result)

        @functools.wraps(run)
        async def waiting(**values: Any) -> str | ToolReturn:
            current = recording()
            if current is None:
                return await run(**values)  # type: ignore[no-any-return]
            key = call_key(workspace, tool.name, values)
            if (recorded := current.lookup(key)) is not None:
                return _returned(recorded)
            with _failure_recorded(current, key):
                result = await run(**values)
            return _recorded(current, key, result)

        return replace(tool, function=waiting if inspect.iscoroutinefunction(run) else function)

    return [
        with_recording(tool) if tool.name in _REMEMBERED or is_served(tool.name) else tool
        for tool in tools
    ]


@contextmanager
def _failure_recorded(recording: ToolRecording, key: CallKey) -> Iterator[None]:
    """Record a `ToolError` of the run, too: a missing file, a server that did not answer."""
    try:
        yield
    except ToolError as error:
        recording.record(key, Remembered(key.tool, key.arguments, str(error), is_error=True))
        raise


def _recorded(recording: ToolRecording, key: CallKey, result: str | ToolReturn) -> ToolReturn:
    """Records a tool result, or replays it. A picture from a file is not recorded."""
    remembered = _remembered(key.tool, key.arguments, result)
    from_file = remembered.blocks and not remembered.is_served
    return _returned(remembered if from_file else recording.record(key, remembered))


def replayed_server_tools(served: Mapping[str, JsonObject]) -> list[Tool]:
    """The tools of MCP servers in a replay: they return recorded results, or fail.

    Wrap them by `with_recorded_results`.

    Args:
        served: Their schemas by name.
    """
    return [_replayed(name, schema) for name, schema in served.items()]


def _replayed(name: str, schema: JsonObject) -> Tool:
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


def _returned(result: Remembered) -> ToolReturn:
    return ToolReturn(result.blocks or result.text, result.display, result.details, result.is_error)
