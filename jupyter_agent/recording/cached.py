"""Mode `cached`: recorded answers first, then the real ones, which are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from jupyter_agent.core.events import (
    Event,
    FileChange,
    MessageFinished,
    ReplySource,
    Sink,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.core.tool import Prepared
from jupyter_agent.errors import ProviderError, ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette import (
    Retry,
    load,
)
from jupyter_agent.recording.player import Player
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.tape import (
    A,
    CallMade,
    DelegateTapes,
    ModelAsked,
    Question,
    RecordedApproval,
    Tape,
)


class Cached(Tape):
    """Replays a turn up to the first miss, and asks the model from then on.

    A turn with a miss is recorded as a whole, and replaces the recording of the same conversation
    or the same task.

    Args:
        path: The cassette, which need not exist yet.
        recorder: Notes every answer, also replayed ones.
        workspace: The workspace of the tools.
        of: The tape of the turn whose delegate this one is for.
    """

    is_exact = True

    def __init__(
        self,
        path: Path,
        recorder: Recorder,
        workspace: Workspace | None = None,
        of: Cached | None = None,
    ) -> None:
        self._of = of
        self._delegates: DelegateTapes[Cached] = DelegateTapes()
        self._path = path
        self._recorder = recorder
        self._workspace = workspace
        self._loaded: tuple[int, Player] | None = None
        self._is_attended = False
        self.player = self._open()
        self.is_asking = self.player is None
        self.used = self.player.used if self.player is not None else frozenset()

    def of_delegate(self, number: int) -> Cached:
        recorder = self._recorder.of_delegate(number)
        made = Cached(self._path, recorder, self._workspace, self)
        made.attend(self._is_attended)
        return self._delegates.add(number, made)

    @property
    def sinks(self) -> Sequence[Sink]:
        return (self._on_event,)

    def _on_event(self, event: Event) -> None:
        self._recorder(event)
        if self.player is not None:
            self.player(event)

    @property
    def source(self) -> ReplySource | None:
        return self._playing.source if self._playing is not None else None

    @property
    def _playing(self) -> Player | None:
        return None if self.is_asking else self.player

    def attend(self, is_somebody_there: bool) -> None:
        self._is_attended = is_somebody_there

    def begin(self, conversation: Sequence[Message]) -> None:
        """Start a turn. A changed cassette is read again."""
        self.player, self.replayed = self._open(), Usage()
        self.is_asking = self.player is None or not self.player.knows(conversation)
        if self.player is not None:
            self.player.attend(self._is_attended)
            self.player.begin(conversation)
        self._recorder.begin(conversation)

    def preview(self, shown: tuple[Output, ...]) -> tuple[Output, ...]:
        return self._recorder.preview(shown)

    def commit(self) -> None:
        """Write the turn into the cassette if the model was asked."""
        if self.is_asking:
            self._recorder.commit()
        self._delegates.commit()

    def lookup(self, question: Question[A]) -> A | None:
        self._recorder.lookup(question)
        player = self._playing
        if player is None:
            return None
        recorded = player.recorded(question) if isinstance(question, CallMade) else None
        try:
            found = player.lookup(question)
        except ReplayMismatch:
            self.is_asking = True
            return None
        if found is None:
            return None
        if recorded is not None:
            self._recorder.keep(recorded)
            return found
        if isinstance(question, ModelAsked):
            self.replayed += cast(MessageFinished, found).usage
            self._recorder.came_from(player.turn.source or player.cassette.source)
            if question.request.purpose == "reply":
                self._recorder.came_after(player.last)
        return self._recorder.record(question, found)

    def record(self, question: Question[A], answer: A) -> A:
        player = self._playing
        if player is None:
            return self._recorder.record(question, answer)
        if not isinstance(question, CallMade):
            return self._recorder.record(question, player.record(question, answer))
        recorded = player.recorded(question)
        shown: Any = player.record(cast(Question[A], question), answer)
        # The model may be asked later in the turn: it must read the names of this run.
        live = replace(shown, content=cast(Any, answer).content)
        if recorded is not None and player.is_as_recorded(recorded, shown):
            self._recorder.keep(recorded)  # with its marks
            return cast(A, live)
        self._recorder.record(question, shown)
        return cast(A, live)

    def failed(self, request: Request, error: ProviderError, had_spoken: bool) -> None:
        self._recorder.failed(request, error, had_spoken)

    def retries(self) -> Sequence[Retry]:
        return self._playing.retries() if self._playing is not None else ()

    def today(self, prepared: Prepared) -> Prepared:
        return self._playing.today(prepared) if self._playing is not None else prepared

    def approval(self, prepared: Prepared, mode: str) -> RecordedApproval | None:
        return self._playing.approval(prepared, mode) if self._playing is not None else None

    def warnings(self) -> list[str]:
        return self._playing.warnings() if self._playing is not None else []

    def notices(self) -> list[str]:
        said = self.player.notices() if self.player is not None else []
        return [*said, *(self._recorder.notices() if self.is_asking else [])]

    def leftovers(self) -> frozenset[Path]:
        return self._playing.leftovers() if self._playing is not None else frozenset()

    def variables(self, changes: Sequence[VariableChange]) -> Sequence[VariableChange]:
        shown = self._playing.variables(changes) if self._playing is not None else changes
        return self._recorder.variables(shown)

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        rewritten = tuple(rewritten)
        shown = changes
        if self._playing is not None:
            shown = self._playing.files(changes, rewritten)
        return self._recorder.files(shown, rewritten)

    def _open(self) -> Player | None:
        """A player of the cassette; the same object while the file is unchanged."""
        if not self._path.exists():
            self._loaded = None
            return None
        stamp = self._path.stat().st_mtime_ns
        if self._of is not None and self._of.player is not None:
            player = self._of.player.of_delegate(0)
            self._loaded = stamp, player
        elif self._loaded is None or self._loaded[0] != stamp:
            cassette, name = load(self._path), self._path.name
            player = Player(cassette, name, self._workspace, origins=[self._path])
            self._loaded = stamp, player
        return self._loaded[1]
