"""Records the user's decisions and lines during a turn, and replays them."""

from __future__ import annotations

from jupyter_agent.core.events import ApprovalAnswered, ApprovalAsked, Event, MessageFinished
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.cassette_model import Decision
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.replay import Replay
from jupyter_agent.recording.tool_results import CallKey

_NOTICE = (
    "{name}: not recorded or trusted here, so what it allowed is asked about again. To trust it: "
    "%agent trust."
)


class CallPositions:
    """A sink that notes the position of each call in the last reply, by the call's id."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, MessageFinished):
            self._ids = [call.id for call in event.message.tool_calls]

    def place(self, call_id: str) -> int:
        return self._ids.index(call_id)


def _decision(place: int, asked: ApprovalAsked, answered: ApprovalAnswered) -> Decision:
    return Decision(
        place,
        asked.question,
        asked.reasons,
        answered.answer,
        answered.by,
        answered.reason,
        asked.always,
    )


class RecordingUser(CallPositions):
    """A user whose decisions and lines are noted in the cassette."""

    def __init__(self, user: User, recorder: Recorder) -> None:
        super().__init__()
        self._user = user
        self._recorder = recorder

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        answered = await self._user.decide(asked)
        self._recorder.decided(_decision(self.place(asked.call_id), asked, answered))
        return answered

    def said(self) -> tuple[str, ...]:
        texts = self._user.said()
        self._recorder.heard(texts)
        return texts


class ReplayUser(CallPositions):
    """The user of a replayed turn: repeats the recorded decisions and lines.

    Args:
        replay: The recorded turns.
        user: The user who watches the replay. If there is one, and a cassette was neither recorded
            nor trusted here, this user is asked in place of a recorded approval; a recorded
            refusal stays.

    Attributes:
        notice: A line about the untrusted cassettes; empty if all are trusted.
    """

    def __init__(self, replay: Replay, user: User) -> None:
        super().__init__()
        self._replay = replay
        self._was_asked = True
        strangers = [] if isinstance(user, Nobody) else replay.strangers
        self._user = user if strangers else None
        self._believed: set[str] = set()
        self.notice = _NOTICE.format(name=" and ".join(strangers)) if strangers else ""

    @property
    def holds(self) -> bool:
        """True if the current calls are recorded ones."""
        return True

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, MessageFinished):
            self._was_asked = False

    def question(self, call_id: str) -> Decision | None:
        """The recorded decision about a call; None if nobody was asked."""
        place = self.place(call_id)
        return next((d for d in self._replay.decisions if d.call == place), None)

    def is_judged_anew(self, call_id: str) -> bool:
        """True if the recorded decision about a call does not count here."""
        if self._user is None or call_id in self._believed:
            return False
        recorded = self.question(call_id)
        return recorded is None or recorded.answer != "no"

    def believe(self, call_id: str, about: CallKey) -> None:
        """Accept the recorded decision about a call whose result is recorded, as nothing runs."""
        if self._replay.tool_results.knows(about):
            self._believed.add(call_id)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        if self._user is not None and self.is_judged_anew(asked.call_id):
            return await self._user.decide(asked)
        recorded = self.question(asked.call_id)
        if recorded is None:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        return ApprovalAnswered(asked.call_id, recorded.answer, recorded.by, recorded.reason)

    def said(self) -> tuple[str, ...]:
        was_asked, self._was_asked = self._was_asked, True
        return () if was_asked else self._replay.said_next


class CachedUser(CallPositions):
    """Cached mode: recorded answers first, then the real user."""

    def __init__(self, user: User, cached: Cached) -> None:
        super().__init__()
        self._cached = cached
        self._user = user
        self._recording_user = RecordingUser(user, cached.recorder)
        self._replay_users: dict[int, ReplayUser] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self._recording_user(event)
        if self.holds:
            self._replay_user(event)

    @property
    def holds(self) -> bool:
        """True if the current calls are recorded ones."""
        return not self._cached.is_asking and self._cached.replay is not None

    def question(self, call_id: str) -> Decision | None:
        """The recorded decision about a call; None if nobody was asked."""
        return self._replay_user.question(call_id)

    @property
    def notice(self) -> str:
        """As `ReplayUser.notice`."""
        return self._replay_user.notice if self.holds else ""

    def is_judged_anew(self, call_id: str) -> bool:
        """True if the recorded decision about a call does not count here."""
        return self._replay_user.is_judged_anew(call_id)

    def believe(self, call_id: str, about: CallKey) -> None:
        """As `ReplayUser.believe`."""
        self._replay_user.believe(call_id, about)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        if not self.holds:
            return await self._recording_user.decide(asked)
        answered = await self._replay_user.decide(asked)
        self._cached.recorder.decided(_decision(self.place(asked.call_id), asked, answered))
        return answered

    def said(self) -> tuple[str, ...]:
        if not self.holds:
            return self._recording_user.said()
        texts = self._replay_user.said()
        self._cached.recorder.heard(texts)
        return texts

    @property
    def _replay_user(self) -> ReplayUser:
        replay = self._cached.replay
        if replay is None:
            raise RuntimeError("nothing is recorded")
        replay_user = self._replay_users.get(id(replay)) or ReplayUser(replay, self._user)
        return self._replay_users.setdefault(id(replay), replay_user)
