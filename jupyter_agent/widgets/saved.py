"""The saved form of a turn: ordinary notebook outputs that need no widget and no kernel.

A pure function of the view, with nothing volatile in it: a recorded turn and its replay give the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from jupyter_agent.core.data_tables import is_frame, table_of
from jupyter_agent.core.displays import WIDGET, shown_displays
from jupyter_agent.core.legible import cut, line, stable
from jupyter_agent.core.markdown import code_fence, inert
from jupyter_agent.core.messages import JsonObject, clean, is_bitmap
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.core.transcript import CallView, StepView, TurnView, is_rich
from jupyter_agent.core.wording import (
    MARKS,
    PLAN_MARKS,
    Piece,
    asked_about,
    body,
    changes,
    ending,
    foreseen_by_code,
    in_words,
    is_figure,
    note_with_state,
    numbers,
    outcome,
    pieces,
    question_of,
    shown,
    shown_body,
    summary,
    troubles,
    unseen,
    weakly_seen,
)
from jupyter_agent.widgets.html_text import coloured, escaped, in_text, prose, table

HTML_LIMIT, HTML_TOTAL = 10_000, 450_000
"""Characters of one output in the HTML transcript, and of all outputs together."""
COLOURED_LIMIT = 2_000
"""Code has colours if each text may have so many characters: in turns of up to some 50 calls.
Colours need as much room again, and time at the end of a turn."""
ASKED_LIMIT = 100_000
"""Characters of one code or command that the user was asked about."""
TEXT_LIMIT, TEXT_TOTAL = 1_000, 75_000
"""Characters of one output in the plain and the Markdown transcript, and of all together."""

_LINE = "rgba(128,128,128,.3)"
_CARD = f"border:1px solid {_LINE};border-radius:5px;padding:2px 8px;margin:4px 0"
_OUTER = f"border:1px solid {_LINE};border-radius:6px;padding:4px 10px;font-size:13px"
_WRAPPED = "white-space:pre-wrap;overflow-wrap:break-word;word-break:normal"
_PRE = f"margin:4px 0;{_WRAPPED};font-family:monospace;font-size:12px"
_OUT = f"{_PRE};padding:4px 8px;background:rgba(128,128,128,.08)"
_FAILED = f"{_OUT};border-left:3px solid rgba(220,70,70,.6)"
_WORDS = f"margin:6px 0;{_WRAPPED};font-family:inherit;font-size:13px;line-height:1.45"
_PROSE = "margin:6px 0;overflow-wrap:break-word;font-size:13px;line-height:1.45"
_ITEM = "margin-right:14px"
_SMALL = "margin:4px 0;opacity:.8;font-size:12px;overflow-wrap:break-word"
_SUMMARY = "cursor:pointer;overflow-wrap:break-word"
_GIST = "background:none;padding:0;opacity:.75"
_TALL = "max-height:400px;overflow:auto"
"""Of a table that was displayed: it scrolls."""
_TINTS = {"+": "rgba(46,160,67,.18)", "-": "rgba(220,70,70,.18)"}
_END_OF_WIDGETS = "Widgets end with their kernel. Unfold to see what they showed at first."


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """One `display_data` output of a notebook: a MIME bundle and its metadata."""

    data: JsonObject
    metadata: JsonObject = field(default_factory=dict)


def saved_outputs(view: TurnView) -> list[SavedOutput]:
    """The transcript, then the rich displays of the agent's code, then the answer.

    Attempts that were not taken have their displays as text, in the transcript.
    """
    if view.attempt:
        own = view.attempt
        steps = (step if step.attempt == own else in_words(step) for step in view.steps)
        view = replace(view, steps=tuple(steps))
    displays = list(_displays(view))
    outputs = [_transcript(view), *displays, *_widgets_in_words(displays)]
    answer = inert(stable(view.answer))
    if answer.strip():
        outputs.append(SavedOutput({"text/markdown": answer, "text/plain": answer}))
    return outputs


def plain_transcript(view: TurnView) -> str:
    """The transcript as plain text, the answer below it."""
    return "\n".join([*_plain(view), *(["", stable(view.answer)] if view.answer else [])])


def running_html(view: TurnView) -> str:
    """The unfolded transcript of a running turn, for front ends without the widget."""
    return "".join(_html(view, running=True))


def running_line(view: TurnView) -> str:
    """The current activity of a running turn, in one line."""
    step = f"step {view.steps[-1].number} of {view.max_steps}" if view.steps else "starting"
    call = next((call for call in reversed(view.calls) if call.result is None), None)
    doing = line(call.name) if call else ""
    if not doing and view.steps:
        doing = line(view.steps[-1].preparing)
    return f"Agent: {step}" + (f" · {doing}" if doing else "")


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
        "receipt": view.receipt.as_json(),
        "notices": [notice.text for notice in view.notices if notice.lasting],
    }
    if volatile := view.receipt.volatile():
        facts["volatile"] = volatile
    return SavedOutput(data, {"jupyter_agent": _safe(json.loads(json.dumps(facts)))})


def _displays(view: TurnView) -> Iterator[SavedOutput]:
    limit = _share(view, HTML_LIMIT, HTML_TOTAL)
    rich = (
        replace(
            output,
            data={kind: _stored(kind, value, limit) for kind, value in output.data.items()},
            metadata=_safe(output.metadata),
        )
        for call in view.calls
        for output in (call.result.display if call.result else ())
        if is_rich(output)
    )
    for output in shown_displays(rich):
        data = output.data
        if is_frame(output):
            data = {**data, "text/html": f'<div style="{_TALL}">{data["text/html"]}</div>'}
        yield SavedOutput(data, output.metadata)


def _widgets_in_words(displays: Sequence[SavedOutput]) -> Iterator[SavedOutput]:
    """A folded line below the turn's widgets: JupyterLab shows an error in their place later.

    It stores no state of widgets by default, and has no other form of an output that it knows.
    """
    widgets = [output.data for output in displays if WIDGET in output.data]
    if not widgets:
        return
    plain = [stable(str(data.get("text/plain", ""))) for data in widgets]
    inside = "".join(
        str(data.get("text/html") or f"<div><code>{escaped(words)}</code></div>")
        for data, words in zip(widgets, plain, strict=True)
    )
    markup = (
        f'<details style="{_SMALL}"><summary style="{_SUMMARY}">{_END_OF_WIDGETS}</summary>'
        f"{inside}</details>"
    )
    yield SavedOutput({"text/html": markup, "text/plain": _END_OF_WIDGETS})


def _stored(kind: str, value: Any, limit: int) -> Any:
    if kind == "text/plain" and isinstance(value, str):
        return cut(value, limit)
    if is_bitmap(kind):
        return value  # base64: no words, and too long to search
    return _safe(value)


def _safe(value: Any) -> Any:
    """The value without secrets, and storable."""
    text = json.dumps(redact_json(value, secret_values()), ensure_ascii=False)
    return json.loads(clean(text))


# HTML: inline styles only, and colours that are legible on white and on black. The texts come from
# `html_text`, which escapes them. Folded: the steps. In sight: the plan, what went wrong, the end.


def _html(view: TurnView, running: bool = False) -> Iterator[str]:
    limit = _share(view, HTML_LIMIT, HTML_TOTAL)
    heading = running_line(view).removeprefix("Agent: ") if running else summary(view)
    yield f'<details{" open" if running else ""} style="{_OUTER}"><summary style="{_SUMMARY}">'
    yield f"<b>Agent</b> &nbsp;{_inline(heading, limit)}</summary>"
    for notice in _notices(view, running):
        yield f'<div style="margin:6px 0"><i>{_inline(notice, limit)}</i></div>'
    for step in view.shown_steps:
        is_answer = step is view.answer_step and not running
        yield from _html_step(step, is_answer, limit)
    changed = " · ".join(
        f"<code>{_escape(name, limit)}</code> {_inline(words, limit)}"
        for name, words in changes(view.receipt)
    )
    if changed:
        yield f'<div style="margin:6px 0 2px;opacity:.8"><b>Changed</b> &nbsp;{changed}</div>'
    places = _listed(view, lambda text: f"<code>{_escape(text, limit)}</code>")
    if places:
        yield f'<div style="{_SMALL}"><b>Numbers</b> &nbsp;{places}</div>'
    yield "</details>"
    if view.plan:
        items = (f"{PLAN_MARKS[item.state]} {_inline(item.text, limit)}" for item in view.plan)
        spans = "".join(f'<span style="{_ITEM}">{item}</span> ' for item in items)
        yield f'<div style="margin:4px 0 4px 11px;font-size:13px">{spans}</div>'
    for last in _below(view, running):
        yield f'<div style="margin:6px 0"><i>{_inline(last, limit)}</i></div>'


def _notices(view: TurnView, running: bool = False, in_sight: bool = False) -> Iterator[str]:
    """The notices about the surroundings; those that do not last only while the turn runs."""
    return (
        stable(notice.text)
        for notice in view.notices
        if (notice.lasting or running) and notice.in_sight == in_sight
    )


def _below(view: TurnView, running: bool = False) -> Iterator[str]:
    """The lines below the transcript, which stay visible when it is folded."""
    yield from _notices(view, running, in_sight=True)
    found = (ending(view), troubles(view), unseen(view.receipt), *weakly_seen(view.receipt))
    yield from filter(None, found)


def _listed(view: TurnView, shown_as: Callable[[str], str]) -> str:
    """The sources of the answer's numbers."""
    return " · ".join(f"{shown_as(text)} {where}" for text, where in numbers(view.receipt))


def _html_step(step: StepView, is_answer: bool, limit: int) -> Iterator[str]:
    for text in step.said:
        yield f'<pre style="{_WORDS}"><b>You:</b> {_escape(text, limit)}</pre>'
    if step.thinking:
        yield f'<details style="margin:4px 0;opacity:.75"><summary style="{_SUMMARY}">Thinking'
        yield f'</summary><pre style="{_WORDS}">{_escape(step.thinking, limit)}</pre></details>'
    for notice in step.notices:
        yield f'<div style="margin:6px 0"><i>{_inline(notice, limit)}</i></div>'
    if step.text and not is_answer:
        yield f'<div style="{_PROSE}">{_bounded(prose, step.text, limit)}</div>'
    for call in step.calls:
        yield from _html_call(call, limit)


def _html_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {_inline(note_with_state(call), limit)}" if note_with_state(call) else ""
    yield f'<details style="{_CARD}"><summary style="{_SUMMARY}">'
    yield f"<code><b>{_escape(line(call.name), limit)}</b></code>"
    if gist := call.gist:
        yield f' <code style="{_GIST}">{_escape(gist, limit)}</code>'
    came = f" &nbsp;→ {_inline(outcome(call), limit)}" if outcome(call) else ""
    yield f" &nbsp;{MARKS[call.state]}{words}{came}</summary>"
    if question := asked_about(call):
        yield f'<div style="{_SMALL}">{_inline(question, limit)}</div>'
    if wanted := body(call):
        paint = coloured if call.is_code and limit >= COLOURED_LIMIT else escaped
        asked = call.asked is not None
        inside = paint(_asked(call, limit)) if asked else _bounded(paint, wanted, limit)
        yield f'<pre style="{_PRE}">{inside}</pre>'
    for diff, text in foreseen_by_code(call):
        yield f'<details style="{_SMALL}"><summary style="{_SUMMARY}">'
        yield f"<code>{_escape(line(diff.title), limit)}</code> {diff.counts}</summary>"
        yield f'<pre style="{_OUT}">{_tinted(_escape(text, limit), 2 * limit)}</pre></details>'
    if call.result is None and call.output:
        yield f'<pre style="{_OUT}">{_escape(call.output, limit)}</pre>'
    for piece in pieces(call):
        yield _html_piece(piece, limit)
    if call.delegate is not None:
        yield from _html_delegate(call.delegate, limit)
    yield "</details>"


def _html_delegate(view: TurnView, limit: int) -> Iterator[str]:
    """The conversation of a delegate, folded; what it displayed is text there."""
    yield f'<details style="{_SMALL}"><summary style="{_SUMMARY}">Its steps</summary>'
    for notice in view.notices:
        yield f'<div style="margin:6px 0"><i>{_inline(notice.text, limit)}</i></div>'
    for step in view.steps:
        yield from _html_step(in_words(step), step is view.answer_step, limit)
    yield "</details>"


def _html_piece(piece: Piece, limit: int) -> str:
    """A text of a result; a table as one, and for what is shown below the transcript its place."""
    if piece.output is not None and is_rich(piece.output):
        is_table = is_frame(piece.output)
        what = "figure" if is_figure(piece.output) else "table" if is_table else "display"
        return f'<div style="{_SMALL}">[{what}: below the steps]</div>'
    if piece.output is not None and (frame := table_of(piece.output)):
        return table(frame, limit)
    text = _escape(piece.text, limit)
    inside = _tinted(text, 2 * limit) if piece.kind == "diff" else text
    return f'<pre style="{_FAILED if piece.kind == "error" else _OUT}">{inside}</pre>'


def _asked(call: CallView, limit: int) -> str:
    """What the user was asked about: all of it, unless it is long enough to burden the notebook."""
    return shown_body(call, limit, ASKED_LIMIT)


def _gist(call: CallView) -> str:
    """The call's gist, unless it is a question, which stands above."""
    return "" if asked_about(call) and question_of(call) else call.gist


def _tinted(diff: str, room: int) -> str:
    """A diff whose added and removed lines, below its head, have a background colour."""
    head, at, rest = diff.partition("\n@@")
    if not at:
        return diff
    parts = [head]
    for sign, lines in groupby(("@@" + rest).split("\n"), lambda text: text[:1]):
        run = "\n".join(lines)
        tint = _TINTS.get(sign)
        parts.append(f'<span style="background:{tint}">{run}</span>' if tint else run)
    tinted = "\n".join(parts)
    return tinted if len(tinted) - len(diff) <= room else diff


def _share(view: TurnView, most: int, total: int) -> int:
    """Characters for one text of a turn, so that all of them stay within the total."""
    calls = [call for step in view.shown_steps for call in step.calls]
    delegates = [call.delegate for call in calls if call.delegate is not None]
    steps = [*view.shown_steps, *(step for each in delegates for step in each.steps)]
    calls = [call for step in steps for call in step.calls]
    texts = sum(1 + len(shown(call)) + len(foreseen_by_code(call)) for call in calls)
    texts += sum(2 + len(step.said) for step in steps)
    return max(200, min(most, total // max(1, texts)))


def _escape(text: str, limit: int) -> str:
    return _bounded(escaped, text, limit)


def _inline(text: str, limit: int) -> str:
    """Foreign text outside of <pre> and <code>."""
    return _bounded(in_text, text, limit)


def _bounded(made: Callable[[str], str], text: str, limit: int) -> str:
    """HTML made of a text, shortened so that it has about two times `limit` characters at most."""
    whole = made(cut(text, limit))
    if len(whole) <= 2 * limit:
        return whole
    if made is coloured:
        return _escape(text, limit)
    # Mostly markup, which escaping makes longer.
    return made(cut(text, limit * limit // len(whole)))


# Plain text: for terminals, and for whatever shows no HTML.


def _plain(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"Agent: {stable(summary(view))}"
    yield from (f"  {PLAN_MARKS[item.state]} {line(item.text, 200)}" for item in view.plan)
    yield from (f"  {_indented(notice, 2, limit)}" for notice in _notices(view))
    for step in view.shown_steps:
        yield from _plain_step(step, step is view.answer_step, limit)
    changed = [stable(f"{name} {words}") for name, words in changes(view.receipt)]
    if changed:
        yield "  Changed: " + " · ".join(changed)
    if places := _listed(view, str):
        yield f"  Numbers: {stable(places)}"
    yield from (f"  {stable(last)}" for last in _below(view))


def _plain_step(step: StepView, is_answer: bool, limit: int) -> Iterator[str]:
    yield from (f"  {step.number}. You: {_indented(t, 5, limit)}" for t in step.said)
    if step.thinking:
        yield f"  {step.number}. (thinking) {_indented(step.thinking, 5, limit)}"
    yield from (f"  {step.number}. {_indented(n, 5, limit)}" for n in step.notices)
    if step.text and not is_answer:
        yield f"  {step.number}. {_indented(step.text, 5, limit)}"
    for call in step.calls:
        yield from _plain_call(call, limit)


def _plain_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {stable(note_with_state(call))}" if note_with_state(call) else ""
    came = f" → {line(outcome(call))}" if outcome(call) else ""
    yield f"     {MARKS[call.state]} {line(call.name)}{words}{came}"
    if question := asked_about(call):
        yield f"         {_indented(question, 9, limit)}"
    if wanted := _asked(call, limit) or _gist(call):
        yield "         " + wanted.replace("\n", "\n" + " " * 9)
    for diff, _ in foreseen_by_code(call):
        yield f"         {line(diff.title)} {diff.counts}"
    for text in shown(call):
        yield f"         │ {_indented(text, 9, limit, '│ ')}"
    if (its := call.delegate) is not None:
        yield from (f"         {_indented(each.text, 9, limit)}" for each in its.notices)
        for step in its.steps:
            lines = _plain_step(in_words(step), step is its.answer_step, limit)
            yield from (f"       {_indented(each, 7, 2 * limit)}" for each in lines)


def _indented(text: str, columns: int, limit: int, mark: str = "") -> str:
    return cut(text, limit).replace("\n", "\n" + " " * columns + mark)


# Markdown: for converters that prefer it.


def _markdown(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"**Agent** {inert(stable(summary(view)))}\n"
    yield from (f"\n{PLAN_MARKS[item.state]} {inert(line(item.text, 200))}\n" for item in view.plan)
    yield from (f"\n*{inert(line(notice, 300))}*\n" for notice in _notices(view))
    for step in view.shown_steps:
        yield from _markdown_step(step, step is view.answer_step, limit)
    changed = " · ".join(f"{_span(name)} {words}" for name, words in changes(view.receipt))
    if changed:
        yield f"\n**Changed** {inert(stable(changed))}\n"
    if places := _listed(view, _span):
        yield f"\n**Numbers** {inert(stable(places))}\n"
    for last in _below(view):
        yield f"\n*{inert(stable(last))}*\n"


def _markdown_step(step: StepView, is_answer: bool, limit: int) -> Iterator[str]:
    yield from (_quoted("**You:** ", text, limit) for text in step.said)
    yield from (f"\n*{inert(line(notice, 300))}*\n" for notice in step.notices)
    if step.text and not is_answer:
        yield _quoted("", step.text, 10 * limit)
    for call in step.calls:
        yield from _markdown_call(call, limit)


def _markdown_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {inert(stable(note_with_state(call)))}" if note_with_state(call) else ""
    came = f" → {inert(line(outcome(call)))}" if outcome(call) else ""
    yield f"\n{_span(call.name)} {MARKS[call.state]}{words}{came}\n"
    if question := asked_about(call):
        yield f"\n{inert(line(question, 300))}\n"
    if wanted := _asked(call, limit) or _gist(call):
        yield _fence(wanted, "python" if call.is_code else "")
    for _, text in foreseen_by_code(call):
        yield _fenced(text, limit, "diff")
    for piece in pieces(call):
        yield _fenced(piece.text, limit, "diff" if piece.kind == "diff" else "")
    if call.delegate is not None:
        yield _markdown_delegate(call.delegate, limit)


def _markdown_delegate(view: TurnView, limit: int) -> str:
    """The conversation of a delegate in a quotation, so that it is seen whose steps they are."""
    parts = ["*Its steps*\n"]
    parts += (f"\n*{inert(line(notice.text, 300))}*\n" for notice in view.notices)
    for step in view.steps:
        parts += _markdown_step(in_words(step), step is view.answer_step, limit)
    lines = "".join(parts).strip("\n").split("\n")
    return "\n" + "\n".join(f"> {each}".rstrip(" ") for each in lines) + "\n"


def _quoted(opening: str, text: str, limit: int) -> str:
    """Text in a quotation, which ends any block that the text leaves open."""
    words = inert(cut(text, limit)).split("\n")
    return "\n" + "\n".join(f"> {each}" for each in [opening + words[0], *words[1:]]) + "\n"


def _span(text: str) -> str:
    return "`" + inert(line(text).replace("`", "'")) + "`"


def _fenced(text: str, limit: int, language: str = "") -> str:
    return _fence(cut(text, limit), language)


def _fence(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    text = inert("```\n" + text)[4:]
    ticks = code_fence(text)
    return f"\n{ticks}{language}\n{text}\n{ticks}\n"
