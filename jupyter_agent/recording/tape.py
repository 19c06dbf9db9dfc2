"""What a turn asks of a recording. A live turn has a blank one: nobody asks for the mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.core.events import FileChange, Sink
from jupyter_agent.core.messages import Message, Usage, is_served
from jupyter_agent.core.ports import Model, User
from jupyter_agent.core.tool import Tool
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.replay import Replay
from jupyter_agent.recording.tool_results import ToolRecording, touch
from jupyter_agent.recording.tools import recalled_tools
from jupyter_agent.recording.user import CachedUser, RecordingUser, ReplayUser


@dataclass(frozen=True, slots=True)
class RecordedApproval:
    """What was asked about a call when it was recorded; an empty question: nothing was."""

    question: str = ""
    reasons: tuple[str, ...] = ()
    always: str = ""


class Tape:
    """The recording of a turn. This one is blank: the turn is live, nothing is written or replayed.

    Args:
        user: The person who watches the turn.

    Attributes:
        user: The user that the turn has; a replay answers with what was recorded.
        past: Results of tools as they were recorded; None where tools just run.
        is_exact: True if the same turn must come out the same elsewhere, later: nothing that
            depends on the time or on the computer goes into it.
        asks_servers: Whether MCP servers are asked, or their recorded answers given.
        keeps_conversation: Whether the conversation is kept for a kernel to come.
        fixed_tokens: The recorded number of tokens of system prompt and tools; 0 where it counts.
        sinks: Sinks that must see an event before all others.
    """

    past: ToolRecording | None = None
    is_exact = False
    asks_servers = True
    keeps_conversation = True
    fixed_tokens = 0
    sinks: Sequence[Sink] = ()

    def __init__(self, user: User) -> None:
        self.user = user

    @property
    def replayed(self) -> Usage:
        """The tokens of replies that were replayed, which nobody pays."""
        return Usage()

    def begin(self, conversation: Sequence[Message]) -> None:
        """The turn begins with this conversation."""

    def commit(self) -> None:
        """The turn is complete: write it down. Raises `ConfigError` where that is impossible."""

    def warnings(self) -> list[str]:
        """What the person should know before the turn, a line each."""
        return []

    def notices(self) -> list[str]:
        """What the person should know after the turn, a line each."""
        return []

    def tools(self) -> list[Tool]:
        """Tools that only the recording has."""
        return []

    def leftovers(self) -> frozenset[Path]:
        """Files of an earlier execution that the notebook has yet to make."""
        return self.past.leftovers() if self.past is not None else frozenset()

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        """The changes of files that the receipt names.

        Args:
            changes: What the turn did to files.
            rewritten: Paths of files that its code wrote anew without a difference.
        """
        return tuple(self.past.files(changes, rewritten)) if self.past is not None else changes

    def approval(
        self, call_id: str, tool: str, values: dict[str, Any], workspace: Workspace, mode: str
    ) -> RecordedApproval | None:
        """What was decided about a call when it was recorded.

        Args:
            call_id: The id of the call.
            tool: The tool's name.
            values: Its arguments by name.
            workspace: Where it would act.
            mode: The setting `approvals.mode`.

        Returns:
            None where the call is judged here and now.
        """
        return None


class _Recorded(Tape):
    """The tape of a model that has a cassette."""

    is_exact = True

    def __init__(
        self, model: Recorder | Replay | Cached, user: RecordingUser | ReplayUser | CachedUser
    ) -> None:
        super().__init__(user)
        self.past, self.sinks = model.past, (user,)
        self._model = model

    def begin(self, conversation: Sequence[Message]) -> None:
        self._model.begin(conversation)

    def commit(self) -> None:
        self._model.commit()

    def notices(self) -> list[str]:
        return self._model.notices()


class _Cached(_Recorded):
    """The tape of a turn that is replayed as far as it was recorded, and recorded from there."""

    def __init__(self, model: Replay | Cached, user: ReplayUser | CachedUser) -> None:
        super().__init__(model, user)
        self._recollection = user

    @property
    def replayed(self) -> Usage:
        return self._model.replayed if isinstance(self._model, Cached) else Usage()

    def warnings(self) -> list[str]:
        notice = self._recollection.notice
        return [notice] if notice else []

    def approval(
        self, call_id: str, tool: str, values: dict[str, Any], workspace: Workspace, mode: str
    ) -> RecordedApproval | None:
        recorded = self._recollection
        if not recorded.holds:
            return None
        if is_served(tool) and mode == "ask_risky":
            recorded.believe(call_id, touch(workspace, tool, values))
        if recorded.is_judged_anew(call_id):
            return None
        then = recorded.question(call_id)
        if then is None:
            return RecordedApproval()
        return RecordedApproval(then.question, then.reasons, then.always)


class _Replayed(_Cached):
    """The tape of a turn that is replayed from a cassette as a whole."""

    asks_servers = False
    keeps_conversation = False

    def __init__(self, model: Replay, user: ReplayUser) -> None:
        super().__init__(model, user)
        self.fixed_tokens = model.told_tokens
        self._served = model.past.served

    def tools(self) -> list[Tool]:
        return recalled_tools(self._served)


def tape_of(model: Model, user: User) -> Tape:
    """The tape of a turn that this model answers, for this user."""
    if isinstance(model, Cached):
        return _Cached(model, CachedUser(user, model))
    if isinstance(model, Recorder):
        return _Recorded(model, RecordingUser(user, model))
    if isinstance(model, Replay):
        return _Replayed(model, ReplayUser(model, user))
    return Tape(user)
