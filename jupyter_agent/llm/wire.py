"""The shared part of both wire formats: sendable conversations, arguments, ids, addresses.

Everything here is a pure function of its arguments: the same history gives the same bytes in
each request, on which the providers' prompt caches depend.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

from jupyter_agent.core.addresses import host_of
from jupyter_agent.core.events import ReplyStop
from jupyter_agent.core.history import free_id
from jupyter_agent.core.messages import (
    Block,
    Context,
    Image,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    clean,
)

NO_OUTPUT = "(no output)"
MINIMAX_HOSTS = ("api.minimax.io", "api.minimaxi.com")

_MINIMAX_SUFFIX = {"anthropic": "/anthropic", "openai": "/v1"}
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WORDS = (Text, Context, Said, Image, Thinking)
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def mapping(value: object) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one, since servers may send any value."""
    return value if isinstance(value, dict) else {}


def string(value: object) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """`value` if it is a positive whole number, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def sendable(value: Any) -> Any:
    """A server's JSON value in a form that can be sent back: no lone surrogates, no NaN."""
    match value:
        case str():
            return clean(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {clean(str(key)): sendable(part) for key, part in value.items()}
        case list():
            return [sendable(part) for part in value]
    return value


def api_base_for(provider: str, api_base: str | None) -> str | None:
    """The base address to use for `provider` (`anthropic` or `openai`); None stays None.

    MiniMax serves both formats on one host, distinguished by a suffix, which is added or
    corrected here. Other addresses only lose a trailing slash.
    """
    if not api_base:
        return None
    base = api_base.strip().rstrip("/")
    if host_of(base) not in MINIMAX_HOSTS or provider not in _MINIMAX_SUFFIX:
        return base
    for suffix in _MINIMAX_SUFFIX.values():
        base = base.removesuffix(suffix)
    return base.rstrip("/") + _MINIMAX_SUFFIX[provider]


def _parsed(text: str) -> dict[str, Any] | None:
    """The JSON object in `text`, or None if there is none that may be sent.

    NaN, infinities and lone surrogates pass Python's reader, but no wire: the former make the
    text invalid, the latter are replaced.
    """
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            sendable = clean(json.dumps(value, ensure_ascii=False, allow_nan=False))
            return mapping(json.loads(sendable))
    except (ValueError, RecursionError):
        pass
    return None


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The arguments of `call` as a JSON object that may be sent back to the model.

    Empty text is `{}`. Text that is no JSON object becomes `{"invalid_arguments": text}`, so
    that the model sees what it wrote and the conversation stays valid.
    """
    if not call.arguments.strip():
        return {}
    value = _parsed(call.arguments)
    return {"invalid_arguments": call.arguments} if value is None else value


def arguments_text(call: ToolCall) -> str:
    """`arguments_object` as text: the model's own text if that is a sendable JSON object."""
    value = arguments_object(call)
    try:
        if json.loads(call.arguments) == value:
            return call.arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps(value, ensure_ascii=False)


def is_json_object(text: str) -> bool:
    """True if `text` is one complete JSON object."""
    return _parsed(text) is not None


def safe_name(name: str) -> str:
    """A tool's name in a form that both APIs accept, since a model may make up an invalid one."""
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "unnamed"


def safe_id(call_id: str) -> str:
    """A call's id in letters that each API accepts. Equal ids stay equal, different ones differ."""
    safe = _NOT_IN_A_NAME.sub("_", call_id)
    if safe == call_id and safe:
        return safe
    return f"{safe}_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:8]}"


def unique_ids(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks with a distinct id for each tool call.

    The loop keeps them distinct from the ids of earlier replies.
    """
    used: set[str] = set()
    return tuple(_with_own_id(b, used) if isinstance(b, ToolCall) else b for b in blocks)


def _with_own_id(call: ToolCall, used: set[str]) -> ToolCall:
    # Neither may hold a lone surrogate: they go into every later request.
    wanted, name = clean(call.id) or f"call_{uuid.uuid4().hex[:24]}", clean(call.name)
    own = free_id(wanted, used)
    return call if (own, name) == (call.id, call.name) else replace(call, id=own, name=name)


def stop_for(stop: ReplyStop, blocks: Iterable[Block]) -> ReplyStop:
    """`stop`, corrected if it contradicts the blocks of the reply."""
    calls = any(isinstance(block, ToolCall) for block in blocks)
    if stop == "end" and calls:
        return "tool_use"
    if stop == "tool_use" and not calls:
        return "end"
    return stop


def conversation(messages: Iterable[Message], provider: str) -> Iterator[tuple[int, Message]]:
    """The messages in the form of an API: user and assistant alternate, none is empty.

    Blank text and the thinking of other providers are removed. Tool results come first in a
    user message, tool calls last in an assistant message; otherwise the order stays.

    Yields each with the index of the first message that it was made of.
    """
    sendable = enumerate(_sendable(message, provider) for message in messages)
    for role, group in groupby((each for each in sendable if each[1].blocks), key=_role):
        (begin, first), *others = group
        blocks = (block for message in (first, *(m for _, m in others)) for block in message.blocks)
        yield begin, Message(role, _in_order(blocks))


def _role(numbered: tuple[int, Message]) -> Literal["user", "assistant"]:
    """The role; `user` for a system message in the conversation, which not every API allows."""
    return "assistant" if numbered[1].role == "assistant" else "user"


def _sendable(message: Message, provider: str) -> Message:
    blocks = [block for block in message.blocks if _goes_out(block, provider)]
    # An API refuses a message that ends in thinking: what the thought led to was never said.
    while blocks and isinstance(blocks[-1], Thinking):
        blocks.pop()
    if len(blocks) == len(message.blocks):
        return message
    return replace(message, blocks=tuple(blocks))


def _goes_out(block: Block, provider: str) -> bool:
    match block:
        case Text() | Context() | Said():
            return bool(block.text.strip())
        case Thinking():
            return block.metadata.get("provider") == provider and len(block.metadata) > 1
        case _:
            return True


def _in_order(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Tool results first, tool calls last; all else in its order."""
    said = list(blocks)
    results = [block for block in said if isinstance(block, ToolResult)]
    others = [block for block in said if not isinstance(block, ToolResult)]
    first = next((i for i, block in enumerate(others) if isinstance(block, ToolCall)), len(others))
    late = [block for block in others[first:] if isinstance(block, _WORDS)]
    rest = [block for block in others[first:] if not isinstance(block, _WORDS)]
    return (*results, *others[:first], *late, *rest)


def is_picture(image: Image) -> bool:
    """True if models accept the image. They refuse a whole request with an SVG or empty data."""
    return image.media_type in _PICTURES and bool(image.data)


def picture_notice(image: Image) -> str:
    """The text for the model in place of an image that it cannot take."""
    return f"(an image of type {image.media_type}, which the model cannot read)"


def text_part(text: str) -> dict[str, Any]:
    """A text as a part of a message's content."""
    return {"type": "text", "text": text}
