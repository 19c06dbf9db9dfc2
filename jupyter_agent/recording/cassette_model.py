"""The content of a cassette: the recorded calls of a notebook, turn by turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from jupyter_agent.core.events import ApprovalAnswer, Decider, MessageFinished
from jupyter_agent.core.messages import Image, JsonObject, Output, Text, is_served
from jupyter_agent.recording.digests import Item

Source = Literal["recorded", "scripted"]
SOURCES = ("recorded", "scripted")


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision about one call of a reply; `call` counts from 0.

    `always` names the calls that "always" would have covered: the model reads it in a refusal.
    """

    call: int
    question: str
    reasons: tuple[str, ...]
    answer: ApprovalAnswer
    by: Decider
    reason: str = ""
    always: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A tool result that a second run may not give again: about files, notes, or by a server.

    Args:
        tool: The tool's name.
        arguments: The digest of its arguments.
        text: The result's text for the model.
        blocks: The result for the model if it is more than one text.
        is_error: True if the tool failed.
        display: The outputs for the user.
        details: The details for the log.
        path: The file, relative to the workspace; empty if the call names none.
        before: The digest of the file before the call; empty if it did not exist.
        after: The digest of the file after the call; empty if it did not exist.
    """

    tool: str
    arguments: str
    text: str = ""
    blocks: tuple[Text | Image, ...] = ()
    is_error: bool = False
    display: tuple[Output, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    before: str = ""
    after: str = ""

    @property
    def is_served(self) -> bool:
        """True if the result is an MCP server's."""
        return is_served(self.tool)


@dataclass(frozen=True, slots=True)
class FileState:
    """A recorded turn's change of a file; the kind `same`: it was rewritten with equal content.

    `digest` is the file's digest after the turn; empty if it does not exist, or is large.
    """

    path: str
    kind: Literal["created", "changed", "deleted", "same"]
    lines_added: int = 0
    lines_removed: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PromptFingerprint:
    """Digests of a turn's system prompt and tools. A replay with others shows a notice.

    `tokens` is their number of tokens, so that a replay shortens the conversation at the same
    place as the recording, even with other tools or without the servers. 0: unknown.
    """

    system: str
    tools: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded model call. `source` is the cassette's where it is None.

    `said` holds the user's lines before the call, `decisions` the user's decisions after it,
    `said_after` lines typed too late for any further call. `told` (digests of the prompt) is set on
    the first call of a turn, `files` on its last one. `schemas` are those of the MCP tools that the
    reply calls.
    """

    conversation: str
    turn: str
    step: int
    asked: tuple[Item, ...]
    reply: MessageFinished
    source: Source | None = None
    said: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    said_after: tuple[str, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    files: tuple[FileState, ...] = ()
    told: PromptFingerprint | None = None
    schemas: Mapping[str, JsonObject] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cassette:
    """All recorded calls of a notebook, grouped by turn in the order of the notebook."""

    provider: str
    model: str
    source: Source
    turns: tuple[tuple[RecordedCall, ...], ...] = field(default=())

    @property
    def replies(self) -> int:
        return sum(len(turn) for turn in self.turns)

    def with_turn(self, turn: tuple[RecordedCall, ...], written: Collection[str]) -> Cassette:
        """The cassette with a turn replaced or added.

        Replaces the turn of the same conversation, else one with the same task, but never one
        that this session has recorded itself (`written` lists their conversations): a notebook
        may contain the same task twice.
        """
        index = self._place(turn[0], written)
        if index is None:
            return replace(self, turns=(*self.turns, turn))
        return replace(self, turns=(*self.turns[:index], turn, *self.turns[index + 1 :]))

    def _place(self, first: RecordedCall, written: Collection[str]) -> int | None:
        times = sum(conversation == first.conversation for conversation in written)
        same = [i for i, t in enumerate(self.turns) if t[0].conversation == first.conversation]
        if len(same) > times:
            return same[times]
        for index, turn in enumerate(self.turns):
            if turn[0].turn == first.turn and turn[0].conversation not in written:
                return index
        return None
