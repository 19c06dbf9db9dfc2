"""A session: one conversation in one kernel, and everything that a turn of it needs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from jupyter_agent import config
from jupyter_agent.agent.compaction import Compaction
from jupyter_agent.agent.loop import Agent, Outcome, run_turn
from jupyter_agent.core.events import (
    PASSING,
    Event,
    FileChange,
    Noticed,
    Receipt,
    Sink,
    TurnFinished,
    TurnStarted,
    TurnStop,
    VariableChange,
)
from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import Context, JsonObject, Message, Usage
from jupyter_agent.core.person import Nobody, Person
from jupyter_agent.core.plaintext import one_line as one_line_of
from jupyter_agent.core.wording import count
from jupyter_agent.errors import AgentError, ConfigError, TurnInterrupted
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.jsonl import TRIED_AGAIN
from jupyter_agent.grounding import Index
from jupyter_agent.kernel.changes import Snapshot, changes
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.llm.pricing import cost
from jupyter_agent.llm.provider import Provider, Request
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.replay import Replay
from jupyter_agent.recording.user import Places, Taped, distrust, is_taped
from jupyter_agent.session.answer import Answer, Findings, make_answer
from jupyter_agent.session.equipment import Equipment
from jupyter_agent.session.notebook import Notebook
from jupyter_agent.stores.conversations import Stored, TurnEnd, described, gone
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.stores.tracing import TurnSpans, open_spans
from jupyter_agent.tools.plan import PlanItem
from jupyter_agent.tools.propose import as_one_cell

T = TypeVar("T")
COMPLETE = frozenset({"end", "step_limit", "refused"})
"""The ways to end after which a turn's replies are worth keeping in a cassette."""


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """What one turn used, and who was paid for it."""

    provider: str
    model: str
    usage: Usage
    is_turn: bool = True
    """False for what was asked between turns: the summary of `%agent compact`."""


class Session:
    """One conversation. Its system prompt and its tools are fixed when the first turn starts.

    Attributes:
        history: Messages so far, oldest first, always valid for every provider.
        equipment: What the agent works with; `reset` makes it anew.
        turn_usages: The tokens of each turn.
        last_stop: Why the last turn ended; None before the first.
        is_restored: Whether an earlier kernel's conversation was brought back, or looked for.
    """

    def __init__(self, notebook: Notebook, name: str = "default") -> None:
        self.name = name
        self.notebook = notebook
        self.history: list[Message] = []
        self.equipment = Equipment(notebook, name)
        self.turn_usages: list[TurnUsage] = []
        self.last_stop: TurnStop | None = None
        self.is_restored = False
        self._numbers: Index | None = None
        self._schemas: dict[str, str] = {}
        self._told: list[str] = []
        self._late: list[str] = []

    def reset(self) -> None:
        """Forget the conversation. Variables, files and settings stay.

        Raises:
            AgentError: A turn is running.
        """
        self.notebook.refuse_while_busy()
        self.finish()
        if self.notebook.settings().settings.session.save:
            self.notebook.conversations.reset(self.name)
        self.is_restored = True
        self.history.clear()
        self.turn_usages.clear()
        self.last_stop = self._numbers = None
        self.equipment = Equipment(self.notebook, self.name)

    def finish(self) -> None:
        """The session ends, with the kernel or by `reset`: its record says what it did."""
        self.equipment.finish()

    async def ask(
        self,
        task: str,
        turn: config.Layer | None = None,
        sinks: Sequence[Sink] = (),
        person: Person | None = None,
        skills: Sequence[str] = (),
    ) -> Answer:
        """Run one turn and give its answer.

        Args:
            task: What to do, in plain words.
            turn: Settings for this turn alone.
            sinks: Where the turn's events go, besides the run log.
            person: Who is asked where the policy says so; without one such calls are refused.
            skills: Names of skills to load for this task, besides `/NAME` at its beginning.

        Raises:
            ConfigError: The task is empty, a setting is wrong, or no model is configured.
            ProviderError: The model could not be asked.
            TurnInterrupted: A person stopped the turn.
        """
        if not task.strip():
            raise ConfigError("There is no task. Write what to do below the %%agent line.")
        self.notebook.refuse_while_busy()
        settings = self.notebook.settings(turn).settings
        self.notebook.busy = True
        try:
            equipment = self.equipment
            self._restore_unasked(settings)
            if not equipment.is_ready(settings):
                connecting = equipment.begin(settings)
                await self._interruptible(connecting, "the MCP servers were connected")
            agent = equipment.agent(settings, person or Nobody())
            skills_of = equipment.knowledge.skills
            given, task = skills_of.by_hand(task, skills)
            try:
                return await self._run(task, settings, agent, sinks, skills_of.given(given))
            finally:
                self.notebook.tidy(settings)
        finally:
            self.notebook.busy = False

    def _restore_unasked(self, settings: config.Settings) -> None:
        """Where `session.resume` is `auto`: go on where the earlier kernel stopped.

        A recording and its replay begin anew, as the notebook does.
        """
        wanted = settings.session.resume == "auto" and not self.history and not self.is_restored
        if not wanted or is_taped(self.notebook.provider(settings)):
            return
        found = self.notebook.conversations
        stored = found.look(self.name)
        if stored.history and found.is_foreign:
            self._late.append(f"Not resumed by itself: {self._foreign(stored)}")
            return
        self._restore()

    @property
    def turns(self) -> int:
        """How many turns there were."""
        return sum(used.is_turn for used in self.turn_usages)

    @property
    def usage(self) -> Usage:
        """The tokens of all turns."""
        return sum((turn.usage for turn in self.turn_usages), Usage())

    def proposed_cell(self, answer: Answer) -> str:
        """The cell to insert below after a turn that ended well; empty where there is none."""
        proposals = self.equipment.proposals
        if not proposals or answer.stop_reason != "end":
            return ""
        return as_one_cell(proposals)

    async def _run(
        self,
        task: str,
        settings: config.Settings,
        agent: Agent,
        sinks: Sequence[Sink],
        skills: str = "",
    ) -> Answer:
        equipment, keeping = self.equipment, self.notebook.safekeeping
        equipment.proposals.clear()
        equipment.knowledge.model = agent.provider.model
        provider, began = agent.provider, time.monotonic()
        findings = Findings(self._numbers)
        spans, no_tracing = open_spans() if settings.tracing else (None, "")
        log = self._log(settings)
        unkept = self._nothing_is_kept(settings)
        news = self._news(log, bool(unkept))
        saves = settings.session.save and not isinstance(provider, Replay)
        keepers = [sink for sink in (spans, self._saver() if saves else None, log) if sink]
        emit = _fan_out([*self._watchers(agent, findings), *sinks, *keepers, news])
        before = self.notebook.snapshot()
        message = equipment.message(task, settings, before, not self.history, skills)
        conversation = [*repair(self.history), message]
        if isinstance(provider, Taped):
            provider.begin(conversation)
        self.history[:] = conversation
        equipment.news.clear()
        keeping.begin(task, before, settings.undo)
        self._tell_start(task, provider, emit)
        tell = news.tell = self._teller(provider, emit)
        kept = self._begun(unkept)
        tell(
            [
                *distrust(agent.person),
                *equipment.knowledge.untold(),
                *kept,
                *self._untold(no_tracing, *self.notebook.take_notices()),
            ]
        )
        context = [block.text for block in message.blocks if isinstance(block, Context)]
        if log:
            log.prompt(agent.system, agent.toolbox.specs, context)
        try:
            outcome = await self._run_turn(agent, emit)
            after = self.notebook.snapshot()
            equipment.saw(after)
            files = keeping.end(after, findings.ran)
            tell([line for line in keeping.notices if not unkept and line not in kept])
            receipt = self._receipt(
                provider,
                outcome,
                findings,
                settings,
                variables=changes(before, after, one_line, keeping.mutated),
                files=files,
                context="".join(context),
                seconds=time.monotonic() - began,
            )
            if isinstance(provider, Taped):
                tell(provider.notices())
            self._numbers = findings.index
            if saves:
                self._save_end(outcome, provider, after)
            tell(news.take())
            error = str(outcome.error) if outcome.error else outcome.why
            emit(TurnFinished(outcome.stop_reason, outcome.usage, receipt, error))
        finally:
            keeping.end(before)  # where the turn broke off; else it is done
            self._close(spans, log)
            self._late = news.take()
        answer = make_answer(
            findings.text, findings.code, receipt, outcome.usage, outcome.stop_reason
        )
        self._keep(outcome, provider, answer)
        self._raise_what_stopped(outcome)
        return answer

    def _watchers(self, agent: Agent, findings: Findings) -> list[Sink]:
        """What has to see a turn's events for the turn itself to go on."""
        person = agent.person
        first = [person] if is_taped(agent.provider) and isinstance(person, Places) else []
        equipment = self.equipment
        return [*first, findings, equipment.permissions, *equipment.knowledge.sinks]

    def _tell_start(self, task: str, provider: Provider, emit: Sink) -> None:
        """The turn's first event, and once which settings of the folder do not count."""
        emit(TurnStarted(task, provider.name, provider.model, provider.source))
        for line in self._untold(self.notebook.ignored):
            emit(Noticed(line, not is_taped(provider), in_sight=True))

    def _teller(self, provider: Provider, emit: Sink) -> Callable[[Iterable[str]], None]:
        """Tells the person, line by line; lasting where no other computer has to say the same."""
        lasting = not is_taped(provider)

        def tell(lines: Iterable[str]) -> None:
            for line in lines:
                emit(Noticed(line, lasting))

        return tell

    async def _run_turn(self, agent: Agent, emit: Sink) -> Outcome:
        try:
            outcome = await self._interruptible(run_turn(agent, self.history, emit))
        except TurnInterrupted:
            outcome = Outcome("interrupted", Usage())  # before the turn's first step
        self._teller(agent.provider, emit)(self._put_back())
        return outcome

    async def _interruptible(self, work: Coroutine[Any, Any, T], doing: str = "") -> T:
        """Work in a task of its own, so that an interrupt ends it and not the person's cell.

        Raises:
            TurnInterrupted: A person interrupted it; the line says what it was.
        """
        interrupts = self.notebook.interrupts
        interrupts.requested = False
        task = asyncio.ensure_future(work)
        with interrupts.installed(task):
            try:
                return await task
            except asyncio.CancelledError:
                if not interrupts.requested:
                    raise
                raise TurnInterrupted(f"Interrupted while {doing}.") from None

    def _keep(self, outcome: Outcome, provider: Provider, answer: Answer) -> None:
        """What outlives a turn in this kernel, and in its recording."""
        self.notebook.shell.user_ns["_agent"] = answer
        self.last_stop = outcome.stop_reason
        self.turn_usages.append(TurnUsage(provider.name, provider.model, outcome.usage))
        if isinstance(provider, Taped) and outcome.stop_reason in COMPLETE:
            provider.commit()

    def _saver(self) -> Sink:
        """A sink: the conversation is written down as it happens."""
        # Looked up once: where it is kept depends on the settings, which are read from files.
        conversations = self.notebook.conversations

        def save(event: Event) -> None:
            if not isinstance(event, (TurnStarted, *PASSING)):
                conversations.keep(self.name, self.history)

        return save

    def _nothing_is_kept(self, settings: config.Settings) -> str:
        """Why nothing of the turn can be kept, in a line; empty where something can."""
        if not (settings.log.enabled or settings.session.save or settings.undo.enabled):
            return ""
        why = self.notebook.why_nothing_is_kept()
        what = "its run log, its conversation, its long outputs, and what undo needs"
        return f"Nothing of this turn is kept ({what}): {why}" if why else ""

    def _begun(self, unkept: str) -> list[str]:
        """What there is to say of what is kept when a turn begins."""
        if unkept:
            return [unkept]
        lost = self.notebook.why_no_outputs()
        return [*self.notebook.safekeeping.notices, *self._late, *([lost] if lost else [])]

    def _news(self, log: RunLog | None, is_told: bool) -> _News:
        record = self.equipment.knowledge.record
        kept = (self.notebook.conversations, log, record)
        return _News([each.take_notices for each in kept if each], is_told)

    def _close(self, spans: TurnSpans | None, log: RunLog | None) -> None:
        if spans:
            spans.close()
        if log:
            log.close()
            self.notebook.log_path = log.path

    def _receipt(
        self,
        provider: Provider,
        outcome: Outcome,
        findings: Findings,
        settings: config.Settings,
        *,
        variables: tuple[VariableChange, ...],
        files: Sequence[FileChange],
        context: str,
        seconds: float,
    ) -> Receipt:
        is_live = provider.source == "live"
        receipt = findings.receipt(
            variables,
            len(self.equipment.proposals) if outcome.stop_reason == "end" else 0,
            files=files,
            context=context,
            usage=outcome.usage,
            # A recording and its replay have the same receipt but for what is known to differ.
            cost=_paid(provider, outcome.usage, settings) if is_live else None,
            seconds=seconds if is_live else None,
        )
        if not isinstance(provider, Taped):
            return receipt
        rewritten = self.notebook.safekeeping.rewritten
        return replace(receipt, files=tuple(provider.past.files(receipt.files, rewritten)))

    def _put_back(self) -> tuple[str, ...]:
        """What the agent's code changed of what decides the next turn: told to both sides."""
        lines = self.notebook.deciding.end()
        self.equipment.news += lines
        return lines

    def _untold(self, *lines: str) -> list[str]:
        """These lines, each once."""
        untold = [line for line in lines if line and line not in self._told]
        self._told += untold
        return untold

    def _save_end(self, outcome: Outcome, provider: Provider, after: Snapshot) -> None:
        plan = tuple({"text": item.text, "state": item.state} for item in self.equipment.plan.items)
        variables = described(after.values)
        end = TurnEnd(
            outcome.stop_reason, provider.name, provider.model, outcome.usage, plan, variables
        )
        conversations = self.notebook.conversations
        conversations.keep(self.name, self.history)
        conversations.end_turn(self.name, end)

    def restore(self, trusted: bool = False) -> str:
        """Bring back the conversation of an earlier kernel, before this one's own.

        Args:
            trusted: Whether the person wants it although somebody else may have written it.

        Returns:
            What came back and from where, in a line; empty where nothing was kept.

        Raises:
            AgentError: A turn is running, what was kept cannot be read, or it was not written by
                this person in this folder.
        """
        self.notebook.refuse_while_busy()
        found = self.notebook.conversations
        stored = found.look(self.name)
        if found.path is None:
            raise AgentError(f"%agent resume: what was kept cannot be read: {found.problem}.")
        if stored.history and found.is_foreign and not trusted:
            raise AgentError(f"%agent resume: {self._foreign(stored)}")
        return self._restore(trusted)

    def _foreign(self, stored: Stored) -> str:
        """Why a conversation is not simply gone on with, and what to do."""
        tasks = (
            block.text
            for message in stored.history
            for block in message.blocks
            if message.role == "user" and block.type == "text"
        )
        turns, first = count(len(stored.turns), "turn"), one_line_of(next(tasks, ""), 60)
        return (
            f"the conversation in {self._kept_in} ({turns}, beginning with “{first}”) was not "
            "written by you in this folder, or by an earlier version. Look at the file; "
            "%agent resume --trust goes on with it."
        )

    @property
    def _kept_in(self) -> str:
        path = self.notebook.conversations.path
        return f"{STATE_FOLDER}/sessions/{path.name}" if path else "no file"

    def _restore(self, trusted: bool = False) -> str:
        was_foreign = self.notebook.conversations.is_foreign
        stored = self.notebook.conversations.load(self.name, trusted)
        self.is_restored = True
        if not stored.history:
            return ""
        self.history[:] = [*stored.history, *self.history]
        earlier = [TurnUsage(end.provider, end.model, end.usage) for end in stored.turns]
        self.turn_usages[:] = [*earlier, *self.turn_usages]
        if self.last_stop is None:
            last = stored.turns[-1].stop_reason if stored.turns else None
            self.last_stop = "interrupted" if stored.is_unfinished else last
            self.equipment.plan.items = tuple(PlanItem(**item) for item in stored.plan)
        level = self.notebook.settings().settings.context.detail
        lost = gone(stored.variables, self.notebook.snapshot().values, level)
        if lost:
            self.equipment.news.append(lost)
        turns = count(len(stored.turns), "turn")
        skipped = f" {stored.skipped} lines could not be read." if stored.skipped else ""
        source = "not written by you in this folder" if was_foreign else "written by you"
        return (
            f"The conversation of an earlier kernel is back: {turns}, from {self._kept_in}, "
            f"{source}.{skipped}"
        )

    def _raise_what_stopped(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        if outcome.stop_reason != "interrupted":
            return
        if not self.notebook.interrupts.requested:
            # Not a person: whoever awaits this cancelled it, and must see that it worked.
            raise asyncio.CancelledError
        raise TurnInterrupted(
            "The agent was interrupted. What it had finished is kept, and the next %%agent "
            "cell goes on from there."
        )

    async def compact(self) -> Compaction:
        """Shorten the conversation now, as far as it goes without cutting the person's words.

        Raises:
            AgentError: A turn is running, or a setting is wrong.
        """
        self.notebook.refuse_while_busy()
        settings = self.notebook.settings().settings
        self.notebook.busy = True
        try:
            work = self._compact(settings)
            return await self._interruptible(work, "the conversation was shortened")
        finally:
            self.notebook.busy = False

    async def _compact(self, settings: config.Settings) -> Compaction:
        if not self.equipment.is_ready(settings):
            await self.equipment.begin(settings)
        agent = self.equipment.agent(settings, Nobody())
        compactor = self.equipment.compactor(agent.provider)
        history = tuple(repair(self.history))
        request = Request(agent.system, history, agent.toolbox.specs)
        try:
            compaction = await compactor.shorten(request, agent.provider, agent.retry, target=0)
        finally:
            used = compactor.take_usage()
            if used.total_tokens:
                provider = agent.provider
                self.turn_usages.append(TurnUsage(provider.name, provider.model, used, False))
        if compaction.gained:
            self.history[:] = compaction.history
        return compaction

    def preview(self, task: str, with_body: bool = False) -> tuple[Request, JsonObject]:
        """What the next turn would send first for `task`; nothing is sent.

        Args:
            task: The task as it would be typed.
            with_body: Whether to give the body of the HTTP request, too.

        Raises:
            ConfigError: A setting is wrong; or, for the body, no model is configured.
        """
        equipment = self.equipment
        settings = self.notebook.settings().settings
        now = self.notebook.snapshot()
        message = equipment.message(task, settings, now, not self.history)
        specs = tuple(tool.spec for tool in equipment.tools)
        request = Request(equipment.system(settings), (*self.history, message), specs)
        body = self.notebook.provider(settings).body(request) if with_body else {}
        return request, body

    def _log(self, settings: config.Settings) -> RunLog | None:
        if not settings.log.enabled:
            return None
        folder = self.notebook.workspace.state_folder / "logs"
        return RunLog(folder, self._schemas, self.notebook.prepare_state)


class _News:
    """A sink: tells at once where something is not kept any more, and where it is again.

    Args:
        sources: Each gives lines that were not told yet.
        is_told: Whether the person knows already that nothing is kept.

    Attributes:
        tell: Shows lines to the person.
    """

    def __init__(self, sources: Sequence[Callable[[], list[str]]], is_told: bool) -> None:
        self.tell: Callable[[Iterable[str]], None] = lambda lines: None
        self._sources = sources
        self._is_told = is_told

    def __call__(self, event: Event) -> None:
        if not isinstance(event, (TurnStarted, Noticed, TurnFinished, *PASSING)):
            self.tell(self.take())

    def take(self) -> list[str]:
        lines = [line for source in self._sources for line in source()]
        return [line for line in lines if not (self._is_told and TRIED_AGAIN in line)]


def _paid(provider: Provider, usage: Usage, settings: config.Settings) -> Decimal | None:
    """What a turn cost; what was replayed of it cost nothing."""

    def price(tokens: Usage) -> Decimal | None:
        return cost(provider.name, provider.model, tokens, settings.api_base)

    paid, free = price(usage), provider.replayed if isinstance(provider, Cached) else Usage()
    saved = price(free) if free.total_tokens else Decimal(0)
    return None if paid is None or saved is None else paid - saved


def _fan_out(sinks: Sequence[Sink]) -> Sink:
    """One sink of many. One that fails is a bug of its own and must not stop the turn."""
    working = list(sinks)
    watching = [sink for sink in working if not getattr(sink, "lasting_only", False)]
    one_by_one = threading.RLock()  # what a thread of the agent's code prints comes on that thread

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
