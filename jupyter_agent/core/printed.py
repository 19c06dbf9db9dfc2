"""The output of a running call for the live view, bounded however much it prints."""

from __future__ import annotations

import time

from jupyter_agent.core.events import Sink, ToolOutput

_WHOLE = 10_000
"""Characters of one call's output that are passed on as they come."""
_MOST_EVENTS = 1_000
_PASSING = 160
"""Characters of the temporary line that shows the latest output."""
_INTERVAL = 0.25


class Printed:
    """Emits `ToolOutput`: the beginning as it comes, later a temporary line four times a second."""

    def __init__(self, call_id: str, emit: Sink) -> None:
        self._call_id = call_id
        self._emit = emit
        self._room = _WHOLE
        self._events = 0
        self._last = 0.0

    def __call__(self, text: str) -> None:
        # A line that is overwritten (a progress bar) is temporary from its start.
        if self._room > 0 and self._events < _MOST_EVENTS and "\r" not in text:
            self._events += 1
            self._emit(ToolOutput(self._call_id, text[: self._room]))
            self._room -= len(text)
            return
        now = time.monotonic()
        line = text[-4 * _PASSING :].replace("\r", "\n").strip()
        if line and now - self._last >= _INTERVAL:
            self._last = now
            latest = line.rsplit("\n", 1)[-1][-_PASSING:]
            self._emit(ToolOutput(self._call_id, latest=latest))
