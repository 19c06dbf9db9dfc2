"""A model that says what a script tells it to: for examples, documentation and tests.

The script is a YAML list of turns:

    - task: Which species is heaviest?
      replies:
        - text: I look first.
          calls:
            - {name: execute_code, arguments: {code: penguins.head()}}
        - text: Gentoo.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import yaml

from jupyter_agent.errors import ConfigError, ProviderError
from jupyter_agent.events import MessageFinished, ReplySource, TextDelta
from jupyter_agent.llm.conversation import task_index
from jupyter_agent.llm.provider import ReplyPart, Request
from jupyter_agent.messages import Block, JsonObject, Message, Text, Thinking, ToolCall, Usage
from jupyter_agent.plaintext import one_line

Reply = dict[str, Any]


class Scripted:
    """Serves the replies that a script lists under the task at hand, in their order.

    Args:
        turns: `(task, replies)` pairs; a task that comes twice is served in order.
    """

    name = "scripted"
    model = "script"
    source: ReplySource = "scripted"

    def __init__(self, turns: list[tuple[str, list[Reply]]]) -> None:
        self._turns = list(turns)
        self._current: Iterator[Reply] = iter(())

    @classmethod
    def from_file(cls, path: Path) -> Scripted:
        """Read a script. Raises `ConfigError` where it is not one."""
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            turns = [(str(turn["task"]), list(turn["replies"])) for turn in data]
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
            raise ConfigError(
                f"The script {path} cannot be used ({one_line(str(error))}). It must be a YAML "
                "list of turns, each with a task and its replies."
            ) from None
        return cls(turns)

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        turn = request.messages[task_index(request.messages) :]
        if len(turn) == 1:
            self._current = self._replies(turn[0].text)
        reply = next(self._current, None)
        if reply is None:
            raise ProviderError("The script has no further reply for this task.")
        message = _message(reply, f"call_{len(request.messages)}")
        if message.text:
            yield TextDelta(message.text)
        stop = reply.get("stop_reason", "tool_use" if message.tool_calls else "end")
        yield MessageFinished(message, Usage(**reply.get("usage", {})), stop)

    def body(self, request: Request) -> JsonObject:
        """Nothing is sent."""
        return {}

    async def close(self) -> None:
        """Nothing to release."""

    def _replies(self, task: str) -> Iterator[Reply]:
        for index, (scripted_task, replies) in enumerate(self._turns):
            if scripted_task.split() == task.split():
                del self._turns[index]
                return iter(replies)
        raise ProviderError(f"The script has no turn for the task {one_line(task)!r}.")


def _message(reply: Reply, call_id: str) -> Message:
    blocks: list[Block] = []
    if reply.get("thinking"):
        blocks.append(Thinking(str(reply["thinking"])))
    if reply.get("text"):
        blocks.append(Text(str(reply["text"]).strip()))
    for number, call in enumerate(reply.get("calls", []), 1):
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        blocks.append(ToolCall(f"{call_id}_{number}", str(call["name"]), text))
    return Message("assistant", tuple(blocks))
