"""How many planted numbers pass as seen, and how many right ones are doubted, over real outputs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import cache

import pytest
from generated import examples
from held_out import Case, cases

from jupyter_agent.grounding import Index, Source, grounded

COUNTER = "\n".join(map(str, range(300)))


def verdict(case: Case, text: str, index: Index) -> str:
    """What is said of the number that stands in the place of the judged one."""
    answer = case.sentence.replace("{}", text)
    start = answer.index(text)
    judged = [n for n in grounded(answer, index) if n.start < start + len(text) and n.end > start]
    if not judged:
        return "not checked"
    return {None: "unseen", "weak": "weak"}.get(judged[0].seen, "seen")


@cache
def measured() -> dict[str, Counter[str]]:
    """The verdicts on the right numbers and on the planted ones of each kind of turn."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases(examples(1_120)):
        index = Index(case.sources)
        verdicts[f"{case.kind} right"][verdict(case, case.right, index)] += 1
        verdicts[f"{case.kind} planted"].update(verdict(case, x, index) for x in case.planted)
    return verdicts


@pytest.mark.parametrize("kind", ["noisy", "quiet"])
def test_planted_numbers(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Hardly a planted number passes as seen, and no right one is doubted.

    Where one passes, the same result shows it elsewhere. With counters and long lists beside the
    result, every third passed before those counted as weak.
    """
    right, planted = measured()[f"{kind} right"], measured()[f"{kind} planted"]
    with capsys.disabled():
        print(f"\n{kind}: right {dict(right)}, planted {dict(planted)}")
    assert planted["seen"] <= 0.06 * planted.total()
    assert right["unseen"] == 0 and right["weak"] <= 0.01 * right.total()


def found(answer: str, *printed: str) -> list[tuple[str, str | None, str]]:
    sources = [Source(text, "output", step) for step, text in enumerate(printed, 1)]
    return [(n.text, n.seen, n.only) for n in grounded(answer, sources)]


def test_a_counter() -> None:
    """Numbers that are found only in a counter are weak, and the counter is named."""
    only = "among 300 consecutive numbers"
    answer = "It grew by 137 % to 214 customers, and 301 are gone."
    assert found(answer, COUNTER) == [
        ("137 %", "weak", only),
        ("214", "weak", only),
        ("301", None, ""),
    ]
    assert found(answer, COUNTER, "gone 214")[1] == ("214", "output", "")


@pytest.mark.parametrize(
    ("printed", "number", "only"),
    [
        (str(list(range(60))), "37", "among 60 consecutive numbers"),
        ("\n".join(f"{i:3}  {i * 37 % 101 + 0.5}" for i in range(24)), "17", "24 consecutive"),
        ("\n".join(f"epoch {i}/90: loss {1 / i:.3f}" for i in range(1, 91)), "67", "90 consec"),
        ("\n".join(f"{i}, {i + 0.25}" for i in range(0, 100, 5)), "65", "20 evenly spaced"),
        ("0 a\n1 b\n2 c\n3 d\n4 e\n.. ..\n339 x\n340 y\n341 z\n342 u\n343 v", "343", "5 con"),
        (str(random.Random(5).choices(range(1_000), k=2_000)), "431", " numbers"),
        ("ratio 3", "300 %", "as the number 3 in another unit"),
    ],
)
def test_places_that_say_nothing(printed: str, number: str, only: str) -> None:
    """Ranges, index columns, numbered lines, long lists and small numbers in another unit."""
    ((_, seen, words),) = found(f"The share is {number}.", printed)
    assert seen == "weak" and only in words


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ("It is 17 in all.", "\n".join(f"{i}  {n}" for i, n in enumerate([3, 17, 8, 4, 11, 2]))),
        ("Row 137 has it.", COUNTER),
        ("The best is k = 12.", str(list(range(2, 30)))),
        ("Hours 16 to 18 are the busiest.", "\n".join(f"{i} {i * i}" for i in range(24))),
        ("There are 1,461 rows.", f"{COUNTER}\n(1461, 6)"),
        ("It took 2.5 s, or 2,512 ms.", "2512 ms"),
        ("Of 344 penguins, 123 (35.8 %) are Gentoo.", "(344, 8)\nGentoo 123"),
    ],
)
def test_what_stays_seen(answer: str, printed: str) -> None:
    """A number printed beside a counter, or one that names a counted thing, is seen."""
    assert {seen for _, seen, _ in found(answer, printed)} <= {"output", "computed"}


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        ("24 days.", "2014-03-24 1.5\n2014-05-24 2.5\n2014-05-25 0.0"),
        ("1,197,273 people", "1 197 273"),
        ("59 lux", "0.059"),
        ("36.8 % of 344: 123.", "344 123"),
    ],
)
def test_what_is_not_seen(answer: str, printed: str) -> None:
    """Parts of dates, groups of digits and fractions are no other numbers."""
    assert found(answer, printed)[0][1] is None
