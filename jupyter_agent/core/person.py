"""The person at the other end of a turn: what they are asked, and what they say meanwhile."""

from __future__ import annotations

from typing import Protocol

from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked


class Person(Protocol):
    """Whoever watches a turn, or a recording of what they did."""

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        """Put one question. Only one is put at a time. A cancellation passes through."""

    def said(self) -> tuple[str, ...]:
        """What they typed since this was last asked, oldest first."""


class Nobody:
    """Nobody is there: every question is a refusal."""

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call_id, "no", "nobody")

    def said(self) -> tuple[str, ...]:
        return ()
