"""Saved outputs held against those of a replay."""

from __future__ import annotations

from typing import Any

import nbformat
from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.notebooks.outputs import Parting, parting

Json = dict[str, Any]


def shown(**data: object) -> Json:
    named = {
        {"png": "image/png", "md": "text/markdown"}.get(k, f"text/{k}"): v for k, v in data.items()
    }
    return dict(nbformat.v4.new_output("display_data", named))


def printed(text: str) -> Json:
    return dict(nbformat.v4.new_output("stream", name="stdout", text=text))


def found(saved: list[Json], now: list[Json]) -> Parting:
    parted = parting(saved, now)
    assert parted is not None
    return parted


@given(st.lists(st.text(max_size=10)))
def test_the_same_is_the_same(texts: list[str]) -> None:
    """Equal outputs have no difference."""
    outputs = [shown(plain=text) for text in texts]
    assert parting(outputs, [dict(output) for output in outputs]) is None


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1), st.integers(0, 5))
def test_a_stream_in_pieces(pieces: list[str], cut: int) -> None:
    """The division of a stream into pieces makes no difference."""
    whole = "".join(pieces)
    pair = [printed(whole[:cut]), printed(whole[cut:])]
    assert parting([printed(piece) for piece in pieces], pair) is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_other_words_are_an_error(one: str, other: str) -> None:
    """A difference in a text is an error, on one line."""
    parted = parting([shown(plain=one)], [shown(plain=other)])
    assert (parted is None) == (one == other)
    if parted is not None:
        assert parted.severity == "error"
        assert "\n" not in parted.message


def test_the_first_words_that_differ() -> None:
    """The most readable form is compared first, and shows the words of both sides."""
    saved = shown(html="<b>a</b>", plain="The mean mass is 5 kg today")
    now = shown(html="<b>b</b>", plain="The mean mass is 6 kg today")
    message = found([saved], [now]).message
    assert "text/plain" in message
    assert "5 kg" in message
    assert "6 kg" in message


def test_counters_and_volatile_figures() -> None:
    """Execution counts and what the package marks as volatile are not compared."""
    saved, now = shown(plain="a"), shown(plain="a")
    saved["metadata"] = {"jupyter_agent": {"steps": 1, "volatile": {"seconds": 3.1}}}
    now["metadata"] = {"jupyter_agent": {"steps": 1}}
    saved["execution_count"], now["execution_count"] = 3, 4
    assert parting([saved], [now]) is None


def test_pictures_and_metadata_warn() -> None:
    """Other bytes of a picture, or other metadata, are a warning."""
    saved, now = shown(plain="<Figure>", png="aaaa"), shown(plain="<Figure>", png="bbbb\n")
    assert found([saved], [now]).severity == "warning"
    same = shown(plain="<Figure>", png="aaaa\n")
    assert parting([saved], [same]) is None
    same["metadata"] = {"width": 3}
    assert found([saved], [same]).severity == "warning"


def test_more_or_fewer_outputs() -> None:
    """A missing display, or one of another kind, is an error."""
    assert "1 outputs are saved, the replay has 0" in found([shown(plain="a")], []).message
    assert found([shown(plain="a")], [printed("a")]).severity == "error"
    assert found([shown(plain="a", md="b")], [shown(plain="a")]).severity == "error"


def test_an_error_after_a_picture() -> None:
    """Different words are reported before different pictures."""
    saved = [shown(png="aaaa"), shown(plain="a")]
    now = [shown(png="bbbb"), shown(plain="b")]
    assert found(saved, now).message.startswith("Output 2 ")
