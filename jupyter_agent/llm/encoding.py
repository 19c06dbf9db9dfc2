"""Encodes a provider's requests as bytes, each message once.

A conversation is sent again with every step, and grows at its end. To encode a long one as a whole
each time would take longer than the rest of a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyter_agent.core.messages import Message, ToolSpec
from jupyter_agent.llm.wire import conversation

Json = dict[str, Any]


class Encoder:
    """Encodes requests; reuses the bytes of the last conversation's shared beginning.

    Args:
        provider: The adapter's name, for `wire.conversation`.
        rendered: Converts one sendable message to the API's messages, maybe several.
        tool: Converts a tool to the API's form.
    """

    def __init__(
        self,
        provider: str,
        rendered: Callable[[Message], list[Json]],
        tool: Callable[[ToolSpec], Json],
    ) -> None:
        self._provider = provider
        self._rendered = rendered
        self._tool = tool
        self._tools: tuple[tuple[ToolSpec, ...], list[Json]] = ((), [])
        self._given: tuple[Message, ...] = ()
        self._begins: list[int] = []
        self._sendable: list[Message] = []
        self._texts: list[bytes] = []
        self._last: dict[str, tuple[object, bytes]] = {}

    def encoded(
        self,
        messages: tuple[Message, ...],
        around: Callable[[Sequence[Message]], Mapping[str, Any]],
    ) -> bytes:
        """A request to send.

        Args:
            messages: The conversation.
            around: Takes the sendable messages of `wire.conversation`, and returns the rest of
                the request; its `messages` come before the conversation. A value that is the same
                object as the last time is not encoded again.
        """
        self._take(messages)
        parts = []
        for key, value in around(self._sendable).items():
            if key == "messages":
                text = b"[%s]" % b",".join([*map(dumped, value), *self._texts])
            else:
                last = self._last.get(key)
                text = last[1] if last is not None and last[0] is value else dumped(value)
                self._last[key] = value, text
            parts.append(b"%s:%s" % (dumped(key), text))
        return b"{%s}" % b",".join(parts)

    def tools(self, specs: tuple[ToolSpec, ...]) -> list[Json]:
        """The tools in the API's form; the same list object for the same tools."""
        if self._tools[0] is not specs:
            self._tools = specs, [self._tool(spec) for spec in specs]
        return self._tools[1]

    def _take(self, messages: tuple[Message, ...]) -> None:
        given = len(self._given)
        goes_on = bool(self._begins) and messages[:given] == self._given
        # The last sendable message may become longer by what follows.
        kept = len(self._begins) - 1 if goes_on else 0
        start = self._begins[kept] if goes_on else 0
        begins, sendable, texts = self._begins[:kept], self._sendable[:kept], self._texts[:kept]
        for begin, message in conversation(messages[start:], self._provider):
            begins.append(start + begin)
            sendable.append(message)
            texts.append(b",".join(map(dumped, self._rendered(message))))
        self._given, self._begins, self._sendable, self._texts = messages, begins, sendable, texts


def dumped(value: Any) -> bytes:
    """The JSON bytes of a value, as the SDKs would send them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode()
