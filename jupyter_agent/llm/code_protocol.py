"""The protocol for models that cannot call tools: they write one fenced block of Python.

A request has no tools and no tool calls: the system prompt explains the protocol, earlier calls
become the model's own text again, and their results become text of the user. Each message is
rendered by itself, so that the same conversation gives the same bytes in each request.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from jupyter_agent.core.events import MessageFinished, ReplySource
from jupyter_agent.core.markdown import code_fence
from jupyter_agent.core.messages import (
    ASK_USER,
    MEMORY_SAVE,
    Block,
    Context,
    Image,
    JsonObject,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.llm.inline import spoken
from jupyter_agent.llm.textcalls import thought_end
from jupyter_agent.llm.wire import NO_OUTPUT, arguments_object, unique_ids

ACT = "execute_code"
"""The tool that runs the block."""
WRITTEN_AS_CODE: JsonObject = {"provider": "code_protocol"}
"""The metadata of a call written as code: its tools are functions, in a replay, too."""
_PROTOCOL = """\
## How you act in this conversation
You have no tool calls here. You act by writing Python:

- To do something, write one fenced block that begins with ```python and ends with ```, and stop \
there. It is run like a cell of the notebook (where these instructions say `execute_code`, they \
mean this), and the next message tells you what it showed, after the word "Output". Magics and \
top-level await work in it.
- Only the first such block of a reply is run. What follows it is thrown away: never write an \
output yourself.
- A reply without such a block is your answer, and the turn is over. Mark code that is only to be \
read as ```text.
"""
_FUNCTIONS = """\

The other tools are functions in that code. Each returns a text: print it to read it. Where a \
variable of the person has such a name, use agent_tools.NAME.

```text
{signatures}
```
"""
_LONGEST_KIND = 1_000
"""Characters of a parameter's type."""
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,})[ \t]*(?P<info>[^`\n]*)$", re.MULTILINE)
_PYTHON = re.compile(r"\{?\.?(?:python3?|py3?|ipython3?|pycon)\b.*", re.IGNORECASE)
_MAGIC = re.compile(r"^(?P<indent>[ \t]*)(?:[%!]|\w+[ \t]*=[ \t]*[%!]).*$", re.MULTILINE)
_MOST_ENDS = 20
_MOST_BLOCKS = 200
"""Blocks of a reply, and ends of one block, that are looked at."""


class CodeProtocol:
    """A provider whose model acts by writing code.

    Deltas pass through unchanged; the finished message replaces them.

    Args:
        provider: The model to ask. It never gets a tool.
    """

    def __init__(self, provider: Model) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source: ReplySource = provider.source
        self._provider = provider

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        acts = request.tools_allowed and any(tool.name == ACT for tool in request.tools)
        inner = self._provider.stream(in_words(request))
        async with aclosing(inner) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, MessageFinished) and acts:
                    yield with_call(part)
                else:
                    yield part

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(in_words(request))

    async def close(self) -> None:
        await self._provider.close()


# What goes out -----------------------------------------------------------------------------------


def in_words(request: Request) -> Request:
    """The request without tools: text explains them."""
    messages = tuple(map(message_in_words, request.messages))
    system = _system(request.system, request.tools)
    return Request(system, messages, attempt=request.attempt)


def _system(system: str, tools: Iterable[ToolSpec]) -> str:
    by_name = {tool.name: tool for tool in tools}
    if by_name.pop(ACT, None) is None:
        return system
    for waits in (ASK_USER, MEMORY_SAVE):  # code that runs cannot wait for an answer
        by_name.pop(waits, None)
    signatures = "\n".join(map(signature, by_name.values()))
    functions = _FUNCTIONS.format(signatures=signatures) if by_name else ""
    return f"{system.rstrip()}\n\n{_PROTOCOL}{functions}"


def signature(tool: ToolSpec) -> str:
    """A tool as the head of a Python function, with its first line of description."""
    schema = tool.parameters
    needed = schema.get("required", ())
    properties: Mapping[str, Any] = schema.get("properties", {})
    kinds = _Kinds(schema.get("$defs", {}))
    parameters = [
        _parameter(name, properties[name], name in needed, kinds) for name in parameter_names(tool)
    ]
    summary = (tool.description.strip().splitlines() or [""])[0]
    return f"def {tool.name}({', '.join(parameters)}) -> str:  # {summary}"


def parameter_names(tool: ToolSpec) -> list[str]:
    """The names of a tool's parameters in their positional order."""
    needed = tool.parameters.get("required", ())
    return sorted(tool.parameters.get("properties", {}), key=lambda name: name not in needed)


def _parameter(name: str, schema: Mapping[str, Any], needed: bool, kinds: _Kinds) -> str:
    default = schema.get("default") if isinstance(schema, Mapping) else None
    kind = kinds.of(schema)
    if needed:
        return f"{name}: {kind}"
    if default is None and kind != "Any" and not kind.endswith("None"):
        kind += " | None"  # schemas of optional arguments do not say so
    return f"{name}: {kind} = {default!r}"


class _Kinds:
    """JSON Schemas as Python types, roughly: the toolbox checks arguments exactly.

    Each part is converted once: parts with many references to others would take for ever.

    Args:
        definitions: The schema's `$defs`.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[tuple[int, int], str] = {}

    def of(self, schema: Any, depth: int = 0) -> str:
        """The Python type of a schema; `Any` if that would be long."""
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._definitions.get(str(schema["$ref"]).rpartition("/")[2])
        if not isinstance(schema, Mapping) or depth > 4:
            return "Any"
        key = id(schema), depth
        if key not in self._known:
            kind = self._worded(schema, depth)
            self._known[key] = kind if len(kind) <= _LONGEST_KIND else "Any"
        return self._known[key]

    def _worded(self, schema: Mapping[str, Any], depth: int) -> str:
        if "enum" in schema:
            return " | ".join(map(repr, schema["enum"]))
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return " | ".join(dict.fromkeys(self.of(option, depth + 1) for option in options))
        if schema.get("type") == "array":
            return f"list[{self.of(schema.get('items', {}), depth + 1)}]"
        if schema.get("type") == "object" and schema.get("properties"):
            items = schema["properties"].items()
            pairs = (f"{name!r}: {self.of(item, depth + 1)}" for name, item in items)
            return "{" + ", ".join(pairs) + "}"
        names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        names |= {"null": "None", "object": "dict"}
        return names.get(str(schema.get("type")), "Any")


def message_in_words(message: Message) -> Message:
    """A message without calls and results; always the same text. The message count stays."""
    if message.role == "assistant":
        if not message.tool_calls:
            return message
        calls = "\n\n".join(map(_fenced, message.tool_calls))
        words = f"{message.text}\n\n{calls}" if message.text.strip() else calls
        others = tuple(b for b in message.blocks if not isinstance(b, ToolCall))
        return spoken(replace(message, blocks=others), words, ())
    if not message.tool_results:
        return message
    return replace(message, blocks=tuple(_without_results(message.blocks)))


def _without_results(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, ToolResult):
            yield from _result(block)
        else:
            yield block


def _result(result: ToolResult) -> Iterator[Block]:
    """A result as text of the user, distinct from a task."""
    head = "Output (an error):" if result.is_error else "Output:"
    yield Context(f"{head}\n{result.text or NO_OUTPUT}")
    yield from (block for block in result.content if isinstance(block, Image))


def _fenced(call: ToolCall) -> str:
    """A call as the block that the model wrote, or could have written."""
    arguments = arguments_object(call)
    code = arguments.get("code")
    if call.name != ACT or not isinstance(code, str):
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        code = f"print({call.name}({given}))"
    ticks = code_fence(code)
    return f"{ticks}python\n{code}\n{ticks}"


# What comes back ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The block of code in a reply, and the text before it.

    `closed` is False if the reply ends inside of the block.
    """

    words: str
    code: str
    closed: bool


def with_call(finished: MessageFinished) -> MessageFinished:
    """The reply with its block of code as a call of `execute_code`; unchanged if it has none.

    The text after the block is dropped. A block that the token limit cut off becomes a call, too,
    and the reply stays cut off, so that the loop does not run it and tells the model.
    """
    message, stop = finished.message, finished.stop_reason
    if message.tool_calls or stop == "refused":
        return finished
    block = code_block(message.text)
    if block is None or (not block.closed and stop != "max_tokens" and not _parses(block.code)):
        return finished
    arguments = json.dumps({"code": block.code}, ensure_ascii=False)
    call = ToolCall("", ACT, arguments, WRITTEN_AS_CODE)
    cut_off = stop == "max_tokens" and not block.closed
    return replace(
        finished,
        message=spoken(message, block.words, unique_ids((call,))),
        stop_reason="max_tokens" if cut_off else "tool_use",
    )


def code_block(text: str) -> CodeBlock | None:
    """The first block marked as Python; else the only block, if it has no mark and parses."""
    place, blocks = thought_end(text), 0
    plain: CodeBlock | None = None
    while (head := _FENCE.search(text, place)) and blocks < _MOST_BLOCKS:
        blocks += 1
        info = head["info"].strip()
        if _PYTHON.fullmatch(info):
            block, _ = _body(text, head, python=True)
            return block if block.code.strip() else None
        block, place = _body(text, head, python=not info)
        if not info and blocks == 1 and block.closed:
            plain = block
    return plain if plain and blocks == 1 and plain.code.strip() and _parses(plain.code) else None


def _body(text: str, head: re.Match[str], python: bool) -> tuple[CodeBlock, int]:
    """The block that begins at `head`, and the place of its end.

    A text in the code may have fences of its own: of several ends the first one counts after
    which the code is complete.
    """
    indent, ticks = head["indent"], head["ticks"]
    words, start = text[: head.start()].strip(), head.end() + 1
    closing = re.compile(rf"^[ \t]*{re.escape(ticks)}`*[ \t]*$", re.MULTILINE)
    first: tuple[CodeBlock, int] | None = None
    for end in islice(closing.finditer(text, start), _MOST_ENDS if python else 1):
        block = CodeBlock(words, _dedented(text[start : end.start()], indent), closed=True)
        if not python or _parses(block.code):
            return block, end.end()
        first = first or (block, end.end())
    return first or (CodeBlock(words, _dedented(text[start:], indent), closed=False), len(text))


def _dedented(code: str, indent: str) -> str:
    """The code of an indented block (in a list) without that indentation."""
    code = code.strip("\n").rstrip()
    if not indent:
        return code
    lines = code.split("\n")
    if all(line.startswith(indent) or not line.strip() for line in lines):
        return "\n".join(line.removeprefix(indent) for line in lines)
    return textwrap.dedent(code)


def _parses(code: str) -> bool:
    """True if the code is complete Python, judged without IPython."""
    if code.lstrip().startswith("%%"):
        return True
    return _is_python(code) or _is_python(_MAGIC.sub(r"\g<indent>pass", code))


def _is_python(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
