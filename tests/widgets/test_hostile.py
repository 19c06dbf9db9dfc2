"""Whatever stands in a turn is inert and legible in every form in which people see it."""

from __future__ import annotations

import re

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from widgets.hostile import FIELDS, HOSTILE, check_every_form, saved, turn


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words(kind: str, field: str) -> None:
    """Hostile text gives no foreign tag, active Markdown or control: saved, live, in a terminal."""
    check_every_form(turn(**{field: HOSTILE[kind]}))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words_in_every_field(kind: str) -> None:
    """Hostile text in all fields at once is inert."""
    check_every_form(turn(**dict.fromkeys(FIELDS, HOSTILE[kind])))


SHORT = [text for text in HOSTILE.values() if len(text) < 1000]
hostile_text = st.lists(st.sampled_from(SHORT) | st.text(max_size=9), max_size=4).map("".join)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, hostile_text)))
@settings(max_examples=examples(12), deadline=None)
def test_any_mixture_of_hostile_words(fields: dict[str, str]) -> None:
    """No mixture of hostile texts gives active content or control characters."""
    check_every_form(turn(**fields))


def test_words_are_legible() -> None:
    """What was escaped for HTML reads as it was written."""
    html = saved(output="a < b & 'c' for $5 \\ 2")[0].data["text/html"]
    assert "a &lt; b &amp; &#x27;c&#x27; for $5 \\ 2" in html


def test_a_price_is_no_formula() -> None:
    """Dollars outside of code are not typeset as formulas, and read as dollars."""
    html = saved(plan="from $5 to $6")[0].data["text/html"]
    assert "from $5 to $6" in re.sub("</?span>", "", html)
    assert "<span>$</span>5" in html


def test_blank_lines_stay_blank_lines() -> None:
    """They are written so that a Markdown file takes the transcript for one block of HTML."""
    html = saved(output="one\n\n\ntwo")[0].data["text/html"]
    assert "one&#10;&#10;\ntwo" in html
