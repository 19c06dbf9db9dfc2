"""The saved form: inert whatever is in it, without secrets, bounded, the same bytes each time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from widgets.hostile import FIELDS, check_saved, saved, turn, view_of

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FileChange,
    MessageFinished,
    Receipt,
    Retrying,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    TurnStop,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.widgets.saved import SavedOutput, saved_outputs

KEY = "sk-" + "ant-" + "Abc1" * 8

# ---------------------------------------------------------------- secrets, addresses, size


@pytest.mark.parametrize("field", FIELDS)
def test_secrets_are_redacted(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No field shows keys of a known shape or values of the environment."""
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
    """Memory addresses, which differ in each run, are left out."""
    one, two = (saved(**{field: f"<a.B object at {x}>"}) for x in ("0x7f3d561bf430", "0x55d0a1b2"))
    assert one == two
    assert "0x…" in json.dumps([dict(o.data) for o in one], ensure_ascii=False)


def test_addresses_in_displays() -> None:
    """Memory addresses in the text of a figure are left out."""
    data = {"image/png": "AA==", "text/plain": "<Figure at 0x7f3d561bf430>"}
    figure = saved(display=(Output("display", data),))[1]
    assert figure.data == {"image/png": "AA==", "text/plain": "<Figure at 0x…>"}


def many_outputs(kind: Any, character: str, count: int = 100) -> list[SavedOutput]:
    text = character * 1_000_000
    output = Output(kind, {"text/plain": text})
    events = turn()[:4]
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
    assert "2 steps · 7 tool calls (3 failed, 1 refused) · 1 file · 330 tokens · claude" in html


def test_the_metadata() -> None:
    """Counts and reasons for programs, nothing that differs from run to run."""
    facts = saved()[0].metadata["jupyter_agent"]
    assert set(facts) == {"stop_reason", "steps", "usage", "receipt", "notices"}
    assert (facts["stop_reason"], facts["steps"]) == ("end", 2)


def test_no_answer() -> None:
    """A turn without an answer says so and publishes none."""
    (only,) = saved(answer="")
    assert "The model ended the turn without an answer." in only.data["text/plain"]


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("step_limit", "The step limit was reached"),
        ("budget", "Raise the budget"),
        ("interrupted", "Interrupted."),
        ("refused", "The model refused to go on."),
        ("error", "The turn ended with the error below."),
    ],
)
def test_how_a_turn_ended(stop: TurnStop, words: str) -> None:
    """All three forms say how a turn ended, and never show a false success."""
    data = saved(stop=stop)[0].data
    assert all(words in data[kind] for kind in ("text/html", "text/markdown", "text/plain"))


def decided(answered: ApprovalAnswered, state: str = "refused") -> list[SavedOutput]:
    call = ToolCall("c1", "execute_code", '{"code": "!ls"}')
    result = ToolResult("c1", (Text("Not done."),), state != "done", details={"state": state})
    events: list[Event] = [
        *turn()[:3],
        MessageFinished(Message("assistant", (call,)), Usage(), "tool_use"),
        ApprovalAsked("c1", "Run this code?", ("runs a shell command: ls",), "shell commands"),
        answered,
        ToolFinished(result, 0.1),
        TurnFinished("end", Usage()),
    ]
    return saved_outputs(view_of(events))


@pytest.mark.parametrize(
    ("answered", "state", "words"),
    [
        (ApprovalAnswered("c1", "yes"), "done", "✓ allowed by you"),
        (ApprovalAnswered("c1", "always"), "done", "✓ allowed by you for this session"),
        (
            ApprovalAnswered("c1", "no", "person", "Not now."),
            "refused",
            "⊘ refused by you: Not now.",
        ),
        (ApprovalAnswered("c1", "no", "person"), "refused", "⊘ refused by you"),
        (ApprovalAnswered("c1", "no", "time_out"), "refused", "⊘ refused: no answer in time"),
        (ApprovalAnswered("c1", "no", "nobody"), "refused", "⊘ refused: nobody could be asked"),
        (ApprovalAnswered("c1", "yes"), "interrupted", "■ interrupted · allowed by you"),
        (ApprovalAnswered("c1", "yes"), "failed", "✗ Not done. · allowed by you"),
    ],
)
def test_who_decided(answered: ApprovalAnswered, state: str, words: str) -> None:
    """All three forms show the question, the decision and its reason."""
    data = decided(answered, state)[0].data
    plain = data["text/plain"]
    assert words in re.sub(r"(.) execute_code", r"\1", plain)
    for kind in ("text/html", "text/markdown"):
        assert words in data[kind]
    for text in data.values():
        assert "Asked: Run this code? (runs a shell command: ls)" in text


def test_a_secret_is_not_cut_in_half() -> None:
    """A key that reaches beyond the end of a shortened line is no longer than its stand-in."""
    for field in ("arguments", "result", "refusal"):
        for before in (40, 50, 60, 70):
            outputs = saved(**{field: "x" * before + " " + KEY})
            assert KEY[:12] not in json.dumps([dict(o.data) for o in outputs])


def test_an_empty_view() -> None:
    """An empty view has a transcript."""
    check_saved(saved_outputs(TurnView()))


def test_arguments_of_any_shape() -> None:
    """What is not a JSON object is shown as it came."""
    for arguments in ("", "null", "[1, 2]", '"a"', '{"code": 3}', '{"code": "', "{}", "NaN"):
        check_saved(saved(arguments=arguments))


def test_a_delegates_steps_are_in_every_form() -> None:
    """Its name, its steps, how each ended, what the person decided; in Markdown as a quotation."""
    data = saved(arguments='{"path": "a.csv"}', output="6 rows", name="read_file")[0].data
    markdown = str(data["text/markdown"])
    quoted = [each for each in markdown.split("\n") if each.startswith(">")]
    assert quoted.count("> *Its steps*") == 1
    assert "> `read_file` ✗ ok · allowed by you" in quoted and "> 6 rows" in quoted
    for text in data.values():
        assert "Delegate 1" in text and "2 steps · 110 tokens" in text
    assert "6 rows" in str(data["text/html"]).partition("Its steps")[2]


# ---------------------------------------------------------------- what a card shows

HEAD = "<thead><tr><th></th><th>a</th></tr></thead>"
ROWS = "".join(f"<tr><th>{n}</th><td>{n}</td></tr>" for n in range(3))
FRAME = Output(
    "result",
    {
        "text/html": f'<table class="dataframe">{HEAD}<tbody>{ROWS}</tbody></table>',
        "text/plain": "   a\n0  0",
    },
)
SERIES = "Adelie    3700.7\nGentoo    5076.0\nName: mass, dtype: float64"


def ran(*display: Output, state: str = "done", code: str = "x", **details: str) -> TurnView:
    """The view of a turn with one execution."""
    call = ToolCall("c1", "execute_code", json.dumps({"code": code}))
    message = Message("assistant", (Text("I **run** `x`:\n\n- now"), call))
    details = {"state": state, **details}
    result = ToolResult("c1", (Text("ok"),), state != "done", display, details)
    finished = MessageFinished(message, Usage(), "tool_use")
    return view_of([*turn()[:3], finished, ToolFinished(result, 0.1), TurnFinished("end", Usage())])


@pytest.mark.parametrize(
    ("display", "words"),
    [
        ((Output("result", {"text/plain": "42"}),), "✓ → 42"),
        ((FRAME,), "✓ → DataFrame 3×1"),
        ((FRAME, FIGURE, FIGURE), "✓ → DataFrame 3×1 · 2 figures"),
        ((replace(FRAME, kind="display"),), "✓ → DataFrame 3×1"),
        ((FIGURE,), "✓ → 1 figure"),
        ((Output("result", {"text/plain": "[<Line2D at 0x1>]"}), FIGURE), "✓ → 1 figure"),
        ((Output("result", {"text/plain": SERIES}),), "✓ → Series, 2 values"),
        ((Output("result", {"text/plain": f"kind\n{SERIES}"}),), "✓ → Series, 2 values"),
        ((Output("stdout", {"text/plain": "3 rows\n"}),), "✓ → 3 rows"),
        ((Output("stdout", {"text/plain": "a\nb\nc\n"}),), "✓ → 3 lines"),
        ((Output("stdout", {"text/plain": "a"}), TABLE), "✓ → a  b"),
        ((), "✓</summary>"),
    ],
)
def test_the_title_of_a_card_says_what_came_of_it(display: tuple[Output, ...], words: str) -> None:
    """The result of code stands in its title."""
    html = saved_outputs(ran(*display))[0].data["text/html"]
    assert words in html.replace(" &nbsp;", " ")


def test_a_table_is_a_table() -> None:
    """A data frame is shown as a table that scrolls, and not as text; bounded, it says so."""
    html = saved_outputs(ran(FRAME))[0].data["text/html"]
    assert "max-height" in html and "<td>2</td>" in html and "   a\n0  0" not in html
    rows = ROWS * 60
    many = {**FRAME.data, "text/html": str(FRAME.data["text/html"]).replace(ROWS, rows * 60)}
    html = saved_outputs(ran(Output("result", many)))[0].data["text/html"]
    assert len(html) < 15_000


def test_a_displayed_table_scrolls() -> None:
    """A data frame that was displayed is an output of its own, of limited height."""
    outputs = saved_outputs(ran(replace(FRAME, kind="display")))
    assert outputs[1].data["text/html"].startswith('<div style="max-height:400px;overflow:auto">')
    assert "<td>2</td>" in outputs[1].data["text/html"]
    assert "<td>2</td>" not in outputs[0].data["text/html"]


def test_the_code_of_a_card_has_colours() -> None:
    """Unfolded, a card shows its code in colours; without them it is the code to the letter."""
    code = "import os\n\n\n@f\ndef g(x):  # why\n    return f'{x} <b>' + str(3.5)\n%time 1"
    html = saved_outputs(ran(code=code))[0].data["text/html"]
    shown = re.search(r"<pre [^>]*>(.*?)</pre>", html, re.DOTALL)
    assert shown is not None and shown[1].count("<span") >= 7
    assert unescape(re.sub(r"<[^>]*>", "", shown[1])) == code


def test_the_words_between_steps_are_markdown() -> None:
    """The model's words are rendered: bold, code, lists."""
    html = saved_outputs(ran())[0].data["text/html"]
    assert "<strong>run</strong>" in html and "<li>now</li>" in html and "**" not in html


def test_the_plan_stays_in_sight() -> None:
    """The plan and what went wrong stand below the folded steps, above the answer."""
    html = saved(plan="Load it", diff="d")[0].data["text/html"]
    folded, below = html.rsplit("</details>", 1)
    assert "◐ Load it" in below and "◐ Load it" not in folded


def test_what_went_wrong_stands_above_the_answer() -> None:
    """What was refused, deleted and failed is one line, in all three forms; else there is none."""
    view = ran(
        Output("error", {"text/plain": "KeyError: 'x'"}), state="failed", error_name="KeyError"
    )
    files = (FileChange("old.csv", "deleted", 0, 3), FileChange("new.csv", "created", 1, 0))
    gone = (VariableChange("df", "deleted", "DataFrame"),)
    view = replace(view, receipt=Receipt(gone, files))
    line = "Deleted: old.csv, variable df · Failed: KeyError: &#x27;x&#x27; (step 1)"
    data = saved_outputs(view)[0].data
    assert line in data["text/html"].rsplit("</details>", 1)[1]
    assert unescape(line) in data["text/plain"] and unescape(line) in data["text/markdown"]
    refused = decided(ApprovalAnswered("c1", "no", "person"))[0].data["text/plain"]
    assert "Refused: execute_code !ls" in refused
    assert not re.search("Refused|Deleted|Failed", saved_outputs(ran())[0].data["text/plain"])


def test_a_figure_is_not_described_twice() -> None:
    """A figure is an output of its own; its card says where, and has no `<Figure size …>`."""
    first, figure, *_ = saved_outputs(ran(FIGURE))
    assert "[figure: below the steps]" in first.data["text/html"]
    assert "Figure&gt;" not in first.data["text/html"] and "image/png" in figure.data


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
