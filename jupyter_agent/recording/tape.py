"""The recording of a turn, by one interface for all modes. A live turn has a blank one."""

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
from jupyter_agent.recording.tool_results import ToolRecording, call_key
from jupyter_agent.recording.tools import replayed_server_tools
from jupyter_agent.recording.user import CachedUser, RecordingUser, ReplayUser


@dataclass(frozen=True, slots=True)
class RecordedApproval:
    """The recorded question about a call; an empty question if the call ran without one."""

    question: str = ""
    reasons: tuple[str, ...] = ()
    always: str = ""


class Tape:
    """The recording of a turn. This one is blank: the turn is live, nothing is written or replayed.

    Args:
        user: The user who watches the turn.

    Attributes:
        user: The user port of the turn; in a replay it gives the recorded answers.
        tool_results: Records or replays tool results; None in a live turn.
        is_exact: True if the turn must have the same outcome elsewhere and later: nothing in it
            may depend on the time or the computer.
        asks_servers: True if MCP servers are asked; False if their recorded results are given.
        keeps_conversation: True if the conversation is saved for later kernels.
        fixed_tokens: The recorded tokens of system prompt and tools; 0 counts them anew.
        sinks: Sinks that must get an event before all others.
    """

    tool_results: ToolRecording | None = None
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
        """Start the turn with this conversation."""

    def commit(self) -> None:
        """Write the complete turn. Raises `ConfigError` if it cannot be written."""

    def warnings(self) -> list[str]:
        """Notices for the user before the turn, a line each."""
        return []

    def notices(self) -> list[str]:
        """Notices for the user after the turn, a line each."""
        return []

    def tools(self) -> list[Tool]:
        """Tools that only the recording knows: those of MCP servers in a replay."""
        return []

    def leftovers(self) -> frozenset[Path]:
        """Files of an earlier execution that this one will create later."""
        return self.tool_results.leftovers() if self.tool_results is not None else frozenset()

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        """The changes of files for the receipt.

        Args:
            changes: The turn's changes of files.
            rewritten: Paths of files that its code rewrote with equal content.
        """
        return (
            tuple(self.tool_results.files(changes, rewritten))
            if self.tool_results is not None
            else changes
        )

    def approval(
        self, call_id: str, tool: str, values: dict[str, Any], workspace: Workspace, mode: str
    ) -> RecordedApproval | None:
        """The recorded approval of a call.

        Args:
            call_id: The id of the call.
            tool: The tool's name.
            values: Its arguments by name.
            workspace: The workspace of the call.
            mode: The setting `approvals.mode`.

        Returns:
            None if the policy decides anew.
        """
        return None


class _Recorded(Tape):
    """The tape of a model with a cassette."""

    is_exact = True

    def __init__(
        self, model: Recorder | Replay | Cached, user: RecordingUser | ReplayUser | CachedUser
    ) -> None:
        super().__init__(user)
        self.tool_results, self.sinks = model.tool_results, (user,)
        self._model = model

    def begin(self, conversation: Sequence[Message]) -> None:
        self._model.begin(conversation)

    def commit(self) -> None:
        self._model.commit()

    def notices(self) -> list[str]:
        return self._model.notices()


class _Replaying(_Recorded):
    """A tape on which approvals of recorded calls are found again."""

    def __init__(self, model: Replay | Cached, user: ReplayUser | CachedUser) -> None:
        super().__init__(model, user)
        self._replay_user = user

    def warnings(self) -> list[str]:
        notice = self._replay_user.notice
        return [notice] if notice else []

    def approval(
        self, call_id: str, tool: str, values: dict[str, Any], workspace: Workspace, mode: str
    ) -> RecordedApproval | None:
        user = self._replay_user
        if not user.holds:
            return None
        if is_served(tool) and mode == "ask_risky":
            user.believe(call_id, call_key(workspace, tool, values))
        if user.is_judged_anew(call_id):
            return None
        recorded = user.question(call_id)
        if recorded is None:
            return RecordedApproval()
        return RecordedApproval(recorded.question, recorded.reasons, recorded.always)


class _Cached(_Replaying):
    """The tape of a cached turn: recorded replies first, then recorded anew."""

    def __init__(self, model: Cached, user: CachedUser) -> None:
        super().__init__(model, user)
        self._cached = model

    @property
    def replayed(self) -> Usage:
        return self._cached.replayed


class _Replayed(_Replaying):
    """The tape of a turn that is fully replayed from a cassette."""

    asks_servers = False
    keeps_conversation = False

    def __init__(self, model: Replay, user: ReplayUser) -> None:
        super().__init__(model, user)
        self.fixed_tokens = model.prompt_tokens
        self._served = model.tool_results.served

    def tools(self) -> list[Tool]:
        return replayed_server_tools(self._served)


def tape_of(model: Model, user: User) -> Tape:
    """The tape of a turn that this model answers, for this user."""
    if isinstance(model, Cached):
        return _Cached(model, CachedUser(user, model))
    if isinstance(model, Recorder):
        return _Recorded(model, RecordingUser(user, model))
    if isinstance(model, Replay):
        return _Replayed(model, ReplayUser(model, user))
    return Tape(user)
