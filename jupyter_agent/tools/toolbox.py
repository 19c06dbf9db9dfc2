"""The tools on offer in a session, and the one way to run a call. It never raises."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import json
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from jupyter_agent.core.messages import Text, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.plaintext import defused
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.errors import ToolError


class Toolbox:
    """An ordered set of tools. The order is that of the schemas in every request."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name}")
            self._tools[tool.name] = tool
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())

    def runs_alone(self, call: ToolCall) -> bool:
        """Whether the call may change something, or waits, so that no other may run beside it."""
        tool = self._tools.get(call.name)
        if tool is None:
            return False
        return tool.effect != "reads" or (tool.waits and not tool.overlaps)

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        """Find the tool and check the arguments; a result where the call cannot be run."""
        try:
            tool = self._find(call.name)
            return Prepared(call, tool, _parse(tool, call.arguments))
        except ToolError as error:
            return ToolResult(call.id, (Text(str(error)),), is_error=True)

    async def run(self, call: ToolCall) -> ToolResult:
        """Check a call and carry it out, whatever the policy would say."""
        prepared = self.prepare(call)
        return await self.carry_out(prepared) if isinstance(prepared, Prepared) else prepared

    async def carry_out(self, prepared: Prepared) -> ToolResult:
        """Run a call and give its result, whatever happens. Only a cancellation passes through.

        Text in the result that looks like a delimiter of the session's own sections is defused.
        """
        call = prepared.call
        try:
            returned = await call_tool(prepared.tool, prepared.values)
        except ToolError as error:
            return _as_data(ToolResult(call.id, (Text(str(error)),), is_error=True))
        except Exception as error:
            failure = ToolResult(
                call.id,
                (Text(f"The tool {call.name} failed: {type(error).__name__}: {error}"),),
                is_error=True,
                details={"traceback": traceback.format_exc()},
            )
            return _as_data(failure)
        result = result_of(call, returned)
        is_quoted = isinstance(returned, ToolReturn) and returned.quotes
        return result if is_quoted else _as_data(result)

    def _find(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        # Sorted: servers are ready in any order, and a replay knows their tools in another one.
        names = sorted(self._tools)
        near = difflib.get_close_matches(name, names, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ToolError(
            f"There is no tool named {name!r}.{hint} The tools are: {', '.join(names)}."
        )


def _parse(tool: Tool, text: str) -> BaseModel:
    """The arguments as a checked object. Nothing is repaired or guessed."""
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ToolError(
            f"The arguments of {tool.name} are not valid JSON ({error}); "
            "perhaps they were cut off. The tool was not run. Send the whole call again."
        ) from None
    except RecursionError:
        raise ToolError(
            f"The arguments of {tool.name} are nested too deeply. The tool was not run."
        ) from None
    if not isinstance(value, dict):
        raise ToolError(
            f"The arguments of {tool.name} must be a JSON object, not {_json_type(value)}. "
            "The tool was not run."
        )
    try:
        return tool.arguments.model_validate_json(text or "{}")
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
            for item in error.errors()
        )
        raise ToolError(
            f"The arguments of {tool.name} do not fit its schema: {problems}. "
            f"It takes: {', '.join(tool.spec.parameters.get('properties', ())) or 'no arguments'}. "
            "The tool was not run."
        ) from None


def _json_type(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


async def call_tool(tool: Tool, values: Mapping[str, Any]) -> str | ToolReturn:
    """Call a tool's function with its arguments; a plain function in a worker thread."""
    if inspect.iscoroutinefunction(tool.function):
        returned = await tool.function(**values)
    else:
        returned = await asyncio.to_thread(tool.function, **values)
    if not isinstance(returned, (str, ToolReturn)):
        raise TypeError(f"it returned {type(returned).__name__}, not text")
    return returned


def _as_data(result: ToolResult) -> ToolResult:
    """The result without delimiters of the session's sections in its texts."""
    content = tuple(
        Text(defused(block.text)) if isinstance(block, Text) else block for block in result.content
    )
    return result if content == result.content else replace(result, content=content)


def result_of(call: ToolCall, returned: str | ToolReturn) -> ToolResult:
    """What a tool handed back, as the result of its call."""
    if isinstance(returned, str):
        return ToolResult(call.id, (Text(returned),))
    content = (Text(returned.content),) if isinstance(returned.content, str) else returned.content
    return ToolResult(call.id, content, returned.is_error, returned.display, returned.details)
