"""A scripted model behind HTTP, in both wire formats, in a process of its own.

with Server() as server:
    base = server.plan("run-1", {"kind": "chain", "steps": 20})
    ...                                   # base + "/v1/messages", base + "/v1/chat/completions"
    seen = server.seen("run-1")           # the requests, and when each came and was answered

It answers the n-th request of a run with the n-th reply of its plan, and does not look into the
request, so that it costs as little as a server can. A reply goes out in one write, with
TCP_NODELAY (which asyncio sets); one with pauses goes out token by token.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import chain
from benchmarks.chain import Plan, Reply

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n%s\r\n"
_SUMMARY_MARK = b"<execution>"


# What is on the wire ---------------------------------------------------------------------------


def anthropic_events(reply: Reply, step: int) -> Iterator[Json]:
    """The events of a reply as Anthropic streams it."""
    usage = {"input_tokens": 0, "output_tokens": 1}
    message = {"id": f"msg_{step}", "type": "message", "role": "assistant", "model": "model"}
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": start}
    yield _block_start(0, {"type": "text", "text": ""})
    for token in reply.tokens:
        yield _block_delta(0, {"type": "text_delta", "text": token})
    yield {"type": "content_block_stop", "index": 0}
    for index, (tool, argument, value) in enumerate(reply.calls, 1):
        call = {"type": "tool_use", "id": f"call_{step}_{index}", "name": tool, "input": {}}
        yield _block_start(index, call)
        for piece in _pieces(json.dumps({argument: value})):
            yield _block_delta(index, {"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 40}}
    yield {"type": "message_stop"}


def openai_chunks(reply: Reply, step: int) -> Iterator[Json]:
    """The chunks of a reply as OpenAI streams it."""
    yield _chunk({"role": "assistant", "content": ""})
    for token in reply.tokens:
        yield _chunk({"content": token})
    for index, (tool, argument, value) in enumerate(reply.calls):
        head = {"index": index, "id": f"call_{step}_{index}", "type": "function"}
        yield _chunk({"tool_calls": [head | {"function": {"name": tool, "arguments": ""}}]})
        for piece in _pieces(json.dumps({argument: value})):
            part = {"index": index, "function": {"arguments": piece}}
            yield _chunk({"tool_calls": [part]})
    yield _chunk({}, "tool_calls" if reply.calls else "stop")
    yield {**_chunk({}), "choices": [], "usage": _OPENAI_USAGE}


def anthropic_message(reply: Reply, step: int) -> Json:
    """A reply in one piece, for those who do not stream."""
    content: list[Json] = [{"type": "text", "text": "".join(reply.tokens)}]
    for index, (tool, argument, value) in enumerate(reply.calls, 1):
        called = {"name": tool, "input": {argument: value}}
        content.append({"type": "tool_use", "id": f"call_{step}_{index}", **called})
    return {
        "id": f"msg_{step}",
        "type": "message",
        "role": "assistant",
        "model": "model",
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 40},
    }


def openai_completion(reply: Reply, step: int) -> Json:
    """A reply in one piece, for those who do not stream."""
    message: Json = {"role": "assistant", "content": "".join(reply.tokens)}
    calls = [
        {
            "id": f"call_{step}_{index}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps({argument: value})},
        }
        for index, (tool, argument, value) in enumerate(reply.calls)
    ]
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {
        "id": f"c{step}",
        "object": "chat.completion",
        "created": 1,
        "model": "model",
        "choices": [choice],
        "usage": _OPENAI_USAGE,
    }


_OPENAI_USAGE = {"prompt_tokens": 0, "completion_tokens": 40, "total_tokens": 40}


def _chunk(delta: Json, finish_reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "model"}
    return {**head, "choices": [choice]}


def _block_start(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _block_delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), 24):
        yield text[start : start + 24]


def frames(is_anthropic: bool, reply: Reply, step: int) -> Iterator[tuple[bool, bytes]]:
    """The server-sent events of a reply, each with whether it is a token of its words."""
    if is_anthropic:
        for event in anthropic_events(reply, step):
            data = json.dumps(event)
            is_token = event["type"] == "content_block_delta" and event["index"] == 0
            yield is_token, f"event: {event['type']}\ndata: {data}\n\n".encode()
        return
    for chunk in openai_chunks(reply, step):
        choices = chunk["choices"]
        is_token = bool(choices and choices[0]["delta"].get("content"))
        yield is_token, f"data: {json.dumps(chunk)}\n\n".encode()
    yield False, b"data: [DONE]\n\n"


# The process -----------------------------------------------------------------------------------


@dataclass
class Run:
    """One run: its plan, and what came."""

    plan: Plan
    step: int = 0
    bodies: list[bytes] = field(default_factory=list)
    came: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)

    def next(self, body: bytes) -> tuple[Reply, int]:
        """The reply to the next request. A request for a summary is no step of the chain."""
        self.bodies.append(body)
        self.came.append(time.monotonic())
        if self.plan.get("sums_up") and _SUMMARY_MARK in body:
            return Reply(chain.in_tokens(chain.SUMMARY)), self.step
        self.step += 1
        return chain.reply(self.plan, self.step - 1), self.step - 1


class _Serving:
    """The connections of the process."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._ready: dict[tuple[str, bool, bool, int], bytes] = {}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                size = _length(head)
                body = await reader.readexactly(size) if size else b""
                await self._answer(path, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        _, what, name, *rest = path.split("/")
        if what == "plan":
            self._runs[name] = Run(json.loads(body))
            _write_json(writer, {})
        elif what == "seen":
            run = self._runs.pop(name)
            times = {"came": run.came, "first": run.first, "answered": run.answered}
            _write_json(writer, {**times, "bodies": [each.decode() for each in run.bodies]})
        else:
            await self._reply(self._runs[name], rest[-1] == "messages", body, writer)
        await writer.drain()

    async def _reply(
        self, run: Run, is_anthropic: bool, body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        reply, step = run.next(body)
        streams = b'"stream":true' in body or b'"stream": true' in body
        if reply.wait:
            await asyncio.sleep(reply.wait)
        if reply.pause and streams:
            await self._in_pieces(run, is_anthropic, reply, writer)
        else:
            ready = self._whole(run.plan, streams, is_anthropic, reply, step)
            run.first.append(time.monotonic())
            writer.write(ready)
        run.answered.append(time.monotonic())

    def _whole(
        self, plan: Plan, streams: bool, is_anthropic: bool, reply: Reply, step: int
    ) -> bytes:
        key = (json.dumps(plan), streams, is_anthropic, step if reply.calls else -1)
        if key not in self._ready:
            if streams:
                payload = b"".join(frame for _, frame in frames(is_anthropic, reply, step))
                kind = b"text/event-stream"
            else:
                made = anthropic_message if is_anthropic else openai_completion
                payload, kind = json.dumps(made(reply, step)).encode(), b"application/json"
            self._ready[key] = _with_length(kind, payload)
        return self._ready[key]

    async def _in_pieces(
        self, run: Run, is_anthropic: bool, reply: Reply, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(_HEAD % (b"text/event-stream", b"transfer-encoding: chunked\r\n"))
        due = time.monotonic()
        seen = False
        for is_token, frame in frames(is_anthropic, reply, run.step):
            if is_token:
                due += reply.pause
                if seen:
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                else:
                    run.first.append(time.monotonic())
                seen = True
            writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        writer.write(b"0\r\n\r\n")


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _with_length(kind: bytes, payload: bytes) -> bytes:
    return _HEAD % (kind, b"content-length: %d\r\n" % len(payload)) + payload


def _write_json(writer: asyncio.StreamWriter, data: Json) -> None:
    writer.write(_with_length(b"application/json", json.dumps(data).encode()))


async def _serve() -> None:
    serving = _Serving()
    server = await asyncio.start_server(serving.connected, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The process that wanted it holds the other end; when it is gone, so is this one.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


# The other side --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What the server saw of a run: the requests' bodies, and moments of `time.monotonic()`.

    Attributes:
        came: When each request was there.
        first: When its first token was written.
        answered: When its whole reply was written.
    """

    bodies: tuple[str, ...]
    came: tuple[float, ...]
    first: tuple[float, ...]
    answered: tuple[float, ...]

    @property
    def gaps(self) -> list[float]:
        """Seconds between each reply and the next request: what the client takes for a step."""
        return [
            later - earlier
            for earlier, later in zip(self.answered[:-1], self.came[1:], strict=True)
        ]


class Server:
    """The server in a process of its own, to be used as a context manager."""

    def __enter__(self) -> Server:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self._port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def plan(self, name: str, plan: Plan) -> str:
        """Begin a run; gives its base address, to which `/v1/messages` belongs."""
        self._post(f"plan/{name}", plan)
        return f"http://127.0.0.1:{self._port}/run/{name}"

    def seen(self, name: str) -> Seen:
        """What came in a run, which is forgotten by this."""
        data = self._post(f"seen/{name}", {})
        return Seen(**{key: tuple(value) for key, value in data.items()})

    def _post(self, path: str, data: Json) -> Json:
        url = f"http://127.0.0.1:{self._port}/{path}"
        request = urllib.request.Request(url, json.dumps(data).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            found: Json = json.load(answer)
            return found


if __name__ == "__main__":
    asyncio.run(_serve())
