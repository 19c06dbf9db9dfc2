"""The answer of a turn, for the user's next cells, with the facts about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import ModuleType

from jupyter_agent.core.events import (
    VERIFY,
    AttemptStarted,
    CellChange,
    Delegated,
    Event,
    FileChange,
    Grounded,
    MessageFinished,
    Receipt,
    SavedMemory,
    StepStarted,
    ToolFinished,
    TurnStarted,
    TurnStop,
    VariableChange,
    Voted,
)
from jupyter_agent.core.messages import DELEGATE, JsonObject, ToolCall, ToolResult, Usage
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.transcript import CallView, LiveTranscript
from jupyter_agent.grounding import Index, Source, grounded
from jupyter_agent.promotion import executed_by, opaque_names, pieces
from jupyter_agent.recording.results import VARYING
from jupyter_agent.session.verification import NumberCheck
from jupyter_agent.source.cell import parse_cell
from jupyter_agent.source.scope import loop_names


class RedactedRepr(str):
    """A text with its full value, whose repr is without secrets.

    A notebook stores the repr of a cell's last expression.
    """

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return repr(redact(str(self), secret_values()))


class Answer(RedactedRepr):
    """The answer's text, a string, with the turn's results as attributes.

    Attributes:
        code: The code that the results and what was shown last depend on, in order.
        files: Paths of the files that were created or changed.
        variables: Names of the variables that were added or bound anew.
        usage: The tokens of the turn's model calls.
        receipt: What the turn changed.
        stop_reason: Why the turn ended.
        values: The value of each attempt, cut short, if several were compared
            (`answers.samples`); empty for an attempt without success.
        checks: Its numbers beside those that a delegate computed anew (`answers.verify`).
    """

    code: tuple[str, ...]
    files: tuple[str, ...]
    variables: tuple[str, ...]
    usage: Usage
    receipt: Receipt
    stop_reason: TurnStop
    values: tuple[str, ...]
    checks: tuple[NumberCheck, ...] = ()

    @property
    def text(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        from jupyter_agent.core.legible import stable
        from jupyter_agent.core.markdown import inert

        return inert(stable(str(self)))


def make_answer(
    text: str,
    code: Sequence[str],
    receipt: Receipt,
    usage: Usage,
    stop_reason: TurnStop,
    values: Sequence[str] = (),
) -> Answer:
    answer = Answer(text)
    answer.code = tuple(map(RedactedRepr, code))
    answer.files = tuple(c.path for c in receipt.files if c.kind != "deleted")
    answer.variables = tuple(c.name for c in receipt.variables if c.kind != "deleted")
    answer.usage, answer.receipt, answer.stop_reason = usage, receipt, stop_reason
    answer.values = tuple(map(RedactedRepr, values))
    return answer


class _Findings:
    """What one attempt at the task showed, said and bound.

    Args:
        task: The task.
        earlier: As for `TurnFindings`.

    Attributes:
        text: The text of the last reply, if it is an answer.
        index: The numbers that its results showed.
        varying: Its results' spans that vary from run to run.
        loops: The names that its code bound in loops alone.
        others: The other names that its code bound.
        results: Its calls with their results.
    """

    def __init__(self, task: str = "", earlier: Index | None = None) -> None:
        self.text = ""
        self.index = Index(earlier=earlier)
        self.index.forget()
        self.index.add(Source(task, "task"))
        self.varying: list[Source] = []
        self.loops: set[str] = set()
        self.others: set[str] = set()
        self.results: list[CallView] = []


class TurnFindings:
    """A sink that collects the data of the receipt and the answer.

    Where several attempts are compared these are the data of the one that was taken; until then,
    of the one that runs.

    Args:
        earlier: The `index` of the session's turn before this one.

    Attributes:
        ran: All code that ran, in all attempts.
        has_reply: True once the model has said or called something.
        values: The value of each attempt, if several were compared.
    """

    lasting_only = True

    def __init__(self, earlier: Index | None = None) -> None:
        self.ran: list[str] = []
        self.has_reply = False
        self.values: tuple[str, ...] = ()
        self._task = ""
        self._earlier = earlier
        self._steps = 0
        self._calls_beside_steps = 0
        self._calls: dict[str, ToolCall] = {}
        self._delegates: dict[str, LiveTranscript] = {}
        self._files: dict[str, FileChange] = {}
        self._saved: list[SavedMemory] = []
        self._cells: list[CellChange] = []
        self._attempts = {0: _Findings(earlier=earlier)}
        self._attempt = 0

    @property
    def text(self) -> str:
        """The answer."""
        return self._own.text

    @property
    def index(self) -> Index:
        """The numbers that the results showed, read as they came."""
        return self._own.index

    @property
    def _own(self) -> _Findings:
        return self._attempts[self._attempt]

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._task = event.task
            self.index.add(Source(event.task, "task"))
        elif isinstance(event, AttemptStarted):
            self._attempt = event.number
            self._attempts[event.number] = _Findings(self._task, self._earlier)
        elif isinstance(event, Voted):
            self._attempt, self.values = event.attempt, event.values
        elif isinstance(event, StepStarted):
            self._steps = event.number
        elif isinstance(event, MessageFinished):
            calls = event.message.tool_calls
            self.has_reply = self.has_reply or bool(event.message.blocks)
            self._calls.update({call.id: call for call in calls})
            self._calls_beside_steps += event.model_calls - 1
            self._own.text = "" if calls else event.message.text
        elif isinstance(event, ToolFinished):
            self._note_result(event.result)
        elif isinstance(event, Delegated) and event.call_id == VERIFY:
            self._note_check(event.event)
        elif isinstance(event, Delegated):
            self._note_delegated(event)

    def without_scraps(
        self, changes: Iterable[VariableChange], plan: str = ""
    ) -> list[VariableChange]:
        """The changes without new variables of the code's own loops, such as `i`.

        A variable stays if the code binds it in another way, too, or if the answer or the plan
        names it.

        Args:
            changes: The changes of the turn.
            plan: The text of the plan.
        """
        scraps = self._own.loops - self._own.others
        return [
            change
            for change in changes
            if change.kind != "added"
            or change.name not in scraps
            or _names(f"{self.text}\n{plan}", change.name)
        ]

    def code(self, receipt: Receipt, namespace: Mapping[str, object]) -> tuple[str, ...]:
        """The code that the results depend on; all that ran without an error if it is too nested.

        Args:
            receipt: The turn's receipt: the variables that it changed are results. So are those
                that its code bound to the object that they had, as when a cell is run again.
            namespace: The kernel's variables.
        """
        bound = (self._own.others - {*receipt.restored}) & namespace.keys()
        again = {name for name in bound if type(namespace[name]) is not ModuleType}
        adopted = {each.name for each in receipt.variables} if self._attempt else set()
        ran = executed_by(self._own.results, adopted)
        try:
            wanted = again.union(each.name for each in receipt.variables)
            return pieces(ran, wanted, opaque_names(namespace))
        except RecursionError:
            return tuple(each.code for each in ran if each.state == "done")

    def receipt(
        self,
        variables: tuple[VariableChange, ...],
        proposals: int,
        *,
        files: Iterable[FileChange] = (),
        context: str = "",
        usage: Usage | None = None,
        cost: Decimal | None = None,
        seconds: float | None = None,
    ) -> Receipt:
        """The receipt: the turn's changes, its cost, and the sources of its answer's numbers.

        Args:
            variables: The changes of the user's variables.
            proposals: The number of cells that it offers.
            files: Changes found in the workspace; files that the tools wrote are skipped, since
                the tools have counted those changes.
            context: The context of the kernel that the model read with the task.
            usage: The tokens of its model calls.
            cost: Their price in US dollars; None if it is unknown or was not paid.
            seconds: The turn's duration; None if it means nothing, as in a replay.
        """
        described = "\n".join([context, *(f"{v.name}: {v.summary}" for v in variables)])
        self.index.add(Source(described, "variable"))
        changed = {change.path: change for change in files} | self._files
        return Receipt(
            variables,
            tuple(changed.values()),
            proposals,
            tuple(self._saved),
            self._numbers(),
            self._steps + self._calls_beside_steps,
            usage or Usage(),
            cost,
            seconds,
            tuple(self._cells),
        )

    def _numbers(self) -> tuple[Grounded, ...]:
        """The answer's numbers; those from a span that varies from run to run are marked so."""
        numbers = grounded(self.text, self.index)
        if not self._own.varying:
            return numbers
        varying = {
            (number.start, number.call_id)
            for number in grounded(self.text, self._own.varying)
            if number.seen in ("output", "weak")
        }
        return tuple(
            replace(number, varies=(number.start, number.call_id) in varying) for number in numbers
        )

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls so far, those of delegates among them."""
        return list(self._calls.values())

    @property
    def written(self) -> list[str]:
        """The paths of the files that its tools have created or changed so far."""
        return [change.path for change in self._files.values() if change.kind != "deleted"]

    def _note_check(self, event: Event) -> None:
        """Note the code of a delegate that checks the answer: what it saw is no source of it."""
        if isinstance(event, MessageFinished):
            self.ran += [code for code in map(_code, event.message.tool_calls) if code]

    def _note_delegated(self, delegated: Delegated) -> None:
        """Note what a delegate saw and changed. What its names were bound to is its own."""
        event, call_id = delegated.event, delegated.call_id
        self._delegates.setdefault(call_id, LiveTranscript())(event)
        if isinstance(event, MessageFinished):
            calls = event.message.tool_calls
            self._calls.update({f"{call_id}/{call.id}": call for call in calls})
        elif isinstance(event, ToolFinished):
            result = event.result
            for text in _seen(result):
                self.index.add(Source(text, "output", self._steps, call_id))
            call = self._calls.get(f"{call_id}/{result.call_id}")
            if _has_run(result) and (code := _code(call)):
                self.ran.append(code)
                self.index.add(Source(code, "code", self._steps, call_id))
            if not result.is_error:
                self._note_details(result.details)

    def _note_result(self, result: ToolResult) -> None:
        call = self._calls.get(result.call_id)
        self._note_sources(call, result)
        for made in result.details.get("calls", ()):  # made by the code that ran
            self._note_details(made.get("details", {}))
        if call is not None:
            delegate = self._delegates.get(call.id)
            view = delegate.view if delegate else None
            self._own.results.append(CallView(call, "done", result, delegate=view))
        if not result.is_error:
            self._note_details(result.details)

    def _note_sources(self, call: ToolCall | None, result: ToolResult) -> None:
        """Index the numbers of a result and of its code, but not those of echoed arguments."""
        if varying := result.details.get(VARYING):
            text = "\n".join(map(str, varying))
            self._own.varying.append(Source(text, "output", self._steps, result.call_id))
        # A delegate's report is a model's word: what it saw itself counts.
        for text in () if call is not None and call.name == DELEGATE else _seen(result):
            self.index.add(Source(text, "output", self._steps, result.call_id))
        details = result.details
        if _has_run(result) and (code := _code(call)):
            self.ran.append(code)
            if details.get("scratch") and not self._attempt:
                self._own.others.update(details["kept"])
            elif (parsed := parse_cell(code)) is not None:  # now: its tree is still at hand
                loops, others = loop_names(parsed[1])
                self._own.loops |= loops
                self._own.others |= others
            self.index.add(Source(code, "code", self._steps, result.call_id))

    def _note_details(self, details: JsonObject) -> None:
        if saved := details.get("saved"):
            self._saved.append(SavedMemory(saved["kind"], saved["title"], saved["path"]))
        for made in details.get("cells", ()):
            lines = made["lines_added"], made["lines_removed"]
            self._cells.append(CellChange(made["title"], made["edit"], *lines))
        self._note_file(details)

    def _note_file(self, details: JsonObject) -> None:
        path, change = details.get("path"), details.get("change")
        if not isinstance(path, str) or change not in ("created", "changed", "deleted"):
            return
        added, removed = details.get("lines_added", 0), details.get("lines_removed", 0)
        merged = _merged(self._files.pop(path, None), FileChange(path, change, added, removed))
        if merged is not None:
            self._files[path] = merged


_LINE_NUMBER = re.compile(r"^ *[0-9]+\|", re.MULTILINE)
_RAN = ("done", "failed", "interrupted", "timed_out")


def _names(text: str, variable: str) -> bool:
    """True if a text names a variable; of a single letter only as code, since `a` is a word."""
    name = re.escape(variable)
    pattern = rf"\b{name}\b" if len(variable) > 1 else rf"`[^`\n]*\b{name}\b[^`\n]*`"
    return re.search(pattern, text) is not None


def _merged(before: FileChange | None, latest: FileChange) -> FileChange | None:
    """Two changes of one file in a turn as one; None if it was created and deleted."""
    if before is None:
        return latest
    if before.kind == "created" and latest.kind == "deleted":
        return None
    kind = latest.kind
    if latest.kind != "deleted":
        kind = "changed" if before.kind == "deleted" else before.kind
    return replace(
        latest,
        kind=kind,
        lines_added=before.lines_added + latest.lines_added,
        lines_removed=before.lines_removed + latest.lines_removed,
    )


def _seen(result: ToolResult) -> Iterator[str]:
    """The outputs that the user sees, else the text that the model read.

    Diffs and errors are no sources: a diff shows the model's own text, an error may quote its code.
    """
    shown = [o for o in result.display if o.kind in ("stdout", "stderr", "result", "display")]
    if shown:
        yield from (str(o.data["text/plain"]) for o in shown if "text/plain" in o.data)
    elif not result.display and not result.is_error and "change" not in result.details:
        yield _LINE_NUMBER.sub("", result.text)


def _has_run(result: ToolResult) -> bool:
    """True if the call's code ran, at least in part."""
    return result.details.get("state") in _RAN and result.details.get("ran") is not False


def _code(call: ToolCall | None) -> str:
    if call is None or call.name != "execute_code":
        return ""
    try:
        return str(json.loads(call.arguments)["code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
