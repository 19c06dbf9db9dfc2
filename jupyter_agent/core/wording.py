"""The words for a view: shared by the live view, the saved form and terminals."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jupyter_agent.core.data_tables import table_of
from jupyter_agent.core.diffs import FileDiff, file_diff
from jupyter_agent.core.events import (
    ApprovalAnswered,
    CellChange,
    EffectDecided,
    FileChange,
    Grounded,
    Receipt,
    VariableChange,
)
from jupyter_agent.core.legible import cut, line, whole
from jupyter_agent.core.messages import ASK_USER, Output
from jupyter_agent.core.plaintext import count, visible
from jupyter_agent.core.transcript import CallState, CallView, StepView, TurnView, is_rich

_SHORTENED = re.compile(r"…$|^\[", re.MULTILINE)
"""What a diff says in the place of lines, or of the end of a line."""
UNSEEN = "not seen in any output"
_DRAWN = re.compile(r"<|^Text\(")
"""The value of a call that draws: `[<matplotlib.lines.Line2D at 0x…>]`, `Text(0.5, 1, 'title')`."""
_SERIES = re.compile(r"\n(?:Name: .*, )?(?:Length: \d+, )?dtype: \S+$")
_LENGTH = re.compile(r"Length: (\d{1,18}), dtype: \S+$")

MARKS: dict[CallState, str] = {
    "waiting": "…",
    "asking": "?",
    "running": "…",
    "done": "✓",
    "failed": "✗",
    "refused": "⊘",
    "interrupted": "■",
    "not_run": "–",
}
_TROUBLES: dict[CallState, str] = {
    "failed": "failed",
    "refused": "refused",
    "interrupted": "interrupted",
    "not_run": "not run",
}
PLAN_MARKS = {"pending": "○", "in_progress": "◐", "done": "●"}
_STOPS = {
    "step_limit": "The step limit was reached; this is the best answer so far.",
    "budget": "Raise the budget and give the agent another cell to go on.",
    "stuck": "This is the best answer so far.",
    "interrupted": "Interrupted.",
    "refused": "The model refused to go on.",
    "error": "The turn ended with the error below.",
}
_STOPPED = {
    "step_limit": "step limit reached",
    "budget": "budget used up",
    "stuck": "repeated itself",
    "interrupted": "interrupted",
    "refused": "the model refused",
    "error": "failed",
}
_FIRST = {"asking": 0, "running": 1, "waiting": 2}
"""Which of a delegate's open calls is told."""
_MOST_CHANGES = 60
_MOST_NUMBERS = 40
_MOST_PLACES = 5
_MOST_TROUBLES = 5
"""Of each kind that are named."""
_ALLOWED = {"yes": "allowed by you", "always": "allowed by you for this session"}
_REFUSED = {
    "person": "refused by you",
    "time_out": "refused: no answer in time",
    "no_answer": "refused: no answer",
    "stopped": "nobody answered: stopped",
    "nobody": "refused: nobody could be asked",
    "plan": "refused: this turn only plans",
    "vote": "refused: attempts change nothing",
    "verify": "refused: a check changes nothing",
}


def summary(view: TurnView) -> str:
    """The turn in one line of counts."""
    calls = len(view.calls)
    states = Counter(call.state for call in view.calls)
    troubles = ", ".join(f"{states[s]} {words}" for s, words in _TROUBLES.items() if states[s])
    parts = [count(len(view.steps), "step")]
    if calls:
        parts.append(count(calls, "tool call") + (f" ({troubles})" if troubles else ""))
    if view.receipt.files:
        parts.append(count(len(view.receipt.files), "file"))
    if view.receipt.cells:
        parts.append(f"{count(len(view.receipt.cells), 'edit')} of the notebook")
    if view.usage.total_tokens:
        parts.append(f"{view.usage.total_tokens:,} tokens")
    if view.model:
        parts.append(view.model)
    return " · ".join(parts)


def ending(view: TurnView) -> str:
    """The line with the reason why a turn ended; empty if it ended with an answer."""
    if view.stop_reason == "end" and not view.answer.strip():
        return "The model ended the turn without an answer."
    error = f"{view.error} " if view.error and view.stop_reason in ("budget", "stuck") else ""
    return error + _STOPS.get(view.stop_reason or "", "")


def changes(receipt: Receipt) -> list[tuple[str, str]]:
    """The changed variables and files: each name with words for its change."""
    proposed = count(receipt.proposals, "proposal")
    found = [
        *map(_variable, receipt.variables),
        *((name, "bound to your object again") for name in receipt.restored),
        *map(_file, receipt.files),
        *map(_edited, receipt.cells),
        *((kept.title, f"saved as a {kept.kind}") for kept in receipt.saved),
    ]
    some = [(line(name), line(words, 200)) for name, words in found[:_MOST_CHANGES]]
    if len(found) > len(some):
        some.append((f"{len(found) - len(some):,} more", "that are not listed"))
    return [*some, *([(proposed, "in the cell below")] if receipt.proposals else [])]


def numbers(receipt: Receipt) -> list[tuple[str, str]]:
    """The answer's numbers with their sources, each once: those without a source first, then
    those that were seen where it says nothing."""
    where = {line(number.text, 40): _where(number) for number in receipt.numbers}
    doubtful = {UNSEEN: 0, **{_where(n): 1 for n in receipt.numbers if n.seen == "weak"}}
    ordered = sorted(where.items(), key=lambda pair: doubtful.get(pair[1], 2))
    some = ordered[:_MOST_NUMBERS]
    if len(ordered) > len(some):
        some.append((f"{len(ordered) - len(some):,} more", "that are not listed"))
    return some


def unseen(receipt: Receipt) -> str:
    """The line with the answer's numbers that have no source; empty if all have one."""
    found = [text for text, where in numbers(receipt) if where == UNSEEN]
    return f"{UNSEEN.capitalize()}: {' · '.join(found)}" if found else ""


def weakly_seen(receipt: Receipt) -> list[str]:
    """A line for each place that says nothing about numbers of the answer found there alone."""
    found: dict[str, dict[str, None]] = {}
    for number in receipt.numbers:
        if number.seen == "weak":
            found.setdefault(_source(number), {})[line(number.text, 40)] = None
    return [
        f"{where[:1].upper()}{where[1:]}: {' · '.join(list(texts)[:_MOST_NUMBERS])}"
        for where, texts in list(found.items())[:_MOST_PLACES]
    ]


def troubles(view: TurnView) -> str:
    """The line with what was refused, deleted or failed; empty if nothing was."""
    kinds = {
        "Refused": _refused(view),
        "Not answered": _unanswered(view),
        "Deleted": _deleted(view),
        "Failed": _failed(view),
    }
    parts = []
    for words, found in kinds.items():
        every = list(dict.fromkeys(found))
        more = [f"{len(every) - _MOST_TROUBLES} more"] if len(every) > _MOST_TROUBLES else []
        if every:
            parts.append(f"{words}: {', '.join([*every[:_MOST_TROUBLES], *more])}")
    return " · ".join(parts)


def _refused(view: TurnView) -> Iterator[str]:
    for call in view.calls:
        if call.state == "refused":
            yield line(f"{line(call.name)} {call.gist}")
        elif call.answered is not None and call.answered.rejected:
            yield f"{_parts(call.answered)} of {line(call.name)}"
        yield from (line(each.what) for each in call.effects if _is_no(each))


def _unanswered(view: TurnView) -> Iterator[str]:
    for call in view.calls:
        unanswered = (each for each in call.effects if each.answer == "no" and not _is_no(each))
        yield from (line(each.what) for each in unanswered)


def _is_no(decided: EffectDecided) -> bool:
    return decided.answer == "no" and decided.by in ("person", "nobody", "plan", "vote", "verify")


def _deleted(view: TurnView) -> Iterator[str]:
    yield from (line(each.path) for each in view.receipt.files if each.kind == "deleted")
    gone = (each.name for each in view.receipt.variables if each.kind == "deleted")
    yield from (f"variable {line(name)}" for name in gone)
    cells = (each.title for each in view.receipt.cells if each.kind == "delete")
    yield from (line(title.removeprefix("Delete ")) for title in cells)


def _failed(view: TurnView) -> Iterator[str]:
    for step in view.steps:
        for call in step.calls:
            if call.state == "failed":
                yield f"{call.failure.removeprefix('error ')} (step {step.number})"


VARIES = " (varies)"
"""After the source of a number that is another one in each run."""


def _where(number: Grounded) -> str:
    return _source(number) + (VARIES if number.varies else "")


def _source(number: Grounded) -> str:
    step = f"step {number.step}"
    match number.seen:
        case None:
            return UNSEEN
        case "output":
            return step
        case "code":
            return f"code of {step}"
        case "computed":
            return "computed from the numbers beside it"
        case "weak":
            return f"seen only {line(number.only)}" + (f" of {step}" if number.step else "")
        case "earlier":
            return "an earlier turn"
        case "variable":
            return "a variable"
    return "the task"


def _variable(change: VariableChange) -> tuple[str, str]:
    words = "new" if change.kind == "added" else change.kind
    return change.name, f"{words} {change.summary}"


def _file(change: FileChange) -> tuple[str, str]:
    kind = {"created": "new", "changed": "changed", "deleted": "deleted"}[change.kind]
    if change.kind == "deleted" and not change.lines_removed:
        return change.path, kind
    return change.path, f"{kind}, {_lines(change)}"


def _edited(change: CellChange) -> tuple[str, str]:
    return "notebook", change.title + (f", {_lines(change)}" if change.kind != "move" else "")


def _lines(change: FileChange | CellChange) -> str:
    removed = f" −{change.lines_removed}" if change.lines_removed else ""
    return f"+{change.lines_added}{removed} lines"


def note(call: CallView) -> str:
    """The words beside a call's state: its error, and who decided about it; maybe empty."""
    decided = (f"{line(each.what)} ({_words_of(each)})" for each in call.effects)
    return " · ".join(part for part in (call.failure, _decision(call), *decided) if part)


def note_with_state(call: CallView) -> str:
    """Like `note`, for a form that shows the state as a mark alone: names an interrupted call."""
    words = note(call)
    if call.state == "interrupted":
        return f"interrupted · {words}" if words else "interrupted"
    return words or ("refused" if call.state == "refused" else "")


def _decision(call: CallView) -> str:
    answered = call.answered
    if answered is None:
        return ""
    reason = line(answered.reason) if answered.answer == "no" or answered.rejected else ""
    without = f" without {_parts(answered)}" if answered.rejected else ""
    return _words_of(answered) + without + (f": {reason}" if reason else "")


def _parts(answered: ApprovalAnswered) -> str:
    """The rejected parts by their numbers as the question shows them: `edits 2, 3`."""
    numbers = ", ".join(f"{part + 1}" for part in answered.rejected)
    return f"{'edit' if len(answered.rejected) == 1 else 'edits'} {numbers}"


def _words_of(decided: ApprovalAnswered | EffectDecided) -> str:
    """Who decided what: "allowed by you"."""
    return _REFUSED[decided.by] if decided.answer == "no" else _ALLOWED[decided.answer]


def body(call: CallView) -> str:
    """The call's code or arguments, each character in sight. Empty if its result shows them.

    These are the results of a plan, of a question, and of a write, which has a diff. A shortened
    diff is not enough for a call that the user was asked about, and none for code.
    """
    if call.is_code:
        return visible(_body(call))
    if call.result is not None and "plan" in call.result.details:
        return ""
    if call.asked is None and question_of(call):
        return ""
    diffs = [output_text(output) for output in displayed(call) if output.kind == "diff"]
    if diffs and not (call.asked is not None and any(map(_SHORTENED.search, diffs))):
        return ""
    return visible(_body(call))


def _body(call: CallView) -> str:
    try:
        arguments = json.loads(call.call.arguments)
    except (ValueError, RecursionError):
        return call.call.arguments
    if not isinstance(arguments, dict):
        return call.call.arguments
    if call.is_code and isinstance(arguments.get("code"), str):
        return str(arguments["code"]).rstrip()
    return "\n".join(f"{key}: {value}" for key, value in arguments.items())


def shown_body(call: CallView, limit: int, asked_limit: int | None = None) -> str:
    """`body` without secrets: all of it if the user was asked about the call, else shortened.

    Args:
        call: The call.
        limit: The approximate length of the text if nobody was asked.
        asked_limit: The same if the user was asked; None for no limit.
    """
    text = body(call)
    if call.asked is None:
        return cut(text, limit)
    return (
        whole(text) if asked_limit is None or len(text) <= asked_limit else cut(text, asked_limit)
    )


class Piece(NamedTuple):
    """A text of a result: the kind of its output, or `text`; and the output, if it is from one."""

    kind: str
    text: str
    output: Output | None = None


def shown(call: CallView) -> list[str]:
    """The result as texts for the user: the diff or the outputs, else the model's text."""
    return [piece.text for piece in pieces(call)]


def pieces(call: CallView) -> list[Piece]:
    """Like `shown`, each text with the kind of its output."""
    outputs = [Piece(output.kind, output_text(output), output) for output in displayed(call)]
    found = [piece for piece in outputs if piece.text]
    if call.result is None:
        return found
    if said := _answer_of(call):
        return [Piece("text", f"You: {said}")]
    if not found or call.state == "refused":
        kind = "error" if call.state == "failed" else "text"
        found += [Piece(kind, text)] if (text := call.result.text) else []
    where = call.result.details.get("whereabouts")
    return [*found, *([Piece("text", f"({where})")] if where else [])]


def delegate_line(call: CallView) -> str:
    """What a delegate does now, or what it took: `3 steps · 1,204 tokens`; empty without one."""
    its = call.delegate
    if its is None or is_at_work(call):
        return delegate_now(call)
    return " · ".join(filter(None, [delegate_now(call), tokens_of(its)]))


def delegate_now(call: CallView) -> str:
    """What a delegate does now, in one short line, or how far it came: `step 2: read_file a.csv`.

    Looks at its last step alone, however long its conversation is.
    """
    its = call.delegate
    if its is None:
        return "waiting for a place" if call.is_delegate and call.state == "running" else ""
    if not is_at_work(call):
        stopped = _STOPPED.get(its.stop_reason or "", "")
        return " · ".join(filter(None, [count(len(its.steps), "step"), stopped]))
    if not its.steps:
        return "waiting for the model"
    last = its.steps[-1]
    open_calls = sorted(
        (c for c in last.calls if c.result is None), key=lambda c: _FIRST.get(c.state, 3)
    )
    if not open_calls:
        return f"step {last.number}: waiting for the model"
    first = open_calls[0]
    asks = "waiting for you: " if first.state == "asking" else ""
    return line(f"step {last.number}: {asks}{line(first.call.name)} {first.gist}", 80)


def is_at_work(call: CallView) -> bool:
    """True if the call is a delegate that has begun and not ended."""
    return call.delegate is not None and call.result is None and call.delegate.stop_reason is None


def tokens_of(view: TurnView) -> str:
    """`1,204 tokens`; empty if there are none."""
    return f"{view.usage.total_tokens:,} tokens" if view.usage.total_tokens else ""


def in_words(step: StepView) -> StepView:
    """The step with the plain text of each rich display in its place."""
    return replace(step, calls=tuple(map(call_in_words, step.calls)))


def call_in_words(call: CallView) -> CallView:
    """The call with the plain text of each rich display in its place."""
    if call.result is None:
        return call
    display = tuple(
        replace(each, kind="result", data={"text/plain": each.data.get("text/plain", "")})
        if is_rich(each)
        else each
        for each in call.result.display
    )
    return replace(call, result=replace(call.result, display=display))


def outcome(call: CallView) -> str:
    """What code came to, in a few words: `DataFrame 60×8`, `42`, `1 figure`; maybe empty.

    For a question the person's answer, for a delegate what it does or took.
    """
    if call.is_delegate:
        return delegate_line(call)
    if said := _answer_of(call):
        return line(said, 60)
    if call.result is None or call.state != "done" or not call.is_code:
        return ""
    outputs = call.result.display
    value = next((each for each in reversed(outputs) if each.kind == "result"), None)
    figures = sum(is_figure(output) for output in outputs)
    words = [_value(value)] if value is not None and not is_figure(value) else []
    if figures and value is not None and _DRAWN.search(output_text(value)):
        words = []
    if not words and (table := next(filter(None, map(table_of, outputs)), None)):
        words = [f"DataFrame {table.shape}"]
    if figures:
        words.append(count(figures, "figure"))
    return " · ".join(words) or _printed(outputs)


def is_figure(output: Output) -> bool:
    """True for a picture or a plot."""
    return output.kind in ("result", "display") and any(
        kind.startswith("image/") or "plotly" in kind or "vega" in kind for kind in output.data
    )


def _value(output: Output) -> str:
    """The value of the last expression: itself if it is short, else its kind and its size."""
    if table := table_of(output):
        return f"DataFrame {table.shape}"
    text = output_text(output).strip()
    if _SERIES.search(text):
        return f"Series, {count(_series_length(text), 'value')}"
    return _short(text)


def _series_length(text: str) -> int:
    """How many values a printed pandas Series has."""
    if length := _LENGTH.search(text):
        return int(length[1])
    rows = _SERIES.split(text)[0].rstrip("\n").split("\n")
    # Values end in one column, so a first line that is shorter has the names of the index.
    return len(rows) - (len(rows) > 1 and len(rows[0].rstrip()) < len(rows[1].rstrip()))


def _printed(outputs: Sequence[Output]) -> str:
    """What was printed: itself if it is short, else its size."""
    texts = [output_text(each) for each in outputs if each.kind == "stdout"]
    return _short("\n".join(texts).strip())


def _short(text: str) -> str:
    lines = text.count("\n") + 1
    return line(text, 60) if lines == 1 else count(lines, "line")


def question_of(call: CallView) -> str:
    """The question that a call of `ask_user` asks, with its choices; empty for any other call."""
    if call.call.name != ASK_USER:
        return ""
    try:
        arguments = json.loads(call.call.arguments)
        question, choices = arguments["question"], arguments.get("choices", [])
        return str(question) + (f" ({' / '.join(map(str, choices))})" if choices else "")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return ""


def _answer_of(call: CallView) -> str:
    """The person's answer to a call of `ask_user`; empty for any other, and if nobody answered."""
    if call.call.name != ASK_USER or call.result is None or call.result.is_error:
        return ""
    return str(call.result.details.get("answer", ""))


def asked_about(call: CallView) -> str:
    """The question that the user was asked before the call, with its reasons, or by it."""
    if call.asked is None:
        return f"Asked: {question}" if (question := question_of(call)) else ""
    reasons = "; ".join(call.asked.reasons)
    return f"Asked: {call.asked.question}" + (f" ({reasons})" if reasons else "")


def displayed(call: CallView) -> Sequence[Output]:
    """The result's outputs; the preview if the call has not run or was refused."""
    if call.result is not None and call.result.display:
        return call.result.display
    done = call.result is not None and call.state != "refused"
    return () if done or call.asked is None else call.asked.preview


def foreseen(call: CallView) -> list[FileDiff]:
    """The differences that the user was shown with the question whether the call may run."""
    preview = call.asked.preview if call.asked is not None else ()
    return [file_diff(whole(output_text(each)), each) for each in preview if each.kind == "diff"]


def foreseen_by_code(call: CallView) -> list[tuple[FileDiff, str]]:
    """What the user was shown before code ran, and its text, which no result repeats."""
    if not call.is_code or call.asked is None or displayed(call) is call.asked.preview:
        return []
    diffs = [output for output in call.asked.preview if output.kind == "diff"]
    return [(diff, output_text(each)) for diff, each in zip(foreseen(call), diffs, strict=True)]


def output_text(output: Output) -> str:
    if "text/plain" in output.data:
        text = str(output.data["text/plain"]).strip("\n")
        return visible(text) if output.kind == "diff" else text
    return f"[{', '.join(output.data)}]" if output.data else ""
