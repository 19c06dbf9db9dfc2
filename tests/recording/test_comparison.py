"""What is left out where texts are compared: secrets, the paths of one machine, addresses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pace import processor_seconds

from jupyter_agent.core.asked_changes import SPOILT
from jupyter_agent.core.messages import Image, Message, Output, Said, Text, ToolCall, ToolResult
from jupyter_agent.recording.comparison import (
    Digests,
    Item,
    exact,
    exact_json,
    has_own_words,
    items,
    neutral,
    neutral_display,
    result_text,
    task_of,
)

KEY = "sk-" + "ant-" + "Abc1" * 8
ROOT = Path("/srv/work/trips")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {KEY}.", "use [redacted]."),
        ("/srv/work/trips/data/a.csv", "<workspace>/data/a.csv"),
        ("in '/srv/work/trips'.", "in '<workspace>'."),
        ("/srv/work/trips2/a.csv", "/srv/work/trips2/a.csv"),
        ("/srv/work/trips-old/a.csv", "/srv/work/trips-old/a.csv"),
        ("/srv/work/trips.bak/a", "/srv/work/trips.bak/a"),
        ("/home/ada/a.csv and /home/adam/a.csv", "<home>/a.csv and /home/adam/a.csv"),
        ("/home/eve/a.csv", "/home/eve/a.csv"),
        ("/" + "tmp/x/a.csv", "<tmp>/x/a.csv"),
        ("/private/" + "tmp/x", "<tmp>/x"),
        ("/var/folders/zz/abc123/T/x", "<tmp>/x"),
        ("/private/var/folders/zz/abc123/T/x", "<tmp>/x"),
        ("https://a.org/" + "tmp/x", "https://a.org/" + "tmp/x"),
        ("/" + "tmpfile and /" + "tmp-x", "/" + "tmpfile and /" + "tmp-x"),
        ("/opt/env/lib/python3.11/site-packages/pandas/a.py", "<packages>/pandas/a.py"),
        ("/usr/lib/python3/dist-packages/x.py", "<packages>/x.py"),
        ("/usr/lib/python3.12/json/a.py", "<packages>/json/a.py"),
        (r"C:\env\Lib\site-packages\x.py", r"<packages>\x.py"),
        ("/home/ada/env/lib/python3.11/site-packages/x.py", "<packages>/x.py"),
        ("<a.B object at 0x7f3d561bf430>", "<a.B object at 0x…>"),
        ("&lt;B at 0x7f3d561bf430&gt;", "&lt;B at 0x…&gt;"),
        ("look at 0x7f3d561bf430", "look at 0x7f3d561bf430"),
        ("0xff0000", "0xff0000"),
        ("at 10:11:12, 3.2 s, 2026-01-02", "at 10:11:12, 3.2 s, 2026-01-02"),
    ],
)
def test_what_is_neutral(text: str, shown: str) -> None:
    """Secrets, folders of the machine and addresses get a stand-in; all else stays."""
    assert neutral(text, ROOT) == shown
    assert neutral(shown, ROOT) == shown
    assert exact(f"\n {text}  \n", ROOT) == shown
    assert json.loads(exact_json({"a": [text]}, ROOT)) == {"a": [shown]}
    assert json.loads(exact_json({text: 1}, ROOT)) == {shown: 1}


def test_a_stand_in_in_markup() -> None:
    """In HTML and Markdown a stand-in is escaped, and in other texts it is not."""
    text = "see /srv/work/trips/a.csv"
    assert neutral(text, ROOT, in_markup=True) == "see &lt;workspace&gt;/a.csv"
    data = {
        "text/html": f"<b>{text}</b>",
        "text/markdown": text,
        "text/plain": text,
        "image/svg+xml": f"<text>{text}</text>",
        "image/png": base64.b64encode(text.encode()).decode(),
        "application/json": {"path": text},
    }
    (shown,) = neutral_display([Output("display", data, {"a": 1})], ROOT)
    assert shown.data["text/html"] == "<b>see &lt;workspace&gt;/a.csv</b>"
    assert shown.data["text/markdown"] == "see &lt;workspace&gt;/a.csv"
    assert shown.data["text/plain"] == "see <workspace>/a.csv"
    assert shown.data["image/svg+xml"] == "<text>see &lt;workspace&gt;/a.csv</text>"
    assert (shown.data["image/png"], shown.metadata) == (data["image/png"], {"a": 1})
    assert shown.data["application/json"] == {"path": text}


@given(st.text(max_size=60))
@settings(max_examples=examples(500))
def test_twice_is_once(text: str) -> None:
    """The compared form is a fixed point, so that it can be compared with what is stored."""
    assert neutral(neutral(text, ROOT), ROOT) == neutral(text, ROOT)


@given(st.text(st.characters(exclude_characters="/\\"), max_size=60))
@settings(max_examples=examples(500))
def test_ordinary_text_stays(text: str) -> None:
    """A text without paths, addresses and secrets is compared as it is."""
    if "0x" not in text and "=" not in text and ":" not in text:
        assert neutral(text, ROOT) == text


# ---- the package's own words ---------------------------------------------------------------------


def result(text: str, **fields: Any) -> ToolResult:
    return ToolResult("c", (Text(text),), **fields)


STORED = '# <stored_data source="memory">\n'
OWN = [
    (
        '<skill_content name="plots">\nOld words.\n</skill_content>',
        '<skill_content name="plots">\nBetter\nwords.\n</skill_content>',
    ),
    (f"{STORED}- date: '2026-01-02'", f"{STORED}- date: '2027-03-04'"),
    (f"{STORED}last_updated: '2026-01-02'", f"{STORED}last_updated: '2027-03-04'"),
    (f"{STORED}- [2026-01-02 03:04:05] A note.", f"{STORED}- [2027-01-02 13:14:15] A note."),
    (
        f"{STORED}  saved_by: agent, a b.ipynb, session default",
        f"{STORED}  saved_by: agent, session default",
    ),
]


@pytest.mark.parametrize(("then", "now"), OWN)
def test_own_words(then: str, now: str) -> None:
    """What the package itself wrote into a result does not count, in the result only."""
    assert result_text(result(then)) == result_text(result(now))
    assert has_own_words(result(then))
    assert exact(then) != exact(now)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("- date: '2026-01-02'", "- date: '2027-03-04'"),
        ("- [2026-01-02 03:04:05] 5 errors", "- [2027-01-02 13:14:15] 5 errors"),
        ("date: 2026-01-02", "date: 2027-03-04"),
        ("the date: '2026-01-02'", "the date: '2027-03-04'"),
        ("[2026-01-02 03:04:05] A note.", "[2027-01-02 13:14:15] A note."),
        (
            '<skill_content name="plots">\nWords.\n</skill_content>',
            '<skill_content name="tables">\nWords.\n</skill_content>',
        ),
    ],
)
def test_words_that_are_not_its_own(then: str, now: str) -> None:
    """What only resembles them is data."""
    assert result_text(result(then)) != result_text(result(now))


def test_a_remark_of_timeit() -> None:
    """What `%timeit` says now and then about its runs is no line of the result."""
    remark = (
        "The slowest run took 5.23 times longer than the fastest. "
        "This could mean that an intermediate result is being cached.\n"
    )
    loops = "5 ns ± 1 ns per loop (mean ± std. dev. of 7 runs, 100 loops each)"
    assert result_text(result(remark + loops)) == result_text(result(loops)) == loops


def test_an_error_is_another_result() -> None:
    """The same words as an error and as a result differ."""
    assert result_text(result("a", is_error=True)) != result_text(result("a"))


def test_pictures_count_by_their_kind() -> None:
    """A figure's bytes differ from one library version to the next."""
    one, two = (ToolResult("c", (Text("a"), Image("image/png", data))) for data in ("AQ==", "Ag=="))
    assert result_text(one) == result_text(two) == "a\n[image/png]"


# ---- messages ------------------------------------------------------------------------------------

OTHER_WORDS = [
    ("longer than 30 min?", "longer than 60 min?"),
    ("longer than 30 min?", "longer than 30  min?"),
    ("Since 2024-01-02T10:00:00Z.", "Since 2024-01-03T10:00:00Z."),
    ("at 10:00:00?", "at 22:00:00?"),
    ("Plot Ann.", "Plot ann."),
    ("One.  \nTwo.", "One.\nTwo."),
    ("Order 123e4567-e89b-12d3-a456-426614174000", "Order 00000000-1111-2222-3333-444444444444"),
    ("Colour it 0x00ff00.", "Colour it 0xff0000."),
    ("Save it as <duration>.", "Save it as 30 min."),
]


@pytest.mark.parametrize(("then", "now"), OTHER_WORDS)
def test_typed_lines_and_arguments_are_compared_to_the_letter(then: str, now: str) -> None:
    """What the person typed meanwhile and what a call is given count as a task does."""
    for made in (
        lambda text: Message("user", (Text(text),)),
        lambda text: Message("user", (Said(text),)),
        lambda text: Message("user", (result(text),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({"q": text})),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({"q": [text]})),)),
        lambda text: Message("assistant", (ToolCall("c", "f", json.dumps({text: 1})),)),
    ):
        assert items(made(then)) != items(made(now))
        assert items(made(then)) == items(made(then))


def test_blanks_around_an_argument_count() -> None:
    """An edit may consist of them."""
    calls = [ToolCall("c", "f", json.dumps({"new": text})) for text in ("a", "a ", "\na", " ", "")]
    assert len({items(Message("assistant", (call,)))[0].text for call in calls}) == 5


def test_a_secret_in_an_argument_is_what_the_file_keeps_of_it() -> None:
    """A key at the start of a line of code is taken out, whatever JSON makes of the line's end."""
    live, kept = (
        Message("assistant", (ToolCall("c", "f", json.dumps({"code": f"a = (\n{key})"})),))
        for key in (KEY, "[redacted]")
    )
    assert items(live) == items(kept)


def test_deep_arguments() -> None:
    """Arguments that are nested as deeply as JSON allows are compared as well."""
    deep = json.dumps({"a": "x"})
    for _ in range(400):
        deep = f'{{"a": {deep}}}'
    (one,) = items(Message("assistant", (ToolCall("c", "f", deep),)))
    (two,) = items(Message("assistant", (ToolCall("c", "f", deep.replace("x", "y")),)))
    assert one != two


def test_order_and_blanks_of_arguments_do_not_count() -> None:
    """Arguments are compared as values, not as text."""
    one = Message("assistant", (ToolCall("c1", "look", '{"a": 1, "b": "ü"}'),))
    two = Message("assistant", (ToolCall("x9", "look", '{"b":"\\u00fc","a":1}'),))
    assert items(one) == items(two) == [Item("call", 'look {"a": 1, "b": "ü"}')]


def test_words_between_calls_do_not_count() -> None:
    """Only calls count of a model's message."""
    assert items(Message("assistant", (Text("I look."),))) == []


def test_the_task_of_a_message() -> None:
    """It is the user's text; a message without one has none."""
    assert task_of(Message("user", (Text(" Count. "),))) == "Count."
    assert task_of(Message("user", (result("a"),))) == ""


def test_the_digest_goes_on() -> None:
    """It depends on each item, its kind and the order, and grows with the conversation."""
    a, b = Message("user", (Text("a"),)), Message("user", (Said("a"),))
    c = Message("user", (Text("b"),))
    histories = [[], [a], [b], [c], [a, b], [b, a], [a, a], [a, b, c]]
    digests = Digests()
    found = [digests.conversation(some) for some in histories]
    assert len(set(found)) == len(histories) and found[0] == ""
    assert found == [Digests().conversation(some) for some in histories]


@pytest.mark.parametrize(
    "text",
    [
        "/a" * 10_000 + " -packages python3.",
        "/" * 20_000 + "site-packages",
        '<skill_content name="a">\n' * 2_000,
        "saved_by: a, " * 2_000,
        "The slowest run took " * 2_000,
        " at 0x" * 4_000,
    ],
)
def test_long_texts(text: str) -> None:
    """No text takes a time that grows much faster than its length."""
    assert processor_seconds(lambda: result_text(result(text), ROOT), 1) < 3


def test_a_hint_below_an_error_is_not_compared() -> None:
    """A recording without the hint, and a run with it, are the same; in an output it counts."""
    error = "KeyError: 'fare'"
    hinted = f"{error}\n(hint: Nearest columns: fare_usd.)"

    def text(words: str, is_error: bool) -> str:
        return result_text(ToolResult("1", (Text(words),), is_error=is_error))

    assert text(hinted, True) == text(error, True)
    assert text(hinted, False) != text(error, False)


def test_a_hint_about_spoilt_inputs_is_not_compared() -> None:
    """A recording of before such hints, and a run with one, are the same."""
    hint = Text("(hint: `df` is the person's DataFrame again.)")
    hinted = ToolResult("1", (Text("6.0"), hint), details={SPOILT: {"mended": ["df"]}})
    assert result_text(hinted) == result_text(result("6.0"))
