"""Tool calls that a server left in the reply's text, made ordinary ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace

from jupyter_agent.events import MessageFinished, ReplySource
from jupyter_agent.llm.provider import Provider, ReplyPart, Request
from jupyter_agent.llm.textcalls import read
from jupyter_agent.llm.wire import unique_ids
from jupyter_agent.messages import Block, JsonObject, Message, Text, ToolCall, ToolSpec


class Inline:
    """A provider whose replies may have their tool calls in the text.

    Deltas pass as they come; the finished message takes their place.

    Args:
        provider: The one that is asked.
    """

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source: ReplySource = provider.source
        self._provider = provider

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        async with aclosing(self._provider.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, MessageFinished) and request.tools_allowed:
                    yield with_calls(part, request.tools)
                else:
                    yield part

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(request)

    async def close(self) -> None:
        await self._provider.close()


def with_calls(finished: MessageFinished, tools: Iterable[ToolSpec]) -> MessageFinished:
    """The reply with the calls in its text as tool calls; itself where there are none.

    A reply that was cut off right after a call stays cut off. Where more text came after the
    last call, that call was whole.
    """
    message = finished.message
    if message.tool_calls or finished.stop_reason == "refused" or not message.text.strip():
        return finished
    reading = read(message.text, {tool.name: tool for tool in tools})
    if not reading.calls:
        return finished
    calls = [
        ToolCall("", call.name, json.dumps(call.arguments, ensure_ascii=False))
        for call in reading.calls
    ]
    cut_off = finished.stop_reason == "max_tokens" and not reading.goes_on
    return replace(
        finished,
        message=spoken(message, reading.words, unique_ids(calls)),
        stop_reason="max_tokens" if cut_off else "tool_use",
    )


def spoken(message: Message, words: str, calls: Iterable[Block]) -> Message:
    """The message with other words, and calls after them; its thinking stays."""
    others = tuple(block for block in message.blocks if not isinstance(block, Text))
    said = (Text(words),) if words.strip() else ()
    return replace(message, blocks=(*others, *said, *calls))
