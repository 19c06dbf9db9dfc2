"""Records turns into a cassette."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    FileChange,
    MessageFinished,
    ReplySource,
    VariableChange,
)
from jupyter_agent.core.messages import Message, Output, ToolResult, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.errors import ContextOverflow, ProviderError
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
    Retry,
    Source,
    variables_of,
)
from jupyter_agent.recording.comparison import (
    last_results,
    neutral,
    neutral_display,
    result_text,
    task_of,
)
from jupyter_agent.recording.files import digest
from jupyter_agent.recording.prompts import fingerprint, schemas_of
from jupyter_agent.recording.results import call_key, noted
from jupyter_agent.recording.tape import (
    ALLOWED_UNASKED,
    A,
    ApprovalWanted,
    CallMade,
    CassetteTape,
    DelegateTapes,
    EffectWanted,
    LinesTyped,
    ModelAsked,
    Question,
    ShorteningDue,
)
from jupyter_agent.recording.varying import marked

_NOTHING_YET = RecordedStep(MessageFinished(Message("assistant", ()), Usage(), "end"))


class Recorder(CassetteTape):
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
        self._steps: list[RecordedStep] = []
        self._coming = _NOTHING_YET
        self._delegates: DelegateTapes[Recorder] = DelegateTapes()
        self._of = ""

    def of_delegate(self, number: int) -> Recorder:
        blank = self._blank
        made = Recorder(
            self._path, self._workspace, name=blank.provider, model=blank.model,
            source="scripted" if self._source == "scripted" else "live",
        )  # fmt: skip
        made._of, made._written = self._turn.task, self._written
        return self._delegates.add(number, made)

    def begin(self, conversation: Sequence[Message]) -> None:
        before = self._digests.conversation(conversation[:-1])
        self._turn = RecordedTurn(task_of(conversation[-1], self._root), before, of=self._of)
        self._delegates = DelegateTapes()
        self._coming = _NOTHING_YET
        self._steps, self._ids, self._keys = [], [], {}

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
            case EffectWanted(asked):
                if (given_answer.answer, given_answer.by) != ALLOWED_UNASKED:
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

    def preview(self, shown: tuple[Output, ...]) -> tuple[Output, ...]:
        return neutral_display(shown, self._root)

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
        if not self._steps:
            return
        self._change_last(said_after=self._coming.said)
        self._waiting.append(replace(self._turn, steps=tuple(self._steps)))
        self._steps = []
        while self._waiting:
            cassette_file.record(self._path, self._blank, self._waiting[0], self._written)
            self._written.append(self._waiting.pop(0).place)
        self._delegates.commit()

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
        self._change_last(results=(*self._steps[-1].results, recorded))

    def _change_last(self, **changes: Any) -> None:
        """Change fields of the step whose reply came last."""
        self._steps[-1] = replace(self._steps[-1], **changes)

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
        if self._turn.prompt is None:
            prompt = replace(fingerprint(request), tokens=self._counter.fixed(request))
            self._turn = replace(self._turn, prompt=prompt)
        self._steps.append(step)
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
            asked.effect,
            neutral_display(asked.preview, self._root),
            answered.rejected,
        )
        self._change_last(decisions=(*self._steps[-1].decisions, decision))

    def _settle_results(self, messages: Sequence[Message]) -> None:
        """Note the results of the last step in their order, also of calls that did not run."""
        if not self._steps:
            return
        last, read = self._steps[-1], last_results(messages)
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
        self._change_last(results=tuple(settled))
