"""The user of a turn whose waiting for an answer stands in the session's record."""

from __future__ import annotations

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    QuestionAnswered,
    QuestionAsked,
)
from jupyter_agent.core.ports import User
from jupyter_agent.stores.session_records import SessionRecord


class NotedUser:
    """Notes in the record that code waits for the user. Other questions are events of the turn.

    Args:
        user: The user.
        record: The session's record.
    """

    def __init__(self, user: User, record: SessionRecord) -> None:
        self._user = user
        self._record = record

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return await self._user.decide(asked)

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        with self._record.waiting(asked):
            return self._user.decide_now(asked)

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        return await self._user.answer(asked)

    def said(self) -> tuple[str, ...]:
        return self._user.said()
