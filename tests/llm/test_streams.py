"""What the adapters make of a model's replies, and of everything that can go wrong with them."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

import pytest
from model_server import Call, Fault, ModelServer, Reply, failed

from jupyter_agent.core.events import MessageFinished, ReplyStop, TextDelta, ThinkingDelta
from jupyter_agent.core.messages import Message, Text, Thinking, ToolCall, Usage
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError, ContextOverflow, ProviderError
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.openai import OpenAI

HI = Request("", (Message("user", (Text("hi"),)),))
KEY = "sk-test-0123456789abcdef"
KINDS = pytest.mark.parametrize("kind", ["anthropic", "openai"])

Adapter = Anthropic | OpenAI


def make(kind: str, server: ModelServer, timeout: float = 10.0) -> Adapter:
    if kind == "anthropic":
        return Anthropic("test-model", KEY, server.anthropic_url, timeout=timeout)
    return OpenAI("test-model", KEY, server.openai_url, timeout=timeout)


@asynccontextmanager
async def serving(
    kind: str, *replies: Reply, timeout: float = 10.0
) -> AsyncIterator[tuple[Adapter, ModelServer]]:
    with ModelServer(replies) as server:
        provider = make(kind, server, timeout)
        yield provider, server
        await provider.close()


async def parts_of(kind: str, reply: Reply, request: Request = HI) -> list[ReplyPart]:
    async with serving(kind, reply) as (provider, _):
        return [part async for part in provider.stream(request)]


async def reply_of(kind: str, reply: Reply, request: Request = HI) -> MessageFinished:
    finished = (await parts_of(kind, reply, request))[-1]
    assert isinstance(finished, MessageFinished)
    return finished


async def error_of(kind: str, reply: Reply, timeout: float = 10.0) -> ProviderError:
    async with serving(kind, reply, timeout=timeout) as (provider, server):
        with pytest.raises(ProviderError) as caught:
            async for _ in provider.stream(HI):
                pass
        assert len(server.requests) == 1, "the SDK tried again on its own"
    line = str(caught.value)
    assert "\n" not in line and len(line) <= 300 and KEY not in line
    return caught.value


@KINDS
async def test_text(kind: str) -> None:
    """Text comes piece by piece, and then as one whole message with its usage."""
    parts = await parts_of(
        kind, Reply(text=("Hel", "lo"), input_tokens=9, output_tokens=4, cached_tokens=6)
    )
    assert parts == [
        TextDelta("Hel"),
        TextDelta("lo"),
        MessageFinished(Message("assistant", (Text("Hello"),)), Usage(9, 4, 6), "end"),
    ]


@KINDS
async def test_tool_calls(kind: str) -> None:
    """The arguments of a call are the model's own text, byte for byte."""
    raw = '{"path":   "é", "n": 1.50}'
    finished = await reply_of(
        kind,
        Reply(text="ok", calls=(Call("a", (raw[:5], raw[5:]), "id1"), Call("b", "", "id2"))),
    )
    assert finished.message.blocks == (
        Text("ok"),
        ToolCall("id1", "a", raw),
        ToolCall("id2", "b", ""),
    )
    assert finished.stop_reason == "tool_use"


@KINDS
async def test_cut_arguments(kind: str) -> None:
    """A call that was cut off by the token limit keeps its broken text."""
    reply = Reply(calls=(Call("a", '{"path": "x', "id1"),), stop="max_tokens")
    finished = await reply_of(kind, reply)
    assert finished.message.tool_calls == (ToolCall("id1", "a", '{"path": "x'),)
    assert finished.stop_reason == "max_tokens"


@KINDS
async def test_duplicate_and_known_ids(kind: str) -> None:
    """Ids that repeat, in a reply or in the history, are made unique; empty ones are made up."""
    history = (*HI.messages, Message("assistant", (ToolCall("x", "a", "{}"),)))
    calls = (Call("a", id="x"), Call("a", id="y"), Call("a", id="y"), Call("a", id=""))
    finished = await reply_of(kind, Reply(calls=calls), Request("", history))
    ids = [call.id for call in finished.message.tool_calls]
    assert ids[:3] == ["x", "y", "y_2"]
    assert ids[3].startswith("call_")


@KINDS
@pytest.mark.parametrize("stop", ["end", "max_tokens", "refused"])
async def test_stop_reasons(kind: str, stop: ReplyStop) -> None:
    """Each provider's stop reasons become ours."""
    assert (await reply_of(kind, Reply(text="x", stop=stop))).stop_reason == stop


@KINDS
async def test_contradicting_stop_reasons(kind: str) -> None:
    """Calls count despite an answer's stop reason; a call's stop reason alone is no call."""
    assert (await reply_of(kind, Reply(calls=(Call("a"),), stop="end"))).stop_reason == "tool_use"
    assert (await reply_of(kind, Reply(text="x", stop="tool_use"))).stop_reason == "end"


@KINDS
async def test_empty_reply(kind: str) -> None:
    """A reply without any content is a message without blocks."""
    finished = await reply_of(kind, Reply())
    assert (finished.message.blocks, finished.stop_reason) == ((), "end")


@KINDS
async def test_lone_surrogates(kind: str) -> None:
    """Halves of a character that arrive apart are put together again, or replaced."""
    parts = await parts_of(kind, Reply(text=("a\ud83d", "\ude00", "\ud800")))
    assert parts[-1].message.text == "a😀\ufffd"  # type: ignore[union-attr]
    for part in parts[:-1]:
        assert isinstance(part, TextDelta)
        part.text.encode()


async def test_anthropic_thinking() -> None:
    """Thinking and its signature, and redacted thinking, are kept as they came, in order."""
    parts = await parts_of(
        "anthropic",
        Reply(
            thinking="hm", signature="s/+=", redacted="xyz", text="a", calls=(Call("t", id="1"),)
        ),
    )
    assert parts[0] == ThinkingDelta("hm")
    assert parts[-1].message.blocks == (  # type: ignore[union-attr]
        Thinking("hm", {"provider": "anthropic", "signature": "s/+="}),
        Thinking("", {"provider": "anthropic", "redacted": "xyz"}),
        Text("a"),
        ToolCall("1", "t", "{}"),
    )


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop_sequence", "end"),
        ("model_context_window_exceeded", "max_tokens"),
        ("pause_turn", "max_tokens"),
        ("something_new", "end"),
    ],
)
async def test_rarer_anthropic_stops(reason: str, stop: str) -> None:
    """A paused reply is not finished; an unknown stop reason ends it."""
    raw = (
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": None},
        {"type": "message_stop"},
    )
    finished = await reply_of("anthropic", Reply(raw=raw))
    assert (finished.stop_reason, finished.usage) == (stop, Usage(3))


async def test_anthropic_usage_counts_all_input() -> None:
    """Input tokens include what was read from and written to the cache."""
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    raw = (
        {"type": "message_start", "message": {"usage": usage}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 0, "output_tokens": 20},
        },
        {"type": "message_stop"},
    )
    assert (await reply_of("anthropic", Reply(raw=raw))).usage == Usage(15, 20, 5, 7)


def delta(finish: str | None = None, **parts: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def piece(name: str | None = None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with one piece of a tool call."""
    named = {"name": name} if name is not None else {}
    given = {"arguments": arguments} if arguments is not None else {}
    return delta(tool_calls=[{**more, "function": named | given}])


TWO = [("a", '{"x": 1}'), ("b", '{"y": 2}')]
QUIRKS: dict[str, tuple[dict[str, Any], ...]] = {
    "whole calls in one chunk each, no index": (
        piece("a", '{"x": 1}', id="1"),
        piece("b", '{"y": 2}', id="2"),
    ),
    "no index, the id in each chunk": (
        piece("a", "", id="1"),
        piece(None, '{"x"', id="1"),
        piece(None, ": 1}", id="1"),
        piece("b", "", id="2"),
        piece(None, '{"y": 2}', id="2"),
    ),
    "no index, no id": (
        piece("a", '{"x"'),
        piece(None, ": 1}"),
        piece("b", '{"y": 2}'),
    ),
    "id and name in each chunk": (
        piece("a", '{"x"', index=0, id="1"),
        piece("a", ": 1}", index=0, id="1"),
        piece("b", '{"y": 2}', index=1, id="2"),
        piece("b", "", index=1, id="2"),
    ),
    "a new id in each chunk": (
        piece("a", '{"x"', index=0, id="1"),
        piece(None, ": 1}", index=0, id="9"),
        piece("b", '{"y": 2}', index=1, id="2"),
    ),
    "empty ids": (
        piece("a", '{"x": 1}', index=0, id=""),
        piece("b", '{"y": 2}', index=1, id=""),
    ),
    "index 0 for all": (
        piece("a", '{"x": 1}', index=0, id="1"),
        piece("b", '{"y": 2}', index=0, id="2"),
    ),
    "index 0 for all and empty ids": (
        piece("a", '{"x": 1}', index=0, id=""),
        piece("b", '{"y": 2}', index=0, id=""),
    ),
    "pieces in turns": (
        piece("a", '{"x"', index=0, id="1"),
        piece("b", '{"y"', index=1, id="2"),
        piece(None, ": 1}", index=0),
        piece(None, ": 2}", index=1),
    ),
    "both in one chunk": (
        delta(
            tool_calls=[
                {"index": 0, "id": "1", "function": {"name": "a", "arguments": {"x": 1}}},
                {"index": 1, "id": "2", "function": {"name": "b", "arguments": {"y": 2}}},
            ]
        ),
    ),
}


@pytest.mark.parametrize("quirk", QUIRKS)
async def test_openai_tool_call_quirks(quirk: str) -> None:
    """However a server splits two tool calls, they are parsed as the same two."""
    finished = await reply_of("openai", Reply(raw=(*QUIRKS[quirk], delta("stop"))))
    calls = finished.message.tool_calls
    assert [(call.name, call.arguments) for call in calls] == TWO
    assert len({call.id for call in calls}) == 2 and all(call.id for call in calls)
    assert finished.stop_reason == "tool_use"
    assert finished.usage == Usage()


async def test_openai_same_tool_twice_without_marks() -> None:
    """Two whole calls of one tool, without index and id, stay two."""
    raw = (piece("a", '{"x": 1}'), piece("a", '{"x": 2}'), delta("tool_calls"))
    calls = (await reply_of("openai", Reply(raw=raw))).message.tool_calls
    assert [call.arguments for call in calls] == ['{"x": 1}', '{"x": 2}']


async def test_openai_function_call() -> None:
    """The old form of a call, `function_call`, is parsed as a call."""
    raw = (delta("function_call", function_call={"name": "a", "arguments": "{}"}),)
    finished = await reply_of("openai", Reply(raw=raw))
    assert finished.message.tool_calls[0].name == "a"
    assert finished.stop_reason == "tool_use"


async def test_openai_unknown_fields_of_a_call() -> None:
    """A server's own fields of a call are kept in its metadata."""
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    raw = (piece("a", "{}", index=0, id="1", **extra), delta("tool_calls"))
    call = (await reply_of("openai", Reply(raw=raw))).message.tool_calls[0]
    assert call.metadata == {"provider": "openai", "extra": extra}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_openai_reasoning(name: str) -> None:
    """Reasoning under either name is thinking."""
    raw = (delta(**{name: "h"}), delta(**{name: "m"}), delta("stop", content="a"))
    parts = await parts_of("openai", Reply(raw=raw))
    assert parts[:2] == [ThinkingDelta("h"), ThinkingDelta("m")]
    assert parts[-1].message.blocks == (  # type: ignore[union-attr]
        Thinking("hm", {"provider": "openai"}),
        Text("a"),
    )


@pytest.mark.parametrize("texts", [("let ", "me see"), ("let ", "let me see")])
async def test_openai_reasoning_details(texts: tuple[str, str]) -> None:
    """Reasoning details are put together, whether each piece is new or all so far."""

    def detail(text: str | None, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "index": 0, "text": text, **more}

    raw = (
        delta(reasoning_details=[detail(texts[0])]),
        delta(reasoning_details=[detail(texts[1], signature="s")]),
        delta("stop", content="a"),
    )
    parts = await parts_of("openai", Reply(raw=raw))
    assert parts[:2] == [ThinkingDelta("let "), ThinkingDelta("me see")]
    metadata = {
        "provider": "openai",
        "reasoning_details": [detail("let me see", signature="s")],
    }
    assert parts[-1].message.blocks[0] == Thinking("let me see", metadata)  # type: ignore[union-attr]


async def test_openai_refusal() -> None:
    """A refusal keeps its words."""
    finished = await reply_of("openai", Reply(raw=(delta("stop", refusal="I will not."),)))
    assert (finished.message.text, finished.stop_reason) == ("I will not.", "refused")


@KINDS
async def test_chunks_of_odd_types(kind: str) -> None:
    """Values of the wrong type are skipped without an error."""
    odd = (
        {"type": 5, "choices": "x"},
        {"type": "content_block_start", "content_block": None, "index": "a", "choices": [None]},
        {"type": "content_block_delta", "delta": [], "choices": [{"delta": 1}], "usage": []},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"a": "b"}},
        {"type": "message_stop", **delta("stop", content=4, tool_calls=[1, {"function": 2}])},
    )
    finished = await reply_of(kind, Reply(raw=odd))
    assert finished.message.text == ""


@KINDS
@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 402, 403, 404, 422)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    ],
)
async def test_statuses(kind: str, status: int, retryable: bool) -> None:
    """Each status gives one line with the cause, and whether a retry makes sense."""
    error = await error_of(kind, failed(status, {"error": {"message": "no\ngood " * 200}}))
    assert (error.status, error.retryable) == (status, retryable)
    assert str(status) in str(error) and "no good" in str(error)


@KINDS
async def test_what_to_do(kind: str) -> None:
    """The line names the setting to check."""
    name = "ANTHROPIC_API_KEY" if kind == "anthropic" else "OPENAI_API_KEY"
    denied = await error_of(kind, failed(401, {"error": {"message": f"bad key {KEY}"}}))
    assert name in str(denied)
    lost = await error_of(kind, failed(404, {"error": {"message": "no such model"}}))
    assert "test-model" in str(lost) and "api_base" in str(lost)


@KINDS
@pytest.mark.parametrize(
    "body",
    ["<html>\n<body>Bad gateway</body></html>", "plain\nwords", "", {"detail": "words"}, {"a": 1}],
)
async def test_bodies_that_are_no_errors(kind: str, body: Any) -> None:
    """Any body is accepted as an error, and HTML is kept out of the message."""
    error = await error_of(kind, failed(502, body))
    assert "502" in str(error) and "<" not in str(error)


@KINDS
@pytest.mark.parametrize(("value", "wait"), [("2", 2), ("0.5", 0.5), ("0", 0)])
async def test_retry_after(kind: str, value: str, wait: float) -> None:
    """The wait that a server asks for may be in seconds."""
    assert (await error_of(kind, failed(429, "slow", retry_after=value))).retry_after == wait


@KINDS
@pytest.mark.parametrize(("distance", "low", "high"), [(30, 5, 30), (-30, 0, 0)])
async def test_retry_after_a_date(kind: str, distance: int, low: float, high: float) -> None:
    """The wait that a server asks for may be a date; a past one is no wait."""
    date = formatdate(time.time() + distance, usegmt=True)
    error = await error_of(kind, failed(429, "slow", retry_after=date))
    assert error.retry_after is not None and low <= error.retry_after <= high


@KINDS
@pytest.mark.parametrize("value", ["-3", "soon", "nan", "inf", "", "99 Foo 9999"])
async def test_nonsense_in_retry_after(kind: str, value: str) -> None:
    """A malformed wait is ignored."""
    assert (await error_of(kind, failed(429, "slow", retry_after=value))).retry_after is None


@KINDS
async def test_retry_after_in_milliseconds(kind: str) -> None:
    """The header in milliseconds has precedence."""
    reply = failed(429, "slow", retry_after="9", retry_after_ms="250")
    assert (await error_of(kind, reply)).retry_after == 0.25


async def test_used_up_quota() -> None:
    """A used-up quota is not retried."""
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}
    error = await error_of("openai", failed(429, body))
    assert not error.retryable and "billing" in str(error)


@KINDS
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "too many"}}),
        (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens."}}),
        (400, {"error": {"type": "exceed_context_size_error", "message": "too large"}}),
        (413, "<html>too large</html>"),
    ],
)
async def test_context_overflow(kind: str, status: int, body: Any) -> None:
    """A context overflow is distinguished from other refusals."""
    error = await error_of(kind, failed(status, body))
    assert isinstance(error, ContextOverflow)
    assert (error.status, error.retryable) == (status, False)


@KINDS
@pytest.mark.parametrize("fault", ["cut", "corrupt", "missing"])
async def test_broken_streams(kind: str, fault: str) -> None:
    """A stream that breaks off is a temporary failure, never a short reply."""
    reply = (
        Reply(text="half", stop="missing")
        if fault == "missing"
        else Reply(text="half", fault=Fault(fault))  # type: ignore[arg-type]
    )
    error = await error_of(kind, reply)
    assert error.retryable and error.status is None


async def test_no_message_stop() -> None:
    """A stop reason alone does not complete a reply of Anthropic's."""
    raw = ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}},)
    assert (await error_of("anthropic", Reply(raw=raw))).retryable


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_openai_reasons_of_a_broken_reply(reason: str) -> None:
    """A finish reason that means a failure is an error."""
    assert (await error_of("openai", Reply(raw=(delta(reason, content="ha"),)))).retryable


@pytest.mark.parametrize(
    ("kind", "body", "status", "retryable"),
    [
        ("anthropic", {"type": "overloaded_error", "message": "Overloaded"}, 529, True),
        ("anthropic", {"type": "invalid_request_error", "message": "no"}, 400, False),
        ("anthropic", {"type": "brand_new_error", "message": "no"}, None, True),
        ("openai", {"message": "no", "type": "server_error"}, 500, True),
        ("openai", {"message": "no", "code": 502}, 502, True),
        ("openai", {"message": "no", "code": "invalid_api_key"}, 401, False),
        ("openai", {"message": "no"}, None, True),
    ],
)
async def test_error_events(
    kind: str, body: dict[str, Any], status: int | None, retryable: bool
) -> None:
    """An error in the middle of a stream counts as the status that it stands for."""
    fault = Fault("event", body={"type": "error", "error": body})
    error = await error_of(kind, Reply(text="half", fault=fault))
    assert (error.status, error.retryable) == (status, retryable)


@KINDS
async def test_overflow_in_a_stream(kind: str) -> None:
    """A context overflow inside a stream is recognized, too."""
    body = {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}
    error = await error_of(kind, Reply(fault=Fault("event", body=body)))
    assert isinstance(error, ContextOverflow)


@KINDS
@pytest.mark.parametrize(
    "reply", [Reply(delay=120), Reply(text="x", fault=Fault("stall", seconds=120))]
)
async def test_time_outs(kind: str, reply: Reply) -> None:
    """A server that is silent, before or during its reply, times out."""
    begun = time.monotonic()
    error = await error_of(kind, reply, timeout=0.3)
    assert error.retryable and "in time" in str(error)
    assert time.monotonic() - begun < 60


@KINDS
async def test_no_server(kind: str) -> None:
    """An unreachable server is a temporary failure that names it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    make_one: Callable[..., Adapter] = Anthropic if kind == "anthropic" else OpenAI
    provider = make_one("m", KEY, f"http://{address}")
    with pytest.raises(ProviderError) as caught:
        await anext(provider.stream(HI))
    await provider.close()
    assert caught.value.retryable and address in str(caught.value)


@KINDS
async def test_malformed_address(kind: str) -> None:
    """A malformed address is not retried."""
    make_one: Callable[..., Adapter] = Anthropic if kind == "anthropic" else OpenAI
    provider = make_one("m", KEY, "ftp://example.invalid")
    with pytest.raises(ProviderError, match="api_base") as caught:
        await anext(provider.stream(HI))
    await provider.close()
    assert not caught.value.retryable


@KINDS
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_stopping_closes_the_connection(kind: str, how: str) -> None:
    """Cancelling or closing a stream closes the connection at once."""
    reply = Reply(text="x", fault=Fault("stall", seconds=30))
    async with serving(kind, reply, timeout=60) as (provider, server):
        stream = provider.stream(HI)
        assert await anext(stream) == TextDelta("x")
        if how == "cancel":
            await _cancelled(stream)
        else:
            await stream.aclose()
        assert await asyncio.to_thread(server.hung_up.wait, 20)


async def _cancelled(stream: AsyncGenerator[ReplyPart, None]) -> None:
    async def rest() -> None:
        async for _ in stream:
            pass

    task = asyncio.create_task(rest())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@KINDS
async def test_dawdling_after_the_reply(kind: str) -> None:
    """A complete reply does not wait for the server to hang up."""
    stop: tuple[dict[str, Any], ...] = (
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
        {"fault": Fault("stall", seconds=120)},
    )
    if kind == "openai":
        usage = {"choices": [], "usage": {"prompt_tokens": 1}}
        stop = (delta("stop", content="x"), usage, stop[-1])
    begun = time.monotonic()
    await reply_of(kind, Reply(raw=stop))
    assert time.monotonic() - begun < 60


@KINDS
async def test_one_connection_for_many_calls(kind: str) -> None:
    """The next call goes over the connection of the one before."""
    async with serving(kind, Reply(text="1"), Reply(text="2")) as (provider, server):
        for _ in range(2):
            async for _ in provider.stream(HI):
                pass
        assert len(server.connections) == 1


@KINDS
@pytest.mark.filterwarnings("ignore")
def test_two_event_loops(kind: str) -> None:
    """A provider works on another event loop than the one of its first use."""

    async def ask(provider: Adapter) -> str:
        async for part in provider.stream(HI):
            if isinstance(part, MessageFinished):
                return part.message.text
        return ""

    async def ask_and_close(provider: Adapter) -> str:
        text = await ask(provider)
        await provider.close()
        return text

    with ModelServer([Reply(text="1"), Reply(text="2")]) as server:
        provider = make(kind, server)
        assert asyncio.run(ask(provider)) == "1"
        assert asyncio.run(ask_and_close(provider)) == "2"
    # The sockets of a loop that is gone cannot be closed politely: their warnings belong here.
    del provider
    gc.collect()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """An environment without keys, addresses and the SDKs' own files."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return monkeypatch


@KINDS
def test_missing_key(kind: str, bare: pytest.MonkeyPatch) -> None:
    """Without a key, one line says which variable to set."""
    make_one: Callable[..., Adapter] = Anthropic if kind == "anthropic" else OpenAI
    with pytest.raises(ConfigError, match=f"{kind.upper()}_API_KEY") as caught:
        make_one("m")
    assert "\n" not in str(caught.value)


async def test_local_server_without_key(bare: pytest.MonkeyPatch) -> None:
    """A server that is not OpenAI's gets none of our keys."""
    with ModelServer([Reply(text="x")]) as server:
        bare.setenv("OPENAI_BASE_URL", server.openai_url)
        provider = OpenAI("m")
        async for _ in provider.stream(HI):
            pass
        await provider.close()
        assert server.requests[0].headers["authorization"] == "Bearer not-needed"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
async def test_anthropic_environment(bare: pytest.MonkeyPatch, name: str) -> None:
    """Key, token and address come from the environment as the SDK has it."""
    with ModelServer([failed(401, {"error": {"message": "denied: token-of-env"}})]) as server:
        bare.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        bare.setenv(name, "token-of-env")
        provider = Anthropic("m")
        with pytest.raises(ProviderError) as caught:
            await anext(provider.stream(HI))
        await provider.close()
        assert "token-of-env" in json.dumps(server.requests[0].headers)
        assert "token-of-env" not in str(caught.value)
