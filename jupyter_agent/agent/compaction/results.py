"""Replaces long texts by a short form that names the file with the full text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from jupyter_agent.agent.compaction.offload import Keep
from jupyter_agent.agent.compaction.record import excerpt
from jupyter_agent.agent.compaction.rounds import is_ours, persons
from jupyter_agent.core.messages import Block, Context, Image, Message, Said, Text, ToolResult
from jupyter_agent.core.plaintext import shorten
from jupyter_agent.llm.tokens import TokenCounter

LONG = 1_500
"""Characters from which an old result is long."""
EXCERPT = 600
"""Characters of a result that stay in its placeholder."""
HARD = 4_000
"""Characters kept of a result of the last steps, if nothing else suffices."""
WORDS = (600, 150)
"""Characters kept of the user's old text: the first number, or the second if that is too long."""
_MOVED = "[Moved out of the conversation: "
_CUT = "[Cut: "
_PICTURE = "(a picture that was left out to save space)"


@dataclass
class Draft:
    """A conversation while it is being shortened.

    Attributes:
        tokens: The tokens of the messages.
        files: The paths of the new files by their names, in order.
        results: The ids of the calls whose results were shortened.
        said: The indices of the user's messages that were shortened.
    """

    messages: list[Message]
    counter: TokenCounter
    keep: Keep | None
    tokens: int
    files: dict[str, str] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)
    said: set[int] = field(default_factory=set)

    def put(self, index: int, message: Message) -> bool:
        """Replace a message if that makes the conversation shorter. Returns True if it does."""
        gain = self.counter.message(self.messages[index]) - self.counter.message(message)
        if gain <= 0:
            return False
        self.messages[index] = message
        self.tokens -= gain
        return True

    def kept(self, text: str, name: str) -> str:
        """Store a text; returns words for its place."""
        path = self.keep(text, name) if self.keep else ""
        if path:
            self.files[name] = path
        return f"the whole is in {path}" if path else "the whole could not be kept in a file"


def move_old_results(draft: Draft, stop: int, target: int) -> None:
    """Replace long results before the message `stop` by placeholders, oldest first."""
    for index in range(stop):
        if draft.tokens <= target:
            return
        _shorten(draft, index, draft.messages[index], _placeholder)


def cut_last_results(draft: Draft, target: int) -> None:
    """Cut all results that are still long, the largest first: the last resort.

    The results that the model has not read yet come last.
    """
    whole = list(draft.messages)
    largest = sorted(range(len(whole)), key=lambda index: -draft.counter.message(whole[index]))
    replies = (index for index, message in enumerate(whole) if message.role == "assistant")
    last = max(replies, default=-1)
    read = [index for index in largest if index <= last]
    unread = [index for index in largest if index > last]
    for part in (read, unread):
        for short in (_cut, _placeholder):
            for index in part:
                if draft.tokens <= target:
                    return
                _shorten(draft, index, whole[index], short)


_Short = Callable[[Draft, ToolResult], ToolResult]


def _shorten(draft: Draft, index: int, message: Message, short: _Short) -> None:
    long = [r for r in message.tool_results if _is_long(r) or _has_pictures(r)]
    if not long:
        return
    new = {id(result): short(draft, result) for result in long}
    blocks = tuple(new.get(id(block), block) for block in message.blocks)
    if draft.put(index, replace(message, blocks=blocks)):
        draft.results.update(result.call_id for result in long if _is_long(result))


def _is_long(result: ToolResult) -> bool:
    """True if a result is long enough for a placeholder, and is none yet."""
    return len(result.text) > LONG and not result.text.startswith(_MOVED)


def _has_pictures(result: ToolResult) -> bool:
    return any(isinstance(block, Image) for block in result.content)


def _placeholder(draft: Draft, result: ToolResult) -> ToolResult:
    if not _is_long(result):
        return replace(result, content=_without_pictures(result.content))
    text = result.text
    # A result that was cut before has its full text in a file of the call's name.
    name = f"{result.call_id}_cut" if text.startswith(_CUT) else result.call_id
    where = draft.kept(text, name)
    words = f"{_MOVED}{len(text):,} characters; {where}. From it:]\n{excerpt(text, EXCERPT)}"
    pictures = _without_pictures(block for block in result.content if isinstance(block, Image))
    return replace(result, content=(Text(words), *pictures))


def _cut(draft: Draft, result: ToolResult) -> ToolResult:
    text = result.text
    if len(text) <= HARD + LONG or text.startswith(_CUT):
        return replace(result, content=_without_pictures(result.content))
    where = draft.kept(text, result.call_id)
    words = f"{_CUT}{len(text):,} characters; {where}.]\n{shorten(text, HARD)}"
    pictures = _without_pictures(block for block in result.content if isinstance(block, Image))
    return replace(result, content=(Text(words), *pictures))


def _without_pictures(content: Iterable[Text | Image]) -> tuple[Text, ...]:
    return tuple(Text(_PICTURE) if isinstance(block, Image) else block for block in content)


def shorten_words(draft: Draft, stop: int, target: int) -> None:
    """Cut the user's text before the message `stop`, oldest first."""
    whole = draft.messages[:stop]
    for limit in WORDS:
        for index, message in enumerate(whole):
            if draft.tokens <= target:
                return
            if message.role != "user" or is_ours(message) or not persons(message):
                continue
            blocks = tuple(_shorter(draft, block, limit) for block in message.blocks)
            if draft.put(index, replace(message, blocks=blocks)):
                draft.said.add(index)


def _shorter(draft: Draft, block: Block, limit: int) -> Block:
    match block:
        case Image():
            return Text(_PICTURE)
        case Context() if len(block.text) > limit:
            return Context(shorten(block.text, limit))
        case Text() | Said() if len(block.text) > limit + 200:
            # Named by its content, since indices change: no other text may replace this file.
            name = f"said_{sha256(block.text.encode()).hexdigest()[:12]}"
            return replace(block, text=shorten(block.text, limit, draft.kept(block.text, name)))
    return block
