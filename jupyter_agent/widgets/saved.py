"""The saved form of a turn: ordinary notebook outputs that need no widget and no kernel.

A pure function of the view, with nothing volatile in it: a recorded turn and its replay give the
same bytes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from jupyter_agent.core.displays import shown_displays
from jupyter_agent.core.legible import cut, line, stable
from jupyter_agent.core.markdown import code_fence, inert
from jupyter_agent.core.messages import JsonObject, clean, is_bitmap
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.core.transcript import CallView, StepView, TurnView, is_rich
from jupyter_agent.core.wording import (
    MARKS,
    PLAN_MARKS,
    asked_about,
    body,
    changes,
    ending,
    is_code,
    note_with_state,
    numbers,
    pieces,
    shown,
    shown_body,
    summary,
    unseen,
)

HTML_LIMIT, HTML_TOTAL = 10_000, 450_000
"""Characters of one output in the HTML transcript, and of all outputs together."""
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
_SMALL = "margin:4px 0;opacity:.8;font-size:12px;overflow-wrap:break-word"
_SUMMARY = "cursor:pointer;overflow-wrap:break-word"
_GIST = "background:none;padding:0;opacity:.75"
_TINTS = {"+": "rgba(46,160,67,.18)", "-": "rgba(220,70,70,.18)"}
_BLANK_LINE = re.compile(r"\n(?=[ \t]*\n)")
_MATH = re.compile(r"[$\\]")


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """One `display_data` output of a notebook: a MIME bundle and its metadata."""

    data: JsonObject
    metadata: JsonObject = field(default_factory=dict)


def saved_outputs(view: TurnView) -> list[SavedOutput]:
    """The transcript, then the rich displays of the agent's code, then the answer."""
    outputs = [_transcript(view), *_displays(view)]
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
    return f"Agent: {step}" + (f" · {line(call.call.name)}" if call else "")


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
        yield SavedOutput(output.data, output.metadata)


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


# HTML: inline styles only, no text colours of its own, everything escaped. What others wrote stands
# in <pre> and <code>, which MathJax leaves alone, or has its delimiters apart. No line is blank:
# in a Markdown file, as nbconvert makes one, HTML ends at the first blank line.


def _html(view: TurnView, running: bool = False) -> Iterator[str]:
    limit = _share(view, HTML_LIMIT, HTML_TOTAL)
    heading = running_line(view).removeprefix("Agent: ") if running else summary(view)
    yield f'<details{" open" if running else ""} style="{_OUTER}"><summary style="{_SUMMARY}">'
    yield f"<b>Agent</b> &nbsp;{_inline(heading, limit)}</summary>"
    for item in view.plan:
        yield f"<div>{PLAN_MARKS[item.state]} {_inline(item.text, limit)}</div>"
    for notice in _notices(view, running):
        yield f'<div style="margin:6px 0"><i>{_inline(notice, limit)}</i></div>'
    for step in view.steps:
        is_answer = step is view.steps[-1] and not step.calls and not running
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
    yield from filter(None, (ending(view), unseen(view.receipt)))


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
        yield f'<pre style="{_WORDS}">{_escape(step.text, limit)}</pre>'
    for call in step.calls:
        yield from _html_call(call, limit)


def _html_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {_inline(note_with_state(call), limit)}" if note_with_state(call) else ""
    yield f'<details style="{_CARD}"><summary style="{_SUMMARY}">'
    yield f"<code><b>{_escape(line(call.call.name), limit)}</b></code>"
    if gist := call.gist:
        yield f' <code style="{_GIST}">{_escape(gist, limit)}</code>'
    yield f" &nbsp;{MARKS[call.state]}{words}</summary>"
    if question := asked_about(call):
        yield f'<div style="{_SMALL}">{_inline(question, limit)}</div>'
    if wanted := body(call):
        inside = _escape(wanted, limit) if call.asked is None else _escaped(_asked(call, limit))
        yield f'<pre style="{_PRE}">{inside}</pre>'
    if call.result is None and call.output:
        yield f'<pre style="{_OUT}">{_escape(call.output, limit)}</pre>'
    for kind, text in pieces(call):
        escaped = _escape(text, limit)
        inside = _tinted(escaped, 2 * limit) if kind == "diff" else escaped
        yield f'<pre style="{_FAILED if kind == "error" else _OUT}">{inside}</pre>'
    yield "</details>"


def _asked(call: CallView, limit: int) -> str:
    """What the user was asked about: all of it, unless it is long enough to burden the notebook."""
    return shown_body(call, limit, ASKED_LIMIT)


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
    texts = sum(1 + len(shown(call)) for call in view.calls) + 2 * len(view.steps)
    texts += sum(len(step.said) for step in view.steps)
    return max(200, min(most, total // max(1, texts)))


def _escape(text: str, limit: int) -> str:
    return _bounded(_escaped, text, limit)


def _inline(text: str, limit: int) -> str:
    """Foreign text outside of <pre> and <code>: MathJax must not find its delimiters."""
    return _bounded(lambda t: _MATH.sub(r"<span>\g<0></span>", _escaped(t)), text, limit)


def _escaped(text: str) -> str:
    return _BLANK_LINE.sub("&#10;", html.escape(text))


def _bounded(escaped: Callable[[str], str], text: str, limit: int) -> str:
    whole = escaped(cut(text, limit))
    if len(whole) > 2 * limit:  # mostly markup, which escaping makes longer
        return escaped(cut(text, limit * limit // len(whole)))
    return whole


# Plain text: for terminals, and for whatever shows no HTML.


def _plain(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"Agent: {stable(summary(view))}"
    yield from (f"  {PLAN_MARKS[item.state]} {line(item.text, 200)}" for item in view.plan)
    yield from (f"  {_indented(notice, 2, limit)}" for notice in _notices(view))
    for step in view.steps:
        yield from (f"  {step.number}. You: {_indented(t, 5, limit)}" for t in step.said)
        if step.thinking:
            yield f"  {step.number}. (thinking) {_indented(step.thinking, 5, limit)}"
        yield from (f"  {step.number}. {_indented(n, 5, limit)}" for n in step.notices)
        if step.text and (step.calls or step is not view.steps[-1]):
            yield f"  {step.number}. {_indented(step.text, 5, limit)}"
        for call in step.calls:
            yield from _plain_call(call, limit)
    changed = [stable(f"{name} {words}") for name, words in changes(view.receipt)]
    if changed:
        yield "  Changed: " + " · ".join(changed)
    if places := _listed(view, str):
        yield f"  Numbers: {stable(places)}"
    yield from (f"  {stable(last)}" for last in _below(view))


def _plain_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {stable(note_with_state(call))}" if note_with_state(call) else ""
    yield f"     {MARKS[call.state]} {line(call.call.name)}{words}"
    if question := asked_about(call):
        yield f"         {_indented(question, 9, limit)}"
    if wanted := _asked(call, limit) or call.gist:
        yield "         " + wanted.replace("\n", "\n" + " " * 9)
    for text in shown(call):
        yield f"         │ {_indented(text, 9, limit, '│ ')}"


def _indented(text: str, columns: int, limit: int, mark: str = "") -> str:
    return cut(text, limit).replace("\n", "\n" + " " * columns + mark)


# Markdown: for converters that prefer it.


def _markdown(view: TurnView) -> Iterator[str]:
    limit = _share(view, TEXT_LIMIT, TEXT_TOTAL)
    yield f"**Agent** {inert(stable(summary(view)))}\n"
    yield from (f"\n{PLAN_MARKS[item.state]} {inert(line(item.text, 200))}\n" for item in view.plan)
    yield from (f"\n*{inert(line(notice, 300))}*\n" for notice in _notices(view))
    for step in view.steps:
        yield from (_quoted("**You:** ", text, limit) for text in step.said)
        yield from (f"\n*{inert(line(notice, 300))}*\n" for notice in step.notices)
        if step.text and (step.calls or step is not view.steps[-1]):
            yield _quoted("", step.text, 10 * limit)
        for call in step.calls:
            yield from _markdown_call(call, limit)
    changed = " · ".join(f"{_span(name)} {words}" for name, words in changes(view.receipt))
    if changed:
        yield f"\n**Changed** {inert(stable(changed))}\n"
    if places := _listed(view, _span):
        yield f"\n**Numbers** {inert(stable(places))}\n"
    for last in _below(view):
        yield f"\n*{inert(stable(last))}*\n"


def _markdown_call(call: CallView, limit: int) -> Iterator[str]:
    words = f" {inert(stable(note_with_state(call)))}" if note_with_state(call) else ""
    yield f"\n{_span(call.call.name)} {MARKS[call.state]}{words}\n"
    if question := asked_about(call):
        yield f"\n{inert(line(question, 300))}\n"
    if wanted := _asked(call, limit) or call.gist:
        yield _fence(wanted, "python" if is_code(call) else "")
    for kind, text in pieces(call):
        yield _fenced(text, limit, "diff" if kind == "diff" else "")


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
