"""The benchmarks' own parts: the scripted server, the laws of the measures, the report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import chain
from benchmarks.bench import Bench
from benchmarks.floor import LOOPS
from benchmarks.measures.disk import unique
from benchmarks.measures.kernel import executing
from benchmarks.measures.money import bill
from benchmarks.measures.steps import shared
from benchmarks.paraphrases import SUBJECTS, entries, questions
from benchmarks.report import document, refreshed
from benchmarks.result import Result, Times
from benchmarks.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_the_floor_does_the_whole_chain(kind: str, server: Server) -> None:
    """Both SDKs understand the scripted stream, call the tool at each step, and get the answer."""
    base = server.plan(f"floor-{kind}", {"kind": "chain", "steps": 4})
    found = await LOOPS[kind](base)
    seen = server.seen(f"floor-{kind}")
    assert found["answer"] == chain.ANSWER
    assert len(seen.bodies) == len(seen.came) == 5 and len(seen.gaps) == 4
    assert all(gap > 0 for gap in seen.gaps)
    assert "part 3 is" in seen.bodies[-1]
    assert shared(seen.bodies) == 1.0


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_words_that_come_slowly(kind: str, server: Server) -> None:
    """A stream with pauses has the same words, and its first token before its last."""
    plan = {"kind": "stream", "tokens": 12, "pause": 0.002, "wait": 0.01}
    base = server.plan(f"slow-{kind}", plan)
    found = await LOOPS[kind](base)
    seen = server.seen(f"slow-{kind}")
    assert found["answer"] == "".join(chain.tokens(12))
    assert seen.came[0] < seen.first[0] < seen.answered[0]


@pytest.mark.parametrize("path", ["v1/messages", "v1/chat/completions"])
async def test_replies_in_one_piece(path: str, server: Server) -> None:
    """Without streaming the reply is one JSON object with all calls."""
    base = server.plan("whole", {"kind": "many", "codes": ["x = 1", "y = 2"]})
    data = await asyncio.to_thread(_post, f"{base}/{path}")
    text = json.dumps(data)
    assert "x = 1" in text and "y = 2" in text
    assert len(server.seen("whole").bodies) == 1


def _post(url: str) -> object:
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, b"{}"), timeout=30) as answer:
        return json.load(answer)


def test_the_ends_of_the_styles() -> None:
    """The last reply is a call for peers that end by one, and words for others."""
    ends = {
        style: chain.reply({"kind": "chain", "steps": 1, "style": style}, 1).calls
        for style in ("code", "final", "bash")
    }
    assert ends["code"] == ()
    assert ends["final"][0][0] == "final_answer" and ends["bash"][0][2].startswith("finish(")


def body(*texts: str, system: str = "s" * 9_000) -> dict[str, object]:
    """A request with a mark on its system prompt and at its end, as ours are."""
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": [{"type": "text", "text": text}]}
        for n, text in enumerate(texts)
    ]
    return {"system": [{"type": "text", "text": system, **mark}], "messages": messages, **mark}


def test_what_a_cache_saves() -> None:
    """A growing conversation is read from the cache; one that begins anew is not."""
    grows = [body(*(f"text {n} " * 400 for n in range(1, end))) for end in range(2, 12)]
    cached, plain = bill(grows, cached=True), bill(grows, cached=False)
    assert cached.sent == plain.sent and plain.read == plain.written == 0
    assert plain.paid == pytest.approx(plain.sent)
    assert cached.read + cached.written == cached.sent
    assert cached.paid == pytest.approx(0.1 * cached.read + 1.25 * cached.written)
    changes = [body(f"text {n} " * 400, system=f"{n}" * 9_000) for n in range(5)]
    assert bill(changes, cached=True).read == 0


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(0, 4))
def test_what_requests_share(texts: list[str], changed: int) -> None:
    """A continued request shares all of the last one; a changed one shares less."""
    first = json.dumps(body(*texts))
    longer = json.dumps(body(*texts, "more"))
    assert shared([first, longer]) == 1.0
    at = changed % len(texts)
    other = json.dumps(body(*texts[:at], texts[at] + "!", *texts[at + 1 :], "more"))
    assert shared([first, other]) < 1.0


def test_unique_content() -> None:
    """Content that a log repeats counts once, and a display's copy of a result not at all."""
    result = {"content": [{"type": "text", "text": "one\ntwo"}], "display": []}
    shown = {**result, "display": [{"data": {"text/plain": "one\ntwo\nthree"}}]}
    line = {"type": "tool_finished", "result": result}
    assert unique([line]) == unique([line, line]) == len("one\ntwo")
    assert unique([{**line, "result": shown}]) == len("one\ntwo") + len("three")


def test_medians_and_ratios() -> None:
    """One slow run does not move a ratio."""
    times = Times({"floor": [1.0, 1.0, 9.0], "ours": [2.0, 2.0, 2.0]})
    assert times.ratio("ours", "floor") == 2.0


def test_the_report() -> None:
    """The report has each measure with its verdict, and text in tables cannot break them."""
    results = [
        Result("P1", "loading", "50 ms", "12 ms", True, ("a", "b"), [("x|y", "1\n2")], "A note."),
        Result("P2", "steps", "at most 1.3", "5.0", False),
        Result("more", "a question", "", "3 ms", None),
    ]
    text = document(
        results, {"here: openai": "1.0"}, "make bench", 5, {"cores": "2"}, ["P3: it failed"]
    )
    assert "| P1 | loading | 50 ms | 12 ms | met |" in text
    assert "| P2 | steps | at most 1.3 | 5.0 | MISSED |" in text
    assert "| x\\|y | 1 2 |" in text
    assert "Target: at most 1.3. Measured: 5.0. Missed." in text
    assert "- P3: it failed" in text and "here: openai" in text


def test_a_measure_made_anew() -> None:
    """Its row and its section take the place of the old ones, with their day; the rest stays."""
    old = [
        Result(name, "a title", "at most 2", "1.5 | 1", True, ("", "time"), [("row", "1 ms")])
        for name in ("P1", "P10", "P2")
    ]
    text = document(old, {}, "python -m benchmarks", 5, {})
    changed = refreshed(text, [replace(old[1], measured="3.0", met=False)], "again")
    assert "| P10 | a title | at most 2 | 3.0 | MISSED |" in changed
    assert "Measured: 3.0. Missed." in changed and "Measured anew by `again` on " in changed
    assert changed.count("1.5") == text.count("1.5") - 2
    assert [line for line in changed.splitlines() if line.startswith("## ")] == [
        line for line in text.splitlines() if line.startswith("## ")
    ]
    with pytest.raises(ValueError, match="no P3"):
        refreshed(text, [replace(old[0], id="P3")], "again")


def test_a_cheap_measure(server: Server, tmp_path: Path) -> None:
    """A measure that runs in a real kernel gives its rows and its verdict."""
    bench = Bench(server, tmp_path, runs=1, with_peers=False, quick=True, least=1, tiny=5)
    found = executing(bench)
    assert found.id == "P13" and found.met in (True, False)
    assert len(found.rows) == 9 and all(row[2].endswith("ms") for row in found.rows)


def test_paraphrases_are_others() -> None:
    """Two thousand different entries; each question is one of its own, about an entry that is
    there, and none was saved with it."""
    stored = {entry.title: entry for entry in entries(3)}
    asked = questions()
    assert len(stored) == 2_000 and len({each.text for each in asked}) == len(asked) >= 200
    assert len({entry.content for entry in stored.values()}) == 2_000
    names = {name for line in SUBJECTS.strip().splitlines() for name in line.split(" | ")}
    for each in asked:
        entry = stored[each.title]
        assert each.text not in entry.questions and len(entry.questions) == 3
        assert any(name in each.text for name in names)
    assert all(not entry.questions for entry in entries(0))
