"""Judges side effects of the agent's code when they happen: allows, asks about or refuses them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from jupyter_agent.core.addresses import ip_address
from jupyter_agent.core.effects import Refusal, Risk, SideEffect
from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked, EffectDecided, Sink
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.kernel.effects import is_by, is_by_import
from jupyter_agent.policy import PolicyContext
from jupyter_agent.policy.side_effects import is_usual_in_import, judge_change, judge_effect
from jupyter_agent.policy.verdict import NEVER_GRANTED, covers, is_granted, scope, scope_words
from jupyter_agent.recording.tape import ALLOWED_UNASKED
from jupyter_agent.session.options import TurnKind

NO_CHANGES: Mapping[TurnKind, str] = {
    "plan": "this turn only plans and changes nothing; put it into the plan",
    "vote": "this turn compares several attempts (answers.samples) and changes nothing but "
    "variables; answer without it",
    "verify": "you check an answer and change nothing but your own variables; compute without it",
}
"""Why a turn that changes nothing refuses what would, by its kind."""
_MULTIPROCESSING = "multiprocessing/popen_fork.py"
_UNANSWERED = {"time_out": " in time", "no_answer": "", "stopped": ": the turn was stopped"}
_IN_A_FORK = "That needs a person's yes, and in this process nobody can be asked."


class ChangesNothing(Nobody):
    """The user of a turn that changes nothing: each side effect is refused.

    Args:
        kind: The kind of the turn.
    """

    def __init__(self, kind: Literal["plan", "vote", "verify"]) -> None:
        self._kind: Literal["plan", "vote", "verify"] = kind

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return ApprovalAnswered(asked.call_id, "no", self._kind)


class EffectGuard:
    """The judge of one piece of the agent's code.

    What the person allowed before the code ran is not asked about again, nor is the same thing
    twice. Where nobody can be asked, the side effect is refused: in a process that the code
    forked, and after the call has ended.

    Args:
        call_id: The call that runs the code.
        around: Where the code runs. Its sets grow with what the agent reads, makes and is granted.
        approved: What the person said yes to before the code ran.
        user: Who is asked.
        grant: Called with each right that is given for the session.
        passed: Called with the path of each file that is written.
        emit: The turn's sink.
        changes_nothing: True in a turn that changes nothing: it may not make files and processes
            of its own, either.

    Attributes:
        refused: The side effects that did not happen, in words: refused, or interrupted while
            the user was asked.
    """

    def __init__(
        self,
        *,
        call_id: str,
        around: PolicyContext,
        approved: tuple[Risk, ...],
        user: User,
        grant: Callable[[str], None],
        passed: Callable[[Path, bool], None],
        emit: Sink,
        changes_nothing: bool = False,
    ) -> None:
        self._changes_nothing = changes_nothing
        self._judge = judge_change if changes_nothing else judge_effect
        self.refused: list[str] = []
        self._call_id = call_id
        self._around = around
        self._approved = approved
        self._user = user
        self._grant = grant
        self._passed = passed
        self._emit = emit
        self._process = os.getpid()
        self._asking = threading.RLock()
        self._answers: dict[tuple[str, str], Refusal] = {}
        self._decided: list[EffectDecided] = []
        self._has_looked_up = False
        self._is_over = False

    def __call__(self, effect: SideEffect) -> None:
        """Judge a side effect.

        Raises:
            PermissionError: It is refused.
            KeyboardInterrupt: The user interrupted in place of an answer.
        """
        if effect.action == "fork" and is_by(_MULTIPROCESSING) and not self._changes_nothing:
            return  # a forked process is watched like this one; but it may outlive a plan
        risks = self._judge(effect, self._around)
        if risks and is_usual_in_import(effect) and is_by_import():
            risks = ()
        for risk in risks:
            if self._is_covered(risk):
                continue
            if os.getpid() != self._process:  # before the lock, which another thread may hold
                raise _error(risk, Refusal(_IN_A_FORK))
            with self._asking:
                self._decide(risk)
        if effect.action in ("write", "move", "make_folder", "open_database"):
            self._note(effect)
        for risk in risks:
            self._has_looked_up |= risk.kind == "network" and ip_address(risk.place) is None

    def finish(self) -> None:
        """The call has ended: tell what was decided. Nobody is asked from now on."""
        self._is_over = True
        for decided in self._decided:
            self._emit(decided)

    def _is_covered(self, risk: Risk) -> bool:
        if any(covers(approved, risk) for approved in self._approved):
            return True
        if risk.kind == "network" and self._has_looked_up and ip_address(risk.place):
            return True  # what the look-up of an allowed name gave
        return is_granted(risk, self._around.granted)

    def _decide(self, risk: Risk) -> None:
        """Ask about a risk. Raises `PermissionError` if the answer is no."""
        key = risk.kind, risk.place
        why = self._answers.get(key)
        if why is None:
            if self._is_covered(risk):
                return  # by the answer that another thread waited for
            why = self._answers[key] = self._ask(risk)
        if not why:
            self._approved = (*self._approved, risk)
        else:
            raise _error(risk, why)

    def _ask(self, risk: Risk) -> Refusal:
        """Why a side effect is refused; empty if it may happen."""
        if self._is_over:
            return Refusal("That needs a person's yes, and the call that started it has ended.")
        always = "" if risk.kind in NEVER_GRANTED else scope_words(risk, self._around.root)
        question = f"The agent's code is about to do this: {risk.what}. Allow it?"
        asked = ApprovalAsked(self._call_id, question, (), always, effect=risk.kind)
        try:
            answered = self._user.decide_now(asked)
        except asyncio.CancelledError:
            self.refused.append(risk.what)
            self._decided.append(EffectDecided(self._call_id, risk.what, "no", "stopped"))
            raise KeyboardInterrupt from None
        if self._is_over:  # a thread waited for this answer
            return Refusal("The call that started it has ended.")
        if (answered.answer, answered.by) == ALLOWED_UNASKED:
            return Refusal()
        if risk.kind == "widget" and answered.by == "nobody":
            return Refusal("It waits for the person.")  # a line in its place says so
        self._decided.append(EffectDecided(self._call_id, risk.what, answered.answer, answered.by))
        if answered.answer == "always" and always:
            self._grant(scope(risk))
        if answered.answer != "no":
            return Refusal()
        self.refused.append(risk.what)
        if answered.by in ("plan", "vote", "verify"):
            words = NO_CHANGES[answered.by]
            return Refusal(f"{words[:1].upper()}{words[1:]}.")
        if answered.by == "nobody":
            return Refusal("That needs a person's yes, and nobody can be asked here.")
        if answered.by != "person":
            return Refusal(f"Nobody answered the question{_UNANSWERED[answered.by]}.")
        said = f" They say: {answered.reason}" if answered.reason.strip() else ""
        why = Refusal(f"The person said no.{said}")
        why.is_by_person = True
        return why

    def _note(self, effect: SideEffect) -> None:
        """Note a file that is about to be written: from now on it is the agent's, if it is new."""
        written = Path(effect.target or effect.place)
        is_new = not os.path.lexists(written)
        if effect.action == "move":
            is_new = Path(effect.place) in self._around.made
        self._passed(written, is_new)


def _error(risk: Risk, why: Refusal) -> PermissionError:
    text = Refusal(f"Refused: the code {risk.what}. {why}")
    text.is_by_person = why.is_by_person
    return PermissionError(text)
