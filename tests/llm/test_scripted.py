"""A model that follows a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.events import MessageFinished, TextDelta
from jupyter_agent.core.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError, ProviderError
from jupyter_agent.llm.scripted import Scripted

YAML = """\
- task: Which species is heaviest?
  replies:
    - thinking: Hm.
      text: I look first.
      calls:
        - {name: look, arguments: {path: a.csv}}
        - {name: look, arguments: "{not json"}
        - name: ping
      usage: {input_tokens: 5, output_tokens: 2}
    - text: |
        Gentoo.
- task: Go on.
  replies:
    - {text: "No.", stop_reason: refused}
"""


def user(task: str) -> Message:
    return Message("user", (Text(task),))


async def parts(model: Scripted, *messages: Message) -> list[ReplyPart]:
    return [part async for part in model.stream(Request("s", messages))]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


async def test_a_reply(script: Path) -> None:
    """Thinking, words, calls and usage as the script has them; the words come as a delta too."""
    delta, reply = await parts(Scripted.from_file(script), user("Which species is heaviest?"))
    calls = (
        ToolCall("call_1_1", "look", '{"path": "a.csv"}'),
        ToolCall("call_1_2", "look", "{not json"),
        ToolCall("call_1_3", "ping", "{}"),
    )
    message = Message("assistant", (Thinking("Hm."), Text("I look first."), *calls))
    assert delta == TextDelta("I look first.")
    assert reply == MessageFinished(message, Usage(5, 2), "tool_use")


async def test_replies_come_in_order(script: Path) -> None:
    """The second call of a turn gets the second reply."""
    model = Scripted.from_file(script)
    task = user("Which species is heaviest?")
    first = (await parts(model, task))[-1]
    assert isinstance(first, MessageFinished)
    results = Message("user", (ToolResult("call_1_1", (Text("x"),)),))
    assert await parts(model, task, first.message, results) == [
        TextDelta("Gentoo."),
        MessageFinished(Message("assistant", (Text("Gentoo."),)), Usage(), "end"),
    ]


async def test_stop_reason_of_the_script(script: Path) -> None:
    """A script may say why a reply ended."""
    reply = (await parts(Scripted.from_file(script), user("Go on.")))[-1]
    assert isinstance(reply, MessageFinished)
    assert reply.stop_reason == "refused"


async def test_tasks_in_any_order_and_layout(script: Path) -> None:
    """A task is found by its words; blanks and line breaks do not count."""
    model = Scripted.from_file(script)
    await parts(model, user("Go\n on. "))
    await parts(model, user("Which species\nis heaviest?\n"))


async def test_a_task_that_comes_twice() -> None:
    """Its turns are served in order, then there is none."""
    model = Scripted([("Go.", [{"text": "1"}]), ("Go.", [{"text": "2"}])])
    texts = [(await parts(model, user("Go.")))[0] for _ in range(2)]
    assert texts == [TextDelta("1"), TextDelta("2")]
    with pytest.raises(
        ProviderError, match=r"^The script has no turn for the task 'Go\.'\. Add one to it\.$"
    ):
        await parts(model, user("Go."))


async def test_a_script_that_ends_too_early() -> None:
    """A step that the script does not have is an error, not a short answer."""
    model = Scripted([("Go.", [{"calls": [{"name": "look"}]}])])
    first = (await parts(model, user("Go.")))[-1]
    assert isinstance(first, MessageFinished)
    with pytest.raises(ProviderError, match="no further reply"):
        await parts(model, user("Go."), first.message, Message("user", ()))


async def test_an_empty_reply() -> None:
    """A reply without anything is a message without blocks."""
    assert await parts(Scripted([("Go.", [{}])]), user("Go.")) == [
        MessageFinished(Message("assistant", ()), Usage(), "end")
    ]


BAD = {
    "empty": "",
    "a word": "hello",
    "a mapping": "task: a\nreplies: []",
    "no task": "- replies: []",
    "no replies": "- task: a",
    "replies that are null": "- {task: a, replies: }",
    "replies that are a number": "- {task: a, replies: 3}",
    "not YAML": "- task: [",
    "a tag that runs code": "- !!python/object/apply:os.system [ls]",
    "a NUL": "- task: a\0",
    "a date that does not exist": "- task: 2026-13-45\n  replies: []",
    "a reply in words": "- task: a\n  replies: [Hello.]",
    "a reply that is null": "- task: a\n  replies: [null]",
    "a call without a name": "- task: a\n  replies: [{calls: [{arguments: {}}]}]",
    "a call in words": "- task: a\n  replies: [{calls: [look]}]",
    "usage that nobody knows": "- task: a\n  replies: [{usage: {tokens: 3}}]",
    "a stop reason that nobody knows": "- task: a\n  replies: [{stop_reason: bored}]",
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_no_script(tmp_path: Path, kind: str) -> None:
    """A malformed script is one `ConfigError` line with the file, before any reply."""
    path = tmp_path / "script.yaml"
    path.write_text(BAD[kind], encoding="utf-8")
    with pytest.raises(ConfigError, match=r"script\.yaml") as caught:
        await parts(Scripted.from_file(path), user("a"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"- task: gr\xfcn\n"])
def test_bytes_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    """A script that is not UTF-8 is refused."""
    path = tmp_path / "script.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"script\.yaml"):
        Scripted.from_file(path)


def test_no_file(tmp_path: Path) -> None:
    """A missing script and a folder in its place are errors with the name."""
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(ConfigError, match=path.name):
            Scripted.from_file(path)


async def test_arguments_of_the_script_are_json(script: Path) -> None:
    """What YAML made of the arguments goes to the tool as JSON."""
    arguments: dict[str, Any] = {"code": "a\nb", "n": [1, 2.5, None, True], "ü": "😀"}
    model = Scripted([("Go.", [{"calls": [{"name": "look", "arguments": arguments}]}])])
    reply = (await parts(model, user("Go.")))[-1]
    assert isinstance(reply, MessageFinished)
    assert json.loads(reply.message.tool_calls[0].arguments) == arguments
