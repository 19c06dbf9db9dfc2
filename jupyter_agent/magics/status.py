"""The line that shows where a running turn is, until the saved form takes its place."""

from __future__ import annotations

import html
import sys

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle

from jupyter_agent.events import (
    Event,
    Retrying,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.plaintext import one_line


class Status:
    """A sink that keeps one line up to date.

    Replayed turns show none: they are over at once, and validators would see it come and go.

    Attributes:
        shown: Whether there is a line in the notebook to be cleared at the end.
    """

    def __init__(self, display: str) -> None:
        self.shown = False
        self._wanted = display == "auto"
        self._in_kernel = hasattr(get_ipython(), "kernel")
        self._step = ""
        self._handle: DisplayHandle | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted(source=source):
                self._wanted = self._wanted and source == "live"
            case StepStarted(number=number, limit=limit):
                self._step = f"step {number} of {limit}"
                self._show(f"{self._step} · waiting for the model")
            case ToolStarted(call=call):
                self._show(f"{self._step} · {call.name}")
            case ToolFinished():
                self._show(f"{self._step}")
            case Retrying(reason=reason, delay=delay):
                self._show(f"{self._step} · {reason} Next try in {delay:.0f} s.")
            case TurnFinished():
                self._erase()

    def _show(self, text: str) -> None:
        if not self._wanted:
            return
        line = f"Agent: {one_line(text, 160)}"
        if self._in_kernel:
            self._show_in_notebook(line)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def _show_in_notebook(self, line: str) -> None:
        data = {
            "text/plain": line,
            "text/html": f'<div style="opacity:.7;font-size:13px">{html.escape(line)}</div>',
        }
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(data, raw=True)
            self.shown = True
        else:
            self._handle.update(data, raw=True)

    def _erase(self) -> None:
        if self._wanted and not self._in_kernel and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
