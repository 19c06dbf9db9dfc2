"""Redirects the outputs of running code to a `Capture` in place of the front end.

While the agent's code runs, other code does, too: a thread or, while it awaits, a cell of the
user's. The outputs of code without the call's mark pass through to their own place.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from typing import Any

from jupyter_agent.core.displays import shown_displays
from jupyter_agent.kernel.bounded import Overflow
from jupyter_agent.kernel.capture import Capture, StreamKind, rich_output
from jupyter_agent.kernel.marks import agents_code, is_agents, is_of
from jupyter_agent.kernel.shadow import swapped
from jupyter_agent.kernel.widget_messages import harmless_widgets


class _Stream(io.TextIOBase):
    """Stands in for `sys.stdout` or `sys.stderr`.

    Code that keeps it after the execution (a logging handler) reaches the real stream through it.

    Args:
        capture: Takes the outputs of the call.
        kind: Which of the two streams it is.
        real: The stream that it stands in for.
        call: The key of the call.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, capture: Capture, kind: StreamKind, real: Any, call: object) -> None:
        self._capture = capture
        self._kind = kind
        self._call = call
        self._carrier = getattr(real, "watch_fd_thread", None)
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
        if self._is_captured():
            self._capture.write(self._kind, text)
        else:
            self._real_write(text)
        return len(text)

    def flush(self) -> None:
        if not self._is_captured():
            self._real.flush()

    def _is_captured(self) -> bool:
        # The thread of ipykernel's that brings what subprocesses write is the call's, too.
        return not self.over and (is_of(self._call) or threading.current_thread() is self._carrier)

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

    def __init__(self, capture: Capture, real: Any, call: object) -> None:
        self._capture = capture
        self._real = real
        self._call = call

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
        if not is_of(self._call):
            self._real.publish(data, metadata, transient=transient, update=update, **more)
            return
        display_id = (transient or {}).get("display_id")
        self._capture.show(rich_output("display", data, metadata), display_id, update)

    def clear_output(self, wait: bool = False) -> None:
        if is_of(self._call):
            self._capture.clear(wait)
        else:
            self._real.clear_output(wait)

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
        if is_agents():
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
    What runs in this context is marked as the agent's code. Everything is put back as it was, also
    where the code itself replaced `sys.stdout`.
    """
    capture = Capture(overflow, printed)
    saved = sys.stdout, sys.stderr, sys.displayhook, shell.display_pub, shell.display_trap.hook
    _watch_publisher(saved[3])
    with agents_code() as call, harmless_widgets():
        streams = (
            _Stream(capture, "stdout", saved[0], call),
            _Stream(capture, "stderr", saved[1], call),
        )

        def hook(value: object) -> None:
            if is_of(call):
                show_value(capture, value)
            else:
                saved[4](value)

        sys.stdout, sys.stderr = streams
        sys.displayhook = shell.display_trap.hook = hook
        shell.display_pub = _Publisher(capture, saved[3], call)
        try:
            with _tapped(saved[0], streams[0]), _tapped(saved[1], streams[1]):
                yield capture
        finally:
            sys.stdout, sys.stderr, sys.displayhook = saved[:3]
            shell.display_pub, shell.display_trap.hook = saved[3:]
            for stream in streams:
                stream.over = True
            capture.close()
