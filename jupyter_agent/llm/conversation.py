"""What of a conversation makes it the same conversation: the ground that cassettes stand on.

The task as typed, the tool calls and the tool results count, after what differs from run to run
is taken out of them. The system prompt, the tools' schemas, the session's context and the words
between tool calls do not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_agent.llm.wire import arguments_object
from jupyter_agent.memory.quoting import SAVED_AT, SAVED_IN
from jupyter_agent.messages import Image, Message, Said, Text, ToolCall, ToolResult, clean
from jupyter_agent.redact import redact, redact_json, secret_values

_VOLATILE = (
    # A skill's text is part of what the agent is told, like the system prompt: an upgrade that
    # words a skill better must not break the notebooks that were recorded with it.
    (
        re.compile(r'<skill_content name="([^"\n]*)">\n.*?\n</skill_content>', re.DOTALL),
        r"<skill \1>",
    ),
    (SAVED_AT, r"\1\2<date>"),
    (SAVED_IN, r"\1"),
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x…"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (
        re.compile(
            r"\b\d+(?:\.\d+)? ?(?:ns|[µμ]s|us|ms|min|seconds|s)\b"
            r"(?: ± [\d.]+ ?(?:ns|[µμ]s|us|ms|s))?"
        ),
        "<duration>",
    ),
    (re.compile(r"(?:/private)?(?:/tmp|/var/folders)/[^\s'\":,)\]]+"), "<tmp>"),
    (re.compile(r"(?:/home/|/Users/)[^\s/'\":,)\]]+"), "<home>"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that counts: `kind` is `task`, `said`, `call` or `result`."""

    kind: str
    text: str


def normalized(text: str) -> str:
    """Text without what differs from run to run, and without secrets."""
    text = redact(text, secret_values())
    for pattern, stand_in in _VOLATILE:
        text = pattern.sub(stand_in, text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def items(message: Message) -> list[Item]:
    """What counts of one message."""
    found: list[Item] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            # As the cassette has them: without secrets before they are JSON.
            values = redact_json(arguments_object(block), secret_values())
            arguments = json.dumps(values, sort_keys=True, ensure_ascii=False)
            found.append(Item("call", normalized(f"{block.name} {arguments}")))
        elif isinstance(block, ToolResult):
            found.append(Item("result", _result_text(block)))
        elif isinstance(block, Said):
            found.append(Item("said", normalized(block.text)))
        elif isinstance(block, Text) and message.role == "user":
            found.append(Item("task", normalized(block.text)))
    return found


def _result_text(result: ToolResult) -> str:
    """Pictures differ from one library version to the next, so only their kind counts."""
    words = [
        f"[{block.media_type}]" if isinstance(block, Image) else block.text
        for block in result.content
    ]
    return normalized(("error: " if result.is_error else "") + "\n".join(words))


def task_index(messages: Sequence[Message]) -> int:
    """Where the current turn starts: the last message in which a person typed something."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and any(isinstance(b, Text) for b in message.blocks):
            return index
    raise ValueError("the conversation has no task")


def turn_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages of the current turn."""
    return messages[task_index(messages) :]


def asked(turn: Sequence[Message]) -> tuple[Item, ...]:
    """What was said to the model since its last reply."""
    new: list[Message] = []
    for message in reversed(turn):
        if message.role == "assistant":
            break
        new.insert(0, message)
    return tuple(item for message in new for item in items(message))


class Digests:
    """The digests of a growing conversation; each message is looked at once."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._chain: list[str] = [""]

    def conversation(self, messages: Sequence[Message]) -> str:
        """The digest of a conversation, which mostly goes on from the one before."""
        known = 0
        for ours, theirs in zip(self._messages, messages, strict=False):
            if ours is not theirs:
                break
            known += 1
        del self._messages[known:], self._chain[known + 1 :]
        for message in messages[known:]:
            self._messages.append(message)
            self._chain.append(extend(self._chain[-1], items(message)))
        return self._chain[-1]


def extend(digest: str, more: Sequence[Item]) -> str:
    """The digest of a conversation that went on by `more`. It starts with the empty text."""
    for item in more:
        line = f"{digest}\n{item.kind}\n{item.text}"
        digest = hashlib.sha256(clean(line).encode("utf-8")).hexdigest()
    return digest
