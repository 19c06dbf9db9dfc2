"""A tool: a function that a model may call, with a schema made from its type hints."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from jupyter_agent.core.events import QuestionAnswered, QuestionAsked, Sink, ToolOutput
from jupyter_agent.core.messages import Image, JsonObject, Output, Text, ToolCall, ToolSpec
from jupyter_agent.errors import ToolError

Effect = Literal["reads", "writes", "executes"]


class CannotRun(ToolError):
    """A call that is sure to fail, so that there is nothing to ask the user about."""


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A tool's return value, if a plain string does not suffice.

    `content` is for the model, `display` for the user, `details` for the log. `quotes` is True if
    the content has delimiters of ours around stored text, which the tool has defused itself.
    """

    content: str | tuple[Text | Image, ...]
    display: tuple[Output, ...] = ()
    details: JsonObject = field(default_factory=dict)
    is_error: bool = False
    quotes: bool = False


ToolFunction = Callable[..., str | ToolReturn | Awaitable[str | ToolReturn]]
Shown = tuple[Output, ...] | None
Preview = Callable[..., Shown | Awaitable[Shown]]
"""Takes the tool's arguments by name; None: the call would change nothing.

Whatever it raises means that there is nothing to show, but `CannotRun` that the call need not be
asked about. A plain function runs in a worker thread.
"""
Report = Callable[[str], None]

report: ContextVar[Report | None] = ContextVar("jupyter_agent_report", default=None)
"""Called with the output of the running call, as it is printed. Set for each call."""
Ask = Callable[[QuestionAsked], Awaitable[QuestionAnswered]]
ask: ContextVar[Ask | None] = ContextVar("jupyter_agent_ask", default=None)
"""Asks the user a question for the running call. Set for each call."""


class DelegateSinks(NamedTuple):
    """Where the events of a delegate go: its `own`, and those `at_call`, as a question there."""

    own: Sink
    at_call: Sink


delegated: ContextVar[DelegateSinks | None] = ContextVar("jupyter_agent_delegated", default=None)
"""The sinks of the delegate that the running call is. Set for each call."""
call_id: ContextVar[str] = ContextVar("jupyter_agent_call_id", default="")
"""The id of the running call. Set for each call."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A named function with its schema. `preview` shows a call's effect without running it.

    `effect` is its strongest effect: `reads`, `writes` files or memory, or `executes` code.
    Reading tools of one step run side by side; the others alone, in order. So do those that wait
    for the user or a model (`waits`), which running code cannot call, unless `overlaps` says that
    calls of it wait side by side. `more` is for whoever asks about the tool: what no request
    needs, such as rare arguments; empty for nothing.
    """

    spec: ToolSpec
    function: ToolFunction
    arguments: type[BaseModel]
    effect: Effect
    preview: Preview | None = None
    more: str = ""
    waits: bool = False
    overlaps: bool = False

    @property
    def name(self) -> str:
        return self.spec.name


def tool(
    effect: Effect,
    preview: Preview | None = None,
    waits: bool = False,
    overlaps: bool = False,
) -> Callable[[ToolFunction], Tool]:
    """Make a `Tool` of a function.

    The name and the description are the function's own, the schema comes from its type hints
    (`Annotated[str, Field(description=...)]` describes an argument). A plain `def` runs in a
    worker thread, an `async def` on the kernel's event loop.

    Each request carries the schema, so it is short: what follows a line `More:` in the docstring,
    and each argument with `json_schema_extra=RARE`, are in the tool's `more` alone. Such arguments
    are accepted all the same.
    """

    def make(function: ToolFunction) -> Tool:
        arguments, schema, rare = _arguments(function)
        text = inspect.cleandoc(function.__doc__ or "")
        description, _, more = text.partition(_MORE)
        more = "\n".join(part for part in (more.strip(), rare) if part)
        spec = ToolSpec(getattr(function, "__name__", ""), description.strip(), schema)
        return Tool(spec, function, arguments, effect, preview, more, waits, overlaps)

    return make


RARE: Any = {"rare": True}
"""`json_schema_extra` of an argument that no request describes."""
_MORE = "\nMore:\n"
_UNSAID = frozenset(
    {"title", "additionalProperties", "exclusiveMinimum", "minimum", "maximum"}
    | {"minLength", "maxLength", "maxItems", "$defs"}
)
"""Keywords of a JSON schema that no request carries: a call that breaks them gets an error that
says so, and many a token is saved."""

_MADE: dict[object, tuple[type[BaseModel], JsonObject, str]] = {}
"""A cache of argument models and schemas, by the function's key: each conversation defines its
tools anew, and pydantic takes longer for their schemas than a turn for everything else."""


def _arguments(function: ToolFunction) -> tuple[type[BaseModel], JsonObject, str]:
    """The model of a function's arguments, the JSON schema to send, the rare arguments in words."""
    key = _made_of(function)
    made = None if key is None else _MADE.get(key)
    if made is None:
        model = _arguments_model(getattr(function, "__name__", ""), function)
        whole = model.model_json_schema()
        definitions = whole.get("$defs", {})
        made = model, _lean(whole, definitions), "\n".join(_rare(whole, definitions))
        if key is not None:
            _MADE[key] = made
    return made


def _made_of(function: ToolFunction) -> object:
    """A cache key for the schema of a function's arguments; None if it has no certain one."""
    if not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        return None  # its signature may be that of another function
    named = {**(function.__kwdefaults__ or {}), "": function.__defaults__ or ()}
    defaults = tuple((name, repr(value), type(value)) for name, value in named.items())
    hints = tuple(function.__annotations__.items())
    key = function.__code__, function.__name__, function.__module__, defaults, hints
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _arguments_model(name: str, function: ToolFunction) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(name, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _lean(schema: Any, definitions: JsonObject) -> Any:
    """A schema as short as it can be said: definitions in place, no "or null" of optional fields.

    Args:
        schema: As pydantic makes it; none of its definitions refers to itself.
        definitions: Its `$defs`.
    """
    if isinstance(schema, list):
        return [_lean(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = _resolved(schema, definitions)
    return {
        key: {
            name: _lean(field, definitions)
            for name, field in value.items()
            if not field.get("rare")
        }
        if key == "properties"
        else _lean(value, definitions)
        for key, value in schema.items()
        if key not in _UNSAID and not (key == "default" and value is None)
    }


def _resolved(schema: JsonObject, definitions: JsonObject) -> JsonObject:
    """The schema with its reference in place, and "anything or null" as anything."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    others = {key: value for key, value in schema.items() if key not in ("anyOf", "$ref")}
    if len(options) == 1:
        return _resolved({**options[0], **others}, definitions)
    if "$ref" not in schema:
        return schema
    meant = definitions[schema["$ref"].rpartition("/")[2]]
    # Its description is the docstring of a class, for those who read the code.
    return {**{key: value for key, value in meant.items() if key != "description"}, **others}


def _rare(schema: JsonObject, definitions: JsonObject, within: str = "") -> Iterator[str]:
    """The rare arguments of a schema, a line each."""
    for name, argument in _resolved(schema, definitions).get("properties", {}).items():
        if argument.get("rare"):
            said = {key: value for key, value in argument.items() if key != "rare"}
            words = json.dumps(_lean(said, definitions), ensure_ascii=False)
            yield f"Argument {within}{name}: {words}"
        else:
            yield from _rare(argument, definitions, f"{within}{name}.")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that can be run: its tool was found, and its arguments fit the schema."""

    call: ToolCall
    tool: Tool
    arguments: BaseModel

    @property
    def values(self) -> dict[str, Any]:
        """The arguments by name."""
        named = {name: getattr(self.arguments, name) for name in self.tool.arguments.model_fields}
        return named | (self.arguments.model_extra or {})

    async def preview(self) -> Shown:
        """The call's effect as outputs, for the user who decides about it; None if it has none.

        Raises:
            CannotRun: The call is sure to fail.
        """
        preview = self.tool.preview
        if preview is None:
            return ()
        try:
            if inspect.iscoroutinefunction(preview):
                return cast("Shown", await preview(**self.values))
            return cast("Shown", await asyncio.to_thread(preview, **self.values))
        except CannotRun:
            raise
        except Exception:
            return ()  # the call itself will fail and give the reason


_WHOLE = 10_000
"""Characters of one call's output that are passed on as they come."""
_MOST_EVENTS = 1_000
_PASSING = 160
"""Characters of the temporary line that shows the latest output."""
_INTERVAL = 0.25


class Printed:
    """Emits `ToolOutput`: the beginning as it comes, later a temporary line four times a second."""

    def __init__(self, call_id: str, emit: Sink) -> None:
        self._call_id = call_id
        self._emit = emit
        self._room = _WHOLE
        self._events = 0
        self._last = 0.0

    def __call__(self, text: str) -> None:
        # A line that is overwritten (a progress bar) is temporary from its start.
        if self._room > 0 and self._events < _MOST_EVENTS and "\r" not in text:
            self._events += 1
            self._emit(ToolOutput(self._call_id, text[: self._room]))
            self._room -= len(text)
            return
        now = time.monotonic()
        line = text[-4 * _PASSING :].replace("\r", "\n").strip()
        if line and now - self._last >= _INTERVAL:
            self._last = now
            latest = line.rsplit("\n", 1)[-1][-_PASSING:]
            self._emit(ToolOutput(self._call_id, latest=latest))
