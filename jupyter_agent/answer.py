"""What a turn leaves behind for the person's next cells: the answer and the facts about it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from jupyter_agent.events import (
    Event,
    FileChange,
    Kept,
    MessageFinished,
    Receipt,
    ToolFinished,
    TurnStop,
    VariableChange,
)
from jupyter_agent.messages import JsonObject, ToolCall, Usage


class Answer(str):
    """The answer's text, which it is, with what the turn did as attributes.

    Attributes:
        code: The code that ran without an error, in order.
        files: Paths of the files that the file tools created or changed.
        variables: Names of the variables that were added or bound anew.
        usage: The tokens of the turn's model calls.
        receipt: What the turn changed.
        stop_reason: Why the turn ended.
    """

    code: tuple[str, ...]
    files: tuple[str, ...]
    variables: tuple[str, ...]
    usage: Usage
    receipt: Receipt
    stop_reason: TurnStop

    @property
    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def _repr_markdown_(self) -> str:
        return str(self)


def make_answer(
    text: str, code: Sequence[str], receipt: Receipt, usage: Usage, stop_reason: TurnStop
) -> Answer:
    answer = Answer(text)
    answer.code = tuple(code)
    answer.files = tuple(change.path for change in receipt.files)
    answer.variables = tuple(c.name for c in receipt.variables if c.kind != "deleted")
    answer.usage, answer.receipt, answer.stop_reason = usage, receipt, stop_reason
    return answer


class Findings:
    """A sink that keeps what the receipt and the answer are made from."""

    def __init__(self) -> None:
        self.text = ""
        self.code: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self._files: dict[str, FileChange] = {}
        self._saved: list[Kept] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, MessageFinished):
            calls = event.message.tool_calls
            self._calls.update({call.id: call for call in calls})
            self.text = "" if calls else event.message.text
        elif isinstance(event, ToolFinished):
            for call in event.result.details.get("calls", ()):  # made by the code that ran
                self._note_details(call.get("details", {}))
            if not event.result.is_error:
                self._note_code(self._calls.get(event.result.call_id))
                self._note_details(event.result.details)

    def receipt(self, variables: tuple[VariableChange, ...], proposals: int) -> Receipt:
        return Receipt(variables, tuple(self._files.values()), proposals, tuple(self._saved))

    def _note_code(self, call: ToolCall | None) -> None:
        if call is not None and call.name == "execute_code":
            self.code.append(json.loads(call.arguments)["code"])

    def _note_details(self, details: JsonObject) -> None:
        if saved := details.get("saved"):
            self._saved.append(Kept(saved["kind"], saved["title"], saved["path"]))
        self._note_file(details)

    def _note_file(self, details: JsonObject) -> None:
        path, change = details.get("path"), details.get("change")
        if not isinstance(path, str) or change not in ("created", "changed"):
            return
        before = self._files.get(path)
        self._files[path] = FileChange(
            path,
            before.kind if before else change,
            details.get("lines_added", 0) + (before.lines_added if before else 0),
            details.get("lines_removed", 0) + (before.lines_removed if before else 0),
        )
