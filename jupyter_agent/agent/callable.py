"""Tools as functions of the agent's code, for models that call no tools.

They are bound in the kernel's namespace only while the code runs. Each call passes the schema, the
policy and the tool. A call that needs a question is refused, since running code cannot wait for
the user.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from jupyter_agent.agent.approval_gate import Note, Rule, Ruling, refused
from jupyter_agent.core.messages import Image, Output, Text, ToolCall, ToolResult
from jupyter_agent.core.tool import Prepared, Tool, ToolReturn
from jupyter_agent.errors import ToolError
from jupyter_agent.kernel.marks import own
from jupyter_agent.llm.code_protocol import ACT, WRITTEN_AS_CODE, parameter_names, signature
from jupyter_agent.tools.toolbox import Toolbox, result_of

ALL = "agent_tools"
"""The name of the object with all functions, even if the user's variables hide some of them."""
Namespace = MutableMapping[str, Any]


class ToolCallError(Exception):
    """A tool refused or failed: its words."""

    __module__ = "builtins"  # a traceback shows the bare name


@dataclass(frozen=True, slots=True)
class CodeTools:
    """The namespace of the functions, and the policy for their calls.

    Args:
        namespace: The kernel's variables.
        hidden: The names in it that belong to IPython.
        rule: The policy for a call.
        passed: Called with the ruling of each call that may run.
        finished: Called with the result of each call that ran.
        show: Shows a picture as an output of the code.
        run: Runs a prepared call at once; None: `carried_out`.
    """

    namespace: Namespace
    hidden: Namespace
    rule: Rule
    passed: Note
    finished: Callable[[ToolResult], None] = lambda result: None
    show: Callable[[Image], None] = lambda image: None
    run: Callable[[Prepared], ToolResult] | None = None


class CallableToolbox(Toolbox):
    """A toolbox for models that write code in place of calls: its tools are functions there."""

    def __init__(self, tools: Iterable[Tool], around: CodeTools) -> None:
        self.tools = tuple(tools)
        super().__init__(self.tools)
        self._around = around

    async def carry_out(self, prepared: Prepared) -> ToolResult:
        call = prepared.call
        if call.name != ACT or call.metadata.get("provider") != WRITTEN_AS_CODE["provider"]:
            return await super().carry_out(prepared)
        functions = _Functions(self, self._around, call)
        with functions.bound():
            result = await super().carry_out(prepared)
        if not functions.calls:
            return result
        details = {**result.details, "calls": functions.calls}
        return replace(result, display=(*result.display, *functions.diffs), details=details)


class _Functions:
    """The functions for one piece of code, the calls that it made, and what they changed."""

    def __init__(self, toolbox: CallableToolbox, around: CodeTools, call: ToolCall) -> None:
        self.calls: list[dict[str, Any]] = []
        self.diffs: list[Output] = []
        self._toolbox = toolbox
        self._around = around
        self._call_id = call.id
        self._open = False

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Bind the functions in this context; names that the user or the code binds stay."""
        tools = (tool for tool in self._toolbox.tools if tool.name != ACT and not tool.waits)
        functions = {tool.name: self._function(tool) for tool in tools}
        names: dict[str, object] = {**functions, ALL: SimpleNamespace(**functions)}
        space, hidden = self._around.namespace, self._around.hidden
        ours = {name: value for name, value in names.items() if name not in space}
        secret = {name: value for name, value in ours.items() if name not in hidden}
        space.update(ours)
        hidden.update(secret)
        self._open = True
        try:
            yield
        finally:
            self._open = False
            _take_away(space, ours)
            _take_away(hidden, secret)

    def _function(self, tool: Tool) -> Callable[..., str]:
        def function(*args: object, **kwargs: object) -> str:
            return self._run(tool, args, kwargs)

        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = f"{signature(tool.spec)}\n\n{tool.spec.description}"
        return function

    def _run(self, tool: Tool, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        if not self._open:
            raise RuntimeError(f"{tool.name} can be called only while the agent's code runs.")
        arguments = _arguments(tool, args, kwargs)
        number = len(self.calls) + 1
        call = ToolCall(f"{self._call_id}.{number}", tool.name, arguments)
        noted: dict[str, Any] = {"tool": tool.name, "arguments": json.loads(arguments)}
        self.calls.append(noted)
        noted["state"] = "interrupted"  # replaced if the call ends otherwise
        prepared = self._toolbox.prepare(call)
        if not isinstance(prepared, Prepared):
            noted["state"] = "failed"
            raise ToolCallError(prepared.text)
        refusal = self._refusal(prepared)
        if refusal:
            noted["state"] = "refused"
            raise PermissionError(refusal)
        run = self._around.run or carried_out
        with own():
            result = run(prepared)
        return self._text(result, noted)

    def _refusal(self, prepared: Prepared) -> str:
        ruling = self._around.rule(prepared)
        if ruling.decision == "allow":
            self._around.passed(ruling)
            return ""
        return _refused(prepared, ruling)

    def _text(self, result: ToolResult, noted: dict[str, Any]) -> str:
        noted["state"] = "failed" if result.is_error else "done"
        if result.details:
            noted["details"] = dict(result.details)
        self.diffs += (output for output in result.display if output.kind == "diff")
        self._around.finished(result)
        if result.is_error:
            raise ToolCallError(result.text)
        for block in result.content:
            if isinstance(block, Image):
                self._around.show(block)
        return result.text


def carried_out(prepared: Prepared) -> ToolResult:
    """Run a prepared call in this thread. A tool that waits for the event loop fails."""
    call = prepared.call
    try:
        returned: object = prepared.tool.function(**prepared.values)
        if inspect.iscoroutine(returned):
            returned = _at_once(prepared.tool, returned)
        if not isinstance(returned, str | ToolReturn):
            raise TypeError(f"it returned {type(returned).__name__}, not text")
    except ToolError as error:
        return ToolResult(call.id, (Text(str(error)),), is_error=True)
    except Exception as error:
        words = f"The tool {call.name} failed: {type(error).__name__}: {error}"
        return ToolResult(call.id, (Text(words),), is_error=True)
    return result_of(call, returned)


def _at_once(tool: Tool, coroutine: Any) -> object:
    """The value of a coroutine that never waits: the event loop is busy with the code."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise ToolError(
        f"{tool.name} has to wait for something, which it cannot while code runs: it is no "
        "function for code."
    )


def _arguments(tool: Tool, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    names = parameter_names(tool.spec)
    if len(args) > len(names):
        raise TypeError(f"{tool.name}() takes at most {len(names)} arguments, not {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"{tool.name}() got two values for {name!r}")
        given[name] = value
    try:
        return json.dumps(given, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{tool.name}() takes texts, numbers, lists and dicts: {error}") from None


def _plain(value: object) -> object:
    """Paths as text and numpy scalars as Python values; other values unchanged."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return item()
    raise TypeError(f"not a {type(value).__name__}")


def _refused(prepared: Prepared, ruling: Ruling) -> str:
    if ruling.decision == "refuse":
        return refused(prepared, ruling)
    name = prepared.tool.name
    because = f" ({ruling.always})" if ruling.always else ""
    return (
        f"{name} needs the person's approval{because}, and code that runs cannot wait for it. "
        "Nothing was written. To ask the person, do it with plain Python in the next block, by "
        "open(path, 'w') with the path written out: they are asked before that block runs."
    )


def _take_away(space: Namespace, ours: dict[str, object]) -> None:
    for name, value in ours.items():
        if space.get(name) is value:
            del space[name]


def show_picture(image: Image) -> None:
    """Show a picture as an output of the code, so that the model gets it."""
    from IPython.display import display

    display({image.media_type: image.data}, raw=True)
