"""Detects a model that repeats itself: the same call again, or failures of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.core.plaintext import one_line

REPEATS = 3
"""Repetitions before the advice to the model, which may try twice more."""
END = REPEATS + 2

Advice = Literal["", "tell", "end"]

TOLD_CALL = (
    "You have made the same call {times} times with the same result. Making it again will not "
    "help: try another way, or say what you know and what is missing."
)
END_WORDS = (
    " No tool can be called any more: give your best answer from what you found, and say plainly "
    "what is unfinished."
)
TOLD_FAILURE = (
    "The last {times} steps failed in the same way ({kind}). Stop and think about the cause: try "
    "another way, or say what you know and what is missing."
)


class RepetitionDetector:
    """Detects repetition in the steps of one turn.

    Attributes:
        words: The text for the model, after `look` returned `tell` or `end`.
    """

    def __init__(self) -> None:
        self.words = ""
        self._calls: dict[tuple[str, str, str], int] = {}
        self._failure = ""
        self._failures = 0

    def look(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Advice:
        """Count one step's calls and their results, in the same order; returns the advice."""
        times = self._count_calls(calls, results)
        if times < self._count_failures(calls, results):
            times = self._failures
            self.words = TOLD_FAILURE.format(times=times, kind=self._failure)
        elif times >= REPEATS:
            self.words = TOLD_CALL.format(times=times)
        if times >= END:
            self.words += END_WORDS
            return "end"
        return "tell" if times == REPEATS else ""

    def _count_calls(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> int:
        """The largest number of times that a call of this step was made."""
        made = {(c.name, c.arguments, r.text) for c, r in zip(calls, results, strict=True)}
        # A call that this step does not repeat counts no longer.
        self._calls = {key: self._calls.get(key, 0) + 1 for key in made}
        return max(self._calls.values(), default=0)

    def _count_failures(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> int:
        kinds = {_kind(call, result) for call, result in zip(calls, results, strict=True)}
        kind = kinds.pop() if len(kinds) == 1 else ""
        self._failures = self._failures + 1 if kind and kind == self._failure else int(bool(kind))
        self._failure = kind
        return self._failures


def _kind(call: ToolCall, result: ToolResult) -> str:
    """The kind of a call's failure; empty if it did not fail."""
    if not result.is_error:
        return ""
    name = result.details.get("error_name")
    return f"{call.name}: {name or one_line(result.text, 60)}"
