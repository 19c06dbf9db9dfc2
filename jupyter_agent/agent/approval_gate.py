"""Decides whether a tool call may run: by the policy, earlier grants, then the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from jupyter_agent.core.effects import Risk
from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked, Sink
from jupyter_agent.core.messages import Output
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.core.tool import CannotRun, Prepared

_NOTHING_DONE = "Nothing was run or written."


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policy's ruling on one call.

    `refusal` is the reason why it must not run. `question`, `reasons` and `always` make up the
    question to the user, `grants` are the rights that "always" gives, `writes` the files that the
    call writes. `beforehand` is the setting that allows the call without a question; empty if none
    does. `risks` are
    what the policy found; `is_approved` is True once the user said yes to them. `preview` shows
    what the call would change, in the place of its tool's own preview; `as_kept` puts that into
    the form in which a recording keeps it. `must_ask` is True if the user is asked even where
    nothing would change.

    `by_part` is True if parts of the call may be rejected alone; `rejected` numbers those that
    were, `reason` is what the user said.
    """

    decision: Literal["allow", "ask", "refuse"] = "allow"
    refusal: str = ""
    question: str = ""
    reasons: tuple[str, ...] = ()
    always: str = ""
    grants: frozenset[str] = frozenset()
    writes: tuple[Path, ...] = ()
    beforehand: str = "approvals.mode auto"
    risks: tuple[Risk, ...] = ()
    is_approved: bool = False
    preview: Callable[[], tuple[Output, ...] | None] | None = None
    as_kept: Callable[[tuple[Output, ...]], tuple[Output, ...]] = tuple
    must_ask: bool = False
    by_part: bool = False
    rejected: tuple[int, ...] = ()
    reason: str = ""


Rule = Callable[[Prepared], Ruling]
Note = Callable[[Ruling], None]
Passed = Callable[[Prepared, Ruling, Sink], None]


def allow_everything(prepared: Prepared) -> Ruling:
    """The default rule: every call runs."""
    return Ruling()


class ApprovalGate:
    """Lets calls through, asks about them, or refuses them.

    Args:
        rule: The policy. It is asked again after another question, whose "always" `grant` noted.
        user: The user who is asked; None: nobody, so that each question is a refusal.
        grant: Called with the ruling if the user answered "always in this session".
        passed: Called with each call that may run, its ruling, and the turn's sink.
    """

    def __init__(
        self,
        rule: Rule = allow_everything,
        user: User | None = None,
        grant: Note = lambda ruling: None,
        passed: Passed = lambda prepared, ruling, emit: None,
    ) -> None:
        self._rule = rule
        self._user = user or Nobody()
        self._grant = grant
        self._passed = passed
        self._asking = asyncio.Lock()

    async def refusal(self, prepared: Prepared, emit: Sink) -> str:
        """The reason why the call must not run, as text for the model; empty if it may run."""
        ruling = self._rule(prepared)
        if ruling.decision == "ask":
            waits = self._asking.locked()
            async with self._asking:
                if waits:  # an "always" in answer to another question may cover this call, too
                    ruling = self._rule(prepared)
                if ruling.decision == "ask":
                    return await self._ask(prepared, ruling, emit)
        if ruling.decision == "refuse":
            return refused(prepared, ruling)
        self._passed(prepared, ruling, emit)
        return ""

    async def _ask(self, prepared: Prepared, ruling: Ruling, emit: Sink) -> str:
        try:
            own = ruling.preview
            preview = await (asyncio.to_thread(own) if own else prepared.preview())
        except CannotRun:
            preview = None
        if preview is None and not ruling.must_ask:  # nothing changes, or the call is sure to fail
            self._passed(prepared, ruling, emit)
            return ""
        preview = ruling.as_kept(preview or ())
        asked = ApprovalAsked(
            prepared.call.id,
            ruling.question,
            ruling.reasons,
            ruling.always,
            preview,
            by_part=ruling.by_part and len(preview) > 0,
        )
        emit(asked)
        answered = await self._user.decide(asked)
        emit(answered)
        if answered.answer == "no":
            return _refused_by(asked, answered, ruling.beforehand)
        if answered.answer == "always":
            self._grant(ruling)
        decided = replace(
            ruling, is_approved=True, rejected=answered.rejected, reason=answered.reason
        )
        self._passed(prepared, decided, emit)
        return ""


def refused(prepared: Prepared, ruling: Ruling) -> str:
    """The model's text for a refusal by the policy itself."""
    return f"{prepared.tool.name} is refused: {ruling.refusal}. {_NOTHING_DONE}"


def _refused_by(asked: ApprovalAsked, answered: ApprovalAnswered, beforehand: str) -> str:
    # Without the reasons: they may hold values of variables that the model must not see.
    because = f" ({asked.always})" if asked.always else ""
    if answered.by == "nobody":
        hint = f" (A person can allow it beforehand: {beforehand}.)" if beforehand else ""
        return (
            f"Refused: this needs a person's approval{because}, and nobody can be asked here. "
            f"{_NOTHING_DONE}{hint}"
        )
    if answered.by != "person":
        in_time = " in time" if answered.by == "time_out" else ""
        return f"Refused: nobody answered the question{because}{in_time}. {_NOTHING_DONE}"
    why = f" They say: {answered.reason}" if answered.reason.strip() else ""
    return f"The person refused this call{because}. {_NOTHING_DONE}{why}"
