"""Everything that a turn emits. An event is an immutable value without time or sequence number.

A start and its finish are joined by the tool call's id. Whoever needs a clock (the run log, a
live view) adds it, so that tests compare events as values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jupyter_agent.messages import Message, Output, ToolCall, ToolResult, Usage

TurnStop = Literal["end", "step_limit", "budget", "stuck", "interrupted", "refused", "error"]
ReplyStop = Literal["end", "tool_use", "max_tokens", "refused"]
ReplySource = Literal["live", "recorded", "scripted"]
ApprovalAnswer = Literal["yes", "no", "always"]
Decider = Literal["person", "time_out", "nobody"]


@dataclass(frozen=True, slots=True)
class VariableChange:
    """What a turn did to a variable: `changed` is bound to another object, `mutated` in place.

    `summary` says what the object is, for instance `DataFrame, 344 rows × 8 columns`.
    """

    name: str
    kind: Literal["added", "changed", "mutated", "deleted"]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class FileChange:
    """`path` is relative to the workspace, with forward slashes."""

    path: str
    kind: Literal["created", "changed"]
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """What was saved for later sessions. `path` is the file that has it, as tools show it."""

    kind: Literal["note", "decision", "lesson"]
    title: str
    path: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a turn changed. `proposals` counts what it offers in the cell below."""

    variables: tuple[VariableChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    proposals: int = 0
    saved: tuple[Kept, ...] = ()


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
    replayed, since another computer has other servers.
    """

    text: str
    lasting: bool = True
    type: Literal["noticed"] = "noticed"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """`number` counts from 1; `limit` is the turn's `max_steps`."""

    number: int
    limit: int
    type: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
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
    """The conversation was shortened. `before` and `after` are about how many tokens it had."""

    before: int
    after: int
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
