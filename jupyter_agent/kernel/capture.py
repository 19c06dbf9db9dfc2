"""Everything that code shows while it runs, in order, with bounded memory."""

from __future__ import annotations

import base64
import io
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from jupyter_agent.messages import Output

HEAD = 50_000
TAIL = 50_000
OVERFLOW = 50_000_000
"""Characters of one long output that are kept on disk."""
OUTPUTS = "outputs"
"""The folder for them, inside of the state folder."""


class Overflow:
    """Where the whole of a long output goes: a file, made when it is first needed.

    Args:
        folder: Gives the folder to write to, for instance the workspace's state folder.
        name: The file's name. It must not differ from run to run: notices name it.
    """

    def __init__(self, folder: Callable[[], Path], name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: IO[str] | None = None
        self._room = OVERFLOW
        self._failed = False

    def write(self, text: str) -> None:
        """Add to the file. What is beyond its room, or cannot be written, is dropped."""
        if self._failed or self._room <= 0:
            return
        try:
            if self._file is None:
                folder = self._folder()
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / self._name
                self._file = path.open("w", encoding="utf-8", errors="replace", newline="")
            self._file.write(text[: self._room])
        except OSError:
            self._failed = True
        self._room -= len(text)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def notice(self) -> str:
        """Where the rest is, in words; empty where it is nowhere."""
        if self._failed or self._file is None:
            return ""
        where = f".jupyter_agent/{OUTPUTS}/{self._name}"
        if self._room >= 0:
            return f"; the whole is in {where}"
        return f"; the first {OVERFLOW // 1_000_000} MB are in {where}"


class BoundedText:
    """Text of any length, of which the first `head` and the last `tail` characters are kept.

    From the moment that something would be lost, `overflow` gets all of it.
    """

    def __init__(
        self, head: int = HEAD, tail: int = TAIL, overflow: Overflow | None = None
    ) -> None:
        self.length = 0
        self._overflow = overflow
        self._limit = head + tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_room = head
        self._tail_size = 0
        self._tail_limit = tail

    def add(self, text: str) -> None:
        if self._overflow is not None and self.length + len(text) > self._limit:
            if self.length <= self._limit:
                self._overflow.write("".join([*self._head, *self._tail]))
            self._overflow.write(text)
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
        where = self._overflow.notice if self._overflow else ""
        return f"{head}\n[... {left_out:,} characters left out{where} ...]\n{tail}"


class Capture:
    """Collects the outputs of one execution. Use it through `capturing`."""

    def __init__(self, overflow: Callable[[int], Overflow] | None = None) -> None:
        self._overflow = overflow
        self._overflows: list[Overflow] = []
        self._items: list[tuple[str, BoundedText | Output]] = []
        self._displays: dict[str, int] = {}
        self._clear_next = False

    def write(self, kind: Literal["stdout", "stderr"], text: str) -> None:
        """Add to a stream; consecutive writes to the same one become one output."""
        self._clear_if_due()
        if not self._items or self._items[-1][0] != kind:
            self._items.append((kind, BoundedText(overflow=self._new_overflow())))
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

    def close(self) -> None:
        """No output comes any more."""
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
def _tapped(stream: Any, capture: Capture, kind: Literal["stdout", "stderr"]) -> Iterator[None]:
    """Redirect the kernel's own stream object, for those who kept a reference to it.

    Logging handlers do, and what subprocesses write to the kernel's file descriptors arrives
    there. A terminal's stream is left alone: it has no place for a method of ours.
    """

    def write(text: str) -> int:
        capture.write(kind, text)
        return len(text)

    try:
        stream.write = write
    except AttributeError:
        yield
        return
    try:
        yield
    finally:
        vars(stream).pop("write", None)


@contextmanager
def capturing(
    shell: Any, display_hook: Any, overflow: Callable[[int], Overflow] | None = None
) -> Iterator[Capture]:
    """Send stdout, stderr, displays and the last expression's value to a `Capture`.

    `display_hook(capture, value)` shows a value of the last expression; `overflow(number)` makes
    the place for an output that is too long. Everything is put back as it was, also where the
    code itself replaced `sys.stdout`.
    """
    capture = Capture(overflow)
    saved = sys.stdout, sys.stderr, sys.displayhook, shell.display_pub, shell.display_trap.hook

    def hook(value: object) -> None:
        display_hook(capture, value)

    sys.stdout, sys.stderr = _Stream(capture, "stdout"), _Stream(capture, "stderr")
    sys.displayhook = shell.display_trap.hook = hook
    shell.display_pub = _Publisher(capture, saved[3])
    try:
        with _tapped(saved[0], capture, "stdout"), _tapped(saved[1], capture, "stderr"):
            yield capture
    finally:
        capture.close()
        sys.stdout, sys.stderr, sys.displayhook = saved[:3]
        shell.display_pub, shell.display_trap.hook = saved[3:]
