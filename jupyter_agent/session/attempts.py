"""The attempts of a turn that votes, in the live kernel: each in scratch of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jupyter_agent.agent.voting import AttemptEnd
from jupyter_agent.kernel.scratch import Overlay
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.tools.plan import PlanItem
from jupyter_agent.undo.kernel_undo import Reached


@dataclass(frozen=True, slots=True)
class _Ended:
    """What an attempt left.

    Attributes:
        overlay: Its scratch.
        reached: What it did to the person's variables all the same.
        protected: The names of the person's that it had no business to bind.
        plan: Its to-do list.
    """

    overlay: Overlay
    reached: Reached
    protected: frozenset[str]
    plan: tuple[PlanItem, ...]


class ScratchAttempts:
    """Runs attempts in scratch, and hands over what the one that is taken has bound.

    What reaches the person's variables all the same (a change in place, `global` in a function of
    theirs) is put back after each attempt, as at the end of a turn that plans.

    Args:
        kernel: The kernel.
        setup: The conversation's setup.
        watch: Begins to watch the variables that the task only reads.
        ran: Returns all code that ran in the turn so far.

    Attributes:
        restored: The person's variables that were put back and are as before the turn.
        held_back: Names that the attempt which was taken bound in scratch, though the task only
            reads them.
    """

    def __init__(
        self,
        kernel: Kernel,
        setup: AgentSetup,
        watch: Callable[[], None],
        ran: Callable[[], Sequence[str]],
    ) -> None:
        self.restored: frozenset[str] = frozenset()
        self.held_back: tuple[str, ...] = ()
        self._kernel = kernel
        self._scratch = kernel.executor.scratch
        self._setup = setup
        self._watch = watch
        self._ran = ran
        self._plan = setup.plan.items
        self._earlier = 0
        self._ended: list[_Ended] = []

    def begin(self) -> None:
        self._scratch.forget()
        self._scratch.holds = True
        self._setup.plan.items = self._plan
        self._earlier = len(self._ran())
        self._watch()
        self._kernel.undo.begin_attempt(self._kernel.snapshot())

    def end(self) -> AttemptEnd:
        self._scratch.holds = False
        code = self._ran()[self._earlier :]
        protected = self._setup.inputs_protected("\n".join(code))
        self._setup.inputs_mended()
        overlay = self._scratch.set_aside()
        reached = self._kernel.undo.end_attempt(self._kernel.snapshot(), code)
        self.restored |= reached.restored
        self._ended.append(_Ended(overlay, reached, protected, self._setup.plan.items))
        return AttemptEnd(not (reached.restored or reached.lost), reached.lost)

    def adopt(self, number: int) -> tuple[Sequence[str], Sequence[str]]:
        taken = self._ended[number - 1]
        overlay, protected = taken.overlay, taken.protected
        bound = [name for name in overlay.wanted if overlay.owns(name) and name in overlay.space]
        adopted = self._scratch.adopt([n for n in bound if n not in protected], overlay)
        changed = {n: value for n, value in taken.reached.objects.items() if n not in protected}
        self._kernel.shell.user_ns.update(changed)
        self.held_back = tuple(name for name in bound if name in protected)
        self.restored -= {*adopted.kept, *changed}
        self._setup.plan.items = taken.plan
        return list(dict.fromkeys([*adopted.kept, *changed])), adopted.left
