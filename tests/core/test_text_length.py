"""How much text a conversation has: each message counted once, whatever becomes of the history."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.core.history import TextLength
from jupyter_agent.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult

blocks = st.one_of(
    st.builds(Text, st.text(max_size=9)),
    st.builds(Thinking, st.text(max_size=9)),
    st.builds(ToolCall, st.just("c"), st.text(max_size=5), st.text(max_size=9)),
    st.builds(ToolResult, st.just("c"), st.lists(st.builds(Text, st.text(max_size=9))).map(tuple)),
)
messages = st.builds(Message, st.just("user"), st.lists(blocks, max_size=3).map(tuple))


@given(st.lists(st.lists(messages, max_size=4), max_size=5), st.data())
def test_it_is_what_counting_anew_gives(turns: list[list[Message]], data: st.DataObject) -> None:
    """However a history changes, the length equals that of a fresh count."""
    extent = TextLength()
    history: list[Message] = []
    for added in turns:
        history += added
        if history and data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(history) - 1))
            history[place] = data.draw(messages)
        if data.draw(st.booleans()):
            del history[data.draw(st.integers(0, len(history))) :]
        assert extent.of(history) == TextLength().of(history)


def test_what_counts() -> None:
    """Words, thoughts, calls and results count; pictures do not."""
    said = Message("assistant", (Text("ab"), Thinking("c"), ToolCall("id", "run", "{}")))
    done = Message("user", (ToolResult("id", (Text("defg"), Image("image/png", "A" * 99))),))
    assert TextLength().of([said, done]) == 2 + 1 + 5 + 4


def test_a_long_history_is_not_counted_again() -> None:
    """Counting after each of 2,000 messages takes little longer than counting once."""
    history = [Message("user", (Text("x" * 50),) * 200) for _ in range(2_000)]
    began = time.perf_counter()
    once = TextLength().of(history)
    at_once = time.perf_counter() - began
    extent = TextLength()
    began = time.perf_counter()
    for length in range(1, len(history) + 1):
        last = extent.of(history[:length])
    assert last == once
    # Anew each time it would be a thousand times as long.
    assert time.perf_counter() - began < 20 * at_once + 0.5
