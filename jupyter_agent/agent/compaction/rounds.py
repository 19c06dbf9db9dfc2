"""Divides a conversation into the user's messages, the session's, and the agent's steps.

A step is a reply of the model with the results of its calls. Compaction adds messages of its own,
whose first block begins with one of two marks: a summary, followed by the places of its steps' long
results; and the restored context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyter_agent.core.messages import Block, Context, Message, Text, ToolResult

SUMMARY = "[Assistant Execution Summary]"
KEPT_WHOLE = "Long results of these steps are kept whole:"
STILL_IN_FORCE = "[Put back after the conversation was shortened]"


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The messages from `start` up to `stop`. `task` is the index of its round's task, or -1."""

    start: int
    stop: int
    task: int


def apart(message: Message) -> tuple[Message, ...]:
    """A message of results with text by the user as two messages; any other alone."""
    results = tuple(b for b in message.blocks if isinstance(b, (ToolResult, Context)))
    if not message.tool_results or len(results) == len(message.blocks):
        return (message,)
    said = tuple(b for b in message.blocks if not isinstance(b, (ToolResult, Context)))
    return replace(message, blocks=results), replace(message, blocks=said)


def steps(history: Sequence[Message]) -> list[StepSpan]:
    """The steps of a conversation, in order. A call and its result are always in one step.

    `history` has results and the user's text in separate messages (`apart`).
    """
    found: list[StepSpan] = []
    task, index = -1, 0
    while index < len(history):
        message = history[index]
        start, index = index, index + 1
        if message.role != "assistant":
            task = start if is_task(message) else task
            continue
        while index < len(history) and _belongs_to_step(history[index]):
            index += 1
        found.append(StepSpan(start, index, task))
    return found


def _belongs_to_step(message: Message) -> bool:
    """True for tool results, and for the session's texts beside them."""
    if message.role != "user" or is_ours(message):
        return False
    return bool(message.tool_results) or all(isinstance(b, Context) for b in message.blocks)


def is_task(message: Message) -> bool:
    """True if the message holds a task by the user."""
    return message.role == "user" and any(isinstance(b, Text) for b in message.blocks)


def current_task(history: Sequence[Message]) -> int:
    """The index of the current round's task; -1 if there is none."""
    return next((i for i in range(len(history) - 1, -1, -1) if is_task(history[i])), -1)


def persons(message: Message) -> tuple[Block, ...]:
    """The user's own blocks of a message; all blocks of a system message."""
    if message.role == "assistant":
        return ()
    if message.role == "system":
        return message.blocks
    return tuple(b for b in message.blocks if not isinstance(b, (Context, ToolResult)))


def is_ours(message: Message) -> bool:
    """True if an earlier compaction made this message."""
    return _begins(message, SUMMARY) or _begins(message, STILL_IN_FORCE)


def earlier_summary(message: Message) -> str:
    """The summary in a message, without its mark; empty if it holds none."""
    if not _begins(message, SUMMARY):
        return ""
    first = message.blocks[0]
    assert isinstance(first, Context)
    return first.text.removeprefix(SUMMARY).strip()


def earlier_places(message: Message) -> list[str]:
    """The lines of a summary's message with the places of full results."""
    texts = [b.text for b in message.blocks if isinstance(b, Context)]
    found = [text for text in texts if is_ours(message) and text.startswith(KEPT_WHOLE)]
    return [line for text in found for line in text.split("\n")[1:]]


def _begins(message: Message, mark: str) -> bool:
    # Only the session makes a Context: a user who types the mark does not fake one.
    first = message.blocks[0] if message.role == "user" and message.blocks else None
    return isinstance(first, Context) and first.text.startswith(mark)
