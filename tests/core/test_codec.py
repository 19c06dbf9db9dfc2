"""Messages and events as JSON, there and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jupyter_agent.core.codec import (
    event_from_json,
    event_to_brief_json,
    event_to_json,
    message_from_json,
    message_to_json,
)
from jupyter_agent.core.events import (
    Event,
    FileChange,
    MessageFinished,
    Noticed,
    Preparing,
    Receipt,
    Requested,
    Retrying,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    VariableChange,
)
from jupyter_agent.core.messages import (
    Context,
    Image,
    Message,
    Output,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

# Any character at all, lone surrogates included: models and file names bring them.
words = st.text(st.characters() | st.sampled_from("\ud800\udfff\0"), max_size=20)
keys = st.text(max_size=9)
counts = st.integers(0, 10**12)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, json_values, max_size=3)
usages = st.builds(Usage, counts, counts, counts, counts)
calls = st.builds(ToolCall, words, words, words, objects)
images = st.builds(Image, words, words)
texts = st.builds(Text, words)
kinds = st.sampled_from(["stdout", "stderr", "result", "display", "error", "diff"])
outputs = st.builds(Output, kinds, objects, objects)
results = st.builds(
    ToolResult,
    words,
    st.lists(texts | images, max_size=3).map(tuple),
    st.booleans(),
    st.lists(outputs, max_size=2).map(tuple),
    objects,
)
thoughts = st.builds(Thinking, words, objects)
blocks = texts | st.builds(Context, words) | thoughts | images | calls | results
roles = st.sampled_from(["system", "user", "assistant"])
messages = st.builds(Message, roles, st.lists(blocks, max_size=4).map(tuple))
variables = st.builds(
    VariableChange, words, st.sampled_from(["added", "changed", "deleted"]), words
)
files = st.builds(FileChange, words, st.sampled_from(["created", "changed"]), counts, counts)
receipts = st.builds(
    Receipt, st.lists(variables, max_size=2).map(tuple), st.lists(files, max_size=2).map(tuple)
)
seconds = st.floats(0, 1e9)
reply_stops = st.sampled_from(["end", "tool_use", "max_tokens", "refused"])
turn_stops = st.sampled_from(["end", "step_limit", "budget", "interrupted", "refused", "error"])
sources = st.sampled_from(["live", "recorded", "scripted"])
events = st.one_of(
    st.builds(TurnStarted, words, words, words, sources),
    st.builds(StepStarted, counts, counts),
    st.builds(Requested, words, counts, counts, counts, counts),
    st.builds(Noticed, words, st.booleans()),
    st.builds(Preparing, words),
    st.builds(TextDelta, words),
    st.builds(ThinkingDelta, words),
    st.builds(MessageFinished, messages, usages, reply_stops),
    st.builds(ToolStarted, calls),
    st.builds(ToolFinished, results, seconds),
    st.builds(Retrying, words, counts, seconds),
    st.builds(TurnFinished, turn_stops, usages, receipts, words),
)


def through_json(data: object) -> Any:
    return json.loads(json.dumps(data))


@given(events)
def test_events_come_back_equal(event: Event) -> None:
    """Every event is equal after a round trip through JSON."""
    assert event_from_json(through_json(event_to_json(event))) == event


@given(events)
def test_brief_events_come_back_equal(event: Event) -> None:
    """Every event is equal after a brief round trip without defaults, which is no longer text."""
    brief = through_json(event_to_brief_json(event))
    assert event_from_json(brief) == event
    assert len(json.dumps(brief)) <= len(json.dumps(event_to_json(event)))


def test_what_brief_leaves_out() -> None:
    """Only defaults are left out: a false that is no default and each `type` stay."""
    result = ToolResult("c", (Text("a"),))
    assert event_to_brief_json(ToolFinished(result, 0.0)) == {
        "type": "tool_finished",
        "seconds": 0.0,
        "result": {
            "type": "tool_result",
            "call_id": "c",
            "content": [{"text": "a", "type": "text"}],
        },
    }
    assert event_to_brief_json(Noticed("a", lasting=False))["lasting"] is False


@given(messages)
def test_messages_come_back_equal(message: Message) -> None:
    """Every message is equal after a round trip through JSON."""
    assert message_from_json(through_json(message_to_json(message))) == message


@given(blocks)
def test_blocks_keep_their_kind(block: Any) -> None:
    """A block comes back as the class that it was, even where two have the same fields."""
    message = message_from_json(through_json(message_to_json(Message("user", (block,)))))
    assert type(message.blocks[0]) is type(block)


@given(messages)
def test_what_is_written_twice_is_the_same_text(message: Message) -> None:
    """Writing, reading and writing again gives the same bytes."""
    once = json.dumps(message_to_json(message))
    assert json.dumps(message_to_json(message_from_json(json.loads(once)))) == once


@pytest.mark.parametrize("details", [{"a\ud800": 1}, {"a": {"b\udfff": 1}}])
def test_lone_surrogates_as_keys(details: dict[str, Any]) -> None:
    """Lone surrogates in keys come back, or as replacement characters, without an error."""
    event = ToolFinished(ToolResult("c", (), details=details), 0.0)
    assert isinstance(event_from_json(through_json(event_to_json(event))), ToolFinished)


def test_the_discriminator_is_written() -> None:
    """Each block and event carries its `type`, which readers of logs rely on."""
    event = MessageFinished(Message("assistant", (Text("a"),)), Usage(), "end")
    data = event_to_json(event)
    assert (data["type"], data["message"]["blocks"]) == (
        "message_finished",
        [{"text": "a", "type": "text"}],
    )


@pytest.mark.parametrize(
    "data",
    [
        {"type": "turn_paused"},
        {"text": "no type"},
        {"type": None, "text": "a"},
        {"type": "text_delta"},
        {"type": "text_delta", "text": 3},
        {"type": "turn_finished", "stop_reason": "bored", "usage": {}},
        {"type": "message_finished", "message": {}, "usage": {}, "stop_reason": "end"},
        [],
        "text_delta",
        None,
        7,
    ],
)
def test_what_is_no_event(data: object) -> None:
    """An unknown type, a missing field or a wrong value is refused as an event."""
    with pytest.raises(ValidationError):
        event_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {"role": "robot", "blocks": []},
        {"role": "user", "blocks": [{"type": "video", "text": "a"}]},
        {"role": "user", "blocks": [{"type": "tool_call", "id": "a"}]},
        {"role": "user"},
        {"role": "user", "blocks": None},
        "hello",
        None,
    ],
)
def test_what_is_no_message(data: object) -> None:
    """An unknown role or block type is refused as a message."""
    with pytest.raises(ValidationError):
        message_from_json(data)
