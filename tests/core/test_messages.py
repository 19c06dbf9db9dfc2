"""Messages and blocks as plain values."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    clean,
)

CALL = ToolCall("c1", "look", "{}")


@given(st.text(st.characters() | st.sampled_from("\ud800\ud83d\ude00\udfff")))
def test_clean_gives_what_utf8_can_carry(text: str) -> None:
    """Cleaned text can be encoded, and cleaning it again changes nothing."""
    cleaned = clean(text)
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned) == cleaned


@given(st.text())
def test_clean_leaves_good_text_alone(text: str) -> None:
    """Text without lone surrogates comes back as it is."""
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udfff", "\ufffd"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\U0001f600\ud83d", "\U0001f600\ufffd"),
    ],
)
def test_clean_replaces_only_lone_surrogates(text: str, cleaned: str) -> None:
    """A pair of surrogates is the character that it stands for."""
    assert clean(text) == cleaned


def test_words_of_a_model_are_cleaned() -> None:
    """Text, context, thinking and arguments are clean from the start."""
    bad, good = "a\ud800", "a\ufffd"
    assert (Text(bad).text, Context(bad).text, Thinking(bad).text) == (good, good, good)
    assert ToolCall("c", "n", bad).arguments == good


def test_values_cannot_be_changed() -> None:
    """A block is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Text("a").text = "b"  # type: ignore[misc]


def test_words_calls_and_results_of_a_message() -> None:
    """The text leaves out thinking, context, empty blocks and tool traffic."""
    result = ToolResult("c1", (Text("3"),))
    message = Message(
        "user", (Thinking("hm"), Text("a"), Text(""), Context("x"), CALL, result, Text("b"))
    )
    assert message.text == "a\n\nb"
    assert (message.tool_calls, message.tool_results) == ((CALL,), (result,))


def test_text_of_a_result() -> None:
    """A picture in a result has no text."""
    assert ToolResult("c", (Text("a"), Image("image/png", "AA=="), Text("b"))).text == "a\nb"


def test_a_result_for_the_model() -> None:
    """The model's form of a result lacks the parts for the person and the log."""
    shown = Output("stdout", {"text/plain": "a"})
    result = ToolResult("c", (Text("a"),), True, (shown,), {"path": "x"})
    assert result.for_model() == ToolResult("c", (Text("a"),), True)


def test_usage_adds_up() -> None:
    """Each count is added; the total is input plus output."""
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert (total, total.total_tokens) == (Usage(11, 22, 33, 44), 33)
