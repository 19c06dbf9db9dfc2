"""Replays turns from a cassette."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

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
from jupyter_agent.core.messages import (
    ACROSS_TOOLS,
    PAGE_TOOLS,
    Message,
    Text,
    ToolResult,
    is_served,
)
from jupyter_agent.core.ports import Request
from jupyter_agent.core.tool import Prepared
from jupyter_agent.errors import ContextOverflow, ProviderError, ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette import (
    Cassette,
    Decision,
    RecordedResult,
    RecordedStep,
    RecordedTurn,
    RecordedVariable,
    Retry,
    without_secrets,
)
from jupyter_agent.recording.comparison import (
    exact,
    last_results,
    last_said,
    neutral,
    neutral_display,
    result_text,
    task_of,
)
from jupyter_agent.recording.files import RecordedFiles
from jupyter_agent.recording.miss import different_result, unknown_task, without_reply
from jupyter_agent.recording.prompts import fingerprint
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.results import Today, as_recorded, given, inert_display
from jupyter_agent.recording.tape import (
    ALLOWED_UNASKED,
    A,
    ApprovalWanted,
    CallMade,
    CassetteTape,
    EffectWanted,
    LinesTyped,
    ModelAsked,
    Question,
    RecordedApproval,
    ShorteningDue,
)
from jupyter_agent.recording.trusted import trusted_turns
from jupyter_agent.recording.varying import learn, match, unmarked


class Player(CassetteTape):
    """Replays turns from a cassette.

    A turn is found by the conversation before it and its task; if earlier cells differ (a cell was
    run twice, or edited), by its task alone.

    Args:
        cassette: The recording.
        file_name: The name of its file.
        workspace: The workspace of the tools; None: the current folder.
        files: The file of each turn if they come from several files.
        origins: The files, for the trust in their turns.
        of_delegate: True to replay the conversation of a delegate.
    """

    asks_others = False
    keeps_conversation = False

    def __init__(
        self,
        cassette: Cassette,
        file_name: str,
        workspace: Workspace | None = None,
        files: Sequence[str] = (),
        origins: Sequence[Path] = (),
        of_delegate: bool = False,
    ) -> None:
        super().__init__(workspace)
        self._of_delegate = of_delegate
        self.cassette = cassette = without_secrets(cassette)
        self.model = cassette.model
        self._file_name = file_name
        self._files = files
        self._origins = origins
        self._kept = RecordedFiles(cassette, self._workspace)
        self._by_task: defaultdict[str, list[int]] = defaultdict(list)
        for number, turn in enumerate(cassette.turns):
            if bool(turn.of) == of_delegate:
                self._by_task[turn.task].append(number)
        prompts = (turn.prompt for turn in cassette.turns)
        self.fixed_tokens = next((each.tokens for each in prompts if each and each.tokens), 0)
        self.served = {
            name: schema
            for turn in cassette.turns
            for step in turn.steps
            for name, schema in step.schemas.items()
        }
        self.used = frozenset(
            result.tool for turn in cassette.turns for step in turn.steps for result in step.results
        )
        self._today = Today(self._root)
        self._served_turns: set[int] = set()
        self._changed_prompts: dict[str, bool] = {}
        self._strangers: frozenset[int] = frozenset()
        self._candidates: list[int] = []
        self._task, self._step = "", 0
        self._summaries_given = 0
        self._overflowed = False
        self._looks, self._looks_before_end = 0, 1
        self._matched: set[int] = set()
        self._nested: list[RecordedResult] = []
        self._believed: set[str] = set()
        self._is_attended = False

    @property
    def source(self) -> ReplySource:
        return self.cassette.source

    # ---- the turn

    def of_delegate(self, number: int) -> Player:
        return self._shared(
            Player(
                self.cassette, self._file_name, self._workspace, self._files, self._origins, True
            )
        )

    def _shared(self, made: Player) -> Player:
        """A delegate's player that shares what is known of the whole run."""
        made._served_turns, made._today = self._served_turns, self._today
        made.attend(self._is_attended)
        return made

    def attend(self, is_somebody_there: bool) -> None:
        """If a user is there, recorded approvals of foreign turns do not count."""
        self._is_attended = is_somebody_there
        known = trusted_turns(self._origins) if is_somebody_there else frozenset()
        self._strangers = frozenset(
            number
            for number, turn in enumerate(self.cassette.turns)
            if is_somebody_there and turn.digest not in known
        )
        self._believed.clear()

    def begin(self, conversation: Sequence[Message]) -> None:
        self._task = task_of(conversation[-1], self._root)
        self._candidates = self._find(conversation)
        if self._of_delegate and self._candidates and self.turn.prompt is not None:
            self.fixed_tokens = self.turn.prompt.tokens  # its tools are others than the turn's
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
    def _is_strange(self) -> bool:
        """True if the recorded turn that answers is somebody else's, and a user is there."""
        return bool(self._candidates) and self._candidates[0] in self._strangers

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
            case EffectWanted(about):
                found = self._answer_about_effect(about)
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
        missed = self._difference(self.turn, request)
        if not missed:
            return
        given = [step.reply for step in self.turn.steps[: self._step]]
        for number in self._candidates[1:]:
            turn = self.cassette.turns[number]
            is_same = [step.reply for step in turn.steps[: self._step]] == given
            if is_same and not self._difference(turn, request):
                others = [each for each in self._candidates if each != number]
                self._candidates = [number, *others]
                return
        raise ReplayMismatch(missed)

    def _difference(self, turn: RecordedTurn, request: Request) -> str:
        """The message about the first result that differs from the recording; empty if none."""
        recorded = turn.steps[self._step - 1]
        now = last_results(request.messages)
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
        said = tuple(exact(text, self._root) for text in last_said(request.messages))
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
        if question.prepared.tool.name in ACROSS_TOOLS and (found is None or found.given is None):
            return _not_recorded(question)  # a replay neither reads nor changes somebody's memory
        if found is None or found.given is None:
            return None
        if found.is_from_elsewhere or self._kept.are_given(self._key(question), found):
            return self._give(question, found)
        return None

    def _give(self, question: CallMade, found: RecordedResult) -> ToolResult:
        self._note_match(found)
        self._kept.refresh_mtime(found)
        result = given(question.prepared.call.id, found, self._key(question).path)
        return (
            replace(result, display=inert_display(result.display)) if self._is_strange else result
        )

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
        if self._is_strange:  # somebody else's recording adds nothing to what the code shows here
            return replace(shown, display=neutral_display(result.display, self._root))
        return shown

    # ---- the user

    def _answer(self, asked: ApprovalAsked) -> ApprovalAnswered | None:
        if self._is_judged_anew(asked.call_id):
            return None
        recorded = self._decision(asked.call_id)
        if recorded is None:
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        answer, by, reason = recorded.answer, recorded.by, recorded.reason
        return ApprovalAnswered(asked.call_id, answer, by, reason, recorded.rejected)

    def _decision(self, call_id: str) -> Decision | None:
        """The recorded decision about a call; None if nobody was asked."""
        number = self._number(call_id)
        decisions = (each for each in self.last.decisions if not each.effect)
        return next((each for each in decisions if each.call == number), None)

    def _is_judged_anew(self, call_id: str) -> bool:
        """True if the recorded decision about a call does not count here."""
        if not self._is_strange or call_id in self._believed:
            return False
        recorded = self._decision(call_id)
        return recorded is None or recorded.answer != "no" or not recorded.question

    def approval(self, prepared: Prepared, mode: str) -> RecordedApproval | None:
        if not self._candidates or not self._step:
            return None
        call_id = prepared.call.id
        name = prepared.tool.name
        is_own = name in PAGE_TOOLS or name in ACROSS_TOOLS
        if is_own or (is_served(name) and mode == "ask_risky"):
            found = self.recorded(CallMade(prepared))
            if found is not None and found.given is not None:
                self._believed.add(call_id)  # its result is given: nothing runs
        if self._is_judged_anew(call_id):
            return None
        recorded = self._decision(call_id)
        if recorded is None:
            return RecordedApproval()
        return RecordedApproval(
            recorded.question, recorded.reasons, recorded.always, recorded.preview
        )

    def _answer_about_effect(self, asked: ApprovalAsked) -> ApprovalAnswered | None:
        """The recorded answer about a side effect; a yes if it happened without a question."""
        if not self._candidates or not self._step or self._is_strange:
            return None
        number = self._number(asked.call_id)
        about = [d for d in self.last.decisions if d.call == number and d.effect == asked.effect]
        exact = [decision for decision in about if decision.question == asked.question]
        # A name that differs from run to run must not turn a no into a yes.
        found = exact or [decision for decision in about if decision.answer == "no"]
        if not found and asked.effect == "widget":
            # Widgets of recordings without a question were held back.
            return ApprovalAnswered(asked.call_id, "no", "nobody")
        if not found:
            return ApprovalAnswered(asked.call_id, *ALLOWED_UNASKED)
        return ApprovalAnswered(asked.call_id, found[0].answer, found[0].by, found[0].reason)

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
        if not self._is_strange:
            return []
        name = self._files[self._candidates[0]] if self._files else self._file_name
        return [
            f"{name}: this turn was not recorded or trusted here, so what it allowed is asked "
            "about again. To trust it: %agent trust."
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


def _not_recorded(question: CallMade) -> ToolResult:
    call = question.prepared.call
    words = f"{call.name} has no result in the recording, and a replay asks no memory."
    return ToolResult(call.id, (Text(words),), is_error=True)


class Rerun(Player):
    """Replays recorded replies whatever the code gives, and records what it gives now.

    Args:
        cassette: The recording.
        recorder: Gets the results of this run.
        workspace: The workspace of the tools.
        of_delegate: True to replay the conversation of a delegate.
    """

    def __init__(
        self,
        cassette: Cassette,
        file_name: str,
        recorder: Recorder,
        workspace: Workspace | None,
        of_delegate: bool = False,
    ) -> None:
        super().__init__(cassette, file_name, workspace, of_delegate=of_delegate)
        self._recorder = recorder

    def of_delegate(self, number: int) -> Player:
        recorder = self._recorder.of_delegate(number)
        again = Rerun(self.cassette, self._file_name, recorder, self._workspace, True)
        return self._shared(again)  # its recorder is written by this one's

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
        recorded = self.recorded(question) if isinstance(question, CallMade) else None
        found = super().lookup(question)
        if found is None:
            return None
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
