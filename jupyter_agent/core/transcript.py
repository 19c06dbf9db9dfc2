"""The view of a turn: one pure reducer from events to a `TurnView`.

The saved output, the live view and the terminal's text are all made from a `TurnView`, so that
they cannot disagree.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from jupyter_agent.core.events import (
    VERIFY,
    Advised,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptStarted,
    Compacted,
    Delegated,
    EffectDecided,
    Event,
    MessageFinished,
    Noticed,
    Preparing,
    QuestionAnswered,
    QuestionAsked,
    Receipt,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    TurnStop,
    Voted,
)
from jupyter_agent.core.legible import code_gist, line
from jupyter_agent.core.messages import (
    DELEGATE,
    Message,
    Output,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

_MOST_COMING = 500
"""Events that are put together at the most."""
_OBJECT = re.compile(r"<[^<>\n]*>")
_TEXT_KINDS = frozenset({"text/plain", "text/html", "text/latex", "text/markdown"})
CallState = Literal[
    "waiting", "asking", "running", "done", "failed", "refused", "interrupted", "not_run"
]


@dataclass(frozen=True, slots=True)
class CallView:
    """One tool call. `result` comes with the states done, failed, refused, interrupted and
    not_run (the call never began). `asked` is the question whether it may run, `question` one that
    the call itself asks the user.

    `delegate` is the conversation of the delegate that the call is; None for any other call.
    `number` counts the turn's calls of the tool `delegate`, from 1; 0 for any other call.
    `questions` counts what the user was asked at the call, by itself or by its delegate.

    `output` and `latest` are the text that running code has printed so far, `seconds` is its
    duration: they are temporary, and the saved form holds none of them.
    """

    call: ToolCall
    state: CallState = "waiting"
    result: ToolResult | None = None
    asked: ApprovalAsked | None = None
    answered: ApprovalAnswered | None = None
    output: str = ""
    latest: str = ""
    seconds: float | None = None
    effects: tuple[EffectDecided, ...] = ()
    question: QuestionAsked | None = None
    delegate: TurnView | None = None
    number: int = 0
    questions: int = 0

    @property
    def name(self) -> str:
        """The tool's name; for a delegate that the person sees `Delegate 2`."""
        return f"Delegate {self.number}" if self.is_delegate and self.number else self.call.name

    @property
    def is_delegate(self) -> bool:
        """True if the call is a delegate that works, waits or has worked; not if it was invalid."""
        return self.delegate is not None or (self.number > 0 and self.result is None)

    @property
    def gist(self) -> str:
        """The call's arguments in one line: what code does first, a path, a delegate's task."""
        try:
            arguments = json.loads(self.call.arguments)
            first = next(iter(arguments.values()), "")
            if self.call.name == DELEGATE:
                first = arguments.get("task", first)
            if isinstance(first, list):
                return _counted(first)
            if isinstance(first, dict):
                return line(" / ".join(str(value) for value in first.values()))
            if isinstance(first, str):
                return code_gist(first) if self.is_code else line(first)
            return line(", ".join(f"{name}={value}" for name, value in arguments.items()))
        except (ValueError, AttributeError, RecursionError):
            return line(self.call.arguments)

    @property
    def is_code(self) -> bool:
        """True if the call runs Python."""
        return self.call.name == "execute_code"

    @property
    def failure(self) -> str:
        """The error in one line if the call failed or never began, else empty."""
        if self.state not in ("failed", "not_run") or self.result is None:
            return ""
        name = self.result.details.get("error_name")
        return f"error {self._error_line(str(name))}" if name else line(self.result.text, 60)

    def _error_line(self, name: str) -> str:
        """The error's own line, `KeyError: 'x'`, from below its frames; else its name."""
        shown = self.result.display if self.result else ()
        texts = (str(each.data.get("text/plain", "")) for each in shown if each.kind == "error")
        lines = [text for each in texts for text in each.split("\n")]
        found = (each for each in reversed(lines) if each.partition(":")[0].split(".")[-1] == name)
        return line(next(found, name), 60)


def _counted(items: list[object]) -> str:
    """`3 items`, or `2 change, 1 insert` for items that say what to do."""
    kinds = [item.get("do") for item in items if isinstance(item, dict)]
    if not kinds or len(kinds) < len(items) or not all(isinstance(kind, str) for kind in kinds):
        return f"{len(items)} items"
    return line(", ".join(f"{number} {kind}" for kind, number in Counter(kinds).items()))


@dataclass(frozen=True, slots=True)
class StepView:
    """One model call and its tool calls. `notices` name retries, compactions and advice.

    `said` holds the user's lines that the model reads at this step, `preparing` the progress
    before the model can answer. `attempt` is the number of its attempt; 0 in a turn without.
    """

    number: int
    thinking: str = ""
    text: str = ""
    calls: tuple[CallView, ...] = ()
    notices: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    preparing: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PlanItemView:
    """One line of the to-do list."""

    text: str
    state: Literal["pending", "in_progress", "done"] = "pending"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn so far. `stop_reason` is None while it runs.

    `notices` are about the session's surroundings; the live view alone shows those that do not
    last. `attempt` is the number of the attempt that runs, of `attempts`, and after the vote of the
    one that was taken; 0 in a turn without.
    """

    task: str = ""
    provider: str = ""
    model: str = ""
    steps: tuple[StepView, ...] = ()
    max_steps: int = 0
    usage: Usage = Usage()
    stop_reason: TurnStop | None = None
    receipt: Receipt = Receipt()
    error: str = ""
    plan: tuple[PlanItemView, ...] = ()
    notices: tuple[Noticed, ...] = ()
    attempt: int = 0
    attempts: int = 0
    check: CallView | None = None
    """The delegate that computes the answer's numbers anew; None in a turn without."""

    @property
    def shown_steps(self) -> tuple[StepView, ...]:
        """The steps, and below them the check of the answer as one more."""
        if self.check is None:
            return self.steps
        return (*self.steps, StepView(len(self.steps) + 1, calls=(self.check,)))

    @property
    def own_steps(self) -> tuple[StepView, ...]:
        """The steps of the attempt that counts; in a turn without attempts all of them."""
        return tuple(step for step in self.steps if step.attempt == self.attempt)

    @property
    def answer(self) -> str:
        """The text of the last of `own_steps` if it called no tools, else empty."""
        step = self.answer_step
        return step.text if step else ""

    @property
    def answer_step(self) -> StepView | None:
        """The step whose text is the answer; None if there is none yet."""
        own = (step for step in reversed(self.steps) if step.attempt == self.attempt)
        last = next(own, None)
        return last if last and not last.calls else None

    @property
    def calls(self) -> tuple[CallView, ...]:
        return tuple(call for step in self.steps for call in step.calls)


class LiveTranscript:
    """A sink that gives any thread the current view of its turn.

    Most events are a few letters, and many arrive between two looks at the view: they are joined
    before they are reduced.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._coming: deque[tuple[int, Event]] = deque()
        self._taken: tuple[TurnView, int] = TurnView(), 0
        self._one_by_one = threading.Lock()

    def __call__(self, event: Event) -> None:
        self._coming.append((next(self._numbers), event))
        # Does not wait for the lock: the garbage collector may print and call this in `_take_in`.
        if len(self._coming) >= _MOST_COMING and self._one_by_one.acquire(blocking=False):
            try:
                self._take_in()
            finally:
                self._one_by_one.release()

    @property
    def view(self) -> TurnView:
        """The current view of the turn."""
        with self._one_by_one:
            self._take_in()
            return self._taken[0]

    def _take_in(self) -> None:
        view, taken = self._taken
        coming = [each for each in tuple(self._coming) if each[0] >= taken]
        for event in joined(event for _, event in coming):
            try:
                view = reduce(view, event)
            except Exception:
                # A cassette by somebody else may lack fields of an event.
                logging.getLogger(__name__).exception("An event cannot be shown.")
        if coming:
            # One assignment: wherever an interrupt strikes, no event is lost or reduced twice.
            self._taken = view, coming[-1][0] + 1
        while self._coming and self._coming[0][0] < self._taken[1]:
            self._coming.popleft()


def joined(events: Iterable[Event]) -> Iterator[Event]:
    """Events that make the same view: consecutive pieces of one text are joined."""
    for _, group in itertools.groupby(events, _piece_of):
        first, *others = group
        match first:
            case TextDelta() | ThinkingDelta() if others:
                pieces = [each.text for each in (first, *others) if isinstance(each, type(first))]
                yield replace(first, text="".join(pieces))
            case ToolOutput() if others:
                printed = [each for each in (first, *others) if isinstance(each, ToolOutput)]
                yield replace(printed[-1], text="".join(each.text for each in printed))
            case _:
                yield first
                yield from others


def _piece_of(event: Event) -> tuple[str, str | int]:
    if isinstance(event, ToolOutput):
        return event.type, event.call_id
    return event.type, 0


def reduce(view: TurnView, event: Event) -> TurnView:
    """The view after one more event."""
    if getattr(event, "call_id", "") == VERIFY:
        return _with_check(view, event)
    match event:
        case TurnStarted(task=task, provider=provider, model=model):
            before = () if view.task else view.notices
            return TurnView(task=task, provider=provider, model=model, notices=before)
        case Noticed():
            return replace(view, notices=(*view.notices, event))
        case AttemptStarted(number=number, total=total):
            return replace(view, attempt=number, attempts=total)
        case Voted(attempt=attempt, text=text):
            notices = (*view.notices, Noticed(text, in_sight=True))
            return replace(view, notices=notices, attempt=attempt)
        case StepStarted(number=number, limit=limit):
            begins = bool(view.attempt) and not view.own_steps
            heading = (f"Attempt {view.attempt} of {view.attempts}",) if begins else ()
            step = StepView(number, notices=heading, attempt=view.attempt)
            return replace(view, steps=(*view.steps, step), max_steps=limit)
        case TurnFinished():
            return replace(
                view,
                usage=event.usage,
                stop_reason=event.stop_reason,
                receipt=event.receipt,
                error=event.error,
            )
        case MessageFinished(usage=usage):
            return _numbered(replace(_in_last_step(view, event), usage=view.usage + usage))
        case Delegated(event=MessageFinished(usage=usage)):
            return replace(_in_last_step(view, event), usage=view.usage + usage)
        case ToolFinished(result=result) if "plan" in result.details:
            plan = tuple(
                PlanItemView(item["text"], item["state"]) for item in result.details["plan"]
            )
            return replace(_in_last_step(view, event), plan=plan)
        case _:
            return _in_last_step(view, event)


def _with_check(view: TurnView, event: Event) -> TurnView:
    """The view after an event of the delegate that checks the answer."""
    check = view.check or CallView(ToolCall(VERIFY, "verify", "{}"), "running")
    (check,) = _reduce_step(StepView(0, calls=(check,)), event).calls
    usage = view.usage
    match event:
        case Delegated(event=MessageFinished(usage=its)):
            usage += its
        case Delegated(event=TurnFinished(stop_reason=stop, error=error)):
            report = check.delegate.answer if check.delegate else ""
            blocks = tuple(Text(text) for text in (report, error) if text)
            result = ToolResult(VERIFY, blocks, is_error=stop != "end")
            check = replace(check, state=_end_state(result), result=result)
    return replace(view, check=check, usage=usage)


def _in_last_step(view: TurnView, event: Event) -> TurnView:
    if not view.steps:
        return view
    return replace(view, steps=(*view.steps[:-1], _reduce_step(view.steps[-1], event)))


def _numbered(view: TurnView) -> TurnView:
    """The view with numbers for the delegates of its last step."""
    last = view.steps[-1] if view.steps else StepView(0)
    if all(call.call.name != DELEGATE for call in last.calls):
        return view
    before = sum(call.number > 0 for step in view.steps[:-1] for call in step.calls)
    numbers = itertools.count(before + 1)
    calls = tuple(
        replace(call, number=next(numbers)) if call.call.name == DELEGATE else call
        for call in last.calls
    )
    return replace(view, steps=(*view.steps[:-1], replace(last, calls=calls)))


def _reduce_step(step: StepView, event: Event) -> StepView:
    match event:
        case Preparing() | TextDelta() | ThinkingDelta():
            return _with_delta(step, event)
        case Retrying(reason=reason, attempt=attempt):
            discarded = " What it had said was discarded." if step.text or step.thinking else ""
            notice = f"Try {attempt} failed and was repeated: {reason}{discarded}"
            notices = (*step.notices, notice)
            return replace(step, text="", thinking="", preparing="", notices=notices)
        case MessageFinished(message=message, stop_reason=stop):
            return _with_message(step, message, stop)
        case Advised(text=text):
            return replace(step, notices=(*step.notices, f"Told to the model: {text}"))
        case Compacted(dropped=dropped):
            # Without the sizes, which depend on the wording of prompts and tools; the log has them.
            notice = " ".join(["The conversation was too long and was shortened.", *dropped])
            return replace(step, notices=(*step.notices, notice))
        case Steered(text=text):
            return replace(step, said=(*step.said, text))
        case ToolStarted(call=call):
            return _with_call(step, call.id, state="running")
        case ApprovalAsked() | ApprovalAnswered() | QuestionAsked() | QuestionAnswered():
            return _with_question(step, event)
        case EffectDecided():
            return _with_effect(step, event)
        case Delegated(call_id=call_id, event=inner):
            return _with_delegated(step, call_id, inner)
        case ToolOutput():
            return _with_output(step, event)
        case ToolFinished(result=result, seconds=seconds):
            state = _end_state(result)
            return _with_call(step, result.call_id, state=state, result=result, seconds=seconds)
    return step


def _with_question(
    step: StepView,
    event: ApprovalAsked | ApprovalAnswered | QuestionAsked | QuestionAnswered,
) -> StepView:
    match event:
        case ApprovalAsked():
            number = _questions(step, event.call_id) + 1
            return _with_call(step, event.call_id, state="asking", asked=event, questions=number)
        case QuestionAsked():
            number = _questions(step, event.call_id) + 1
            return _with_call(step, event.call_id, state="asking", question=event, questions=number)
        case ApprovalAnswered() if _is_of_delegate(step, event.call_id):
            # Its own steps show what was asked and answered, also in a replay, which asks nobody.
            return _with_call(step, event.call_id, state="running", asked=None)
        case ApprovalAnswered():
            return _with_call(step, event.call_id, state="running", answered=event)
        case QuestionAnswered() if _is_of_delegate(step, event.call_id):
            return _with_call(step, event.call_id, state="running", question=None)
    return _with_call(step, event.call_id, state="running")


def _questions(step: StepView, call_id: str) -> int:
    return next((call.questions for call in step.calls if call.call.id == call_id), 0)


def _is_of_delegate(step: StepView, call_id: str) -> bool:
    return any(call.delegate is not None for call in step.calls if call.call.id == call_id)


def _with_delegated(step: StepView, call_id: str, event: Event) -> StepView:
    """The step after an event of the delegate that one of its calls is."""
    found = next((call for call in step.calls if call.call.id == call_id), None)
    if found is None:
        return step
    return _with_call(step, call_id, delegate=reduce(found.delegate or TurnView(), event))


def _with_effect(step: StepView, decided: EffectDecided) -> StepView:
    found = next((call for call in step.calls if call.call.id == decided.call_id), None)
    if found is None:
        return step
    return _with_call(step, decided.call_id, effects=(*found.effects, decided))


def _with_delta(step: StepView, event: Preparing | TextDelta | ThinkingDelta) -> StepView:
    match event:
        case Preparing(text=text):
            return replace(step, preparing=text)
        case TextDelta(text=text):
            return replace(step, text=step.text + text, preparing="")
    return replace(step, thinking=step.thinking + event.text, preparing="")


def _end_state(result: ToolResult) -> CallState:
    if not result.is_error:
        return "done"
    match result.details.get("state"):
        case "refused":
            return "refused"
        case "interrupted":
            # For an open question the log names both: who stopped the call, and when.
            return "not_run" if result.details.get("ran") is False else "interrupted"
        case "not_run":
            return "not_run"
    return "failed"


def _with_message(step: StepView, message: Message, stop: str) -> StepView:
    """The finished message takes the place of its deltas."""
    notices = {
        "max_tokens": ("The reply was cut off at its token limit.",),
        "refused": ("The model refused to go on.",),
    }.get(stop, ())
    thinking = "\n\n".join(b.text for b in message.blocks if isinstance(b, Thinking) and b.text)
    text = "\n\n".join(b.text for b in message.blocks if isinstance(b, Text) and b.text)
    return replace(
        step,
        thinking=thinking,
        text=text,
        calls=tuple(CallView(call) for call in message.tool_calls),
        notices=(*step.notices, *notices),
        preparing="",
    )


def _with_call(step: StepView, call_id: str, **changes: Any) -> StepView:
    calls = tuple(
        replace(view, **changes) if view.call.id == call_id else view for view in step.calls
    )
    return replace(step, calls=calls)


def _with_output(step: StepView, event: ToolOutput) -> StepView:
    output = next((c.output for c in step.calls if c.call.id == event.call_id), "")
    return _with_call(step, event.call_id, output=output + event.text, latest=event.latest)


def is_rich(output: Output) -> bool:
    """True for displays of code, and for values that are pictures or interactive.

    Also for values with an empty plain text (`<IPython.core.display.HTML object>`). A table that is
    merely the value of an expression stays in the transcript.
    """
    if output.kind != "result":
        return output.kind == "display"
    only_a_name = _OBJECT.fullmatch(str(output.data.get("text/plain", "")))
    return bool(only_a_name and len(output.data) > 1) or not _TEXT_KINDS.issuperset(output.data)
