"""Tables and folded parts: aligned plain text, and HTML in which everything is escaped."""

from __future__ import annotations

from jupyter_agent.core.tables import Folded, changed, part_html, part_text, table


def test_numbers_stand_on_the_right() -> None:
    """With a head, a column of numbers ends where its name ends; others begin together."""
    made = table([("a", "5", "x"), ("long", "1,200", "y"), ("c", "?", "")], ("", "count", "word"))
    assert str(made).splitlines() == [
        "      count  word",
        "a         5  x",
        "long  1,200  y",
        "c         ?",
    ]
    assert made.html.count("text-align:right") == 4


def test_without_a_head_nothing_is_a_number() -> None:
    """Names and values: the name is code, everything begins on the left."""
    made = table([("max_steps", "50"), ("heading",)])
    assert str(made) == "max_steps  50\nheading"
    assert "<code>max_steps</code>" in made.html and "text-align:right" not in made.html


def test_everything_is_escaped() -> None:
    """Cells, heads, titles and texts are no HTML, and terminal codes are gone."""
    hostile = "<img src=x onerror=alert(1)>\x1b[31m"
    parts = (table([(hostile, hostile)], (hostile, hostile)), Folded(hostile, (hostile,)), hostile)
    for part in parts:
        assert "<img" not in part_html(part) and "&lt;img" in part_html(part)
        assert "\x1b" not in part_html(part) + part_text(part)


def test_each_text_can_be_changed() -> None:
    """Secrets are taken out of every text of a part, also of folded ones."""
    part = Folded("key", (table([("key", "a")]), Folded("x", ("key",)), "key"))
    assert "key" not in str(changed(part, lambda text: text.replace("key", "…")))
