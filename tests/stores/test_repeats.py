"""Texts that are named instead of repeated: whatever is written comes back as it was."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.stores.repeats import LeftOut, Repeats, Restoring, texts_in

CODE = "".join(f"row_{n} = frame.loc[{n}]  # a line of code\n" for n in range(30))
DIFF = "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,30 @@\n" + "".join(
    f"+{line}\n" for line in CODE.splitlines()
)

# Long lines that come again, in any order, marked or not, with any line end.
some_lines = st.sampled_from(
    ["", "}", "x" * 70, "a long line that comes again and again, word for word", "é😀" * 30]
)
marked = st.builds(
    lambda before, line, after: before + line + after,
    st.sampled_from(["", "+", "-", " ", "@"]),
    some_lines | st.text(max_size=8),
    st.sampled_from(["", "\r", " "]),
)
texts = st.lists(marked, max_size=25).map("\n".join)
names = st.sampled_from(["a", "text/plain", "x~y", "$same", "$lines", "$left_out", "$plain", "$of"])
values = st.recursive(
    texts | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
logs = st.lists(st.dictionaries(names, values, max_size=4), max_size=6)


def written(lines: list[dict[str, Any]], near: bool = True) -> list[dict[str, Any]]:
    """Lines as they would be in a file; each may repeat parts of the one before it."""
    repeats = Repeats()
    found: list[dict[str, Any]] = []
    before: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        whole = {"seq": number, **line}
        found.append(repeats.shorten(number, whole, before if near else None))
        before = list(texts_in(str(number), json.dumps(whole)))
    return [json.loads(json.dumps(line)) for line in found]


def restored(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    restoring = Restoring()
    found = [restoring.restore(line) for line in lines]
    assert restoring.lost == 0
    return found


@settings(deadline=None, max_examples=examples(300))
@given(logs, st.booleans())
def test_everything_comes_back(lines: list[dict[str, Any]], near: bool) -> None:
    """Any lines, also those that look like references, are equal after a round trip."""
    numbered = [{"seq": number, **line} for number, line in enumerate(lines, 1)]
    assert restored(written(lines, near)) == numbered


@given(logs)
def test_nothing_becomes_longer_by_much(lines: list[dict[str, Any]]) -> None:
    """A reference is used only if it is shorter than its text."""
    numbered = [{"seq": number, **line} for number, line in enumerate(lines, 1)]
    wrapped = json.dumps(lines).count('"$')  # each may need one more name around it
    assert len(json.dumps(written(lines))) <= len(json.dumps(numbered)) + 14 * wrapped


def test_a_text_that_comes_again() -> None:
    """A repeated text becomes a reference to its line and place."""
    first, second = written([{"a": {"x/y": CODE}}, {"b": [CODE]}])
    assert first["a"] == {"x/y": CODE}
    assert second["b"] == [{"$same": "1/a/x~1y"}]


def test_a_diff_of_the_arguments() -> None:
    """The lines of a new file become references to the arguments, with their marks."""
    arguments = json.dumps({"path": "a.py", "content": CODE})
    repeats = Repeats()
    call = repeats.shorten(7, {"seq": 7, "arguments": arguments})
    near = texts_in("7/arguments", arguments)
    shown = repeats.shorten(8, {"seq": 8, "diff": DIFF}, near)
    head, run, end = shown["diff"]["$lines"]
    assert head == "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,30 @@"
    assert run == {"$of": "7/arguments/content", "at": 0, "n": 30, "before": "+"}
    assert end == ""
    restoring = Restoring()
    restoring.restore(call)
    assert restoring.restore(shown)["diff"] == DIFF


def test_lines_with_carriage_returns() -> None:
    """Lines of a terminal with carriage returns become references, too."""
    raw = CODE.replace("\n", "\r\n")
    repeats = Repeats()
    line = repeats.shorten(1, {"seq": 1, "content": CODE, "display": raw}, ())
    assert line["content"] == CODE
    assert len(json.dumps(line["display"])) < 120
    assert Restoring().restore(line) == {"seq": 1, "content": CODE, "display": raw}


def test_what_is_left_out() -> None:
    """An omitted text keeps its length, and is read as empty."""
    line = Repeats().shorten(1, {"seq": 1, "data": LeftOut(12)})
    assert line["data"] == {"$left_out": 12}
    assert Restoring().restore(line)["data"] == ""


@pytest.mark.parametrize(
    "forged",
    [
        {"$same": "9/a"},
        {"$same": "1/nothing"},
        {"$same": "1/a/b/c"},
        {"$same": "2/x"},
        {"$same": ""},
        {"$same": 3},
        {"$same": "1"},
        {"$lines": "abc"},
        {"$lines": [{"$of": "1/a", "at": 0, "n": 99}]},
        {"$lines": [{"$of": "1/a", "at": -1, "n": 1}]},
        {"$lines": [{"$of": "1/a", "at": "x", "n": 1}]},
        {"$lines": [{"$of": "1/a"}]},
        {"$lines": [7]},
        {"$plain": "x"},
    ],
)
def test_names_that_lead_nowhere(forged: dict[str, Any]) -> None:
    """Broken references become words that say so, are counted, and raise nothing."""
    restoring = Restoring()
    restoring.restore({"seq": 1, "a": "text"})
    line = restoring.restore({"seq": 2, "x": forged})
    assert line == {"seq": 2, "x": "[a text that is missing in this log]"}
    assert restoring.lost == 1


def test_a_forged_log_that_would_grow_without_end() -> None:
    """A forged log of doubling references is read with bounded memory."""
    restoring = Restoring()
    restoring.restore({"seq": 0, "x": "0123456789" * 1_000})
    for number in range(1, 41):
        piece = {"$of": f"{number - 1}/x", "at": 0, "n": 2 ** (number - 1)}
        whole = restoring.restore({"seq": number, "x": {"$lines": [piece, piece]}})
        assert len(whole["x"]) < 100_000_000
    assert restoring.lost > 20


def test_the_time_for_a_line_does_not_grow() -> None:
    """The last of 4,000 lines takes as long as the first."""
    repeats = Repeats()
    took: list[float] = []
    for number in range(4_000):
        began = time.process_time()
        text = f"{number} {CODE}"
        repeats.shorten(number, {"seq": number, "content": text, "display": text + "\n"}, ())
        took.append(time.process_time() - began)
    assert sum(sorted(took[-500:])[:400]) < 3 * sum(sorted(took[:500])[:400]) + 0.02


def test_lines_that_repeat_without_end() -> None:
    """Fifty thousand equal short lines, and as many of two kinds, take little time."""
    began = time.process_time()
    for text in ("a\n" * 50_000, "a\nb\n" * 25_000):
        line = Repeats().shorten(1, {"seq": 1, "content": text, "display": "b\n" + text}, ())
        assert Restoring().restore(line)["display"] == "b\n" + text
    assert time.process_time() - began < 5
