"""Recognizes moments worth a lesson (seed 002, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jupyter_agent.core.events import Event, ToolFinished, ToolStarted, TurnStarted

FAILURES = 2
"""Failed calls in a row, after which a success is a hard-won fix."""
HARD_WON = (
    "That worked after {failures} failed attempts. If the cause was not obvious, save a lesson "
    "(workspace_save_memory, or record_note where no workspace fits): what failed, the root cause, "
    "and what to do differently. Look first whether it is known. Then go on with the task."
)


class Learning:
    """A sink that recognizes a success after several failures, and saves of the turn.

    Args:
        tools: The tools whose failures count.
    """

    lasting_only = True

    def __init__(self, tools: Collection[str] = ("execute_code", "edit_file")) -> None:
        self._tools = frozenset(tools)
        self._failures = 0
        self._advised = False
        self._advice = ""
        self._running: dict[str, str] = {}
        self.saved: list[dict[str, Any]] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._failures, self._advised, self._advice = 0, False, ""
            self.saved.clear()
            self._running.clear()
        elif isinstance(event, ToolStarted):
            self._running[event.call.id] = event.call.name
        elif isinstance(event, ToolFinished):
            result = event.result
            name = self._running.pop(result.call_id, "")
            if saved := result.details.get("saved"):
                self.saved.append(dict(saved))
                self._advice, self._advised = "", True
            elif name in self._tools:
                self._count(result.is_error)

    def advice(self) -> str:
        """The advice for the model; mostly empty, at most once a turn."""
        advice, self._advice = self._advice, ""
        return advice

    def _count(self, failed: bool) -> None:
        if failed:
            self._failures += 1
            return
        if self._failures >= FAILURES and not self._advised:
            self._advice = HARD_WON.format(failures=self._failures)
            self._advised = True
        self._failures = 0
