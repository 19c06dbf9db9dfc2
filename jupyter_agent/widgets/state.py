"""The state of the live view as JSON, and the operations that update it.

A `ViewState` mirrors the front end's state. Each `update` returns the operations that bring it up
to date: growing text is appended, so that a streamed token costs little more than its letters. What
has not changed is not made again: neither a step that is over, nor a call beside the one that goes
on, nor the earlier steps of a delegate.
The front end's half is `live.js`; a test applies the operations and compares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from jupyter_agent.core.data_tables import DataTable, table_of
from jupyter_agent.core.diffs import FileDiff, brief, file_diff
from jupyter_agent.core.legible import code_gist, cut, line, stable, whole
from jupyter_agent.core.messages import Output
from jupyter_agent.core.transcript import CallView, StepView, TurnView
from jupyter_agent.core.wording import (
    body,
    call_in_words,
    delegate_now,
    displayed,
    ending,
    foreseen,
    is_at_work,
    note,
    outcome,
    output_text,
    shown_body,
    tokens_of,
)

Json = dict[str, Any]
Path = list[str | int]
Operation = list[Any]
"""`["set", path, value]`, `["append", path, text]` or `["push", path, value]`."""
Price = Callable[[TurnView], str]
T = TypeVar("T", StepView, CallView)

OUTPUT_LIMIT = 20_000
"""Characters of one text that the live view gets; the saved form and the log have more."""
DELEGATE_LIMIT = 4_000
"""The same inside of a delegate's conversation."""
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
        call_id: The call that it is about.
    """

    question: str
    begun: float
    seconds: float
    line: str = ""
    call_id: str = ""

    def as_json(self) -> Json:
        left = self.begun + self.seconds - time.monotonic()
        return {
            "text": stable(self.question),
            "line": self.line,
            "left": round(max(0.0, left)),
            "call": self.call_id,
        }


class Made(NamedTuple):
    """The JSON of something as it was: before it changed, or as it still is."""

    view: Any
    json: Json


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
        shown = self._view.shown_steps
        for index, step in enumerate(view.shown_steps):
            before = shown[index] if index < len(shown) else StepView(0)
            if before is step:
                continue
            fresh = self._step(step, Made(before, steps[index]) if index < len(steps) else None)
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

    def _step(self, step: StepView, made: Made | None) -> Json:
        return {
            "number": step.number,
            "thinking": stable(step.thinking),
            "text": stable(step.text),
            "said": [cut(text, OUTPUT_LIMIT) for text in step.said],
            "notices": [stable(notice) for notice in step.notices],
            "calls": _each(
                self._call,
                step.calls,
                made.view.calls if made else (),
                made.json["calls"] if made else [],
            ),
        }

    def _call(self, call: CallView, made: Made | None) -> Json:
        shown = _card(call, OUTPUT_LIMIT)
        shown["question"] = _question(call)
        if call.is_delegate:
            of = made.view.delegate if made else None
            its = Made(of, made.json["delegate"]) if made and of is not None else None
            shown["came"] = ""  # its own line says it
            shown["delegate"] = self._delegate(call, call.delegate or TurnView(), its)
        return shown

    def _delegate(self, call: CallView, its: TurnView, made: Made | None) -> Json:
        """A delegate's conversation; its report, which is the call's result, is not in it."""
        error = stable(its.error) if its.stop_reason is not None else ""
        tokens = tokens_of(its)
        return {
            "running": is_at_work(call),
            "now": stable(delegate_now(call)),
            "facts": " · ".join(filter(None, [tokens, self._price(its)])) if tokens else "",
            "notices": [*(stable(each.text) for each in its.notices), *([error] if error else [])],
            "steps": _each(
                lambda step, made: _inner_step(step, call.call.id, made),
                its.steps,
                made.view.steps if made else (),
                made.json["steps"] if made else [],
            ),
        }


def _each(
    make: Callable[[T, Made | None], Json],
    views: Sequence[T],
    before: Sequence[T],
    made: Sequence[Json],
) -> list[Json]:
    """The JSON of each view; the same object as before for a view that is the same as before.

    Args:
        make: Makes the JSON of a view, with the help of what was made in its place.
        views: The views.
        before: Those of before, by their places.
        made: What was made of these.
    """
    known = [Made(view, json) for view, json in zip(before, made, strict=False)]
    last = len(known)
    return [
        known[at].json
        if at < last and known[at].view is view
        else make(view, known[at] if at < last else None)
        for at, view in enumerate(views)
    ]


def _inner_step(step: StepView, within: str, made: Made | None) -> Json:
    """A step of a delegate. Without a call its text is the report."""

    def make(call: CallView, made: Made | None) -> Json:
        shown = _card(call_in_words(call), DELEGATE_LIMIT)
        return {**shown, "id": f"{within}/{call.call.id}"}

    return {
        "number": step.number,
        "thinking": cut(step.thinking, DELEGATE_LIMIT),
        "text": cut(step.text, DELEGATE_LIMIT) if step.calls else "",
        "said": [],
        "notices": [stable(notice) for notice in step.notices],
        "calls": _each(
            make,
            step.calls,
            made.view.calls if made else (),
            made.json["calls"] if made else [],
        ),
    }


def difference(old: Any, new: Any, path: Path) -> Iterator[Operation]:
    """The operations that make `old` equal to `new`."""
    if old is new or old == new:
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


def _card(call: CallView, limit: int) -> Json:
    """A call without what makes it wait, and without a delegate's conversation."""
    return {
        "id": call.call.id,
        "name": line(call.name),
        "gist": stable(call.gist),
        "state": call.state,
        "note": stable(note(call)),
        "came": stable(outcome(call)),
        "seconds": None if call.seconds is None else round(call.seconds, 1),
        "language": "python" if call.is_code else "text",
        "body": shown_body(call, limit),
        "outputs": list(_outputs(call, limit)),
        "question": None,
        "delegate": None,
    }


def _question(call: CallView) -> Json | None:
    if call.state != "asking":
        return None
    if call.question is not None:
        return {
            "text": whole(call.question.question),
            "number": call.questions,
            "about": "",
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
    about = _asked_of(call) if call.is_delegate else body(call)
    return {
        "text": whole(call.asked.question) + sizes + _size(about),
        "number": call.questions,
        "about": code_gist(about) if call.is_delegate else stable(call.gist),
        "reasons": [whole(reason) for reason in call.asked.reasons],
        "diffs": [_diff(diff) for diff in diffs],
        "always": whole(call.asked.always),
        "byPart": call.asked.by_part,
    }


def _asked_of(call: CallView) -> str:
    """The code or the arguments that a delegate's question is about."""
    preview = call.asked.preview if call.asked is not None else ()
    return "\n".join(output_text(each) for each in preview if each.kind != "diff")


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


def _outputs(call: CallView, limit: int) -> Iterator[Json]:
    is_asked = call.state == "asking"  # then the question shows what would change
    if is_asked and call.is_delegate:
        if about := _asked_of(call):  # what is decided about is there as a whole
            yield _text("text", about, None)
        return
    for output in displayed(call):
        if not (is_asked and output.kind == "diff"):
            yield from _output(output, limit)
    if call.result is None:
        if call.output:
            yield _text("text", call.output, limit)
        if call.latest:
            yield _text("notice", call.latest, limit)
        return
    if not call.result.display or call.state == "refused":
        yield _text("error" if call.result.is_error else "text", call.result.text, limit)
    if where := call.result.details.get("whereabouts"):
        yield _text("notice", str(where), limit)


def _output(output: Output, limit: int) -> Iterator[Json]:
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
            diff = _diff(file_diff(cut(text, limit), output))
            yield {"kind": "diff", **diff}
        else:
            yield _text("error" if output.kind == "error" else "text", text, limit)


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


def _text(kind: str, text: str, limit: int | None) -> Json:
    shown = whole(text) if limit is None else cut(text, limit)
    return {"kind": kind, "text": shown, "mime": "", "data": "", "alt": ""}
