"""Cuts a conversation that the provider refuses as too long, without a model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jupyter_agent.core.messages import Block, Image, Message, Text, ToolResult
from jupyter_agent.core.plaintext import shorten

KEPT_ROUNDS = 2
"""Rounds of calls and results at the end whose results stay as they are, if that is enough."""
_SHORT = 400
"""Characters that are left of an older result."""
_HARD = 4_000
"""Characters kept of any result, if cuts of the older ones do not suffice."""
_LASTING = "get_skill"
"""The tool whose results are instructions to go on by: they are cut last."""


def shortened(history: Sequence[Message]) -> list[Message] | None:
    """The conversation with shorter tool results; None if that gains nothing.

    First the long results of older rounds lose their middle and their pictures, next those of the
    last rounds their text beyond a generous limit, finally the loaded skills. Calls and the user's
    text stay unchanged.
    """
    rounds = [index for index, message in enumerate(history) if message.tool_results]
    old = set(rounds[:-KEPT_ROUNDS])
    skills = frozenset(c.id for m in history for c in m.tool_calls if c.name == _LASTING)
    first = [_cut(m, _SHORT, skills) if i in old else m for i, m in enumerate(history)]
    second = [_cut(message, _HARD, skills) for message in first]
    for fewer in (first, second):
        if _size(fewer) <= 0.8 * _size(history):
            return fewer
    third = [_cut(message, _HARD) for message in second]
    return third if _size(third) < _size(history) else None


def about_tokens(history: Sequence[Message]) -> int:
    """The approximate tokens of a conversation, by a rule of thumb."""
    return _size(history) // 4


def _cut(message: Message, limit: int, kept: frozenset[str] = frozenset()) -> Message:
    if not message.tool_results:
        return message
    blocks = tuple(
        _cut_result(block, limit)
        if isinstance(block, ToolResult) and block.call_id not in kept
        else block
        for block in message.blocks
    )
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _cut_result(result: ToolResult, limit: int) -> ToolResult:
    content = tuple(_cut_block(block, limit) for block in result.content)
    return result if content == result.content else replace(result, content=content)


def _cut_block(block: Text | Image, limit: int) -> Text:
    if isinstance(block, Image):
        return Text("(a picture that was left out to save space)")
    return block if len(block.text) <= limit else Text(shorten(block.text, limit))


def _size(history: Sequence[Message]) -> int:
    return sum(_block_size(block) for message in history for block in message.blocks)


def _block_size(block: Block) -> int:
    if isinstance(block, ToolResult):
        return sum(_block_size(inner) for inner in block.content)
    if isinstance(block, Image):
        return 4_000  # about a thousand tokens, whatever its bytes
    return len(getattr(block, "text", "") or getattr(block, "arguments", ""))
