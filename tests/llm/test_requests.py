"""What goes over the wire for a conversation: one table of cases, run against both adapters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from model_server import (
    ModelServer,
    Recorded,
    Reply,
    check_anthropic,
    check_openai,
    check_stable,
)

from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.provider import Provider, Request
from jupyter_agent.messages import (
    Block,
    Context,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)

PNG = "iVBORw0KGgo="
READ = ToolSpec(
    "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)


def user(*blocks: Block | str) -> Message:
    return Message("user", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def model(*blocks: Block | str) -> Message:
    return Message("assistant", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def call(call_id: str, arguments: str = "{}", **metadata: Any) -> ToolCall:
    return ToolCall(call_id, "read_file", arguments, metadata)


def result(call_id: str, *content: Text | Image | str, is_error: bool = False) -> ToolResult:
    blocks = tuple(Text(c) if isinstance(c, str) else c for c in content)
    return ToolResult(call_id, blocks, is_error)


async def send(kind: str, request: Request, **options: Any) -> Recorded:
    """What a provider sends for `request`, over real HTTP."""
    with ModelServer([Reply(text="ok")]) as server:
        provider: Provider
        if kind == "anthropic":
            provider = Anthropic("m", "key-of-test", server.anthropic_url, **options)
        else:
            provider = OpenAI("m", "key-of-test", server.openai_url, **options)
        async for _ in provider.stream(request):
            pass
        await provider.close()
        return server.requests[0]


def a_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def a_use(call_id: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read_file", "input": arguments or {}}


def a_result(call_id: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [*content], **more}


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def o_call(call_id: str, arguments: str = "{}", **extra: Any) -> dict[str, Any]:
    function = {"name": "read_file", "arguments": arguments}
    return {**extra, "id": call_id, "type": "function", "function": function}


def o_said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def o_result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


SIGNED = Thinking("hm", {"provider": "anthropic", "signature": "sig=="})
REDACTED = Thinking("", {"provider": "anthropic", "redacted": "abc"})
DETAILS = [{"type": "reasoning.text", "text": "hm", "index": 0}]
DETAILED = Thinking("hm", {"provider": "openai", "reasoning_details": DETAILS})
A_SIGNED = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
A_PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
O_PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
INVALID = {"invalid_arguments": '{"path": "a'}

# name -> (messages, what Anthropic gets, what OpenAI gets)
CASES: dict[str, tuple[list[Message], list[Any], list[Any]]] = {
    "a task": ([user("hi")], [said("user", a_text("hi"))], [o_said("user", "hi")]),
    "a task with its context": (
        [user("hi", Context("variables: x"))],
        [said("user", a_text("hi"), a_text("variables: x"))],
        [o_said("user", "hi\n\nvariables: x")],
    ),
    "an image of the user": (
        [user("look", Image("image/png", PNG))],
        [said("user", a_text("look"), A_PICTURE)],
        [o_said("user", [a_text("look"), O_PICTURE])],
    ),
    "blank text, empty messages, the same role twice": (
        [user("a", "", " \n"), model(""), user("b"), model("c"), model("d"), user("e")],
        [
            said("user", a_text("a"), a_text("b")),
            said("assistant", a_text("c"), a_text("d")),
            said("user", a_text("e")),
        ],
        [o_said("user", "a\n\nb"), o_said("assistant", "c\n\nd"), o_said("user", "e")],
    ),
    "a call and its result": (
        [
            user("go"),
            model("ok", call("c1", '{"path":  "a\\u00e9"}')),
            user(result("c1", "text")),
        ],
        [
            said("user", a_text("go")),
            said("assistant", a_text("ok"), a_use("c1", {"path": "aé"})),
            said("user", a_result("c1", a_text("text"))),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", "ok", tool_calls=[o_call("c1", '{"path":  "a\\u00e9"}')]),
            o_result("c1", "text"),
        ],
    ),
    "two calls, one fails, one is silent, and a word after them": (
        [
            user("go"),
            model(call("c1", ""), call("c2")),
            user("and then", result("c1", "no", is_error=True), result("c2")),
        ],
        [
            said("user", a_text("go")),
            said("assistant", a_use("c1"), a_use("c2")),
            said(
                "user",
                a_result("c1", a_text("no"), is_error=True),
                a_result("c2", a_text("(no output)")),
                a_text("and then"),
            ),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", None, tool_calls=[o_call("c1"), o_call("c2")]),
            o_result("c1", "no"),
            o_result("c2", "(no output)"),
            o_said("user", "and then"),
        ],
    ),
    "images in results": (
        [
            user("go"),
            model(call("c1"), call("c2")),
            user(
                result("c1", "plot", Image("image/png", PNG)),
                result("c2", Image("image/svg+xml", PNG)),
            ),
        ],
        [
            said("user", a_text("go")),
            said("assistant", a_use("c1"), a_use("c2")),
            said(
                "user",
                a_result("c1", a_text("plot"), A_PICTURE),
                a_result(
                    "c2",
                    a_text("(an image of type image/svg+xml, which the model cannot read)"),
                ),
            ),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", None, tool_calls=[o_call("c1"), o_call("c2")]),
            o_result("c1", "plot\n(1 image follows)"),
            o_result("c2", "(an image of type image/svg+xml, which the model cannot read)"),
            o_said("user", [a_text("(images in the result of the tool call c1)"), O_PICTURE]),
        ],
    ),
    "text after a call": (
        [user("go"), model(SIGNED, call("c1"), "wait"), user(result("c1", "x"))],
        [
            said("user", a_text("go")),
            said("assistant", A_SIGNED, a_text("wait"), a_use("c1")),
            said("user", a_result("c1", a_text("x"))),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", "wait", tool_calls=[o_call("c1")]),
            o_result("c1", "x"),
        ],
    ),
    "thinking of both providers": (
        [
            user("go"),
            model(SIGNED, REDACTED, DETAILED, Thinking("unsigned"), call("c1")),
            user(result("c1", "x")),
        ],
        [
            said("user", a_text("go")),
            said(
                "assistant",
                A_SIGNED,
                {"type": "redacted_thinking", "data": "abc"},
                a_use("c1"),
            ),
            said("user", a_result("c1", a_text("x"))),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", None, reasoning_details=DETAILS, tool_calls=[o_call("c1")]),
            o_result("c1", "x"),
        ],
    ),
    "nothing but thinking": (
        [user("go"), model(SIGNED), model(DETAILED), user("on")],
        [said("user", a_text("go"), a_text("on"))],
        [o_said("user", "go\n\non")],
    ),
    "arguments that were cut off": (
        [user("go"), model(call("c1", '{"path": "a')), user(result("c1", "cut"))],
        [
            said("user", a_text("go")),
            said("assistant", a_use("c1", INVALID)),
            said("user", a_result("c1", a_text("cut"))),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", None, tool_calls=[o_call("c1", json.dumps(INVALID))]),
            o_result("c1", "cut"),
        ],
    ),
    "a field that only another server knows": (
        [
            user("go"),
            model(call("c1", provider="openai", extra={"extra_content": {"s": 1}})),
            user(result("c1", "x")),
        ],
        [
            said("user", a_text("go")),
            said("assistant", a_use("c1")),
            said("user", a_result("c1", a_text("x"))),
        ],
        [
            o_said("user", "go"),
            o_said("assistant", None, tool_calls=[o_call("c1", extra_content={"s": 1})]),
            o_result("c1", "x"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_anthropic_request(case: str) -> None:
    """Anthropic's API gets the messages of the table, in a form that it accepts."""
    messages, expected, _ = CASES[case]
    sent = await send("anthropic", Request("Be brief.", tuple(messages), (READ,)))
    assert sent.body["messages"] == expected
    check_anthropic(sent.body)


@pytest.mark.parametrize("case", CASES)
async def test_openai_request(case: str) -> None:
    """A chat completions API gets the messages of the table, in a form that it accepts."""
    messages, _, expected = CASES[case]
    sent = await send("openai", Request("Be brief.", tuple(messages), (READ,)))
    assert sent.body["messages"] == [o_said("system", "Be brief."), *expected]
    check_openai(sent.body)


async def test_whole_anthropic_body() -> None:
    """System prompt, tools and limits are where Anthropic's API looks for them."""
    request = Request("Be brief.", (user("hi"),), (READ,))
    sent = await send("anthropic", request, max_tokens=77)
    assert sent.path == "/v1/messages"
    assert "key-of-test" in str(sent.headers)
    assert sent.body == {
        "model": "m",
        "max_tokens": 77,
        "messages": [said("user", a_text("hi"))],
        "stream": True,
        "system": [a_text("Be brief.") | {"cache_control": {"type": "ephemeral"}}],
        "tools": [
            {
                "name": "read_file",
                "description": "Read a file.",
                "input_schema": READ.parameters,
            }
        ],
    }


async def test_whole_openai_body() -> None:
    """System prompt, tools and limits are where a chat completions API looks for them."""
    sent = await send("openai", Request("Be brief.", (user("hi"),), (READ,)), max_tokens=77)
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer key-of-test"
    function = {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": READ.parameters,
    }
    assert sent.body == {
        "model": "m",
        "messages": [o_said("system", "Be brief."), o_said("user", "hi")],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 77,
    }


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_without_system_and_tools(kind: str) -> None:
    """What is empty is not sent at all."""
    sent = await send(kind, Request("", (user("hi"),)))
    assert not {"system", "tools", "tool_choice"} & sent.body.keys()
    assert [message["role"] for message in sent.body["messages"]] == ["user"]


async def test_anthropic_without_tools_after_calls() -> None:
    """Anthropic's API refuses calls without declared tools: they are named, and forbidden."""
    messages = (user("go"), model(call("c1")), user(result("c1", "x"), "answer now"))
    sent = await send("anthropic", Request("", messages))
    assert sent.body["tools"] == [{"name": "read_file", "input_schema": {"type": "object"}}]
    assert sent.body["tool_choice"] == {"type": "none"}
    check_anthropic(sent.body)


@pytest.mark.parametrize(("kind", "choice"), [("anthropic", {"type": "none"}), ("openai", "none")])
async def test_tools_that_may_not_be_used(kind: str, choice: object) -> None:
    """The last call of a turn lists the same tools, so that the cache holds, and forbids them."""
    free = await send(kind, Request("s", (user("hi"),), (READ,)))
    bound = await send(kind, Request("s", (user("hi"),), (READ,), tools_allowed=False))
    assert bound.body == free.body | {"tool_choice": choice}


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize(
    "arguments",
    ["[1]", "null", '"text"', "1", "NaN", '{"a": NaN}', '{"a": 1e999}', "{" * 100_000, "{'a': 1}"],
)
async def test_arguments_that_are_no_object(kind: str, arguments: str) -> None:
    """Whatever the model wrote as arguments goes back as a JSON object that holds it."""
    messages = (user("go"), model(call("c1", arguments)), user(result("c1", "bad")))
    sent = await send(kind, Request("", messages, (READ,)))
    check_anthropic(sent.body) if kind == "anthropic" else check_openai(sent.body)
    assert arguments in sent.raw.decode().replace('\\"', '"').replace('\\"', '"').replace("\\", "")


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_lone_surrogates(kind: str) -> None:
    """Half a character, in whatever part of a conversation, does not keep it from being sent."""
    half = "\ud800"
    request = Request(
        f"s{half}",
        (
            user(f"u{half}"),
            model(call("c1", '{"path": "\\ud800"}')),
            user(result("c1", f"r{half}")),
        ),
        (ToolSpec("read_file", f"d{half}", {"type": "object"}),),
    )
    sent = await send(kind, request)
    assert b"\\ud800" not in sent.raw
    check_anthropic(sent.body) if kind == "anthropic" else check_openai(sent.body)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_names_and_ids_that_an_api_refuses(kind: str) -> None:
    """A made-up tool name and another server's ids are sent in letters that are allowed."""
    made_up = ToolCall("functions.run:0", "run it!", "{}")
    messages = (user("go"), model(made_up), user(result("functions.run:0", "no such tool")))
    sent = await send(kind, Request("", messages, (READ,)))
    if kind == "anthropic":
        check_anthropic(sent.body, unknown_tools=["run_it_"])
    else:
        check_openai(sent.body, unknown_tools=["run_it_"])


@pytest.fixture
async def turn() -> AsyncIterator[tuple[Message, ...]]:
    """A conversation of several steps and two tasks."""
    yield (
        user("first", Context("x: int")),
        model(SIGNED, DETAILED, "reading", call("c1", '{"path": "a"}')),
        user(result("c1", "text", Image("image/png", PNG))),
        model("done"),
        user("second"),
        model(call("c2", "broken")),
        user(result("c2", "bad", is_error=True)),
        user("third, after an interrupt"),
    )


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_requests_only_grow(kind: str, turn: tuple[Message, ...]) -> None:
    """Each request begins with the bytes of the one before: caches live on that."""
    ends = [1, 3, 5, 7, 8]
    sent = [await send(kind, Request("Be brief.", turn[:end], (READ,))) for end in ends]
    check_stable(sent)
    for request in sent:
        check_anthropic(request.body) if kind == "anthropic" else check_openai(request.body)
    again = await send(kind, Request("Be brief.", turn, (READ,)))
    assert again.raw == sent[-1].raw


async def test_signatures_come_back() -> None:
    """The checker itself notices a signature that was lost or changed."""
    messages = (user("go"), model(SIGNED, call("c1")), user(result("c1", "x")))
    sent = await send("anthropic", Request("", messages, (READ,)))
    check_anthropic(sent.body, signatures=["sig=="])
    with pytest.raises(AssertionError, match="did not come back"):
        check_anthropic(sent.body, signatures=["sig="])
