"""What a cassette holds: the recorded calls of a notebook, turn by turn."""

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
    """What the person decided about one call of a reply; `call` counts from 0.

    `always` is what "always" would have covered: the model reads it in a refusal.
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
    """What a tool said that it may not say again: of files, notes, and what is on a server.

    Args:
        tool: The tool's name.
        arguments: The digest of its arguments.
        text: What the model read.
        blocks: The same where it is more than one text.
        is_error: Whether the tool failed.
        display: What the person saw.
        details: What the log was told.
        path: The file, relative to the workspace; empty for what is no file.
        before: The digest of the file before the call; empty where there was none.
        after: The same after it.
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
        """Whether an MCP server said it."""
        return is_served(self.tool)


@dataclass(frozen=True, slots=True)
class FileState:
    """What a recorded turn did to a file; `same`: wrote it anew, and nothing in it differed.

    `digest` is that of the file as the turn left it; empty where there is none, or it is large.
    """

    path: str
    kind: Literal["created", "changed", "deleted", "same"]
    lines_added: int = 0
    lines_removed: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PromptFingerprint:
    """Digests of what the model was told around a turn. It may change; that is worth a word.

    `tokens` is what it counts for, so that a replay shortens the conversation where the recording
    did: with other tools, or none of the servers, the room would be another. 0: not known.
    """

    system: str
    tools: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded model call. `source` is the cassette's where it is None.

    `said` is what the person typed before the call, `decisions` what they decided after it,
    `said_after` what they typed too late for any further call. `told` is set on the first call of
    a turn, `files` on its last one. `schemas` are those of the MCP tools that the reply calls.
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
        """The cassette with a turn recorded again, or added.

        A turn of the same conversation is replaced, otherwise one with the same task, but none
        that this session has recorded itself (`written` lists their conversations): a notebook
        may give the same task twice.
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
