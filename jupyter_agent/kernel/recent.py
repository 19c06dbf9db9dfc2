"""The user's last cells: their source, their printed output, their error.

Loaded with the extension, so it imports nothing heavy. Cells with our magics and the agent's own
executions are left out.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jupyter_agent.kernel.bounded import BoundedText
from jupyter_agent.kernel.shadow import shadow

KEPT = 20
"""Cells that are remembered."""
OUTPUT = 4_000
"""Characters of one cell's output that are remembered: the first and the last half of them."""


@dataclass(frozen=True, slots=True)
class RecentCell:
    """One cell that ran. `error` is its exception with its frames, `error_name` the class."""

    source: str
    output: str = ""
    error: str = ""
    error_name: str = ""


class RecentCells:
    """Watches a shell through its events.

    Copies a cell's printed output; the user's view of it does not change.

    Attributes:
        count: The number of cells that the user has run.
        begun: The number of cells that have begun and are no `%%agent` cells.
        is_agent_cell: True if the running cell, or the last one, is a `%%agent` cell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells: deque[RecentCell] = deque(maxlen=KEPT)
        self.count = 0
        self.begun = 0
        self.is_agent_cell = False
        self._depth = 0
        self._text = BoundedText(OUTPUT // 2, OUTPUT // 2)
        self._undo: list[Callable[[], None]] = []

    @property
    def is_outermost(self) -> bool:
        """True if no cell runs that the user started: between two cells, and at their end."""
        return self._depth == 0

    def since(self, count: int) -> list[RecentCell]:
        """The cells after the first `count`, if they are still remembered."""
        new = self.count - count
        return list(self._cells)[-new:] if new > 0 else []

    @property
    def worked(self) -> list[str]:
        """The sources of the cells that ended without an error, oldest first."""
        return [cell.source for cell in self._cells if not cell.error]

    @property
    def last_failed(self) -> RecentCell | None:
        """The last cell that ended with an error, if it is still remembered."""
        return next((cell for cell in reversed(self._cells) if cell.error), None)

    def start(self) -> None:
        """Begin to watch with the next cell."""
        self._shell.events.register("pre_run_cell", self.before_cell)
        self._shell.events.register("post_run_cell", self.after_cell)

    def stop(self) -> None:
        self._shell.events.unregister("pre_run_cell", self.before_cell)
        self._shell.events.unregister("post_run_cell", self.after_cell)
        self._put_back()

    def before_cell(self, info: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return  # a cell that runs inside of another one: the agent's, or a script's
        self.is_agent_cell = str(info.raw_cell).lstrip().startswith("%%agent")
        self.begun += not self.is_agent_cell
        if not _is_ours(str(info.raw_cell)):
            self._listen()

    def after_cell(self, result: Any) -> None:
        if self._depth == 0 or _is_blank(result):
            return  # the cell that started the watch; or one that IPython did not begin
        self._depth -= 1
        if self._depth:
            return
        self._put_back()
        output, self._text = self._text, BoundedText(OUTPUT // 2, OUTPUT // 2)
        if result is None:
            return
        source = str(result.info.raw_cell)
        if source.strip() and not _is_ours(source):
            self.count += 1
            error = result.error_before_exec or result.error_in_exec
            self._cells.append(self._cell(source, str(output), error))

    def _put_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _cell(self, source: str, output: str, error: BaseException | None) -> RecentCell:
        # The exception itself is not kept: its frames would keep the cell's data alive.
        if error is None:
            return RecentCell(source, output)
        from jupyter_agent.kernel.tracebacks import cell_name, format_error

        text = format_error(error, lambda name: cell_name(self._shell, name))
        return RecentCell(source, output, text, type(error).__name__)

    def _listen(self) -> None:
        """Copy the outputs while the cell runs: stdout, stderr, the last expression's value."""
        self._tap(sys.stdout, "write", lambda text: text)
        self._tap(sys.stderr, "write", lambda text: text)
        self._tap(self._shell.displayhook, "write_format_data", _plain_text)
        self._tap(self._shell.display_pub, "publish", _plain_text)

    def _tap(self, owner: Any, name: str, text_of: Callable[[Any], object]) -> None:
        """Shadow a method by one that notes its first argument, until the cell is over."""
        method = getattr(owner, name)

        def noting(*args: Any, **kwargs: Any) -> Any:
            self._note(text_of(args[0] if args else kwargs.get("data")))
            return method(*args, **kwargs)

        with suppress(
            AttributeError
        ):  # a terminal's stream takes no attribute: its output is not remembered
            self._undo.append(shadow(owner, name, noting))

    def _note(self, text: object) -> None:
        if isinstance(text, str):
            self._text.add(text)


def _is_blank(result: Any) -> bool:
    """True for the result of a cell without code, for which `pre_run_cell` does not fire."""
    return result is not None and not str(result.info.raw_cell or "").strip()


def _is_ours(source: str) -> bool:
    first = source.lstrip().split("\n", 1)[0]
    return first.startswith(("%%agent", "%agent")) or "jupyter_agent" in first


def _plain_text(data: Any) -> object:
    """The plain form of a MIME bundle, on lines of its own."""
    return f"{data['text/plain']}\n" if isinstance(data, dict) and "text/plain" in data else None
