"""A scripted model behind real HTTP, in both wire formats, and strict checks of what it is sent.

with ModelServer([Reply(text="Hello")]) as server:
    provider = Anthropic("test-model", api_key="k", api_base=server.anthropic_url)
    ...
check_anthropic(server.requests[0].body)
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Literal

from jupyter_agent.core.history import NO_REPLY

Json = dict[str, Any]
Stop = Literal["end", "tool_use", "max_tokens", "refused", "missing"]

_ANTHROPIC_STOP = {
    "end": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refused": "refusal",
}
_OPENAI_STOP = {
    "end": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refused": "content_filter",
}


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is raw text, in pieces where it is a tuple; `id` None: counted."""

    name: str
    arguments: str | tuple[str, ...] = "{}"
    id: str | None = None


@dataclass(frozen=True)
class Fault:
    """What goes wrong. All kinds but `status` strike after the reply's content.

    `status` answers with `status`, `headers` and `body` (a dict is sent as JSON); `cut` closes
    the connection; `stall` is silent for `seconds`, or until the server `goes_on`; `corrupt` sends
    a chunk that is no JSON; `event` sends `body` as an error event.
    """

    kind: Literal["status", "cut", "stall", "corrupt", "event"]
    status: int = 500
    body: Json | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Reply:
    """One scripted reply.

    Args:
        text: The words; a tuple is sent piece by piece.
        calls: Tool calls, after the text.
        thinking: Reasoning, before the text, with its `signature` (Anthropic only).
        redacted: Data of a redacted thinking block (Anthropic only).
        stop: Why the reply ends; None: `tool_use` with calls, else `end`. `missing`: the
            stream ends properly, but says no reason.
        input_tokens: Tokens that were sent, the cached ones included.
        output_tokens: Tokens of the reply.
        cached_tokens: The part of `input_tokens` that came from the cache.
        fault: What goes wrong.
        delay: Seconds before the response starts.
        pause: Seconds between the pieces.
        hold: A piece of the text before which the server waits until it `goes_on`.
        raw: Events or chunks to send word for word instead of all the above.
    """

    text: str | tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    signature: str = "signature-1"
    redacted: str = ""
    stop: Stop | None = None
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    fault: Fault | None = None
    delay: float = 0.0
    pause: float = 0.0
    hold: str = ""
    raw: tuple[Json, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def reason(self) -> Stop:
        return self.stop or ("tool_use" if self.calls else "end")


def failed(status: int, body: Json | str = "", **headers: str) -> Reply:
    """A reply that is an HTTP error. Header names: `retry_after="2"` is `retry-after: 2`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(fault=Fault("status", status, body, named))


@dataclass(frozen=True)
class Recorded:
    """One request as it came: `body` is parsed, `raw` is what was on the wire."""

    path: str
    headers: dict[str, str]
    body: Json
    raw: bytes


Script = Sequence[Reply] | Callable[[Json], Reply]


class ModelServer:
    """A model server on a free local port, to be used as a context manager.

    Args:
        script: The replies in order, or a function from a request's body to its reply. A
            request beyond the script gets status 400, which no client tries again.
    """

    def __init__(self, script: Script) -> None:
        self._replies = iter(()) if callable(script) else iter(script)
        self._choose = script if callable(script) else None
        self._lock = threading.Lock()
        self._calls = 0
        self.requests: list[Recorded] = []
        self.closing = threading.Event()
        self.hung_up = threading.Event()
        """Set when a client closed its connection while the server stalled."""
        self.goes_on = threading.Event()
        """Set by a test that has seen enough of a stall: the end of the reply follows."""
        self.connections: set[socket.socket] = set()
        self._http = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self.connections):
            _hang_up(connection)
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def anthropic_url(self) -> str:
        """The `api_base` for the Anthropic format."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The `api_base` for the OpenAI format."""
        return f"{self.url}/v1"

    @property
    def bodies(self) -> list[Json]:
        """The parsed bodies of all requests."""
        return [request.body for request in self.requests]

    def answer(self, request: Recorded) -> Reply:
        """Record the request and choose its reply."""
        with self._lock:
            self.requests.append(request)
            if self._choose is None:
                return next(self._replies, failed(400, "the script has no more replies"))
        return self._choose(request.body)  # side by side, as servers do

    def next_id(self) -> str:
        """An id for a tool call, unique on this server."""
        with self._lock:
            self._calls += 1
            return f"call_{self._calls}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], model: ModelServer) -> None:
        self.model = model
        super().__init__(address, _Connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is part of the tests."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.model.connections.add(self.connection)

    def finish(self) -> None:
        self.server.model.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `requests`, not a log."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.model.answer(Recorded(self.path, headers, json.loads(raw), raw))
        self.server.model.closing.wait(reply.delay)
        if reply.fault and reply.fault.kind == "status":
            self._refuse(reply.fault)
        elif self.path.endswith("/v1/messages"):
            self._stream(reply, _anthropic_events(reply, self.server.model), named=True)
        elif self.path.endswith("/chat/completions"):
            self._stream(reply, _openai_chunks(reply, self.server.model), named=False)
        else:
            self._refuse(Fault("status", 404, {"error": {"message": "no such path"}}))

    def _refuse(self, fault: Fault) -> None:
        is_json = isinstance(fault.body, dict)
        body = (json.dumps(fault.body) if is_json else str(fault.body)).encode()
        self.send_response(fault.status)
        self.send_header("content-type", "application/json" if is_json else "text/html")
        self.send_header("content-length", str(len(body)))
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply, events: Iterator[Json], *, named: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if "fault" in event:
                if not self._fail(event["fault"], named=named):
                    return
                continue
            data = json.dumps(event)
            if reply.hold and reply.hold in data:
                self._stall(60)
                self.server.model.goes_on.clear()
            self._event(data, event.get("type") if named else None)
            self.server.model.closing.wait(reply.pause)
        if not named:
            self._event("[DONE]", None)
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str, name: str | None) -> None:
        head = f"event: {name}\n" if name else ""
        payload = f"{head}data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))

    def _fail(self, fault: Fault, *, named: bool) -> bool:
        """Carry out a fault; says whether the stream goes on."""
        if fault.kind == "stall":
            return self._stall(fault.seconds)
        if fault.kind == "corrupt":
            self._event('{"broken', "content_block_delta" if named else None)
        elif fault.kind == "event":
            self._event(json.dumps(fault.body), "error" if named else None)
        else:
            self.close_connection = True
            _hang_up(self.connection)
        return fault.kind != "cut"

    def _stall(self, seconds: float) -> bool:
        model, end = self.server.model, time.monotonic() + seconds
        while time.monotonic() < end and not model.closing.is_set():
            if model.goes_on.is_set():
                return True
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                model.hung_up.set()
                return False
        return not model.closing.is_set()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _arguments(call: Call) -> tuple[str, ...]:
    return (call.arguments,) if isinstance(call.arguments, str) else call.arguments


def events(kind: str, reply: Reply, server: Any) -> Iterator[Json]:
    """The events or chunks of a reply in the format `kind`; a fault is `{"fault": fault}`."""
    made = _anthropic_events if kind == "anthropic" else _openai_chunks
    return made(reply, server)


def _anthropic_events(reply: Reply, server: ModelServer) -> Iterator[Json]:
    if reply.raw:
        yield from reply.raw
        return
    usage = {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_read_input_tokens": reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    for index, (start, deltas) in enumerate(_anthropic_blocks(reply, server)):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.fault:
        yield {"fault": reply.fault}
    if reply.reason != "missing":
        stop = {"stop_reason": _ANTHROPIC_STOP[reply.reason], "stop_sequence": None}
        yield {
            "type": "message_delta",
            "delta": stop,
            "usage": {"output_tokens": reply.output_tokens},
        }
        yield {"type": "message_stop"}


def _anthropic_blocks(reply: Reply, server: ModelServer) -> Iterator[tuple[Json, list[Json]]]:
    if reply.thinking:
        signature = {"type": "signature_delta", "signature": reply.signature}
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": reply.thinking}, signature],
        )
    if reply.redacted:
        yield {"type": "redacted_thinking", "data": reply.redacted}, []
    if reply.pieces:
        deltas = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        yield {"type": "text", "text": ""}, deltas
    for call in reply.calls:
        call_id = server.next_id() if call.id is None else call.id
        yield (
            {"type": "tool_use", "id": call_id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": p} for p in _arguments(call)],
        )


def _openai_chunks(reply: Reply, server: ModelServer) -> Iterator[Json]:
    if reply.raw:
        yield from reply.raw
        return
    yield _chunk({"role": "assistant", "content": ""})
    if reply.thinking:
        yield _chunk({"reasoning_content": reply.thinking})
    for piece in reply.pieces:
        yield _chunk({"content": piece})
    for index, call in enumerate(reply.calls):
        call_id = server.next_id() if call.id is None else call.id
        head = {"index": index, "id": call_id, "type": "function"}
        yield _chunk({"tool_calls": [head | {"function": {"name": call.name, "arguments": ""}}]})
        for piece in _arguments(call):
            part = {"index": index, "function": {"arguments": piece}}
            yield _chunk({"tool_calls": [part]})
    if reply.fault:
        yield {"fault": reply.fault}
    if reply.reason != "missing":
        yield _chunk({}, _OPENAI_STOP[reply.reason])
        usage = {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        }
        yield {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage}


def _chunk(delta: Json, finish_reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}


# Checks of a request ---------------------------------------------------------------------------

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def check_anthropic(
    body: Json, *, signatures: Collection[str] = (), unknown_tools: Collection[str] = ()
) -> None:
    """Raise AssertionError unless Anthropic's API would take the request.

    Args:
        body: The parsed request.
        signatures: Signatures that the model gave; all of them must come back, unchanged.
        unknown_tools: Names that the model made up and that may appear in calls.
    """
    assert body["model"] and body["max_tokens"] > 0 and body["stream"] is True
    names = _check_tool_names([tool["name"] for tool in body.get("tools", [])])
    for tool in body.get("tools", []):
        assert tool["input_schema"].get("type") == "object", f"schema of {tool['name']}"
    for block in body.get("system", []):
        assert block["text"].strip(), "an empty system block"
    messages = body["messages"]
    assert messages and messages[0]["role"] == "user", "the first message is not the user's"
    assert messages[-1]["role"] == "user", "the last message is not the user's"
    _check_alternation(messages)
    for number, message in enumerate(messages):
        _check_anthropic_message(number, message, names | set(unknown_tools))
    _check_anthropic_answers(messages)
    sent = [b.get("signature") for m in messages for b in m["content"] if b["type"] == "thinking"]
    missing = [signature for signature in signatures if signature not in sent]
    assert not missing, f"signatures {missing} did not come back; sent were {sent}"


def _check_tool_names(names: list[str]) -> set[str]:
    assert len(names) == len(set(names)), f"tool names repeat: {names}"
    for name in names:
        assert _NAME.fullmatch(name), f"{name!r} is no valid tool name"
    return set(names)


def _check_alternation(messages: list[Json]) -> None:
    roles = [message["role"] for message in messages]
    assert set(roles) <= {"user", "assistant"}, f"unknown roles in {roles}"
    for number, pair in enumerate(pairwise(roles), 1):
        assert pair[0] != pair[1], f"message {number} repeats the role {pair[0]}"


def _check_anthropic_message(number: int, message: Json, tools: set[str]) -> None:
    content = message["content"]
    assert content and isinstance(content, list), f"message {number} is empty"
    kinds = [block["type"] for block in content]
    allowed = (
        {"text", "image", "tool_result"}
        if message["role"] == "user"
        else {"text", "thinking", "redacted_thinking", "tool_use"}
    )
    assert set(kinds) <= allowed, f"message {number} ({message['role']}) has {kinds}"
    last_result = max((i for i, kind in enumerate(kinds) if kind == "tool_result"), default=-1)
    assert all(kind == "tool_result" for kind in kinds[: last_result + 1]), (
        f"message {number}: tool results do not come first: {kinds}"
    )
    if "tool_use" in kinds:
        calls = kinds[kinds.index("tool_use") :]
        assert set(calls) == {"tool_use"}, f"message {number}: tool calls are not last: {kinds}"
    assert "thinking" not in kinds[-1], f"message {number} ends in thinking"
    for block in content:
        _check_anthropic_block(number, block, tools)


def _check_anthropic_block(number: int, block: Json, tools: set[str]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), f"message {number} has an empty text"
        case "image":
            source = block["source"]
            assert source["type"] == "base64"
            _check_picture(source["media_type"], source["data"])
        case "thinking":
            assert block["signature"], f"message {number} has thinking without a signature"
        case "redacted_thinking":
            assert block["data"], f"message {number} has redacted thinking without data"
        case "tool_use":
            assert isinstance(block["input"], dict), f"message {number}: input is no object"
            assert block["name"] in tools, f"message {number}: unknown tool {block['name']!r}"
            assert _NAME.fullmatch(block["id"]), f"message {number}: bad id {block['id']!r}"
        case "tool_result":
            assert block["content"], f"message {number} has an empty tool result"
            for inner in block["content"]:
                assert inner["type"] in ("text", "image"), f"message {number}: {inner['type']}"
                _check_anthropic_block(number, inner, tools)


def _check_anthropic_answers(messages: list[Json]) -> None:
    asked: list[str] = []
    for number, message in enumerate(messages):
        content = message["content"]
        if message["role"] == "assistant":
            asked += [block["id"] for block in content if block["type"] == "tool_use"]
            continue
        answered = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
        before = messages[number - 1]["content"] if number else []
        calls = [block["id"] for block in before if block["type"] == "tool_use"]
        assert sorted(calls) == sorted(answered), (
            f"message {number} answers {answered}, but the calls were {calls}"
        )
    assert len(asked) == len(set(asked)), f"call ids repeat: {asked}"


def _check_picture(media_type: str, data: str) -> None:
    assert media_type in _PICTURES, f"images of type {media_type} are not taken"
    try:
        assert base64.b64decode(data, validate=True), "an image without data"
    except binascii.Error as error:
        raise AssertionError(f"an image that is not base64: {error}") from error


def check_openai(body: Json, *, unknown_tools: Collection[str] = ()) -> None:
    """Raise AssertionError unless a strict chat completions API would take the request.

    Args:
        body: The parsed request.
        unknown_tools: Names that the model made up and that may appear in calls.
    """
    assert body["model"] and body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    names = _check_tool_names([tool["function"]["name"] for tool in body.get("tools", [])])
    assert "tools" not in body or body["tools"], "an empty list of tools"
    known = names | set(unknown_tools) if names else None
    open_calls: list[str] = []
    asked: list[str] = []
    for number, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            assert call_id in open_calls, f"message {number} answers {call_id}, not an open call"
            open_calls.remove(call_id)
            content = message["content"]
            assert isinstance(content, str) and content.strip(), f"message {number} is empty"
            continue
        assert not open_calls, f"message {number} comes before the results of {open_calls}"
        open_calls = _check_openai_message(number, message, known)
        asked += open_calls
    assert not open_calls, f"the calls {open_calls} have no results"
    assert len(asked) == len(set(asked)), f"call ids repeat: {asked}"


def _check_openai_message(number: int, message: Json, tools: set[str] | None) -> list[str]:
    """Check a message that is no tool result; gives the ids of its calls."""
    role, content = message["role"], message["content"]
    assert role in ("system", "user", "assistant"), f"message {number} has the role {role}"
    assert role != "system" or number == 0, f"message {number} is a second system message"
    if isinstance(content, list):
        assert role == "user" and content, f"message {number} has a list as its content"
        for part in content:
            _check_openai_part(number, part)
    elif content is None:
        assert message.get("tool_calls"), f"message {number} is empty"
    else:
        assert content.strip(), f"message {number} is empty"
    assert "tool_calls" not in message or message["tool_calls"], f"message {number}: no calls"
    for call in message.get("tool_calls", []):
        function = call["function"]
        assert call["type"] == "function" and call["id"], f"message {number}: {call}"
        assert _NAME.fullmatch(function["name"]), f"message {number}: {function['name']!r}"
        assert tools is None or function["name"] in tools, f"unknown tool {function['name']!r}"
        assert isinstance(json.loads(function["arguments"]), dict), f"message {number}: {call}"
    return [call["id"] for call in message.get("tool_calls", [])]


def _check_openai_part(number: int, part: Json) -> None:
    if part["type"] == "text":
        assert part["text"].strip(), f"message {number} has an empty text"
        return
    assert part["type"] == "image_url", f"message {number} has a part {part['type']}"
    found = re.fullmatch(r"data:([^;]+);base64,(.*)", part["image_url"]["url"], re.DOTALL)
    assert found, f"message {number}: the image is no data URL"
    _check_picture(found[1], found[2])


def check_stable(requests: Sequence[Recorded]) -> None:
    """Raise AssertionError unless each request starts with all of the one before.

    System prompt and tools must be the same to the byte. The last message may have grown, or may
    have been replaced by one that quotes its task, which happens where a new task follows a turn
    without a reply; all earlier ones must be the same.
    """
    for earlier, later in pairwise(requests):
        for part in ("system", "tools"):
            assert _json(earlier.body.get(part)) == _json(later.body.get(part)), f"{part} changed"
        before, after = earlier.body["messages"], later.body["messages"]
        assert len(after) >= len(before), "the history became shorter"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            last = number == len(before) - 1
            assert _json(old) == _json(new) or (last and (_grew(old, new) or _quotes(new, old))), (
                f"message {number} changed:\n{_json(old)}\n{_json(new)}"
            )


def _grew(old: Json, new: Json) -> bool:
    before, after = old.get("content"), new.get("content")
    if isinstance(before, str) and isinstance(after, str):
        same = after.startswith(before)
    elif isinstance(before, list) and isinstance(after, list):
        same = _json(after[: len(before)]) == _json(before)
    else:
        same = False
    return same and {**old, "content": None} == {**new, "content": None}


def _quotes(new: Json, old: Json) -> bool:
    """True if a user's message quotes the task of another one, to which no model replied."""
    before, after = old.get("content"), new.get("content")
    if not (old["role"] == new["role"] == "user"):
        return False
    texts = [part.get("text", "") for part in after] if isinstance(after, list) else [str(after)]
    task = before[0].get("text", "") if isinstance(before, list) else str(before)
    return any(NO_REPLY in text and text.endswith(task) for text in texts)


def _json(value: object) -> str:
    return json.dumps(value)
