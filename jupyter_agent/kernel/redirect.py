"""Redirects the outputs of running code to a `Capture` in place of the front end.

While the agent's code awaits, other tasks run on the same event loop, for instance a cell of the
user's. Their outputs pass through to their own place.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any
from weakref import WeakSet

from jupyter_agent.core.displays import shown_displays
from jupyter_agent.kernel.bounded import Overflow
from jupyter_agent.kernel.capture import Capture, StreamKind, rich_output
from jupyter_agent.kernel.shadow import swapped
from jupyter_agent.kernel.widget_messages import harmless_widgets

_INSIDE: ContextVar[bool] = ContextVar("jupyter_agent_inside", default=False)


_OTHER_THREADS: set[int] = set()
"""Threads that were alive before the agent's code began: they are the user's."""


def is_foreign() -> bool:
    """True if the running code is not the agent's.

    Tasks that the agent's code starts inherit its context, and a new thread has no task: both
    count as its own.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return threading.get_ident() in _OTHER_THREADS
    return task is not None and not _INSIDE.get()


_LEFT_BEHIND: WeakSet[threading.Thread] = WeakSet()
"""Threads of the agent's code that went on after it."""
_CAPTURES: list[Capture] = []
"""The captures that are open."""


def is_of_the_agent() -> bool:
    """True if the running code is the agent's, also what it left behind: a task or a thread."""
    if threading.current_thread() in _LEFT_BEHIND:
        return True
    return not is_foreign() if _CAPTURES else _INSIDE.get()


def _is_codes(thread: threading.Thread) -> bool:
    """False for a thread that the kernel started for itself, such as one for widgets' messages."""
    return not type(thread).__module__.startswith("ipykernel")


class _Stream(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr`.

    Code that keeps it after the execution (a logging handler) reaches the real stream through it.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, capture: Capture, kind: StreamKind, real: Any) -> None:
        self._capture = capture
        self._kind = kind
        self._real = real
        self._real_write = real.write
        self.over = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._real.fileno())

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.over or is_foreign():
            self._real_write(text)
        else:
            self._capture.write(self._kind, text)
        return len(text)

    def flush(self) -> None:
        if self.over or is_foreign():
            self._real.flush()

    def __del__(self) -> None:
        """Does nothing, since no text is held here. Python would flush, and so wait for the
        kernel's own stream twice in each execution, which took longer than the rest of it."""

    def __getattr__(self, name: str) -> Any:
        # ipykernel sets each stream's cell on it, also while another cell runs.
        return getattr(self._real, name)


class _Publisher:
    """Stands in for the shell's display publisher; unknown attributes go to the real one.

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
        **more: Any,
    ) -> None:
        if is_foreign():
            self._real.publish(data, metadata, transient=transient, update=update, **more)
            return
        display_id = (transient or {}).get("display_id")
        self._capture.show(rich_output("display", data, metadata), display_id, update)

    def clear_output(self, wait: bool = False) -> None:
        if is_foreign():
            self._real.clear_output(wait)
        else:
            self._capture.clear(wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _watch_publisher(real: Any) -> None:
    """From now on, clean the displays of tasks and threads that the agent's code left behind."""
    publish = real.publish
    if getattr(publish, "is_watched", False):
        return

    @wraps(publish)
    def publish_checked(
        data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, *args: Any, **more: Any
    ) -> None:
        if is_of_the_agent():
            shown = next(shown_displays([rich_output("display", data, metadata)]))
            data, metadata = shown.data, shown.metadata
        publish(data, metadata, *args, **more)

    publish_checked.is_watched = True  # type: ignore[attr-defined]
    real.publish = publish_checked


@contextmanager
def _tapped(real: Any, stand_in: _Stream) -> Iterator[None]:
    """Redirect the kernel's own stream object, for code that kept a reference to it.

    Logging handlers do, and the output of subprocesses to the kernel's file descriptors arrives
    there. A terminal's stream stays unchanged: it has no place for a method of ours.
    """
    with ExitStack() as stack:
        with suppress(AttributeError):
            stack.enter_context(swapped(real, "write", stand_in.write))
        yield


@contextmanager
def capturing(
    shell: Any,
    show_value: Callable[[Capture, object], None],
    overflow: Callable[[int], Overflow] | None = None,
    printed: Callable[[str], None] | None = None,
) -> Iterator[Capture]:
    """Send stdout, stderr, displays and the last expression's value to a `Capture`.

    `show_value(capture, value)` shows the value of the last expression; `overflow(number)` makes
    the place for an output that is too long; `printed` takes the streams as they are written.
    Everything is put back as it was, also where the
    code itself replaced `sys.stdout`.
    """
    capture = Capture(overflow, printed)
    saved = sys.stdout, sys.stderr, sys.displayhook, shell.display_pub, shell.display_trap.hook
    streams = _Stream(capture, "stdout", saved[0]), _Stream(capture, "stderr", saved[1])

    def hook(value: object) -> None:
        if is_foreign():
            saved[4](value)
        else:
            show_value(capture, value)

    sys.stdout, sys.stderr = streams
    sys.displayhook = shell.display_trap.hook = hook
    shell.display_pub = _Publisher(capture, saved[3])
    inside = _INSIDE.set(True)
    # The threads that carry what subprocesses write are the kernel's: that is the code's output.
    carriers = {getattr(getattr(real, "watch_fd_thread", None), "ident", 0) for real in saved[:2]}
    before = set(threading.enumerate())
    _OTHER_THREADS.update({thread.ident or 0 for thread in before} - carriers)
    _watch_publisher(saved[3])
    _CAPTURES.append(capture)
    try:
        with ExitStack() as taps:
            for real, stream in zip(saved[:2], streams, strict=True):
                taps.enter_context(_tapped(real, stream))
            taps.enter_context(harmless_widgets(is_of_the_agent))
            yield capture
    finally:
        _CAPTURES.remove(capture)
        _LEFT_BEHIND.update(filter(_is_codes, set(threading.enumerate()) - before))
        _INSIDE.reset(inside)
        _OTHER_THREADS.clear()
        sys.stdout, sys.stderr, sys.displayhook = saved[:3]
        shell.display_pub, shell.display_trap.hook = saved[3:]
        for stream in streams:
            stream.over = True
        capture.close()
