"""The bytes of a request: those of the whole conversation, however it was put together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.core.messages import (
    Context,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from jupyter_agent.llm.encoding import Encoder, dumped
from jupyter_agent.llm.wire import conversation

MESSAGES = [
    Message("user", (Text('Grüße 漢字 \n\t"x"'),)),
    Message("user", (Context("<context>"), Text(" "))),
    Message("user", (ToolResult("a", (Text("one"),)), Text("and"))),
    Message("user", (Text(" "),)),  # goes nowhere
    Message("system", (Text("amid"),)),
    Message("assistant", (Text("I look."), ToolCall("a", "look", "{}"))),
    Message("assistant", (ToolCall("b", "look", "{}"), Text("late words"))),
    Message("assistant", (Thinking("of another provider", {"provider": "other", "x": 1}),)),
]


def rendered(message: Message) -> list[dict[str, Any]]:
    """One message as several, as one of the APIs has it."""
    return [{"role": message.role, "block": repr(block)} for block in message.blocks]


def whole(messages: tuple[Message, ...]) -> bytes:
    """All of it, put into JSON at once."""
    said = [part for _, message in conversation(messages, "own") for part in rendered(message)]
    return dumped({"model": "m", "messages": [{"role": "system"}, *said], "tools": [1]})


def around(expected: list[Message], sent: Sequence[Message]) -> dict[str, Any]:
    """What is around a conversation; it is told what will be sent of that."""
    assert list(sent) == expected
    return {"model": "m", "messages": [{"role": "system"}], "tools": [1]}


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.sampled_from(MESSAGES), max_size=4))))
def test_the_bytes_are_those_of_the_whole(changes: list[tuple[int, list[Message]]]) -> None:
    """A growing, cut or new conversation is encoded to the same bytes as a fresh one."""
    encoder, said = Encoder("own", rendered, asdict), ()
    for cut, more in changes:
        said = (*said[: len(said) if cut > 2 else cut], *more)
        sendable = [message for _, message in conversation(said, "own")]
        assert encoder.encoded(said, partial(around, sendable)) == whole(said)


def test_a_message_is_rendered_once() -> None:
    """Messages already sent are not rendered again, except the last, which may grow."""
    seen: list[Message] = []

    def counted(message: Message) -> list[dict[str, Any]]:
        seen.append(message)
        return rendered(message)

    encoder = Encoder("own", counted, asdict)
    said: tuple[Message, ...] = ()
    for number in range(100):
        said = (*said, Message("user" if number % 2 else "assistant", (Text(f"{number}"),)))
        encoder.encoded(said, lambda sent: {"messages": []})
    assert len(seen) <= 2 * len(said)


def test_a_value_that_stays_is_kept() -> None:
    """A session's tools are rendered once, and again only after a change."""
    encoder = Encoder("own", rendered, asdict)
    tools = [{"name": "look"}]
    bodies = [encoder.encoded((), lambda sent: {"messages": [], "tools": tools}) for _ in range(2)]
    tools.append({"name": "not seen"})
    assert encoder.encoded((), lambda sent: {"tools": tools}) == bodies[0].replace(
        b'"messages":[],', b""
    )
    assert bodies[0] == bodies[1]
    other = encoder.encoded((), lambda sent: {"messages": [], "tools": [*tools]})
    assert json.loads(other)["tools"] == tools


def test_the_tools_are_one_list() -> None:
    """The same tools give the same list object."""
    encoder = Encoder("own", rendered, asdict)
    specs = (ToolSpec("look", "Look.", {}),)
    tools = encoder.tools(specs)
    assert encoder.tools(specs) is tools
    assert encoder.tools((ToolSpec("see", "See.", {}),)) == [
        {"name": "see", "description": "See.", "parameters": {}}
    ]
