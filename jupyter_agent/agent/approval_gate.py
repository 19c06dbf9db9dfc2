"""Whether a tool call may run: the policy first, then what was allowed before, then the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked, Sink
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.core.tool import Prepared

_NOTHING_DONE = "Nothing was run or written."


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the policy says of one call.

    `refusal` is why it must not run. `question`, `reasons` and `always` are what to ask, `grants`
    is what "always" allows, `writes` are the files that the call writes. `beforehand` is the
    setting by which a person can allow the call before anybody is asked.
    """

    decision: Literal["allow", "ask", "refuse"] = "allow"
    refusal: str = ""
    question: str = ""
    reasons: tuple[str, ...] = ()
    always: str = ""
    grants: frozenset[str] = frozenset()
    writes: tuple[Path, ...] = ()
    beforehand: str = "approvals.mode auto"


Rule = Callable[[Prepared], Ruling]
Note = Callable[[Ruling], None]


def allow_everything(prepared: Prepared) -> Ruling:
    """The rule where nobody set one."""
    return Ruling()


class ApprovalGate:
    """Lets calls through, asks about them, or refuses them.

    Args:
        rule: The policy. It is asked again after each "always", which `grant` notes.
        person: Who is asked.
        grant: Takes the ruling where the person said "always in this session".
        passed: Takes the ruling of each call that may run.
    """

    def __init__(
        self,
        rule: Rule = allow_everything,
        person: User | None = None,
        grant: Note = lambda ruling: None,
        passed: Note = lambda ruling: None,
    ) -> None:
        self._rule = rule
        self._person = person or Nobody()
        self._grant = grant
        self._passed = passed
        self._asking = asyncio.Lock()

    async def refusal(self, prepared: Prepared, emit: Sink) -> str:
        """Why the call must not run, in words for the model; empty where it may."""
        ruling = self._rule(prepared)
        if ruling.decision == "ask":
            async with self._asking:
                # What was asked meanwhile may have been answered for this one, too.
                ruling = self._rule(prepared)
                if ruling.decision == "ask":
                    return await self._ask(prepared, ruling, emit)
        if ruling.decision == "refuse":
            return refused(prepared, ruling)
        self._passed(ruling)
        return ""

    async def _ask(self, prepared: Prepared, ruling: Ruling, emit: Sink) -> str:
        preview = await asyncio.to_thread(prepared.preview)
        asked = ApprovalAsked(
            prepared.call.id, ruling.question, ruling.reasons, ruling.always, preview
        )
        emit(asked)
        answered = await self._person.decide(asked)
        emit(answered)
        if answered.answer == "no":
            return _refused_by(asked, answered, ruling.beforehand)
        if answered.answer == "always":
            self._grant(ruling)
        self._passed(ruling)
        return ""


def refused(prepared: Prepared, ruling: Ruling) -> str:
    """What the policy's own refusal tells the model."""
    return f"{prepared.tool.name} is refused: {ruling.refusal}. {_NOTHING_DONE}"


def _refused_by(asked: ApprovalAsked, answered: ApprovalAnswered, beforehand: str) -> str:
    # Not the reasons themselves: they may hold values of variables that the model must not see.
    because = f" ({asked.always})" if asked.always else ""
    if answered.by == "nobody":
        return (
            f"Refused: this needs a person's approval{because}, and nobody can be asked here. "
            f"{_NOTHING_DONE} (A person can allow it beforehand: {beforehand}.)"
        )
    if answered.by == "time_out":
        return f"Refused: nobody answered the question{because} in time. {_NOTHING_DONE}"
    why = f" They say: {answered.reason}" if answered.reason.strip() else ""
    return f"The person refused this call{because}. {_NOTHING_DONE}{why}"
