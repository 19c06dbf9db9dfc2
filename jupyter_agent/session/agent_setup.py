"""The setup of a conversation's agent: its tools, its prompts, the context of its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path

from jupyter_agent.agent.approval_gate import ApprovalGate
from jupyter_agent.agent.callable import CallableToolbox, CodeTools, carried_out, show_picture
from jupyter_agent.agent.compaction import Compactor, keep_in
from jupyter_agent.agent.delegates import GivenToDelegates
from jupyter_agent.agent.loop import Agent
from jupyter_agent.agent.prompts import render
from jupyter_agent.config import Settings
from jupyter_agent.core.budget import Budget
from jupyter_agent.core.events import ToolFinished
from jupyter_agent.core.history import unanswered
from jupyter_agent.core.messages import EDIT_CELLS, Context, JsonObject, Message, Text, Usage
from jupyter_agent.core.ports import Model, Nobody, User
from jupyter_agent.core.tool import Tool
from jupyter_agent.errors import ConfigError
from jupyter_agent.kernel.cells_meant import CellsMeant, cells_meant, words_for_cells
from jupyter_agent.kernel.changes import Snapshot, changes
from jupyter_agent.kernel.context import KernelState, brief_context, turn_context
from jupyter_agent.kernel.front_end import is_jupyterlab, request_of
from jupyter_agent.kernel.named_inputs import NamedInputs, Spoilt
from jupyter_agent.kernel.notebook_page import NotebookPage
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.llm.pricing import cost
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.recording.tape import ShorteningDue, Tape
from jupyter_agent.recording.wrappers import (
    RecordedTools,
    RecordedUser,
    carry_out_now,
    in_place_of,
    served_tools,
    tape_of,
)
from jupyter_agent.session.approvals import Approvals
from jupyter_agent.session.delegates import Delegates
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.mentions import described_files
from jupyter_agent.session.options import GO_ON, TurnKind, is_note
from jupyter_agent.session.provider_choice import is_brief, token_limit
from jupyter_agent.session.resources import Resources
from jupyter_agent.tools.cells import (
    CellEditor,
    CellSight,
    StoredCells,
    cell_tools,
)
from jupyter_agent.tools.code import Sight, code_tools
from jupyter_agent.tools.describing import FileSight
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.help import help_tools
from jupyter_agent.tools.inspect import inspect_tools
from jupyter_agent.tools.mcp_tools import mcp_tools
from jupyter_agent.tools.plan import Plan, plan_tools
from jupyter_agent.tools.propose import Proposal, propose_tools
from jupyter_agent.tools.questions import question_tools
from jupyter_agent.tools.toolbox import Toolbox

_ANY_USAGE = Usage(1_000, 100)


class AgentSetup:
    """Tools, prompts and context of one conversation. The first turn fixes prompt and tools.

    Args:
        kernel: The kernel of the conversation.
        name: The session's name.

    Attributes:
        settings: The settings of the running turn, or of the last one.
        plan: The to-do list that the model keeps.
        proposals: The cells that the turn offers.
        approvals: What its calls may do without being asked about.
        delegates: The delegates that work for it.
        kind: What the running turn is for, or the last one.
        news: What the model is told with the next task: what was undone, what is gone.
    """

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.settings = Settings()
        self.plan = Plan()
        self.proposals: list[Proposal] = []
        self.approvals = Approvals(kernel)
        self.delegates = Delegates(kernel, self)
        self.kind: TurnKind = "work"
        self.news: list[str] = []
        self._kernel = kernel
        self._name = name
        self._tape = Tape()
        self._inputs: NamedInputs | None = None
        self._seen: Snapshot | None = None
        self._cells_seen = 0
        self._resources: Resources | None = None
        self._system: str | None = None
        self._tools: list[Tool] | None = None
        self._has_asked = False

    async def begin(self, settings: Settings) -> None:
        """Prepare the first turn: find the resources, and ask the MCP servers for their tools.

        Raises:
            ConfigError: A setting names a folder that does not exist.
        """
        if not self.is_fixed:
            self._resources = Resources(self._kernel, self._name, settings)
        if self._asks_servers(settings):
            self._tools = None
            await self.resources.connect()
            await self._kernel.page.connect()
            self._has_asked = True

    def preview(self) -> AgentSetup:
        """The setup that the next turn has; before the first turn, what that would fix now.

        Raises:
            ConfigError: A setting names a folder that does not exist.
        """
        if self.is_fixed:
            return self
        settings = self._kernel.settings().settings
        preview = AgentSetup(self._kernel, self._name)
        preview.news, preview.plan = self.news, self.plan
        preview._resources = Resources(self._kernel, self._name, settings)
        preview._tools = preview._make_tools(settings)
        return preview

    @property
    def resources(self) -> Resources:
        """The skills, memory and rules that `begin` found.

        Raises:
            RuntimeError: Nothing has begun yet; `preview` has those of the first turn.
        """
        if self._resources is None:
            raise RuntimeError("the setup has not begun")
        return self._resources

    def comes_later(self, task: str) -> list[str]:
        """What a turn with this task adds that no preview has: servers and pages must answer."""
        settings = self._kernel.settings().settings
        lines = []
        if not self.is_fixed and settings.tools.enable_mcp and self._kernel.servers.is_configured:
            lines.append("The first turn adds the tools of MCP servers.")
        is_page = is_jupyterlab(request_of(self._kernel.shell))
        if is_page and not self.is_fixed and not is_brief(settings, os.environ):
            lines.append("The first turn adds `edit_cells`, for the open notebook.")
        if is_page and settings.context.detail != "none" and words_for_cells(task):
            lines.append("The turn adds the cells of the notebook that the task means.")
        return lines

    def finish(self) -> None:
        """End the conversation: write its session record."""
        if self._resources is not None:
            self._resources.finish()

    @property
    def is_fixed(self) -> bool:
        """True once the first turn has begun."""
        return self._tools is not None

    def is_ready(self, settings: Settings) -> bool:
        """True if `begin` has nothing to do; False before the first turn and after replayed ones.

        Raises:
            ConfigError: A setting is wrong, or no model is configured.
        """
        return self.is_fixed and (self._has_asked or not self._asks_servers(settings))

    def _asks_servers(self, settings: Settings) -> bool:
        """False in a replay, which gives the servers' recorded results."""
        return tape_of(self._kernel.provider(settings)).asks_others

    @property
    def tools(self) -> list[Tool]:
        """The tools that the first turn fixed; empty before it."""
        return self._tools or []

    def agent(
        self,
        settings: Settings,
        user: User,
        kind: TurnKind = "work",
        given: Sequence[JsonObject] = (),
    ) -> tuple[Agent, Tape]:
        """The agent for a turn, and the turn's tape.

        From the first turn on prompt and tools are the same. In a turn that plans or votes the
        tools that change something are refused.

        Args:
            settings: The settings of the turn.
            user: Its user.
            kind: What the turn is for.
            given: What the person gives to delegates; the turn then does nothing else.

        Raises:
            ConfigError: A setting is wrong, or no model is configured.
        """
        provider = self._kernel.provider(settings)
        tape = self._tape = tape_of(provider)
        tape.attend(not isinstance(user, Nobody))
        person, user = user, RecordedUser(tape, user)
        self.approvals.begin(settings, user, kind)
        self.kind = kind
        if self._system is None:
            self._system = self._system_prompt(settings)
        if self._tools is None:
            self._tools = self._make_tools(settings)
        self.settings = settings
        images = settings.images
        agent = Agent(
            provider=provider,
            toolbox=RecordedTools(self._toolbox(self._tools), tape),
            system=self._system,
            max_steps=settings.max_steps,
            retry=RetryPolicy(**settings.retry.model_dump()),
            images_per_step=images.per_step if images.enabled else 0,
            approval_gate=self._approval_gate(tape, user),
            user=user,
            budget=_budget(settings, provider),
            advice=self._advice(settings, kind),
            compactor=self.compactor(tape) if settings.compaction.enabled else None,
            samples=settings.answers.samples if kind == "vote" else 1,
        )
        self.delegates.begin(agent, person, tape, is_all=bool(given))
        if given:
            model = in_place_of(provider, lambda real: GivenToDelegates(real, given))
            agent = replace(agent, provider=model)
        return agent, tape

    def _advice(self, settings: Settings, kind: TurnKind) -> Callable[[], str]:
        """What a model is advised to save for later, except where nothing may be saved."""
        saves = settings.tools.enable_memory and kind != "vote"
        return self.resources.advice if saves else str

    def compactor(self, tape: Tape) -> Compactor:
        """The conversation's compactor, which keeps its token counts from turn to turn."""
        compactor = self._compactor
        compactor.limit = token_limit(self.settings, os.environ)
        return _recorded(compactor, tape)

    def compactor_of(
        self, delegate: str, tape: Tape, contexts: Callable[[], Sequence[str]]
    ) -> Compactor:
        """The compactor of a delegate's conversation.

        Args:
            delegate: Its name.
            tape: Its tape, which has begun.
            contexts: Returns the texts to repeat in the shortened conversation.
        """
        return _recorded(self._new_compactor(f"-{delegate}", contexts), tape)

    @cached_property
    def _compactor(self) -> Compactor:
        return self._new_compactor("", self._still_in_force)

    def _new_compactor(self, suffix: str, contexts: Callable[[], Sequence[str]]) -> Compactor:
        kernel = self._kernel
        stem = kernel.path.stem if kernel.path else "kernel"
        keep = keep_in(kernel.workspace, f"{stem}-{self._name}{suffix}")
        return Compactor(token_limit(self.settings, os.environ), keep, contexts)

    def _still_in_force(self) -> list[str]:
        """Texts to repeat in a shortened conversation: plan, skills, rules, the variables."""
        level = self.settings.context.detail
        state = KernelState(self._variables())
        return [
            f"Your plan:\n{self.plan}" if self.plan.items else "",
            self.resources.skills.active_text(),
            self._rules(self.settings),
            turn_context("", state, level),
        ]

    def system(self, settings: Settings) -> str:
        """The system prompt that the first turn fixed; before the first turn a preview.

        Raises:
            ConfigError: The file that replaces it cannot be read.
        """
        return self._system or self._system_prompt(settings)

    def _system_prompt(self, settings: Settings) -> str:
        if settings.system_prompt_path is None and is_brief(settings, os.environ):
            return render("short")
        listed = self.resources.skills.metadata_prompt()
        if settings.system_prompt_path is None:
            skills = render("skills", SKILLS_METADATA=listed) if listed else ""
            return render("system") + (f"\n{skills}" if skills else "")
        path = self._kernel.workspace.root / Path(settings.system_prompt_path).expanduser()
        try:
            return path.read_text(encoding="utf-8").replace("{SKILLS_METADATA}", listed)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"system_prompt_path: {settings.system_prompt_path} cannot be read ({error})."
            ) from None

    def message(
        self,
        task: str,
        settings: Settings,
        variables: Snapshot,
        is_first: bool,
        skills: str = "",
        replaced: Sequence[Message] = (),
        cells: str = "",
        note: str = "",
    ) -> Message:
        """The user's message: the task and its context.

        Args:
            task: The task in plain words.
            settings: The settings of the turn.
            variables: The variables now.
            is_first: True if the conversation has no message yet.
            skills: The text of the skills that were named with the task.
            replaced: The messages of turns without a reply, which this one replaces.
            cells: The cells of the open notebook that the task means; empty for none.
            note: What this turn is for; empty for an ordinary one.

        The context is the note, the hot rules (with the first task), news, the chosen skills, and
        the state of the kernel. At the level `none` it is note, news and skills alone.
        """
        level = settings.context.detail
        rules = self._rules(settings) if is_first else ""
        state = replace(self._kernel_state(variables), meant=cells)
        made = brief_context if is_brief(settings, os.environ) else turn_context
        context = made(task, state, level)
        files = described_files(task, self._kernel.workspace, level) if "@" in task else ""
        earlier = [
            each.text
            for each in unanswered(replaced, but=(task, GO_ON))
            if not is_note(each.text, "plan", "go", "vote")
        ]
        texts = dict.fromkeys((*earlier, note, rules, *self.news, skills, context, files))
        return Message("user", (Text(task), *(Context(text) for text in texts if text)))

    def _rules(self, settings: Settings) -> str:
        """The hot rules; with short instructions the user's own alone."""
        if settings.context.detail == "none":
            return ""
        rules = self.resources.rules
        return rules.own.text if is_brief(settings, os.environ) else rules.text

    def watch_inputs(self, task: str, settings: Settings, before: Snapshot) -> None:
        """Watch the variables that the task only reads, until `inputs_mended`."""
        mends, undo = is_brief(settings, os.environ), self._kernel.undo
        space = self._kernel.shell.user_ns
        self._inputs = NamedInputs(space, task, before, mends, undo.is_unchanged)

    def inputs_mended(self) -> tuple[str, ...]:
        """End the watch: the names that the agent's code rebound and that were bound again."""
        watched, self._inputs = self._inputs, None
        if watched is None:
            return ()
        watched.close()
        return tuple(watched.mended)

    def inputs_protected(self, code: str) -> frozenset[str]:
        """The watched names that scratch code bound and that must stay as they are."""
        return frozenset() if self._inputs is None else self._inputs.protected(code)

    def _noticed(self, code: str) -> Spoilt:
        return Spoilt() if self._inputs is None else self._inputs.after(code)

    def saw(self, after: Snapshot) -> None:
        """Note the variables at the end of a turn: the model knows them."""
        self._seen, self._cells_seen = after.faded(), self._kernel.recent.count

    def _kernel_state(self, variables: Snapshot) -> KernelState:
        recent = self._kernel.recent
        changed = () if self._seen is None else changes(self._seen, variables)
        cells = recent.since(self._cells_seen)
        return KernelState(variables.values, changed, cells, recent.last_failed)

    def _make_tools(self, settings: Settings) -> list[Tool]:
        kernel, resources = self._kernel, self.resources
        files, code = [], []
        if settings.tools.enable_file_tools:
            files = file_tools(
                kernel.workspace,
                self._unlisted,
                self.shapes_only,
                resources.skills.file,
                kernel.undo.before_write,
                None if settings.context.detail == "none" else self._file_sight,
            )
        if settings.tools.enable_code:
            around = kernel.undo.around_code
            guarded = self.approvals.guarded
            code = code_tools(
                kernel.executor,
                self.sight,
                around,
                guarded,
                self._noticed,
                kernel.undo.is_unchanged,
            )
        own = [
            *code,
            *inspect_tools(self._variables, self.shapes_only),
            *files,
            *resources.tools(settings),
            *([] if is_brief(settings, os.environ) else resources.across_tools(settings)),
            *plan_tools(self.plan),
            *propose_tools(self.proposals),
            *([] if is_brief(settings, os.environ) else question_tools()),
            *([] if is_brief(settings, os.environ) else self.delegates.tools()),
            *self._cell_tools(settings),
        ]
        return [
            *own,
            *help_tools(own),
            *mcp_tools(resources.offer, self.sight, kernel.outputs),
            *served_tools(self._tape),
        ]

    def _variables(self) -> dict[str, object]:
        """The variables as the agent's code sees them."""
        shell, scratch = self._kernel.shell, self._kernel.executor.scratch
        return user_variables(shell, scratch.names() if scratch.holds else None)

    def _cell_tools(self, settings: Settings) -> list[Tool]:
        """The tools for the open notebook; a small model has none of them."""
        if is_brief(settings, os.environ):
            return []
        kernel = self._kernel
        editor = CellEditor(
            self._page, lambda: self.approvals.about_cells, self.proposals, kernel.undo.edited
        )
        is_offered = kernel.page.is_there or EDIT_CELLS in self._tape.used
        return cell_tools(
            self._page,
            editor if is_offered else None,
            self._cell_sight,
            lambda: StoredCells(kernel.path, kernel.inputs()),
        )

    def _page(self) -> NotebookPage | None:
        """The page of the notebook; None in a replay, which asks nobody."""
        return self._kernel.page if self._tape.asks_others else None

    def _cell_sight(self) -> CellSight:
        detail = self.settings.context.detail
        if self.shapes_only():
            return CellSight(False, "outputs are withheld: privacy.outputs is shapes")
        return CellSight(detail == "sample", f"outputs are withheld: context.detail is {detail}")

    def _file_sight(self) -> FileSight:
        detail = self.settings.context.detail
        if self.shapes_only() and detail != "none":
            return FileSight(False, why="privacy.outputs is shapes")
        return FileSight(detail == "sample", detail == "none", f"context.detail is {detail}")

    async def look_at_page(self, task: str, settings: Settings) -> CellsMeant:
        """The cells that a task means by "this cell", "the cell above", "the selection"."""
        if settings.context.detail == "none" or not words_for_cells(task):
            return CellsMeant()
        page = self._page()
        notebook = await page.read() if page is not None and page.is_there else None
        return cells_meant(task, notebook, settings.context.detail)

    def _unlisted(self) -> frozenset[Path]:
        """Files that either the recording or its replay lacks; tools list none of them."""
        return self._kernel.own_files() | self._tape.leftovers()

    def _toolbox(self, tools: list[Tool]) -> Toolbox:
        """The toolbox; for a model that calls no tools they become functions of its code."""
        approvals, shell = self.approvals, self._kernel.shell
        return CallableToolbox(
            tools,
            CodeTools(
                shell.user_ns,
                shell.user_ns_hidden,
                approvals.rule(self.settings, None),
                approvals.passed_in_code,
                lambda result: approvals(ToolFinished(result, 0.0)),
                show_picture,
                lambda prepared: carry_out_now(prepared, self._tape, carried_out),
            ),
        )

    def _approval_gate(self, tape: Tape, user: User) -> ApprovalGate:
        approvals = self.approvals
        rule = approvals.rule(self.settings, tape)
        return ApprovalGate(rule, user, approvals.grant, approvals.passed)

    def sight(self) -> Sight:
        """How much of an execution the model sees."""
        images = self.settings.images
        return Sight(self.shapes_only(), images.max_side if images.enabled else 0)

    def shapes_only(self) -> bool:
        """True if no data of outputs may reach the model."""
        return self.settings.privacy.outputs == "shapes"


def _budget(settings: Settings, provider: Model) -> Budget:
    """The turn's budget. Raises `ConfigError` if money is limited and the price is unknown."""
    limits = settings.budget

    def price(usage: Usage) -> Decimal | None:
        return cost(provider.name, provider.model, usage, settings.api_base)

    if limits.usd is not None and provider.source == "live" and price(_ANY_USAGE) is None:
        raise ConfigError(
            f"budget.usd cannot be kept: no price is known for {provider.model}. "
            "Use budget.tokens instead."
        )
    return Budget(limits.tokens, limits.seconds, limits.usd, price)


def _recorded(compactor: Compactor, tape: Tape) -> Compactor:
    """The compactor, which shortens a recorded conversation where it was shortened then."""
    compactor.decided = partial(_decided, tape)
    compactor.counter.recorded = tape.fixed_tokens
    return compactor


def _decided(tape: Tape, is_due: bool) -> bool:
    """Whether to shorten the conversation: as the tape says, which else notes it."""
    question = ShorteningDue()
    recorded = tape.lookup(question)
    return tape.record(question, is_due) if recorded is None else recorded
