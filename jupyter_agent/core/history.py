"""Repairs a conversation, so that every provider accepts it, and counts its text.

`repair` is pure and idempotent. Messages in order stay the very same objects, since digests and
prompt caches depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jupyter_agent.core.messages import Block, Context, Message, Said, Text, ToolCall, ToolResult

LOST = "The result of this call was lost. It may have run, wholly or in part."
NEVER_ANSWERED = "Not run: the kernel ended while the person was asked about this step."
NO_REPLY = "[The person asked this before and got no reply; the task of this message counts]\n"
"""The beginning of a `Context` with an earlier task that the model never replied to."""
INTERRUPTED_NOTE = "(The person interrupted the turn here.)"
_MOST_UNANSWERED = 3


def repair(messages: Sequence[Message], lost: str = LOST) -> list[Message]:
    """A valid form of the conversation that keeps all its text.

    Each tool call has exactly one result, in the message after it, in the order of the calls; a
    missing one becomes an error result with the text `lost`. Results without a call and empty
    messages are removed; repeated ids become unique, in the call and its result.
    """
    used: set[str] = set()
    repaired: list[Message] = []
    for round_ in _rounds(messages):
        repaired += _repaired(round_, used, lost)
    return repaired


def free_id(wanted: str, used: set[str]) -> str:
    """`wanted`, or `wanted` with a number if it is in `used`; the id is added to `used`."""
    number, own = 1, wanted
    while own in used:
        number += 1
        own = f"{wanted}_{number}"
    used.add(own)
    return own


def _rounds(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Each assistant message with the messages up to the next one."""
    current: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            yield current
            current = []
        current.append(message)
    yield current


def _repaired(round_: list[Message], used: set[str], lost: str) -> Iterator[Message]:
    calls: list[ToolCall] = []
    if round_ and round_[0].role == "assistant":
        first, *round_ = round_
        calls = list(first.tool_calls)
        unique = list(_unique(first.blocks, used))
        if not _is_empty(unique):
            yield first if unique == list(first.blocks) else replace(first, blocks=tuple(unique))
        renamed = [block for block in unique if isinstance(block, ToolCall)]
        results = _results(calls, renamed, round_, lost)
        if results and round_ and round_[0].tool_results == results and _leads(round_[0]):
            yield round_[0]
            round_ = round_[1:]
        elif results:
            yield Message("user", results)
    for message in round_:
        said = tuple(block for block in message.blocks if not isinstance(block, ToolResult))
        if said:
            yield message if len(said) == len(message.blocks) else replace(message, blocks=said)


def _unique(blocks: Iterable[Block], used: set[str]) -> Iterator[Block]:
    """The blocks of an assistant message: no results, and each call with an id of its own."""
    for block in blocks:
        if isinstance(block, ToolResult):
            continue
        if not isinstance(block, ToolCall):
            yield block
            continue
        own = free_id(block.id or "call", used)
        yield block if own == block.id else replace(block, id=own)


def _results(
    calls: Sequence[ToolCall], renamed: Sequence[ToolCall], after: Sequence[Message], lost: str
) -> tuple[ToolResult, ...]:
    """One result for each call: the first under its old id, else an error with the text `lost`."""
    available = [result for message in after for result in message.tool_results]
    chosen: list[ToolResult] = []
    for call, new_call in zip(calls, renamed, strict=True):
        result = next((r for r in available if r.call_id == call.id), None)
        if result is None:
            chosen.append(ToolResult(new_call.id, (Text(lost),), is_error=True))
            continue
        available.remove(result)
        is_same_id = new_call.id == call.id
        chosen.append(result if is_same_id else replace(result, call_id=new_call.id))
    return tuple(chosen)


def _leads(message: Message) -> bool:
    """True if the message is the user's and its tool results come before anything else."""
    count = len(message.tool_results)
    return message.role == "user" and all(
        isinstance(block, ToolResult) for block in message.blocks[:count]
    )


def _is_empty(blocks: Sequence[Block]) -> bool:
    return all(isinstance(block, Text) and not block.text.strip() for block in blocks)


def task_index(messages: Sequence[Message]) -> int:
    """The index of the current turn's first message: the last one with text by the user."""
    for index in range(len(messages) - 1, -1, -1):
        if _has_task(messages[index]):
            return index
    raise ValueError("the conversation has no task")


def _has_task(message: Message) -> bool:
    return message.role == "user" and any(isinstance(b, Text) for b in message.blocks)


def awaiting_approval(messages: Sequence[Message], call_id: str) -> list[Message]:
    """The conversation as it is to be read if the kernel ends during a question about a call.

    That call and those after it have a result which says that they did not run. The calls before
    it have run; their results follow with those of the whole step.
    """
    calls = [call.id for call in messages[-1].tool_calls] if messages else []
    if call_id not in calls:
        return list(messages)
    waiting = calls[calls.index(call_id) :]
    results = (ToolResult(each, (Text(NEVER_ANSWERED),), is_error=True) for each in waiting)
    return [*messages, Message("user", tuple(results))]


def without_last_tasks(
    messages: Sequence[Message], number: int
) -> tuple[list[Message], list[Message]]:
    """The conversation before its last so many tasks, and the messages from there on."""
    start = len(messages)
    for _ in range(number):
        if not any(_has_task(message) for message in messages[:start]):
            break
        start = task_index(messages[:start])
    return list(messages[:start]), list(messages[start:])


def unanswered(messages: Sequence[Message], but: Iterable[str]) -> list[Context]:
    """The texts of turns without a reply, for the message of the task that replaces them.

    Args:
        messages: The messages of those turns.
        but: Texts to leave out: the task that is asked now, if it is the same one again.

    Returns:
        The last few tasks, each marked with `NO_REPLY`; then the other texts that the session
        gave with them, apart from what each message says anew: the kernel's state and the rules.
    """
    skipped = {text.strip() for text in but}
    asked: dict[str, None] = {}
    given: dict[str, None] = {}
    for block in (block for message in messages for block in message.blocks):
        if isinstance(block, Context) and not block.text.startswith(NO_REPLY):
            if not block.text.startswith(("<context>", "<rules ", INTERRUPTED_NOTE)):
                given[block.text] = None
        elif isinstance(block, (Text, Said, Context)):
            text = block.text.removeprefix(NO_REPLY).strip()
            asked.pop(text, None)
            asked[text] = None
    last = [text for text in asked if text and text not in skipped][-_MOST_UNANSWERED:]
    return [*(Context(NO_REPLY + text) for text in last), *map(Context, given)]


def turn_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages of the current turn."""
    return messages[task_index(messages) :]


class TextLength:
    """Counts the characters of a history. A message that was counted before is not read again."""

    def __init__(self) -> None:
        self._characters = 0
        self._counted: list[Message] = []

    def of(self, history: Sequence[Message]) -> int:
        """The number of characters of all texts, without pictures.

        Counts everything again if the history no longer begins with the counted messages, as
        after a compaction.
        """
        counted = len(self._counted)
        # Compares identities, in C: nothing beside the sending of a request.
        if list(history[:counted]) != self._counted:
            counted = self._characters = 0
            self._counted.clear()
        for message in history[counted:]:
            self._characters += sum(map(_length, message.blocks))
            self._counted.append(message)
        return self._characters


def _length(block: Block) -> int:
    if isinstance(block, ToolResult):
        return len(block.text)
    if isinstance(block, ToolCall):
        return len(block.name) + len(block.arguments)
    return len(getattr(block, "text", ""))
