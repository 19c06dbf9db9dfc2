"""Run a turn and show it: what `%%agent` and `ask()` share."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from jupyter_agent import config
from jupyter_agent.answer import Answer
from jupyter_agent.errors import AgentError, ConfigError, broken_off
from jupyter_agent.kernel.recent import RecentCells
from jupyter_agent.magics.register import CONFIGURED
from jupyter_agent.magics.surface import show
from jupyter_agent.magics.window import Window, forget_finished, open_window
from jupyter_agent.notebook import Notebook
from jupyter_agent.session import Session
from jupyter_agent.widgets.saved import SavedOutput, saved_outputs
from jupyter_agent.widgets.transcript import TurnView, Watch

MOST_UNCLAIMED = 20
"""Finished turns that wait for a page to take their outputs."""


class Sessions:
    """The sessions of one kernel, by name. The first use of the extension makes them."""

    def __init__(self, shell: Any) -> None:
        magics = getattr(shell, "agent_magics", None)
        if magics is None:  # `ask` without the extension
            self.notebook = Notebook(shell, RecentCells(shell), Path.cwd())
        else:
            configured = lambda: config.layer(CONFIGURED, magics.given)  # noqa: E731
            self.notebook = Notebook(shell, magics.recent, magics.folder, configured)
        self.last: TurnView | None = None
        self._unclaimed: deque[Window] = deque()
        self._sessions: dict[str, Session] = {}
        atexit.register(self.finish)

    def __getitem__(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = Session(self.notebook, name)
        return self._sessions[name]

    def end(self) -> None:
        """For `%unload_ext`: the sessions and the MCP servers end, and nothing is left behind."""
        atexit.unregister(self.finish)
        self.finish()
        while self._unclaimed:
            self._unclaimed.popleft().forget()
        forget_finished()
        self.notebook.close()

    def finish(self) -> None:
        """Write down what the sessions did."""
        for session in self._sessions.values():
            session.finish()

    def keep(self, window: Window) -> None:
        """Hold a finished turn for the page that comes back for it; the oldest ones give way."""
        self._unclaimed.append(window)
        while len(self._unclaimed) > MOST_UNCLAIMED:
            self._unclaimed.popleft().forget()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sessions)


def sessions_of(shell: Any) -> Sessions:
    """The kernel's sessions."""
    sessions = getattr(shell, "agent_sessions", None)
    if sessions is None:
        sessions = shell.agent_sessions = Sessions(shell)
    assert isinstance(sessions, Sessions)
    return sessions


async def ask(
    task: str, *, session: str = "default", fresh: bool = False, **settings: object
) -> Answer:
    """Give the agent a task from code: `answer = await ask("…")`, in a cell.

    Args:
        task: What to do, in plain words.
        session: The name of the conversation to go on with.
        fresh: Whether to forget that conversation first.
        **settings: Settings for this turn, with `__` for a dot: `max_steps=5`.

    Raises:
        AgentError: With one line that says what was wrong.
    """
    shell = get_ipython()
    if shell is None:
        raise ConfigError("ask() works inside IPython or Jupyter only: there is no kernel here.")
    values = {key.replace("__", "."): value for key, value in settings.items()}
    turn = config.layer("ask()", values)
    return await run_and_show(sessions_of(shell), task, turn, session, fresh)


async def run_and_show(
    sessions: Sessions,
    task: str,
    turn: config.Layer,
    session_name: str,
    fresh: bool,
    skills: Sequence[str] = (),
) -> Answer:
    """One turn, from the task to what stays in the notebook. Errors are shown by who catches."""
    session = sessions[session_name]
    if fresh:
        session.reset()
    settings = sessions.notebook.settings(turn).settings
    watch = Watch()
    window = open_window(sessions.notebook, settings)
    try:
        answer = await session.ask(task, turn, [watch, window.sink], window.person, skills)
        if cell := session.proposed_cell(answer):
            sessions.notebook.shell.set_next_input(cell, replace=False)
        return answer
    except AgentError:
        raise
    except Exception as error:
        raise broken_off(error) from error
    finally:
        view = watch.view
        if view.stop_reason is not None:
            sessions.last = view
        if not await window.close(lasting_outputs(view)):
            sessions.keep(window)


def publish(view: TurnView) -> None:
    """Show a finished turn's saved form."""
    show(lasting_outputs(view))


def lasting_outputs(view: TurnView) -> list[SavedOutput]:
    """The saved form. A turn that failed before it did anything leaves none."""
    if view.stop_reason in (None, "error") and not any(
        step.text or step.calls or step.notices or step.said for step in view.steps
    ):
        return []
    return saved_outputs(view)
