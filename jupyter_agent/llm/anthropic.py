"""The adapter for Anthropic's Messages API, and for servers with the same API."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import anthropic

from jupyter_agent.core.events import MessageFinished, ReplyStop, TextDelta, ThinkingDelta
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
    ToolSpec,
    Usage,
    clean,
)
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.connection import Connection
from jupyter_agent.llm.encoding import Encoder
from jupyter_agent.llm.failures import Endpoint
from jupyter_agent.llm.streaming import Adapter, sent
from jupyter_agent.llm.wire import (
    NO_OUTPUT,
    api_base_for,
    arguments_object,
    conversation,
    count,
    is_picture,
    mapping,
    picture_notice,
    safe_id,
    safe_name,
    stop_for,
    string,
    text_part,
    unique_ids,
)

_NAME = "anthropic"
_CACHED = {"type": "ephemeral"}
_STOPS: dict[str, ReplyStop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
    # A server-side tool paused the reply. We offer none; where one comes all the same, the
    # reply is unfinished, and calling it the answer would be wrong.
    "pause_turn": "max_tokens",
}


class Anthropic(Adapter):
    """A model behind Anthropic's Messages API.

    Args:
        model: The model's id, such as `claude-sonnet-4-5`.
        api_key: The key. Default: the SDK's own search, first `ANTHROPIC_API_KEY`.
        api_base: The server's address. Default: `ANTHROPIC_BASE_URL`, else Anthropic's own.
        max_tokens: The longest reply to allow.
        timeout: Seconds without a sign of life after which a call fails.
        effort: How hard the model works, in the API's own word; None leaves it to the model.
        connection: Proxy, certificates and headers.
        thinking: The API's `thinking` parameter; None leaves it out.

    Raises:
        ConfigError: There is no key, or the address is invalid.
    """

    name = _NAME
    calls_natively = True
    """Tool calls are blocks of their own in this API, whoever serves it."""
    _sdk: ClassVar[Any] = anthropic
    _maker = "Anthropic"

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        api_base: str | None = None,
        max_tokens: int = 16_000,
        timeout: float = 600.0,
        effort: str | None = None,
        connection: Connection | None = None,
        thinking: Mapping[str, Any] | None = None,
    ) -> None:
        base = api_base_for(_NAME, api_base or os.environ.get("ANTHROPIC_BASE_URL"))
        super().__init__(model, (api_key or "").strip() or None, base, timeout, connection)
        self._max_tokens = max_tokens
        self._effort = effort
        self._thinking = thinking
        self._encoder = Encoder(_NAME, _message, _tool)
        self._endpoint = Endpoint(
            "Anthropic",
            model,
            self._client.base_url.netloc.decode(),
            "ANTHROPIC_API_KEY",
            tuple(key for key in (self._client.api_key, self._client.auth_token) if key),
        )

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of the HTTP request: byte for byte the same for the same conversation."""
        messages = [message for _, message in conversation(request.messages, _NAME)]
        body = self._around(request, messages)
        return {**body, "messages": [part for message in messages for part in _message(message)]}

    def _around(self, request: Request, messages: Sequence[Message]) -> dict[str, Any]:
        """The body without the conversation."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._max_tokens,
            "messages": [],
            "stream": True,
        }
        if request.system.strip():
            system = {"type": "text", "text": clean(request.system), "cache_control": _CACHED}
            body["system"] = [system]
        body |= _offer(request, self._encoder.tools(request.tools), messages)
        if self._thinking is not None:
            body["thinking"] = dict(self._thinking)
        if self._effort is not None:
            body["output_config"] = {"effort": self._effort}
        # Marks the last block for the cache without touching the messages' own bytes.
        body["cache_control"] = _CACHED
        return body

    def _new_client(self) -> Any:
        client = super()._new_client()
        if not (client.api_key or client.auth_token or client.credentials):
            raise ConfigError(
                "There is no key for Anthropic: set the environment variable ANTHROPIC_API_KEY."
            )
        return client

    def _new_reply(self) -> _Reply:
        return _Reply()

    async def _send(self, request: Request) -> _Events:
        around = partial(self._around, request)
        # `object` gives the events as the JSON that was sent: nothing is guessed or dropped.
        events: _Events = await self._client.post(
            "/v1/messages",
            cast_to=object,
            content=self._encoder.encoded(request.messages, around),
            stream=True,
            stream_cls=_Events,
        )
        return events


class _Events(anthropic.AsyncStream[object]):
    """The SDK's stream, including events without a name, which the SDK skips."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._bytes = sent(self.response.aiter_bytes())

    async def close(self) -> None:
        # At once: the garbage collector would close the generators beneath in any order.
        await self._bytes.aclose()
        await super().close()

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in self._decoder.aiter_bytes(self._bytes):
            name = event.event or _name_of(event.data)
            yield type(event)(event=name, data=event.data) if name else event


def _name_of(data: str) -> str | None:
    """The name of an event without one: the type in its data."""
    if not data or data.startswith("[DONE]"):
        return None
    try:
        event = mapping(json.loads(data))
    except (ValueError, RecursionError):
        return "broken"  # the SDK parses it again and fails
    return "error" if event.get("error") else string(event.get("type")) or None


@dataclass
class _OpenBlock:
    """A content block while it is being streamed."""

    start: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def finished(self) -> Block | None:
        """The block as a value; None for an empty or unknown one."""
        match self.start.get("type"):
            case "text" if self.text:
                return Text(self.text)
            case "thinking" if self.text or self.signature:
                signed = {"signature": self.signature} if self.signature else {}
                return Thinking(self.text, {"provider": _NAME, **signed})
            case "redacted_thinking" if data := clean(string(self.start.get("data"))):
                return Thinking("", {"provider": _NAME, "redacted": data})
            case "tool_use":
                return self._tool_call()
        return None

    def _tool_call(self) -> ToolCall:
        whole = mapping(self.start.get("input"))
        arguments = self.text or (json.dumps(whole, ensure_ascii=False) if whole else "")
        return ToolCall(string(self.start.get("id")), string(self.start.get("name")), arguments)


class _Reply:
    """A reply while it is being streamed."""

    def __init__(self) -> None:
        self.complete = False
        self._blocks: list[_OpenBlock] = []
        self._open: dict[object, _OpenBlock] = {}
        self._usage: dict[str, int] = {}
        self._stop: str | None = None

    def add(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add one event; yields its deltas."""
        match event.get("type"):
            case "message_start":
                self._count(mapping(event.get("message")).get("usage"))
            case "content_block_start":
                yield from self._start(event)
            case "content_block_delta":
                yield from self._delta(event)
            case "message_delta":
                self._stop = string(mapping(event.get("delta")).get("stop_reason")) or self._stop
                self._count(event.get("usage"))
            case "message_stop":
                self.complete = True

    def add_whole(self, body: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add a reply that came in one piece; yields its deltas."""
        if body.get("type") != "message" or not isinstance(body.get("content"), list):
            return
        self._count(body.get("usage"))
        for index, block in enumerate(body["content"]):
            yield from self._start({"index": index, "content_block": block})
        self._stop = string(body.get("stop_reason")) or None
        self.complete = True

    @property
    def answered(self) -> bool:
        # Here a stop reason alone is no end: the protocol has an event for it.
        return self.complete

    def finished(self) -> MessageFinished | None:
        """The whole reply; None if the stream ended without a stop reason."""
        if not self.complete or self._stop is None:
            return None
        made = (block.finished() for block in self._blocks)
        blocks = unique_ids(block for block in made if block is not None)
        stop = stop_for(_STOPS.get(self._stop, "end"), blocks)
        return MessageFinished(Message("assistant", blocks), self._total(), stop)

    def _start(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        start = mapping(event.get("content_block"))
        block = _OpenBlock(start, signature=clean(string(start.get("signature"))))
        self._blocks.append(block)
        self._open[_index(event)] = self._open[None] = block
        yield from self._say(block, string(start.get("text")), TextDelta)
        yield from self._say(block, string(start.get("thinking")), ThinkingDelta)

    def _delta(self, event: Mapping[str, Any]) -> Iterator[ReplyPart]:
        delta = mapping(event.get("delta"))
        block = self._open.get(_index(event))
        if block is None:
            # Some gateways leave the starts out. A call would lack its id and name.
            kind = string(delta.get("type")).removesuffix("_delta")
            if kind not in ("text", "thinking"):
                return
            yield from self._start({**event, "content_block": {"type": kind}})
            block = self._blocks[-1]
        match delta.get("type"):
            case "text_delta":
                yield from self._say(block, string(delta.get("text")), TextDelta)
            case "thinking_delta":
                yield from self._say(block, string(delta.get("thinking")), ThinkingDelta)
            case "input_json_delta":
                block.pieces.append(string(delta.get("partial_json")))
            case "signature_delta":
                block.signature = clean(string(delta.get("signature")))

    @staticmethod
    def _say(
        block: _OpenBlock, text: str, delta: type[TextDelta] | type[ThinkingDelta]
    ) -> Iterator[ReplyPart]:
        if text:
            block.pieces.append(text)
            yield delta(clean(text))

    def _count(self, usage: object) -> None:
        # The counts are running totals. Some servers send zeros at one end of the stream.
        for key, value in mapping(usage).items():
            self._usage[key] = max(count(value), self._usage.get(key, 0))

    def _total(self) -> Usage:
        read = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        fresh = self._usage.get("input_tokens", 0)
        return Usage(fresh + read + written, self._usage.get("output_tokens", 0), read, written)


def _index(event: Mapping[str, Any]) -> int | None:
    """The number of an event's block; None, if the server sends none, stands for the latest."""
    index = event.get("index")
    return index if isinstance(index, int) else None


def _offer(
    request: Request, tools: list[dict[str, Any]], messages: Sequence[Message]
) -> dict[str, Any]:
    """The part of the body for the tools and their use.

    The API refuses a history with tool calls without declared tools, so a request without
    tools declares those of the history and forbids their use.
    """
    forbidden = {"tool_choice": {"type": "none"}}
    if request.tools:
        return {"tools": tools} if request.tools_allowed else {"tools": tools, **forbidden}
    named = dict.fromkeys(safe_name(call.name) for m in messages for call in m.tool_calls)
    if not named:
        return {}
    return {
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in named],
        **forbidden,
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": clean(tool.description)} if tool.description.strip() else {}
    return {"name": tool.name, **described, "input_schema": dict(tool.parameters)}


def _message(message: Message) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": [_block(block) for block in message.blocks]}]


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Text() | Context() | Said():
            return text_part(block.text)
        case Image():
            return _image(block)
        case Thinking():
            return _thinking(block)
        case ToolCall():
            return {
                "type": "tool_use",
                "id": safe_id(block.id),
                "name": safe_name(block.name),
                "input": arguments_object(block),
            }
        case ToolResult():
            return _tool_result(block)


def _thinking(block: Thinking) -> dict[str, Any]:
    if "redacted" in block.metadata:
        return {"type": "redacted_thinking", "data": block.metadata["redacted"]}
    return {
        "type": "thinking",
        "thinking": block.text,
        "signature": block.metadata["signature"],
    }


def _image(image: Image) -> dict[str, Any]:
    if not is_picture(image):
        return text_part(picture_notice(image))
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _tool_result(result: ToolResult) -> dict[str, Any]:
    content = [
        _block(block)
        for block in result.content
        if not isinstance(block, Text) or block.text.strip()
    ]
    failed = {"is_error": True} if result.is_error else {}
    return {
        "type": "tool_result",
        "tool_use_id": safe_id(result.call_id),
        "content": content or [text_part(NO_OUTPUT)],
        **failed,
    }
