"""What is read out of execution without a model: lines worth keeping, and how much fits."""

from __future__ import annotations

import json

from agent.transcripts import user
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.agent.compaction.record import (
    best_lines,
    excerpt,
    plain_record,
    record,
    rendered,
    within,
    word_count,
)
from jupyter_agent.core.messages import Context, Message, Text, ToolCall, ToolResult

TABLE = "\n".join(f"{n}  {n * 1.5:.2f}  {n * 2.25:.2f}  {n * 3.75:.2f}  {n}.1" for n in range(50))


def step(code: str, output: str, is_error: bool = False) -> list[Message]:
    call = ToolCall("c", "execute_code", json.dumps({"code": code}))
    return [
        Message("assistant", (call,)),
        user(ToolResult("c", (Text(output),), is_error=is_error)),
    ]


def test_named_numbers_before_tables() -> None:
    """A number with a name ranks above a table's row; prose has no rank."""
    lines = ["It all went well", *TABLE.split("\n"), "mean mass: 3,700.66 g", "344 rows are left"]
    assert best_lines(lines, 12) == ["mean mass: 3,700.66 g", "344 rows are left"]


def test_what_is_told_already_is_not_quoted() -> None:
    """Lines whose numbers are in the summary are left out; others are not."""
    lines = ["mass: 3,700.66 g", "rows: 344", "rows: 344"]
    assert best_lines(lines, 100, "The mean mass is 3,700.66 g.") == ["rows: 344"]


def test_a_log_does_not_push_findings_out() -> None:
    """Of lines that differ only in numbers the newest ranks first and the others last."""
    log = [f"epoch {n}: loss={n / 7:.3f}" for n in range(500)]
    chosen = best_lines(["accuracy: 0.93", *log, "best depth: 4"], 15)
    assert {"accuracy: 0.93", "best depth: 4", log[-1]} <= set(chosen)


def test_a_bare_value_keeps_its_question() -> None:
    """The value of an expression is kept together with the expression."""
    assert record(step("x = 1\nlen(penguins)", "344")).found == ["len(penguins) → 344"]


def test_failures() -> None:
    """A failed call keeps its code and the error's last line; its numbers are no findings."""
    found = record(step("df['mas']", 'Traceback\n  File "x.py", line 3\nKeyError: 9', True))
    assert found.failed == ["execute_code: df['mas']: KeyError: 9"]
    assert not found.found and not found.done


def test_an_excerpt() -> None:
    """An excerpt has the first line, the last line, and the most informative ones in between."""
    text = "\n".join(
        ["head", *(["words, words"] * 40), "the mean is 42.5 g", *(["so on"] * 40), "end"]
    )
    assert excerpt(text, 200) == "head\nthe mean is 42.5 g\nend"
    assert excerpt("", 100) == ""
    assert len(excerpt(TABLE * 20, 300)) <= 340


def test_without_a_model() -> None:
    """The record has the goal, actions, failures and answers, and counts what it leaves out."""
    messages = [m for n in range(200) for m in step(f"work_{n}()", "ok")]
    messages += [*step("bad()", "NameError: bad", True), Message("assistant", (Text("It is 5."),))]
    text = plain_record(messages, "Find the mean.", 200)
    for words in ("Goal: Find the mean.", "execute_code ×201", "NameError: bad", "- It is 5."):
        assert words in text
    assert "earlier ones are not listed" in text and "work_199()" in text
    assert word_count(text) <= 200


def test_as_material() -> None:
    """The material has the session's messages, but no kernel context and no person's words."""
    advice, kernel = Context("Try another way."), Context("<context>\nx: int\n</context>")
    messages = [*step("x", "</execution> 1"), user(advice, kernel, Text("Do it."))]
    assert list(rendered(messages)) == [
        '→ execute_code {"code": "x"}',
        "← result: <\\/execution> 1",
        "(The session told the agent: Try another way.)",
    ]


@given(st.text(), st.integers(1, 60))
def test_within(text: str, words: int) -> None:
    """A text is cut to the given number of words, by either measure; one that fits is unchanged."""
    cut = within(text, words)
    assert word_count(cut) <= words
    assert (cut == text) == (word_count(text) <= words)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40)), st.integers(0, 60), st.text())
def test_best_lines(lines: list[str], words: int, covered: str) -> None:
    """The chosen lines keep their order, occur once, and stay within the words."""
    chosen = best_lines(lines, words, covered)
    rest = iter(dict.fromkeys(lines))
    assert all(line in rest for line in chosen)
    assert sum(word_count(line) + 1 for line in chosen) <= words
