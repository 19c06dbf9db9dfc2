"""The tape of a turn: what was recorded of it is looked up there, and what happens is recorded.

The loop asks three ports: a model, a user and tools (`core.ports`). Their wrappers in `wrappers`
first look a question up on the turn's tape. If the tape has no answer they ask the real one, and
record its answer. Which answers a tape has depends on the mode alone:

    Tape       live: none, and nothing is recorded
    Recorder   none, and everything is recorded
    Player     a replay: the recorded answers; a question that differs is a miss
    Cached     a replay up to the first miss, then a recording of the whole turn
    Rerun      recorded replies, whatever the code gives: to learn which results vary
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    FileChange,
    MessageFinished,
    ReplySource,
    Sink,
    VariableChange,
)
from jupyter_agent.core.history import turn_messages
from jupyter_agent.core.messages import JsonObject, Message, Said, ToolResult, Usage, is_served
from jupyter_agent.core.ports import Request
from jupyter_agent.core.tool import Prepared
from jupyter_agent.errors import ContextOverflow, ProviderError, ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.tokens import TokenCounter
from jupyter_agent.recording import cassette as cassette_file
from jupyter_agent.recording.cassette import (
    Cassette,
    Decision,
    FileState,
    RecordedResult,
    RecordedStep,
    RecordedSummary,
    RecordedTurn,
    RecordedVariable,
    Retry,
    Source,
    load,
    variables_of,
)
from jupyter_agent.recording.comparison import (
    Digests,
    exact,
    neutral,
    neutral_display,
    result_text,
    task_of,
)
from jupyter_agent.recording.files import RecordedFiles, digest
from jupyter_agent.recording.miss import different_result, unknown_task, without_reply
from jupyter_agent.recording.prompts import fingerprint, schemas_of
from jupyter_agent.recording.results import CallKey, Today, as_recorded, call_key, given, noted
from jupyter_agent.recording.trusted import digest_of, is_trusted
from jupyter_agent.recording.varying import learn, marked, match, unmarked

A = TypeVar("A")
_NOTHING_YET = RecordedStep(MessageFinished(Message("assistant", ()), Usage(), "end"))


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


class Tape:
    """The tape of a live turn: blank.

    Attributes:
        is_exact: True if the turn must have the same outcome elsewhere and later: nothing in it
            may depend on the time or the computer.
        asks_servers: True if MCP servers are asked; False if their recorded results are given.
        keeps_conversation: True if the conversation is saved for later kernels.
        fixed_tokens: The recorded tokens of system prompt and tools; 0 counts them anew.
        replayed: The tokens of replies that were replayed, which nobody pays.
        served: The schemas of the MCP tools whose results are recorded, by name.
    """

    is_exact = False
    asks_servers = True
    keeps_conversation = True
    fixed_tokens = 0
    replayed = Usage()
    served: dict[str, JsonObject] = {}  # noqa: RUF012 (never changed)

    @property
    def sinks(self) -> Sequence[Sink]:
        """Sinks that must get an event before all others."""
        return ()

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


class _OfCassette(Tape):
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


class Recorder(_OfCassette):
    """Records a turn. Nothing is written before `commit`: a failed turn leaves the cassette as it
    was.

    Args:
        path: The cassette.
        workspace: The workspace of the tools; None: the current folder.
        name: The provider's name.
        model: The model's id.
        source: The origin of the replies.
    """

    def __init__(
        self,
        path: Path,
        workspace: Workspace | None = None,
        *,
        name: str,
        model: str,
        source: ReplySource = "live",
    ) -> None:
        super().__init__(workspace)
        self._path = path
        self._source: Source = "scripted" if source == "scripted" else "recorded"
        self._blank = Cassette(name, model, self._source)
        self._counter = TokenCounter()
        self._waiting: list[RecordedTurn] = []
        self._written: list[tuple[str, str]] = []
        self._has_said = False
        self._turn = RecordedTurn("")
        self._coming = _NOTHING_YET

    def begin(self, conversation: Sequence[Message]) -> None:
        before = self._digests.conversation(conversation[:-1])
        self._turn = RecordedTurn(task_of(conversation[-1], self._root), before)
        self._coming = _NOTHING_YET
        self._ids, self._keys = [], {}

    def lookup(self, question: Question[A]) -> A | None:
        if isinstance(question, CallMade):
            self._key(question)  # the state of its file before it runs
        return None

    def record(self, question: Question[A], answer: A) -> A:
        given_answer: Any = answer
        match_on: Any = question
        match match_on:
            case ModelAsked(request):
                self._record_reply(request, given_answer)
            case CallMade():
                return cast(A, self._record_result(match_on, given_answer))
            case ApprovalWanted(asked):
                self._record_decision(asked, given_answer)
            case LinesTyped():
                said = (*self._coming.said, *given_answer)
                self._coming = replace(self._coming, said=said)
            case ShorteningDue():
                self._coming = replace(self._coming, shortened=given_answer)
        return answer

    def failed(self, request: Request, error: ProviderError, had_spoken: bool) -> None:
        if request.purpose == "summary":
            self._add_summary(RecordedSummary(error=str(error)))
        elif isinstance(error, ContextOverflow):
            self._coming = replace(self._coming, overflow=True)
        else:
            retries = (*self._coming.retries, Retry(str(error), had_spoken))
            self._coming = replace(self._coming, retries=retries)

    def variables(self, changes: Sequence[VariableChange]) -> Sequence[VariableChange]:
        shown = [replace(each, summary=neutral(each.summary, self._root)) for each in changes]
        self._turn = replace(self._turn, variables=variables_of(shown))
        return shown

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        def state(change: FileChange) -> FileState:
            return FileState(
                change.path,
                change.kind,
                change.lines_added,
                change.lines_removed,
                digest(self._workspace, change.path),
            )

        changed = {change.path for change in changes}
        same = (
            FileState(path, "same", digest=digest(self._workspace, path))
            for path in sorted(set(rewritten) - changed)
        )
        self._turn = replace(self._turn, files=(*map(state, changes), *same))
        return changes

    def commit(self) -> None:
        """Write the turn into the cassette, after earlier turns that could not be written.

        Raises:
            ConfigError: It cannot be written; the next turn tries again.
        """
        if not self._turn.steps:
            return
        *steps, last = self._turn.steps
        last = replace(last, said_after=self._coming.said)
        self._waiting.append(replace(self._turn, steps=(*steps, last)))
        self._turn = RecordedTurn("")
        while self._waiting:
            cassette_file.record(self._path, self._blank, self._waiting[0], self._written)
            self._written.append(self._waiting.pop(0).place)

    def notices(self) -> list[str]:
        """Once: that a single run does not show what varies."""
        if self._has_said:
            return []
        self._has_said = True
        return [
            f"{self._path.name}: recorded in a single run, which does not show what varies from "
            "run to run. To learn it without a model: %agent cassette prove."
        ]

    def keep(self, recorded: RecordedResult) -> None:
        """Record a result as it was recorded before."""
        *steps, last = self._turn.steps
        last = replace(last, results=(*last.results, recorded))
        self._turn = replace(self._turn, steps=(*steps, last))

    def came_from(self, source: Source) -> None:
        """Note the origin of a reply that was replayed: a turn with one scripted reply is so."""
        if "scripted" in (source, self._turn.source or self._source):
            self._turn = replace(self._turn, source="scripted")

    def came_after(self, step: RecordedStep) -> None:
        """Note what preceded a reply that was replayed: failed tries and summaries."""
        self._coming = replace(
            self._coming, retries=step.retries, overflow=step.overflow, summaries=step.summaries
        )

    def _record_reply(self, request: Request, reply: MessageFinished) -> None:
        if request.purpose == "summary":
            self._add_summary(RecordedSummary(reply))
            return
        self._settle_results(request.messages)
        step = replace(self._coming, reply=reply, schemas=schemas_of(request, reply))
        prompt = self._turn.prompt
        if prompt is None:
            prompt = replace(fingerprint(request), tokens=self._counter.fixed(request))
        self._turn = replace(self._turn, steps=(*self._turn.steps, step), prompt=prompt)
        self._coming = RecordedStep(reply)
        self._ids = [call.id for call in reply.message.tool_calls]

    def _add_summary(self, summary: RecordedSummary) -> None:
        """Add a summary; it takes the place of a failed try."""
        earlier = tuple(each for each in self._coming.summaries if each.reply)
        self._coming = replace(self._coming, summaries=(*earlier, summary))

    def _record_result(self, question: CallMade, result: ToolResult) -> ToolResult:
        call = question.prepared.call
        key = self._key(question)
        number = -1 if question.is_nested else self._number(call.id)
        self.keep(noted(key, result, number, self._workspace))
        return replace(result, display=neutral_display(result.display, self._root))

    def _record_decision(self, asked: ApprovalAsked, answered: ApprovalAnswered) -> None:
        decision = Decision(
            self._number(asked.call_id),
            asked.question,
            asked.reasons,
            answered.answer,
            answered.by,
            answered.reason,
            asked.always,
        )
        *steps, last = self._turn.steps
        last = replace(last, decisions=(*last.decisions, decision))
        self._turn = replace(self._turn, steps=(*steps, last))

    def _settle_results(self, messages: Sequence[Message]) -> None:
        """Note the results of the last step in their order, also of calls that did not run."""
        if not self._turn.steps:
            return
        *steps, last = self._turn.steps
        read = _results(messages)
        calls = last.reply.message.tool_calls
        known = {result.call: result for result in last.results if result.call >= 0}
        settled = [result for result in last.results if result.call < 0]
        for number, (call, result) in enumerate(zip(calls, read, strict=False)):
            blank = RecordedResult(
                call.name, call_key(self._workspace, call).arguments, call=number
            )
            text = marked([(result_text(result, self._root), False)])
            unseen = replace(blank, text=text, is_error=result.is_error)
            settled.append(known.get(number, unseen))
        self._turn = replace(self._turn, steps=(*steps, replace(last, results=tuple(settled))))


class Player(_OfCassette):
    """Replays turns from a cassette.

    A turn is found by the conversation before it and its task; if earlier cells differ (a cell was
    run twice, or edited), by its task alone.

    Args:
        cassette: The recording.
        file_name: The name of its file.
        workspace: The workspace of the tools; None: the current folder.
        files: The file of each turn if they come from several files.
        origins: The files with the digests of their contents.
    """

    asks_servers = False
    keeps_conversation = False

    def __init__(
        self,
        cassette: Cassette,
        file_name: str,
        workspace: Workspace | None = None,
        files: Sequence[str] = (),
        origins: Sequence[tuple[Path, str]] = (),
    ) -> None:
        super().__init__(workspace)
        self.cassette = cassette
        self._file_name = file_name
        self._files = files
        self._origins = origins
        self._kept = RecordedFiles(cassette, self._workspace)
        self._by_task: defaultdict[str, list[int]] = defaultdict(list)
        for number, turn in enumerate(cassette.turns):
            self._by_task[turn.task].append(number)
        prompts = (turn.prompt for turn in cassette.turns)
        self.fixed_tokens = next((each.tokens for each in prompts if each and each.tokens), 0)
        self.served = {
            name: schema
            for turn in cassette.turns
            for step in turn.steps
            for name, schema in step.schemas.items()
        }
        self._today = Today(self._root)
        self._served_turns: set[int] = set()
        self._changed_prompts: dict[str, bool] = {}
        self._strangers: list[str] = []
        self._candidates: list[int] = []
        self._task, self._step = "", 0
        self._summaries_given = 0
        self._overflowed = False
        self._looks, self._looks_before_end = 0, 1
        self._matched: set[int] = set()
        self._nested: list[RecordedResult] = []
        self._believed: set[str] = set()

    # ---- the turn

    def attend(self, is_somebody_there: bool) -> None:
        """If a user is there, recorded approvals of foreign cassettes do not count."""
        strangers = [path.name for path, digest in self._origins if not is_trusted(path, digest)]
        self._strangers = strangers if is_somebody_there else []
        self._believed.clear()

    def begin(self, conversation: Sequence[Message]) -> None:
        self._task = task_of(conversation[-1], self._root)
        self._candidates = self._find(conversation)
        self._step, self._summaries_given, self._overflowed = 0, 0, False
        self._looks, self._nested, self._keys = 0, [], {}
        self._matched, self._kept.states = set(), ()

    def knows(self, conversation: Sequence[Message]) -> bool:
        """True if a turn with this task is recorded."""
        return bool(self._find(conversation))

    def _find(self, conversation: Sequence[Message]) -> list[int]:
        """The numbers of the turns that may answer, the best one first."""
        task = task_of(conversation[-1], self._root)
        before = self._digests.conversation(conversation[:-1])
        same_task = self._by_task.get(task, [])
        same = [n for n in same_task if self.cassette.turns[n].before == before] or same_task
        fresh = [n for n in same if n not in self._served_turns]
        return [*(fresh or same[-1:]), *(n for n in same_task if n not in (fresh or same[-1:]))]

    @property
    def turn(self) -> RecordedTurn:
        """The recorded turn that answers."""
        return self.cassette.turns[self._candidates[0]]

    @property
    def last(self) -> RecordedStep:
        """The step whose reply was given last."""
        return self.turn.steps[self._step - 1]

    @property
    def _next(self) -> RecordedStep | None:
        steps = self.turn.steps if self._candidates else ()
        return steps[self._step] if self._step < len(steps) else None

    # ---- looking up

    def lookup(self, question: Question[A]) -> A | None:
        asked: Any = question
        found: Any = None
        match asked:
            case ModelAsked(request) if request.purpose == "summary":
                found = self._summary()
            case ModelAsked(request):
                found = self._reply(request)
            case CallMade():
                found = self._given_result(asked)
            case ApprovalWanted(about):
                found = self._answer(about)
            case LinesTyped():
                found = self._lines()
            case ShorteningDue():
                found = self._next.shortened if self._next else None
        return cast("A | None", found)

    def _summary(self) -> MessageFinished:
        coming = self._next
        if coming is None or self._summaries_given >= len(coming.summaries):
            raise ProviderError("no summary was recorded here")
        self._summaries_given += 1
        found = coming.summaries[self._summaries_given - 1]
        if found.reply is None:
            raise ProviderError(found.error)
        return found.reply

    def _reply(self, request: Request) -> MessageFinished:
        """The reply to a request.

        Raises:
            ReplayMismatch: There is none; the message names the first difference.
        """
        self._follow(request)
        step = self._next
        if step is None:
            raise ReplayMismatch(without_reply(self._file_name, self.turn, self._step + 1))
        if step.overflow and not self._overflowed:
            self._overflowed = True
            raise ContextOverflow("the conversation was too long when it was recorded")
        if self._step == 0:
            self._enter(request)
        self._looks_before_end = 1 if request.tools_allowed else 0  # after a last call there is one
        self._step += 1
        self._summaries_given, self._overflowed, self._matched = 0, False, set()
        self._nested = [result for result in step.results if result.call < 0]
        return step.reply

    def _follow(self, request: Request) -> None:
        """Go on with the first turn whose recording the conversation follows."""
        if not self._candidates:
            raise ReplayMismatch(unknown_task(self.cassette, self._file_name, self._task))
        if self._step == 0:
            self._refuse_ambiguous()
            return
        turns = self.cassette.turns
        given = [step.reply for step in self.turn.steps[: self._step]]
        for number in self._candidates:
            steps = turns[number].steps[: self._step]
            if [step.reply for step in steps] == given and not self._difference(
                turns[number], request
            ):
                others = [each for each in self._candidates if each != number]
                self._candidates = [number, *others]
                return
        raise ReplayMismatch(self._difference(self.turn, request))

    def _difference(self, turn: RecordedTurn, request: Request) -> str:
        """The message about the first result that differs from the recording; empty if none."""
        recorded = turn.steps[self._step - 1]
        now = _results(request.messages)
        is_same_turn = turn is self.turn
        for number, result in enumerate(now):
            if is_same_turn and number in self._matched:
                continue  # it may have been cut since, to shorten the conversation
            then, text = recorded.result(number), result_text(result, self._root)
            if then is None or match(then.text, text) is None:
                before = unmarked(then.text) if then else ""
                which = (number + 1, len(now))
                return different_result(self._file_name, turn, self._step + 1, which, before, text)
        following = turn.steps[self._step] if self._step < len(turn.steps) else None
        said = tuple(exact(text, self._root) for text in _said(request.messages))
        if following and said != tuple(exact(text, self._root) for text in following.said):
            return without_reply(self._file_name, turn, self._step + 1)
        return ""

    def _refuse_ambiguous(self) -> None:
        same = [n for n in self._candidates if self.turn.place == self.cassette.turns[n].place]
        same = same if len(same) > 1 else self._candidates
        names = sorted({self._files[number] for number in same}) if self._files else []
        replies = [self.cassette.turns[number].steps[0].reply for number in same]
        if len(names) > 1 and any(reply != replies[0] for reply in replies):
            raise ReplayMismatch(
                f"{' and '.join(names)} answer this task in different ways, and this kernel does "
                "not know its notebook's name. Name one of them with %agent cassette FILE."
            )

    def _enter(self, request: Request) -> None:
        """Begin to replay the turn that was found."""
        self._served_turns.add(self._candidates[0])
        self._kept.states = self.turn.files
        if self.turn.prompt is None:
            return
        current = fingerprint(request)
        # An embedded model got the short instructions, and a replay does not know that.
        is_brief = self.cassette.provider == "local"
        for what, differs in (
            ("the system prompt", self.turn.prompt.system != current.system and not is_brief),
            ("the tools", self.turn.prompt.tools != current.tools),
        ):
            if differs:
                self._changed_prompts.setdefault(what, True)

    def retries(self) -> Sequence[Retry]:
        return self.last.retries if self._step else ()

    # ---- calls

    def today(self, prepared: Prepared) -> Prepared:
        return self._today.call(prepared)

    def recorded(self, question: CallMade) -> RecordedResult | None:
        """The recorded result of a call of the last reply; None if there is none."""
        if not self._candidates or not self._step:
            return None
        key = self._key(question)
        if not question.is_nested:
            found = self.last.result(self._number(question.prepared.call.id))
            return found if found and found.arguments == key.arguments else None
        call = key.tool, key.arguments
        return next((each for each in self._nested if (each.tool, each.arguments) == call), None)

    def _given_result(self, question: CallMade) -> ToolResult | None:
        """The recorded result in place of a run; None if the tool must run."""
        found = self.recorded(question)
        if found is None or found.given is None:
            return None
        if not found.is_served and not self._kept.are_given(self._key(question), found):
            return None
        return self._give(question, found)

    def _give(self, question: CallMade, found: RecordedResult) -> ToolResult:
        self._note_match(found)
        self._kept.refresh_mtime(found)
        return given(question.prepared.call.id, found)

    def is_as_recorded(self, recorded: RecordedResult, shown: ToolResult) -> bool:
        """True if a run gave the recorded result, with marks or without."""
        text = result_text(shown, self._root)
        return recorded.given is None and match(recorded.text, text) is not None

    def _note_match(self, found: RecordedResult) -> None:
        if found in self._nested:
            self._nested.remove(found)
        self._matched.add(found.call)

    def record(self, question: Question[A], answer: A) -> A:
        if not isinstance(question, CallMade):
            return answer
        return cast(A, self._shown(question, cast(ToolResult, answer)))

    def _shown(self, question: CallMade, result: ToolResult) -> ToolResult:
        """The result of a run as it was recorded, if it differs only where it may."""
        recorded = self.recorded(question)
        if recorded is None:
            return replace(result, display=neutral_display(result.display, self._root))
        if recorded.given is not None and self._kept.are_same(recorded, result):
            return self._give(question, recorded)
        shown, is_match = as_recorded(recorded, result, self._today)
        if is_match:
            self._note_match(recorded)
        return shown

    # ---- the user

    def _answer(self, asked: ApprovalAsked) -> ApprovalAnswered | None:
        if self._is_judged_anew(asked.call_id):
            return None
        recorded = self._decision(asked.call_id)
        if recorded is None:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        return ApprovalAnswered(asked.call_id, recorded.answer, recorded.by, recorded.reason)

    def _decision(self, call_id: str) -> Decision | None:
        """The recorded decision about a call; None if nobody was asked."""
        number = self._number(call_id)
        return next((each for each in self.last.decisions if each.call == number), None)

    def _is_judged_anew(self, call_id: str) -> bool:
        """True if the recorded decision about a call does not count here."""
        if not self._strangers or call_id in self._believed:
            return False
        recorded = self._decision(call_id)
        return recorded is None or recorded.answer != "no"

    def approval(self, prepared: Prepared, mode: str) -> RecordedApproval | None:
        if not self._candidates or not self._step:
            return None
        call_id = prepared.call.id
        if is_served(prepared.tool.name) and mode == "ask_risky":
            found = self.recorded(CallMade(prepared))
            if found is not None and found.given is not None:
                self._believed.add(call_id)  # its result is given: nothing runs
        if self._is_judged_anew(call_id):
            return None
        recorded = self._decision(call_id)
        if recorded is None:
            return RecordedApproval()
        return RecordedApproval(recorded.question, recorded.reasons, recorded.always)

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, MessageFinished):
            self._looks = 0

    def _lines(self) -> tuple[str, ...]:
        """The recorded lines between the last reply and the next one, once.

        Lines that came too late for a reply are given at the last look, after the turn: at the
        one before it they would ask for another reply.
        """
        looks, self._looks = self._looks, self._looks + 1
        if not self._candidates or not self._step:
            return ()
        if self._next:
            return () if looks else self._next.said
        return self.last.said_after if looks == self._looks_before_end else ()

    # ---- the receipt

    def warnings(self) -> list[str]:
        if not self._strangers:
            return []
        return [
            f"{' and '.join(self._strangers)}: not recorded or trusted here, so what it allowed "
            "is asked about again. To trust it: %agent trust."
        ]

    def notices(self) -> list[str]:
        """Notices of a changed system prompt or changed tools, which are no miss; each once."""
        changed = [what for what, untold in self._changed_prompts.items() if untold]
        self._changed_prompts.update(dict.fromkeys(changed, False))
        if not changed:
            return []
        is_one = len(changed) == 1 and changed[0] != "the tools"
        return [
            f"{self._file_name}: {' and '.join(changed)} {'is' if is_one else 'are'} not what the "
            "model was told when it was recorded. Its replies are replayed all the same."
        ]

    def leftovers(self) -> frozenset[Path]:
        return self._kept.leftovers()

    def variables(self, changes: Sequence[VariableChange]) -> Sequence[VariableChange]:
        recorded: dict[tuple[str, str], RecordedVariable] = {}
        if self._candidates:
            recorded = {(each.name, each.kind): each for each in self.turn.variables}

        def as_it_was(change: VariableChange) -> VariableChange:
            then = recorded.get((change.name, change.kind))
            now = self._today.recorded(neutral(change.summary, self._root))
            is_same = then is not None and match(then.summary, now) is not None
            return replace(change, summary=unmarked(then.summary) if is_same and then else now)

        return [as_it_was(change) for change in changes]

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        return tuple(self._kept.files(changes, rewritten))


class Rerun(Player):
    """Replays recorded replies whatever the code gives, and records what it gives now.

    Args:
        cassette: The recording.
        recorder: Gets the results of this run.
        workspace: The workspace of the tools.
    """

    def __init__(
        self, cassette: Cassette, file_name: str, recorder: Recorder, workspace: Workspace | None
    ) -> None:
        super().__init__(cassette, file_name, workspace)
        self._recorder = recorder

    @property
    def sinks(self) -> Sequence[Sink]:
        return (self._recorder, self)

    def begin(self, conversation: Sequence[Message]) -> None:
        super().begin(conversation)
        self._recorder.begin(conversation)

    def commit(self) -> None:
        self._recorder.commit()

    def lookup(self, question: Question[A]) -> A | None:
        self._recorder.lookup(question)
        found = super().lookup(question)
        if found is None:
            return None
        if isinstance(question, CallMade):
            recorded = self.recorded(question)
            if recorded is not None:
                self._recorder.keep(recorded)
            return found
        return self._recorder.record(question, found)

    def record(self, question: Question[A], answer: A) -> A:
        recorded = self.recorded(question) if isinstance(question, CallMade) else None
        if recorded is None:
            return self._recorder.record(question, answer)
        result = self._today.result(cast(ToolResult, answer))
        self._recorder.record(question, cast(A, result))
        learned = learn(recorded.text, result_text(result, self._root))
        varying = replace(recorded, text=learned or recorded.text)
        if recorded.given is not None and self._kept.are_same(recorded, result):
            return cast(A, self._give(cast(Any, question), recorded))
        return cast(A, as_recorded(varying, result, self._today)[0])

    def variables(self, changes: Sequence[VariableChange]) -> Sequence[VariableChange]:
        now = [replace(each, summary=self._today.recorded(each.summary)) for each in changes]
        return self._recorder.variables(now)

    def files(
        self, changes: tuple[FileChange, ...], rewritten: Iterable[str]
    ) -> tuple[FileChange, ...]:
        return self._recorder.files(changes, rewritten)

    def _difference(self, turn: RecordedTurn, request: Request) -> str:
        return ""


class Cached(Tape):
    """Replays a turn up to the first miss, and asks the model from then on.

    A turn with a miss is recorded as a whole, and replaces the recording of the same conversation
    or the same task.

    Args:
        path: The cassette, which need not exist yet.
        recorder: Notes every answer, also replayed ones.
        workspace: The workspace of the tools.
    """

    is_exact = True

    def __init__(self, path: Path, recorder: Recorder, workspace: Workspace | None = None) -> None:
        self._path = path
        self._recorder = recorder
        self._workspace = workspace
        self._loaded: tuple[int, Player] | None = None
        self._is_attended = False
        self.player = self._open()
        self.is_asking = self.player is None

    @property
    def sinks(self) -> Sequence[Sink]:
        return (self._on_event,)

    def _on_event(self, event: Event) -> None:
        self._recorder(event)
        if self.player is not None:
            self.player(event)

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

    def commit(self) -> None:
        """Write the turn into the cassette if the model was asked."""
        if self.is_asking:
            self._recorder.commit()

    def lookup(self, question: Question[A]) -> A | None:
        self._recorder.lookup(question)
        player = self._playing
        if player is None:
            return None
        try:
            found = player.lookup(question)
        except ReplayMismatch:
            self.is_asking = True
            return None
        if found is None:
            return None
        if isinstance(question, CallMade):
            recorded = player.recorded(question)
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
        if recorded is not None and player.is_as_recorded(recorded, shown):
            self._recorder.keep(recorded)  # with its marks
            return cast(A, shown)
        return cast(A, self._recorder.record(question, shown))

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
        if self._loaded is None or self._loaded[0] != stamp:
            origins = [(self._path, digest_of(self._path))]
            player = Player(load(self._path), self._path.name, self._workspace, origins=origins)
            self._loaded = stamp, player
        return self._loaded[1]


def _results(messages: Sequence[Message]) -> list[ToolResult]:
    """The results of the last reply's calls, in their order."""
    turn = turn_messages(messages)
    after: list[ToolResult] = []
    for message in reversed(turn):
        if message.role == "assistant":
            break
        after[:0] = message.tool_results
    return after


def _said(messages: Sequence[Message]) -> list[str]:
    """The lines that the user typed since the last reply."""
    found: list[str] = []
    for message in reversed(turn_messages(messages)):
        if message.role == "assistant":
            break
        found[:0] = [block.text for block in message.blocks if isinstance(block, Said)]
    return found
