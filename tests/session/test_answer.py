"""What a turn leaves: its receipt, with where the answer's numbers come from, for programs too."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from jupyter_agent.core.codec import event_from_json, event_to_json
from jupyter_agent.core.events import (
    Event,
    FileChange,
    MessageFinished,
    Receipt,
    SavedMemory,
    StepStarted,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.core.wording import UNSEEN
from jupyter_agent.session.answer import TurnFindings
from jupyter_agent.widgets.saved import plain_transcript, saved_outputs

MEAN = VariableChange("mean", "added", "Series, 3 values", "Series", (3,))


def called(number: int, name: str, result: ToolResult, **arguments: Any) -> list[Event]:
    call = ToolCall(result.call_id, name, json.dumps(arguments))
    return [
        StepStarted(number, 9),
        MessageFinished(Message("assistant", (call,)), Usage(100, 10), "tool_use"),
        ToolFinished(result, 0.1),
    ]


def ran(number: int, code: str, printed: str, state: str = "done") -> list[Event]:
    output = (Output("stdout", {"text/plain": printed}),)
    details = {"state": state, "error_name": ""}
    result = ToolResult(f"c{number}", (Text(printed),), state != "done", output, details)
    return called(number, "execute_code", result, code=code)


def wrote(number: int, path: str, change: str, added: int = 0, removed: int = 0) -> list[Event]:
    details = {"path": path, "change": change, "lines_added": added, "lines_removed": removed}
    diff = (Output("diff", {"text/plain": "+ 777 of 888"}),)
    result = ToolResult(f"c{number}", (Text("Wrote 777."),), False, diff, details)
    return called(number, "write_file", result, path=path, content="777 of 888")


def said(number: int, answer: str) -> list[Event]:
    message = Message("assistant", (Text(answer),))
    return [StepStarted(number, 9), MessageFinished(message, Usage(100, 10), "end")]


def found(*events: list[Event], task: str = "Use 42 of them.") -> TurnFindings:
    findings = TurnFindings()
    findings(TurnStarted(task, "anthropic", "claude"))
    for each in events:
        for event in each:
            findings(event)
    return findings


def where(receipt: Receipt) -> list[tuple[str, str | None, int]]:
    return [(number.text, number.seen, number.step) for number in receipt.numbers]


def test_where_numbers_come_from() -> None:
    """Numbers come from outputs, the task, descriptions or code; the rest is unseen."""
    answer = "5,076 g from 42 of 344; 13 trees, 19 rows, 21 more."
    findings = found(
        ran(1, "trees = 13", "(344, 8)"), ran(2, "mean", "Gentoo 5076.016"), said(3, answer)
    )
    rows = VariableChange("rows", "mutated", "list of 19 items", "list", (19,))
    receipt = findings.receipt((rows,), 0)
    assert where(receipt) == [
        ("5,076", "output", 2),
        ("42", "task", 0),
        ("344", "output", 1),
        ("13", "code", 1),
        ("19", "variable", 0),
        ("21", None, 0),
    ]
    assert [number.text for number in receipt.ungrounded] == ["21"]


def test_what_the_model_wrote_itself_was_not_seen() -> None:
    """The model's own writes, tool messages about them, and unexecuted code are no sources."""
    events = [
        wrote(1, "a.md", "created", 2),
        ran(2, "x = 555", "", state="refused"),
        said(3, "It is 777, 888 and 555."),
    ]
    assert [seen for _, seen, _ in where(found(*events).receipt((), 0))] == [None, None, None]


def test_numbers_of_a_file_that_was_read() -> None:
    """A read file's content is a source, its line numbers are not."""
    result = ToolResult("c1", (Text("    97|penguins 344\n    98|"),))
    events = [*called(1, "read_file", result, path="a.md"), *said(2, "97 of 344")]
    assert where(found(events).receipt((), 0)) == [("97", None, 0), ("344", "output", 1)]


def test_numbers_of_an_earlier_turn() -> None:
    """Numbers printed up to twenty turns before were seen in an earlier turn."""
    findings = found(ran(1, "x", "5076.016"))
    for _ in range(3):
        findings = TurnFindings(findings.index)
    for event in said(1, "5.1 kg, not 6.1 kg."):
        findings(event)
    assert where(findings.receipt((), 0)) == [("5.1", "earlier", 0), ("6.1", None, 0)]


def test_earlier_turns_are_forgotten_in_the_end() -> None:
    """A long session drops the numbers of its oldest turns."""
    findings = found(ran(1, "x", "5076.016"))
    for _ in range(50):
        findings = TurnFindings(findings.index)
    depth, index = 0, findings.index.earlier
    while index is not None:
        depth, index = depth + 1, index.earlier
    assert depth <= 20


def test_files_as_one_change_each() -> None:
    """Created and changed is created; changed and deleted is deleted; created and deleted is none.

    What was found in the workspace besides is added."""
    findings = found(
        wrote(1, "a.md", "created", 3),
        wrote(2, "a.md", "changed", 2, 1),
        wrote(3, "b.md", "changed", 1, 1),
        wrote(4, "b.md", "deleted", 0, 5),
        wrote(5, "c.md", "created", 1),
        wrote(6, "c.md", "deleted", 0, 1),
    )
    besides = (FileChange("plot.png", "created"), FileChange("a.md", "changed", 99))
    assert set(findings.receipt((), 0, files=besides).files) == {
        FileChange("plot.png", "created"),
        FileChange("a.md", "created", 5, 1),
        FileChange("b.md", "deleted", 1, 6),
    }


def kept(title: str) -> dict[str, object]:
    return {"saved": {"kind": "note", "title": title, "path": "notes.json"}}


def test_what_was_saved() -> None:
    """Saved notes and entries are listed, also those saved by code; failed calls are not."""
    made = {"calls": [{"tool": "record_note", "details": kept("third")}]}
    events = [
        *called(1, "record_note", ToolResult("c1", (), details=kept("first"))),
        *called(3, "execute_code", ToolResult("c3", (), True, details=made), code="record_note()"),
        *called(4, "record_note", ToolResult("c4", (), True, details=kept("failed"))),
    ]
    titles = [one.title for one in found(events).receipt((), 0).saved]
    assert titles == ["first", "third"]


def receipt_of(answer: str) -> Receipt:
    findings = found(ran(1, "mean", "Gentoo 5076.016"), wrote(2, "a.md", "created", 3))
    for event in said(3, answer):
        findings(event)
    usage = Usage(300, 30)
    return findings.receipt((MEAN,), 2, usage=usage, cost=Decimal("0.0125"), seconds=4.25678)


def test_for_programs() -> None:
    """The dictionary is valid JSON; what differs from run to run is kept apart."""
    receipt = receipt_of("It is 5,076 g, not 6,076 g.")
    facts = receipt.as_json()
    assert json.loads(json.dumps(facts)) == facts
    assert facts == {
        "variables": [
            {
                "name": "mean",
                "kind": "added",
                "summary": "Series, 3 values",
                "type_name": "Series",
                "shape": [3],
            }
        ],
        "files": [{"path": "a.md", "kind": "created", "lines_added": 3, "lines_removed": 0}],
        "proposals": 2,
        "saved": [],
        "numbers": [
            {"text": "5,076", "value": 5076.0, "seen": "output", "step": 1},
            {"text": "6,076", "value": 6076.0, "seen": None, "step": None},
        ],
        "ungrounded": ["6,076"],
        "steps": 3,
        "usage": {
            "input_tokens": 300,
            "output_tokens": 30,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
        },
    }
    assert receipt.volatile() == {"seconds": 4.257, "cost_usd": 0.0125}
    assert Receipt().volatile() == {}


def test_in_the_log_and_back() -> None:
    """A receipt with any numbers is equal after a round trip through JSON."""
    answer = f"It is 5,076 g, −3.5 %, 1e309 and {'7' * 400}."
    event = TurnFinished("end", Usage(300, 30), receipt_of(answer))
    assert len(event.receipt.numbers) == 4
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    json.dumps(event.receipt.as_json(), allow_nan=False)


def view_of(answer: str, receipt: Receipt) -> TurnView:
    view = TurnView()
    events = [*ran(1, "mean", "Gentoo 5076.016"), *said(2, answer)]
    for event in [TurnStarted("Go.", "anthropic", "claude"), *events]:
        view = reduce(view, event)
    return reduce(view, TurnFinished("end", Usage(300, 30), receipt))


def test_in_the_saved_form() -> None:
    """Unseen numbers are named above the answer; the transcript tells where the others were seen.

    Seconds and cost are in the metadata alone, and apart from what a replay gives again."""
    answer = "It is **5,076 g**, not 6,076 g."
    receipt = receipt_of(answer)
    first, last = saved_outputs(view_of(answer, receipt))
    assert dict(last.data) == {"text/markdown": answer, "text/plain": answer}
    assert all(f"{UNSEEN.capitalize()}: 6,076" in text for text in first.data.values())
    assert f"Numbers: 6,076 {UNSEEN} · 5,076 step 1" in first.data["text/plain"]
    assert f"<code>6,076</code> {UNSEEN} · <code>5,076</code> step 1" in first.data["text/html"]
    assert f"`6,076` {UNSEEN} · `5,076` step 1" in first.data["text/markdown"]
    facts = first.metadata["jupyter_agent"]
    assert facts["receipt"] == receipt.as_json()
    assert facts["volatile"] == {"seconds": 4.257, "cost_usd": 0.0125}
    text = json.dumps([dict(o.data) for o in (first, last)])
    assert "4.25" not in text
    assert "0.0125" not in text
    assert answer in plain_transcript(view_of(answer, receipt))


def test_numbers_that_a_counter_shows() -> None:
    """Numbers seen only in a counter are named below the transcript, with the counter."""
    counter = "\n".join(map(str, range(300)))
    answer = "It grew by 137 % to 214 customers; 301 left."
    receipt = found(ran(1, "print", counter), said(2, answer)).receipt((), 0)
    assert where(receipt) == [("137 %", "weak", 1), ("214", "weak", 1), ("301", None, 0)]
    assert receipt.as_json()["numbers"][0]["only"] == "among 300 consecutive numbers"
    assert receipt.as_json()["ungrounded"] == ["301"]
    place = "een only among 300 consecutive numbers of step 1"
    (first, _) = saved_outputs(view_of(answer, receipt))
    for text in first.data.values():
        assert f"S{place}: 137 % · 214" in text and f"{UNSEEN.capitalize()}: 301" in text
    plain = first.data["text/plain"]
    assert f"Numbers: 301 {UNSEEN} · 137 % s{place} · 214 s{place}" in plain
    event = TurnFinished("end", Usage(), receipt)
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_the_same_bytes_in_a_replay() -> None:
    """A replay, without seconds and cost, shows the same bytes."""
    answer = "It is **5,076 g**, not 6,076 g."
    live, again = receipt_of(answer), receipt_of(answer)
    replayed = Receipt(again.variables, again.files, 2, (), again.numbers, again.steps, again.usage)
    shown = [dict(o.data) for o in saved_outputs(view_of(answer, live))]
    assert shown == [dict(o.data) for o in saved_outputs(view_of(answer, replayed))]


def test_files_that_are_gone_and_what_was_saved_are_told() -> None:
    """The transcript's line of changes names deleted files and saved entries."""
    note = SavedMemory("note", "a finding", ".agent_memory.json")
    receipt = Receipt(files=(FileChange("old.md", "deleted", 0, 7),), saved=(note,))
    (first, _) = saved_outputs(view_of("Done.", receipt))
    assert "old.md deleted, +0 −7 lines · a finding saved as a note" in first.data["text/plain"]


def test_variables_of_loops_are_left_out() -> None:
    """The receipt leaves out `i` of a loop, but nothing that is bound otherwise, or named."""
    code = """
for i, (key, row) in enumerate(pairs):
    total = [j for j in row]
for fold in folds: pass
fold = 3
def f():
    for inside in (): pass
with open("x") as file:
    for name in file: pass
inside = 1
"""
    findings = found(
        ran(1, code, "ok"),
        ran(2, "for old in (): pass\n%%bash", "ok", "failed"),
        said(3, "The last `key` of a row was used; see name_of."),
    )
    names = ["i", "key", "row", "total", "fold", "inside", "file", "name", "f"]
    changes = [VariableChange(name, "added", "int") for name in names]
    changes.append(VariableChange("old", "changed", "int"))
    kept = [change.name for change in findings.without_scraps(changes, "[ ] Look at the row")]
    assert kept == ["key", "row", "total", "fold", "inside", "file", "f", "old"]


def test_a_letter_is_named_as_code_only() -> None:
    """The word `a` in an answer names no variable; in backticks it does."""
    loop = ran(1, "for a in x: pass", "ok")
    change = VariableChange("a", "added", "int")
    assert found(loop, said(2, "It is a mean.")).without_scraps([change]) == []
    named = found(loop, said(2, "The last value is `a + 1`."))
    assert named.without_scraps([change]) == [change]
