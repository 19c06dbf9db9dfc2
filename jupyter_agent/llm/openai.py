"""The adapter for OpenAI's chat completions API, and for the many servers with variants of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import openai

from jupyter_agent.core.addresses import host_of
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
from jupyter_agent.errors import ConfigError, ProviderError
from jupyter_agent.llm.connection import Connection
from jupyter_agent.llm.encoding import Encoder
from jupyter_agent.llm.failures import Endpoint
from jupyter_agent.llm.streaming import Adapter, sent
from jupyter_agent.llm.wire import (
    MINIMAX_HOSTS,
    NO_OUTPUT,
    api_base_for,
    arguments_text,
    conversation,
    count,
    is_json_object,
    is_picture,
    mapping,
    picture_notice,
    safe_name,
    sendable,
    stop_for,
    string,
    text_part,
    unique_ids,
)

_NAME = "openai"
_OWN_HOST = "api.openai.com"
_CALLING_HOSTS = re.compile(
    r"(?:.+\.)?(?:openai\.com|(?:openai|cognitiveservices)\.azure\.(?:com|us|cn)"
    r"|services\.ai\.azure\.com|models\.ai\.azure\.com|api\.cognitive\.microsoft\.com)\.?"
)
"""OpenAI's own servers and Azure's, which call tools by the API and in no other way."""
_NO_KEY_NEEDED = "not-needed"
_VARIED = 0.8
"""The temperature of the attempts after the first one."""
_KNOWN_IN_A_CALL = ("index", "id", "type", "function")
_STOPS: dict[str, ReplyStop] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refused",
}
# The stop reasons of OpenRouter and vLLM for a reply that broke off.
_BROKEN_STOPS = ("error", "abort")


class OpenAI(Adapter):
    """A model behind a chat completions API: OpenAI's, Gemini's, MiniMax's, a local server's.

    Args:
        model: The model's id.
        api_key: The key. Default: `OPENAI_API_KEY`; a server other than OpenAI's needs none.
        api_base: The server's address. Default: `OPENAI_BASE_URL`, else OpenAI's own.
        max_tokens: The longest reply to allow; None leaves it to the server.
        timeout: Seconds without a sign of life after which a call fails.
        effort: How hard the model works, in the API's own word; None leaves it to the model.
        connection: Proxy, certificates and headers.
        label: The server's name in messages; None: its address.

    Attributes:
        address: Host and port of the server.
        calls_natively: True if it is known to call tools by the API alone.

    Raises:
        ConfigError: There is no key and OpenAI's own server needs one, or the address is invalid.
    """

    name = _NAME
    _sdk: ClassVar[Any] = openai
    _maker = "OpenAI"

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        api_base: str | None = None,
        max_tokens: int | None = None,
        timeout: float = 600.0,
        effort: str | None = None,
        connection: Connection | None = None,
        label: str | None = None,
    ) -> None:
        base = api_base_for(_NAME, api_base or os.environ.get("OPENAI_BASE_URL"))
        key = _key(api_key, base)
        super().__init__(model, key, base, timeout, connection)
        self._max_tokens = max_tokens
        self._effort = effort
        self._encoder = Encoder(_NAME, lambda message: [*_messages(message)], _tool)
        self._host = self._client.base_url.host
        self.address = place = self._client.base_url.netloc.decode()
        self.calls_natively = bool(_CALLING_HOSTS.fullmatch(self._host.casefold()))
        label = label or ("OpenAI" if self._host == _OWN_HOST else f"The server {place}")
        secrets = () if key == _NO_KEY_NEEDED else (key,)
        self._endpoint = Endpoint(label, model, place, "OPENAI_API_KEY", secrets)

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of the HTTP request: byte for byte the same for the same conversation."""
        messages = conversation(request.messages, _NAME)
        body = self._around(request)
        spoken = [part for _, message in messages for part in _messages(message)]
        return {**body, "messages": [*body["messages"], *spoken]}

    def _around(self, request: Request) -> dict[str, Any]:
        """The body without the conversation."""
        system = (
            [{"role": "system", "content": clean(request.system)}] if request.system.strip() else []
        )
        body: dict[str, Any] = {
            "model": self.model,
            "messages": system,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = self._encoder.tools(request.tools)
            if not request.tools_allowed:
                body["tool_choice"] = "none"
        return body | self._options() | self._sampling(request)

    def _new_reply(self) -> _Reply:
        return _Reply()

    async def _send(self, request: Request) -> _Events:
        # `object` gives the chunks as the JSON that was sent: servers that speak this format
        # add fields, and leave out others that the SDK's own types rely on.
        events: _Events = await self._client.post(
            "/chat/completions",
            cast_to=object,
            content=self._encoder.encoded(request.messages, lambda _: self._around(request)),
            stream=True,
            stream_cls=_Events,
        )
        return events

    def _options(self) -> dict[str, Any]:
        """The options that differ from server to server."""
        options: dict[str, Any] = {}
        if self._max_tokens is not None:
            own = self._host == _OWN_HOST
            options["max_completion_tokens" if own else "max_tokens"] = self._max_tokens
        if self._effort is not None:
            options["reasoning_effort"] = self._effort
        if self._host in MINIMAX_HOSTS:
            # Otherwise the reasoning comes in tags within the answer.
            options["reasoning_split"] = True
        return options

    def _sampling(self, request: Request) -> dict[str, Any]:
        """How replies are drawn: OpenAI's own models do that by themselves, and refuse to be told.

        Attempts must differ, and differ in the same way in each run.
        """
        if self.calls_natively:
            return {}
        if request.attempt:
            return {"temperature": _VARIED, "seed": request.attempt}
        return {"temperature": 0} if request.steady else {}

    def _failure(self, error: Exception) -> ProviderError:
        translated = (openai.APIStatusError, openai.APIConnectionError)
        if isinstance(error, openai.APIError) and not isinstance(error, translated):
            return self._said(error.body)  # of an error event
        return super()._failure(error)


class _Events(openai.AsyncStream[object]):
    """The SDK's stream; skips events without data, raises for events named `error`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._bytes = sent(self.response.aiter_bytes())

    async def close(self) -> None:
        # At once: the garbage collector would close the generators beneath in any order.
        await self._bytes.aclose()
        await super().close()

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in self._decoder.aiter_bytes(self._bytes):
            if event.event == "error" and '"error"' not in event.data:
                yield type(event)(data=f'{{"error": {event.data or "true"}}}')
            elif event.data:
                yield event


def _key(api_key: str | None, base: str | None) -> str:
    key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
    if key:
        return key
    if base and host_of(base) != _OWN_HOST:
        return _NO_KEY_NEEDED
    raise ConfigError("There is no key for OpenAI: set the environment variable OPENAI_API_KEY.")


@dataclass
class _OpenCall:
    """A tool call while it is being streamed. `index` is None where the server sends none."""

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_meant_by(self, delta: Mapping[str, Any], last: bool) -> bool:
        """True if `delta` continues this call, by whichever of its marks the server sends.

        Args:
            delta: The piece of a call.
            last: True if this is the newest call so far.
        """
        index, call_id, name, arguments = _marks(delta)
        if index is not None and index != self.index:
            return False
        if call_id and self.id and call_id != self.id:
            # Gemini gives each call index 0: a new name under a new id is a new call.
            return index is not None and not name
        if index is None and not last and not call_id:
            return False
        if name and self.name and name != self.name:
            return False
        return not (name and arguments and is_json_object(self.arguments))

    def add(self, delta: Mapping[str, Any]) -> None:
        _, call_id, name, arguments = _marks(delta)
        self.id = self.id or call_id
        self.name = self.name or name
        self.pieces.append(arguments)
        self.extra |= {
            key: value
            for key, value in delta.items()
            if key not in _KNOWN_IN_A_CALL and value is not None
        }

    def finished(self) -> ToolCall:
        metadata = {"provider": _NAME, "extra": sendable(self.extra)} if self.extra else {}
        return ToolCall(self.id, self.name, self.arguments, metadata)


def _marks(delta: Mapping[str, Any]) -> tuple[int | None, str, str, str]:
    """Index, id, name and piece of the arguments."""
    function = mapping(delta.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    index = delta.get("index")
    return (
        index if isinstance(index, int) else None,
        string(delta.get("id")),
        string(function.get("name")),
        string(arguments),
    )


class _Reply:
    """A reply while it is being streamed."""

    def __init__(self) -> None:
        self.complete = False
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._calls: list[_OpenCall] = []
        self._usage = Usage()
        self._stop = ""
        self._refused = False

    def add(self, chunk: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add one chunk; yields its deltas."""
        choice = _choice(chunk)
        if usage := mapping(chunk.get("usage") or choice.get("usage")):
            self._usage = _usage(usage)
        delta = mapping(choice.get("delta"))
        yield from self._think(delta)
        yield from self._say(_words(delta.get("content")))
        if refusal := string(delta.get("refusal")):
            self._refused = True
            yield from self._say(refusal)
        self._call(delta)
        self._stop = string(choice.get("finish_reason")) or self._stop
        # The chunk with the usage alone is the last one.
        self.complete = bool(self._stop and usage and not choice)

    def add_whole(self, body: Mapping[str, Any]) -> Iterator[ReplyPart]:
        """Add a reply that came in one piece; yields its deltas."""
        choice = _choice(body)
        whole = {**choice, "delta": choice.get("message")}
        yield from self.add({"choices": [whole], "usage": body.get("usage")})

    @property
    def answered(self) -> bool:
        return bool(self._stop) and self._stop not in _BROKEN_STOPS

    def finished(self) -> MessageFinished | None:
        """The whole reply; None if the stream ended without a finish reason."""
        if not self._stop or self._stop in _BROKEN_STOPS:
            return None
        blocks = unique_ids(self._blocks())
        stop = stop_for(_STOPS.get(self._stop, "end"), blocks)
        message = Message("assistant", blocks)
        return MessageFinished(message, self._usage, "refused" if self._refused else stop)

    def _blocks(self) -> Iterator[Block]:
        thinking, text = "".join(self._thinking), "".join(self._text)
        if thinking or self._details:
            details = sendable(self._details)
            metadata = {"reasoning_details": details} if details else {}
            yield Thinking(thinking, {"provider": _NAME, **metadata})
        if text:
            yield Text(text)
        for call in self._calls:
            yield call.finished()

    def _say(self, text: str) -> Iterator[ReplyPart]:
        if text:
            self._text.append(text)
            yield TextDelta(clean(text))

    def _think(self, delta: Mapping[str, Any]) -> Iterator[ReplyPart]:
        details = _list(delta.get("reasoning_details"))
        added = "".join(self._detail(mapping(detail)) for detail in details)
        plain = string(delta.get("reasoning_content")) or string(delta.get("reasoning"))
        within = _words(delta.get("content"), "thinking")
        if text := plain or added or within:
            self._thinking.append(text)
            yield ThinkingDelta(clean(text))

    def _detail(self, piece: dict[str, Any]) -> str:
        """Add a piece of `reasoning_details`; returns its new text."""
        detail = next((d for d in self._details if _same_detail(d, piece)), None)
        if detail is None:
            self._details.append(dict(piece))
            return string(piece.get("text")) or string(piece.get("summary"))
        return _extend(detail, piece)

    def _call(self, delta: Mapping[str, Any]) -> None:
        for piece in _list(delta.get("tool_calls")):
            self._piece_of_call(mapping(piece))
        if function := mapping(delta.get("function_call")):
            self._piece_of_call({"function": function})

    def _piece_of_call(self, piece: Mapping[str, Any]) -> None:
        newest_first = reversed(list(enumerate(self._calls, 1)))
        for number, call in newest_first:
            if call.is_meant_by(piece, last=number == len(self._calls)):
                call.add(piece)
                return
        call = _OpenCall(_marks(piece)[0])
        call.add(piece)
        self._calls.append(call)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _choice(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice; others were not requested, and would mix with it."""
    choices = [mapping(choice) for choice in _list(chunk.get("choices"))]
    return next((choice for choice in choices if not count(choice.get("index"))), {})


def _words(content: object, kind: str = "text") -> str:
    """The text of a delta's content: a string, or parts of several kinds (Mistral)."""
    if isinstance(content, str):
        return content if kind == "text" else ""
    parts = [mapping(part) for part in _list(content)]
    said = [part.get(kind) for part in parts if part.get("type") == kind]
    return "".join(_words(value) for value in said)


def _same_detail(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("index", "type", "id"))


def _extend(detail: dict[str, Any], piece: Mapping[str, Any]) -> str:
    """Add a piece to the detail collected so far; returns its new text."""
    added = ""
    for key, value in piece.items():
        before = detail.get(key)
        if key not in ("text", "summary", "data") or not isinstance(before, str):
            detail[key] = before if value is None else value
            continue
        # MiniMax repeats all the text so far each time, others send the new part.
        new = string(value)
        new = new[len(before) :] if len(new) > len(before) and new.startswith(before) else new
        detail[key] = before + new
        added = new if key != "data" else added
    return added


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = mapping(usage.get("prompt_tokens_details"))
    return Usage(
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
        # DeepSeek and Moonshot have fields of their own for the cached part.
        count(details.get("cached_tokens"))
        or count(usage.get("prompt_cache_hit_tokens"))
        or count(usage.get("cached_tokens")),
        count(details.get("cache_write_tokens")),
    )


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": clean(tool.description)} if tool.description.strip() else {}
    function = {"name": tool.name, **described, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _messages(message: Message) -> list[dict[str, Any]]:
    """The API's messages for one of ours: each tool result is a message of its own."""
    if message.role == "assistant":
        return [_assistant(message)]
    results = message.tool_results
    said = [block for block in message.blocks if not isinstance(block, ToolResult)]
    shown = [part for result in results for part in _pictures_of(result)]
    content = _content(said, shown)
    answered = [_tool_message(result) for result in results]
    return [*answered, {"role": "user", "content": content}] if content else answered


def _assistant(message: Message) -> dict[str, Any]:
    # `content` is null if there are only calls: some servers refuse an empty text.
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    details = [
        detail
        for block in message.blocks
        if isinstance(block, Thinking)
        for detail in block.metadata.get("reasoning_details", ())
    ]
    if details:
        said["reasoning_details"] = details
    if message.tool_calls:
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    extra = call.metadata.get("extra", {}) if call.metadata.get("provider") == _NAME else {}
    function = {"name": safe_name(call.name), "arguments": arguments_text(call)}
    return {**extra, "id": call.id, "type": "function", "function": function}


def _tool_message(result: ToolResult) -> dict[str, Any]:
    images = sum(isinstance(block, Image) and is_picture(block) for block in result.content)
    lines = [_line(block) for block in result.content]
    if images:
        lines.append("(1 image follows)" if images == 1 else f"({images} images follow)")
    text = "\n".join(line for line in lines if line.strip())
    return {"role": "tool", "tool_call_id": result.call_id, "content": text or NO_OUTPUT}


def _line(block: Text | Image) -> str:
    if isinstance(block, Text):
        return block.text
    return "" if is_picture(block) else picture_notice(block)


def _pictures_of(result: ToolResult) -> list[dict[str, Any]]:
    pictures = [_part(block) for block in result.content if _is_shown(block)]
    named = text_part(f"(images in the result of the tool call {result.call_id})")
    return [named, *pictures] if pictures else []


def _is_shown(block: Block) -> bool:
    return isinstance(block, Image) and is_picture(block)


def _content(said: Iterable[Block], shown: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A user message's content: a string if it is text alone, since local servers take no lists."""
    parts = [*shown, *(_part(block) for block in said)]
    if any(part["type"] != "text" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts)


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Text() | Context() | Said():
            return text_part(block.text)
        case Image() if is_picture(block):
            url = f"data:{block.media_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case Image():
            return text_part(picture_notice(block))
        case _:
            raise TypeError(f"a user message cannot hold a {block.type} block")
