"""The tape of a turn: what was recorded of it is looked up there, and what happens is recorded.

The loop asks three ports: a model, a user and tools (`core.ports`). Their wrappers in `wrappers`
first look a question up on the turn's tape. If the tape has no answer they ask the real one, and
record its answer. Which answers a tape has depends on the mode alone:

    Tape                 live: none, and nothing is recorded
    recorder.Recorder    none, and everything is recorded
    player.Player        a replay: the recorded answers; a question that differs is a miss
    player.Rerun         recorded replies, whatever the code gives: to learn which results vary
    cached.Cached        a replay up to the first miss, then a recording of the whole turn
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from jupyter_agent.core.events import (
    ApprovalAnswer,
    ApprovalAnswered,
    ApprovalAsked,
    Decider,
    Event,
    FileChange,
    MessageFinished,
    ReplySource,
    Sink,
    VariableChange,
)
from jupyter_agent.core.messages import JsonObject, Message, Output, ToolResult, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.core.tool import Prepared
from jupyter_agent.errors import ProviderError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette import Retry
from jupyter_agent.recording.comparison import Digests
from jupyter_agent.recording.results import CallKey, call_key

A = TypeVar("A")
T = TypeVar("T", bound="Tape")


class Question(Generic[A]):
    """Something that a turn asks one of its ports; `A` is the type of the answer."""


@dataclass(frozen=True, slots=True)
class ModelAsked(Question[MessageFinished]):
    """A model call."""

    request: Request


@dataclass(frozen=True, slots=True)
class CallMade(Question[ToolResult]):
    """A tool call, by the model or (`is_nested`) by code that runs."""

    prepared: Prepared
    is_nested: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalWanted(Question[ApprovalAnswered]):
    """A question about a call."""

    asked: ApprovalAsked


ALLOWED_UNASKED: tuple[ApprovalAnswer, Decider] = ("yes", "nobody")
"""The answer about a side effect that happened in the recording without a question."""


@dataclass(frozen=True, slots=True)
class EffectWanted(Question[ApprovalAnswered]):
    """A question about a side effect of running code."""

    asked: ApprovalAsked


@dataclass(frozen=True, slots=True)
class LinesTyped(Question[tuple[str, ...]]):
    """The lines that the user typed since the last look."""


@dataclass(frozen=True, slots=True)
class ShorteningDue(Question[bool]):
    """Whether the conversation must be shortened before the next model call."""


@dataclass(frozen=True, slots=True)
class RecordedApproval:
    """The recorded question about a call; an empty question if the call ran without one."""

    question: str = ""
    reasons: tuple[str, ...] = ()
    always: str = ""
    preview: tuple[Output, ...] = ()


class Tape:
    """The tape of a live turn: blank.

    Attributes:
        is_exact: True if the turn must have the same outcome elsewhere and later: nothing in it
            may depend on the time or the computer.
        asks_others: True if MCP servers, the notebook's page and the person are asked for what a
            call needs; False if the recorded results of such calls are given.
        keeps_conversation: True if the conversation is saved for later kernels.
        fixed_tokens: The recorded tokens of system prompt and tools; 0 counts them anew.
        replayed: The tokens of replies that were replayed, which nobody pays.
        served: The schemas of the MCP tools whose results are recorded, by name.
        used: The names of the tools whose results are recorded.
        model: The model's id, if its replies are recorded alone.
    """

    is_exact = False
    asks_others = True
    keeps_conversation = True
    fixed_tokens = 0
    replayed = Usage()
    model = ""
    served: dict[str, JsonObject] = {}  # noqa: RUF012 (never changed)
    used: frozenset[str] = frozenset()

    def of_delegate(self, number: int) -> Tape:
        """The tape of a delegate of the turn that has begun; `commit` writes it, too.

        Args:
            number: The delegate's number in the turn, from 1.
        """
        return self

    @property
    def sinks(self) -> Sequence[Sink]:
        """Sinks that must get an event before all others."""
        return ()

    @property
    def source(self) -> ReplySource | None:
        """The origin of the replies that are replayed; None while the model is asked."""
        return None

    def attend(self, is_somebody_there: bool) -> None:
        """Note whether a user can be asked during the next turn."""

    def begin(self, conversation: Sequence[Message]) -> None:
        """Start a turn. `conversation` ends with its task."""

    def commit(self) -> None:
        """Write the complete turn. Raises `ConfigError` if it cannot be written."""

    def lookup(self, question: Question[A]) -> A | None:
        """The recorded answer to a question; None if the real one must be asked.

        Raises:
            ReplayMismatch: The turn differs from its recording.
        """
        return None

    def record(self, question: Question[A], answer: A) -> A:
        """Record an answer; returns the one to go on with."""
        return answer

    def failed(self, request: Request, error: ProviderError, had_spoken: bool) -> None:
        """Note a failed model call. `had_spoken` is True if a part of a reply had arrived."""

    def retries(self) -> Sequence[Retry]:
        """The failed tries before the reply that was looked up last."""
        return ()

    def today(self, prepared: Prepared) -> Prepared:
        """The call as it must run in this process."""
        return prepared

    def approval(self, prepared: Prepared, mode: str) -> RecordedApproval | None:
        """The recorded approval of a call; None if the policy decides anew.

        Args:
            prepared: The call.
            mode: The setting `approvals.mode`.
        """
        return None

    def warnings(self) -> list[str]:
        """Notices for the user before the turn, a line each."""
        return []

    def notices(self) -> list[str]:
        """Notices for the user after the turn, a line each."""
        return []

    def leftovers(self) -> frozenset[Path]:
        """Files of an earlier execution that this one will create later."""
        return frozenset()

    def preview(self, shown: tuple[Output, ...]) -> tuple[Output, ...]:
        """What a question shows of the changes that a call would make."""
        return shown

    def variables(self, changes: Sequence[VariableChange]) -> Sequence[VariableChange]:
        """The changes of variables for the receipt."""
        return changes

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        """The changes of files for the receipt.

        Args:
            changes: The turn's changes of files.
            rewritten: Paths of files that its code rewrote with equal content.
        """
        return changes


class DelegateTapes(Generic[T]):
    """The tapes of a turn's delegates, which are written in the order of their numbers."""

    def __init__(self) -> None:
        self._tapes: dict[int, T] = {}

    def add(self, number: int, tape: T) -> T:
        self._tapes[number] = tape
        return tape

    def commit(self) -> None:
        """Write each of them, once."""
        for number in sorted(self._tapes):
            self._tapes.pop(number).commit()


class CassetteTape(Tape):
    """A tape with a cassette. Also a sink: it notes the ids of the last reply's calls."""

    is_exact = True

    def __init__(self, workspace: Workspace | None) -> None:
        self._workspace = workspace or Workspace(Path())
        self._root = self._workspace.root
        self._digests = Digests(self._root)
        self._ids: list[str] = []
        self._keys: dict[str, CallKey] = {}

    @property
    def sinks(self) -> Sequence[Sink]:
        return (self,)

    def __call__(self, event: Event) -> None:
        if isinstance(event, MessageFinished):
            self._ids = [call.id for call in event.message.tool_calls]

    def _number(self, call_id: str) -> int:
        """The number of a call of the last reply, from 0; -1 for any other call."""
        return self._ids.index(call_id) if call_id in self._ids else -1

    def _key(self, question: CallMade) -> CallKey:
        """The key of a call, with the state of its file when it was first looked at."""
        call_id = question.prepared.call.id
        if call_id not in self._keys:
            self._keys[call_id] = call_key(self._workspace, question.prepared)
        return self._keys[call_id]
