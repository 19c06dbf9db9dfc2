"""Collects the outputs of running code, in order and in bounded memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from jupyter_agent.core.messages import Output
from jupyter_agent.kernel.bounded import HEAD, TAIL, BoundedText, Overflow
from jupyter_agent.kernel.widget_messages import as_html, said_of_held

MOST_ITEMS = 100
"""The most separate outputs of one execution; later texts of a stream are joined."""

MOST_RICH = 20_000_000
"""Characters of one rich output; a longer one is left out."""

_NOT_STORABLE = (TypeError, ValueError, RecursionError)

StreamKind = Literal["stdout", "stderr"]


class Capture:
    """Collects the outputs of one execution. Use it through `capturing`."""

    def __init__(
        self,
        overflow: Callable[[int], Overflow] | None = None,
        printed: Callable[[str], None] | None = None,
    ) -> None:
        self._overflow = overflow
        self._printed = printed
        self._overflows: list[Overflow] = []
        self._items: list[tuple[str, BoundedText | Output]] = []
        self._displays: dict[str, int] = {}
        self.sizes: dict[int, str] = {}
        """The size of each finished stream in words, by the `id` of its output."""
        self.whereabouts = ""
        """Words for the place of a shortened output's full text; empty if none was shortened."""
        self._clear_next = False

    def write(self, kind: StreamKind, text: str) -> None:
        """Add to a stream; consecutive writes to the same one become one output."""
        self._clear_if_due()
        self._stream(kind).add(text)
        if self._printed is not None:
            self._printed(text)

    def _stream(self, kind: StreamKind) -> BoundedText:
        """The output to extend: the last one, or beyond the limit the last of its kind."""
        crowded = len(self._items) >= MOST_ITEMS
        for name, item in reversed(self._items if crowded else self._items[-1:]):
            if name == kind and isinstance(item, BoundedText):
                return item
        # Later streams get less room, so that many small ones stay bounded in all.
        head, tail = (2_000, 2_000) if self._items else (HEAD, TAIL)
        stream = BoundedText(head, tail, self._new_overflow())
        self._items.append((kind, stream))
        return stream

    def show(self, output: Output, display_id: str | None = None, update: bool = False) -> None:
        """Add a rich output, or replace the one that was shown under `display_id`."""
        if update and display_id in self._displays:
            self._items[self._displays[display_id]] = (output.kind, output)
            return
        self._clear_if_due()
        if display_id is not None:
            self._displays[display_id] = len(self._items)
        self._items.append((output.kind, output))

    def clear(self, wait: bool) -> None:
        """Clear the outputs, at once or with the next output (`wait`)."""
        self._clear_next = True
        if not wait:
            self._clear_if_due()

    def outputs(self) -> tuple[Output, ...]:
        return tuple(self._finished(kind, item) for kind, item in self._items)

    def _finished(self, kind: str, item: BoundedText | Output) -> Output:
        if isinstance(item, Output):
            return item
        stream: StreamKind = "stdout" if kind == "stdout" else "stderr"
        output = Output(stream, {"text/plain": str(item)})
        self.sizes[id(output)] = f"{stream}: {item.lines} lines, {item.length:,} characters"
        self.whereabouts = item.whereabouts or self.whereabouts
        return output

    def close(self) -> None:
        """Close the files of long outputs; no output follows."""
        for overflow in self._overflows:
            overflow.close()

    def _new_overflow(self) -> Overflow | None:
        if self._overflow is None:
            return None
        self._overflows.append(self._overflow(len(self._overflows) + 1))
        return self._overflows[-1]

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._items.clear()
            self._displays.clear()
            self._clear_next = False


def rich_output(
    kind: Literal["result", "display"],
    data: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
) -> Output:
    """A rich output in a form that a notebook can store.

    A line takes the place of a widget that stays out of the page, since it brings a script of its
    own. Other widgets get HTML for the time after the kernel.
    """
    if said := said_of_held(data):
        return Output("display", {"text/plain": said})
    if "text/html" not in data and (markup := as_html(data)):
        data = {**data, "text/html": markup}
    try:
        stored = dict(_json_ready(metadata or {}))
    except _NOT_STORABLE:
        stored = {}
    return Output(kind, _mime_bundle(data), stored)


def _mime_bundle(data: Mapping[str, Any]) -> dict[str, Any]:
    """A MIME bundle as a notebook stores it: JSON, with pictures as base64 text, and bounded.

    Data that cannot be stored, or is far too long, is left out, and the plain text says so.
    """
    stored: dict[str, Any] = {}
    left_out: list[str] = []
    for kind, value in data.items():
        try:
            stored[str(kind)] = _stored(str(kind), value)
        except _NOT_STORABLE:
            left_out.append(f"[{kind} left out: it is too long, or cannot be stored]")
    if left_out:
        stored["text/plain"] = "\n".join([*filter(None, [stored.get("text/plain")]), *left_out])
    return stored


def _json_ready(value: Any) -> Any:
    """The value as JSON; raises TypeError, ValueError or RecursionError if JSON cannot hold it."""
    return json.loads(json.dumps(value, default=_plain_value, skipkeys=True))


def _plain_value(value: Any) -> Any:
    """Numpy numbers, numpy arrays and dates as plain values, as notebooks store them."""
    for method in ("tolist", "isoformat"):
        if callable(getattr(value, method, None)):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _stored(kind: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if kind == "text/plain" and isinstance(value, str) and len(value) > HEAD + TAIL:
        text = BoundedText()
        text.add(value)
        return str(text)
    if not isinstance(value, str):
        return _json_ready(value)
    if len(value) > MOST_RICH:
        raise ValueError("too long")
    return value
