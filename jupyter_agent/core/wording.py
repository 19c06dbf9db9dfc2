"""The words for a view: shared by the live view, the saved form and terminals."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

from jupyter_agent.core.events import (
    ApprovalAnswered,
    EffectDecided,
    FileChange,
    Grounded,
    Receipt,
    VariableChange,
)
from jupyter_agent.core.legible import cut, line, whole
from jupyter_agent.core.messages import Output
from jupyter_agent.core.plaintext import count, visible
from jupyter_agent.core.transcript import CallState, CallView, TurnView

_SHORTENED = re.compile(r"…$|^\[[\d,]+ (?:more )?lines ", re.MULTILINE)
"""What a diff says in the place of lines, or of the end of a line."""
UNSEEN = "not seen in any output"

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
_MOST_CHANGES = 60
_MOST_NUMBERS = 40
_ALLOWED = {"yes": "allowed by you", "always": "allowed by you for this session"}
_REFUSED = {
    "person": "refused by you",
    "time_out": "refused: no answer in time",
    "nobody": "refused: nobody could be asked",
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
        *map(_file, receipt.files),
        *((kept.title, f"saved as a {kept.kind}") for kept in receipt.saved),
    ]
    some = [(line(name), line(words, 200)) for name, words in found[:_MOST_CHANGES]]
    if len(found) > len(some):
        some.append((f"{len(found) - len(some):,} more", "that are not listed"))
    return [*some, *([(proposed, "in the cell below")] if receipt.proposals else [])]


def numbers(receipt: Receipt) -> list[tuple[str, str]]:
    """The answer's numbers with their sources, each once, those without a source first."""
    where = {line(number.text, 40): _where(number) for number in receipt.numbers}
    ordered = sorted(where.items(), key=lambda pair: pair[1] != UNSEEN)
    some = ordered[:_MOST_NUMBERS]
    if len(ordered) > len(some):
        some.append((f"{len(ordered) - len(some):,} more", "that are not listed"))
    return some


def unseen(receipt: Receipt) -> str:
    """The line with the answer's numbers that have no source; empty if all have one."""
    found = [text for text, where in numbers(receipt) if where == UNSEEN]
    return f"{UNSEEN.capitalize()}: {' · '.join(found)}" if found else ""


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
    lines = f"+{change.lines_added}" + (f" −{change.lines_removed}" if change.lines_removed else "")
    return change.path, f"{kind}, {lines} lines"


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
    reason = line(answered.reason) if answered.answer == "no" else ""
    return _words_of(answered) + (f": {reason}" if reason else "")


def _words_of(decided: ApprovalAnswered | EffectDecided) -> str:
    """Who decided what: "allowed by you"."""
    return _REFUSED[decided.by] if decided.answer == "no" else _ALLOWED[decided.answer]


def body(call: CallView) -> str:
    """The call's code or arguments, each character in sight. Empty if a diff shows them.

    A shortened diff is not enough for a call that the user was asked about.
    """
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
    if is_code(call) and isinstance(arguments.get("code"), str):
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


def is_code(call: CallView) -> bool:
    """True if `body` is Python."""
    return call.call.name == "execute_code"


def shown(call: CallView) -> list[str]:
    """The result as texts for the user: the diff or the outputs, else the model's text."""
    return [text for _, text in pieces(call)]


def pieces(call: CallView) -> list[tuple[str, str]]:
    """Like `shown`, each text with the kind of its output, or with `text`."""
    outputs = [(output.kind, output_text(output)) for output in displayed(call)]
    found: list[tuple[str, str]] = [(kind, text) for kind, text in outputs if text]
    if call.result is None:
        return found
    if not found or call.state == "refused":
        kind = "error" if call.state == "failed" else "text"
        found += [(kind, text)] if (text := call.result.text) else []
    where = call.result.details.get("whereabouts")
    return [*found, *([("text", f"({where})")] if where else [])]


def asked_about(call: CallView) -> str:
    """The question that the user was asked before the call, with its reasons."""
    if call.asked is None:
        return ""
    reasons = "; ".join(call.asked.reasons)
    return f"Asked: {call.asked.question}" + (f" ({reasons})" if reasons else "")


def displayed(call: CallView) -> Sequence[Output]:
    """The result's outputs; the preview if the call has not run or was refused."""
    if call.result is not None and call.result.display:
        return call.result.display
    done = call.result is not None and call.state != "refused"
    return () if done or call.asked is None else call.asked.preview


def output_text(output: Output) -> str:
    if "text/plain" in output.data:
        text = str(output.data["text/plain"]).strip("\n")
        return visible(text) if output.kind == "diff" else text
    return f"[{', '.join(output.data)}]" if output.data else ""
