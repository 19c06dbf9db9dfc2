"""Everything that a turn emits. An event is an immutable value without time or sequence number.

A start and its finish are joined by the tool call's id. Whoever needs a clock (the run log, a
live view) adds it, so that tests compare events as values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal

from jupyter_agent.core.messages import Message, Output, ToolCall, ToolResult, Usage

TurnStop = Literal["end", "step_limit", "budget", "stuck", "interrupted", "refused", "error"]
ReplyStop = Literal["end", "tool_use", "max_tokens", "refused"]
ReplySource = Literal["live", "recorded", "scripted"]
ApprovalAnswer = Literal["yes", "no", "always"]
Decider = Literal["person", "time_out", "nobody"]
SeenIn = Literal["output", "task", "variable", "earlier", "code", "computed"]
"""Where a number was seen: what a call gave back, what the person asked, the description of a
variable, an output of an earlier turn, the code that ran; or computed from numbers beside it."""


@dataclass(frozen=True, slots=True)
class VariableChange:
    """What a turn did to a variable: `changed` is bound to another object, `mutated` in place.

    `summary` says what the object is, for instance `DataFrame, 344 rows × 8 columns`; `type_name`
    and `shape` say it for programs. The shape of a container is its length, of a number it is ().
    """

    name: str
    kind: Literal["added", "changed", "mutated", "deleted"]
    summary: str = ""
    type_name: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """`path` is relative to the workspace, with forward slashes."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """What was saved for later sessions. `path` is the file that has it, as tools show it."""

    kind: Literal["note", "decision", "lesson"]
    title: str
    path: str


@dataclass(frozen=True, slots=True)
class Grounded:
    """A number in a turn's answer, and where it was seen before; `seen` is None where nowhere.

    Args:
        text: The number as the answer gives it, with its sign and its unit.
        start: Where it begins in the answer.
        end: Where it ends there.
        value: What it says.
        seen: The kind of the source in which it was found.
        step: The step of that source; 0 where it belongs to none.
        call_id: The tool call of that source.
    """

    text: str
    start: int
    end: int
    value: Decimal
    seen: SeenIn | None = None
    step: int = 0
    call_id: str = ""

    def as_json(self) -> dict[str, Any]:
        """The number, and where it was seen, without the call's id, which providers make up."""
        number = float(self.value)
        value = number if math.isfinite(number) else str(self.value)
        return {"text": self.text, "value": value, "seen": self.seen, "step": self.step or None}


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a turn changed, what it said in numbers, and what it took.

    Args:
        variables: What happened to the person's variables.
        files: What happened to files in the workspace.
        proposals: How many cells it offers in the cell below.
        saved: Notes and memory that were saved, each in a few words.
        numbers: The numbers of the answer, in order.
        steps: How many steps it had.
        usage: The tokens of its model calls.
        cost: Their price in US dollars; None where it is not known, or nothing was paid.
        seconds: How long the turn took; None where that says nothing, as in a replay.
    """

    variables: tuple[VariableChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    proposals: int = 0
    saved: tuple[SavedMemory, ...] = ()
    numbers: tuple[Grounded, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    cost: Decimal | None = None
    seconds: float | None = None

    @property
    def ungrounded(self) -> tuple[Grounded, ...]:
        """The numbers of the answer that were seen nowhere."""
        return tuple(number for number in self.numbers if number.seen is None)

    def as_json(self) -> dict[str, Any]:
        """Everything that is the same in each replay of the turn. `volatile` has the rest."""
        return {
            "variables": [asdict(change) | {"shape": [*change.shape]} for change in self.variables],
            "files": [asdict(change) for change in self.files],
            "proposals": self.proposals,
            "saved": [asdict(kept) for kept in self.saved],
            "numbers": [number.as_json() for number in self.numbers],
            "ungrounded": [number.text for number in self.ungrounded],
            "steps": self.steps,
            "usage": asdict(self.usage),
        }

    def volatile(self) -> dict[str, float]:
        """Seconds and cost, as far as they are known: they differ from run to run."""
        known: dict[str, float] = {}
        if self.seconds is not None:
            known["seconds"] = round(self.seconds, 3)
        if self.cost is not None:
            known["cost_usd"] = float(self.cost)
        return known


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """`source` says where the replies come from: a model, or a cassette and how it was made."""

    task: str
    provider: str
    model: str
    source: ReplySource = "live"
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True)
class Noticed:
    """What the person should know of the session's surroundings: a server that failed.

    `lasting` says whether it belongs into the saved form: not where a recording is made or
    replayed, since another computer has other servers. `in_sight` says that it stands beside the
    folded transcript and not in it.
    """

    text: str
    lasting: bool = True
    in_sight: bool = False
    type: Literal["noticed"] = "noticed"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """`number` counts from 1; `limit` is the turn's `max_steps`."""

    number: int
    limit: int
    type: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True)
class Requested:
    """A model call goes out: how much it sends, not what.

    `characters` counts the text of the messages where somebody kept count, `attempt` from 1.
    """

    model: str
    messages: int
    tools: int
    characters: int = 0
    attempt: int = 1
    type: Literal["requested"] = "requested"


@dataclass(frozen=True, slots=True)
class Preparing:
    """What has to be done before the model can answer: its weights are fetched, it is loaded.

    `text` takes the place of the last one. It passes: no saved form has it.
    """

    text: str
    type: Literal["preparing"] = "preparing"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Words of the reply, as they come."""

    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Words of the model's reasoning, as they come."""

    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(frozen=True, slots=True)
class MessageFinished:
    """A model's whole reply: the last thing that a provider's stream yields."""

    message: Message
    usage: Usage
    stop_reason: ReplyStop
    type: Literal["message_finished"] = "message_finished"


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins."""

    call: ToolCall
    type: Literal["tool_started"] = "tool_started"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a running call has printed since the last such event; `latest` is a passing line.

    It is a look ahead for who is watching: the whole is in the result.
    """

    call_id: str
    text: str = ""
    latest: str = ""
    type: Literal["tool_output"] = "tool_output"


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for the person. `reasons` say why it is asked, line by line.

    `always` names what "always in this session" would cover, `preview` shows what the call would
    do where its arguments do not say it (a diff).
    """

    call_id: str
    question: str
    reasons: tuple[str, ...] = ()
    always: str = ""
    preview: tuple[Output, ...] = ()
    type: Literal["approval_asked"] = "approval_asked"


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """`by` says who decided: nobody, where nobody could be asked. `reason` is the person's."""

    call_id: str
    answer: ApprovalAnswer
    by: Decider = "person"
    reason: str = ""
    type: Literal["approval_answered"] = "approval_answered"


@dataclass(frozen=True, slots=True)
class Steered:
    """What the person typed while the turn ran is now before the model."""

    text: str
    type: Literal["steered"] = "steered"


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has its result, after so many seconds."""

    result: ToolResult
    seconds: float
    type: Literal["tool_finished"] = "tool_finished"


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model call failed and is tried again; what it had streamed so far is void.

    `attempt` counts the failures so far, `delay` is the wait in seconds.
    """

    reason: str
    attempt: int
    delay: float
    type: Literal["retrying"] = "retrying"


@dataclass(frozen=True, slots=True)
class Advised:
    """The loop told the model something: that it goes in circles, or that a lesson is due."""

    text: str
    type: Literal["advised"] = "advised"


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was shortened. `before` and `after` are about how many tokens it had.

    `dropped` says in sentences what is no longer in it, and where that is kept.
    """

    before: int
    after: int
    dropped: tuple[str, ...] = ()
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """`error` is the one line that says why the turn ended, where it was not with an answer."""

    stop_reason: TurnStop
    usage: Usage
    receipt: Receipt = Receipt()
    error: str = ""
    type: Literal["turn_finished"] = "turn_finished"


Event = (
    TurnStarted
    | Noticed
    | StepStarted
    | Requested
    | Preparing
    | TextDelta
    | ThinkingDelta
    | MessageFinished
    | ToolStarted
    | ToolOutput
    | ApprovalAsked
    | ApprovalAnswered
    | Steered
    | ToolFinished
    | Retrying
    | Advised
    | Compacted
    | TurnFinished
)

Sink = Callable[[Event], None]
"""Takes a turn's events. One with a true attribute `lasting_only` gets none of `PASSING`."""
PASSING = (Preparing, TextDelta, ThinkingDelta, ToolOutput)
"""Pieces of what a later event says as a whole: most of a turn's events, for those who watch it."""
