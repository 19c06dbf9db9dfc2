"""Shows a running turn as compact text in a terminal, line by line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from jupyter_agent.core.events import (
    ApprovalAsked,
    Event,
    MessageFinished,
    Noticed,
    Preparing,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from jupyter_agent.core.legible import cut, line, stable, whole
from jupyter_agent.core.transcript import CallView, TurnView, reduce
from jupyter_agent.core.wording import (
    MARKS,
    PLAN_MARKS,
    body,
    changes,
    ending,
    note,
    shown,
    summary,
    unseen,
)

_LINES = 12
"""Lines of code, and of an output, that are shown; `%agent show` has all."""
_CHARACTERS = 2_000
_STYLES = {"dim": "2", "bold": "1", "good": "32", "bad": "31", "asking": "33"}
_COLOURS = {"done": "good", "failed": "bad", "refused": "bad", "interrupted": "bad"}


class TerminalView:
    """A sink that writes to a terminal.

    Args:
        stream: The terminal.
        environ: The environment: `NO_COLOR` and `TERM=dumb` switch colours off.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._coloured = stream.isatty() and not environ.get("NO_COLOR")
        self._moves = stream.isatty()
        if environ.get("TERM", "") == "dumb":
            self._coloured = self._moves = False
        self._view = TurnView()
        self._at_start = True
        self._passing = False
        self._streamed = False

    def __call__(self, event: Event) -> None:
        before, self._view = self._view, reduce(self._view, event)
        match event:
            case StepStarted(number=number, limit=limit):
                self._streamed = False
                self._pass(f"step {number} of {limit} · waiting for the model")
            case Preparing(text=text):
                self._pass(text)
            case TextDelta(text=text):
                self._streamed = True
                self._write(stable(text))
            case MessageFinished():
                self._finish_message()
            case Retrying():
                self._streamed = False
            case Noticed(text=text) | Steered(text=text):
                words = f"You: {text}" if isinstance(event, Steered) else text
                self._line(cut(words, _CHARACTERS), "dim")
            case ToolStarted(call=call):
                self._pass(f"{call.name} {self._call(call.id).gist}")
            case ApprovalAsked(call_id=call_id):
                self._show_call(self._call(call_id), "asking")
            case ToolFinished(result=result):
                self._show_call(self._call(result.call_id), "")
                if self._view.plan != before.plan:
                    for item in self._view.plan:
                        self._line(f"    {PLAN_MARKS[item.state]} {stable(item.text)}")
            case TurnFinished():
                self._finish()
        self._write_notices(before)

    def _finish_message(self) -> None:
        """Write the end of a reply; of a replayed one, which was not streamed, all of it."""
        if not self._streamed and (text := self._view.steps[-1].text):
            self._write(stable(text))
        self._end_line()

    def _write_notices(self, before: TurnView) -> None:
        """Write the step's new notices."""
        if not self._view.steps:
            return
        shown = len(before.steps[-1].notices) if len(before.steps) == len(self._view.steps) else 0
        for notice in self._view.steps[-1].notices[shown:]:
            self._line(cut(notice, _CHARACTERS), "dim")

    def _call(self, call_id: str) -> CallView:
        return next(call for call in reversed(self._view.calls) if call.call.id == call_id)

    def _show_call(self, call: CallView, kind: str) -> None:
        words = note(call)
        seconds = f" {call.seconds:.1f} s" if call.seconds is not None else ""
        mark = self._styled(MARKS[call.state], kind or _COLOURS.get(call.state, "dim"))
        name = self._styled(line(call.call.name), "bold")
        self._line(
            f"{mark} {name}{' ' + stable(words) if words else ''}{self._styled(seconds, 'dim')}"
        )
        asking = call.state == "asking"
        if call.asked is None or asking:
            self._block(body(call) or call.gist, "    ", asking=asking)
        for text in shown(call):
            self._block(text, "    │ ", "dim", asking=asking)

    def _block(self, text: str, margin: str, style: str = "", asking: bool = False) -> None:
        """Write a few lines; all of them if the user is asked about them."""
        lines = (whole(text) if asking else cut(text, _CHARACTERS)).split("\n")
        most = len(lines) if asking else _LINES
        for each in lines[:most]:
            self._line(margin + each, style)
        if len(lines) > most:
            self._line(f"{margin}[{len(lines) - most} more lines: %agent show last]", "dim")

    def _finish(self) -> None:
        self._end_line()
        changed = " · ".join(
            stable(f"{name} {words}") for name, words in changes(self._view.receipt)
        )
        if changed:
            self._line(f"Changed: {changed}", "dim")
        if words := unseen(self._view.receipt):
            self._line(stable(words), "bad")
        if last := ending(self._view):
            self._line(stable(last), "bad")
        self._line(stable(summary(self._view)), "dim")

    # Writing

    def _styled(self, text: str, style: str) -> str:
        code = _STYLES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text and self._coloured else text

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._write(self._styled(text, style) + "\n")

    def _end_line(self) -> None:
        self._erase()
        if not self._at_start:
            self._write("\n")

    def _pass(self, text: str) -> None:
        """Write a temporary line, which the next one replaces."""
        if self._moves and self._at_start:
            self._erase()
            self._put(self._styled(f"… {line(text, 70)}", "dim"))
            self._passing = True

    def _erase(self) -> None:
        if self._passing:
            self._stream.write("\r\x1b[K")
            self._passing = False

    def _write(self, text: str) -> None:
        if not text:
            return
        self._erase()
        self._put(text)
        self._at_start = text.endswith("\n")

    def _put(self, text: str) -> None:
        """Write to the stream; replaces characters that its encoding lacks."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()
