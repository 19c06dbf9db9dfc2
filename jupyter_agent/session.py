"""A session: one conversation in one kernel, and everything that a turn of it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jupyter_agent import config
from jupyter_agent.answer import Answer, Findings, make_answer
from jupyter_agent.errors import AgentError, ConfigError, TurnInterrupted
from jupyter_agent.events import Event, Receipt, Sink, TurnFinished, TurnStarted
from jupyter_agent.kernel.variables import names_digest, user_variables, variable_changes
from jupyter_agent.llm.provider import Provider
from jupyter_agent.llm.replay import Recorder
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.loop import Agent, Outcome, run_turn
from jupyter_agent.messages import Context, Message, Text, Usage
from jupyter_agent.notebook import Notebook
from jupyter_agent.prompts import render
from jupyter_agent.runlog import RunLog
from jupyter_agent.tools.code import code_tools
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.tool import Tool
from jupyter_agent.tools.toolbox import Toolbox

COMPLETE = frozenset({"end", "step_limit", "refused"})
"""The ways to end after which a turn's replies are worth keeping in a cassette."""


class Session:
    """One conversation. Its system prompt and its tools are fixed when the first turn starts.

    Attributes:
        history: Messages so far, oldest first, always valid for every provider.
        usage: The tokens of all turns.
        log_path: The run log of the last turn, if one was written.
    """

    def __init__(self, notebook: Notebook, name: str = "default") -> None:
        self.name = name
        self.notebook = notebook
        self.history: list[Message] = []
        self.turns = 0
        self.usage = Usage()
        self.log_path: Path | None = None
        self._system: str | None = None
        self._tools: list[Tool] | None = None

    def reset(self) -> None:
        """Forget the conversation. Variables, files and settings stay."""
        self.history.clear()
        self.turns = 0
        self.usage = Usage()
        self._system = self._tools = None

    async def ask(
        self, task: str, turn: config.Layer | None = None, sinks: Sequence[Sink] = ()
    ) -> Answer:
        """Run one turn and give its answer.

        Args:
            task: What to do, in plain words.
            turn: Settings for this turn alone.
            sinks: Where the turn's events go, besides the run log.

        Raises:
            ConfigError: The task is empty, a setting is wrong, or no model is configured.
            ProviderError: The model could not be asked.
            TurnInterrupted: A person stopped the turn.
        """
        if not task.strip():
            raise ConfigError("There is no task. Write what to do below the %%agent line.")
        if self.notebook.busy:
            raise AgentError("A turn is running already. Wait for it, or interrupt the kernel.")
        settings = self.notebook.settings(turn).settings
        self.notebook.busy = True
        try:
            agent = await self._agent(settings)
            return await self._run(task.strip(), settings, agent, sinks)
        finally:
            self.notebook.busy = False

    async def _run(
        self, task: str, settings: config.Settings, agent: Agent, sinks: Sequence[Sink]
    ) -> Answer:
        log = self._log(settings)
        findings = Findings()
        emit = _fan_out([findings, *sinks, *([log] if log else [])])
        message, context = self._message(task, settings)
        provider = agent.provider
        emit(TurnStarted(task, provider.name, provider.model, provider.source))
        if log:
            log.write("prompt", {"system": agent.system, "context": context})
        before = user_variables(self.notebook.shell)
        self.history.append(message)
        outcome = await self._interruptible(agent, emit)
        changes = variable_changes(before, user_variables(self.notebook.shell))
        receipt = findings.receipt(changes)
        self._keep(outcome, provider)
        error = str(outcome.error) if outcome.error else ""
        emit(TurnFinished(outcome.stop_reason, outcome.usage, receipt, error))
        if log:
            log.close()
            self.log_path = log.path
        return self._answer(findings, receipt, outcome)

    async def _interruptible(self, agent: Agent, emit: Sink) -> Outcome:
        interrupts = self.notebook.interrupts
        interrupts.requested = False
        if isinstance(agent.provider, Recorder):
            agent.provider.begin()
        # A task of its own, so that an interrupt ends the turn and not the person's cell.
        task = asyncio.ensure_future(run_turn(agent, self.history, emit))
        with interrupts.installed(task):
            return await task

    def _keep(self, outcome: Outcome, provider: Provider) -> None:
        self.turns += 1
        self.usage += outcome.usage
        if isinstance(provider, Recorder) and outcome.stop_reason in COMPLETE:
            provider.commit()

    def _answer(self, findings: Findings, receipt: Receipt, outcome: Outcome) -> Answer:
        answer = make_answer(
            findings.text, findings.code, receipt, outcome.usage, outcome.stop_reason
        )
        self.notebook.shell.user_ns["_agent"] = answer
        if outcome.error is not None:
            raise outcome.error
        if outcome.stop_reason == "interrupted":
            raise TurnInterrupted(
                "The agent was interrupted. What it had finished is kept, and the next %%agent "
                "cell goes on from there."
            )
        return answer

    @property
    def tools(self) -> list[Tool]:
        """The tools of this session; the first use fixes them."""
        if self._tools is None:
            self._tools = self._make_tools(self.notebook.settings().settings)
        return self._tools

    async def _agent(self, settings: config.Settings) -> Agent:
        provider = await self.notebook.provider(settings)
        if self._system is None:
            self._system = self._system_prompt(settings)
        toolbox = Toolbox(self.tools, read_only=settings.approvals.mode == "read_only")
        retry = RetryPolicy(**settings.retry.model_dump())
        return Agent(provider, toolbox, self._system, settings.max_steps, retry)

    def _make_tools(self, settings: config.Settings) -> list[Tool]:
        notebook = self.notebook
        files = (
            file_tools(notebook.workspace, notebook.own_files)
            if settings.tools.enable_file_tools
            else []
        )
        code = code_tools(self.notebook.executor) if settings.tools.enable_code else []
        return [*code, *files]

    def _system_prompt(self, settings: config.Settings) -> str:
        if settings.system_prompt_path is None:
            return render("system")
        path = self.notebook.workspace.root / Path(settings.system_prompt_path).expanduser()
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"system_prompt_path: {settings.system_prompt_path} cannot be read ({error})."
            ) from None

    def _message(self, task: str, settings: config.Settings) -> tuple[Message, str]:
        """The person's message: the task, then what the session tells about the kernel."""
        digest = ""
        if settings.context.detail != "none":
            digest = names_digest(user_variables(self.notebook.shell))
        if not digest:
            return Message("user", (Text(task),)), ""
        context = f"<context>\nVariables in the kernel, newest first:\n{digest}\n</context>"
        return Message("user", (Text(task), Context(context))), context

    def _log(self, settings: config.Settings) -> RunLog | None:
        if not settings.log.enabled:
            return None
        folder = self.notebook.workspace.state_folder
        with suppress(ConfigError):  # a folder that cannot be made shows in the log's `problem`
            folder = self.notebook.workspace.ensure_state_folder()
        return RunLog(folder / "logs")


def _fan_out(sinks: Sequence[Sink]) -> Sink:
    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit
