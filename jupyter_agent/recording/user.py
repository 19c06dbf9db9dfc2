"""What the person did while a turn was recorded, and the same again while it is replayed."""

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
    """A sink that knows the place of each call in the last reply, by its id in this session."""

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
    """A person whose decisions and words are noted in the cassette."""

    def __init__(self, person: User, recorder: Recorder) -> None:
        super().__init__()
        self._person = person
        self._recorder = recorder

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        answered = await self._person.decide(asked)
        self._recorder.decided(_decision(self.place(asked.call_id), asked, answered))
        return answered

    def said(self) -> tuple[str, ...]:
        texts = self._person.said()
        self._recorder.heard(texts)
        return texts


class ReplayUser(CallPositions):
    """The person of a recorded turn: they decide and say what they did then.

    Args:
        replay: The recorded turns.
        person: Who watches the replay. Where somebody does, and a cassette was neither recorded
            nor trusted here, this person is asked instead of believing what is recorded; a
            recorded no stays one.

    Attributes:
        notice: A line that says so; empty where the cassette is believed.
    """

    def __init__(self, replay: Replay, person: User) -> None:
        super().__init__()
        self._replay = replay
        self._told = True
        strangers = [] if isinstance(person, Nobody) else replay.strangers
        self._person = person if strangers else None
        self._believed: set[str] = set()
        self.notice = _NOTICE.format(name=" and ".join(strangers)) if strangers else ""

    @property
    def holds(self) -> bool:
        """Whether the calls at hand are recorded ones."""
        return True

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, MessageFinished):
            self._told = False

    def question(self, call_id: str) -> Decision | None:
        """What was asked about a call then; None where nothing was."""
        place = self.place(call_id)
        return next((d for d in self._replay.decisions if d.call == place), None)

    def is_judged_anew(self, call_id: str) -> bool:
        """Whether what was decided about a call does not count here."""
        if self._person is None or call_id in self._believed:
            return False
        then = self.question(call_id)
        return then is None or then.answer != "no"

    def believe(self, call_id: str, about: CallKey) -> None:
        """Let what was decided about a call count where nothing is called: its result is known."""
        if self._replay.past.knows(about):
            self._believed.add(call_id)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        if self._person is not None and self.is_judged_anew(asked.call_id):
            return await self._person.decide(asked)
        then = self.question(asked.call_id)
        if then is None:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        return ApprovalAnswered(asked.call_id, then.answer, then.by, then.reason)

    def said(self) -> tuple[str, ...]:
        told, self._told = self._told, True
        return () if told else self._replay.said_next


class CachedUser(CallPositions):
    """The person of a turn that is replayed as far as it was recorded, and goes on from there."""

    def __init__(self, person: User, cached: Cached) -> None:
        super().__init__()
        self._cached = cached
        self._person = person
        self._witness = RecordingUser(person, cached.recorder)
        self._recollections: dict[int, ReplayUser] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self._witness(event)
        if self.holds:
            self._recollection(event)

    @property
    def holds(self) -> bool:
        """Whether the calls at hand are recorded ones."""
        return not self._cached.is_asking and self._cached.replay is not None

    def question(self, call_id: str) -> Decision | None:
        """What was asked about a call then; None where nothing was."""
        return self._recollection.question(call_id)

    @property
    def notice(self) -> str:
        """As `ReplayUser.notice`."""
        return self._recollection.notice if self.holds else ""

    def is_judged_anew(self, call_id: str) -> bool:
        """Whether what was decided about a call does not count here."""
        return self._recollection.is_judged_anew(call_id)

    def believe(self, call_id: str, about: CallKey) -> None:
        """As `ReplayUser.believe`."""
        self._recollection.believe(call_id, about)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        if not self.holds:
            return await self._witness.decide(asked)
        answered = await self._recollection.decide(asked)
        self._cached.recorder.decided(_decision(self.place(asked.call_id), asked, answered))
        return answered

    def said(self) -> tuple[str, ...]:
        if not self.holds:
            return self._witness.said()
        texts = self._recollection.said()
        self._cached.recorder.heard(texts)
        return texts

    @property
    def _recollection(self) -> ReplayUser:
        replay = self._cached.replay
        if replay is None:
            raise RuntimeError("nothing is recorded")
        known = self._recollections.get(id(replay)) or ReplayUser(replay, self._person)
        return self._recollections.setdefault(id(replay), known)
