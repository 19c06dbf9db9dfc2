"""A turn that shows something of each kind, hostile words to put into it, and what is inert."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delegated,
    Event,
    FileChange,
    MessageFinished,
    Noticed,
    Receipt,
    Retrying,
    SavedMemory,
    Steered,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.widgets.saved import SavedOutput, plain_transcript, running_html, saved_outputs
from jupyter_agent.widgets.state import ViewState
from jupyter_agent.widgets.terminal import TerminalView

SEEN = (TextDelta, ToolOutput, ApprovalAsked, Steered)
"""The moments at which the live view is looked at: in the middle of what passes."""
_TAGS = """
    details summary div pre code b i span p ul ol li strong em blockquote hr br a
    table thead tbody tr th td
"""
TAGS = frozenset(_TAGS.split())
VOID = frozenset({"hr", "br"})
ATTRIBUTES = {
    "a": {"href", "rel"},
    "ol": {"start"},
    "th": {"colspan", "rowspan", "style"},
    "td": {"colspan", "rowspan", "style"},
}
LINK = re.compile(r"(?i)(?:https?://|mailto:)[^\s<>\"'\\\\]+|(?![/\\\\])[^:]*")
COLOURS = frozenset({"#95e", "#384", "#37d", "#c52"})

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
    "refusal",
    "question",
    "steering",
    "plan",
    "whereabouts",
    "printing",
    "answer",
    "notice",
    "kept",
    "table",
    "cell",
]

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "event": '<img src=x onerror="alert(1)">',
    "attribute": "\" onmouseover='alert(1)' style=\"x",
    "links": "\n".join(
        f"[x]({address}) ![x]({address}) <{address}>"
        for address in (
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java&Tab;script:alert(1)",
            "&#106;avascript&colon;alert(1)",
            "\x01javascript:alert(1)",
            "data:text/html;base64,PHNjcmlwdD4=",
            "vbscript:x",
        )
    )
    + "\n[y]: javascript:alert(1)\n<a href='javascript:alert(1)'>x</a>",
    "details": "</summary></details></details></div><script>1</script>",
    "pre": "</code></pre><iframe src=//x></iframe><pre>",
    "body": "</div></body></html><body onload=alert(1)>",
    "cdata": "]]><script>1</script><![CDATA[",
    "comment": "--><script>1</script><!-- --!>",
    "ansi": "\x1b[31mred\x1b[0m \x9b1m \x1b]0;title\x07 \x1bP1$x\x1b\\",
    "OSC 8": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\ \x1b]8;;http://x\x07y\x1b]8;;\x07",
    "unended": "\x1b]8;;http://evil.example",
    "direction": "abc\u202edcba\u2066\u2069\u200f &#x202e;dcba&#8238;x",
    "surrogate": "a\ud800b\udfff",
    "line": "x" * 1_000_000,
    "NUL": "a\0b\x07\x08\x7f\x85 &#0;",
    "template": "{{7*7}} {% raw %} ${7*7} <%= 7*7 %>",
    "math": r"$$x$$ $\href{javascript:alert(1)}{x}$ \(\unicode{x202E}\) "
    r"\[\style{position:fixed}{x}\] "
    r"\begin{equation}\def\a#1{\href{java#1:alert(1)}{x}}\a{script}\end{equation}",
    "hidden math": r"&#36;\\&#104;ref{javascript&colon;alert(1)}{x}&dollar; "
    r"$\mmlToken{mi}[href=x]{x}$",
    "table": "| a |\n|---|\n| <script>1</script> |\n||||",
    "fence": "```\n<script>1</script>\n```\n````\n~~~\n<img onerror=x>",
    "open fence": "````\n$$\n<script>1</script>",
    "spans": "`a` ``b`` `<script>1</script>` ` <img onerror=x>",
    "paragraphs": "a\n\n<script>alert(1)</script>\n \t\n[x](javascript:alert(1))\n\n# b\r\n\r"
    "<img onerror=x>",
    "decoded twice": "&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt;script&amp;gt;",
    "brackets": "[" * 5_000,
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
        ToolCall("c5", "write_file", json.dumps({"path": f["file"], "content": f["output"]})),
        ToolCall("c6", "update_plan", "{}"),
        ToolCall("c7", "delegate", json.dumps({"task": f["task"]})),
    ]
    diff = (Output("diff", {"text/plain": f["diff"]}),)
    answered = [
        ApprovalAsked("c4", f["question"], (f["question"],), f["question"], diff),
        ApprovalAnswered("c4", "always", "person", f["refusal"]),
        ApprovalAsked("c5", f["question"], (f["question"],), f["question"], diff),
        ApprovalAnswered("c5", "no", "person", f["refusal"]),
    ]
    message = Message("assistant", (Thinking(f["thinking"]), Text(f["text"]), *calls))
    last = Message("assistant", (Text(f["answer"]),))
    receipt = Receipt(
        (VariableChange(f["variable"], "added", f["summary"]),),
        (FileChange(f["file"], "created", 3, 1),),
        saved=(SavedMemory("lesson", f["kept"], f["file"]),),
    )
    return [
        TurnStarted(f["task"], "anthropic", f["model"]),
        Noticed(f["notice"]),
        StepStarted(1, 5),
        Retrying(f["reason"], 1, 0.5),
        ThinkingDelta(f["thinking"]),
        TextDelta(f["text"]),
        MessageFinished(message, Usage(100, 10), "tool_use"),
        *(ToolStarted(call) for call in calls),
        ToolOutput("c2", f["printing"], f["printing"]),
        *answered,
        *_delegated("c7", f),
        *(ToolFinished(result, 0.1) for result in _results(f)),
        StepStarted(2, 5),
        Steered(f["steering"]),
        MessageFinished(last, Usage(200, 20), "end"),
        TurnFinished(f["stop"], Usage(300, 30), receipt, f["error"]),
    ]


def _delegated(call_id: str, f: dict[str, Any]) -> list[Event]:
    """The work of a delegate that asks, is allowed and reports."""
    call = ToolCall("c1", f["name"], f["arguments"])
    message = Message("assistant", (Thinking(f["thinking"]), Text(f["text"]), call))
    about = (Output("result", {"text/plain": f["arguments"]}),)
    streams = (Output("stdout", {"text/plain": f["output"]}), *f["display"])
    result = ToolResult("c1", (Text(f["result"]),), f["is_error"], streams)
    inner: list[Event] = [
        Noticed(f["notice"]),
        TurnStarted(f["task"], "anthropic", f["model"]),
        StepStarted(1, 5),
        MessageFinished(message, Usage(100, 10), "tool_use"),
        ToolStarted(call),
        ApprovalAsked("c1", f["question"], (f["question"],)),
        ApprovalAnswered("c1", "yes", "person", f["refusal"]),
        ToolFinished(result, 0.1),
        StepStarted(2, 5),
        MessageFinished(Message("assistant", (Text(f["answer"]),)), Usage(), "end"),
        TurnFinished("end", Usage(100, 10), error=f["error"]),
    ]
    events: list[Event] = [Delegated(call_id, event) for event in inner]
    asked = ApprovalAsked(call_id, f["question"], (f["question"],), f["question"], about)
    return [*events[:6], asked, ApprovalAnswered(call_id, "yes"), *events[6:]]


def _results(f: dict[str, Any]) -> list[ToolResult]:
    streams = tuple(
        Output(kind, {"text/plain": f["output"]}) for kind in ("stdout", "stderr", "result")
    )
    frame = (
        '<table border="1" class="dataframe"><thead><tr><th></th><th colspan="2">'
        f"{html.escape(f['table'])}</th></tr></thead><tbody><tr><th>0</th>"
        f"<td>{html.escape(f['cell'])}</td><td>{f['cell']}</td></tr></tbody></table>"
    )
    streams += (Output("result", {"text/html": frame, "text/plain": "a table"}),)
    shown = (*streams, Output("error", {"text/plain": f["error"]}), *f["display"])
    details = {"error_name": f["error_name"], "whereabouts": f["whereabouts"]}
    plan = {"plan": [{"text": f["plan"], "state": "in_progress"}]}
    return [
        ToolResult("c1", (Text(f["result"]),), f["is_error"]),
        ToolResult("c2", (Text(f["output"]),), f["is_error"], shown, details),
        ToolResult("c3", (Text(f["error"]),), True),
        ToolResult("c4", (Text("ok"),), False, (Output("diff", {"text/plain": f["diff"]}),)),
        ToolResult("c5", (Text(f["refusal"]),), True, details={"state": "refused"}),
        ToolResult("c6", (Text("ok"),), False, details=plan),
        ToolResult("c7", (Text(f["answer"]),), False),
    ]


def view_of(events: list[Event]) -> TurnView:
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    return view


def saved(**fields: Any) -> list[SavedOutput]:
    return saved_outputs(view_of(turn(**fields)))


# ---------------------------------------------------------------- what is inert


class Inert(HTMLParser):
    """Fails on anything but our own tags, styles and balanced nesting; keeps what MathJax sees."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= {"style", "open"} | ATTRIBUTES.get(tag, set()), attrs
        given = {name: value or "" for name, value in attrs}
        assert LINK.fullmatch(given.pop("href", "")), attrs
        assert all(given.get(each, "1").isdigit() for each in ("colspan", "rowspan", "start"))
        styles = " ".join(given.values())
        assert not re.search(r"url\(|expression|position", styles), styles
        assert set(re.findall(r"(?:^|;)color:([^;]*)", styles)) <= COLOURS, styles
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"pre", "code"} & set(self.open):
            assert data in ("$", "\\") or not re.search(r"[$\\]", data), f"a formula: {data[:80]}"

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    handle_decl = unknown_decl = handle_pi = handle_comment


class InertMarkdown(HTMLParser):
    """Fails on scripts, pictures, frames, events, script addresses and linking formulas."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "iframe", "style", "svg", "object", "embed", "body"}, tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style" or re.fullmatch("text-align: ?\\w+;?", value or ""), value
            address = re.sub(r"[\x00-\x20]", "", value or "").lower()
            assert not address.startswith(("javascript:", "data:", "vbscript:")), value
            assert tag != "img" or name != "src" or "//" not in address, value

    def handle_data(self, data: str) -> None:
        assert not re.search(r"\\(href|unicode|style|def|mmlToken)(?![A-Za-z])", data), data[:200]

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    handle_decl = unknown_decl = handle_pi = handle_comment


@cache
def renderers() -> tuple[Callable[[str], Any], ...]:
    """Those that pass HTML through, as nbconvert's own does."""
    return (
        MarkdownIt("gfm-like", {"html": True, "linkify": False}).render,
        markdown2html_mistune,
    )


def check_html(markup: str) -> None:
    parser = Inert()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    # In a Markdown file, as nbconvert makes one, it is one block of HTML.
    assert not re.search(r"\n[ \t]*\n", markup)


def check_markdown(markdown: str) -> None:
    # A megabyte takes the slow one seconds, and tells no more than ten thousand letters.
    for render in renderers()[: 1 if len(markdown) > 300_000 else None]:
        parser = InertMarkdown()
        parser.feed(str(render(markdown)))
        parser.close()


_ILLEGIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def check_plain(text: str) -> None:
    """No control character but newlines and tabs, no change of direction, no half a character."""
    text.encode("utf-8")
    assert not _ILLEGIBLE.search(text), _ILLEGIBLE.findall(text)[:9]


def check_saved(outputs: list[SavedOutput]) -> None:
    for output in outputs:
        if "text/html" in output.data:
            check_html(output.data["text/html"])
        check_markdown(output.data["text/markdown"])
        for text in output.data.values():
            check_plain(text)
        json.dumps(output.metadata, allow_nan=False).encode("utf-8")


def check_every_form(events: list[Event]) -> None:
    """The saved outputs, the live view at each moment, and the terminal's text."""
    check_saved(saved_outputs(view_of(events)))
    picture, view = ViewState(), TurnView()
    screen = Screen()
    terminal = TerminalView(screen, {"TERM": "xterm"})
    for number, event in enumerate(events):
        view = reduce(view, event)
        if isinstance(event, SEEN) or number == len(events) - 1:
            operations = picture.update(view, (getattr(event, "text", ""),))
            check_plain("".join(strings(json.loads(json.dumps(operations, allow_nan=False)))))
        terminal(event)
    check_html(running_html(view_of(events[:-4])))
    check_plain(plain_transcript(view))
    check_plain(re.sub(r"\x1b\[[\d;]*[mK]|\r", "", screen.getvalue()))


class Screen(io.StringIO):
    """A terminal with colours."""

    def isatty(self) -> bool:
        return True


def strings(value: Any) -> Iterator[str]:
    """All texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
