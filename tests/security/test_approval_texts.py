"""A question shows all that would run: in the page, in a terminal, in a line of text, and saved."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

import pytest
from front_end import FrontEnd
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from live_kernel import LiveKernel, execute_code
from widgets.hostile import Screen, check_every_form, view_of

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    MessageFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from jupyter_agent.core.legible import whole
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.plaintext import all_in_one_line, visible
from jupyter_agent.files.diff import compare
from jupyter_agent.widgets.saved import saved_outputs
from jupyter_agent.widgets.state import ViewState
from jupyter_agent.widgets.terminal import TerminalView

PAYLOAD = "rm -rf ~/precious"
KEY_BEGINS, KEY_ENDS = "-----BEGIN PRIVATE " + "KEY-----", "-----END PRIVATE " + "KEY-----"
CODES = {
    "a second line": f"%%bash\necho hello\n{PAYLOAD}",
    "a text of two lines": f"import os\nos.system('''echo hello\n{PAYLOAD}''')",
    "a very long line": f"!echo {'word ' * 9_000}; {PAYLOAD}; echo {'word ' * 9_000}",
    "very many lines": "\n".join([*["x = 1"] * 3_000, f"!{PAYLOAD}", *["x = 1"] * 3_000]),
    "hundreds of blanks": f"!echo hello{' ' * 700}; {PAYLOAD}",
    "other blanks": "!echo hello" + "\u00a0\u3000\t" * 200 + f"; {PAYLOAD}",
    "hundreds of blank lines": f"!echo hello{chr(10) * 500}!{PAYLOAD}",
    "a carriage return": f"!echo hello\r!{PAYLOAD}\rprint('done')",
    "an overwritten command": f"!{PAYLOAD} \rprint('done')",
    "a title of a terminal": f"a = '\x1b]0;'\nimport os; os.system('{PAYLOAD}')\nb = '\x07'",
    "a terminal's colours": f"!echo hello \x1b[8m; {PAYLOAD}\x1b[0m",
    "another direction": f"!echo \u202e; {PAYLOAD} \u2066\u200b\ufeff",
    "a private key": f"# {KEY_BEGINS}\n!{PAYLOAD}\n# {KEY_ENDS}",
    "a private key of base64": f"# {KEY_BEGINS}\n{'Ab1+' * 16}\n!{PAYLOAD}\n# {KEY_ENDS}",
    "a cookie": f"!echo cookie: theme=dark; {PAYLOAD}; echo done",
    "names in a cookie": f"# cookie: f=os.system; g=exec\n!echo cookie: f=1; {PAYLOAD}",
    "a header": f"!curl -H Cookie:a=bcdef;{PAYLOAD}",
    "a password": f"!echo password=`{PAYLOAD}`",
    "a password option": f"!mysql -pabc;{PAYLOAD}",
    "a webhook": f"!curl https://hooks.slack.com/services/T0;{PAYLOAD}",
}
"""Code that would hide a command from who looks at a part, at a screen, or with secrets removed."""


def seen(text: str) -> str:
    """A text as a person reads it."""
    return html.unescape(text).replace("\u2060", "")


def asked(call: ToolCall) -> list[Event]:
    """The events of a turn up to the question about a call."""
    return [
        TurnStarted("Do it.", "scripted", "script"),
        StepStarted(1, 9),
        MessageFinished(Message("assistant", (call,)), Usage(1, 1), "tool_use"),
        ToolStarted(call),
        ApprovalAsked(call.id, "Run this?", ("runs something",), "shell commands"),
    ]


def forms(call: ToolCall) -> dict[str, str]:
    """What is shown of a call in question: in the page, in a terminal, and saved."""
    view = view_of(asked(call))
    picture, screen = ViewState(), Screen()
    picture.update(view)
    terminal = TerminalView(screen, {"TERM": "xterm"})
    for event in asked(call):
        terminal(event)
    saved = saved_outputs(view)[0].data
    (shown,) = picture.state["steps"][0]["calls"]
    return {"page": shown["body"], "terminal": screen.getvalue(), **saved}


@pytest.mark.parametrize("kind", CODES)
def test_nothing_is_hidden(kind: str) -> None:
    """Each form shows the whole of a code in question, without any code for a terminal."""
    call = ToolCall("c1", "execute_code", json.dumps({"code": CODES[kind]}))
    for form, text in forms(call).items():
        assert PAYLOAD in seen(text), form
        assert "left out" not in text and "more lines" not in text, form
    check_every_form(asked(call))


@pytest.mark.parametrize("name", ["server__run", "execute_code"])
def test_other_arguments_are_shown(name: str) -> None:
    """An argument named `code` hides no other one of a server's tool."""
    arguments = {"code": "print(1)", "command": PAYLOAD, "more": {"then": [PAYLOAD]}}
    found = {form: seen(text) for form, text in forms(call_of(name, arguments)).items()}
    assert {form: text.count(PAYLOAD) for form, text in found.items()} == (
        dict.fromkeys(found, 2 if name != "execute_code" else 0)
    )


def call_of(name: str, arguments: object) -> ToolCall:
    return ToolCall("c1", name, json.dumps(arguments))


@pytest.mark.parametrize("text", ['{"code": "!ls", ', "[1, 2", '"\x1b]0;'])
def test_arguments_that_are_no_object(text: str) -> None:
    """Arguments that cannot be read are shown as they came."""
    text += PAYLOAD
    for form, shown in forms(ToolCall("c1", "server__run", text)).items():
        assert PAYLOAD in seen(shown), form


@pytest.mark.parametrize("lines", ["x = 1\n" * 600, "x" * 900])
def test_a_file_that_was_asked_about(lines: str) -> None:
    """Where a shortened diff is saved, the whole content stands beside it."""
    content = f"{lines}{PAYLOAD}\n"
    call = call_of("write_file", {"path": "run.sh", "content": content})
    diff = Output("diff", {"text/plain": compare(None, content, "run.sh").text})
    result = ToolResult("c1", (Text("written"),), display=(diff,))
    events = [*asked(call), ApprovalAnswered("c1", "yes"), ToolFinished(result, 0.1)]
    assert PAYLOAD not in diff.data["text/plain"]
    for form, text in saved_outputs(view_of(events))[0].data.items():
        assert PAYLOAD in seen(text), form
    unasked = [
        event for event in events if not isinstance(event, (ApprovalAsked, ApprovalAnswered))
    ]
    assert PAYLOAD not in saved_outputs(view_of(unasked))[0].data["text/plain"]


def test_secrets_of_a_question() -> None:
    """A key of several lines, a cookie and a password are still taken out."""
    lines = "\n".join(["Ab1+" * 16, "Cd2/" * 16, "Ef3="])
    code = f"key = '''{KEY_BEGINS}\n{lines}\n{KEY_ENDS}'''\npassword = 'correct horse x1'\n!ls"
    for form, text in forms(call_of("execute_code", {"code": code})).items():
        assert "Ab1+" not in text and "Cd2/" not in text and "correct horse" not in text, form
        assert "[redacted]" in text and "!ls" in seen(text), form


PIECES = st.lists(
    st.sampled_from(
        [
            *("os.remove(f)", "rm -rf ~/x", "shutil.rmtree(p)", "; reboot now", "$(date -u)"),
            *(KEY_BEGINS, KEY_ENDS, "cookie: a=bcd; ", "password=", "Authorization: Bearer "),
            *("\x1b]0;", "\x1b[2K", "\x07", "\r", "\r\n", "\n", "\n\n\n\n\n\n\n\n", " " * 99, "\t"),
            *("\u202e", "\u200b", "\x9b", "# ", "echo ", "curl -u me:", "mysql -p", "?token=", "`"),
        ]
    ),
    max_size=14,
)


@given(PIECES)
@settings(max_examples=examples(300), deadline=None)
def test_commands_between_anything(pieces: list[str]) -> None:
    """Whatever stands around a command, each of its words is shown."""
    shown = whole("".join(pieces))
    for words in ("os.remove(f)", "rm -rf ~/x", "shutil.rmtree(p)", "reboot now", "date -u"):
        assert shown.count(words) >= sum(words in piece for piece in pieces), shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]", shown)
    assert whole(shown) == shown


def test_functions_in_a_cookie() -> None:
    """What looks like a cookie hides no function."""
    code = "echo cookie: f=os.system; g=exec; h=/bin/rm; f(x)"
    assert whole(code) == code


def test_reasons_name_all_lines() -> None:
    """One line tells all lines of a command, and how much it leaves out."""
    assert all_in_one_line(f"echo hello\n\n  {PAYLOAD}\n") == f"echo hello ⏎ {PAYLOAD}"
    assert all_in_one_line("a" * 400) == "a" * 300 + "… (it goes on)"


def test_visible() -> None:
    """Hidden characters get a sign, runs of blanks a number; what is ordinary stays."""
    assert visible("a\rb\x1b[0m\x7f\u202e\u200b") == "a␍\nb␛[0m␡<U+202E><U+200B>"
    assert visible(f"a{' ' * 61}b{chr(10) * 7}c") == "a [61 blanks] b\n[6 blank lines]\nc"
    for text in ("def f():\n\treturn 1\n\n\n", "ü 😀 👩‍👩‍👧 日本 می‌خواهم", " " * 60 + "x"):
        assert visible(text) == text


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    environ = {"JUPYTER_AGENT_APPROVALS__MODE": "ask_risky"}
    with LiveKernel(tmp_path_factory.mktemp("kernel"), environ) as kernel:
        kernel.load()
        yield kernel


def prepare(kernel: LiveKernel, kind: str) -> str:
    """A turn with one call; gives its cell."""
    task = f"Ask about {kind}."
    kernel.script(task, execute_code(CODES[kind]), {"text": "Well."})
    return f"%%agent --fresh\n{task}"


KINDS = ("a second line", "a very long line", "an overwritten command", "hundreds of blanks")


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_text(kernel: LiveKernel, kind: str) -> None:
    """Where a line of text asks, it shows all lines, and so does what is saved."""
    cell = prepare(kernel, kind)
    kernel.helper("%agent config display static")
    running = kernel.start(cell, allow_stdin=True)
    prompt = running.question()
    running.type("n")
    done = running.finish()
    kernel.helper("%agent config display auto")
    assert PAYLOAD in seen(prompt)
    assert prompt.rstrip().endswith(":") and "n for no" in prompt
    for form, text in done.displays[0].items():
        assert PAYLOAD in seen(str(text)), form


@pytest.mark.parametrize("kind", KINDS)
def test_the_page(kernel: LiveKernel, kind: str) -> None:
    """The widget's state holds the whole code, and says so where its box scrolls."""
    running = kernel.start(prepare(kernel, kind), allow_stdin=True)
    page = FrontEnd(kernel, running)
    call = page.until_asked()
    body, question = call["body"], call["question"]["text"]
    page.answer("no")
    running.finish()
    assert PAYLOAD in body
    assert ("scroll" in question) == (kind == "a very long line")


def test_the_reason_names_the_second_line(kernel: LiveKernel) -> None:
    """The reason for a question about a shell command tells all of its lines."""
    for kind in ("a second line", "a text of two lines"):
        running = kernel.start(prepare(kernel, kind), allow_stdin=True)
        page = FrontEnd(kernel, running)
        (reason,) = page.until_asked()["question"]["reasons"]
        page.answer("no")
        running.finish()
        assert reason.startswith("runs a shell command: ")
        assert f"echo hello ⏎ {PAYLOAD}" in reason
