"""What holds for any answer and any output; hostile texts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.grounding import Index, Source, grounded


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=60), st.text("0123456789.,-−%eE+ kM\n*$[]()|`#x^_", max_size=60))
def test_any_text(answer: str, seen: str) -> None:
    """Any answer and outputs give no error, spans that fit, and every seen number is found."""
    numbers = grounded(answer + seen, [Source(seen)])
    assert all((answer + seen)[n.start : n.end] == n.text for n in numbers)
    assert [n.start for n in numbers] == sorted(n.start for n in numbers)


@settings(deadline=None)
@given(
    st.decimals(Decimal("0.001"), 10**9, places=6),
    st.integers(0, 6),
    st.sampled_from(["{}", "-{}", "value={}", "[{}]", "| {} |", "({})"]),
)
def test_what_was_printed_is_found_however_it_is_rounded(
    value: Decimal, places: int, form: str
) -> None:
    """A printed value is found rounded to any place; a value beyond rounding is not."""
    text = f"{value:.{places}f}"
    source = [Source(form.format(value))]
    said = [n for n in grounded(f"It is {text} g.", source) if n.text == text]
    assert all(n.seen == "output" for n in said)
    off = Decimal(text) + Decimal(11) * Decimal(10) ** -places
    if places and off < 1.04 * float(value) and len(f"{off}".replace(".", "").lstrip("0")) > 2:
        (number,) = grounded(f"It is {off} lux.", source)
        assert number.seen is None


def test_where_a_number_was_seen() -> None:
    """Each number has its place, value and source: the best source, at its first step."""
    sources = [
        Source("n = 344", "code", 1, "c1"),
        Source("344 and 12.5", "output", 3, "c3"),
        Source("344", "output", 2, "c2"),
        Source("-0.5 for 77", "task"),
    ]
    answer = "344 of them, 12.5 %, −0.5, 77 and 78."
    numbers = grounded(answer, sources)
    assert [(n.text, str(n.value), n.seen, n.step, n.call_id) for n in numbers] == [
        ("344", "344", "output", 2, "c2"),
        ("12.5 %", "12.5", "output", 3, "c3"),
        ("−0.5", "-0.5", "task", 0, ""),
        ("77", "77", "task", 0, ""),
        ("78", "78", None, 0, ""),
    ]
    assert [answer[n.start : n.end] for n in numbers] == [n.text for n in numbers]


@pytest.mark.parametrize(
    "hostile",
    [
        "9" * 50_000,
        "1," * 20_000,
        "1.2." * 10_000,
        "1 000 " * 10_000,
        "9e" * 20_000,
        "-" * 50_000 + "15",
        "15 % " * 8_000,
        "15 of 16 " * 5_000,
        "$" * 20_000 + "15",
        "$1" * 10_000,
        "[15" * 10_000,
        "a." * 20_000 + "15",
        "january " * 5_000 + "15",
        "about " * 8_000 + "15",
        "1" + "×10^" * 10_000,
        "1e309 1e-400 " + "9" * 400 + " 0x15 15in2015",
        "٣" * 20_000,
        "\n1. " * 5_000,
        "> " * 500 + "15",
    ],
)
@pytest.mark.timeout(20)
def test_hostile_texts(hostile: str) -> None:
    """No pattern takes more than linear time, as an answer or as an output."""
    grounded(hostile[:60_000], [Source(hostile * 3)])


def test_numbers_inside_of_longer_ones() -> None:
    """15 is not seen in 2015, nor 0.5 in 10.5, nor 344 in 13447."""
    source = [Source("2015 10.5 13447 x15 15abc 1.15.3")]
    found = [n.seen for n in grounded("15 g, 0.5 g, 344 g.", source)]
    assert found == [None, None, None]


def test_numbers_beyond_floats() -> None:
    """Numbers with too many digits for a float are found only as they were printed."""
    digits = "7" * 400
    source = [Source(f"{digits} 1e309 1e-400")]
    found = [n.seen for n in grounded(f"{digits}, {digits[:-1]}8, 1e309, 1e310, 1e-400.", source)]
    assert found == ["output", None, "output", None, "output"]


def test_each_source_is_read_once_and_a_search_does_not_grow_with_it() -> None:
    """Each character is read once, and each number takes a constant number of searches."""
    answer = "\n".join(f"- {n * 7 + 0.25:.2f} % of {n * 31 + 5_003:,}" for n in range(100))
    counts = {}
    for size in (10, 1_000):
        pieces = [Source(" ".join(f"{n * k}.5" for n in range(size))) for k in range(30)]
        index = Index(pieces)
        characters = index.characters
        assert characters == sum(len(piece.text) for piece in pieces)
        assert len(grounded(answer, index)) == 200
        assert index.characters == characters
        counts[size] = index.lookups
    assert counts[1_000] <= counts[10] * 4
    assert counts[1_000] <= 200 * 40
