"""The saved form of a turn: ordinary notebook outputs that need no widget and no kernel.

A pure function of the view, with nothing volatile in it: a turn that was recorded and is then
replayed gives the same bytes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from jupyter_agent.events import FileChange, Receipt, VariableChange
from jupyter_agent.messages import JsonObject, Output, clean
from jupyter_agent.plaintext import one_line, plain
from jupyter_agent.redact import redact, redact_json, secret_values
from jupyter_agent.widgets.markdown import inert
from jupyter_agent.widgets.transcript import CallView, StepView, TurnView

HTML_LIMIT, HTML_TOTAL = 10_000, 450_000
"""Characters of one output in the HTML transcript, and of all outputs together."""
TEXT_LIMIT, TEXT_TOTAL = 1_000, 75_000
"""The same in the plain and in the Markdown transcript."""

_LINE = "rgba(128,128,128,.3)"
_CARD = f"border:1px solid {_LINE};border-radius:5px;padding:2px 8px;margin:4px 0"
_OUTER = f"border:1px solid {_LINE};border-radius:6px;padding:4px 10px;font-size:13px"
_PRE = "margin:4px 0;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px"
_OUT = f"{_PRE};padding:4px 8px;background:rgba(128,128,128,.08)"
_WORDS = "margin:6px 0;white-space:pre-wrap;overflow-wrap:anywhere"
_SUMMARY = "cursor:pointer;overflow-wrap:anywhere"
_MARK = {"waiting": "…", "running": "…", "done": "✓", "failed": "✗"}
_PLAN = {"pending": "○", "in_progress": "◐", "done": "●"}
_STOPS = {
    "step_limit": "The step limit was reached; this is the best answer so far.",
    "budget": "The budget is used up; this is what is done so far.",
    "interrupted": "Interrupted.",
    "refused": "The model refused to go on.",
    "error": "The turn ended with the error below.",
}
_OBJECT = re.compile(r"<[^<>\n]*>")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_LONGEST_SECRET = 4_000
_TEXT_KINDS = frozenset({"text/plain", "text/html", "text/latex", "text/markdown"})


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """One `display_data` output of a notebook: a MIME bundle and its metadata."""

    data: JsonObject
    metadata: JsonObject = field(default_factory=dict)


def saved_outputs(view: TurnView) -> list[SavedOutput]:
    """The transcript, then the rich displays of the agent's code, then the answer."""
    outputs = [_transcript(view), *_displays(view)]
    answer = inert(_stable(view.answer))
    if answer.strip():
        outputs.append(SavedOutput({"text/markdown": answer, "text/plain": answer}))
    return outputs


def plain_transcript(view: TurnView) -> str:
    """The transcript as plain text, the answer below it."""
    return "\n".join([*_plain(view), *(["", _stable(view.answer)] if view.answer else [])])


def _transcript(view: TurnView) -> SavedOutput:
    data = {
        "text/html": "".join(_html(view)),
        "text/markdown": "".join(_markdown(view)),
        "text/plain": "\n".join(_plain(view)),
    }
    facts = {
        "stop_reason": view.stop_reason,
        "steps": len(view.steps),
        "usage": asdict(view.usage),
        "receipt": asdict(view.receipt),
    }
    return SavedOutput(data, {"jupyter_agent": _safe(json.loads(json.dumps(facts)))})


def _displays(view: TurnView) -> Iterator[SavedOutput]:
    limit = _share(view, HTML_LIMIT, HTML_TOTAL)
    for call in view.calls:
        for output in call.result.display if call.result else ():
            if _is_rich(output):
                data = {kind: _stored(kind, v, limit) for kind, v in output.data.items()}
                yield SavedOutput(data, _safe(output.metadata))


def _is_rich(output: Output) -> bool:
    """Whatever code displayed, and values that are pictures or interactive.

    So are values of which the plain text tells nothing (`<IPython.core.display.HTML object>`). A
    table that was merely the value of a look-up stays in the transcript.
    """
    if output.kind != "result":
        return output.kind == "display"
    only_a_name = _OBJECT.fullmatch(str(output.data.get("text/plain", "")))
    return bool(only_a_name and len(output.data) > 1) or not _TEXT_KINDS.issuperset(output.data)


def _stored(kind: str, value: Any, limit: int) -> Any:
    if kind == "text/plain" and isinstance(value, str):
        return _cut(value, limit)
    if kind.startswith("image/") and kind != "image/svg+xml":
        return value  # base64: no words, and too long to look through
    return _safe(value)


def _safe(value: Any) -> Any:
    """The same without secrets, and storable."""
    text = json.dumps(redact_json(value, secret_values()), ensure_ascii=False)
    return json.loads(clean(text))


def _stable(text: str) -> str:
    """Legible text without secrets and without memory addresses."""
    return _ADDRESS.sub("0x…", redact(plain(text), secret_values()))


def _share(view: TurnView, most: int, total: int) -> int:
    """Characters for one text of a turn, so that all of them stay within the total."""
    texts = sum(1 + len(_shown(call)) for call in view.calls) + 2 * len(view.steps)
    return max(200, min(most, total // max(1, texts)))


def _cut(text: str, limit: int) -> str:
    """Stable text, shortened.

    Secrets are taken out before it is cut, since half of a key is not known as one any more; of a
    long text only near the places where it is cut.
    """
    if len(text) <= limit:
        return _stable(text)
    near, head, tail = limit + _LONGEST_SECRET, limit * 2 // 3, limit // 3
    left_out = f"[... {len(text) - head - tail:,} characters left out here ...]"
    end = _stable(text[-near:])
    return f"{_stable(text[:near])[:head]}\n{left_out}\n{end[len(end) - tail :]}"


def _summary(view: TurnView) -> str:
    calls, failed = len(view.calls), sum(call.state == "failed" for call in view.calls)
    parts = [_count(len(view.steps), "step")]
    if calls:
        parts.append(_count(calls, "tool call") + (f" ({failed} failed)" if failed else ""))
    if view.receipt.files:
        parts.append(_count(len(view.receipt.files), "file"))
    if view.usage.total_tokens:
        parts.append(f"{view.usage.total_tokens:,} tokens")
    if view.model:
        parts.append(view.model)
    return " · ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ending(view: TurnView) -> str:
    """The line that says why a turn ended, where that was not an answer."""
    if view.stop_reason == "end" and not view.answer.strip():
        return "The model ended the turn without an answer."
    return _STOPS.get(view.stop_reason or "", "")


def _changes(receipt: Receipt) -> list[tuple[str, str]]:
    """What was changed, as names and words."""
    proposed = _count(receipt.proposals, "proposal")
    return [
        *map(_variable, receipt.variables),
        *map(_file, receipt.files),
        *([(proposed, "in the cell below")] if receipt.proposals else []),
    ]


def _variable(change: VariableChange) -> tuple[str, str]:
    words = "new" if change.kind == "added" else change.kind
    return change.name, f"{words} {change.summary}"


def _file(change: FileChange) -> tuple[str, str]:
    kind = "new" if change.kind == "created" else "changed"
    lines = f"+{change.lines_added}" + (f" −{change.lines_removed}" if change.lines_removed else "")
    return change.path, f"{kind}, {lines} lines"


def _body(call: CallView) -> str:
    """What was asked for: the code, or the arguments. Nothing where a diff says it all."""
    if call.result is not None and any(o.kind == "diff" for o in call.result.display):
        return ""
    try:
        arguments = json.loads(call.call.arguments)
    except (ValueError, RecursionError):
        return call.call.arguments
    if isinstance(arguments, dict) and isinstance(arguments.get("code"), str):
        return str(arguments["code"]).rstrip()
    if not isinstance(arguments, dict):
        return call.call.arguments
    return "\n".join(f"{key}: {value}" for key, value in arguments.items())


def _shown(call: CallView) -> list[str]:
    """What came back, for a person to read: the diff or the outputs, else the model's text."""
    if call.result is None:
        return []
    texts = [_output_text(output) for output in call.result.display]
    shown = [text for text in texts if text] or [call.result.text]
    where = call.result.details.get("whereabouts")
    return [*shown, f"({where})"] if where else shown


def _output_text(output: Output) -> str:
    if "text/plain" in output.data:
        return str(output.data["text/plain"]).strip("\n")
    return f"[{', '.join(output.data)}]" if output.data else ""


# HTML: inline styles only, no colours of its own, everything escaped.


def _html(view: TurnView) -> Iterator[str]:
    limit = _share(view, HTML_LIMIT, HTML_TOTAL)
    yield f'<details style="{_OUTER}"><summary style="{_SUMMARY}">'
    yield f"<b>Agent</b> &nbsp;{_escape(_summary(view), limit)}</summary>"
    for item in view.plan:
        yield f"<div>{_PLAN[item.state]} {_escape(item.text, limit)}</div>"
    for step in view.steps:
        yield from _html_step(step, step is view.steps[-1] and not step.calls, limit)
    changes = _changes(view.receipt)
    if changes:
        shown = " · ".join(
            f"<code>{_escape(name, limit)}</code> {_escape(words, limit)}"
            for name, words in changes
        )
        yield f'<div style="margin:6px 0 2px;opacity:.8"><b>Changed</b> &nbsp;{shown}</div>'
    yield "</details>"
    if ending := _ending(view):
        yield f'<div style="{_WORDS}"><i>{_escape(ending, limit)}</i></div>'


def _html_step(step: StepView, is_answer: bool, limit: int) -> Iterator[str]:
    if step.thinking:
        yield f'<details style="margin:4px 0;opacity:.75"><summary style="{_SUMMARY}">Thinking'
        yield f'</summary><div style="{_WORDS}">{_escape(step.thinking, limit)}</div></details>'
    for notice in step.notices:
        yield f'<div style="{_WORDS}"><i>{_escape(notice, limit)}</i></div>'
    if step.text and not is_answer:
        yield f'<div style="{_WORDS}">{_escape(step.text, limit)}</div>'
    for call in step.calls:
        yield from _html_call(call, limit)


def _html_call(call: CallView, limit: int) -> Iterator[str]:
    failure = f" {_escape(call.failure, limit)}" if call.failure else ""
    yield f'<details style="{_CARD}"><summary style="{_SUMMARY}">'
    yield f"<code>{_escape(call.call.name, limit)}</code> {_escape(call.gist, limit)}"
    yield f" &nbsp;{_MARK[call.state]}{failure}</summary>"
    if body := _body(call):
        yield f'<pre style="{_PRE}">{_escape(body, limit)}</pre>'
    for text in _shown(call):
        yield f'<pre style="{_OUT}">{_escape(text, limit)}</pre>'
    yield "</details>"


def _escape(text: str, limit: int) -> str:
    escaped = html.escape(_cut(text, limit))
    if len(escaped) > 2 * limit:  # markup through and through, which escaping makes longer
        return html.escape(_cut(text, limit * limit // len(escaped)))
    return escaped


# Plain text: for terminals, and for whatever shows no HTML.


def _plain(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"Agent: {_stable(_summary(view))}"
    yield from (f"  {_PLAN[item.state]} {_stable(item.text)}" for item in view.plan)
    for step in view.steps:
        if step.thinking:
            yield f"  {step.number}. (thinking) {_indented(step.thinking, 5, limit)}"
        yield from (f"  {step.number}. {_stable(notice)}" for notice in step.notices)
        if step.text and (step.calls or step is not view.steps[-1]):
            yield f"  {step.number}. {_indented(step.text, 5, limit)}"
        for call in step.calls:
            yield from _plain_call(call, limit)
    changes = _changes(view.receipt)
    if changes:
        yield "  Changed: " + " · ".join(_stable(f"{name} {words}") for name, words in changes)
    if ending := _ending(view):
        yield f"  {_stable(ending)}"


def _plain_call(call: CallView, limit: int) -> Iterator[str]:
    failure = f" {_stable(call.failure)}" if call.failure else ""
    yield f"     {_MARK[call.state]} {one_line(_stable(call.call.name))}{failure}"
    if body := _body(call) or call.gist:
        yield f"         {_indented(body, 9, limit)}"
    for text in _shown(call):
        yield f"         │ {_indented(text, 9, limit, '│ ')}"


def _indented(text: str, columns: int, limit: int, mark: str = "") -> str:
    return _cut(text, limit).replace("\n", "\n" + " " * columns + mark)


# Markdown: for converters that prefer it.


def _markdown(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"**Agent** {inert(_stable(_summary(view)))}\n"
    yield from (f"\n{_PLAN[item.state]} {inert(_stable(item.text))}\n" for item in view.plan)
    for step in view.steps:
        yield from (f"\n*{inert(_stable(notice))}*\n" for notice in step.notices)
        if step.text and (step.calls or step is not view.steps[-1]):
            yield f"\n{inert(_stable(step.text))}\n"
        for call in step.calls:
            yield from _markdown_call(call, limit)
    changes = _changes(view.receipt)
    if changes:
        names = " · ".join(f"{_span(name)} {words}" for name, words in changes)
        yield f"\n**Changed** {inert(_stable(names))}\n"
    if ending := _ending(view):
        yield f"\n*{inert(_stable(ending))}*\n"


def _markdown_call(call: CallView, limit: int) -> Iterator[str]:
    failure = f" {inert(_stable(call.failure))}" if call.failure else ""
    yield f"\n{_span(call.call.name)} {_MARK[call.state]}{failure}\n"
    if body := _body(call) or call.gist:
        yield _fenced(body, limit)
    for text in _shown(call):
        yield _fenced(text, limit)


def _span(text: str) -> str:
    return "`" + inert(one_line(_stable(text)).replace("`", "'")) + "`"


def _fenced(text: str, limit: int) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    text = inert("```\n" + _cut(text, limit))[4:]
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}\n{text}\n{fence}\n"
