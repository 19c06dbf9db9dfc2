"""What the person did while a turn was recorded, and the same again while it is replayed."""

from __future__ import annotations

from jupyter_agent.events import ApprovalAnswered, ApprovalAsked, Event, MessageFinished
from jupyter_agent.llm.cassette import Decision
from jupyter_agent.llm.replay import Recorder, Replay
from jupyter_agent.person import Person


class _Places:
    """A sink that knows the place of each call in the last reply, by its id in this session."""

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, MessageFinished):
            self._ids = [call.id for call in event.message.tool_calls]

    def place(self, call_id: str) -> int:
        return self._ids.index(call_id)


class Witness(_Places):
    """A person whose decisions and words are noted in the cassette."""

    def __init__(self, person: Person, recorder: Recorder) -> None:
        super().__init__()
        self._person = person
        self._recorder = recorder

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        answered = await self._person.decide(asked)
        place = self.place(asked.call_id)
        self._recorder.decided(
            Decision(
                place,
                asked.question,
                asked.reasons,
                answered.answer,
                answered.by,
                answered.reason,
                asked.always,
            )
        )
        return answered

    def said(self) -> tuple[str, ...]:
        texts = self._person.said()
        self._recorder.heard(texts)
        return texts


class Recollection(_Places):
    """The person of a recorded turn: they decide and say what they did then."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self._replay = replay
        self._told = True

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, MessageFinished):
            self._told = False

    def question(self, call_id: str) -> Decision | None:
        """What was asked about a call then; None where nothing was."""
        place = self.place(call_id)
        return next((d for d in self._replay.decisions if d.call == place), None)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        then = self.question(asked.call_id)
        if then is None:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        return ApprovalAnswered(asked.call_id, then.answer, then.by, then.reason)

    def said(self) -> tuple[str, ...]:
        told, self._told = self._told, True
        return () if told else self._replay.said_next
