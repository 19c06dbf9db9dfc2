"""A session: one conversation in one kernel, and everything that a turn of it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from jupyter_agent import config
from jupyter_agent.agent.compaction import Compaction
from jupyter_agent.core.events import (
    Sink,
    TurnStop,
)
from jupyter_agent.core.history import repair, task_index, without_last_tasks
from jupyter_agent.core.messages import Context, JsonObject, Message, Usage
from jupyter_agent.core.plaintext import count, one_line
from jupyter_agent.core.ports import Nobody, Request, User
from jupyter_agent.errors import AgentError, ConfigError, TurnInterrupted
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.grounding import Index
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.recording.wrappers import tape_of
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.answer import Answer
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.mentions import check_mentions
from jupyter_agent.session.noted_user import NotedUser
from jupyter_agent.session.options import GO_ON, TurnKind, is_note
from jupyter_agent.session.resources import Notices
from jupyter_agent.session.turn import Turn, TurnUsage
from jupyter_agent.stores.conversations import Stored, gone
from jupyter_agent.tools.plan import PlanItem
from jupyter_agent.tools.propose import as_one_cell

T = TypeVar("T")


class Session:
    """One conversation. Its system prompt and its tools are fixed when the first turn starts.

    Attributes:
        history: The messages so far, oldest first, always valid for every provider.
        setup: The agent's tools and prompts; `reset` makes it anew.
        turn_usages: The tokens of each turn.
        last_stop: Why the last turn ended; None before the first.
        unanswered: The number of turns at the end of the history to which no model replied. The
            next task replaces them.
        plan_waits: True if a turn has ended with a plan that no later one has carried out.
        is_restored: True once an earlier kernel's conversation was restored, or looked for.
        notices: The lines that a turn shows only if no earlier one has shown them.
    """

    def __init__(self, kernel: Kernel, name: str = "default") -> None:
        self.name = name
        self.kernel = kernel
        self.history: list[Message] = []
        self.setup = AgentSetup(kernel, name)
        self.turn_usages: list[TurnUsage] = []
        self.last_stop: TurnStop | None = None
        self.unanswered = 0
        self.plan_waits = False
        self.is_restored = False
        self.numbers: Index | None = None
        self.schemas: dict[str, str] = {}
        self.notices = Notices()
        self.late: list[str] = []

    def reset(self) -> None:
        """Forget the conversation. Variables, files and settings stay.

        Raises:
            AgentError: A turn is running.
        """
        self.kernel.refuse_while_busy()
        self.finish()
        if self.kernel.settings().settings.session.save:
            self.kernel.conversations.reset(self.name)
        self.is_restored = True
        self.history.clear()
        self.turn_usages.clear()
        self.last_stop = self.numbers = None
        self.unanswered = 0
        self.plan_waits = False
        self.setup = AgentSetup(self.kernel, self.name)

    def finish(self) -> None:
        """End the session, with the kernel or by `reset`: write its record."""
        self.setup.finish()

    async def ask(
        self,
        task: str,
        settings: config.Settings,
        *,
        sinks: Sequence[Sink] = (),
        user: User | None = None,
        skills: Sequence[str] = (),
        kind: TurnKind = "work",
        given: Sequence[JsonObject] = (),
    ) -> Answer:
        """Run one turn and return its answer. The caller is inside `Kernel.turn`.

        Args:
            task: The task in plain words.
            settings: The resolved settings of the turn.
            sinks: Sinks for the turn's events, besides the stores.
            user: The user who decides about calls; None refuses every call that needs a decision.
            skills: Names of skills to load for this task, besides `/NAME` at its beginning.
            kind: What the turn is for.
            given: What the person gives to delegates: the arguments of each call.

        Raises:
            ConfigError: The task is empty or names a variable that does not exist, a setting is
                wrong, or no model is configured.
            ProviderError: The model call failed.
            TurnInterrupted: The user stopped the turn.
        """
        if not task.strip():
            raise ConfigError("There is no task. Write what to do below the %%agent line.")
        setup, kernel = self.setup, self.kernel
        if "@" in task and settings.mode != "replay":  # a recorded task is right as it is
            variables = user_variables(kernel.shell)
            check_mentions(task, variables, kernel.shell.user_ns, kernel.workspace)
        self._restore_unasked(settings)
        if not setup.is_ready(settings):
            connecting = setup.begin(settings)
            await self.interruptible(connecting, "the MCP servers were connected")
        if kind == "work" and settings.answers.samples > 1:
            kind = "vote"
            if settings.answers.verify:
                raise ConfigError(
                    "answers.verify checks one attempt, and answers.samples compares "
                    f"{settings.answers.samples}. Switch one of them off."
                )
        agent, tape = setup.agent(settings, self._noted(user), kind, given)
        by_hand, task = setup.resources.skills.by_hand(task, skills)
        cells = await self.interruptible(setup.look_at_page(task, settings), "the page was read")
        try:
            turn = Turn(
                session=self,
                task=task,
                settings=settings,
                agent=agent,
                tape=tape,
                sinks=sinks,
                skills=setup.resources.skills.given(by_hand),
                cells=cells,
                kind=kind,
            )
            return await turn.run()
        finally:
            self.kernel.tidy(settings)

    def _noted(self, user: User | None) -> User:
        """The user, whose waiting for an answer stands in the session's record."""
        record = self.setup.resources.record
        if user is None or isinstance(user, Nobody) or record is None:
            return user or Nobody()
        return NotedUser(user, record)

    def before(self, task: str) -> tuple[list[Message], list[Message]]:
        """The conversation before a task, and the messages that the task replaces.

        Those are the last turns if no model replied to them; `%agent resume` goes on with them.
        """
        replaced = 0 if task == GO_ON else self.unanswered
        return without_last_tasks(repair(self.history), replaced)

    def turn_ended(self, stop: TurnStop, used: TurnUsage) -> None:
        """Note why a turn ended and its usage."""
        self.last_stop = stop
        self.turn_usages.append(used)

    async def interruptible(self, work: Coroutine[Any, Any, T], doing: str = "") -> T:
        """Await work in a task of its own, so that an interrupt ends it and not the user's cell.

        Args:
            work: The coroutine.
            doing: Its name in the error's message.

        Raises:
            TurnInterrupted: The user interrupted it.
        """
        interrupts = self.kernel.interrupts
        task = asyncio.ensure_future(work)
        with interrupts.cancelling(task):
            try:
                return await task
            except asyncio.CancelledError:
                if not interrupts.requested:
                    raise
                raise TurnInterrupted(f"Interrupted while {doing}.") from None

    def _restore_unasked(self, settings: config.Settings) -> None:
        """Restore the earlier kernel's conversation if `session.resume` is `auto`.

        A recording and its replay begin anew, as the notebook does.
        """
        wanted = settings.session.resume == "auto" and not self.history and not self.is_restored
        if not wanted or tape_of(self.kernel.provider(settings)).is_exact:
            return
        found = self.kernel.conversations
        stored = found.look(self.name)
        if stored.history and found.is_foreign:
            self.late.append(f"Not resumed by itself: {self._foreign(stored)}")
            return
        self._restore()

    @property
    def turns(self) -> int:
        """The number of turns so far."""
        return sum(used.is_turn for used in self.turn_usages)

    @property
    def usage(self) -> Usage:
        """The tokens of all turns."""
        return sum((turn.usage for turn in self.turn_usages), Usage())

    @property
    def is_planning(self) -> bool:
        """True if the turn that ran last only planned, also in an earlier kernel."""
        last = self.history[task_index(self.history)] if self.history else Message("user", ())
        texts = (block.text for block in last.blocks if isinstance(block, Context))
        return any(is_note(text, "plan") for text in texts)

    def proposed_cell(self, answer: Answer) -> str:
        """The cell to insert below after a turn that ended well; empty if there is none."""
        proposals = self.setup.proposals
        if not proposals or answer.stop_reason != "end":
            return ""
        return as_one_cell(proposals)

    def restore(self, trusted: bool = False) -> str:
        """Put the conversation of an earlier kernel before this one's own.

        Args:
            trusted: True accepts a conversation that somebody else may have written.

        Returns:
            A line about the restored turns and their origin; empty if none are stored.

        Raises:
            AgentError: A turn is running, the file cannot be read, or this user did not write it
                in this folder.
        """
        self.kernel.refuse_while_busy()
        found = self.kernel.conversations
        stored = found.look(self.name)
        if found.path is None:
            raise AgentError(
                f"%agent resume: the stored conversation cannot be read: {found.problem}."
            )
        if stored.history and found.is_foreign and not trusted:
            raise AgentError(f"%agent resume: {self._foreign(stored)}")
        return self._restore(trusted)

    def _foreign(self, stored: Stored) -> str:
        """The message why a stored conversation is not restored, and what to do."""
        tasks = (
            block.text
            for message in stored.history
            for block in message.blocks
            if message.role == "user" and block.type == "text"
        )
        turns, first = count(len(stored.turns), "turn"), one_line(next(tasks, ""), 60)
        return (
            f"the conversation in {self._kept_in} ({turns}, beginning with “{first}”) was not "
            "written by you in this folder, or by an earlier version. Look at the file; "
            "%agent resume --trust continues it."
        )

    @property
    def _kept_in(self) -> str:
        path = self.kernel.conversations.path
        return f"{STATE_FOLDER}/sessions/{path.name}" if path else "no file"

    def _restore(self, trusted: bool = False) -> str:
        was_foreign = self.kernel.conversations.is_foreign
        stored = self.kernel.conversations.load(self.name, trusted)
        self.is_restored = True
        if not stored.history:
            return ""
        self.history[:] = [*stored.history, *self.history]
        earlier = [TurnUsage(end.provider, end.model, end.usage) for end in stored.turns]
        self.turn_usages[:] = [*earlier, *self.turn_usages]
        if self.last_stop is None:
            last = stored.turns[-1].stop_reason if stored.turns else None
            self.last_stop = "interrupted" if stored.is_unfinished else last
            self.unanswered = stored.unanswered
            self.plan_waits = bool(stored.turns) and stored.turns[-1].plan_waits
            self.setup.plan.items = tuple(PlanItem(**item) for item in stored.plan)
        level = self.kernel.settings().settings.context.detail
        lost = gone(stored.variables, self.kernel.snapshot().values, level)
        if lost:
            self.setup.news.append(lost)
        turns = count(len(stored.turns), "turn")
        if stored.is_unfinished:
            turns = (
                f"{turns}, and one that the end of the kernel broke off"
                if stored.turns
                else ("one turn, which the end of the kernel broke off")
            )
        skipped = f" {stored.skipped} lines could not be read." if stored.skipped else ""
        source = "not written by you in this folder" if was_foreign else "written by you"
        return (
            f"The conversation of an earlier kernel is back: {turns}, from {self._kept_in}, "
            f"{source}.{skipped}"
        )

    async def compact(self) -> Compaction:
        """Shorten the conversation now, as far as possible without cutting the user's text.

        Raises:
            AgentError: A turn is running, or a setting is wrong.
        """
        with self.kernel.interrupts.installed(), self.kernel.turn() as settings:
            work = self._compact(settings)
            return await self.interruptible(work, "the conversation was shortened")

    async def _compact(self, settings: config.Settings) -> Compaction:
        if not self.setup.is_ready(settings):
            await self.setup.begin(settings)
        agent, tape = self.setup.agent(settings, Nobody())
        compactor = self.setup.compactor(tape)
        history = tuple(repair(self.history))
        request = Request(agent.system, history, agent.toolbox.specs)
        try:
            # Between two turns nothing is recorded, so that a replay must do without a model, too.
            compaction = await compactor.shorten(
                request, agent.provider, agent.retry, target=0, by_model=not tape.is_exact
            )
        finally:
            used = compactor.take_usage()
            if used.total_tokens:
                provider = agent.provider
                self.turn_usages.append(TurnUsage(provider.name, provider.model, used, False))
        if compaction.gained:
            self.history[:] = compaction.history
        return compaction

    def preview(self, task: str, with_body: bool = False) -> tuple[Request, JsonObject]:
        """The first request of a turn with `task`; nothing is sent.

        Args:
            task: The task as the user would type it.
            with_body: True returns the body of the HTTP request, too; otherwise it is empty.

        Raises:
            ConfigError: A setting is wrong; or, for the body, no model is configured.
        """
        setup = self.setup.preview()
        settings = self.kernel.settings().settings
        variables = self.kernel.snapshot()
        kept, replaced = self.before(task)
        message = setup.message(task, settings, variables, not kept, replaced=replaced)
        specs = tuple(tool.spec for tool in setup.tools)
        request = Request(setup.system(settings), (*kept, message), specs)
        body = self.kernel.provider(settings).body(request) if with_body else {}
        return request, body
