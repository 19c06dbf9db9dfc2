"""Tool calls in a reply's text: which ones are understood, and which stay text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import Call, ModelServer, Reply, check_anthropic, check_openai

from jupyter_agent.core.events import MessageFinished, ReplyStop, TextDelta
from jupyter_agent.core.messages import (
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.inline import Inline, with_calls
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.textcalls import read
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.player import Player
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.wrappers import RecordedModel

Json = dict[str, Any]


def spec(name: str, **properties: Json) -> ToolSpec:
    return ToolSpec(name, f"{name}.", {"type": "object", "properties": properties})


TEXT, WHOLE = {"type": "string"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}
TOOLS = {
    tool.name: tool
    for tool in (
        spec("read_file", path=TEXT, limit=WHOLE),
        spec("write_file", path=TEXT, content=TEXT),
        spec("execute_code", code=TEXT, timeout=WHOLE),
        spec("list_files", pattern={"anyOf": [TEXT, {"type": "null"}]}),
        spec("update_plan", items={"type": "array"}),
    )
}
A = ("read_file", {"path": "a.csv"})
B = ("read_file", {"path": "b.csv"})
A_JSON = '{"name": "read_file", "arguments": {"path": "a.csv"}}'
FLY = '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'
B_JSON = '{"name": "read_file", "arguments": {"path": "b.csv"}}'
CODE = ("execute_code", {"code": "x = 1\nprint(x < 2)"})

GOOD: dict[str, tuple[str, str | None, list[tuple[str, Json]]]] = {
    # name: the text, the words that stay, the calls
    "hermes": (f"<tool_call>\n{A_JSON}\n</tool_call>", "", [A]),
    "hermes on one line": (f"<tool_call>{A_JSON}</tool_call>", "", [A]),
    "words before": (f"I look.\n<tool_call>\n{A_JSON}\n</tool_call>", "I look.", [A]),
    "words on the same line": (f"I look. <tool_call>{A_JSON}</tool_call>", "I look.", [A]),
    "words after": (f"<tool_call>\n{A_JSON}\n</tool_call>\nI wait.", "I wait.", [A]),
    "two calls": (f"<tool_call>{A_JSON}</tool_call>\n<tool_call>{B_JSON}</tool_call>", "", [A, B]),
    "two calls without a gap": (
        f"<tool_call>{A_JSON}</tool_call><tool_call>{B_JSON}</tool_call>",
        "",
        [A, B],
    ),
    "two calls in one tag": (f"<tool_call>\n{A_JSON}\n{B_JSON}\n</tool_call>", "", [A, B]),
    "words between": (
        f"One:\n<tool_call>{A_JSON}</tool_call>\nTwo:\n<tool_call>{B_JSON}</tool_call>",
        "One:\nTwo:",
        [A, B],
    ),
    "the closing tag was a stop word": (f"<tool_call>\n{A_JSON}\n", "", [A]),
    "parameters instead of arguments": (
        '<tool_call>{"name": "read_file", "parameters": {"path": "a.csv"}}</tool_call>',
        "",
        [A],
    ),
    "arguments first": (
        '<tool_call>{"arguments": {"path": "a.csv"}, "name": "read_file"}</tool_call>',
        "",
        [A],
    ),
    "arguments as a text": (
        '<tool_call>{"name": "read_file", "arguments": "{\\"path\\": \\"a.csv\\"}"}</tool_call>',
        "",
        [A],
    ),
    "no arguments": ('<tool_call>{"name": "list_files"}</tool_call>', "", [("list_files", {})]),
    "the API's own form": (
        '<tool_call>{"type": "function", "id": "c1", "function": ' + A_JSON + "}</tool_call>",
        "",
        [A],
    ),
    "a closing tag inside of a string": (
        '<tool_call>{"name": "write_file", "arguments": {"path": "t", "content": "</tool_call>"}}'
        "</tool_call>",
        "",
        [("write_file", {"path": "t", "content": "</tool_call>"})],
    ),
    "a fence inside of a string": (
        '<tool_call>{"name": "write_file", "arguments": {"path": "t", "content": "\\n```\\n"}}'
        "</tool_call>",
        "",
        [("write_file", {"path": "t", "content": "\n```\n"})],
    ),
    "after thinking": (f"<think>Hm.</think>\n<tool_call>{A_JSON}</tool_call>", None, [A]),
    "after thinking that began in the prompt": (
        f"Hm.\n</think>\n<tool_call>{A_JSON}</tool_call>",
        None,
        [A],
    ),
    "tags in capitals": (f"<TOOLCALL>[{A_JSON}]</TOOLCALL>", "", [A]),
    "jamba": (f"<tool_calls>[\n{A_JSON},\n{B_JSON}\n]</tool_calls>", "", [A, B]),
    "minimax M1": (f"<tool_calls>\n{A_JSON}\n{B_JSON}\n</tool_calls>", "", [A, B]),
    "qwen's slip": (f"<tools>\n{A_JSON}\n</tools>", "", [A]),
    "function_call tags": (f"<function_call>{A_JSON}</function_call>", "", [A]),
    "glaive": (f"<functioncall> {A_JSON}", "", [A]),
    "granite": (f"<|tool_call|>[{A_JSON}]", "", [A]),
    "granite 3.3": (f"<tool_call>[{A_JSON}, {B_JSON}]", "", [A, B]),
    "phi": (f"<|tool_call|>[{A_JSON}]<|/tool_call|>", "", [A]),
    "functools": (f"functools[{A_JSON}]", "", [A]),
    "internlm": (f"<|action_start|><|plugin|>\n{A_JSON}<|action_end|>", "", [A]),
    "qwen coder": (
        "<tool_call>\n<function=execute_code>\n<parameter=code>\nx = 1\nprint(x < 2)\n"
        "</parameter>\n</function>\n</tool_call>",
        "",
        [CODE],
    ),
    "qwen coder without tool_call": (
        "I look.\n<function=read_file>\n<parameter=path>\na.csv\n</parameter>\n</function>",
        "I look.",
        [A],
    ),
    "qwen coder without the opening tag": (
        "<function=read_file>\n<parameter=path>\na.csv\n</parameter>\n</function>\n</tool_call>",
        "",
        [A],
    ),
    "qwen coder, a number": (
        "<tool_call><function=read_file><parameter=path>a.csv</parameter>"
        "<parameter=limit>5</parameter></function></tool_call>",
        "",
        [("read_file", {"path": "a.csv", "limit": 5})],
    ),
    "qwen coder, a number for a text": (
        "<tool_call><function=read_file><parameter=path>5</parameter></function></tool_call>",
        "",
        [("read_file", {"path": "5"})],
    ),
    "qwen coder, None": (
        "<tool_call><function=read_file><parameter=path>a.csv</parameter>"
        "<parameter=limit>None</parameter></function></tool_call>",
        "",
        [("read_file", {"path": "a.csv", "limit": None})],
    ),
    "qwen coder, a list": (
        '<tool_call><function=update_plan><parameter=items>[{"text": "look"}]</parameter>'
        "</function></tool_call>",
        "",
        [("update_plan", {"items": [{"text": "look"}]})],
    ),
    "qwen coder, blank lines of a content stay": (
        "<function=write_file><parameter=path>t</parameter><parameter=content>\n\n  a\n\n"
        "</parameter></function>",
        "",
        [("write_file", {"path": "t", "content": "\n  a\n"})],
    ),
    "qwen coder, no parameters": ("<function=list_files>\n</function>", "", [("list_files", {})]),
    "llama 3.1": ('<function=read_file>{"path": "a.csv"}</function>', "", [A]),
    "llama 3.1, two": (
        '<function=read_file>{"path": "a.csv"}</function>'
        '<function=read_file>{"path": "b.csv"}</function>',
        "",
        [A, B],
    ),
    "llama 3, its own tag": (
        '<|python_tag|>{"name": "read_file", "parameters": {"path": "a.csv"}}<|eom_id|>',
        "",
        [A],
    ),
    "llama 3, several": (f"<|python_tag|>{A_JSON}; {B_JSON}", "", [A, B]),
    "mistral": (f"[TOOL_CALLS] [{A_JSON}]", "", [A]),
    "mistral, two": (f"[TOOL_CALLS][{A_JSON}, {B_JSON}]</s>".replace("</s>", ""), "", [A, B]),
    "mistral, words before": (f"I look.[TOOL_CALLS] [{A_JSON}]", "I look.", [A]),
    "mistral's new form": ('[TOOL_CALLS]read_file{"path": "a.csv"}', "", [A]),
    "mistral's new form, args": ('[TOOL_CALLS]read_file[ARGS]{"path": "a.csv"}', "", [A]),
    "mistral's new form, an id": (
        '[TOOL_CALLS]read_file[CALL_ID]abc123[ARGS]{"path": "a.csv"}',
        "",
        [A],
    ),
    "mistral's new form, two": (
        '[TOOL_CALLS]read_file{"path": "a.csv"}[TOOL_CALLS]read_file{"path": "b.csv"}',
        "",
        [A, B],
    ),
    "minimax M2": (
        '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a.csv</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        "",
        [A],
    ),
    "minimax M2, two": (
        '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a.csv</parameter>\n'
        '</invoke>\n<invoke name="read_file">\n<parameter name="path">b.csv</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
        "",
        [A, B],
    ),
    "function_calls": (
        '<function_calls><invoke name="read_file"><parameter name="path">a.csv</parameter>'
        "</invoke></function_calls>",
        "",
        [A],
    ),
    "deepseek V3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n"
        '{"path": "a.csv"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "",
        [A],
    ),
    "deepseek V3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "a.csv"}'
        '<｜tool▁call▁end｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "b.csv"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        [A, B],
    ),
    "deepseek V3.2": (
        '<｜DSML｜function_calls><｜DSML｜invoke name="read_file">'
        '<｜DSML｜parameter name="path" string="true">a.csv</｜DSML｜parameter>'
        '<｜DSML｜parameter name="limit" string="false">5</｜DSML｜parameter>'
        "</｜DSML｜invoke></｜DSML｜function_calls>",
        "",
        [("read_file", {"path": "a.csv", "limit": 5})],
    ),
    "kimi K2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0"
        '<|tool_call_argument_begin|>{"path": "a.csv"}<|tool_call_end|>'
        "<|tool_calls_section_end|>",
        "",
        [A],
    ),
    "glm 4.5": (
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.csv</arg_value>\n"
        "<arg_key>limit</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
        "",
        [("read_file", {"path": "a.csv", "limit": 5})],
    ),
    "gpt-oss": (
        "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>"
        '{"path": "a.csv"}<|call|>',
        "",
        [A],
    ),
    "fenced": (f"```json\n{A_JSON}\n```", "", [A]),
    "fenced, words before": (f"I look.\n\n```json\n{A_JSON}\n```\n", "I look.", [A]),
    "fenced, tool for name": (
        '```json\n{"tool": "read_file", "args": {"path": "a.csv"}}\n```',
        "",
        [A],
    ),
    "fenced, function for name": (
        '```\n{"function": "read_file", "parameters": {"path": "a.csv"}}\n```',
        "",
        [A],
    ),
    "fenced, over several lines": (
        '```json\n{\n  "name": "read_file",\n  "arguments": {\n    "path": "a.csv"\n  }\n}\n```',
        "",
        [A],
    ),
    "fenced as tool_call": (f"```tool_call\n{A_JSON}\n```", "", [A]),
    "fenced list": (f"```json\n[{A_JSON}, {B_JSON}]\n```", "", [A, B]),
    "two fences at the end": (
        f"Both:\n```json\n{A_JSON}\n```\n```json\n{B_JSON}\n```",
        "Both:",
        [A, B],
    ),
    "fenced after other code": (
        f"This:\n```python\nx\n```\n\n```json\n{A_JSON}\n```",
        "This:\n```python\nx\n```",
        [A],
    ),
    "bare": (A_JSON, "", [A]),
    "bare with spaces": (f"\n\n  {A_JSON}  \n", "", [A]),
    "bare, parameters": ('{"name": "read_file", "parameters": {"path": "a.csv"}}', "", [A]),
    "bare, with its type": (
        '{"type": "function", "name": "read_file", "parameters": {"path": "a.csv"}}',
        "",
        [A],
    ),
    "bare list": (f"[{A_JSON}, {B_JSON}]", "", [A, B]),
    "bare lines": (f"{A_JSON}\n{B_JSON}", "", [A, B]),
    "bare with semicolon": (f"{A_JSON}; {B_JSON}", "", [A, B]),
    "bare tool_calls": (f'{{"tool_calls": [{A_JSON}]}}', "", [A]),
    "bare after thinking": (f"<think>Hm.</think>{A_JSON}", "<think>Hm.</think>", [A]),
    "an invented result": (
        f"<tool_call>{A_JSON}</tool_call>\n<tool_response>\nspecies\n</tool_response>\nThree.",
        "",
        [A],
    ),
    "an invented result and a call after it": (
        f"<tool_call>{A_JSON}</tool_call>\n<tool_response>1</tool_response>\n"
        f"<tool_call>{B_JSON}</tool_call>",
        "",
        [A],
    ),
    "a known call beside an unknown one": (
        f"{FLY}\n<tool_call>{A_JSON}</tool_call>",
        FLY,
        [A],
    ),
    "a whole call before a broken one": (
        f'<tool_call>{A_JSON}</tool_call>\n<tool_call>{{"name": "read_file", "argum',
        '<tool_call>{"name": "read_file", "argum',
        [A],
    ),
}

BAD = {
    "words": "Gentoo is the heaviest.",
    "empty": "",
    "an unknown tool": FLY,
    "a tool with another case": '<tool_call>{"name": "Read_File", "arguments": {}}</tool_call>',
    "an unknown function": "<function=fly>{}</function>",
    "an unknown bare one": '{"name": "fly", "arguments": {}}',
    "an unknown fenced one": '```json\n{"name": "fly", "arguments": {}}\n```',
    "a known one beside an unknown one in a list": f'[{A_JSON}, {{"name": "fly", "args": {{}}}}]',
    "cut off": '<tool_call>{"name": "read_file", "arguments": {"path": "a',
    "cut off before the last brace": '<tool_call>{"name": "read_file", "arguments": {"path": "a"}',
    "closed, but cut off": '<tool_call>{"name": "read_file", "args": {"path": "a"}</tool_call>',
    "single quotes": "<tool_call>{'name': 'read_file', 'arguments': {'path': 'a'}}</tool_call>",
    "a trailing comma": '<tool_call>{"name": "read_file", "arguments": {"path": "a",}}</tool_call>',
    "a comment": '<tool_call>{"name": "read_file", /* x */ "arguments": {}}</tool_call>',
    "raw line ends": '<tool_call>{"name": "read_file", "arguments": {"path": "a\nb"}}</tool_call>',
    "NaN": '<tool_call>{"name": "read_file", "arguments": {"limit": NaN}}</tool_call>',
    "a key twice": '<tool_call>{"name": "list_files", "name": "read_file"}</tool_call>',
    "two names": '<tool_call>{"name": "read_file", "tool": "list_files"}</tool_call>',
    "arguments twice": '<tool_call>{"name": "read_file", "arguments": {}, "args": {}}</tool_call>',
    "arguments as a list": '<tool_call>{"name": "read_file", "arguments": ["a"]}</tool_call>',
    "arguments as null": '<tool_call>{"name": "read_file", "arguments": null}</tool_call>',
    "arguments as words": '<tool_call>{"name": "read_file", "arguments": "a.csv"}</tool_call>',
    "no name": '<tool_call>{"arguments": {"path": "a"}}</tool_call>',
    "no object": "<tool_call>read_file a.csv</tool_call>",
    "nothing inside": "<tool_call></tool_call>",
    "only the tag": "<tool_call>",
    "many tags": "<tool_call>" * 2_000,
    "deep": '<tool_call>{"name": "read_file", "arguments": ' + '{"a":' * 100_000,
    "deep lists": "[" * 100_000,
    "an open parameter": "<function=read_file><parameter=path>a.csv",
    "an open function": "<function=read_file><parameter=path>a.csv</parameter>",
    "a parameter twice": "<function=read_file><parameter=path>a</parameter>"
    "<parameter=path>b</parameter></function>",
    "an example in a sentence": f"A model writes <tool_call>{A_JSON}</tool_call> to read a file.",
    "an example in backticks": f"It is `<tool_call>{A_JSON}</tool_call>`",
    "an example in double backticks": f"It is ``<tool_call>{A_JSON}</tool_call>``",
    "an example in a fence": f"So:\n```xml\n<tool_call>\n{A_JSON}\n</tool_call>\n```\nThat is all.",
    "an example in an open fence": f"So:\n```xml\n<tool_call>\n{A_JSON}\n</tool_call>",
    "an example with tildes": f"~~~\n<tool_call>{A_JSON}</tool_call>\n~~~",
    "only thought of": f"<think>I could do\n<tool_call>{A_JSON}</tool_call>\n</think>\nNo need.",
    "still thinking": f"<think>I could do\n<tool_call>{A_JSON}</tool_call>",
    "fenced amid an explanation": f"So:\n```json\n{A_JSON}\n```\nThat would read the file.",
    "fenced with words beside": f"```json\n{A_JSON} or so\n```",
    "fenced as another language": f"```python\n{A_JSON}\n```",
    "fenced without arguments": '```json\n{"name": "read_file"}\n```',
    "fenced with more than a call": '```json\n{"name": "read_file", "args": {}, "score": 3}\n```',
    "an open fence": f"```json\n{A_JSON}",
    "bare with words before": f"Here it is: {A_JSON}",
    "bare with words after": f"{A_JSON}\nThat is how.",
    "bare without arguments": '{"name": "read_file"}',
    "bare with other keys": '{"name": "read_file", "arguments": {}, "version": 2}',
    "bare data": '{"name": "Gentoo", "mass": 5076}',
    "an empty list": "[]",
    "an empty object": "{}",
    "a number": "5076",
    "a closing tag alone": "</tool_call>",
    "HTML": "<b>bold</b> and <function>no</function>",
}


def found(text: str) -> list[tuple[str, Json]]:
    return [(call.name, call.arguments) for call in read(text, TOOLS).calls]


def reply(text: str, stop: ReplyStop = "end", *others: Thinking | ToolCall) -> MessageFinished:
    return MessageFinished(Message("assistant", (*others, Text(text))), Usage(1, 2), stop)


def understood(text: str, stop: ReplyStop = "end") -> MessageFinished:
    return with_calls(reply(text, stop), TOOLS.values())


@pytest.mark.parametrize("name", GOOD)
def test_what_is_understood(name: str) -> None:
    """A call in a model's own format is run, and its text removed."""
    text, words, calls = GOOD[name]
    assert found(text) == calls
    if words is not None:
        assert read(text, TOOLS).words == words
    finished = understood(text)
    assert finished.stop_reason == "tool_use"
    assert [(c.name, json.loads(c.arguments)) for c in finished.message.tool_calls] == calls
    ids = [call.id for call in finished.message.tool_calls]
    assert all(ids) and len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", BAD)
def test_what_stays_text(name: str) -> None:
    """Text that is no whole call of a known tool is the answer."""
    assert found(BAD[name]) == []
    assert understood(BAD[name]) == reply(BAD[name])


@pytest.mark.parametrize("name", GOOD)
def test_no_tools_no_calls(name: str) -> None:
    """Without offered tools no text is a call."""
    finished = reply(GOOD[name][0])
    assert with_calls(finished, ()) == finished


def test_thinking_stays() -> None:
    """Thinking, with the metadata for the provider, stays before the call."""
    thought = Thinking("Hm.", {"provider": "openai", "reasoning_details": [{"text": "Hm."}]})
    finished = with_calls(reply(GOOD["words before"][0], "end", thought), TOOLS.values())
    assert [block.type for block in finished.message.blocks] == ["thinking", "text", "tool_call"]
    assert finished.message.blocks[0] is thought
    assert finished.usage == Usage(1, 2)


def test_a_native_call_wins() -> None:
    """A reply with a native call keeps its text, whatever the text holds."""
    finished = reply(GOOD["hermes"][0], "tool_use", ToolCall("c1", "list_files", "{}"))
    assert with_calls(finished, TOOLS.values()) is finished


def test_a_refusal_is_no_call() -> None:
    """No call in the text of a refused reply is run."""
    finished = reply(GOOD["hermes"][0], "refused")
    assert with_calls(finished, TOOLS.values()) is finished


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        (f"<tool_call>{A_JSON}", "max_tokens"),
        (f"<tool_call>{A_JSON}</tool_call>\nNow I", "tool_use"),
        (f"<tool_call>{A_JSON}</tool_call>\n<tool_response>spec", "tool_use"),
        (f"<tool_call>{A_JSON}</tool_call>\n<tool_call>{A_JSON[:20]}", "tool_use"),
    ],
)
def test_cut_off_replies(text: str, stop: str) -> None:
    """A call at the very end of a reply that was cut off is not run; one before the cut is."""
    assert understood(text, "max_tokens").stop_reason == stop


def test_a_cut_off_call_stays_text() -> None:
    """Half a call is no call."""
    finished = reply(BAD["cut off"], "max_tokens")
    assert with_calls(finished, TOOLS.values()) is finished


PIECES = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", "<function=read_file>", "</function>", "<parameter=path>",
        "</parameter>", "[TOOL_CALLS]", "<|tool_call|>", "```", "```json\n", "\n```", "`", "\n",
        "<think>", "</think>", "{", "}", "[", "]", '"', A_JSON, B_JSON, "read_file", " words ",
        "<tool_response>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "\ud800", ";", ",",
        '<invoke name="read_file">', "<arg_key>", "<|python_tag|>", "functools[{",
    ]
)  # fmt: skip


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text(text: str) -> None:
    """Any text is read without an error, and its calls are of known tools only."""
    reading = read(text, TOOLS)
    assert all(call.name in TOOLS for call in reading.calls)
    if not reading.calls:
        assert reading.words == text


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="<{[`f")))
def test_text_without_marks(text: str) -> None:
    """A text without any mark is the answer, unchanged."""
    finished = reply(text)
    assert with_calls(finished, TOOLS.values()) is finished


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none(), st.booleans())))
def test_any_arguments(arguments: Json) -> None:
    """Arguments arrive unchanged, whatever they hold."""
    written = json.dumps({"name": "read_file", "arguments": arguments})
    for text in (f"<tool_call>{written}</tool_call>", f"```json\n{written}\n```", written):
        assert found(text) == [("read_file", arguments)]


# Over the wire -----------------------------------------------------------------------------------


def provider_of(kind: str, server: ModelServer) -> Model:
    if kind == "anthropic":
        return Anthropic("m", api_key="k", api_base=server.anthropic_url)
    return OpenAI("m", api_key="k", api_base=server.openai_url)


async def parts_of(provider: Model, request: Request) -> list[Any]:
    return [part async for part in provider.stream(request)]


def request_of(*messages: Message, tools_allowed: bool = True) -> Request:
    return Request("s", messages, tuple(TOOLS.values()), tools_allowed)


TASK = Message("user", (Text("Read it."),))


@pytest.fixture(params=["anthropic", "openai"])
async def inline(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Inline, ModelServer]]:
    text = ("I lo", "ok.\n<tool_c", f"all>{A_JSON}</tool", "_call>")
    with ModelServer([Reply(text=text), Reply(text="Done.")]) as server:
        provider = Inline(provider_of(request.param, server))
        yield provider, server
        await provider.close()


async def test_over_the_wire(inline: tuple[Inline, ModelServer]) -> None:
    """A call that streams in pieces is found, and goes back in the API's own format."""
    provider, server = inline
    *deltas, finished = await parts_of(provider, request_of(TASK))
    assert "".join(part.text for part in deltas if isinstance(part, TextDelta)).startswith("I look")
    (call,) = finished.message.tool_calls
    assert (finished.message.text, call.name) == ("I look.", "read_file")
    results = Message("user", (ToolResult(call.id, (Text("1|species"),)),))
    last = (await parts_of(provider, request_of(TASK, finished.message, results)))[-1]
    assert last.message.text == "Done."
    check = check_anthropic if provider.name == "anthropic" else check_openai
    for body in server.bodies:
        check(body)
        assert "<tool_call>" not in json.dumps(body)


async def test_the_last_call_of_a_turn(inline: tuple[Inline, ModelServer]) -> None:
    """If no tool may be called any more, the text is unchanged."""
    provider, _ = inline
    finished = (await parts_of(provider, request_of(TASK, tools_allowed=False)))[-1]
    assert not finished.message.tool_calls
    assert "<tool_call>" in finished.message.text


async def test_record_and_replay(inline: tuple[Inline, ModelServer], tmp_path: Path) -> None:
    """The cassette holds the call itself, so that a replay parses no text."""
    provider, _ = inline
    path = tmp_path / "a.cassette.jsonl"
    recorder = Recorder(path, name=provider.name, model=provider.model)
    recorder.begin([TASK])
    finished = (await parts_of(RecordedModel(recorder, provider), request_of(TASK)))[-1]
    recorder.commit()
    player = Player(load(path), path.name)
    player.begin([TASK])
    assert await parts_of(RecordedModel(player), request_of(TASK)) == [finished]


async def test_a_server_that_parses_is_left_alone() -> None:
    """A native call passes unchanged."""
    with ModelServer([Reply(calls=(Call("read_file", '{"path": "a.csv"}'),))]) as server:
        provider = Inline(provider_of("openai", server))
        finished = (await parts_of(provider, request_of(TASK)))[-1]
        await provider.close()
    assert [call.arguments for call in finished.message.tool_calls] == ['{"path": "a.csv"}']
