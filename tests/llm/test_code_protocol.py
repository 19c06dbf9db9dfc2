"""Models without tool calling: what they are sent, and what of their replies is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import ModelServer, Reply, check_anthropic, check_openai, check_stable

from jupyter_agent.core.events import MessageFinished, ReplyStop
from jupyter_agent.core.messages import (
    Context,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from jupyter_agent.core.ports import Model, Request
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.code_protocol import CodeProtocol, code_block, in_words, signature, with_call
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.player import Player
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.wrappers import RecordedModel
from jupyter_agent.tools.code import code_tools
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.plan import Plan, plan_tools

EXECUTE = ToolSpec(
    "execute_code", "Run code.", {"type": "object", "properties": {"code": {"type": "string"}}}
)
FILES = tuple(tool.spec for tool in file_tools(Workspace(Path())))
TOOLS = (EXECUTE, *FILES)
TASK = Message("user", (Text("How heavy?"), Context("<context>df</context>")))
PNG = Image("image/png", "iVBORw0KGgo=")

RUN: dict[str, tuple[str, str, str]] = {
    # name: the reply, its words, the code
    "a block": ("```python\nprint(1)\n```", "", "print(1)"),
    "words before": ("I look.\n\n```python\nprint(1)\n```", "I look.", "print(1)"),
    "py": ("```py\nprint(1)\n```", "", "print(1)"),
    "capitals": ("```Python\nprint(1)\n```", "", "print(1)"),
    "python3": ("```python3\nprint(1)\n```", "", "print(1)"),
    "an attribute": ('```python title="a"\nprint(1)\n```', "", "print(1)"),
    "a space": ("``` python\nprint(1)\n```", "", "print(1)"),
    "four ticks": ("````python\nprint(1)\n````", "", "print(1)"),
    "an invented output": (
        "```python\nprint(1)\n```\nOutput:\n```\n7\n```\nIt is 7.",
        "",
        "print(1)",
    ),
    "two blocks": ("```python\nx = 1\n```\nthen\n```python\ny = 2\n```", "", "x = 1"),
    "another language first": (
        "So:\n```text\nplan\n```\n```python\nx = 1\n```",
        "So:\n```text\nplan\n```",
        "x = 1",
    ),
    "no language": ("I look.\n```\nprint(1)\n```", "I look.", "print(1)"),
    "in a list": ("1. So:\n   ```python\n   if x:\n       y()\n   ```", "1. So:", "if x:\n    y()"),
    "magics": ("```python\n%pip list\n!ls\nx = !ls\n```", "", "%pip list\n!ls\nx = !ls"),
    "a cell magic": ("```python\n%%time\nx\n```", "", "%%time\nx"),
    "code with an error": ("```python\nprint(1\n```", "", "print(1"),
    "top-level await": ("```python\nawait f()\n```", "", "await f()"),
    "a fence in a text": (
        '```python\nt = """\n```text\nhello\n```\n"""\n```\nDone.',
        "",
        't = """\n```text\nhello\n```\n"""',
    ),
    "after thinking": (
        "<think>\n```python\nno()\n```\n</think>\n```python\nyes()\n```",
        "<think>\n```python\nno()\n```\n</think>",
        "yes()",
    ),
    "an open block that is whole": ("I look.\n```python\nprint(1)\n", "I look.", "print(1)"),
    "blank lines around": ("```python\n\n\nx = 1\n\n\n```", "", "x = 1"),
}
ANSWERS = {
    "words": "Gentoo.",
    "empty": "",
    "another language": "```sql\nselect 1\n```",
    "text": "```text\nx = 1\n```",
    "JSON": '```json\n{"a": 1}\n```',
    "no language, no Python": "```\nspecies  mass\nGentoo   5076\n```",
    "no language, two blocks": "```\nx = 1\n```\nor\n```\ny = 2\n```",
    "an open block that is not whole": "```python\nprint((1",
    "an empty block": "```python\n```",
    "inline": "Use `print(1)` or ```python print(1)```.",
    "only thought of": "<think>\n```python\nno()\n```\n</think>\nNothing to do.",
}


def reply(text: str, stop: ReplyStop = "end") -> MessageFinished:
    return MessageFinished(Message("assistant", (Text(text),)), Usage(1, 2), stop)


@pytest.mark.parametrize("name", RUN)
def test_what_is_run(name: str) -> None:
    """The first Python block becomes one call of execute_code; the text after it is dropped."""
    text, words, code = RUN[name]
    finished = with_call(reply(text))
    (call,) = finished.message.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("execute_code", {"code": code})
    assert (finished.message.text, finished.stop_reason) == (words, "tool_use")
    assert call.id


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_an_answer(name: str) -> None:
    """A reply without a Python block is unchanged, and ends the turn."""
    finished = reply(ANSWERS[name])
    assert with_call(finished) is finished


def test_a_block_that_was_cut_off() -> None:
    """A block cut off at the token limit becomes a call that is marked as cut off."""
    finished = with_call(reply("```python\nx = 1\nfor i in", "max_tokens"))
    assert finished.stop_reason == "max_tokens"
    assert len(finished.message.tool_calls) == 1
    whole = with_call(reply("```python\nx = 1\n", "max_tokens"))
    assert whole.stop_reason == "max_tokens"


def test_a_whole_block_before_the_cut() -> None:
    """If the model invents output until the limit, the whole block before it is run."""
    finished = with_call(reply("```python\nx = 1\n```\nOutput: and so", "max_tokens"))
    assert finished.stop_reason == "tool_use"


def test_a_refusal() -> None:
    """No block of a refused reply is run."""
    finished = reply(RUN["a block"][0], "refused")
    assert with_call(finished) is finished


@settings(deadline=None)
@given(
    st.text()
    | st.lists(st.sampled_from(["```", "python", "\n", "x = 1", "<think>", "  "])).map("".join)
)
def test_any_reply(text: str) -> None:
    """Any reply is read without an error."""
    block = code_block(text)
    assert block is None or block.code.strip()


# What goes out -----------------------------------------------------------------------------------


def call(code: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, "execute_code", json.dumps({"code": code}))


def result(*content: Text | Image, call_id: str = "c1", is_error: bool = False) -> Message:
    return Message("user", (ToolResult(call_id, content, is_error),))


def test_the_signatures() -> None:
    """Each tool is a line of Python, with its types, defaults and first words."""
    lines = {spec.name: signature(spec) for spec in FILES}
    assert lines["read_file"] == (
        "def read_file(path: str, offset: int | None = None, limit: int | None = None) -> str:"
        "  # Read a file of the workspace."
    )
    assert "replace_all: bool = False" in lines["edit_file"]
    (plan,) = plan_tools(Plan())
    assert signature(plan.spec).startswith(
        "def update_plan(items: list[{'text': str, 'state': 'pending' | 'in_progress' | 'done'}])"
    )


def test_the_system_prompt() -> None:
    """It explains the protocol and lists all tools but execute_code, after the person's own."""
    request = in_words(Request("Be brief.\n", (TASK,), TOOLS))
    assert request.system.startswith("Be brief.\n\n## How you act")
    assert request.tools == ()
    for spec in FILES:
        assert f"\ndef {spec.name}(" in request.system
    assert "def execute_code" not in request.system


def test_without_code_there_is_no_protocol() -> None:
    """If code is switched off, the model gets no instructions of the protocol."""
    assert in_words(Request("Be brief.\n", (TASK,), FILES)).system == "Be brief.\n"


def test_the_history_in_words() -> None:
    """Calls become the model's own words, and results the user's; pictures stay pictures."""
    thought = Thinking("Hm.", {"provider": "openai", "reasoning_details": [{}]})
    messages = (
        TASK,
        Message("assistant", (thought, Text("I look."), call("df.plot()"))),
        result(Text("a figure"), PNG),
        Message("assistant", (call("1/0", "c2"),)),
        result(Text("ZeroDivisionError"), call_id="c2", is_error=True),
        Message("assistant", (ToolCall("c3", "read_file", '{"path": "a.csv", "limit": 5}'),)),
        result(call_id="c3"),
    )
    said = in_words(Request("s", messages, TOOLS)).messages
    assert said[0] is TASK
    assert said[1].blocks == (thought, Text("I look.\n\n```python\ndf.plot()\n```"))
    assert said[2].blocks == (Context("Output:\na figure"), PNG)
    assert said[3].text == "```python\n1/0\n```"
    assert said[4].blocks == (Context("Output (an error):\nZeroDivisionError"),)
    assert said[5].text == "```python\nprint(read_file(path='a.csv', limit=5))\n```"
    assert said[6].blocks == (Context("Output:\n(no output)"),)


@pytest.mark.parametrize("code", ['t = """\n```\nx\n```\n"""', "````", "x = '```python'", ""])
def test_code_with_fences_comes_back_as_it_was(code: str) -> None:
    """A call in words is read as the same call again."""
    (message,) = in_words(Request("s", (Message("assistant", (call(code),)),), TOOLS)).messages
    block = code_block(message.text)
    assert (block.code if block else "") == code


# Over the wire -----------------------------------------------------------------------------------


def provider_of(kind: str, server: ModelServer) -> Model:
    if kind == "anthropic":
        return CodeProtocol(Anthropic("m", api_key="k", api_base=server.anthropic_url))
    return CodeProtocol(OpenAI("m", api_key="k", api_base=server.openai_url))


async def ask(provider: Model, *messages: Message, allowed: bool = True) -> Any:
    request = Request("Be brief.", messages, TOOLS, allowed)
    return [part async for part in provider.stream(request)][-1]


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_conversation(kind: str, tmp_path: Path) -> None:
    """Three steps over real HTTP: no tools, no calls, and each request begins as the last one."""
    texts = ["I look.\n```python\ndf\n```\nOutput: 7", "```python\ndf.x\n```", "Gentoo."]
    with ModelServer([Reply(text=text) for text in texts]) as server:
        provider = provider_of(kind, server)
        path = tmp_path / "a.cassette.jsonl"
        tape = Recorder(path, name=provider.name, model=provider.model)
        recorder = RecordedModel(tape, provider)
        history, replies = [TASK], []
        tape.begin(history)
        for _ in texts:
            replies.append(await ask(recorder, *history))
            history.append(replies[-1].message)
            for made in replies[-1].message.tool_calls:
                history.append(result(Text("5076"), PNG, call_id=made.id))
        tape.commit()
        await recorder.close()
        check_stable(server.requests)
    check = check_anthropic if kind == "anthropic" else check_openai
    for body in server.bodies:
        check(body)
        assert "tools" not in body
        assert "tool_choice" not in body
        assert {m["role"] for m in body["messages"]} <= {"system", "user", "assistant"}
    assert "Output: 7" not in json.dumps(server.bodies)
    assert [reply.stop_reason for reply in replies] == ["tool_use", "tool_use", "end"]

    player = Player(load(path), path.name)
    replay = RecordedModel(player)
    again = [TASK]
    player.begin(again)
    for then in replies:
        now = await ask(replay, *again)
        assert now == then
        again.append(now.message)
        again += [result(Text("5076"), PNG, call_id=c.id) for c in now.message.tool_calls]


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_the_last_call_of_a_turn(kind: str) -> None:
    """If no code may be run any more, a block is part of the answer."""
    with ModelServer([Reply(text=RUN["a block"][0])]) as server:
        provider = provider_of(kind, server)
        finished = await ask(provider, TASK, allowed=False)
        await provider.close()
    assert finished.stop_reason == "end"
    assert finished.message.text == RUN["a block"][0]


async def test_the_body_is_what_is_sent() -> None:
    """`%agent context all` shows the request as it goes out."""
    with ModelServer([Reply(text="Hello.")]) as server:
        provider = provider_of("openai", server)
        await ask(provider, TASK)
        assert provider.body(Request("Be brief.", (TASK,), TOOLS)) == server.bodies[0]
        await provider.close()


def test_the_real_tool_is_the_one_that_acts() -> None:
    """The protocol uses the name of the package's own tool."""
    (tool,) = code_tools(None)  # type: ignore[arg-type]
    assert tool.name == EXECUTE.name
