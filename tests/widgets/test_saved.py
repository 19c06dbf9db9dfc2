"""The saved form: inert whatever is in it, without secrets, bounded, the same bytes each time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from widgets.hostile import FIELDS, check_saved, saved, turn, view_of

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    MessageFinished,
    Retrying,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    TurnStop,
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
    assert "2 steps · 6 tool calls (3 failed, 1 refused) · 1 file · 330 tokens · claude" in html


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
