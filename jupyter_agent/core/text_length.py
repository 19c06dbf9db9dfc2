"""How much text a conversation has, counted as it grows."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.core.messages import Block, Message, ToolCall, ToolResult


class TextLength:
    """Counts the characters of a history that is mostly only added to, each message once."""

    def __init__(self) -> None:
        self._characters = 0
        self._counted: list[Message] = []

    def of(self, history: Sequence[Message]) -> int:
        """The characters of all texts, without pictures.

        Where it is no longer the history that was counted, since it was shortened, all is counted.
        """
        known = len(self._counted)
        # Compares identities, in C: nothing beside the sending of a request.
        if list(history[:known]) != self._counted:
            known = self._characters = 0
            self._counted.clear()
        for message in history[known:]:
            self._characters += sum(map(_length, message.blocks))
            self._counted.append(message)
        return self._characters


def _length(block: Block) -> int:
    if isinstance(block, ToolResult):
        return len(block.text)
    if isinstance(block, ToolCall):
        return len(block.name) + len(block.arguments)
    return len(getattr(block, "text", ""))
