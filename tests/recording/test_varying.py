"""What varies from run to run: how it is marked, learned and matched again."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from generated import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pace import processor_seconds

from jupyter_agent.recording.varying import (
    CLOSE,
    OPEN,
    Span,
    hint,
    kind,
    learn,
    marked,
    match,
    parse,
    spans,
    unmarked,
    unordered,
)

ODD = st.text(st.sampled_from("⟨⟩\\\n a1,{}\x00'"), max_size=14)
ANY = st.text(max_size=20) | ODD
PIECES = st.lists(st.tuples(ANY.filter(bool), st.booleans()), max_size=6)


def fixed(text: str) -> str:
    """A recorded text in which nothing is marked."""
    return marked([(text, False)])


# ---- marks ---------------------------------------------------------------------------------------


def joined(pieces: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """The pieces with fixed neighbours in one, as no mark parts them."""
    found: list[tuple[str, bool]] = []
    for text, varies in pieces:
        if found and not varies and not found[-1][1]:
            found[-1] = found[-1][0] + text, False
        else:
            found.append((text, varies))
    return found


@given(PIECES)
@example([("\\\n", False), ("5", True)])
@example([("\\", True), ("\\⟨", False), ("\\\\", True)])
@settings(max_examples=examples(1000))
def test_what_is_marked_is_parsed(pieces: list[tuple[str, bool]]) -> None:
    """Any pieces come back from a marked text, with brackets and backslashes in them."""
    whole = joined(pieces)
    assert parse(marked(whole)) == whole
    assert unmarked(marked(whole)) == "".join(text for text, _ in whole)
    assert list(spans(marked(whole))) == [text for text, varies in whole if varies]


@given(ANY)
@settings(max_examples=examples(1000))
def test_any_text_is_a_recorded_one(text: str) -> None:
    """A text without marks comes back as it was, and is matched by itself."""
    assert unmarked(fixed(text)) == text
    assert not spans(fixed(text))
    assert match(fixed(text), text) == []


@given(ANY)
@settings(max_examples=examples(1000))
def test_any_marked_text_can_be_read(text: str) -> None:
    """What a person wrote by hand is read, also with a bracket that has no partner."""
    again = marked(parse(text))
    assert parse(again) == joined(parse(text))
    assert unmarked(again) == unmarked(text)


@pytest.mark.parametrize("text", ["a ⟨ b", "a ⟩ b", "⟩⟨", "⟨", "a ⟨b⟩ c ⟨d"])
def test_a_bracket_alone_is_text(text: str) -> None:
    """A bracket without its partner marks nothing."""
    assert unmarked(text).count(OPEN) + unmarked(text).count(CLOSE) == text.count(
        OPEN
    ) + text.count(CLOSE) - 2 * len(spans(text))


# ---- learned and matched -------------------------------------------------------------------------

WORD = st.sampled_from(
    ["took", "rows:", "mean =", "(n", "x", "|", "é", "of", "at ", "  ", "-", "="]
)
NUMBER = st.integers(-9999, 99999).map(str) | st.floats(0, 1e6).map(lambda x: f"{x:.3f}")
NAME = st.text("abcdefgh0123456789", min_size=8, max_size=8)
WHEN = st.datetimes(datetime(2001, 1, 1), datetime(2029, 1, 1)).map(lambda t: f"{t:%F %T.%f}")
UUID = st.uuids().map(str)
TMP = NAME.map(lambda name: f"<tmp>/tmp{name}")
TOOK = st.tuples(NUMBER, st.sampled_from(["s", "ms", "µs", "min"])).map(" ".join)
SET = st.sets(st.sampled_from("abcdefg"), min_size=2).map(repr)
VALUES = [NUMBER, WHEN, UUID, TMP, TOOK, SET]


@st.composite
def two_runs(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts by the same code: the same words, with values of the same kinds."""
    lines = draw(st.lists(st.lists(st.sampled_from([WORD, *VALUES]), max_size=4), max_size=4))
    first, again = [], []
    for line in lines:
        words = [(one := draw(item), one if item is WORD else draw(item)) for item in line]
        first.append(" ".join(word for word, _ in words))
        again.append(" ".join(word for _, word in words))
    return "\n".join(first), "\n".join(again)


@given(two_runs())
@settings(max_examples=examples(2000))
def test_what_was_learned_matches_both_runs(runs: tuple[str, str]) -> None:
    """What two runs have in common is the form of both."""
    first, again = runs
    learned = learn(fixed(first), again)
    if learned is None:
        return
    assert unmarked(learned) == first
    assert match(learned, first) is not None
    assert match(learned, again) is not None


@given(ANY, ANY)
@settings(max_examples=examples(2000))
def test_any_two_texts(first: str, again: str) -> None:
    """Whatever two runs print: no form, or one that fits both and keeps the first text."""
    learned = learn(fixed(first), again)
    if learned is not None:
        assert unmarked(learned) == first
        assert match(learned, first) is not None
        assert match(learned, again) is not None
    if match(fixed(first), again) is not None:
        assert learned is not None


@given(two_runs(), st.data())
@settings(max_examples=examples(800))
def test_a_character_outside_of_the_marks(runs: tuple[str, str], data: st.DataObject) -> None:
    """Change any visible character that is not marked, and the text does not match."""
    learned = learn(fixed(runs[0]), runs[1])
    assume(learned)
    places, place = [], 0
    for text, varies in parse(learned or ""):
        if not varies:
            places += [place + n for n, character in enumerate(text) if not character.isspace()]
        place += len(text)
    assume(places)
    at = data.draw(st.sampled_from(places))
    put = data.draw(st.sampled_from("a5-.\n{}⟨é ") | st.characters(codec="utf-8"))
    assume(put != runs[0][at])
    changed = runs[0][:at] + put + runs[0][at + 1 :]
    assert match(learned or "", changed) is None


@given(ANY, ANY)
@settings(max_examples=examples(2000))
def test_nothing_is_marked(first: str, again: str) -> None:
    """A text without marks matches itself alone, and a printed set in another order."""
    is_match = match(fixed(first), again) is not None
    assert is_match == (first == again or _by_line(first) == _by_line(again))


def _by_line(text: str) -> list[str]:
    return [unordered(line) for line in text.split("\n")]


# ---- the kinds of code that vary -----------------------------------------------------------------

TIMEIT = (
    "12.3 ms ± 45 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)",
    "981 μs ± 1.2 ns per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
)
FRAME = (
    "          a         b\n0  0.123456  1.500000\n1  0.900000 -0.250000",
    "           a         b\n0  10.500000  1.250000\n1   3.000000  0.875000",
)
VARYING = {
    "timeit": TIMEIT,
    "time": (
        "CPU times: user 1.2 ms, sys: 0 ns, total: 1.2 ms\nWall time: 1.21 ms",
        "CPU times: user 12 µs, sys: 3 µs, total: 15 µs\nWall time: 16.7 µs",
    ),
    "a long time": (
        "CPU times: user 1.2 s, sys: 3 ms, total: 1.2 s\nWall time: 1min 2s",
        "CPU times: user 2.4 s, sys: 40 ms, total: 2.4 s\nWall time: 2min 41s",
    ),
    "now": ("2026-01-02 03:04:05.678901", "2026-11-12 13:14:15.000001"),
    "now with a zone": ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:06+00:00"),
    "repr of now": (
        "datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)",
        "datetime.datetime(2026, 1, 12, 13, 14, 15, 8)",
    ),
    "ctime": ("Mon Jan  5 03:04:05 2026", "Tue Jan 13 13:14:15 2026"),
    "a clock": ("done at 03:04:05", "done at 13:14:15"),
    "mkdtemp": ("'<tmp>/tmpab12cd34'", "'<tmp>/tmpz_9xk0qw'"),
    "a temporary file": ("saved <tmp>/tmpab12cd34/out.csv.", "saved <tmp>/tmpz_9xk0qw/out.csv."),
    "uuid": (
        "run 123e4567-e89b-42d3-a456-426614174000",
        "run 00000000-1111-4222-b333-444444444444",
    ),
    "repr of a uuid": (
        "UUID('123e4567-e89b-42d3-a456-426614174000')",
        "UUID('00000000-1111-4222-b333-44444444444f')",
    ),
    "seconds": ("took 3.2 s for 10 rows", "took 14.5 s for 10 rows"),
    "perf_counter": ("0.12345", "1.5e-05"),
    "an array": ("array([0.1, 0.25, 3. ])", "array([1.5, 2. , 0.125])"),
    "a longer array": ("[ 1  2 30]", "[100   2   3]"),
    "a frame": FRAME,
    "a set": ("{'b', 'a', 'c'}", "{'c', 'b', 'a'}"),
    "a set of tuples": ("{(1, 'b'), (2, 'a')}", "{(2, 'a'), (1, 'b')}"),
    "a frozenset": ("frozenset({'b', 'a'})", "frozenset({'a', 'b'})"),
    "a list of a set": ("['b', 'a', 'c']", "['a', 'c', 'b']"),
    "a shuffled list": ("[3, 1, 2, 5]", "[5, 2, 3, 1]"),
    "a joined set": ("found: b, a, c", "found: a, c, b"),
    "a token": ("token kf93kd02kf", "token 0a8sk2md9a"),
    "a token of digits": ("token kf93kd02", "token 01234567"),
    "token_urlsafe": ("'kS-3_xQ'", "'a9Zk-_w'"),
    "a hash": ("hash -712345", "hash 881234567"),
    "a pid": ("process 1234", "process 99"),
    "a die": ("you rolled 6", "you rolled 2"),
}


@pytest.mark.parametrize("name", VARYING)
def test_code_that_varies(name: str) -> None:
    """What such code prints has a form that both runs fit, and nothing else of the line is lost."""
    first, again = VARYING[name]
    learned = learn(fixed(first), again)
    assert learned is not None
    assert unmarked(learned) == first
    for text in (first, again):
        assert match(learned, text) is not None
    turned = learn(fixed(again), first)
    assert turned is not None and match(turned, first) is not None


@pytest.mark.parametrize("name", VARYING)
def test_a_third_run(name: str) -> None:
    """What the third run prints, with yet other values of the same kind, matches as well."""
    first, again = VARYING[name]
    learned = learn(fixed(first), again) or ""
    chance = random.Random(name)
    for _ in range(10):
        third = "".join(_other(text, varies, chance) for text, varies in parse(learned))
        assert match(learned, third) is not None


def _other(text: str, varies: bool, chance: random.Random) -> str:
    """A text with other digits where it varies."""
    if not varies or ", " in text or "-" in text:
        return text
    change = {d: chance.choice("123456789") for d in "123456789"} if kind(text) != "time" else {}
    return text.translate(str.maketrans(change))


@pytest.mark.parametrize(
    ("first", "again", "third"),
    [
        ("took 3.2 s for 10 rows", "took 4.1 s for 10 rows", "took 4.1 s for 11 rows"),
        ("a 1 b", "a 2 b", "a 2 c"),
        ("a 1 b", "a 2 b", "a 2 b c"),
        ("a 1 b", "a 2 b", "a b"),
        ("a 1", "a 2", "a 2\n"),
        ("a 1", "a 2", "a 2\nmore"),
        ("a 1", "a 2", "a many"),
        ("at 03:04:05", "at 13:14:15", "at 5"),
        ("at 03:04:05", "at 13:14:15", "in 13:14:15"),
        ("token kf93kd02kf", "token 0a8sk2md9a", "token 5 5"),
        ("<tmp>/tmpab12cd34/out.csv", "<tmp>/tmpz_9xk0qw/out.csv", "<home>/x/out.csv"),
        ("['b', 'a', 'c']", "['a', 'c', 'b']", "['a', 'd', 'b']"),
        ("found: b, a, c", "found: a, c, b", "found: a, c"),
        ("[3, 1, 2, 5]", "[5, 2, 3, 1]", "[5, 2, 3, 3]"),
        (FRAME[0], FRAME[1], FRAME[1].replace("b", "c")),
        (FRAME[0], FRAME[1], FRAME[1] + "\n2   1.000000  1.000000"),
        (TIMEIT[0], TIMEIT[1], TIMEIT[1].replace("7 runs", "7 walks")),
    ],
)
def test_something_else_changed(first: str, again: str, third: str) -> None:
    """A changed fixed word, another kind, a line more: that is no variation, and misses."""
    learned = learn(fixed(first), again)
    assert learned is not None and match(learned, again) is not None
    assert match(learned, third) is None


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("a\nb", "b\na\nc"),
        ("5", "five apples"),
        ("3.2 s", "2026-01-02"),
        ("a b", "a b c"),
        ("count 5", "count five"),
        ("{'a', 'b'}", "{'a', 'b', 'c'}"),
        ("[1, 2, 3]", "[1, 2]"),
        ("", "a"),
        ("Empty DataFrame", "   a\n0  1"),
        ("True", "[]"),
    ],
)
def test_other_lines_or_kinds_have_no_form(first: str, again: str) -> None:
    """A difference of shape cannot be learned."""
    assert learn(fixed(first), again) is None


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("344 rows", "345 rows"),
        ("mean 5,076.0", "mean 5,076.1"),
        ("mean trip 23 min", "mean trip 31 min"),
        ("2026-01-02", "2026-01-03"),
        ("2026-01-02 03:04:05", "2026-01-02 03:04:06"),
        ("at 03:04:05", "at 03:04:06"),
        ("done in 0.12s", "done in 3.4s"),
        ("a b", "a  b"),
        ("a  b", "a   b"),
        ("a \nb", "a\nb"),
        ("a\n\nb", "a\nb"),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
        ("[1, 2]", "[2, 1]"),
        ("12.3 ms ± 45 µs per loop", "9 ms ± 1.2 ms per loop"),
    ],
)
def test_what_was_not_learned_is_compared_to_the_letter(then: str, now: str) -> None:
    """A recorded text without marks is another one with another number, time, duration or blank."""
    assert match(fixed(then), now) is None


def test_the_order_of_a_set_is_never_compared() -> None:
    """A printed set is the same in any order, without a mark; its items count."""
    assert match("got {'a', 'b'} of 2", "got {'b', 'a'} of 2") == []
    assert match("got {'a', 'b'} of 2", "got {'b', 'c'} of 2") is None
    assert match("got {'a', 'b'} of 2", "got {'b', 'a'} of 3") is None
    assert match("{'x': {'a', 'b'}}", "{'x': {'b', 'a'}}") == []


def test_the_blanks_that_align_a_number() -> None:
    """Where a number varies, its column may become wider; elsewhere each blank counts."""
    learned = learn(*FRAME)
    assert learned is not None
    assert match(learned, FRAME[0].replace("  ", "   ")) is not None
    assert match(learned, FRAME[0].replace("0  0.1", "00.1")) is None
    assert match("ab ⟨5⟩", "a b 5") is None
    assert match("a  b ⟨c⟩", "a b d") is None
    assert learn("a b", "a  b") is None


def test_what_was_matched() -> None:
    """Each span is told, as it was recorded and as it is now."""
    learned = learn("took 3.2 s in <tmp>/tmpab12cd34", "took 4.1 s in <tmp>/tmpz_9xk0qw")
    assert match(learned or "", "took 9 ms in <tmp>/tmpother0") == [
        Span("3.2 s", "9 ms"),
        Span("<tmp>/tmpab12cd34", "<tmp>/tmpother0"),
    ]


def test_a_mark_by_hand() -> None:
    """A person may mark any part of a text, and any text fits there."""
    assert match("hello ⟨big wide⟩ world", "hello small world") == [Span("big wide", "small")]
    assert match("a⟨b⟩c", "axyzc") == [Span("b", "xyz")]
    assert match("a⟨b⟩c", "axyzd") is None
    assert match("⟨all of it⟩", "anything at all") is not None
    assert match("⟨one a\ntwo b⟩", "1\n2") is not None
    assert match("⟨one\ntwo⟩", "1") is None


def test_a_second_learning_keeps_the_first() -> None:
    """Marks grow: what varied between earlier runs still does."""
    once = learn("a 1 b 7", "a 2 b 7")
    assert once == "a ⟨1⟩ b 7"
    assert learn(once, "a 1 b 8") == "a ⟨1⟩ b ⟨8⟩".replace("8", "7")
    assert learn(once, "a 5 b 7") == once


def test_today_varies() -> None:
    """The day of the runs is known to vary, though both ran on one; another date is data."""
    now = datetime.now(UTC)
    text = f"today is {now:%Y-%m-%d}, since 2001-02-03"
    assert learn(text, text, [now]) == f"today is ⟨{now:%Y-%m-%d}⟩, since 2001-02-03"
    assert learn(text, text) == text
    for form in ("%d.%m.%Y", "%B %d, %Y", "%d %b %Y", "%Y/%m/%d"):
        printed = now.astimezone().strftime(form)
        assert spans(learn(printed, printed, [now]) or "") == (printed,)


def test_all_numbers_of_a_report_vary() -> None:
    """Two runs of `%timeit` may agree in a number by chance."""
    learned = learn(TIMEIT[0], TIMEIT[0].replace("12.3 ms", "12.4 ms")) or ""
    assert match(learned, TIMEIT[1].replace("7 runs", "7 runs")) is not None


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("12.5", "seed"),
        ("3.2 s", "measured"),
        ("2026-01-02", "time of the run"),
        ("<tmp>/tmpab12cd34", "temporary"),
        ("123e4567-e89b-42d3-a456-426614174000", "identifier"),
        ("'b', 'a'", "sort"),
        ("kf93kd02kf", "another text"),
        ("?!", "another text"),
    ],
)
def test_a_hint(span: str, words: str) -> None:
    """Each kind of span has words for the remedy."""
    assert words in hint(span)


# ---- lines that are hard to take apart -----------------------------------------------------------

LONG = 3_000
LONGER = 20_000
HOSTILE = {
    "digits": "1" * LONGER,
    "digits and a letter": "1" * LONGER + "x",
    "digits in threes": "1" + ",000" * (LONGER // 4) + "x",
    "numbers with commas": "1," * (LONG // 2),
    "loops": "1," * (LONG // 2) + " loops",
    "dots": "1." * (LONG // 2),
    "exponents": "1e" * (LONG // 2),
    "signs": "-" * LONG,
    "clocks": "1:11:11" * (LONG // 7),
    "days": "Monday " * (LONG // 7),
    "months": "May" + " " * LONGER,
    "folders": "<tmp>" * (LONG // 5),
    "identifiers": "01234567-" * (LONG // 9),
    "braces": "{" * (LONG // 2) + "}" * (LONG // 2),
    "open braces": "{" * LONG,
    "a large set": "{" + ", ".join(map(str, range(LONG // 6))) + "}",
    "a set with NUL": "{a, b} \x005\x00 {\x00",
    "quotes": "'" * LONG,
    "both quotes": "'\"" * (LONG // 2),
    "blanks": " " * LONGER,
    "one word": "a" * LONGER,
    "items": "a, " * (LONG // 3),
    "marks": "⟨1⟩ " * (LONG // 4),
    "marks in words": "⟨a⟩b" * (LONG // 4),
    "open marks": "⟨" * LONG,
    "backslashes": "\\" * 5_000,
    "backslashes and a bracket": "\\" * 5_000 + "⟨",
    "a report": "CPU times: " + "1 " * (LONG // 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_long_lines(name: str) -> None:
    """No line takes a time that grows faster than its length, or breaks anything."""
    line = HOSTILE[name]

    def work() -> None:
        match(line, line + "z")
        learn(fixed(line), line + " 1")
        learn(fixed(f"{line} b, c"), f"{line} c, b")
        hint(line)

    assert processor_seconds(work, 1) < 3


def test_a_set_of_sets_has_no_order() -> None:
    """The order of a set of frozensets is not compared, nor that inside of them."""
    then = "{frozenset({'a'}), frozenset({'c', 'b'}), frozenset({'d', 'e', 'f'})}"
    now = "{frozenset({'f', 'e', 'd'}), frozenset({'b', 'c'}), frozenset({'a'})}"
    assert match(then, now) == []
    assert match(then, now.replace("'a'", "'x'")) is None


@pytest.mark.parametrize("line", ["mean trip 23 min", "27.04", "window 30 days", "took 3 s for 9"])
def test_data_beside_a_clock_stays_exact(line: str) -> None:
    """A duration that agrees in both runs is data, even if the code looks at a clock."""
    assert learn(line, line, measures=True) == line


def test_an_elapsed_time_varies() -> None:
    """A line that calls its time elapsed varies, even if two runs agree."""
    assert learn("Elapsed: 0.05 s", "Elapsed: 0.05 s", measures=True) == "Elapsed: ⟨0.05 s⟩"
    assert learn("Elapsed: 0.05 s", "Elapsed: 0.05 s") == "Elapsed: 0.05 s"
