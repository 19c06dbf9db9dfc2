"""The sessions of a kernel, by name."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_agent.core.transcript import TurnView
from jupyter_agent.kernel.recent import RecentCells
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.session import Session

MOST_UNCLAIMED = 20
"""Finished turns that wait for a page to take their outputs."""
MOST_VIEWS = 20
"""Finished turns whose views stay in memory."""


class KernelSessions:
    """The sessions of one kernel, by name. The first use of the extension makes them.

    Args:
        shell: The kernel's IPython shell.

    Attributes:
        kernel: The shared parts of the sessions.
        last: The view of the turn that ended last; None before the first.
        views: The views of the newest turns of this kernel, by the turns' numbers.
    """

    def __init__(self, shell: Any) -> None:
        magics = getattr(shell, "agent_magics", None)
        if magics is None:  # `ask` without the extension
            self.kernel = Kernel(shell, RecentCells(shell), Path.cwd())
        else:
            self.kernel = Kernel(shell, magics.recent, magics.folder, magics.configured)
        self.last: TurnView | None = None
        self.views: dict[int, TurnView] = {}
        self._unclaimed: deque[Callable[[], None]] = deque()
        self._sessions: dict[str, Session] = {}
        atexit.register(self.finish)

    def __getitem__(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = Session(self.kernel, name)
        return self._sessions[name]

    def end(self) -> None:
        """For `%unload_ext`: end the sessions and the MCP servers."""
        atexit.unregister(self.finish)
        self.finish()
        while self._unclaimed:
            self._unclaimed.popleft()()
        self.kernel.close()

    def finish(self) -> None:
        """Write the records of the sessions."""
        for session in self._sessions.values():
            session.finish()

    def ended(self, view: TurnView) -> None:
        """Note the view of the turn that has just ended."""
        self.last = self.views[self.kernel.turn_number] = view
        while len(self.views) > MOST_VIEWS:
            del self.views[next(iter(self.views))]

    def keep(self, forget: Callable[[], None]) -> None:
        """Hold a finished turn for a page that is reloaded; releases the oldest beyond a limit.

        Args:
            forget: Releases the turn.
        """
        self._unclaimed.append(forget)
        while len(self._unclaimed) > MOST_UNCLAIMED:
            self._unclaimed.popleft()()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sessions)


def sessions_of(shell: Any) -> KernelSessions:
    """The kernel's sessions."""
    sessions = getattr(shell, "agent_sessions", None)
    if sessions is None:
        sessions = shell.agent_sessions = KernelSessions(shell)
    assert isinstance(sessions, KernelSessions)
    return sessions
