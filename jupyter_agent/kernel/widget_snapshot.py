"""A widget of ipywidgets as plain HTML: its values at the moment when it is displayed.

JupyterLab stores no state of widgets in a notebook by default. Once the kernel is gone, a program
that knows no widgets, or lacks their state, shows this HTML in their place.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from typing import Any

from jupyter_agent.core.markup import cleaned_fragment

_MOST = 200
"""Widgets that are shown of a box."""
_DEEPEST = 8
_LONGEST = 2_000
"""Characters of one value."""
_PICTURE = 500_000
"""Bytes of a picture that is shown."""
_HTML = ("HTML", "HTMLMath")
_NO_VALUES: tuple[Any, ...] = (None, "", (), [])


def snapshot(widget: Any) -> str:
    """The HTML of a widget and of those in it; empty if nothing of it can be shown.

    Args:
        widget: A widget of ipywidgets.
    """
    try:
        lines = [line for line, _ in zip(_lines(widget, 0), range(_MOST), strict=False)]
    except Exception:  # properties of the widget's own class may fail
        return ""
    return "".join(f"<div>{line}</div>" for line in lines)


def _lines(widget: Any, depth: int) -> Iterator[str]:
    children = getattr(widget, "children", None)
    if isinstance(children, (list, tuple)):
        if depth < _DEEPEST:
            titles = list(getattr(widget, "titles", ()))
            for number, child in enumerate(children):
                if number < len(titles) and titles[number]:
                    yield f"<b>{_escaped(titles[number])}</b>"
                yield from _lines(child, depth + 1)
        return
    if line := _line(widget):
        yield line


def _line(widget: Any) -> str:
    """One widget without children: its description and its value."""
    name, value = type(widget).__name__, getattr(widget, "value", None)
    described = _escaped(getattr(widget, "description", "") or "")
    if name in _HTML:
        shown = cleaned_fragment(str(value)[: 10 * _LONGEST])
    elif isinstance(value, bytes | memoryview):
        shown = _picture(bytes(value), str(getattr(widget, "format", "")))
    elif isinstance(value, bool):
        shown = "☑" if value else "☐"
    elif hasattr(widget, "bar_style") and hasattr(widget, "max"):
        shown = f"{value:g} of {widget.max:g}"
    else:
        chosen = getattr(widget, "label", None) if hasattr(widget, "options") else value
        shown = "" if chosen in _NO_VALUES else _escaped(chosen)
    return " ".join(part for part in (described, shown) if part)


def _picture(data: bytes, kind: str) -> str:
    if kind not in ("png", "jpeg") or len(data) > _PICTURE:
        return ""
    text = base64.b64encode(data).decode("ascii")
    return f'<img alt="picture" src="data:image/{kind};base64,{text}">'


def _escaped(value: Any) -> str:
    text = str(value)
    return html.escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
