"""The kernel's side of a live view: publishes outputs, asks the user, stops the turn."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.display import DisplayHandle, clear_output, display

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    QuestionAnswered,
    QuestionAsked,
)
from jupyter_agent.kernel.front_end import is_jupyterlab, request_of
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.magics.prompt import answer_by_input, ask_by_input
from jupyter_agent.widgets.live import OnLine, TurnCell
from jupyter_agent.widgets.saved import SavedOutput

GIVEN_UP = 1.0
"""Seconds for a page to submit a line that is no longer read."""
_CONNECTION_FILE = re.compile(r"kernel-([A-Za-z0-9-]+)\.json")


class KernelSurface:
    """One cell of a Jupyter kernel.

    Args:
        shell: The kernel's IPython shell.
        interrupts: The interrupts of the turn.
        time_out: Seconds that a question waits for an answer.
    """

    def __init__(self, shell: Any, interrupts: Interrupts, time_out: float) -> None:
        self._shell = shell
        self._interrupts = interrupts
        self._time_out = time_out
        self._handle = DisplayHandle()
        self._request = request_of(shell)
        self._is_shown = False

    def publish(self, data: Mapping[str, Any], update: bool) -> None:
        self._is_shown = True
        if update:
            self._handle.update(dict(data), raw=True)
        else:
            self._handle.display(dict(data), raw=True)

    def replace_by(self, outputs: Sequence[SavedOutput]) -> None:
        if self._is_shown and not outputs:
            # A single output cannot be removed, and a user's cell has other outputs, too.
            if self.cell.is_own:
                clear_output(wait=False)
            else:
                self._handle.update({"text/plain": ""}, raw=True)
        if self._is_shown and outputs:
            first, outputs = outputs[0], outputs[1:]
            self._handle.update(dict(first.data), metadata=dict(first.metadata), raw=True)
        show(outputs)

    @property
    def cell(self) -> TurnCell:
        header, content = self._request.get("header", {}), self._request.get("content", {})
        source = str(content.get("code", ""))
        return TurnCell(
            run=str(header.get("msg_id", "")),
            page=str(header.get("session", "")),
            id=str(self._request.get("metadata", {}).get("cellId", "")),
            source=source,
            is_own=source.lstrip().startswith("%%agent"),
            count=len(self._shell.history_manager.input_hist_parsed) - 1,
            is_in_lab=is_jupyterlab(self._request),
        )

    def ask(
        self, asked: ApprovalAsked, about: str = "", on_line: OnLine = lambda prompt: False
    ) -> ApprovalAnswered:
        read = self._reader(on_line)
        return ask_by_input(asked, self._interrupts, self._time_out, read, about)

    def ask_in_words(
        self, asked: QuestionAsked, on_line: OnLine = lambda prompt: False
    ) -> QuestionAnswered:
        return answer_by_input(asked, self._interrupts, self._time_out, self._reader(on_line))

    def _reader(self, on_line: OnLine) -> Callable[[str], str]:
        """A function that reads a line by the front end, as long as the running code runs."""
        ends = self._interrupts.executions

        def is_over() -> bool:
            return self._interrupts.requested or self._interrupts.executions != ends

        return lambda prompt: _read_line(self._shell.kernel, prompt, is_over, on_line)

    def stop(self) -> None:
        self._interrupts.stop()

    @property
    def kernel_id(self) -> str:
        """The kernel's id, from the name of its connection file; empty if it has none."""
        path = Path(str(getattr(self._shell.kernel.parent, "connection_file", "")))
        found = _CONNECTION_FILE.fullmatch(path.name)
        return found[1] if found else ""


def _read_line(kernel: Any, prompt: str, is_over: Callable[[], bool], on_line: OnLine) -> str:
    """Ask by the front end's input line, like ipykernel's `raw_input`, from any thread.

    Unlike there, the answer to an earlier question, whose line is still on the page, does not
    count; the question ends with what it is about; and a page that shows the turn takes its line
    away then, since JupyterLab runs no other cell before.

    Args:
        kernel: The kernel.
        prompt: The text before the line.
        is_over: Returns True when the question has lost its subject.
        on_line: Called with the prompt, and with an empty text when the line is no longer read.

    Raises:
        StdinNotImplementedError: The front end has no input line.
        EOFError: The user ended the input, or `is_over` became true.
    """
    if not hasattr(kernel, "_get_shell_context_var") or not kernel._allow_stdin:
        on_line(prompt)
        try:
            return str(kernel.raw_input(prompt))
        finally:
            on_line("")
    import zmq

    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    socket, session = kernel.stdin_socket, kernel.session
    while zmq.select([socket], [], [], 0)[0]:
        session.recv(socket)  # what was typed too late, or twice
    ident = kernel._get_shell_context_var(kernel._shell_parent_ident)
    content = {"prompt": prompt, "password": False}
    sent = session.send(socket, "input_request", content, kernel.get_parent("shell"), ident=ident)

    def read(is_over: Callable[[], bool]) -> str | None:
        while not is_over():
            if not zmq.select([socket], [], [], 0.05)[0]:
                continue
            _, reply = session.recv(socket)
            about = reply["parent_header"].get("msg_id") if reply else "nothing"
            if about in (None, sent["header"]["msg_id"]):
                return str(reply["content"].get("value", ""))
        return None

    value = None
    on_line(prompt)
    try:
        value = read(is_over)
    finally:
        if on_line("") and value is None:
            end = time.monotonic() + GIVEN_UP
            read(lambda: time.monotonic() > end)  # else the next `input()` may take it for its own
    if value is None or value == "\x04":
        raise EOFError
    return value


def show(outputs: Sequence[SavedOutput]) -> None:
    """Display a saved form in the running cell."""
    for output in outputs:
        display(dict(output.data), metadata=dict(output.metadata), raw=True)


def is_captured(shell: Any) -> bool:
    """True if something collects the cell's outputs: `%%capture`, an `Output` widget.

    Such a collection ignores updates, so that only an output at the end is right.
    """
    if isinstance(shell.display_pub, CapturingDisplayPublisher):
        return True
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    here = request_of(shell).get("header", {}).get("msg_id")
    instances = list(getattr(widgets, "_instances", {}).values())
    return bool(here) and any(getattr(widget, "msg_id", None) == here for widget in instances)
