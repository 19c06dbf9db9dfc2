"""Registers the magics with IPython: light to load, imports everything else at first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any as Anything
from traitlets import TraitError, validate
from traitlets.config import Configurable

from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.kernel.front_end import is_attended, request_of
from jupyter_agent.kernel.recent import RecentCells
from jupyter_agent.magics.hints import (
    KEY_IN_CELL,
    holds_key,
    missing_model,
    refuse_misplaced,
)
from jupyter_agent.skills.importing import install, uninstall

_NAMES = """
    provider model api_base script mode tool_protocol instructions max_steps max_tokens timeout
    token_limit workspace_dir system_prompt_path display tracing retry__enabled
    retry__max_retries retry__initial_delay retry__max_delay retry__exponential_base
    retry__max_total budget__tokens budget__seconds budget__usd local__model_path local__model
    local__download local__context local__threads local__gpu_layers thinking__mode
    thinking__budget thinking__effort http__ca_bundle mcp__connect_timeout mcp__execute_timeout
    mcp__sse_read_timeout memory__roots memory__across_workspaces memory__embeddings
    tools__enable_file_tools tools__enable_code tools__enable_skills tools__enable_notes
    tools__enable_memory tools__enable_mcp tools__skills_dir answers__samples answers__verify
    approvals__mode approvals__timeout context__detail privacy__outputs images__enabled
    images__max_side images__per_step compaction__enabled session__save session__resume
    session__keep_days session__keep_mb undo__enabled undo__max_file_mb undo__max_total_mb
    undo__keep_days log__enabled log__keep_days log__keep_mb outputs__keep_days outputs__keep_mb
"""
SETTINGS = tuple(_NAMES.split())
"""The settings by the names of their traits, without those that are never shown.

`jupyter_agent.config` knows them all, but is too heavy to be imported when the extension is loaded.
"""
CELL_CALL = "get_ipython().run_cell_magic('agent'"
CONFIGURED = "%config AgentMagics"
AWAITED = ("resume", "go", "compact", "undo")
"""The commands that wait for the model or the notebook's page, so that their line is awaited."""
UNAWAITED = ("undo",)
"""Those of them that mostly have nothing to wait for, and work everywhere then."""
LINE_CALLS = tuple(f"get_ipython().run_line_magic('agent', '{word}" for word in AWAITED)
_MAGIC_FRAMES = frozenset(
    {InteractiveShell.run_cell_magic.__code__, InteractiveShell.run_line_magic.__code__}
)
_CO_COROUTINE = 0x80


def _options_help() -> str:
    from jupyter_agent.session.options import options_help

    return options_help()


class AgentMagics(Configurable):
    """`%%agent` and `%agent` of one shell, and the settings as IPython's configuration has them.

    `%config AgentMagics` lists those, `c.AgentMagics.max_steps = 20` in `ipython_config.py` sets
    one; `retry__max_retries` is `retry.max_retries`. None is not set.

    `run_cell_magic` is synchronous, so a magic that awaits needs its cell to await it. A
    transformation of the input puts that `await` in front; IPython then runs the cell on the
    kernel's own event loop.
    """

    # Their types and values are checked when they are set, by what is imported then.
    vars().update({name: Anything(None).tag(config=True) for name in SETTINGS})

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        super().__init__(parent=shell)
        self.recent = RecentCells(shell)
        # The folder at the time of loading: the workspace must not follow a later os.chdir.
        self.folder = Path.cwd()
        self.matcher = _matcher(self.complete)
        self.has_warned_of_key = False

    @classmethod
    def class_get_trait_help(cls, trait: Any, inst: Any = None, helptext: str | None = None) -> str:
        """The help of `%config AgentMagics` for a setting."""
        from jupyter_agent import config

        text = config.describe(trait.name.replace("__", ".")).description
        return super().class_get_trait_help(trait, inst, helptext or text)

    @property
    def given(self) -> dict[str, object]:
        """The settings that were set here, by dotted key."""
        values = {name.replace("__", "."): getattr(self, name) for name in SETTINGS}
        return {key: value for key, value in values.items() if value is not None}

    def configured(self) -> Any:
        """The settings that were set here, as a layer of the configuration."""
        from jupyter_agent import config

        return config.layer(CONFIGURED, self.given)

    @validate(*SETTINGS)
    def _check(self, proposal: Any) -> object:
        if proposal["value"] is None:
            return None
        from jupyter_agent import config

        sessions = getattr(self.shell, "agent_sessions", None)
        try:
            if sessions is not None:
                sessions.kernel.refuse_while_busy()
            key = proposal["trait"].name.replace("__", ".")
            config.layer(CONFIGURED, {key: proposal["value"]})
        except AgentError as error:
            raise TraitError(str(error)) from None
        return proposal["value"]

    def agent_cell(self, line: str, cell: str) -> Coroutine[Any, Any, None]:
        """Give the agent a task in plain words. It works in this kernel."""
        if not _is_awaited(sys._getframe(1)):
            raise ConfigError(self._why_not_awaited())
        from jupyter_agent.magics.ask import run_agent_cell

        return run_agent_cell(self.shell, line, cell)

    # `%%agent?` shows the options; their declaration is too heavy to be imported before.
    vars(agent_cell)["getdoc"] = _options_help

    def agent_line(self, line: str) -> Coroutine[Any, Any, None] | None:
        """See and steer the agent: %agent help."""
        name = line.strip().partition(" ")[0]
        is_awaited = _is_awaited(sys._getframe(1))
        if name in AWAITED and (is_awaited or name not in UNAWAITED):
            if not is_awaited:
                raise ConfigError(self._why_not_awaited())
            from jupyter_agent.magics.commands import run_awaited

            return run_awaited(self.shell, line)
        from jupyter_agent.magics.commands import run_command

        run_command(self.shell, line)
        return None

    def await_agent(self, lines: list[str]) -> list[str]:
        """The input transformation: `await` before a cell that is one call of `%%agent`.

        And before each line that is a command of `AWAITED`.

        Raises:
            ConfigError: `%%agent` stands below the first line of the cell.
        """
        refuse_misplaced(lines, str(request_of(self.shell).get("content", {}).get("code", "")))
        if not lines or not lines[0].startswith(CELL_CALL):
            awaits = self.shell.autoawait and not _in_magic()
            return [
                f"await {line}" if awaits and line.startswith(LINE_CALLS) else line
                for line in lines
            ]
        # IPython refuses an empty body with unfit advice; our own error names the remedy.
        first = lines[0].rstrip().removesuffix(", '')")
        call = lines[0] if first == lines[0].rstrip() else f"{first}, '\\n')\n"
        awaited = self.shell.autoawait and not _in_magic()
        return [("await " if awaited else "") + call, *lines[1:]]

    def warn_of_key(self, result: Any) -> None:
        """After a cell: warn once if it holds a key as a literal."""
        source = str(getattr(getattr(result, "info", None), "raw_cell", "") or "")
        if not self.has_warned_of_key and self.recent.is_outermost and holds_key(source):
            self.has_warned_of_key = True
            print(KEY_IN_CELL, file=sys.stderr)  # noqa: T201 (below the cell that holds it)

    def complete(self, context: Any) -> dict[str, Any]:
        """The completions for IPython, by the second version of its interface."""
        if "%agent" not in context.full_text:
            return {"completions": []}
        from IPython.core.completer import SimpleCompletion

        from jupyter_agent.magics.completion import completions
        from jupyter_agent.session.registry import sessions_of

        row = context.cursor_line
        lines = [*context.full_text.split("\n")[:row], context.text_until_cursor]
        begun, words = completions(sessions_of(self.shell), "\n".join(lines), row)
        return {
            "completions": [SimpleCompletion(text=word, type="magic") for word in words],
            "matched_fragment": begun,
            "suppress": bool(words),
        }

    def _why_not_awaited(self) -> str:
        if not self.shell.autoawait:
            return "%%agent needs top-level await. Switch it on with: %autoawait asyncio"
        return (
            "%%agent cannot run inside another magic such as %%time or %%capture. "
            "Put %%agent on the first line of its own cell."
        )


def _catalogue(shell: Any) -> Any:
    """The skills whose scripts code may import; called at the first import of one."""
    from jupyter_agent.session.registry import sessions_of
    from jupyter_agent.skills.discovery import discover

    return discover(sessions_of(shell).kernel.skill_places())


def _matcher(complete: Callable[[Any], Any]) -> Any:
    """The matcher as a function: IPython sets attributes on it, which a method does not allow."""
    from IPython.core.completer import context_matcher

    @context_matcher(identifier="jupyter_agent")
    def matcher(context: Any) -> Any:
        return complete(context)

    return matcher


def _in_magic() -> bool:
    """True if another magic is transforming the input: a nested cell cannot be awaited."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _MAGIC_FRAMES:
            return True
        frame = frame.f_back
    return False


def _is_awaited(frame: FrameType | None) -> bool:
    """True if the code that called the magic can await its result."""
    while frame is not None and frame.f_code in _MAGIC_FRAMES:
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _CO_COROUTINE)


def register(shell: Any) -> None:
    """Register the magics and the input transformation; loading twice changes nothing."""
    if getattr(shell, "agent_magics", None) is not None:
        return
    magics = AgentMagics(shell)
    shell.agent_magics = magics
    shell.configurables.append(magics)
    install(lambda: _catalogue(shell))
    shell.register_magic_function(magics.agent_cell, "cell", "agent")
    shell.register_magic_function(magics.agent_line, "line", "agent")
    shell.input_transformers_post.append(magics.await_agent)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(magics.matcher)
    magics.recent.start()
    shell.events.register("post_run_cell", magics.warn_of_key)
    if is_attended(shell) and (hint := missing_model(magics.given, magics.folder, os.environ)):
        print(hint)  # noqa: T201 (what `%load_ext` says)


def unregister(shell: Any) -> None:
    """Undo `register`."""
    magics = getattr(shell, "agent_magics", None)
    if magics is None:
        raise AgentError("jupyter_agent is not loaded.")
    sessions = getattr(shell, "agent_sessions", None)
    if sessions is not None:
        from jupyter_agent.magics.window import forget_finished

        sessions.kernel.refuse_while_busy()
        sessions.end()
        forget_finished()
    shell.input_transformers_post.remove(magics.await_agent)
    if shell.Completer is not None and magics.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(magics.matcher)
    magics.recent.stop()
    shell.events.unregister("post_run_cell", magics.warn_of_key)
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("agent", None)
    shell.configurables.remove(magics)
    shell.agent_magics = shell.agent_sessions = None
    uninstall()
