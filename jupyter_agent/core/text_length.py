"""Counts the text of a growing conversation, each message once."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.core.messages import Block, Message, ToolCall, ToolResult


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
