"""One turn of a session: from the task to the answer."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from jupyter_agent.agent.loop import Agent, TurnOutcome, run_turn
from jupyter_agent.agent.voting import run_attempts
from jupyter_agent.config import Settings
from jupyter_agent.core.events import (
    PASSING,
    ApprovalAsked,
    Delegated,
    Event,
    MessageFinished,
    Noticed,
    QuestionAsked,
    Receipt,
    Sink,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.history import awaiting_approval
from jupyter_agent.core.messages import Context, Usage
from jupyter_agent.errors import TurnInterrupted, broken_off
from jupyter_agent.files.jsonl import TRIED_AGAIN
from jupyter_agent.kernel.cells_meant import CellsMeant
from jupyter_agent.kernel.changes import Snapshot, changes
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.llm.pricing import cost
from jupyter_agent.recording.tape import Tape
from jupyter_agent.session.answer import Answer, TurnFindings, make_answer
from jupyter_agent.session.attempts import ScratchAttempts
from jupyter_agent.session.mentions import attached
from jupyter_agent.session.options import TurnKind, go_line, note_of
from jupyter_agent.session.provider_choice import is_brief
from jupyter_agent.session.verification import NOT_VERIFIED, AnsweredTurn, NumberCheck, verify
from jupyter_agent.stores.conversations import TurnEnd, described
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.stores.tracing import open_spans

if TYPE_CHECKING:
    from jupyter_agent.session.session import Session

COMPLETE = frozenset({"end", "step_limit", "refused"})
"""The ways to end after which a turn's replies are worth keeping in a cassette."""


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The usage of one turn, with the provider and model that were paid."""

    provider: str
    model: str
    usage: Usage
    is_turn: bool = True
    """False for a request between turns: the summary of `%agent compact`."""
    seconds: float | None = None
    """The duration of the turn; None if it was recorded, replayed or scripted, or is unknown."""
    number: int = 0
    """The turn's number in its notebook, as for `%agent show`; 0 if it is of an earlier kernel."""


class Turn:
    """One turn, built with everything resolved.

    `run` opens its stores and its undo point and closes them in the reverse order, however the
    turn ends.

    Args:
        session: The session of the turn.
        task: The task in plain words.
        settings: The resolved settings.
        agent: The model, the tools and the rules.
        tape: The recording of the turn; blank if it is live.
        sinks: Sinks for the turn's events, besides the stores.
        skills: The text of the skills that were named with the task.
        cells: The cells of the open notebook that the task means.
        kind: What the turn is for.
    """

    def __init__(
        self,
        *,
        session: Session,
        task: str,
        settings: Settings,
        agent: Agent,
        tape: Tape,
        sinks: Sequence[Sink],
        skills: str,
        cells: CellsMeant,
        kind: TurnKind = "work",
    ) -> None:
        self._session = session
        self._kernel = session.kernel
        self._undo = session.kernel.undo
        self._task = task
        self._settings = settings
        self._agent = agent
        self._tape = tape
        self._sinks = sinks
        self._skills = skills
        self._cells = cells
        self._kind = kind
        self._findings = TurnFindings(session.numbers)
        self._attempts = ScratchAttempts(
            session.kernel, session.setup, self._watch_inputs, lambda: self._findings.ran
        )
        self._log: RunLog | None = None
        self._news = _News([], False)
        self._shown: list[str] = []
        self._mended: tuple[str, ...] = ()
        self._checks: tuple[NumberCheck, ...] = ()
        self._saves = settings.session.save and tape.keeps_conversation
        self._unkept = self._why_unkept()
        self._before = self._kernel.snapshot()
        self._context: list[str] = []
        self._began = time.monotonic()

    async def run(self) -> Answer:
        """Run the turn.

        Raises:
            ProviderError: The model call failed.
            TurnInterrupted: The user stopped the turn.
        """
        with ExitStack() as resources:
            self._open(resources)
            self._begin(resources)
            outcome = await self._work()
            receipt = self._end(outcome)
        findings, stop = self._findings, outcome.stop_reason
        variables = self._kernel.shell.user_ns
        code = findings.code(receipt, variables)
        answer = make_answer(findings.text, code, receipt, outcome.usage, stop, findings.values)
        answer.checks = self._checks
        variables["_agent"] = answer
        self._session.turn_ended(stop, self._usage(outcome))
        if stop in COMPLETE and outcome.is_whole:
            self._tape.commit()
        self._raise_what_stopped(outcome)
        return answer

    def _open(self, resources: ExitStack) -> None:
        """Open the stores, and put the sinks together."""
        session, settings = self._session, self._settings
        self._kernel.number_turn()
        resources.callback(self._keep_news)
        spans, self._no_tracing = open_spans() if settings.tracing else (None, "")
        if spans:
            resources.callback(spans.close)
        if settings.log.enabled:
            kernel = self._kernel
            place = {"notebook": kernel.place, "turn": kernel.turn_number}
            self._log = RunLog(kernel.logs, session.schemas, kernel.prepare_state, place)
            resources.callback(self._close_log, self._log)
        record = session.setup.resources.record
        kept = (self._kernel.conversations, self._log, record)
        self._news = _News([each.take_notices for each in kept if each], bool(self._unkept))
        keepers = [sink for sink in (spans, self._saver(), self._log) if sink]
        self._emit = _fan_out([*self._watchers(), *self._sinks, *keepers, self._news])
        self._news.show = self._notify

    def _begin(self, resources: ExitStack) -> None:
        """Add the task to the conversation, open the undo point, and show the first notices."""
        session, setup = self._session, self._session.setup
        setup.proposals.clear()
        setup.resources.model = self._agent.provider.model
        kept, replaced = session.before(self._task)
        message = setup.message(
            self._task,
            self._settings,
            self._before,
            not kept,
            self._skills,
            replaced,
            self._cells.text,
            self._note(),
        )
        conversation = [*kept, message]
        self._tape.begin(conversation)
        session.history[:] = conversation
        if replaced:
            session.unanswered = 0
        setup.news.clear()
        resources.callback(self._kernel.executor.scratch.forget)
        resources.callback(setup.inputs_mended)  # if the turn breaks off
        resources.callback(self._undo.end, self._before)  # if the turn breaks off
        self._undo.begin(self._task, self._before, self._settings.undo, self._kind == "plan")
        resources.callback(self._put_back)
        if self._is_verified:
            resources.callback(self._undo.forget_inputs)
            self._undo.keep_inputs(self._before)
        if self._kind != "vote":
            self._watch_inputs()
        if self._kind == "plan":
            setup.plan.items = ()
        self._emit_start()
        self._shown = self._first_notices()
        self._notify(
            [
                *self._attached(),
                *self._tape.warnings(),
                *setup.resources.untold(),
                *self._shown,
                *session.notices.new(self._no_tracing, *self._kernel.take_notices()),
            ]
        )
        self._context = [block.text for block in message.blocks if isinstance(block, Context)]
        if self._log:
            self._log.prompt(self._agent.system, self._agent.toolbox.specs, self._context)

    def _note(self) -> str:
        """What the model reads about the kind of the turn; a small model nothing of a vote."""
        is_silent = self._kind == "vote" and is_brief(self._settings, os.environ)
        return "" if is_silent else note_of(self._kind)

    def _watch_inputs(self) -> None:
        """Watch the variables that the task only reads, as they are now."""
        now = self._kernel.snapshot() if self._kind == "vote" else self._before
        self._session.setup.watch_inputs(self._task, self._settings, now)

    def _attached(self) -> list[str]:
        """The lines about what the task attaches: what it marks with `@`, the cells it means."""
        workspace, level = self._kernel.workspace, self._settings.context.detail
        marked = attached(self._task, self._before.values, workspace, level)
        cells = f"Attached: {self._cells.names}." if self._cells.names else ""
        return [line for line in (marked, cells) if line]

    async def _work(self) -> TurnOutcome:
        """Run the loop, then put back its code's changes of protected settings."""
        try:
            run = partial(run_attempts, place=self._attempts) if self._kind == "vote" else run_turn
            loop = run(self._agent, self._session.history, self._emit)
            outcome = await self._session.interruptible(loop)
        except TurnInterrupted:
            outcome = TurnOutcome("interrupted", Usage())  # before the turn's first step
        if self._is_verified and outcome.stop_reason not in ("interrupted", "error"):
            outcome = await self._verified(outcome)
        lines = self._kernel.protected.end()
        self._session.setup.news += lines
        self._notify(lines)
        return outcome

    @property
    def _is_verified(self) -> bool:
        """True if a delegate checks the answer; a plan has none."""
        return self._settings.answers.verify and self._kind in ("work", "go")

    async def _verified(self, outcome: TurnOutcome) -> TurnOutcome:
        """Let a delegate compute the answer's numbers anew, and tell how far they agree.

        The events of the delegate do not count for `findings`, so that its numbers are no source
        of the answer's.
        """
        findings, why = self._findings, self._why_unverified(outcome)
        if why:
            self._emit(Noticed(f"{NOT_VERIFIED}: {why}", in_sight=True))
            return outcome
        turn = AnsweredTurn(
            self._task,
            findings.text,
            self._session.history,
            findings.index,
            tuple(findings.ran),
            findings.calls,
            findings.written,
        )
        counted = _UsageOfCheck()
        emit = _fan_out([counted, self._emit])
        work = verify(self._kernel, self._session.setup, self._before, turn, emit)
        try:
            found = await self._session.interruptible(work)
        except TurnInterrupted:
            self._emit(Noticed(f"{NOT_VERIFIED}: you stopped the check.", in_sight=True))
            return replace(outcome, stop_reason="interrupted", usage=outcome.usage + counted.usage)
        except Exception as error:  # the agent's code may have replaced what is called here
            words = f"{NOT_VERIFIED}: {broken_off(error)}"
            self._emit(Noticed(words, in_sight=True))
            return replace(outcome, usage=outcome.usage + counted.usage, is_whole=False)
        for line in found.lines:
            self._emit(Noticed(line, in_sight=True))
        self._checks = found.checks
        usage = outcome.usage + found.usage
        if found.error is not None:
            return TurnOutcome("error", usage, found.error)
        return replace(outcome, usage=usage, is_whole=outcome.is_whole and found.is_whole)

    def _why_unverified(self, outcome: TurnOutcome) -> str:
        """Why no delegate can check the answer; empty if one can."""
        if not self._findings.text.strip():
            return "the turn has no answer."
        if is_brief(self._settings, os.environ):
            return "a model with short instructions has no delegates."
        reached = self._agent.budget.used_up(outcome.usage)
        return f"{reached[:1].lower()}{reached[1:]}." if reached else ""

    def _end(self, outcome: TurnOutcome) -> Receipt:
        """Collect variables, files, numbers and cost in the receipt; close the turn's stores."""
        self._mended = (*self._session.setup.inputs_mended(), *self._attempts.held_back)
        was_put_back = self._put_back() | self._attempts.restored
        after = self._kernel.snapshot()
        was_put_back |= self._session.setup.delegates.restored(self._before, after)
        if self._findings.has_reply:
            self._session.setup.saw(after)
            self._session.unanswered = 0
        else:
            self._session.unanswered += 1
        receipt = self._receipt(outcome, after, was_put_back)
        self._note_plan(outcome, receipt)
        self._notify(self._tape.notices())
        if not outcome.is_whole and self._tape.is_exact:
            self._notify(["Not recorded, since the model failed in one attempt: run it again."])
        self._session.numbers = self._findings.index
        if self._saves:
            self._save_end(outcome, after)
        self._notify(self._news.take())
        error = str(outcome.error) if outcome.error else outcome.why
        self._emit(TurnFinished(outcome.stop_reason, outcome.usage, receipt=receipt, error=error))
        return receipt

    def _put_back(self) -> frozenset[str]:
        """Bind the names as they were, if the turn only plans. Returns those that changed."""
        return self._undo.put_back(self._kernel.snapshot, self._findings.ran)

    def _note_plan(self, outcome: TurnOutcome, receipt: Receipt) -> None:
        """Note that a plan waits for `%agent go`, or that it was carried out.

        Native code may write files unseen: in a turn that plans they are named.
        """
        session = self._session
        if self._kind == "plan" and receipt.files:
            paths = ", ".join(change.path for change in receipt.files)
            words = f"Changed although this turn only plans: {paths}. To take it back: %agent undo"
            self._emit(Noticed(words, in_sight=True))
        if self._kind == "go" and self._findings.has_reply:
            session.plan_waits = False
        elif self._kind == "plan" and outcome.stop_reason in ("end", "step_limit"):
            session.plan_waits = True
            words = f"This is a plan. To carry it out: {go_line(session.name)}"
            self._emit(Noticed(words, in_sight=True))

    def _receipt(
        self, outcome: TurnOutcome, after: Snapshot, was_put_back: frozenset[str]
    ) -> Receipt:
        files = self._undo.end(after, self._findings.ran)
        shown = self._shown
        self._notify([x for x in self._undo.notices if not self._unkept and x not in shown])
        # A replay's receipt equals the recording's, except for fields that always differ.
        is_live = self._agent.provider.source == "live"
        proposals = self._session.setup.proposals
        changed = [
            change
            for change in changes(self._before, after, one_line, self._undo.mutated)
            if change.name not in was_put_back
        ]
        variables = self._findings.without_scraps(changed, str(self._session.setup.plan))
        receipt = self._findings.receipt(
            tuple(self._tape.variables(variables)),
            len(proposals) if outcome.stop_reason == "end" else 0,
            files=files,
            context="".join(self._context),
            usage=outcome.usage,
            cost=self._paid(outcome.usage) if is_live else None,
            seconds=time.monotonic() - self._began if is_live else None,
        )
        files = self._tape.files(receipt.files, self._undo.rewritten)
        return replace(receipt, files=files, restored=self._mended)

    def _paid(self, usage: Usage) -> Decimal | None:
        """The turn's cost in US dollars without its replayed replies; None if it is unknown."""
        model, base = self._agent.provider, self._settings.api_base
        paid, free = cost(model.name, model.model, usage, base), self._tape.replayed
        saved = cost(model.name, model.model, free, base) if free.total_tokens else Decimal(0)
        return None if paid is None or saved is None else paid - saved

    def _usage(self, outcome: TurnOutcome) -> TurnUsage:
        model = self._agent.provider
        is_live = model.source == "live" and not self._tape.is_exact
        seconds = time.monotonic() - self._began if is_live else None
        number = self._kernel.turn_number
        return TurnUsage(model.name, model.model, outcome.usage, seconds=seconds, number=number)

    def _emit_start(self) -> None:
        """Emit the turn's first event, and once the notices of what waits for trust."""
        model = self._agent.provider
        self._emit(TurnStarted(self._task, model.name, model.model, model.source))
        for line in self._session.notices.new(self._kernel.ignored):
            self._emit(Noticed(line, not self._tape.is_exact, in_sight=True))
        if not self._tape.is_exact and not self._session.turns:
            self._notify(self._kernel.first_look())

    def _notify(self, lines: Iterable[str]) -> None:
        """Show notices to the user; they last unless the turn is recorded or replayed."""
        for line in lines:
            self._emit(Noticed(line, not self._tape.is_exact))

    def _watchers(self) -> list[Sink]:
        """The sinks that the turn itself depends on."""
        setup = self._session.setup
        own: list[Sink] = [
            self._findings,
            setup.approvals,
            setup.delegates,
            *setup.resources.sinks,
        ]
        return [*self._tape.sinks, *own]

    def _saver(self) -> Sink | None:
        """A sink that saves the conversation message by message; None if it is not kept."""
        if not self._saves:
            return None
        # Looked up once: the folder depends on the settings.
        conversations, session = self._kernel.conversations, self._session

        def save(event: Event) -> None:
            if isinstance(event, ApprovalAsked | QuestionAsked):
                waiting = awaiting_approval(session.history, event.call_id)
                conversations.keep(session.name, waiting)
            elif not isinstance(event, (TurnStarted, *PASSING)):
                conversations.keep(session.name, session.history)

        return save

    def _save_end(self, outcome: TurnOutcome, after: Snapshot) -> None:
        session, model = self._session, self._agent.provider
        items = session.setup.plan.items
        plan = tuple({"text": item.text, "state": item.state} for item in items)
        variables, stop = described(after.values), outcome.stop_reason
        end = TurnEnd(
            stop,
            model.name,
            model.model,
            outcome.usage,
            plan,
            variables,
            session.unanswered,
            session.plan_waits,
        )
        self._kernel.conversations.keep(session.name, session.history)
        self._kernel.conversations.end_turn(session.name, end)

    def _why_unkept(self) -> str:
        """Why nothing of the turn can be saved, in a line; empty if it can be."""
        settings = self._settings
        if not (settings.log.enabled or settings.session.save or settings.undo.enabled):
            return ""
        why = self._kernel.why_nothing_is_kept()
        what = "its run log, its conversation, its long outputs, and what undo needs"
        return f"Nothing of this turn is kept ({what}): {why}" if why else ""

    def _first_notices(self) -> list[str]:
        """The notices of the stores at the start of the turn, those kept for it included."""
        late, self._session.late = self._session.late, []
        if self._unkept:
            return [self._unkept, *(line for line in late if TRIED_AGAIN not in line)]
        lost = self._kernel.why_no_outputs()
        return [*self._undo.notices, *late, *([lost] if lost else [])]

    def _close_log(self, log: RunLog) -> None:
        log.close()
        self._kernel.log_path = log.path

    def _keep_news(self) -> None:
        """Keep the stores' last notices for the next turn."""
        self._session.late += self._news.take()

    def _raise_what_stopped(self, outcome: TurnOutcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        if outcome.stop_reason != "interrupted":
            return
        if not self._kernel.interrupts.requested:
            # Not the user: the caller cancelled the task, and must see the cancellation.
            raise asyncio.CancelledError
        if self._kind == "vote":
            raise TurnInterrupted("The agent was interrupted. Nothing of its attempts is kept.")
        raise TurnInterrupted(
            "The agent was interrupted. What it had finished is kept, and the next %%agent "
            "cell goes on from there."
        )


class _UsageOfCheck:
    """A sink that counts the tokens of the delegate that checks the answer."""

    lasting_only = True

    def __init__(self) -> None:
        self.usage = Usage()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Delegated) and isinstance(event.event, MessageFinished):
            self.usage += event.event.usage


class _News:
    """A sink that shows at once when a store fails to save, and when it saves again.

    Args:
        sources: Functions that return new notices, each notice once.
        is_unsaved: True if the user was shown already that nothing is saved.

    Attributes:
        show: Shows lines to the user.
    """

    def __init__(self, sources: Sequence[Callable[[], list[str]]], is_unsaved: bool) -> None:
        self.show: Callable[[Iterable[str]], None] = lambda lines: None
        self._sources = sources
        self._is_unsaved = is_unsaved

    def __call__(self, event: Event) -> None:
        if not isinstance(event, (TurnStarted, Noticed, TurnFinished, *PASSING)):
            self.show(self.take())

    def take(self) -> list[str]:
        """The new notices."""
        lines = [line for source in self._sources for line in source()]
        return [line for line in lines if not (self._is_unsaved and TRIED_AGAIN in line)]


def _fan_out(sinks: Sequence[Sink]) -> Sink:
    """One sink of many. A failing sink is logged, dropped, and does not stop the turn."""
    working = list(sinks)
    watching = [sink for sink in working if not getattr(sink, "lasting_only", False)]
    one_by_one = threading.RLock()  # prints of the agent's threads come on those threads

    def emit(event: Event) -> None:
        with one_by_one:
            for sink in tuple(watching if isinstance(event, PASSING) else working):
                try:
                    sink(event)
                except Exception:
                    working.remove(sink)
                    if sink in watching:
                        watching.remove(sink)
                    logging.getLogger(__name__).exception("A sink failed and gets no more events.")

    return emit
