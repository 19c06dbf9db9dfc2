"""The shared parts of a kernel's sessions: the shell, the workspace, the settings, the cassette."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jupyter_agent import config
from jupyter_agent.core.ports import Model
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files.atomic import private_folder, reason_of
from jupyter_agent.files.workspace import (
    Workspace,
    cassette_of,
    cassettes_in,
    changed_at,
    notebook_path,
)
from jupyter_agent.kernel.bounded import OUTPUTS
from jupyter_agent.kernel.changes import Snapshot, snapshot
from jupyter_agent.kernel.execute import Executor
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.kernel.notebook_page import NotebookPage
from jupyter_agent.kernel.recent import RecentCells
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.llm.connection import keep_secrets
from jupyter_agent.llm.embedded import Embedded
from jupyter_agent.mcp.servers import Servers
from jupyter_agent.recording.trusted import UntrustedCassette, cassettes
from jupyter_agent.session.effective_settings import (
    EffectiveSettings,
    effective_settings,
    workspace_of,
)
from jupyter_agent.session.folder_trust import first_look, in_short, planted, waiting
from jupyter_agent.session.protected_settings import ProtectedSettings, deciding_variables
from jupyter_agent.session.provider_choice import choose
from jupyter_agent.skills.discovery import Place, places
from jupyter_agent.stores.conversations import Conversations
from jupyter_agent.stores.retention import (
    DAY,
    LOGS,
    NAMED,
    SESSIONS,
    Limit,
    Surplus,
    remove,
    surplus,
)
from jupyter_agent.stores.runs import turns_of
from jupyter_agent.undo.kernel_undo import KernelUndo

TIDYING = 0.3
"""The most seconds at the end of a turn for the removal of expired files."""
SETTINGS_COMMAND = "%agent config"
RUNS_ALREADY = "A turn is running already. Wait for it, or interrupt the kernel."


class Kernel:
    """One kernel with its settings and the provider that answers in it.

    Args:
        shell: The kernel's IPython shell.
        recent: The cells that the user ran.
        folder: The workspace's folder if the notebook's is unknown.
        configured: Returns the settings in IPython's configuration.

    Attributes:
        protected: The settings of the next turn, protected from the agent's code.
        undo: The undo points of the turns.
        page: The page that shows the notebook.
        servers: The MCP servers of the kernel.
        embedded: The server of the embedded model; all sessions share it.
        calling: The addresses of the model servers that have called a tool by their API.
        log_path: The run log of the last turn, if one was written.
        rerun_into: A file for the results of a replay that learns what varies from run to run.
        turn_number: The number of the turn that began last, in its notebook; 0 before the first.
        is_being_recorded: True while `jupyter agent record` executes the notebook.

    Raises:
        ConfigError: A configuration file or a variable of the environment is wrong.
    """

    def __init__(
        self,
        shell: Any,
        recent: RecentCells,
        folder: Path,
        configured: Callable[[], config.Layer | None] = lambda: None,
    ) -> None:
        self.shell = shell
        self.recent = recent
        self.interrupts = Interrupts()
        self.executor = Executor(shell, self.interrupts, self.outputs)
        self.page = NotebookPage(shell)
        self.servers = Servers(lambda: self.workspace, lambda: self.settings().settings.mcp)
        self.embedded = Embedded()
        self.calling: set[str] = set()
        self._resolved: EffectiveSettings | None = None
        self._notices: tuple[str, ...] = ()
        self.log_path: Path | None = None
        self.rerun_into: Path | None = None
        self.is_being_recorded = False
        self.turn_number = 0
        self.path = notebook_path(shell.user_ns, os.environ)
        name = self.path.name if self.path else ""
        self._configured = configured
        self._by_command = config.layer(SETTINGS_COMMAND, {})
        self.protected = ProtectedSettings(self._in_memory, self._since_agent_cell)
        self.undo = KernelUndo(lambda: self.workspace, name, self.own_files, shell.user_ns)
        self._folder = self.path.parent if self.path else folder
        self._cassette: Path | None = None
        self._provider: tuple[object, Model] | None = None
        self._conversations: tuple[Path, Conversations] | None = None
        self._own_files: tuple[object, frozenset[Path]] = (None, frozenset())
        self._tidying: Iterator[None] | None = None
        self._tidied_at = 0.0
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def workspace(self) -> Workspace:
        """The folder that the file tools see: the notebook's, unless `workspace_dir` is set."""
        if self._resolved is not None:
            return self._resolved.workspace
        # Without the file that lies inside of it, which cannot name it.
        layers = [config.user_layer(), config.environment_layer(os.environ), *self._nearer()]
        return workspace_of(self._folder, config.resolve(layers).settings)

    @property
    def busy(self) -> bool:
        """True while a turn runs. Until it ends, workspace and settings stay the same; at its end,
        changes that its code made to protected settings are put back."""
        return self._resolved is not None

    @contextmanager
    def turn(self, layer: config.Layer | None = None) -> Iterator[config.Settings]:
        """Run a turn in this context: workspace and settings are resolved once, and stay the same.

        Args:
            layer: Settings for this turn alone.

        Raises:
            AgentError: A turn is running already.
            ConfigError: A setting is wrong.
        """
        self.refuse_while_busy()
        resolved = self.effective(layer)
        self.protected.begin(resolved.workspace)
        self._resolved = resolved
        try:
            yield resolved.settings.settings
        finally:
            self._resolved = None
            self._notices += self.protected.end()

    def effective(self, turn: config.Layer | None = None) -> EffectiveSettings:
        """The workspace and all layers of settings; reads files and the environment anew."""
        self.protected.look()
        found = effective_settings(self._folder, os.environ, self._nearer(turn))
        keep_secrets(found.settings.settings)
        return found

    def settings(self, turn: config.Layer | None = None) -> config.Resolved:
        """All layers resolved; while a turn runs, those with which it began."""
        if self._resolved is not None and turn is None:
            return self._resolved.settings
        return self.effective(turn).settings

    @property
    def ignored(self) -> str:
        """The settings of the folder that wait for trust, on one line; empty if none do."""
        return (self._resolved or self.effective()).notice

    def first_look(self) -> list[str]:
        """What came with the folder and waits for trust, a line each; once for the same things."""
        effective = self._resolved or self.effective()
        found = waiting(effective, (), with_servers=False)
        return first_look(found, effective.workspace.root)

    def inert(self) -> list[str]:
        """What of the folder has no effect until the user trusts it, a short line each."""
        effective = self.effective()
        waits = in_short(waiting(effective, self.cassettes))
        return [*waits, *planted(effective.workspace)]

    def take_notices(self) -> tuple[str, ...]:
        """Notices about changes of protected settings, a line each; returned once."""
        notices, self._notices = (self.protected.take_notice(), *self._notices), ()
        return notices

    def set(self, key: str, value: str) -> None:
        """`%agent config KEY VALUE`. Raises `ConfigError` and changes nothing on a bad value."""
        self.refuse_while_busy()
        values = {**self._by_command.values, key: value}
        self._by_command = config.layer(SETTINGS_COMMAND, values, text=True)
        self.protected.was_set(key)

    @property
    def cassette(self) -> Path | None:
        """The named cassette, else the one of the notebook's name; None if neither is known."""
        if self._cassette is None and self.path is not None:
            return cassette_of(self.path)
        return self._cassette

    @property
    def cassettes(self) -> list[Path]:
        """The cassettes that a replay may answer from: the named one and those beside it."""
        return [*([self.cassette] if self.cassette is not None else []), *self._nearby()]

    def refuse_while_busy(self) -> None:
        """Guard a change that must not happen during a turn, nor by the agent's code.

        Raises:
            AgentError: A turn is running.
        """
        if self.busy:
            raise AgentError(RUNS_ALREADY)

    def snapshot(self) -> Snapshot:
        """A snapshot of the user's variables."""
        return snapshot(user_variables(self.shell))

    def inputs(self) -> tuple[tuple[int, str], ...]:
        """The inputs of the finished cells, as typed, with their execution counts."""
        history = getattr(self.shell, "history_manager", None)
        raw = list(getattr(history, "input_hist_raw", ()))
        return tuple(enumerate(map(str, raw)))[1:-1]

    def skill_places(self) -> list[Place]:
        """The folders of skills, nearest first."""
        return places(self.workspace, self.settings().settings.tools.skills_dir)

    @property
    def conversations(self) -> Conversations:
        """The stored conversations of this notebook, for later kernels."""
        folder = self.workspace.state_folder / "sessions"
        if self._conversations is None or self._conversations[0] != folder:
            if self._conversations is not None:
                self._conversations[1].close()
            made = Conversations(folder, self.place, self.prepare_state)
            self._conversations = folder, made
        return self._conversations[1]

    def prepare_state(self) -> None:
        """Make the state folder if it does not exist. Raises `OSError` with one line."""
        try:
            self.workspace.ensure_state_folder()
        except ConfigError as error:
            raise OSError(0, str(error).rstrip(".")) from None

    def why_nothing_is_kept(self) -> str:
        """Why the state folder cannot be written; empty if it can."""
        try:
            folder = self.workspace.ensure_state_folder()
        except ConfigError as error:
            return str(error)
        own = ("logs", "sessions", "checkpoints")
        if os.access(folder, os.W_OK | os.X_OK) or all((folder / name).is_dir() for name in own):
            return ""
        return f"{folder} cannot be written to. Give yourself the right, with chmod u+rwx."

    @property
    def logs(self) -> Path:
        """The folder of the run logs."""
        return self.workspace.state_folder / "logs"

    def logged_turns(self) -> dict[int, Path]:
        """The run logs of this notebook's turns by number, the newest first, whatever kernel."""
        return turns_of(self.logs, self.place)

    def number_turn(self) -> None:
        """Give the turn that begins its number: the one after the notebook's last turn."""
        if not self.turn_number:
            self.turn_number = next(iter(self.logged_turns()), 0)
        self.turn_number += 1

    @property
    def place(self) -> str:
        """The notebook's path from the workspace's root, or its name if it lies elsewhere."""
        if self.path is None:
            return ""
        root, path = self.workspace.root, self.path.resolve()
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name

    def close(self) -> None:
        """For `%unload_ext`: end the servers and close the files."""
        self.servers.end()
        self.embedded.stop()
        self.page.close()
        if self._conversations is not None:
            self._conversations[1].close()
            self._conversations = None

    def own_files(self) -> frozenset[Path]:
        """Cassettes and IPython's history: files that are no part of the user's work."""
        # Called three times for each tool call: the folder is read again only after a change.
        depends_on = (self.cassette, self._history_file, changed_at(self._folder))
        if self._own_files[0] != depends_on or depends_on[-1] is None:
            named = [self.cassette] if self.cassette is not None else []
            paths = (*named, *self._nearby(), *_history(self._history_file))
            self._own_files = depends_on, frozenset(path.resolve() for path in paths)
        return self._own_files[1]

    @property
    def _history_file(self) -> str:
        """The file of IPython's history of inputs; empty if it has none."""
        manager = getattr(self.shell, "history_manager", None)
        name = str(getattr(manager, "hist_file", "") or "")
        return "" if name == ":memory:" else name

    def _nearby(self) -> list[Path]:
        """The cassettes beside the notebook: its own and those of other notebooks."""
        return cassettes_in(self._folder)

    def untrusted_cassettes(self) -> list[UntrustedCassette]:
        """The cassettes that this notebook may replay and that wait for the user's trust."""
        return cassettes(self.cassettes)

    def use_cassette(self, name: str) -> Path:
        """Set the cassette and return its path. Relative names start at the notebook's folder."""
        self.refuse_while_busy()
        path = self._folder / Path(name).expanduser()
        if path.is_dir():
            raise ConfigError(f"{name} is a folder, not a cassette file.")
        self._cassette = path
        return path

    def provider(self, settings: config.Settings) -> Model:
        """The provider for a turn; a cached one while the settings behind it are equal."""
        cassette = self.cassette
        stamp = cassette.stat().st_mtime_ns if cassette and cassette.exists() else None
        if settings.mode in ("record", "cached"):
            stamp = None  # the recorder writes the file itself
        environment = deciding_variables()
        depends_on = (settings, cassette, stamp, environment, self.rerun_into)
        if self._provider is None or self._provider[0] != depends_on:
            chosen = self._choose(settings, cassette)
            self._release()
            self._provider = depends_on, chosen
        return self._provider[1]

    def _choose(self, settings: config.Settings, cassette: Path | None) -> Model:
        try:
            return choose(
                settings,
                cassette,
                os.environ,
                self._folder,
                self.workspace,
                self._nearby(),
                self.embedded,
                self.calling,
                self.rerun_into,
            )
        except ConfigError as error:
            if not self.ignored:
                raise
            raise ConfigError(f"{error} {self.ignored}") from None

    def _release(self) -> None:
        """Close the connections of the last provider in the background."""
        if self._provider is None:
            return
        with suppress(RuntimeError):  # without a running loop nothing was opened either
            task = asyncio.get_running_loop().create_task(self._provider[1].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def tidy(self, settings: config.Settings) -> None:
        """At the end of a turn: remove expired files, once a day.

        Takes a bounded time; the end of the next turn continues.
        """
        started = time.monotonic()
        if self._tidying is None or started - self._tidied_at > DAY:
            self._tidying, self._tidied_at = self._tidied(settings), started
        with suppress(Exception):  # nothing here may end a turn, whatever the agent's code patched
            for _ in self._tidying:
                if time.monotonic() - started > TIDYING:
                    return

    def _tidied(self, settings: config.Settings) -> Iterator[None]:
        for one in surplus(self.workspace, retention_limits(settings), self._named_outputs):
            if one is not None:
                remove(one)
            yield
        with suppress(AgentError, OSError):
            self.undo.forget(settings.undo, settings.undo.keep_days)

    def surplus(self, limits: Mapping[str, Limit]) -> list[Surplus]:
        """The files that exceed these limits and are not in use."""
        return [one for one in surplus(self.workspace, limits, self._named_outputs) if one]

    def _named_outputs(self) -> frozenset[str]:
        """The names of the long outputs that this kernel's conversations refer to."""
        texts = self.conversations.texts()
        return frozenset(name for text in texts for name in NAMED.findall(text))

    def why_no_outputs(self) -> str:
        """A line with the reason why long outputs cannot be kept; empty if they can."""
        folder = self.workspace.state_folder / OUTPUTS
        try:
            if os.path.lexists(folder):
                private_folder(folder, follow_link=False)
        except OSError as error:
            return f"Long outputs are not kept: {reason_of(error)}."
        return ""

    def outputs(self) -> Path:
        """The folder for long outputs, made on demand."""
        return self.workspace.ensure_state_folder() / OUTPUTS

    def _nearer(self, turn: config.Layer | None = None) -> list[config.Layer | None]:
        """The layers that win over the environment."""
        return [*self.protected.layers.counting(), turn]

    def _since_agent_cell(self) -> int | None:
        """A number that changes when a cell of the user's runs; None in such a cell."""
        return self.recent.begun if self.recent.is_agent_cell else None

    def _in_memory(self) -> list[config.Layer]:
        """The layers that this process holds, as they are."""
        return [self._configured() or config.layer("", {}), self._by_command]


def retention_limits(settings: config.Settings) -> dict[str, Limit]:
    """The limits of age and size for each folder of stored files."""
    log, session, outputs = settings.log, settings.session, settings.outputs
    return {
        LOGS: Limit(log.keep_days, log.keep_mb),
        SESSIONS: Limit(session.keep_days, session.keep_mb),
        OUTPUTS: Limit(outputs.keep_days, outputs.keep_mb),
    }


def _history(name: str) -> list[Path]:
    """The files of IPython's history, which a thread writes at any time."""
    return [Path(f"{name}{ending}") for ending in ("", "-journal", "-wal", "-shm") if name]
