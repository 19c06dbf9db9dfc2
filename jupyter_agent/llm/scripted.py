"""A model with replies from a script, for examples, documentation and tests.

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
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from jupyter_agent.core.events import MessageFinished, ReplySource, ReplyStop, TextDelta
from jupyter_agent.core.history import task_index
from jupyter_agent.core.messages import Block, JsonObject, Message, Text, Thinking, ToolCall, Usage
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ConfigError, ProviderError


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ScriptedCall(_Strict):
    """A tool call. `arguments` as text is sent unchanged, even if it is no JSON."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class ScriptedReply(_Strict):
    """One reply. Without a `stop_reason` its calls decide that."""

    text: str = ""
    thinking: str = ""
    calls: list[ScriptedCall] = Field(default_factory=list)
    usage: dict[
        Literal["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"], int
    ] = Field(default_factory=dict)
    stop_reason: ReplyStop | None = None


class ScriptedTurn(_Strict):
    """The replies to one task, and the summaries where its conversation is shortened."""

    task: str
    replies: list[ScriptedReply]
    summaries: list[str] = Field(default_factory=list)


class Scripted:
    """Serves the replies that a script lists under the current task, in their order.

    Args:
        turns: Pairs of a task and its replies, as the script's mappings. The turns of a repeated
            task are served in order.

    Raises:
        ValueError: A reply has an unknown field, or a wrong value.
    """

    name = "scripted"
    model = "script"
    source: ReplySource = "scripted"

    def __init__(self, turns: Iterable[tuple[str, Iterable[Mapping[str, Any]]]]) -> None:
        pairs = [{"task": task, "replies": list(replies)} for task, replies in turns]
        self._turns = TypeAdapter(list[ScriptedTurn]).validate_python(pairs)
        self._current: Iterator[ScriptedReply] = iter(())
        self._running: dict[int, tuple[Message, Iterator[ScriptedReply]]] = {}
        self._summaries: Iterator[str] = iter(())

    @classmethod
    def from_file(cls, path: Path) -> Scripted:
        """Read a script. Raises `ConfigError` if the file is invalid."""
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            turns = TypeAdapter(list[ScriptedTurn]).validate_python(data)
            scripted = cls([])
            scripted._turns = turns
            return scripted
        except (OSError, yaml.YAMLError, ValueError) as error:
            raise ConfigError(
                f"The script {path} cannot be used ({one_line(str(error))}). It must be a YAML "
                "list of turns, each with a task and its replies."
            ) from None

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        if request.purpose == "summary":
            yield self._summary()
            return
        turn = request.messages[task_index(request.messages) :]
        if len(turn) == 1 and not request.attempt:  # further attempts go on with the replies
            self._current = self._replies(turn[0].text)
            self._running[id(turn[0])] = turn[0], self._current
        # Delegates ask side by side; a conversation that was shortened begins with another message.
        _, replies = self._running.get(id(turn[0]), (None, self._current))
        reply = next(replies, None)
        if reply is None:
            raise ProviderError(
                "The script has no further reply for this task. Add one to its turn."
            )
        message = _message(reply, f"call_{len(request.messages)}")
        if message.text:
            yield TextDelta(message.text)
        stop = reply.stop_reason or ("tool_use" if message.tool_calls else "end")
        yield MessageFinished(message, Usage(**reply.usage), stop)

    def body(self, request: Request) -> JsonObject:
        """Nothing is sent."""
        return {}

    async def close(self) -> None:
        """Nothing to release."""

    def _summary(self) -> MessageFinished:
        text = next(self._summaries, None)
        if text is None:
            raise ProviderError("The script has no further summary for this task.")
        return MessageFinished(Message("assistant", (Text(text.strip()),)), Usage(), "end")

    def _replies(self, task: str) -> Iterator[ScriptedReply]:
        for index, turn in enumerate(self._turns):
            if turn.task.split() == task.split():
                del self._turns[index]
                self._summaries = iter(turn.summaries)
                return iter(turn.replies)
        raise ProviderError(
            f"The script has no turn for the task {one_line(task)!r}. Add one to it."
        )


def _message(reply: ScriptedReply, call_id: str) -> Message:
    blocks: list[Block] = []
    if reply.thinking:
        blocks.append(Thinking(reply.thinking))
    if reply.text.strip():
        blocks.append(Text(reply.text.strip()))
    for number, call in enumerate(reply.calls, 1):
        arguments = call.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        blocks.append(ToolCall(f"{call_id}_{number}", call.name, text))
    return Message("assistant", tuple(blocks))
