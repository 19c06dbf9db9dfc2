"""What goes over the wire for a conversation: one table of cases, run against both adapters."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
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

from jupyter_agent.core.messages import (
    Block,
    Context,
    Image,
    Message,
    Said,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.wire import safe_name

SNAPSHOTS = Path(__file__).with_name("snapshots")
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
        provider: Model
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


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def o_said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


SIGNED = Thinking("hm", {"provider": "anthropic", "signature": "sig=="})
REDACTED = Thinking("", {"provider": "anthropic", "redacted": "abc"})
DETAILS = [{"type": "reasoning.text", "text": "hm", "index": 0}]
DETAILED = Thinking("hm", {"provider": "openai", "reasoning_details": DETAILS})

CASES: dict[str, list[Message]] = {
    "a task": [user("hi")],
    "a task with its context": [user("hi", Context("variables: x"))],
    "an image of the user": [user("look", Image("image/png", PNG))],
    "blank text, empty messages, the same role twice": [
        user("a", "", " \n"),
        model(""),
        user("b"),
        model("c"),
        model("d"),
        user("e"),
    ],
    "a call and its result": [
        user("go"),
        model("ok", call("c1", '{"path":  "a\\u00e9"}')),
        user(result("c1", "text")),
    ],
    "two calls, one fails, one is silent, and a word after them": [
        user("go"),
        model(call("c1", ""), call("c2")),
        user("and then", result("c1", "no", is_error=True), result("c2")),
    ],
    "images in results": [
        user("go"),
        model(call("c1"), call("c2")),
        user(
            result("c1", "plot", Image("image/png", PNG)),
            result("c2", Image("image/svg+xml", PNG)),
        ),
    ],
    "text after a call": [user("go"), model(SIGNED, call("c1"), "wait"), user(result("c1", "x"))],
    "thinking of both providers": [
        user("go"),
        model(SIGNED, REDACTED, DETAILED, Thinking("unsigned"), call("c1")),
        user(result("c1", "x")),
    ],
    "nothing but thinking": [user("go"), model(SIGNED), model(DETAILED), user("on")],
    "arguments that were cut off": [
        user("go"),
        model(call("c1", '{"path": "a')),
        user(result("c1", "cut")),
    ],
    "a field that only another server knows": [
        user("go"),
        model(call("c1", provider="openai", extra={"extra_content": {"s": 1}})),
        user(result("c1", "x")),
    ],
    "what the person typed meanwhile": [
        user("go"),
        model(call("c1")),
        user(result("c1", "x")),
        user(Said("use the other file")),
    ],
    "names and ids that an API refuses": [
        user("go"),
        model(ToolCall("functions.run:0", "run it!", "{}"), ToolCall("x", "", "{}")),
        user(result("functions.run:0", "no such tool"), result("x", "nor this")),
    ],
    "odd texts": [
        user("half \ud800 NUL \x00 <|endoftext|> \u202e \r\n 😀"),
        model("</tool_call>", call("c1", '{"path": "\\ud800 😀"}')),
        user(result("c1", "\x1b[31mred")),
    ],
    "a system message amid the conversation": [
        user("hi"),
        model("yes?"),
        Message("system", (Text("The kernel was restarted."),)),
    ],
    "after an interrupt": [
        user("go"),
        model("ok", call("c1"), call("c2")),
        user(result("c1", "x"), result("c2", "Not run.", is_error=True)),
        user(Context("(The person interrupted the turn here.)")),
        user("again"),
    ],
}


@pytest.mark.parametrize("case", CASES)
async def test_request(case: str) -> None:
    """Each provider gets the messages of the snapshot, in a form that it accepts.

    `UPDATE_SNAPSHOTS=1 pytest tests/llm/test_requests.py` writes the snapshots anew.
    """
    request = Request("Be brief.", tuple(CASES[case]), (READ,))
    made_up = [safe_name(c.name) for message in CASES[case] for c in message.tool_calls]
    anthropic, openai = [await send(kind, request) for kind in ("anthropic", "openai")]
    check_anthropic(anthropic.body, unknown_tools=made_up)
    check_openai(openai.body, unknown_tools=made_up)
    system, *spoken = openai.body["messages"]
    assert system == o_said("system", "Be brief.")
    sent = {"anthropic": anthropic.body["messages"], "openai": spoken}
    path = SNAPSHOTS / f"{case.replace(',', '').replace(' ', '_')}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(json.dumps(sent, indent=2) + "\n", encoding="utf-8")
    assert sent == json.loads(path.read_text(encoding="utf-8"))


def test_no_snapshot_is_left_over() -> None:
    """Each snapshot belongs to a case."""
    assert len(list(SNAPSHOTS.glob("*.json"))) == len(CASES)


async def test_whole_anthropic_body() -> None:
    """System prompt, tools and limits are in the fields of Anthropic's API."""
    request = Request("Be brief.", (user("hi"),), (READ,))
    sent = await send("anthropic", request, max_tokens=77)
    assert sent.path == "/v1/messages"
    assert "key-of-test" in str(sent.headers)
    assert sent.body == {
        "model": "m",
        "max_tokens": 77,
        "messages": [said("user", a_text("hi"))],
        "stream": True,
        "cache_control": {"type": "ephemeral"},
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
    """System prompt, tools and limits are in the fields of a chat completions API."""
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
    """Empty fields are not sent."""
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
    """Arguments that are no JSON object are sent back inside one."""
    messages = (user("go"), model(call("c1", arguments)), user(result("c1", "bad")))
    sent = await send(kind, Request("", messages, (READ,)))
    check_anthropic(sent.body) if kind == "anthropic" else check_openai(sent.body)
    assert arguments in sent.raw.decode().replace('\\"', '"').replace('\\"', '"').replace("\\", "")


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_lone_surrogates(kind: str) -> None:
    """Lone surrogates anywhere in a conversation do not prevent a request."""
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
    """Invented tool names and foreign ids are sent with allowed characters only."""
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
    """Each request begins with the bytes of the last one, as prompt caches need."""
    ends = [1, 3, 5, 7, 8]
    sent = [await send(kind, Request("Be brief.", turn[:end], (READ,))) for end in ends]
    check_stable(sent)
    for request in sent:
        check_anthropic(request.body) if kind == "anthropic" else check_openai(request.body)
    again = await send(kind, Request("Be brief.", turn, (READ,)))
    assert again.raw == sent[-1].raw


async def test_signatures_come_back() -> None:
    """The check of this test detects a lost or changed signature."""
    messages = (user("go"), model(SIGNED, call("c1")), user(result("c1", "x")))
    sent = await send("anthropic", Request("", messages, (READ,)))
    check_anthropic(sent.body, signatures=["sig=="])
    with pytest.raises(AssertionError, match="did not come back"):
        check_anthropic(sent.body, signatures=["sig="])


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_what_is_on_the_wire(kind: str) -> None:
    """The bytes sent equal the request's body, although parts of it were sent before."""
    history = [
        user("Grüße 漢字"),
        model("yes", call("a", '{"path": "x"}')),
        user(result("a", "one")),
    ]
    with ModelServer([Reply(text="a"), Reply(text="b")]) as server:
        base = server.anthropic_url if kind == "anthropic" else server.openai_url
        make = Anthropic if kind == "anthropic" else OpenAI
        provider = make("test-model", api_key="k", api_base=base)
        for messages in (history[:1], history):
            request = Request("Be brief.", tuple(messages), (READ,))
            async for _ in provider.stream(request):
                pass
            fresh = make("test-model", api_key="k", api_base=base)
            assert server.requests[-1].body == fresh.body(request) == provider.body(request)
            await fresh.close()
        await provider.close()
    assert "漢字".encode() in server.requests[-1].raw
    assert server.requests[-1].headers["content-type"] == "application/json"


LOCAL = "http://127.0.0.1:1/v1"
OWN = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("kind", "base", "first", "third"),
    [
        (OpenAI, LOCAL, {"temperature": 0}, {"temperature": 0.8, "seed": 2}),
        (OpenAI, OWN, {}, {}),
        (Anthropic, None, {}, {}),
    ],
)
async def test_how_replies_are_drawn(
    kind: Any, base: str | None, first: dict[str, Any], third: dict[str, Any]
) -> None:
    """A server other than the makers' own is told the temperature where the likeliest reply is
    wanted, and a seed where an attempt must differ from the first; nobody else is told anything.
    """
    provider = kind("m", "key-of-test", base)
    plain, *drawn = [
        provider.body(Request("s", (user("Hello."),), **options))
        for options in ({}, {"steady": True}, {"attempt": 2, "steady": True})
    ]
    await provider.close()
    assert drawn == [plain | first, plain | third]
