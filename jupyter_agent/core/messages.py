"""The conversation of a user, a model and its tools: messages, their blocks, usage.

Pure, frozen values. `codec` converts them to JSON, `llm` to the formats of the providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

JsonObject = Mapping[str, Any]


def clean(text: str) -> str:
    """Replace lone surrogates, which no wire format can carry, by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Words:
    """The base of blocks with a text, in which lone surrogates are replaced."""

    __slots__ = ()
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean(self.text))


@dataclass(frozen=True, slots=True)
class Text(_Words):
    """Words. Lone surrogates are replaced on construction."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Context(_Words):
    """Text that the session adds to a task. Providers send it as text, cassettes ignore it."""

    text: str
    type: Literal["context"] = "context"


@dataclass(frozen=True, slots=True)
class Said(_Words):
    """A line that the user typed during a turn. Providers send it as text."""

    text: str
    type: Literal["said"] = "said"


@dataclass(frozen=True, slots=True)
class Thinking(_Words):
    """A model's reasoning.

    `metadata` is opaque: data that the provider named in its key `provider` needs back unchanged
    (a signature, redacted data, reasoning details). Other providers ignore it.
    """

    text: str
    metadata: JsonObject = field(default_factory=dict)
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: `data` is base64 text, `media_type` for instance `image/png`."""

    media_type: str
    data: str
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool.

    `arguments` is the text that the model sent, byte for byte: it may not even be JSON.
    `llm.wire.arguments_object` and the toolbox parse it. `metadata` is opaque, as in `Thinking`.
    """

    id: str
    name: str
    arguments: str
    metadata: JsonObject = field(default_factory=dict)
    type: Literal["tool_call"] = "tool_call"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", clean(self.name))
        object.__setattr__(self, "arguments", clean(self.arguments))


@dataclass(frozen=True, slots=True)
class Output:
    """One output of a tool.

    `data` maps MIME types to values, as in a notebook's outputs. Streams and diffs carry
    `text/plain` alone.
    """

    kind: Literal["stdout", "stderr", "result", "display", "error", "diff"]
    data: JsonObject
    metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one tool call, for three audiences.

    `content` is for the model, `display` for the user, `details` for the log.
    """

    call_id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False
    display: tuple[Output, ...] = ()
    details: JsonObject = field(default_factory=dict)
    type: Literal["tool_result"] = "tool_result"

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    def for_model(self) -> ToolResult:
        """The result without `display` and `details`: the form kept in the history."""
        return replace(self, display=(), details={})


def is_bitmap(kind: str) -> bool:
    """True for the MIME types of pictures that are base64 in an output: SVG is text."""
    return kind.startswith("image/") and kind != "image/svg+xml"


Block = Text | Context | Said | Thinking | Image | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. Tool results are blocks of a user message."""

    role: Literal["system", "user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The message's words, without thinking and tool traffic."""
        return "\n\n".join(b.text for b in self.blocks if isinstance(b, Text) and b.text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolResult))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls.

    `input_tokens` counts everything sent, including the cached part; `cache_read_tokens` and
    `cache_write_tokens` are the tokens read from and written to the provider's cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cache_read_tokens - other.cache_read_tokens,
            self.cache_write_tokens - other.cache_write_tokens,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it: `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: JsonObject


def is_served(tool: str) -> bool:
    """True if the name is that of an MCP server's tool: `server__tool`."""
    return "__" in tool


EDIT_CELLS = "edit_cells"
PAGE_TOOLS = frozenset({"read_cells", EDIT_CELLS})
"""The tools that ask the page of the open notebook."""


ASK_USER = "ask_user"
"""The tool that asks the person a question."""
DELEGATE = "delegate"
"""The tool that gives a part of the task to a delegate."""


MEMORY_SAVE = "memory_save"
"""The tool that keeps something in the person's own memory, outside of the workspace."""
ACROSS_TOOLS = frozenset({"memory_search", "memory_get", MEMORY_SAVE})
"""The tools over the person's own memory, which differs from computer to computer."""


def is_answered_elsewhere(tool: str) -> bool:
    """True if a server, a page, the person or their own memory answers: a replay gives the recorded
    result, asks none of them, and saves nothing."""
    return is_served(tool) or tool in PAGE_TOOLS or tool in ACROSS_TOOLS or tool == ASK_USER
