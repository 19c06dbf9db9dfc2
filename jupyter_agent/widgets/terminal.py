"""Shows a running turn as compact text in a terminal, line by line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from io import StringIO
from typing import TextIO

from jupyter_agent.core.diffs import FileDiff, file_diff
from jupyter_agent.core.events import (
    ApprovalAsked,
    Event,
    MessageFinished,
    Noticed,
    Preparing,
    QuestionAsked,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Voted,
)
from jupyter_agent.core.legible import cut, line, stable, whole
from jupyter_agent.core.transcript import CallView, TurnView, reduce
from jupyter_agent.core.wording import (
    MARKS,
    PLAN_MARKS,
    body,
    changes,
    ending,
    foreseen,
    note,
    pieces,
    summary,
    troubles,
    unseen,
    weakly_seen,
)

_LINES = 12
"""Lines of code, and of an output, that are shown; `%agent show last` has all."""
_CHARACTERS = 2_000
_MOST_RENDERED = 20_000
"""Characters of one block of Markdown; a longer one is written as it came."""
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_PADDING = re.compile(r"[ ]+((?:\x1b\[[\d;]*m)*)$", re.MULTILINE)
_MARKDOWN_STYLES = {"markdown.code": "cyan", "markdown.code_block": "cyan"}
"""Without a background: terminals are dark or light."""
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
        self._unwritten = ""
        self._has_blocks = False

    def __call__(self, event: Event) -> None:
        before, self._view = self._view, reduce(self._view, event)
        match event:
            case StepStarted() | Preparing() | QuestionAsked():
                self._show_progress(event)
            case TextDelta(text=text):
                self._streamed = True
                self._stream_text(text)
            case MessageFinished():
                self._finish_message()
            case Retrying(delay=delay):
                self._begin_text()
                if not self._moves and delay >= 1:
                    self._line(f"Waiting {delay:.0f} s before the next attempt.", "dim")
            case Noticed(text=text) | Voted(text=text) | Steered(text=text):
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

    def _show_progress(self, event: StepStarted | Preparing | QuestionAsked) -> None:
        if isinstance(event, QuestionAsked):
            self._end_line()  # the input line asks
            return
        if isinstance(event, Preparing):
            self._pass(event.text)
            return
        self._begin_text()
        self._pass(f"step {event.number} of {event.limit} · waiting for the model")

    def _finish_message(self) -> None:
        """Write the end of a reply; of a replayed one, which was not streamed, all of it."""
        if not self._streamed and (text := self._view.steps[-1].text):
            self._stream_text(text)
        self._write_rest()
        self._end_line()

    def _begin_text(self) -> None:
        self._streamed = self._has_blocks = False
        self._unwritten = ""

    def _stream_text(self, text: str) -> None:
        """Write a piece of the model's Markdown; on a screen each block once it is whole."""
        if not self._moves:
            self._write(stable(text))
            return
        self._unwritten += text
        *blocks, self._unwritten = _blocks(self._unwritten)
        if len(self._unwritten) > _MOST_RENDERED:
            blocks, self._unwritten = [*blocks, self._unwritten], ""
        for block in blocks:
            self._write_block(block)
        last = self._unwritten[-_CHARACTERS:].rstrip().rpartition("\n")[2]
        self._pass(stable(last)[-68:])

    def _write_rest(self) -> None:
        """Write the last block, also of a reply that was broken off."""
        rest, self._unwritten = self._unwritten, ""
        self._write_block(rest)

    def _write_block(self, text: str) -> None:
        """Write one block of Markdown, rendered, after a blank line between two."""
        if not text.strip():
            return
        if self._has_blocks:
            self._line("")
        self._has_blocks = True
        self._write(self._rendered(stable(text)))
        self._end_line()

    def _rendered(self, markdown: str) -> str:
        """Markdown as text for the terminal."""
        if len(markdown) > _MOST_RENDERED:
            return markdown
        from markdown_it import MarkdownIt
        from rich.console import Console
        from rich.markdown import Markdown
        from rich.theme import Theme

        console = Console(
            file=StringIO(),
            force_terminal=self._coloured,
            color_system="standard" if self._coloured else None,
            width=max(20, shutil.get_terminal_size().columns),
            theme=Theme(_MARKDOWN_STYLES),
            legacy_windows=False,
        )
        shown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
        # Parsed here: rich would take `list<int>` for HTML, and leave it out. Entities stay as they
        # are written, since they may stand for control characters.
        reader = MarkdownIt("commonmark", {"html": False})
        reader.enable(["table", "strikethrough"]).disable("entity")
        shown.parsed = reader.parse(markdown)
        with console.capture() as capture:
            console.print(shown)
        return _PADDING.sub(r"\1", capture.get()).strip("\n")

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
        name = self._styled(line(call.name), "bold")
        self._line(
            f"{mark} {name}{' ' + stable(words) if words else ''}{self._styled(seconds, 'dim')}"
        )
        asking = call.state == "asking"
        if call.result is not None and "plan" in call.result.details:
            return  # its items follow, with their marks
        if call.asked is None or asking:
            self._block(body(call) or call.gist, "    ", asking=asking)
        if asking:
            for piece in pieces(call):
                if piece.kind != "diff":
                    self._block(piece.text, "    ", asking=True)
            for diff in foreseen(call):
                self._diff(diff, len(diff.lines))
            return
        for piece in pieces(call):
            if piece.kind == "diff":
                self._diff(file_diff(cut(piece.text, _CHARACTERS)), _LINES)
            else:
                self._block(piece.text, "    │ ", "dim")

    def _diff(self, diff: FileDiff, most: int) -> None:
        """Write the first lines of a difference: `+` and `-` tell them apart, colours, too."""
        self._line(f"    │ {diff.title} {diff.counts}".rstrip(), "bold")
        for each in diff.lines[:most]:
            text = f"⋯ {each[1:]}" if each[:1] == "@" else each
            self._line(f"    │ {text}", {"+": "good", "-": "bad"}.get(each[:1], "dim"))
        if len(diff.lines) > most:
            self._line(f"    │ [{len(diff.lines) - most} more lines: %agent show last]", "dim")

    def _block(self, text: str, margin: str, style: str = "", asking: bool = False) -> None:
        """Write a few lines; all of them if the user is asked about them."""
        lines = (whole(text) if asking else cut(text, _CHARACTERS)).split("\n")
        most = len(lines) if asking else _LINES
        for each in lines[:most]:
            self._line(margin + each, style)
        if len(lines) > most:
            self._line(f"{margin}[{len(lines) - most} more lines: %agent show last]", "dim")

    def _finish(self) -> None:
        self._write_rest()
        self._end_line()
        changed = " · ".join(
            stable(f"{name} {words}") for name, words in changes(self._view.receipt)
        )
        if changed:
            self._line(f"Changed: {changed}", "dim")
        told = (troubles(self._view), unseen(self._view.receipt), *weakly_seen(self._view.receipt))
        for words in filter(None, told):
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


def _blocks(text: str) -> list[str]:
    """The blocks of Markdown that are surely whole, then the rest.

    A blank line ends a block, unless it stands in fenced code or an indented line follows.
    """
    blocks: list[str] = []
    lines = text.split("\n")
    begin, fenced = 0, False
    for number, each in enumerate(lines[:-1]):
        if _FENCE.match(each):
            fenced = not fenced
        elif not each.strip() and not fenced and lines[number + 1][:1].strip():
            blocks.append("\n".join(lines[begin:number]))
            begin = number + 1
    return [*blocks, "\n".join(lines[begin:])]
