"""matplotlib's figures and axes: their content; their texts only at levels that show data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jupyter_agent.kernel.describe.introspection import type_name
from jupyter_agent.kernel.describe.parts import (
    Describer,
    Level,
    Listing,
    Nested,
    Part,
    count,
    shows_values,
)
from jupyter_agent.kernel.describe.values import short

_DRAWN = {"lines": "line", "patches": "patch", "collections": "collection", "images": "image"}


def figure(value: Any, level: Level) -> Iterator[Part]:
    """A figure: its size and its axes. It is not drawn."""
    axes = value.axes
    width, height = value.get_size_inches()
    yield f"{type_name(type(value))}, {width:.1f} × {height:.1f} inches, {len(axes)} axes"
    if shows_values(level) and value._suptitle is not None:
        yield f"title: {short(value._suptitle.get_text(), 100)}"
    yield Listing("axes", len(axes), (Nested("", one) for one in axes))


def axes(value: Any, level: Level) -> Iterator[Part]:
    """Axes: the kinds of their drawings, and the scale of each axis."""
    numbers = {key: len(getattr(value, key)) for key in _DRAWN}
    many = {"patches": "patches"}
    drawn = [count(n, _DRAWN[key], many.get(key, "")) for key, n in numbers.items() if n]
    yield f"{type_name(type(value))}, {', '.join(drawn) or 'empty'}"
    yield f"scales: {value.get_xscale()} × {value.get_yscale()}"
    if shows_values(level):
        texts = {
            "title": value.get_title(),
            "x label": value.get_xlabel(),
            "y label": value.get_ylabel(),
        }
        yield from (f"{key}: {short(text, 100)}" for key, text in texts.items() if text)


DESCRIBERS: dict[str, Describer] = {
    "matplotlib.figure.FigureBase": figure,
    "matplotlib.figure.Figure": figure,
    "matplotlib.axes.Axes": axes,
}
