"""Text as a person should see it: without codes, whole words about what is missing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.core.plaintext import one_line, plain, shorten

ANYTHING = st.text(st.characters() | st.sampled_from("\ud800\udfff\0\u2028\u202e"))
CODES = st.lists(
    st.sampled_from(["\x1b", "[", "31m", "]", "\x07", "\\", "a", "\r", "\n", "8;;x", "\x9b", "P"]),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;196mred\x1b[m", "red"),
        ("\x1b[2K\x1b[1Aup", "up"),
        ("\x1b[?25lhidden\x1b[?25h", "hidden"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r50%\r100%\r", "100%"),
        ("\rfirst", "first"),
        ("one\r\ntwo 1\rtwo 2\nthree", "one\ntwo 2\nthree"),
        ("\r", ""),
        ("a\0b\x07c\x08d\x7fe", "a\ufffdb\ufffdc\ufffdd\ufffde"),
        ("a\x85b\x9bc", "a\ufffdb\ufffdc"),
        ("lone \x1b", "lone \ufffd"),
        ("abc\u202edef", "abc<U+202E>def"),
        ("\u2066a\u2069", "<U+2066>a<U+2069>"),
        ("\u200fa", "<U+200F>a"),
        ("ü 😀 日本 e\u0301", "ü 😀 日本 e\u0301"),
        ("", ""),
    ],
)
def test_plain(text: str, shown: str) -> None:
    """Codes are removed, progress bars show their last state, hidden characters become visible."""
    assert plain(text) == shown


@given(ANYTHING | CODES)
def test_plain_has_no_control_characters(text: str) -> None:
    """No control characters stay except newlines and tabs."""
    left = {c for c in plain(text) if unicodedata.category(c) == "Cc"}
    assert left <= {"\n", "\t"}


@given(ANYTHING)
def test_plain_can_be_stored(text: str) -> None:
    """Plain text can be encoded as UTF-8, and so saved in a notebook."""
    plain(text).encode("utf-8")


@given(ANYTHING | CODES)
def test_plain_twice(text: str) -> None:
    """Plain text stays as it is."""
    assert plain(plain(text)) == plain(text)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["\x1b[", "\x1b]", "\r", "\x1b]a", "1;", "\x1b[1;", "a\r", "\u202e"]
)
def test_plain_takes_no_time(piece: str) -> None:
    """A long run of one character takes little time."""
    plain(piece * 300_000)
    plain("\x1b]" + piece * 300_000)


def test_shorten_leaves_short_text_alone() -> None:
    """Up to the limit nothing is cut."""
    assert shorten("abcdef", 6) == "abcdef"


def test_shorten() -> None:
    """A shortened text has its head, its tail, and the number of missing characters."""
    text = "a" * 50 + "b" * 2000 + "c" * 50
    assert shorten(text, 60) == "a" * 40 + "\n[... 2,040 characters left out ...]\n" + "c" * 20


def test_shorten_says_where_the_whole_is() -> None:
    """The notice names the place."""
    notice = "[... 70 characters left out; the whole is in the log ...]"
    assert shorten("a" * 100, 30, "the whole is in the log") == (
        "a" * 20 + f"\n{notice}\n" + "a" * 10
    )


@given(st.text(), st.integers(0, 60))
def test_shorten_keeps_the_limit(text: str, limit: int) -> None:
    """The text is never longer than the limit and the notice, and the count is right."""
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    head, tail = limit * 2 // 3, limit // 3
    notice = f"\n[... {len(text) - head - tail} characters left out ...]\n"
    assert short == text[:head] + notice + text[len(text) - tail :]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a", "a"),
        ("\n\n  b  \nc", "b"),
        ("\x1b[31mred\x1b[0m\nmore", "red"),
        ("1%\r100%", "100%"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("x" * 78 + " yz", "x" * 78 + "…"),
        ("\n \t\n", ""),
        ("", ""),
    ],
)
def test_one_line(text: str, line: str) -> None:
    """The first line with words is returned, with at most eighty characters."""
    assert one_line(text) == line


@given(ANYTHING, st.integers(1, 100))
def test_one_line_keeps_the_limit(text: str, limit: int) -> None:
    """The result is one line within the limit."""
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
