"""The terminal's text of a turn, by values: compact, printed once, inert."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping

import pytest

from jupyter_agent.core.diffs import diff_output
from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    MessageFinished,
    Preparing,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.widgets.terminal import TerminalView

XTERM = {"TERM": "xterm-256color"}
DUMB = {"TERM": "dumb"}
CODE = "total = 1 + 1\nprint(total)"
ANSI = re.compile(r"\x1b\[[0-9;]*[mK]")


class Tty(io.StringIO):
    """A terminal that keeps what was written to it."""

    def isatty(self) -> bool:
        return True


def written(
    events: list[Event], environ: Mapping[str, str] = DUMB, stream: io.StringIO | None = None
) -> str:
    stream = Tty() if stream is None else stream
    view = TerminalView(stream, environ)
    for event in events:
        view(event)
    return stream.getvalue()


def call(code: str = CODE, name: str = "execute_code") -> ToolCall:
    return ToolCall("c1", name, json.dumps({"code": code}))


def reply(text: str, *calls: ToolCall) -> MessageFinished:
    blocks = (*((Text(text),) if text else ()), *calls)
    return MessageFinished(Message("assistant", blocks), Usage(100, 20), "end")


def test_a_wait_is_counted_in_one_line() -> None:
    """The seconds of a wait replace each other; a terminal that cannot erase says it once."""
    waits = [Preparing(f"The provider asks to wait: {n} s, attempt 2 of 4") for n in (3, 2)]
    start = [TurnStarted("Go.", "openai", "m"), StepStarted(1, 5), Retrying("429: slow", 1, 3.0)]
    text = written([*start, *waits, reply("Done.")], XTERM)
    assert "\r\x1b[K" in text and "asks to wait: 3 s" in text and "asks to wait: 2 s" in text
    text = written([*start, *waits, reply("Done.")], DUMB)
    assert "Waiting 3 s before the next attempt." in text and "asks to wait" not in text


def done(output: str, is_error: bool = False, **details: str) -> ToolFinished:
    shown = (Output("stdout", {"text/plain": output}),)
    result = ToolResult("c1", (Text(output),), is_error, shown, details)
    return ToolFinished(result, 0.1)


def turn(text: str = "It is 2.", code: str = CODE, output: str = "2") -> list[Event]:
    return [
        TurnStarted("Add.", "anthropic", "a-model"),
        StepStarted(1, 50),
        reply("", call(code)),
        ToolStarted(call(code)),
        done(output),
        StepStarted(2, 50),
        *(TextDelta(piece) for piece in re.findall(r".{1,4}", text, re.DOTALL)),
        reply(text),
        TurnFinished("end", Usage(200, 40)),
    ]


def question(*answer: Event, code: str = "!ls") -> list[Event]:
    asked = ApprovalAsked("c1", "Run this code?", ("runs a shell command",), "shell commands")
    start: list[Event] = [TurnStarted("List.", "anthropic", "a-model"), StepStarted(1, 50)]
    return [*start, reply("", call(code)), ToolStarted(call(code)), asked, *answer]


def test_a_turn_as_compact_text() -> None:
    """Read a turn in a terminal without colours: code, output, answer and a line of counts."""
    assert written(turn()).splitlines() == [
        "✓ execute_code 0.1 s",
        "    total = 1 + 1",
        "    print(total)",
        "    │ 2",
        "It is 2.",
        "2 steps · 1 tool call · 240 tokens · a-model",
    ]


def test_text_appears_as_it_streams() -> None:
    """Watch a streamed reply: each piece is on the screen at once."""
    stream = Tty()
    view = TerminalView(stream, DUMB)
    for event in (TurnStarted("Add.", "anthropic", "m"), StepStarted(1, 5), TextDelta("It ")):
        view(event)
    assert stream.getvalue() == "It "
    view(TextDelta("is 2."))
    assert stream.getvalue() == "It is 2."


def test_markdown_is_rendered() -> None:
    """On a screen Markdown is rendered block by block; nothing of the text is lost."""
    code = "```python\na = 1\n\nb = 2\n```"
    text = f"# Head\n\nThe **mean** of list<int> is `3.5`.\n\n{code}\n\n- one\n- two"
    shown = ANSI.sub("", written(turn(text), {**XTERM, "COLUMNS": "80"}))
    lines = [line.rsplit("\r", 1)[-1].strip() for line in shown.split("\n")]
    start = lines.index("Head")
    assert [line for line in lines[start:-2] if line] == [
        "Head",
        "The mean of list<int> is 3.5.",
        "a = 1",
        "b = 2",
        "• one",
        "• two",
    ]


def test_each_block_appears_once_it_is_whole() -> None:
    """A paragraph is on the screen before the reply has ended; until then its last words pass."""
    stream = Tty()
    view = TerminalView(stream, XTERM)
    for event in (TurnStarted("Add.", "a", "m"), StepStarted(1, 5), TextDelta("It **is")):
        view(event)
    assert "\n" not in stream.getvalue() and stream.getvalue().endswith("It **is\x1b[0m")
    view(TextDelta("** 2.\n\nAnd"))
    shown = ANSI.sub("", stream.getvalue())
    assert "\rIt is 2.\n" in shown and shown.endswith("… And")


def test_words_of_a_reply_that_was_broken_off() -> None:
    """An interrupt in the middle of a reply: the words so far stay on the screen."""
    start: list[Event] = [TurnStarted("Add.", "a", "m"), StepStarted(1, 5), TextDelta("It **is**")]
    text = written([*start, TurnFinished("interrupted", Usage())], XTERM)
    assert "\rIt is\n" in ANSI.sub("", text)


def test_a_plan_is_shown_once() -> None:
    """The plan's items stand in the text once, with their marks."""
    items = [{"text": "Load", "state": "done"}, {"text": "Plot", "state": "in_progress"}]
    planned = ToolCall("c1", "update_plan", json.dumps({"items": items}))
    result = ToolResult("c1", (Text("[x] Load\n[~] Plot"),), details={"plan": items})
    start: list[Event] = [TurnStarted("Go.", "a", "m"), StepStarted(1, 5)]
    text = written([*start, reply("", planned), ToolStarted(planned), ToolFinished(result, 0.1)])
    assert text.splitlines() == ["✓ update_plan 0.1 s", "    ● Load", "    ◐ Plot"]


def test_a_reply_that_was_not_streamed() -> None:
    """Read a replayed turn, in which no text streams: its text is there, once."""
    events = [event for event in turn() if not isinstance(event, TextDelta)]
    assert written(events) == written(turn())


def test_a_try_that_failed() -> None:
    """A retry after partial text is shown, and the second text is whole."""
    start: list[Event] = [TurnStarted("Add.", "anthropic", "m"), StepStarted(1, 5)]
    text = written([*start, TextDelta("It i"), Retrying("overloaded", 1, 0.1), reply("It is 2.")])
    lines = text.splitlines()
    assert lines[0] == "It i" and "overloaded" in lines[1] and lines[2:] == ["It is 2."]


def test_a_reply_that_was_cut_off_says_so() -> None:
    """A reply ends at its token limit: a line says it."""
    finished = MessageFinished(Message("assistant", (Text("It"),)), Usage(), "max_tokens")
    text = written([TurnStarted("Add.", "a", "m"), StepStarted(1, 5), TextDelta("It"), finished])
    assert text.splitlines() == ["It", "The reply was cut off at its token limit."]


@pytest.mark.parametrize(
    ("environ", "stream"),
    [(DUMB, Tty()), ({**XTERM, "NO_COLOR": "1"}, Tty()), (XTERM, io.StringIO())],
    ids=["TERM=dumb", "NO_COLOR", "not a terminal"],
)
def test_no_colours(environ: Mapping[str, str], stream: io.StringIO) -> None:
    """Use a terminal that has no colours, or does not want them: no colour code is written."""
    assert not re.search(r"\x1b\[[0-9;]*m", written(turn(), environ, stream))


def test_colours() -> None:
    """Use a terminal with colours: the text is the same besides them, and each ends."""
    text = written(turn(), XTERM)
    assert "\x1b[32m✓\x1b[0m" in text and "\x1b[1mexecute_code\x1b[0m" in text
    assert text.count("\x1b[0m") == len(re.findall(r"\x1b\[[1-9][0-9]*m", text))
    # What passes is erased: the cursor goes back to the start of its line.
    lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
    assert [ANSI.sub("", line) for line in lines] == written(turn()).split("\n")


def test_a_question_and_its_answer() -> None:
    """The agent asks: all of the code is shown, once, however long; then what was decided."""
    code = "\n".join(["!ls", *(f"x{n} = {n}" for n in range(40))])
    refused = ToolResult("c1", (Text("The person refused."),), True, details={"state": "refused"})
    answers = [ApprovalAnswered("c1", "no", "person", "not now"), ToolFinished(refused, 0.0)]
    text = written(question(*answers, code=code))
    lines = text.splitlines()
    assert lines[:2] == ["? execute_code", "    !ls"]
    assert "    x39 = 39" in lines and "more lines" not in text
    assert lines[-2].startswith("⊘ execute_code refused by you")
    assert text.count("!ls") == 1 and "The person refused" in lines[-1]


def test_a_question_with_a_difference() -> None:
    """What a write changes stands below the call, by signs and, where there are some, colours."""
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -5,3 +5,3 @@\n same\n-old\n+new\x1b[31m\n same"
    asked = ApprovalAsked("c1", "Run it?", preview=(diff_output(diff, 1, 1),))
    events = [*question()[:-1], asked]
    assert written(events).splitlines()[-6:] == [
        "    │ a.txt +1 −1",
        "    │ ⋯ 4 unchanged lines",
        "    │  same",
        "    │ -old",
        "    │ +new␛[31m",
        "    │  same",
    ]
    coloured = written(events, XTERM)
    assert "\x1b[31m    │ -old\x1b[0m" in coloured and "\x1b[32m    │ +new␛[31m\x1b[0m" in coloured


def test_what_the_person_typed() -> None:
    """Steer a turn: the words stand in the text."""
    events: list[Event] = [TurnStarted("Add.", "a", "m"), StepStarted(1, 5), Steered("In euros.")]
    assert written(events) == "You: In euros.\n"


def test_long_output_is_cut() -> None:
    """Code prints a thousand lines: a dozen are shown, and where the rest is."""
    text = written(turn(output="\n".join(f"line {n}" for n in range(1_000))))
    assert len(text.splitlines()) < 25 and "more lines: %agent show last]" in text


HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "screen": "\x1b[2J\x1b[H",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;http://a.b\x1b\\here\x1b]8;;\x1b\\",
    "c1": "\x9b31m\x9d0;pwned\x9c",
    "carriage": "safe\rrm -rf /",
    "backspace": "safe\b\b\b\bevil",
    "bell": "\a\a",
    "bidi": "\u202egnp.exe\u202c \u2066x\u2069",
    "surrogate": "a\ud800b\udfffc",
    "null": "a\x00b",
    "megabyte": "y" * 1_000_000,
}
INERT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] if name == "megabyte" else [])
        for name in HOSTILE
    ],
)
def test_hostile_text_is_inert(name: str) -> None:
    """Hostile text anywhere in a turn writes no control character to the terminal, and no
    more text than it can take.
    """
    text = HOSTILE[name]
    events = turn(text, text, text)
    named = ToolCall("c1", text, json.dumps({text[:100]: text}))
    more = [reply("", named), ToolStarted(named), done(text, True, error_name=text[:50])]
    asked = ApprovalAsked("c1", text, (text,), text)
    shown = written([*events[:-1], *more, asked, Steered(text), events[-1]])
    assert not INERT.search(shown) and not re.search(r"[\ud800-\udfff]", shown)
    assert len(shown) < 3 * len(text) + 200_000


def test_an_escape_in_pieces() -> None:
    """A terminal code that is split over streamed pieces does not come together."""
    events: list[Event] = [TurnStarted("Add.", "a", "m"), StepStarted(1, 5)]
    events += [TextDelta(piece) for piece in ("\x1b", "[31", "mred", "\x1b", "]0;t", "\x07")]
    assert not INERT.search(written(events))


def test_a_terminal_without_unicode() -> None:
    """Use a terminal that knows ASCII only: the text comes, with ? for what it lacks."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    view = TerminalView(stream, DUMB)
    for event in turn():
        view(event)
    stream.flush()
    assert b"? execute_code" in raw.getvalue() and b"It is 2." in raw.getvalue()
