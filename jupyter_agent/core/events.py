"""The events of a turn. An event is an immutable value without time or sequence number.

The tool call's id joins a start to its finish. A sink that needs a clock (the run log, a live
view) adds the time itself, so that tests compare events as values.
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
Decider = Literal["person", "time_out", "no_answer", "stopped", "nobody", "plan", "vote", "verify"]
"""Who decided: the person; nobody within the time-out; nobody, as empty lines were no answer;
nobody, as the turn was stopped at the question; nobody, as nobody could be asked; the rule that a
turn which plans, compares attempts, or checks an answer, changes nothing."""
VERIFY = "verify:answer"
"""The `call_id` of the events of a delegate that checks the turn's answer: it works for no call."""
SeenIn = Literal["output", "task", "variable", "earlier", "code", "computed", "weak"]
"""The source of a number: a call's result, the task, the description of a variable, an output of an
earlier turn, the code that ran; or a computation from numbers beside it. `weak` is a place that
says nothing about it, such as a counter: nearly any number would have been found there."""


@dataclass(frozen=True, slots=True)
class VariableChange:
    """A change of a variable: `changed` is a new binding, `mutated` a change in place.

    `summary` describes the object, for instance `DataFrame, 344 rows × 8 columns`; `type_name`
    and `shape` do so for programs. The shape of a container is its length, of a number it is ().
    """

    name: str
    kind: Literal["added", "changed", "mutated", "deleted"]
    summary: str = ""
    type_name: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file. `path` is relative to the workspace, with forward slashes."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class CellChange:
    """An edit of a cell of the open notebook. `title` names it: "Change cell 3"."""

    title: str
    kind: Literal["change", "insert", "delete", "move"]
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A note or memory saved for later sessions. `path` is its file, as tools show it."""

    kind: Literal["note", "decision", "lesson"]
    title: str
    path: str


@dataclass(frozen=True, slots=True)
class Grounded:
    """A number in a turn's answer, and the source where it was seen.

    Args:
        text: The number as the answer writes it, with its sign and its unit.
        start: Its first character in the answer.
        end: The character after its last one.
        value: Its numeric value.
        seen: The kind of the source in which it was found; None if it was found in none.
        step: The step of that source; 0 if it belongs to none.
        call_id: The tool call of that source.
        varies: True if the source shows another number in each run.
        only: For a weak one the place in words: "among 300 consecutive numbers".
    """

    text: str
    start: int
    end: int
    value: Decimal
    seen: SeenIn | None = None
    step: int = 0
    call_id: str = ""
    varies: bool = False
    only: str = ""

    def as_json(self) -> dict[str, Any]:
        """The number and its source, without the call's id, which providers make up."""
        number = float(self.value)
        value = number if math.isfinite(number) else str(self.value)
        found = {"text": self.text, "value": value, "seen": self.seen, "step": self.step or None}
        more = {"only": self.only} if self.only else {}
        return {**found, **more, "varies": True} if self.varies else {**found, **more}


@dataclass(frozen=True, slots=True)
class Receipt:
    """The changes of a turn, the numbers of its answer, and its cost.

    Args:
        variables: The changes of the user's variables.
        files: The changes of files in the workspace.
        cells: The edits of the open notebook.
        proposals: The number of cells that it offers in the cell below.
        saved: Saved notes and memory, each in a few words.
        numbers: The numbers of the answer, in order.
        steps: The number of steps.
        usage: The tokens of its model calls.
        cost: Their price in US dollars; None if it is unknown or nothing was paid.
        seconds: The duration of the turn; None if it means nothing, as in a replay.
        restored: Variables that its code had rebound, though the task only reads them: they are
            bound to the user's objects again.
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
    cells: tuple[CellChange, ...] = ()
    restored: tuple[str, ...] = ()

    @property
    def ungrounded(self) -> tuple[Grounded, ...]:
        """The numbers of the answer that were seen nowhere."""
        return tuple(number for number in self.numbers if number.seen is None)

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        from jupyter_agent.core.receipts import receipt_bundle

        return receipt_bundle(self)

    def as_json(self) -> dict[str, Any]:
        """The fields that are the same in each replay of the turn. `volatile` has the others."""
        # Saved outputs of before have none of these.
        later: dict[str, Any] = {}
        if self.cells:
            later["cells"] = [asdict(change) for change in self.cells]
        if self.restored:
            later["restored"] = [*self.restored]
        return {
            "variables": [asdict(change) | {"shape": [*change.shape]} for change in self.variables],
            "files": [asdict(change) for change in self.files],
            **later,
            "proposals": self.proposals,
            "saved": [asdict(kept) for kept in self.saved],
            "numbers": [number.as_json() for number in self.numbers],
            "ungrounded": [number.text for number in self.ungrounded],
            "steps": self.steps,
            "usage": asdict(self.usage),
        }

    def volatile(self) -> dict[str, float]:
        """Seconds and cost, if they are known: they differ from run to run."""
        values: dict[str, float] = {}
        if self.seconds is not None:
            values["seconds"] = round(self.seconds, 3)
        if self.cost is not None:
            values["cost_usd"] = float(self.cost)
        return values


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn begins. `source` names the origin of its replies: a model, or a kind of cassette."""

    task: str
    provider: str
    model: str
    source: ReplySource = "live"
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True)
class Noticed:
    """A message for the user about the session's surroundings, for instance a failed server.

    `lasting` is True if the saved form includes it: not in a recording or a replay, since another
    computer has other servers. `in_sight` places it beside the folded transcript, not inside.
    """

    text: str
    lasting: bool = True
    in_sight: bool = False
    type: Literal["noticed"] = "noticed"


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt of a turn with several begins. `number` counts from 1; `total` is how many there
    are to be. The numbers of steps go on from the attempt before."""

    number: int
    total: int
    type: Literal["attempt_started"] = "attempt_started"


@dataclass(frozen=True, slots=True)
class Voted:
    """The attempts of a turn were compared: what follows is about one of them alone.

    Args:
        attempt: The number of the attempt whose result is taken.
        text: How the attempts differ, for the user.
        values: The value of each attempt in short; empty for one without success.
    """

    attempt: int
    text: str
    values: tuple[str, ...] = ()
    type: Literal["voted"] = "voted"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step begins. `number` counts from 1; `limit` is the turn's `max_steps`."""

    number: int
    limit: int
    type: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True)
class Requested:
    """A model call goes out: its size, without its content.

    `characters` is the length of the messages' text if the caller counted it; `attempt` counts
    from 1.
    """

    model: str
    messages: int
    tools: int
    characters: int = 0
    attempt: int = 1
    type: Literal["requested"] = "requested"


@dataclass(frozen=True, slots=True)
class Preparing:
    """Progress before the model can answer: its weights are fetched, it is loaded.

    `text` replaces that of the event before. It is temporary: no saved form includes it.
    """

    text: str
    type: Literal["preparing"] = "preparing"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text, as it arrives."""

    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning, as it arrives."""

    text: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(frozen=True, slots=True)
class MessageFinished:
    """A model's whole reply: the last thing that a provider's stream yields.

    `model_calls` is how often the model was asked for it: 0 if the protocol gave the reply itself.
    """

    message: Message
    usage: Usage
    stop_reason: ReplyStop
    model_calls: int = 1
    type: Literal["message_finished"] = "message_finished"


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins."""

    call: ToolCall
    type: Literal["tool_started"] = "tool_started"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Text that a running call printed since the last `ToolOutput`; `latest` is a temporary line.

    It is a preview for the live view: the result has the whole output.
    """

    call_id: str
    text: str = ""
    latest: str = ""
    type: Literal["tool_output"] = "tool_output"


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for the user's decision. `reasons` explain the question, line by line.

    `always` names the calls that "always in this session" would cover, `preview` shows the
    call's effect if its arguments do not (a diff). `effect` is the kind of a side effect that is
    asked about while the call's code runs; empty for the question whether the call may run.
    `by_part` is True if each output of the preview may be rejected alone.
    """

    call_id: str
    question: str
    reasons: tuple[str, ...] = ()
    always: str = ""
    preview: tuple[Output, ...] = ()
    effect: str = ""
    by_part: bool = False
    type: Literal["approval_asked"] = "approval_asked"


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """A decision about a call. `by` names who decided: nobody, if nobody could be asked.

    `reason` is the user's own text. `rejected` numbers the parts, from 0, that a yes leaves out.
    """

    call_id: str
    answer: ApprovalAnswer
    by: Decider = "person"
    reason: str = ""
    rejected: tuple[int, ...] = ()
    type: Literal["approval_answered"] = "approval_answered"


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A call of `ask_user` waits for the user's answer in words: one of `choices`, or any other."""

    call_id: str
    question: str
    choices: tuple[str, ...] = ()
    type: Literal["question_asked"] = "question_asked"


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """The user's answer to a call of `ask_user`. `text` is empty unless `by` is the person."""

    call_id: str
    text: str = ""
    by: Decider = "person"
    type: Literal["question_answered"] = "question_answered"


@dataclass(frozen=True, slots=True)
class EffectDecided:
    """A decision about a side effect of running code: whether it happened.

    `what` names the side effect: "deletes data.csv". `by` names who decided.
    """

    call_id: str
    what: str
    answer: ApprovalAnswer
    by: Decider = "person"
    type: Literal["effect_decided"] = "effect_decided"


@dataclass(frozen=True, slots=True)
class Steered:
    """A line that the user typed during the turn goes to the model."""

    text: str
    type: Literal["steered"] = "steered"


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has its result; `seconds` is its duration."""

    result: ToolResult
    seconds: float
    type: Literal["tool_finished"] = "tool_finished"


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model call failed and is tried again; the text that it streamed is void.

    `attempt` counts the failures so far, `delay` is the wait in seconds.
    """

    reason: str
    attempt: int
    delay: float
    type: Literal["retrying"] = "retrying"


@dataclass(frozen=True, slots=True)
class Advised:
    """The loop sent the model an advice: that it repeats itself, or that a lesson is due."""

    text: str
    type: Literal["advised"] = "advised"


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was shortened. `before` and `after` are its approximate tokens.

    `dropped` names in sentences the parts that were removed, and where they are kept.
    """

    before: int
    after: int
    dropped: tuple[str, ...] = ()
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True)
class Delegated:
    """An event of a delegate's own conversation. `call_id` is the call that it works for."""

    call_id: str
    event: Event
    type: Literal["delegated"] = "delegated"


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn is over. `error` is the reason in one line if it ended without an answer."""

    stop_reason: TurnStop
    usage: Usage
    receipt: Receipt = Receipt()
    error: str = ""
    type: Literal["turn_finished"] = "turn_finished"


Event = (
    TurnStarted
    | Noticed
    | AttemptStarted
    | Voted
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
    | QuestionAsked
    | QuestionAnswered
    | EffectDecided
    | Steered
    | ToolFinished
    | Retrying
    | Advised
    | Compacted
    | Delegated
    | TurnFinished
)

Sink = Callable[[Event], None]
"""Takes a turn's events. One with a true attribute `lasting_only` gets none of `PASSING`."""
PASSING = (Preparing, TextDelta, ThinkingDelta, ToolOutput)
"""Events for the live view whose content a later event repeats as a whole: most of a turn's."""
