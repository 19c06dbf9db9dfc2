"""Everything that code shows while it runs, in order, with bounded memory."""

from __future__ import annotations

import base64
import io
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from jupyter_agent.messages import Output

HEAD = 50_000
TAIL = 50_000


class BoundedText:
    """Text of any length, of which the first `head` and the last `tail` characters are kept."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self.length = 0
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_room = head
        self._tail_size = 0
        self._tail_limit = tail

    def add(self, text: str) -> None:
        self.length += len(text)
        first, rest = text[: self._head_room], text[self._head_room :]
        if first:
            self._head.append(first)
            self._head_room -= len(first)
        if rest:
            self._add_tail(rest)

    def _add_tail(self, text: str) -> None:
        text = text[-self._tail_limit :]
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    def __str__(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)[-self._tail_limit :]
        left_out = self.length - len(head) - len(tail)
        if left_out <= 0:
            return head + tail
        return f"{head}\n[... {left_out:,} characters left out ...]\n{tail}"


class Capture:
    """Collects the outputs of one execution. Use it through `capturing`."""

    def __init__(self) -> None:
        self._items: list[tuple[str, BoundedText | Output]] = []
        self._displays: dict[str, int] = {}
        self._clear_next = False

    def write(self, kind: Literal["stdout", "stderr"], text: str) -> None:
        """Add to a stream; consecutive writes to the same one become one output."""
        self._clear_if_due()
        if not self._items or self._items[-1][0] != kind:
            self._items.append((kind, BoundedText()))
        stream = self._items[-1][1]
        assert isinstance(stream, BoundedText)
        stream.add(text)

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
        """Forget what was shown, at once or when the next output comes."""
        self._clear_next = True
        if not wait:
            self._clear_if_due()

    def outputs(self) -> tuple[Output, ...]:
        return tuple(_finished(kind, item) for kind, item in self._items)

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._items.clear()
            self._displays.clear()
            self._clear_next = False


def _finished(kind: str, item: BoundedText | Output) -> Output:
    if isinstance(item, Output):
        return item
    stream: Literal["stdout", "stderr"] = "stdout" if kind == "stdout" else "stderr"
    return Output(stream, {"text/plain": str(item)})


class _Stream(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr`."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, capture: Capture, kind: Literal["stdout", "stderr"]) -> None:
        self._capture = capture
        self._kind = kind

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._capture.write(self._kind, text)
        return len(text)


def json_ready(data: Mapping[str, Any]) -> dict[str, Any]:
    """A MIME bundle as a notebook stores it: pictures as base64 text."""
    return {
        kind: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for kind, value in data.items()
    }


class _Publisher:
    """Stands in for the shell's display publisher; what it does not know goes to the real one.

    ipykernel sets the parent message on the publisher whenever a message arrives, also while an
    awaited cell runs, so the real one must stay reachable.
    """

    def __init__(self, capture: Capture, real: Any) -> None:
        self._capture = capture
        self._real = real

    def publish(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        *,
        transient: Mapping[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        display_id = (transient or {}).get("display_id")
        output = Output("display", json_ready(data), dict(metadata or {}))
        self._capture.show(output, display_id, update)

    def clear_output(self, wait: bool = False) -> None:
        self._capture.clear(wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def capturing(shell: Any, display_hook: Any) -> Iterator[Capture]:
    """Send stdout, stderr, displays and the last expression's value to a `Capture`.

    `display_hook(capture, value)` shows a value of the last expression. Everything is put back
    as it was, also where the code itself replaced `sys.stdout`.
    """
    capture = Capture()
    saved = sys.stdout, sys.stderr, sys.displayhook, shell.display_pub, shell.display_trap.hook

    def hook(value: object) -> None:
        display_hook(capture, value)

    sys.stdout, sys.stderr = _Stream(capture, "stdout"), _Stream(capture, "stderr")
    sys.displayhook = shell.display_trap.hook = hook
    shell.display_pub = _Publisher(capture, saved[3])
    try:
        yield capture
    finally:
        sys.stdout, sys.stderr, sys.displayhook = saved[:3]
        shell.display_pub, shell.display_trap.hook = saved[3:]
