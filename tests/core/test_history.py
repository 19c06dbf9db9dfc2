"""`repair`: whatever happened to a conversation, both providers take it afterwards."""

from __future__ import annotations

from itertools import pairwise

from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import check_anthropic, check_openai

from jupyter_agent.core.history import LOST, repair
from jupyter_agent.core.messages import (
    Block,
    Context,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.openai import OpenAI

NOWHERE = "http://127.0.0.1:9"
SIGNED = Thinking("Hm.", {"provider": "anthropic", "signature": "s1"})


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id, "look", '{"path": "a.csv"}')


def result(call_id: str, text: str = "3") -> ToolResult:
    return ToolResult(call_id, (Text(text),))


def lost(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text(LOST),), is_error=True)


def user(*blocks: Block) -> Message:
    return Message("user", blocks)


def model(*blocks: Block) -> Message:
    return Message("assistant", blocks)


TASK = user(Text("Do it."))


def test_what_is_in_order_stays_the_same_objects() -> None:
    """A valid conversation is returned with the very same objects."""
    history = [
        TASK,
        model(SIGNED, Text("I look."), call("a"), call("b")),
        user(result("a"), result("b"), Context("By the way.")),
        model(Text("3.")),
        user(Text("Thanks."), Context("x = 1")),
    ]
    assert all(a is b for a, b in zip(repair(history), history, strict=True))


def test_a_missing_result() -> None:
    """A call without a result gets one that says so, before the person's next words."""
    history = [TASK, model(call("a"), call("b")), user(result("b")), user(Text("Go on."))]
    assert repair(history)[2:] == [user(lost("a"), result("b")), user(Text("Go on."))]


def test_results_in_another_order_and_place() -> None:
    """Results are put behind their calls, in the calls' order."""
    history = [
        TASK,
        model(call("a"), call("b")),
        user(Text("Wait."), result("b")),
        user(result("a")),
    ]
    assert repair(history)[2:] == [user(result("a"), result("b")), user(Text("Wait."))]


def test_orphans_and_doubles() -> None:
    """Results without a call and second results are dropped; words beside them stay."""
    history = [
        user(result("x"), Text("Do it.")),
        model(call("a")),
        user(result("a", "first"), result("a", "second"), result("y")),
        model(Text("3."), result("z")),
    ]
    assert repair(history) == [
        TASK,
        model(call("a")),
        user(result("a", "first")),
        model(Text("3.")),
    ]


def test_ids_that_were_used_before() -> None:
    """Repeated ids are made unique, together with their results."""
    history = [
        TASK,
        model(call("a"), call("a")),
        user(result("a", "1"), result("a", "2")),
        model(call("a")),
        user(result("a", "3")),
    ]
    assert repair(history)[1:] == [
        model(call("a"), call("a_2")),
        user(result("a", "1"), result("a_2", "2")),
        model(call("a_3")),
        user(result("a_3", "3")),
    ]


def test_empty_messages_go() -> None:
    """Empty replies, and messages that held nothing but orphans, are dropped."""
    history = [TASK, model(), model(Text(" \n")), user(result("x")), model(Text("3."))]
    assert repair(history) == [TASK, model(Text("3."))]


def test_thinking_stays() -> None:
    """Signed thinking stays byte for byte, also if its calls get other ids."""
    history = [TASK, model(call("a")), user(result("a")), model(SIGNED, call("a"))]
    assert repair(history)[3].blocks[0] is SIGNED


IDS = st.sampled_from(["a", "b", "c", ""])
BLOCKS = st.one_of(
    st.sampled_from([Text("w"), Text(" "), Said("stop"), Context("x"), SIGNED, Thinking("t")]),
    st.builds(call, IDS),
    st.builds(result, IDS, st.sampled_from(["1", "2"])),
)
ASSISTANT_BLOCKS = BLOCKS.filter(lambda b: not isinstance(b, (Said, Context)))
USER_BLOCKS = BLOCKS.filter(lambda b: not isinstance(b, (ToolCall, Thinking)))
MESSAGES = st.one_of(
    st.lists(USER_BLOCKS, max_size=4).map(lambda blocks: user(*blocks)),
    st.lists(ASSISTANT_BLOCKS, max_size=4).map(lambda blocks: model(*blocks)),
)
HISTORIES = st.lists(MESSAGES, max_size=10)


@given(HISTORIES)
@settings(max_examples=examples(400), deadline=None)
def test_any_conversation(history: list[Message]) -> None:
    """Repair is idempotent, keeps all words, and puts one result right after each call."""
    repaired = repair(history)
    assert repair(repaired) == repaired
    words = [b for m in history for b in m.blocks if not isinstance(b, (ToolCall, ToolResult))]
    kept = [b for m in repaired for b in m.blocks if not isinstance(b, (ToolCall, ToolResult))]
    assert [b for b in words if _says(b)] == [b for b in kept if _says(b)]
    ids = [c.id for m in repaired for c in m.tool_calls]
    assert len(ids) == len(set(ids)) == sum(len(m.tool_calls) for m in history)
    for message, after in pairwise([*repaired, user()]):
        if message.tool_calls:
            results = after.tool_results
            assert [r.call_id for r in results] == [c.id for c in message.tool_calls]
            assert after.blocks[: len(results)] == results
        elif message.role == "assistant":
            assert not after.tool_results


def _says(block: Block) -> bool:
    return isinstance(block, (Said, Context, Thinking)) or bool(getattr(block, "text", "").strip())


@given(HISTORIES)
@settings(max_examples=examples(150), deadline=None)
def test_both_providers_take_it(history: list[Message]) -> None:
    """The requests made of a repaired conversation pass both formats' rules."""
    messages = tuple(repair([TASK, *history, user(Text("Go on."))]))
    request = Request("system", messages)
    check_anthropic(ANTHROPIC.body(request))
    check_openai(OPENAI.body(request))


ANTHROPIC = Anthropic("m", "k", NOWHERE)
OPENAI = OpenAI("m", "k", NOWHERE)
