"""A session: one conversation in one kernel, and everything that a turn of it needs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from jupyter_agent import config
from jupyter_agent.answer import Answer, Findings, make_answer
from jupyter_agent.budget import Budget
from jupyter_agent.errors import ConfigError, TurnInterrupted
from jupyter_agent.events import (
    Event,
    Noticed,
    Sink,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    TurnStop,
)
from jupyter_agent.history import repair
from jupyter_agent.kernel.changes import Snapshot, changes
from jupyter_agent.kernel.context import KernelState, turn_context
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.knowledge import Knowledge
from jupyter_agent.llm.pricing import cost
from jupyter_agent.llm.provider import Provider, Request
from jupyter_agent.llm.replay import Recorder, Replay
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.llm.witness import Recollection, Witness
from jupyter_agent.loop import Agent, Outcome, run_turn
from jupyter_agent.messages import Context, JsonObject, Message, Text, Usage
from jupyter_agent.notebook import Notebook
from jupyter_agent.permissions import Permissions
from jupyter_agent.person import Nobody, Person
from jupyter_agent.prompts import render
from jupyter_agent.runlog import RunLog
from jupyter_agent.tools.callable import CallableToolbox, Surroundings, show_picture
from jupyter_agent.tools.code import Sight, code_tools
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.gate import Gate
from jupyter_agent.tools.inspect import inspect_tools
from jupyter_agent.tools.mcp_tools import mcp_tools
from jupyter_agent.tools.plan import Plan, plan_tools
from jupyter_agent.tools.propose import Proposal, as_one_cell, propose_tools
from jupyter_agent.tools.tool import Tool
from jupyter_agent.tools.toolbox import Toolbox

_ANY_USAGE = Usage(1_000, 100)
COMPLETE = frozenset({"end", "step_limit", "refused"})
"""The ways to end after which a turn's replies are worth keeping in a cassette."""


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """What one turn used, and who was paid for it."""

    provider: str
    model: str
    usage: Usage


class Session:
    """One conversation. Its system prompt and its tools are fixed when the first turn starts.

    Attributes:
        history: Messages so far, oldest first, always valid for every provider.
        plan: The to-do list that the model keeps.
        turn_usages: The tokens of each turn.
        last_stop: Why the last turn ended; None before the first.
    """

    def __init__(self, notebook: Notebook, name: str = "default") -> None:
        self.name = name
        self.notebook = notebook
        self.history: list[Message] = []
        self.turn_usages: list[TurnUsage] = []
        self.last_stop: TurnStop | None = None
        self.plan = Plan()
        self._proposals: list[Proposal] = []
        self.permissions = Permissions(notebook)
        self._settings = config.Settings()
        self._seen: Snapshot | None = None
        self._cells_seen = 0
        self._system: str | None = None
        self._tools: list[Tool] | None = None
        self._knowledge: Knowledge | None = None

    def reset(self) -> None:
        """Forget the conversation. Variables, files and settings stay.

        Raises:
            AgentError: A turn is running.
        """
        self.notebook.refuse_while_busy()
        self.finish()
        self.history.clear()
        self.turn_usages.clear()
        self.last_stop = None
        self.plan.items = ()
        self._seen, self._cells_seen = None, 0
        self._system = self._tools = self._knowledge = None
        self.permissions = Permissions(self.notebook)

    def finish(self) -> None:
        """The session ends, with the kernel or by `reset`: its record says what it did."""
        if self._knowledge is not None:
            self._knowledge.finish()

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
            if self._tools is None:
                # Anew: a command may have looked before the settings were what they are now.
                self._knowledge = Knowledge(self.notebook, self.name, settings)
                await self._connect(self._knowledge)
            agent = self._agent(settings, person or Nobody())
            given, task = self.knowledge.skills.by_hand(task, skills)
            told = self.knowledge.skills.given(given)
            return await self._run(task, settings, agent, sinks, told)
        finally:
            self.notebook.busy = False

    @property
    def turns(self) -> int:
        """How many turns there were."""
        return len(self.turn_usages)

    @property
    def usage(self) -> Usage:
        """The tokens of all turns."""
        return sum((turn.usage for turn in self.turn_usages), Usage())

    def proposed_cell(self, answer: Answer) -> str:
        """The cell to insert below after a turn that ended well; empty where there is none."""
        if not self._proposals or answer.stop_reason != "end":
            return ""
        return as_one_cell(self._proposals)

    async def _run(
        self,
        task: str,
        settings: config.Settings,
        agent: Agent,
        sinks: Sequence[Sink],
        skills: str = "",
    ) -> Answer:
        self._settings = settings
        self._proposals.clear()
        log = self._log(settings)
        findings = Findings()
        knowledge = self.knowledge
        knowledge.model = agent.provider.model
        watchers: list[Sink] = [findings, self.permissions, *knowledge.sinks, *sinks]
        if isinstance(agent.person, (Witness, Recollection)):
            watchers.insert(0, agent.person)
        emit = _fan_out([*watchers, *([log] if log else [])])
        before = self.notebook.snapshot()
        message = self.message(task, settings, before, skills)
        provider = agent.provider
        emit(TurnStarted(task, provider.name, provider.model, provider.source))
        lasting = not isinstance(provider, (Recorder, Replay))
        for notice in knowledge.untold():
            emit(Noticed(notice, lasting))
        if log:
            context = [block.text for block in message.blocks if isinstance(block, Context)]
            log.write("prompt", {"system": agent.system, "context": "".join(context)})
        try:
            outcome = await self._interruptible(agent, message, emit)
            after = self.notebook.snapshot()
            self._seen, self._cells_seen = after.faded(), self.notebook.recent.count
            proposed = len(self._proposals) if outcome.stop_reason == "end" else 0
            receipt = findings.receipt(changes(before, after, one_line), proposed)
            error = str(outcome.error) if outcome.error else outcome.why
            emit(TurnFinished(outcome.stop_reason, outcome.usage, receipt, error))
        finally:
            if log:
                log.close()
                self.notebook.log_path = log.path
        answer = make_answer(
            findings.text, findings.code, receipt, outcome.usage, outcome.stop_reason
        )
        self.notebook.shell.user_ns["_agent"] = answer
        self._keep(outcome, provider)
        self._raise_what_stopped(outcome)
        return answer

    async def _interruptible(self, agent: Agent, message: Message, emit: Sink) -> Outcome:
        interrupts = self.notebook.interrupts
        interrupts.requested = False
        if isinstance(agent.provider, Recorder):
            agent.provider.begin()
        self.history[:] = [*repair(self.history), message]
        # A task of its own, so that an interrupt ends the turn and not the person's cell.
        task = asyncio.ensure_future(run_turn(agent, self.history, emit))
        with interrupts.installed(task):
            try:
                return await task
            except asyncio.CancelledError:
                if not interrupts.requested:
                    raise
                return Outcome("interrupted", Usage())  # before the turn's first step

    def _keep(self, outcome: Outcome, provider: Provider) -> None:
        self.last_stop = outcome.stop_reason
        self.turn_usages.append(TurnUsage(provider.name, provider.model, outcome.usage))
        if isinstance(provider, Recorder) and outcome.stop_reason in COMPLETE:
            provider.commit()

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

    async def _connect(self, knowledge: Knowledge) -> None:
        """Connect to the MCP servers before the first turn, which a person may interrupt."""
        interrupts = self.notebook.interrupts
        interrupts.requested = False
        task = asyncio.ensure_future(knowledge.connect())
        with interrupts.installed(task):
            try:
                await task
            except asyncio.CancelledError:
                if not interrupts.requested:
                    raise
                raise TurnInterrupted("Interrupted while the MCP servers were connected.") from None

    @property
    def knowledge(self) -> Knowledge:
        """The skills, memory and rules that the first turn fixed; before that, a preview."""
        if self._knowledge is not None:
            return self._knowledge
        return Knowledge(self.notebook, self.name, self.notebook.settings().settings)

    @property
    def tools(self) -> list[Tool]:
        """The tools of this session: those that the first turn fixed, before that a preview."""
        return self._tools or self._make_tools(self.notebook.settings().settings)

    @property
    def awaits_servers(self) -> bool:
        """Whether the first turn will ask MCP servers for tools, which no preview has."""
        wanted = self.notebook.settings().settings.tools.enable_mcp
        return self._tools is None and wanted and self.notebook.servers.is_configured

    def _agent(self, settings: config.Settings, person: Person) -> Agent:
        provider = self.notebook.provider(settings)
        if isinstance(provider, Recorder):
            person = Witness(person, provider)
        elif isinstance(provider, Replay):
            person = Recollection(provider)
        if self._system is None:
            self._system = self._system_prompt(settings)
        if self._tools is None:
            self._tools = self._make_tools(settings)
        images = settings.images
        return Agent(
            provider,
            self._toolbox(self._tools, settings),
            self._system,
            settings.max_steps,
            RetryPolicy(**settings.retry.model_dump()),
            images.per_step if images.enabled else 0,
            self._gate(settings, person),
            person,
            _budget(settings, provider),
            self.knowledge.advice if settings.tools.enable_memory else str,
        )

    def _toolbox(self, tools: list[Tool], settings: config.Settings) -> Toolbox:
        """The tools, which are functions in the code of a model that calls none."""
        permissions, shell = self.permissions, self.notebook.shell
        return CallableToolbox(
            tools,
            Surroundings(
                shell.user_ns,
                shell.user_ns_hidden,
                permissions.rule(settings),
                permissions.passed,
                lambda result: permissions(ToolFinished(result, 0.0)),
                show_picture,
            ),
        )

    def _gate(self, settings: config.Settings, person: Person) -> Gate:
        permissions = self.permissions
        recollection = person if isinstance(person, Recollection) else None
        rule = permissions.rule(settings, recollection)
        return Gate(rule, person, permissions.grant, permissions.passed)

    def _make_tools(self, settings: config.Settings) -> list[Tool]:
        notebook, knowledge = self.notebook, self.knowledge
        files, code = [], []
        if settings.tools.enable_file_tools:
            workspace = notebook.workspace
            files = file_tools(
                workspace, notebook.own_files, self._shapes_only, knowledge.skills.file
            )
        if settings.tools.enable_code:
            code = code_tools(notebook.executor, self._sight)
        inspect = inspect_tools(lambda: user_variables(notebook.shell), self._shapes_only)
        return [
            *code,
            *inspect,
            *files,
            *knowledge.tools(settings),
            *plan_tools(self.plan),
            *propose_tools(self._proposals),
            *mcp_tools(knowledge.offer, self._sight, notebook.outputs),
        ]

    def _sight(self) -> Sight:
        images = self._settings.images
        return Sight(self._shapes_only(), images.max_side if images.enabled else 0)

    def _shapes_only(self) -> bool:
        return self._settings.privacy.outputs == "shapes"

    def _system_prompt(self, settings: config.Settings) -> str:
        listed = self.knowledge.skills.metadata_prompt()
        if settings.system_prompt_path is None:
            skills = render("skills", SKILLS_METADATA=listed) if listed else ""
            return render("system") + (f"\n{skills}" if skills else "")
        path = self.notebook.workspace.root / Path(settings.system_prompt_path).expanduser()
        try:
            return path.read_text(encoding="utf-8").replace("{SKILLS_METADATA}", listed)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"system_prompt_path: {settings.system_prompt_path} cannot be read ({error})."
            ) from None

    def preview(self, task: str, with_body: bool = False) -> tuple[Request, JsonObject]:
        """What the next turn would send first for `task`; nothing is sent.

        Args:
            task: The task as it would be typed.
            with_body: Whether to give the body of the HTTP request, too.

        Raises:
            ConfigError: A setting is wrong; or, for the body, no model is configured.
        """
        settings = self.notebook.settings().settings
        now = self.notebook.snapshot()
        messages = (*self.history, self.message(task, settings, now))
        system = self._system or self._system_prompt(settings)
        request = Request(system, messages, tuple(tool.spec for tool in self.tools))
        body = self.notebook.provider(settings).body(request) if with_body else {}
        return request, body

    def message(
        self, task: str, settings: config.Settings, now: Snapshot, skills: str = ""
    ) -> Message:
        """The person's message: the task, then what they are not to type anew each time.

        That is the hot rules with the first task, the skills they chose, and what is in the kernel.
        At the level `none` it is the skills alone.
        """
        level = settings.context.detail
        is_told = not self.history and level != "none"
        rules = self.knowledge.rules.text if is_told else ""
        context = turn_context(task, self._kernel_state(now), level)
        told = [Context(text) for text in (rules, skills, context) if text]
        return Message("user", (Text(task), *told))

    def _kernel_state(self, now: Snapshot) -> KernelState:
        recent = self.notebook.recent
        changed = () if self._seen is None else changes(self._seen, now)
        cells = recent.since(self._cells_seen)
        return KernelState(now.values, changed, cells, recent.last_failed)

    def _log(self, settings: config.Settings) -> RunLog | None:
        if not settings.log.enabled:
            return None
        folder = self.notebook.workspace.state_folder
        with suppress(ConfigError):  # a folder that cannot be made shows in the log's `problem`
            folder = self.notebook.workspace.ensure_state_folder()
        return RunLog(folder / "logs")


def _budget(settings: config.Settings, provider: Provider) -> Budget:
    """The turn's budget. Raises `ConfigError` where money is limited and no price is known."""
    limits = settings.budget

    def price(usage: Usage) -> Decimal | None:
        return cost(provider.name, provider.model, usage, settings.api_base)

    if limits.usd is not None and provider.source == "live" and price(_ANY_USAGE) is None:
        raise ConfigError(
            f"budget.usd cannot be kept: no price is known for {provider.model}. "
            "Use budget.tokens instead."
        )
    return Budget(limits.tokens, limits.seconds, limits.usd, price)


def _fan_out(sinks: Sequence[Sink]) -> Sink:
    """One sink of many. One that fails is a bug of its own and must not stop the turn."""
    working = list(sinks)
    one_by_one = threading.RLock()  # what a thread of the agent's code prints comes on that thread

    def emit(event: Event) -> None:
        with one_by_one:
            for sink in tuple(working):
                try:
                    sink(event)
                except Exception:
                    working.remove(sink)
                    logging.getLogger(__name__).exception("A sink failed and gets no more events.")

    return emit
