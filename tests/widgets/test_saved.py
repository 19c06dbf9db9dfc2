"""The saved form: inert whatever is in it, without secrets, bounded, the same bytes each time."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import mistune
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from jupyter_agent.events import (
    Event,
    FileChange,
    MessageFinished,
    Receipt,
    Retrying,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    TurnStop,
    VariableChange,
)
from jupyter_agent.messages import (
    Message,
    Output,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from jupyter_agent.widgets.saved import SavedOutput, plain_transcript, saved_outputs
from jupyter_agent.widgets.transcript import TurnView, reduce

KEY = "sk-" + "ant-" + "Abc1" * 8
TAGS = frozenset({"details", "summary", "div", "pre", "code", "b", "i"})

FIELDS = [
    "task",
    "model",
    "text",
    "thinking",
    "name",
    "arguments",
    "output",
    "result",
    "error",
    "error_name",
    "diff",
    "file",
    "variable",
    "summary",
    "reason",
    "answer",
]

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "event": '<img src=x onerror="alert(1)">',
    "attribute": "\" onmouseover='alert(1)' style=\"x",
    "link": "[x](javascript:alert(1)) <a href='javascript:alert(1)'>x</a>",
    "details": "</summary></details></details></div><script>1</script>",
    "pre": "</code></pre><iframe src=//x></iframe><pre>",
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x9b1m",
    "direction": "abc\u202edcba\u2066\u2069\u200f",
    "surrogate": "a\ud800b\udfff",
    "line": "x" * 1_000_000,
    "NUL": "a\0b\x07\x08\x7f\x85",
    "fence": "```\n<script>1</script>\n```\n````\n~~~\n<img onerror=x>",
    "spans": "`a` ``b`` `<script>1</script>` ` <img onerror=x>",
    "paragraphs": "a\n\n<script>alert(1)</script>\n\n# b\r\n<img onerror=x>",
    "comment": "<!-- --><script>1</script><!--",
    "brackets": "[" * 20_000,
    "blank": " \n\t ",
    "nothing": "",
}


def turn(**fields: Any) -> list[Event]:
    """The events of one turn that shows something of each kind."""
    f: dict[str, Any] = dict.fromkeys(FIELDS, "ok")
    f |= {"stop": "end", "display": (), "is_error": True} | fields
    calls = [
        ToolCall("c1", f["name"], f["arguments"]),
        ToolCall("c2", "execute_code", json.dumps({"code": f["arguments"]})),
        ToolCall("c3", f["name"], json.dumps({f["arguments"]: f["arguments"]})),
        ToolCall("c4", "write_file", json.dumps({"path": f["file"], "content": f["output"]})),
    ]
    streams = tuple(
        Output(kind, {"text/plain": f["output"]}) for kind in ("stdout", "stderr", "result")
    )
    shown = (*streams, Output("error", {"text/plain": f["error"]}), *f["display"])
    details = {"error_name": f["error_name"]}
    results = [
        ToolResult("c1", (Text(f["result"]),), f["is_error"]),
        ToolResult("c2", (Text(f["output"]),), f["is_error"], shown, details),
        ToolResult("c3", (Text(f["error"]),), True),
        ToolResult("c4", (Text("ok"),), False, (Output("diff", {"text/plain": f["diff"]}),)),
    ]
    receipt = Receipt(
        (VariableChange(f["variable"], "added", f["summary"]),),
        (FileChange(f["file"], "created", 3, 1),),
    )
    message = Message("assistant", (Thinking(f["thinking"]), Text(f["text"]), *calls))
    last = Message("assistant", (Text(f["answer"]),))
    return [
        TurnStarted(f["task"], "anthropic", f["model"]),
        StepStarted(1, 5),
        Retrying(f["reason"], 1, 0.5),
        MessageFinished(message, Usage(100, 10), "tool_use"),
        *(ToolStarted(call) for call in calls),
        *(ToolFinished(result, 0.1) for result in results),
        StepStarted(2, 5),
        MessageFinished(last, Usage(200, 20), "end"),
        TurnFinished(f["stop"], Usage(300, 30), receipt, f["error"]),
    ]


def view_of(events: list[Event]) -> TurnView:
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    return view


def saved(**fields: Any) -> list[SavedOutput]:
    return saved_outputs(view_of(turn(**fields)))


class Inert(HTMLParser):
    """Fails on anything but our own tags, styles and balanced nesting."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= {"style", "open"}, attrs
        styles = " ".join(value or "" for _, value in attrs)
        assert "url(" not in styles and "expression" not in styles
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    handle_decl = unknown_decl = handle_pi = handle_comment


class InertMarkdown(HTMLParser):
    """Fails on scripts, pictures, frames, events and script addresses."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "img", "iframe", "style", "svg", "object", "embed"}, tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert not (value or "").strip().lower().startswith(("javascript:", "data:")), value

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")


def check_html(html: str) -> None:
    parser = Inert()
    parser.feed(html)
    parser.close()
    assert parser.open == []


def check_markdown(markdown: str, renderers: list[Callable[[str], Any]]) -> None:
    for render in renderers:
        parser = InertMarkdown()
        parser.feed(str(render(markdown)))
        parser.close()


def check_plain(text: str) -> None:
    bad = {c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"}
    assert not bad, bad
    assert not {c for c in text if c in "\u202a\u202b\u202d\u202e\u2066\u2067\u2069\u200f"}


def check(outputs: list[SavedOutput]) -> None:
    renderers = [
        MarkdownIt("gfm-like", {"html": True, "linkify": False}).render,
        mistune.create_markdown(escape=False, plugins=["table"]),
    ]
    for output in outputs:
        for text in output.data.values():
            text.encode("utf-8")
        if "text/html" in output.data:
            check_html(output.data["text/html"])
        check_markdown(output.data["text/markdown"], renderers)
        check_plain(output.data["text/plain"])
        json.dumps(output.metadata, allow_nan=False).encode("utf-8")


# ---------------------------------------------------------------- hostile words


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words(kind: str, field: str) -> None:
    """Only our own tags in the HTML, nothing active in the Markdown, no controls in the text."""
    check(saved(**{field: HOSTILE[kind]}))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words_in_every_field(kind: str) -> None:
    """The same in all of them at once, also in the transcript for terminals."""
    view = view_of(turn(**dict.fromkeys(FIELDS, HOSTILE[kind])))
    check(saved_outputs(view))
    check_plain(plain_transcript(view))


SHORT = [text for text in HOSTILE.values() if len(text) < 1000]
hostile_text = st.lists(st.sampled_from(SHORT) | st.text(max_size=9), max_size=4).map("".join)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, hostile_text)))
@settings(max_examples=40, deadline=None)
def test_any_mixture_of_hostile_words(fields: dict[str, str]) -> None:
    """Whatever stands where: no active content, no control characters."""
    check(saved(**fields))


def test_words_are_legible() -> None:
    """What was escaped for HTML reads as it was written."""
    html = saved(text="a < b & 'c'")[0].data["text/html"]
    assert "a &lt; b &amp; &#x27;c&#x27;" in html


# ---------------------------------------------------------------- secrets, addresses, size


@pytest.mark.parametrize("field", FIELDS)
def test_secrets_are_redacted(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys of a known shape nor values of the environment, in any field."""
    value = "hunter2" * 2
    monkeypatch.setenv("DB_PASSWORD", value)
    outputs = saved(**{field: f"a {KEY} b {value} c"})
    text = json.dumps([[dict(o.data), dict(o.metadata)] for o in outputs])
    assert KEY not in text
    assert value not in text


@pytest.mark.parametrize("place", [6_600, 6_640, 6_656, 9_990, 640, 655, 660])
def test_a_secret_where_the_text_is_cut(place: int) -> None:
    """Leaving out the middle of a text does not leave half of a key, from which it escapes."""
    text = "x " * (place // 2) + KEY + " y" * 20_000
    shown = "".join(str(v) for o in saved(output=text, text=text) for v in o.data.values())
    assert KEY[:20] not in shown
    tail = "y " * 20_000 + KEY + " x" * ((10_000 // 3 - place % 40) // 2)
    shown = "".join(str(v) for o in saved(output=tail, text=tail) for v in o.data.values())
    assert KEY[-16:] not in shown


def test_secrets_in_displays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table or a chart that shows a key does not carry it into the notebook."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2" * 2)
    data = {
        "text/html": f"<td>{KEY}</td>",
        "application/json": {"key": [KEY, "hunter2" * 2]},
        "text/markdown": f"`{KEY}`",
        "text/plain": KEY,
    }
    outputs = saved(display=(Output("display", data, {"note": KEY}),))
    text = json.dumps([[dict(o.data), dict(o.metadata)] for o in outputs])
    assert KEY not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("field", ["output", "error", "text", "answer", "result", "diff"])
def test_addresses_are_normalized(field: str) -> None:
    """A memory address differs in each run, so it is left out."""
    one, two = (saved(**{field: f"<a.B object at {x}>"}) for x in ("0x7f3d561bf430", "0x55d0a1b2"))
    assert one == two
    assert "0x…" in json.dumps([dict(o.data) for o in one], ensure_ascii=False)


def test_addresses_in_displays() -> None:
    """The text of a figure as well."""
    data = {"image/png": "AA==", "text/plain": "<Figure at 0x7f3d561bf430>"}
    figure = saved(display=(Output("display", data),))[1]
    assert figure.data == {"image/png": "AA==", "text/plain": "<Figure at 0x…>"}


def many_outputs(kind: Any, character: str, count: int = 100) -> list[SavedOutput]:
    text = character * 1_000_000
    output = Output(kind, {"text/plain": text})
    events = turn()[:3]
    calls = [ToolCall(f"c{n}", "execute_code", '{"code": "x"}') for n in range(count)]
    events.append(MessageFinished(Message("assistant", tuple(calls)), Usage(), "tool_use"))
    for call in calls:
        result = ToolResult(call.id, (Text("ok"),), False, (output,))
        events.append(ToolFinished(result, 0.1))
    return saved_outputs(view_of([*events, TurnFinished("end", Usage())]))


@pytest.mark.parametrize("character", ["x", "a\n", "ü", "<", '"', "\x1b[31m", "`"])
def test_a_hundred_large_outputs(character: str) -> None:
    """100 outputs of 1 MB make a notebook of less than 2 MB."""
    outputs = many_outputs("stdout", character)
    size = sum(len(text.encode()) for o in outputs for text in o.data.values())
    assert size < 2_000_000


def test_a_hundred_large_displays_of_text() -> None:
    """Text that was displayed is bounded like text that was printed."""
    outputs = many_outputs("display", "x")
    size = sum(len(text.encode()) for o in outputs for text in o.data.values())
    assert size < 2_000_000


def test_what_is_left_out_is_said() -> None:
    """A cut text says how many characters are missing."""
    html = saved(output="x" * 50_000)[0].data["text/html"]
    assert "40,001 characters left out" in html or "40,000 characters left out" in html


# ---------------------------------------------------------------- what is published

TABLE = Output("result", {"text/html": "<table>", "text/plain": "a  b"})
FIGURE = Output("display", {"image/png": "AA==", "text/plain": "<Figure>"}, {"width": 3})
CHART = Output("result", {"application/vnd.plotly.v1+json": {}, "text/plain": "Figure"})
NOTE = Output("display", {"text/plain": "hello"})


@pytest.mark.parametrize(
    ("shown", "published"),
    [
        ((TABLE,), []),
        ((FIGURE,), [FIGURE]),
        ((CHART,), [CHART]),
        ((NOTE,), [NOTE]),
        ((NOTE, TABLE, FIGURE), [NOTE, FIGURE]),
        ((Output("stdout", {"text/plain": "a"}), Output("stderr", {"text/plain": "a"})), []),
        ((Output("error", {"text/plain": "a"}), Output("diff", {"text/plain": "a"})), []),
    ],
)
def test_what_becomes_an_output_of_its_own(
    shown: tuple[Output, ...], published: list[Output]
) -> None:
    """Figures and displays are published in their order; a table that was a value is not."""
    outputs = saved(display=shown)
    assert outputs[1:-1] == [SavedOutput(o.data, o.metadata) for o in published]


def test_transcript_first_and_answer_last() -> None:
    """Each output has a plain text for front ends that show nothing else."""
    first, last = saved(answer="**3**")
    assert set(first.data) == {"text/html", "text/markdown", "text/plain"}
    assert last == SavedOutput({"text/markdown": "**3**", "text/plain": "**3**"})


def test_the_transcript_is_closed_and_holds_the_facts() -> None:
    """No `<details>` is open; the head counts steps, calls, failures, files and tokens."""
    html = saved(model="claude")[0].data["text/html"]
    assert " open" not in html
    assert "2 steps · 4 tool calls (3 failed) · 1 file · 330 tokens · claude" in html


def test_the_metadata() -> None:
    """Counts and reasons for programs, nothing that differs from run to run."""
    facts = saved()[0].metadata["jupyter_agent"]
    assert set(facts) == {"stop_reason", "steps", "usage", "receipt"}
    assert (facts["stop_reason"], facts["steps"]) == ("end", 2)


def test_no_answer() -> None:
    """A turn without an answer says so and publishes none."""
    (only,) = saved(answer="")
    assert "The model ended the turn without an answer." in only.data["text/plain"]


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("step_limit", "The step limit was reached"),
        ("budget", "The budget is used up"),
        ("interrupted", "Interrupted."),
        ("refused", "The model refused to go on."),
        ("error", "The turn ended with the error below."),
    ],
)
def test_how_a_turn_ended(stop: TurnStop, words: str) -> None:
    """Each of the three forms says it, and never shows a success that was none."""
    data = saved(stop=stop)[0].data
    assert all(words in data[kind] for kind in ("text/html", "text/markdown", "text/plain"))


def test_an_empty_view() -> None:
    """A turn of which nothing is known yet has a transcript all the same."""
    check(saved_outputs(TurnView()))


def test_arguments_of_any_shape() -> None:
    """What is not a JSON object is shown as it came."""
    for arguments in ("", "null", "[1, 2]", '"a"', '{"code": 3}', '{"code": "', "{}", "NaN"):
        check(saved(arguments=arguments))


# ---------------------------------------------------------------- the same bytes


def test_the_same_events_give_the_same_bytes() -> None:
    """Times and delays do not reach the outputs."""
    events = turn(display=(FIGURE, CHART))
    later = [replace(e, seconds=9.9) if isinstance(e, ToolFinished) else e for e in events]
    later = [replace(e, delay=7.7) if isinstance(e, Retrying) else e for e in later]
    one, two = (json.dumps(as_json(view_of(some))) for some in (events, later))
    assert one == two


def test_provider_and_source_do_not_show() -> None:
    """A recording and its replay give the same outputs."""
    events = turn()
    replayed = [TurnStarted("ok", "replay", "ok", "recorded"), *events[1:]]
    assert as_json(view_of(replayed)) == as_json(view_of(events))


def as_json(view: TurnView) -> list[Any]:
    return [[dict(output.data), dict(output.metadata)] for output in saved_outputs(view)]
