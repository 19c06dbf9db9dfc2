"""Text of others as HTML: inert, legible in both themes, and as it was written."""

from __future__ import annotations

import re
from html import unescape

import pytest
from browser.hostile_markdown import SPELLINGS
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from widgets.hostile import COLOURS, HOSTILE, check_html

from jupyter_agent.core.data_tables import DataTable, TableCell
from jupyter_agent.widgets.html_text import MOST_COLOURED, coloured, prose, table

CODE = st.lists(
    st.sampled_from(
        [
            "import os",
            "\n",
            "  ",
            "x",
            "=",
            "'",
            '"""',
            "#",
            "<b>",
            "$",
            "\\",
            "{",
            "f'",
            "3.5",
            "@a",
        ]
    )
    | st.text(max_size=4),
    max_size=12,
).map("".join)


def words(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", markup))


@given(CODE)
@settings(max_examples=examples(200), deadline=None)
def test_coloured_code_is_the_code(code: str) -> None:
    """Without its tags, coloured code is the code, whatever it is; and nothing in it is active."""
    markup = coloured(code)
    check_html(f"<pre>{markup}</pre>")
    assert words(markup) == code


def test_long_code_has_no_colours() -> None:
    """Colours of long code would make the notebook large."""
    assert "<span" not in coloured("x = 1\n" * MOST_COLOURED)


def luminance(colour: str) -> float:
    parts = [int(digit * 2, 16) / 255 for digit in colour.removeprefix("#")]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_colours_suit_both_themes(colour: str) -> None:
    """Each colour has a contrast of at least 4.2 on white and on JupyterLab's dark background."""
    found = luminance(colour) + 0.05
    assert min((luminance("#fff") + 0.05) / found, found / (luminance("#111") + 0.05)) >= 4.2


@pytest.mark.parametrize("text", [*SPELLINGS, *(HOSTILE[kind][:9_000] for kind in HOSTILE)])
def test_prose_is_inert(text: str) -> None:
    """No spelling of a picture, of HTML or of a script's address gets through."""
    address = text.replace("URL", "https://evil.example/x.png").replace("HOST", "evil.example")
    markup = prose(address)
    check_html(f"<div>{markup}</div>")
    assert not re.search(r"<(?:img|svg|video|audio|iframe|object|embed|link|style|input)", markup)


def test_links_of_prose() -> None:
    """Links to the web and to files beside the notebook stay; others are text."""
    links = "[a](https://b.c/d?e=f&g) [h](data/i.csv) [j](javascript:k) [l](//m.n) [o](/etc/p)"
    found = re.findall(r"<a ([^>]*)>", prose(links))
    assert found[0].startswith('href="https://b.c/d?e=f&amp;g"')
    assert [each for each in found if "href" in each] == found[:2]


def test_lines_of_prose() -> None:
    """A line of the model stays a line; HTML, entities and prices read as they were written."""
    assert words(prose("one\ntwo <b> &amp; $5")) == "one\ntwo <b> &amp; $5"
    assert "<br>" in prose("one\ntwo")


def test_a_table_is_bounded() -> None:
    """A long table ends with the number of the rows that are left out."""
    row = (TableCell("0", True), TableCell("<b>$x$"))
    markup = table(DataTable((), (row,) * 150, 1_000, 1), 2_000)
    check_html(markup)
    assert len(markup) < 2_400 and re.search(r"\d+ more rows", markup)
