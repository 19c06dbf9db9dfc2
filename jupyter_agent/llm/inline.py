"""Reads tool calls from the text of a reply, for servers that leave them there.

A text may also quote a call: from a file, a note, or a tool's result. So no call is read from the
text of a server that calls tools by its API, and calls from the text of another server are marked,
so that the user is asked about them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace

from jupyter_agent.core.events import MessageFinished, ReplySource
from jupyter_agent.core.messages import Block, JsonObject, Message, Text, ToolCall, ToolSpec
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.llm.textcalls import read
from jupyter_agent.llm.wire import unique_ids

_FROM_TEXT: JsonObject = {"read_from": "text"}
"""The metadata of a call that the user must be asked about."""


def is_from_text(call: ToolCall) -> bool:
    """True if a call was read from the text of a reply, which may only quote it."""
    return call.metadata.get("read_from") == "text"


class Inline:
    """A provider whose replies may have their tool calls in the text.

    Deltas pass through unchanged; the finished message replaces them.

    Args:
        provider: The model to ask.
        calling: The addresses of servers that call tools by their API; each call by the API adds
            its server. None: calls in the text count like others, since the user chose so.
    """

    def __init__(self, provider: Model, calling: set[str] | None = None) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source: ReplySource = provider.source
        self._provider = provider
        self._calling = calling
        self._address = str(getattr(provider, "address", provider.name))
        self._calls_natively = bool(getattr(provider, "calls_natively", False))

    @property
    def reads_text(self) -> bool:
        """True if calls are read from the text of the next reply."""
        if self._calling is None:
            return True
        return not self._calls_natively and self._address not in self._calling

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        async with aclosing(self._provider.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                yield self._read(part, request) if isinstance(part, MessageFinished) else part

    def _read(self, finished: MessageFinished, request: Request) -> MessageFinished:
        if self._calling is not None and finished.message.tool_calls:
            self._calling.add(self._address)
        if not (request.tools_allowed and self.reads_text):
            return finished
        return with_calls(finished, request.tools, {} if self._calling is None else _FROM_TEXT)

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(request)

    async def close(self) -> None:
        await self._provider.close()


def with_calls(
    finished: MessageFinished, tools: Iterable[ToolSpec], metadata: JsonObject | None = None
) -> MessageFinished:
    """The reply with the calls in its text as tool calls; unchanged if there are none.

    A reply that was cut off right after a call stays cut off. If more text follows the last call,
    that call is complete.

    Args:
        finished: A model's reply.
        tools: The tools that it may call.
        metadata: The metadata for the calls.
    """
    message = finished.message
    if message.tool_calls or finished.stop_reason == "refused" or not message.text.strip():
        return finished
    reading = read(message.text, {tool.name: tool for tool in tools})
    if not reading.calls:
        return finished
    calls = [
        ToolCall("", call.name, json.dumps(call.arguments, ensure_ascii=False), metadata or {})
        for call in reading.calls
    ]
    cut_off = finished.stop_reason == "max_tokens" and not reading.goes_on
    return replace(
        finished,
        message=spoken(message, reading.words, unique_ids(calls)),
        stop_reason="max_tokens" if cut_off else "tool_use",
    )


def spoken(message: Message, words: str, calls: Iterable[Block]) -> Message:
    """The message with another text, followed by calls; its thinking stays."""
    others = tuple(block for block in message.blocks if not isinstance(block, Text))
    said = (Text(words),) if words.strip() else ()
    return replace(message, blocks=(*others, *said, *calls))
