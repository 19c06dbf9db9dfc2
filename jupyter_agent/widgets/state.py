"""The state of the live view as JSON, and the operations that update it.

A `ViewState` mirrors the front end's state. Each `update` returns the operations that bring it up
to date: growing text is appended, so that a streamed token costs little more than its letters.
The front end's half is `live.js`; a test applies the operations and compares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_agent.core.data_tables import DataTable, table_of
from jupyter_agent.core.diffs import FileDiff, brief, file_diff
from jupyter_agent.core.legible import cut, line, stable, whole
from jupyter_agent.core.messages import Output
from jupyter_agent.core.transcript import CallView, StepView, TurnView
from jupyter_agent.core.wording import (
    body,
    displayed,
    ending,
    foreseen,
    note,
    outcome,
    output_text,
    shown_body,
)

Json = dict[str, Any]
Path = list[str | int]
Operation = list[Any]
"""`["set", path, value]`, `["append", path, text]` or `["push", path, value]`."""
Price = Callable[[TurnView], str]

OUTPUT_LIMIT = 20_000
"""Characters of one text that the live view gets; the saved form and the log have more."""
PICTURE_LIMIT = 3_000_000
"""Characters of one picture (base64). A larger one is shown when the turn is over."""
_CELL = 100
"""Characters of one cell of a table."""
_ROWS, _COLUMNS = 14, 90
"""The size of a card's box, about."""
_PICTURES = ("image/png", "image/jpeg", "image/gif")


@dataclass(frozen=True, slots=True)
class Wait:
    """A question that waits for the person.

    Args:
        question: Its text.
        begun: When it was asked, by `time.monotonic`.
        seconds: How long it waits for an answer.
        line: The prompt of the input line that asks; empty if the view's buttons ask.
    """

    question: str
    begun: float
    seconds: float
    line: str = ""

    def as_json(self) -> Json:
        left = self.begun + self.seconds - time.monotonic()
        return {"text": stable(self.question), "line": self.line, "left": round(max(0.0, left))}


class ViewState:
    """The front end's state of a turn.

    Args:
        price: Returns words for the turn's cost so far, or an empty text.
    """

    def __init__(self, price: Price = lambda view: "") -> None:
        self._price = price
        self._view = TurnView()
        self._wait: Wait | None = None
        self.state: Json = {**self._heading(self._view, ()), "wait": None, "steps": []}

    def update(
        self, view: TurnView, unread: tuple[str, ...] = (), wait: Wait | None = None
    ) -> list[Operation]:
        """The operations from the last state to this view; keeps it as the last state."""
        operations: list[Operation] = []
        steps = self.state["steps"]
        for index, step in enumerate(view.steps):
            if index < len(self._view.steps) and self._view.steps[index] is step:
                continue
            fresh = _step(step)
            if index < len(steps):
                operations += difference(steps[index], fresh, ["steps", index])
                steps[index] = fresh
            else:
                operations.append(["push", ["steps"], fresh])
                steps.append(fresh)
        heading = self._heading(view, unread)
        heading["wait"] = self.state["wait"]
        if wait is not self._wait:
            self._wait = wait
            heading["wait"] = None if wait is None else wait.as_json()
        for key, value in heading.items():
            operations += difference(self.state[key], value, [key])
        self.state.update(heading)
        self._view = view
        return operations

    def _heading(self, view: TurnView, unread: tuple[str, ...]) -> Json:
        return {
            "running": view.stop_reason is None,
            "ending": stable(ending(view)),
            "task": cut(view.task, OUTPUT_LIMIT),
            "model": stable(view.model),
            "notices": [stable(each.text) for each in view.notices if not each.in_sight],
            "in_sight": [stable(each.text) for each in view.notices if each.in_sight],
            "step": view.steps[-1].number if view.steps else 0,
            "max_steps": view.max_steps,
            "tokens": view.usage.total_tokens,
            "cost": self._price(view),
            "activity": _activity(view),
            "plan": [{"text": stable(item.text), "state": item.state} for item in view.plan],
            "unread": [cut(text, OUTPUT_LIMIT) for text in unread],
        }


def difference(old: Any, new: Any, path: Path) -> Iterator[Operation]:
    """The operations that make `old` equal to `new`."""
    if old == new:
        return
    if isinstance(old, str) and isinstance(new, str) and old and new.startswith(old):
        yield ["append", path, new[len(old) :]]
    elif isinstance(old, Mapping) and isinstance(new, Mapping) and old.keys() == new.keys():
        for key, value in new.items():
            yield from difference(old[key], value, [*path, key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) <= len(new):
        for index, value in enumerate(old):
            yield from difference(value, new[index], [*path, index])
        yield from (["push", path, value] for value in new[len(old) :])
    else:
        yield ["set", path, new]


def merged(operations: list[Operation]) -> list[Operation]:
    """Equivalent operations in smaller number: consecutive appends to one text are joined."""
    fewer: list[Operation] = []
    for operation in operations:
        last = fewer[-1] if fewer else None
        if last and operation[0] == last[0] == "append" and operation[1] == last[1]:
            fewer[-1] = ["append", last[1], last[2] + operation[2]]
        else:
            fewer.append(operation)
    return fewer


def _activity(view: TurnView) -> str:
    """The current activity, if no card shows it; else empty."""
    if view.stop_reason is not None or not view.steps:
        return ""
    last = view.steps[-1]
    if not last.calls and not last.text and not last.thinking:
        return stable(last.preparing) or "waiting for the model"
    if last.calls and all(call.result is not None for call in last.calls):
        return "going on"
    return ""


def _step(step: StepView) -> Json:
    return {
        "number": step.number,
        "thinking": stable(step.thinking),
        "text": stable(step.text),
        "said": [cut(text, OUTPUT_LIMIT) for text in step.said],
        "notices": [stable(notice) for notice in step.notices],
        "calls": [_call(call) for call in step.calls],
    }


def _call(call: CallView) -> Json:
    return {
        "id": call.call.id,
        "name": line(call.call.name),
        "gist": stable(call.gist),
        "state": call.state,
        "note": stable(note(call)),
        "came": stable(outcome(call)),
        "seconds": None if call.seconds is None else round(call.seconds, 1),
        "language": "python" if call.is_code else "text",
        "body": shown_body(call, OUTPUT_LIMIT),
        "outputs": list(_outputs(call)),
        "question": _question(call),
    }


def _question(call: CallView) -> Json | None:
    if call.state != "asking":
        return None
    if call.question is not None:
        return {
            "text": whole(call.question.question),
            "reasons": [],
            "diffs": [],
            "always": "",
            "byPart": False,
            "choices": [whole(choice) for choice in call.question.choices],
        }
    if call.asked is None:
        return None
    diffs = foreseen(call)
    sizes = f" ({found})" if (found := brief(diffs)) else ""
    return {
        "text": whole(call.asked.question) + sizes + _size(body(call)),
        "reasons": [whole(reason) for reason in call.asked.reasons],
        "diffs": [_diff(diff) for diff in diffs],
        "always": whole(call.asked.always),
        "byPart": call.asked.by_part,
    }


def _size(text: str) -> str:
    """The size of a text that does not fit into its box: it scrolls."""
    rows = sum(1 + len(each) // _COLUMNS for each in text.split("\n"))
    return f" (About {rows:,} lines: scroll the box to see all.)" if rows > _ROWS else ""


def _diff(diff: FileDiff) -> Json:
    return {
        "title": line(diff.title, 200),
        "added": diff.added,
        "removed": diff.removed,
        "lines": list(diff.lines),
    }


def _outputs(call: CallView) -> Iterator[Json]:
    is_asked = call.state == "asking"  # then the question shows what would change
    for output in displayed(call):
        if not (is_asked and output.kind == "diff"):
            yield from _output(output)
    if call.result is None:
        if call.output:
            yield _text("text", call.output)
        if call.latest:
            yield _text("notice", call.latest)
        return
    if not call.result.display or call.state == "refused":
        yield _text("error" if call.result.is_error else "text", call.result.text)
    if where := call.result.details.get("whereabouts"):
        yield _text("notice", str(where))


def _output(output: Output) -> Iterator[Json]:
    for kind in _PICTURES:
        data = output.data.get(kind)
        if isinstance(data, str) and len(data) <= PICTURE_LIMIT:
            words = line(output_text(output))
            alt = "Figure" if not words or words.startswith("<") else words  # no Python's repr
            yield {"kind": "image", "text": "", "mime": kind, "data": data, "alt": alt}
            return
    if table := table_of(output):
        yield _table(table)
        return
    if text := output_text(output):
        if output.kind == "diff":
            diff = _diff(file_diff(cut(text, OUTPUT_LIMIT), output))
            yield {"kind": "diff", **diff}
        else:
            yield _text("error" if output.kind == "error" else "text", text)


def _table(table: DataTable) -> Json:
    """A table's rows, each cell as its text, its columns and rows, and whether it is a label.

    `left` counts the rows that are not among them.
    """
    rows = [
        [[line(cell.text, _CELL), cell.across, cell.down, cell.is_head] for cell in row]
        for row in (*table.head, *table.body)
    ]
    left = max(0, table.rows - len(table.body))
    return {"kind": "table", "rows": rows, "head": len(table.head), "left": left}


def _text(kind: str, text: str) -> Json:
    return {"kind": kind, "text": cut(text, OUTPUT_LIMIT), "mime": "", "data": "", "alt": ""}
