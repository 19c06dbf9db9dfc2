"""What a session's record says of the delegates of a turn: few lines, each of them small."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from jupyter_agent.core.events import (
    VERIFY,
    ApprovalAnswered,
    ApprovalAsked,
    Delegated,
    MessageFinished,
    QuestionAnswered,
    QuestionAsked,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.legible import line
from jupyter_agent.core.messages import DELEGATE, ToolCall, ToolResult
from jupyter_agent.core.transcript import CallView

_TASK = 200
_REPORT = 300
_CHECK = "Compute the numbers of the answer anew."


class Write(Protocol):
    """Writes one line of the record."""

    def __call__(self, kind: str, **data: Any) -> None: ...


class DelegateLines:
    """Writes a line when a delegate begins, for each of its replies that calls tools, when it waits
    for the person or goes on, and when it has ended. Delegates are named by their number in the
    turn: the place of their call among the turn's calls of `delegate`. The one that checks the
    answer comes after them.

    Args:
        write: Writes a line.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._calls: dict[str, ToolCall] = {}
        self._running: dict[str, _Running] = {}

    def begin(self) -> None:
        """Begin a turn."""
        self._calls, self._running = {}, {}

    def called(self, calls: Iterable[ToolCall]) -> None:
        """Note the calls of a reply of the turn's own agent."""
        self._calls |= {call.id: call for call in calls if call.name == DELEGATE}

    def number(self, call_id: str) -> int:
        """The number of the delegate that works for a call of the turn's own agent; 0 if none."""
        running = self._running.get(call_id)
        return running.number if running else 0

    def __call__(self, delegated: Delegated) -> None:
        """Note an event of a delegate."""
        event, call_id = delegated.event, delegated.call_id
        if isinstance(event, TurnStarted):
            self._begin(call_id, event)
        elif running := self._running.get(call_id):
            running.heard(event, self._write)
            if call_id == VERIFY and isinstance(event, TurnFinished):
                self.ended(ToolResult(VERIFY, ()))

    def ended(self, result: ToolResult) -> None:
        """Write how the delegate ended that a call was for, if it was for one that began."""
        if running := self._running.pop(result.call_id, None):
            kept = result.details.get("kept", ())
            self._write(
                "delegate_finished",
                delegate=running.number,
                stop_reason=_stop_of(running.stop, result),
                steps=running.steps,
                tokens=running.tokens,
                report=running.report,
                names=[str(name) for name in kept][:100],
                error=running.error,
            )

    def _begin(self, call_id: str, event: TurnStarted) -> None:
        if call_id == VERIFY:
            number, task, where = len(self._calls) + 1, _CHECK, "kernel"
        elif call := self._calls.get(call_id):
            number, task = [*self._calls].index(call_id) + 1, line(event.task, _TASK)
            where = _argument(call, "where") or "kernel"
        else:
            return
        running = self._running[call_id] = _Running(number)
        self._write("delegate_started", delegate=running.number, task=task, where=where)


class _Running:
    """A delegate that works.

    Args:
        number: Its number in the turn.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps = self.tokens = 0
        self.report = self.stop = self.error = ""

    def heard(self, event: object, write: Write) -> None:
        """Note an event of its conversation, and write the line for it, if there is one."""
        match event:
            case StepStarted(number=number):
                self.steps = number
            case MessageFinished(message=message, usage=usage):
                self.tokens += usage.total_tokens
                calls = message.tool_calls
                self.report = "" if calls else line(message.text, _REPORT)
                if calls:
                    data = {"number": self.steps, **called(calls[0]), "tokens": self.tokens}
                    write("delegate_step", delegate=self.number, **data)
            case ApprovalAsked(question=question) | QuestionAsked(question=question):
                write("waits", delegate=self.number, question=line(question, _TASK))
            case ApprovalAnswered() | QuestionAnswered():
                write("answered", delegate=self.number)
            case TurnFinished(stop_reason=stop, error=error, usage=usage):
                self.stop, self.error = stop, line(error, _REPORT)
                # With summaries of its conversation, which no message has.
                self.tokens = max(self.tokens, usage.total_tokens)


def called(call: ToolCall) -> dict[str, str]:
    """What a record says of a call: its tool, and its arguments in a few words."""
    return {"tool": line(call.name), "what": CallView(call).gist}


def _stop_of(said: str, result: ToolResult) -> str:
    """How a delegate ended: as it said, unless its call failed or was stopped after its last word,
    and nothing was handed over.

    Args:
        said: The stop reason of its last event; empty if it had none.
        result: The result of its call.
    """
    if said and not (said == "end" and result.is_error):
        return said
    return "interrupted" if result.details.get("state") == "interrupted" else "error"


def _argument(call: ToolCall, name: str) -> str:
    try:
        value = json.loads(call.arguments).get(name)
    except (ValueError, AttributeError, RecursionError):
        return ""
    return line(value, 40) if isinstance(value, str) else ""
