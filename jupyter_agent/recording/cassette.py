"""Cassettes: files with the recorded turns of a notebook, one JSON object on each line.

    {"cassette": 2, "package": …, "provider": …, "model": …, "source": "recorded" | "scripted"}

    {"kind": "turn", "digest": …, "task": …, "before": …, "runs": 2, "prompt": {…}}
    {"kind": "step", "reply": {…}, "results": [{"tool": …, "text": "took ⟨3.21⟩ s"}], …}
    {"kind": "step", "reply": {…}}
    {"kind": "end", "digest": …, "variables": […], "files": […]}

A turn is a block of lines with a blank line before it: its own line, one line for each model call,
and one for what it left behind. It depends on no other turn, so that a cell can be recorded again
and branches can be merged. `digest` covers all of its lines; the marks of varying spans are left
out, so that a person may add them. The last line repeats it: no two turns end with the same line,
so that git keeps the blocks of two branches whole.

Later versions may add fields, which older ones ignore. A new kind of line has `"optional": true`
if a replay is right without it; otherwise this version refuses the file.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from jupyter_agent.core.codec import event_from_json, event_to_json
from jupyter_agent.core.events import (
    ApprovalAnswer,
    Decider,
    FileChange,
    MessageFinished,
    VariableChange,
)
from jupyter_agent.core.messages import (
    Image,
    JsonObject,
    Output,
    Text,
    clean,
    is_answered_elsewhere,
)
from jupyter_agent.core.redact import redact, redact_json, secret_values
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.recording.trusted import trust_turns, trusted_turns
from jupyter_agent.recording.varying import OPEN, marked, spans, unmarked
from jupyter_agent.version import __version__

FORMAT = 2
Source = Literal["recorded", "scripted"]
SOURCES = ("recorded", "scripted")
_RECORD = "Record it anew: jupyter agent record NOTEBOOK"


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision about one call of a reply.

    Args:
        call: The number of the call, from 0.
        question: The question that was asked.
        reasons: The reasons for it, in words.
        answer: The answer.
        by: Who gave it.
        reason: The user's words with a no.
        always: The calls that "always" would have covered; the model reads it in a refusal.
        effect: The kind of the side effect that was asked about while the call ran; empty for the
            question whether it may run.
        preview: What the user saw of the call's effect: the difference that a write makes.
        rejected: The parts of the call, from 0, that a yes left out.
    """

    call: int
    question: str
    reasons: tuple[str, ...]
    answer: ApprovalAnswer
    by: Decider
    reason: str = ""
    always: str = ""
    effect: str = ""
    preview: tuple[Output, ...] = ()
    rejected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """The result of one tool call.

    Args:
        tool: The tool's name.
        arguments: The digest of its arguments.
        text: The text that the model read, in the compared form, with its varying spans marked.
        call: The number of the call in the reply, from 0; -1 for a call that running code made.
        shown: The outputs that the user saw, if they cannot be made again from `text`. Only the
            outputs by their numbers; their texts have marks.
        is_error: True if the tool failed.
        given: The whole result, for tools that a replay does not run, or that find their own files.
        path: The file, relative to the workspace; empty if the call names none.
        before: The digest of the file before the call; empty if it did not exist.
        after: The digest of the file after the call; empty if it did not exist.
    """

    tool: str
    arguments: str
    text: str = ""
    call: int = -1
    shown: dict[int, dict[str, str]] = field(default_factory=dict)
    is_error: bool = False
    given: GivenResult | None = None
    path: str = ""
    before: str = ""
    after: str = ""

    @property
    def is_from_elsewhere(self) -> bool:
        """True if the result is an MCP server's, a page's, a person's or their own memory's."""
        return is_answered_elsewhere(self.tool)


@dataclass(frozen=True, slots=True)
class GivenResult:
    """A result that a replay gives as it was recorded: what model, user and log got."""

    content: tuple[Text | Image, ...] = ()
    display: tuple[Output, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedVariable:
    """A variable that the turn changed. `summary` has its varying spans marked."""

    name: str
    kind: Literal["added", "changed", "mutated", "deleted"]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file that the turn changed; the kind `same`: it was rewritten with equal content.

    `digest` is that of the content after the turn; empty if it does not exist, or is large.
    `varies` is True if each run leaves another content.
    """

    path: str
    kind: Literal["created", "changed", "deleted", "same"]
    lines_added: int = 0
    lines_removed: int = 0
    digest: str = ""
    varies: bool = False


@dataclass(frozen=True, slots=True)
class PromptFingerprint:
    """Digests of a turn's system prompt and tools. A replay with others shows a notice.

    `tokens` is their number of tokens, so that a replay shortens the conversation at the same
    place as the recording, even with other tools or without the servers. 0: unknown.
    """

    system: str
    tools: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed try of a model call; `had_spoken` is True if a part of a reply had arrived."""

    reason: str
    had_spoken: bool = False


@dataclass(frozen=True, slots=True)
class RecordedSummary:
    """A model's summary of earlier steps, or the reason why it wrote none."""

    reply: MessageFinished | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One model call of a turn, and what followed it.

    Args:
        reply: The model's reply.
        said: The lines that the user typed before the call.
        summaries: The model's summaries, where the conversation was shortened before the call.
        shortened: True if it was shortened, by a model or without one.
        overflow: True if the model refused the conversation as too long at first.
        retries: The tries that failed before.
        decisions: The user's decisions about the reply's calls.
        results: The results of its calls.
        said_after: Lines typed too late for any further call.
        schemas: The schemas of the MCP tools that the reply calls.
    """

    reply: MessageFinished
    said: tuple[str, ...] = ()
    summaries: tuple[RecordedSummary, ...] = ()
    shortened: bool = False
    overflow: bool = False
    retries: tuple[Retry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    results: tuple[RecordedResult, ...] = ()
    said_after: tuple[str, ...] = ()
    schemas: Mapping[str, JsonObject] = field(default_factory=dict)

    def result(self, call: int) -> RecordedResult | None:
        """The result of the reply's call with this number."""
        return next((result for result in self.results if result.call == call), None)


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A recorded turn.

    Args:
        task: The task in the compared form.
        before: The digest of the conversation before it.
        steps: Its model calls.
        prompt: Digests of its system prompt and tools.
        source: Where its replies come from; None: as the cassette's header says.
        runs: How often its code ran while it was recorded. After one run it is not known what
            varies.
        variables: The variables that it changed.
        files: The files that it changed.
        line: The number of its first line in the file; 0 if it was not read from one.
        digest: The digest of its lines in the file; empty if it was not read from one.
        others: Lines of kinds that this version does not know, which it keeps.
        of: The task of the turn whose delegate this conversation is; empty for a turn of a cell.
    """

    task: str
    before: str = ""
    steps: tuple[RecordedStep, ...] = ()
    prompt: PromptFingerprint | None = None
    source: Source | None = None
    runs: int = 1
    variables: tuple[RecordedVariable, ...] = ()
    files: tuple[FileState, ...] = ()
    line: int = field(default=0, compare=False)
    digest: str = field(default="", compare=False)
    others: tuple[str, ...] = ()
    of: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """What tells the turn from others: the conversation before it, and its task."""
        return self.before, self.task

    def varying(self) -> list[tuple[int, str]]:
        """The marked lines of its results, each with the number of its step from 1.

        A line of a rich output counts if it has a span that no line before it has. Variables of
        the receipt follow as step 0.
        """
        found = []
        for number, step in enumerate(self.steps, 1):
            known: set[str] = set()
            for line, is_shown in _lines_of(step.results):
                varying = set(spans(line))
                if varying - known or (varying and not is_shown):
                    found.append((number, line))
                known |= varying
        varying_variables = (each for each in self.variables if spans(each.summary))
        return [*found, *((0, f"{each.name}: {each.summary}") for each in varying_variables)]


def _lines_of(results: Iterable[RecordedResult]) -> Iterator[tuple[str, bool]]:
    """The lines of results, each with True if it belongs to a rich output."""
    for result in results:
        yield from ((line, False) for line in result.text.split("\n"))
        shown = (text for texts in result.shown.values() for text in texts.values())
        yield from ((line, True) for text in shown for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class Cassette:
    """All recorded turns of a notebook, in its order."""

    provider: str
    model: str
    source: Source
    turns: tuple[RecordedTurn, ...] = ()

    @property
    def replies(self) -> int:
        return sum(len(turn.steps) for turn in self.turns)

    def with_turn(self, turn: RecordedTurn, written: Collection[tuple[str, str]]) -> Cassette:
        """The cassette with a turn replaced or added, without the delegates of before.

        Replaces the turn of the same conversation, else one with the same task, but never one
        that this session has recorded itself (`written` lists their places): a notebook may
        contain the same task twice.
        """
        index = self._index(turn, written)
        if index is None:
            place = self._after_kin(turn)
            turns = (*self.turns[:place], turn, *self.turns[place:])
        else:
            turns = (*self.turns[:index], turn, *self.turns[index + 1 :])
        if not turn.of:
            turns = tuple(e for e in turns if e.of != turn.task or e.place in written)
        return replace(self, turns=turns)

    def _after_kin(self, turn: RecordedTurn) -> int:
        """The place of a new turn: the end, of a delegate after its turn and that one's others."""
        kin = [n for n, each in enumerate(self.turns, 1) if turn.of in (each.of, each.task)]
        return kin[-1] if turn.of and kin else len(self.turns)

    def _index(self, turn: RecordedTurn, written: Collection[tuple[str, str]]) -> int | None:
        times = sum(place == turn.place for place in written)
        alike = [(n, each) for n, each in enumerate(self.turns) if each.of == turn.of]
        same = [number for number, each in alike if each.place == turn.place]
        if len(same) > times:
            return same[times]
        for number, each in alike:
            if each.task == turn.task and each.place not in written:
                return number
        return None


# ---- reading -------------------------------------------------------------------------------------


def load(path: Path) -> Cassette:
    """Read a cassette.

    Raises:
        ConfigError: It cannot be read, a line is damaged, or a turn is not as it was recorded; with
            the file and the line.
    """
    lines = _lines(path)
    header = _header(path, lines)
    turns: list[RecordedTurn] = []
    block: list[tuple[int, JsonObject, str]] = []
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        value = _object(path, number, line)
        if value.get("kind") == "turn" and block:
            turns.append(_turn(path, block))
            block = []
        block.append((number, value, line))
    if block:
        turns.append(_turn(path, block))
    return replace(header, turns=tuple(turns))


def _lines(path: Path) -> list[str]:
    # Reading a pipe would block, and a device has no end.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(f"{path.name} is no file. Move it away, or name another cassette.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"There is no cassette {path.name}. Record one with mode: record."
        ) from None
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path.name}, line {number}: the cassette cannot be read, since this is not UTF-8. "
            "Restore the file or record the notebook anew."
        ) from None
    except OSError as error:
        raise ConfigError(f"The cassette {path.name} cannot be read: {error}.") from None
    # Not splitlines(): JSON leaves U+2028 and U+0085 inside of a line.
    return [line.strip() for line in text.split("\n")]


def _header(path: Path, lines: Sequence[str]) -> Cassette:
    try:
        data = json.loads(lines[0])
        version = data["cassette"]
        header = Cassette(str(data["provider"]), str(data["model"]), data["source"])
        if header.source not in SOURCES or not isinstance(version, int):
            raise ValueError
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise ConfigError(
            f"{path.name} is no cassette: its first line is not a cassette header. Record it anew."
        ) from None
    if version > FORMAT:
        raise ConfigError(
            f"{path.name} has cassette format {version}; this version of the package reads up to "
            f"{FORMAT}. Update jupyter-agent-magics."
        )
    if version < FORMAT:
        raise ConfigError(
            f"{path.name} has cassette format {version}, which answered what was not asked, and "
            f"is not read any more. {_RECORD}"
        )
    return header


def _object(path: Path, number: int, line: str) -> JsonObject:
    try:
        value = json.loads(line)
        if isinstance(value, dict):
            return value
    except (ValueError, RecursionError):
        pass
    raise _damaged(path, number, "not a line of a cassette (damaged, or a merge conflict)")


def _damaged(path: Path, number: int, what: str) -> ConfigError:
    return ConfigError(
        f"{path.name}, line {number}: {what}. Restore the file or record the notebook anew."
    )


def _turn(path: Path, block: Sequence[tuple[int, JsonObject, str]]) -> RecordedTurn:
    """The turn of a block of lines, each with its number and its text."""
    first, head, _ = block[0]
    if head.get("kind") != "turn":
        raise _damaged(path, first, "no turn begins here (a line is missing, or is out of place)")
    known = [each for each in block if each[1].get("kind") in ("turn", "step", "end")]
    others = [each for each in block if each[1].get("kind") not in ("turn", "step", "end")]
    for number, value, _ in others:
        if value.get("optional") is not True:
            raise ConfigError(
                f"{path.name}, line {number}: this version of the package does not know lines of "
                f"the kind {value.get('kind')!r}. Update jupyter-agent-magics."
            )
    for place, (number, value, _) in enumerate(known):
        is_end = place == len(known) - 1
        wanted = "turn" if place == 0 else "end" if is_end else "step"
        if value["kind"] != wanted:
            raise _damaged(
                path, number, "the lines of a turn are not whole (one is missing, or comes twice)"
            )
    if len(known) < 3:
        raise _damaged(
            path, first, "the lines of a turn are not whole (its replies or its end are missing)"
        )
    digest = _digest(value for _, value, _ in known)
    for number, value in ((first, head), (known[-1][0], {**head, **known[-1][1]})):
        if not digest or value.get("digest") != digest:
            raise _damaged(
                path,
                number,
                "this turn is not as it was recorded (a line was edited, exchanged or taken away)",
            )
    readers = (_HEAD.validate_python, *(_step for _ in known[1:-1]), _END.validate_python)
    read: list[Any] = []
    for (number, value, _), reader in zip(known, readers, strict=True):
        try:
            read.append(reader(value))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            raise _damaged(path, number, "not what a cassette holds there") from None
    opening, *steps, ending = read
    unknown = tuple(text for *_, text in others)
    turn = RecordedTurn(steps=tuple(steps), line=first, others=unknown, **opening, **ending)
    return replace(turn, digest=digest)


@dataclass(frozen=True)
class _Head:
    task: str
    before: str = ""
    prompt: PromptFingerprint | None = None
    source: Source | None = None
    runs: int = 1
    of: str = ""


class _Fields:
    """Reads the fields of a dataclass from JSON; ignores others."""

    def __init__(self, shape: type) -> None:
        self._shape = shape

    def validate_python(self, value: JsonObject) -> dict[str, Any]:
        read = _adapter(self._shape).validate_python(dict(value))
        return {each.name: getattr(read, each.name) for each in fields(self._shape)}


@dataclass(frozen=True)
class _End:
    variables: tuple[RecordedVariable, ...] = ()
    files: tuple[FileState, ...] = ()


_HEAD, _END = _Fields(_Head), _Fields(_End)


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(shape: type) -> TypeAdapter[Any]:
    """The reader and writer of a dataclass, made at first use."""
    if shape not in _ADAPTERS:
        _ADAPTERS[shape] = TypeAdapter(shape)
    return _ADAPTERS[shape]


def _step(value: JsonObject) -> RecordedStep:
    reply = _reply(value["reply"])
    rest = {key: item for key, item in value.items() if key not in ("reply", "summaries")}
    read = _adapter(_Step).validate_python(rest)
    summaries = tuple(
        RecordedSummary(_reply(each["reply"]) if "reply" in each else None, each.get("error", ""))
        for each in value.get("summaries", ())
    )
    calls = len(reply.message.tool_calls)
    for numbers in (
        [decision.call for decision in read.decisions if not decision.effect],
        [result.call for result in read.results if result.call != -1],
    ):
        if len(numbers) != len(set(numbers)) or not set(numbers) <= set(range(calls)):
            raise ValueError
    others = {each.name: getattr(read, each.name) for each in fields(_Step)}
    return RecordedStep(reply, summaries=summaries, **others)


@dataclass(frozen=True)
class _Step:
    said: tuple[str, ...] = ()
    shortened: bool = False
    overflow: bool = False
    retries: tuple[Retry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    results: tuple[RecordedResult, ...] = ()
    said_after: tuple[str, ...] = ()
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)


def _reply(value: Any) -> MessageFinished:
    reply = event_from_json({"type": "message_finished", **value})
    if not isinstance(reply, MessageFinished):
        raise ValueError
    return reply


# ---- writing -------------------------------------------------------------------------------------


def save(cassette: Cassette, path: Path) -> list[str]:
    """Write a cassette atomically, without secrets. Returns the digests of its turns."""
    secrets = secret_values()
    source = _weakest_source(cassette)
    header = {
        "cassette": FORMAT,
        "package": __version__,
        "provider": cassette.provider,
        "model": cassette.model,
        "source": source,
    }
    blocks = [[_text(redact_json(header, secrets))]]
    digests = []
    for turn in cassette.turns:
        sourced = replace(turn, source=_if_other(turn.source or cassette.source, source))
        rows = [redact_json(row, secrets) for row in _rows(sourced)]
        rows[0] = {"kind": "turn", "digest": _digest(rows), **rows[0]}
        rows[-1] = {"kind": "end", "digest": rows[0]["digest"], **rows[-1]}
        digests.append(str(rows[0]["digest"]))
        blocks.append([*map(_text, rows[:-1]), *turn.others, _text(rows[-1])])
    text = "\n\n".join("\n".join(block) for block in blocks) + "\n"
    atomic_write(path, clean(text).encode("utf-8"))
    return digests


def _if_other(source: Source, header: Source) -> Source | None:
    return None if source == header else source


def _text(row: JsonObject) -> str:
    return clean(json.dumps(row, ensure_ascii=False))


def _weakest_source(cassette: Cassette) -> Source:
    """`scripted` if any turn is: the header claims only what holds for all."""
    sources = {turn.source or cassette.source for turn in cassette.turns}
    return "scripted" if "scripted" in (sources or {cassette.source}) else "recorded"


def _rows(turn: RecordedTurn) -> list[dict[str, Any]]:
    """The lines of a turn, without its digest."""
    head = _Head(turn.task, turn.before, turn.prompt, turn.source, turn.runs, turn.of)
    ending = _End(turn.variables, turn.files)
    rows: list[dict[str, Any]] = [{"kind": "turn", **_brief(head), "task": turn.task}]
    for step in turn.steps:
        row: dict[str, Any] = {"kind": "step", "reply": _reply_json(step.reply)}
        if step.summaries:
            row["summaries"] = [
                {"reply": _reply_json(each.reply)} if each.reply else {"error": each.error}
                for each in step.summaries
            ]
        rest = _Step(**{each.name: getattr(step, each.name) for each in fields(_Step)})
        rows.append({**row, **_brief(rest)})
    return [*rows, {"kind": "end", **_brief(ending)}]


def _reply_json(reply: MessageFinished) -> dict[str, Any]:
    value = event_to_json(reply)
    del value["type"]
    if reply.model_calls == 1:
        del value["model_calls"]
    return value


def _brief(value: Any) -> dict[str, Any]:
    """A dataclass as JSON, without the fields that have their default values."""
    read: dict[str, Any] = _adapter(type(value)).dump_python(
        value, mode="json", exclude_defaults=True
    )
    return read


def _digest(rows: Iterable[JsonObject]) -> str:
    """The digest of a turn's lines. It is the same with and without the marks of what varies.

    Empty if they are nested too deeply.
    """
    try:
        plain = [
            json.dumps(_without_marks(row), sort_keys=True, ensure_ascii=False) for row in rows
        ]
    except RecursionError:
        return ""
    return hashlib.sha256(clean("\n".join(plain)).encode("utf-8")).hexdigest()[:32]


def _without_marks(row: JsonObject) -> JsonObject:
    """A line without its digest, and without marks in the fields that may have them."""
    return {
        key: [_plain(each) for each in item]
        if key in ("results", "variables") and isinstance(item, list)
        else item
        for key, item in row.items()
        if key != "digest"
    }


def _plain(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    marking = ("text", "shown", "summary")
    return {key: _unmarked(item) if key in marking else item for key, item in entry.items()}


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items()}
    return unmarked(value) if isinstance(value, str) and OPEN in value else value


def record(
    path: Path, blank: Cassette, turn: RecordedTurn, written: Collection[tuple[str, str]]
) -> None:
    """Put one turn into the cassette at `path`, which is made if it does not exist.

    `blank` is an empty cassette with the provider and model. The header of a cassette with
    scripted replies says `scripted` until the last of them is recorded again. The turn is trusted,
    and so are the others that were before.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    try:
        lock = Path(tempfile.gettempdir()) / f"jupyter_agent-{key}.lock"
        with FileLock(lock, timeout=10, mode=0o600):
            present = load(path) if path.exists() else blank
            known = trusted_turns([path])
            new = replace(turn, source=turn.source or blank.source, digest="")
            updated = present.with_turn(new, written)
            kept = replace(
                updated,
                provider=blank.provider,
                model=blank.model,
                turns=tuple(
                    replace(each, source=each.source or present.source) for each in updated.turns
                ),
            )
            own = [
                digest
                for each, digest in zip(updated.turns, save(kept, path), strict=True)
                if each is new or each.digest in known
            ]
            trust_turns(path, own, is_all=len(own) == len(updated.turns))
    except (OSError, Timeout) as error:
        raise ConfigError(
            f"The turn is done, but it could not be recorded in {path.name}: "
            f"{getattr(error, 'strerror', None) or 'another kernel holds it'}. "
            "It is tried again with the next turn."
        ) from None


def without_secrets(cassette: Cassette) -> Cassette:
    """The cassette without this machine's secrets, as this run's texts are compared."""
    secrets = [value for value in secret_values() if value]

    def clear(text: str) -> str:
        return redact(text, secrets) if any(value in text for value in secrets) else text

    def clear_step(step: RecordedStep) -> RecordedStep:
        results = (replace(result, text=clear(result.text)) for result in step.results)
        said = tuple(map(clear, step.said))
        return replace(step, results=tuple(results), said=said)

    if not secrets:
        return cassette
    turns = (
        replace(turn, task=clear(turn.task), steps=tuple(map(clear_step, turn.steps)))
        for turn in cassette.turns
    )
    return replace(cassette, turns=tuple(turns))


def variables_of(changes: Iterable[VariableChange]) -> tuple[RecordedVariable, ...]:
    """The changes of variables as they are recorded."""
    return tuple(
        RecordedVariable(each.name, each.kind, marked([(each.summary, False)])) for each in changes
    )


def change_of(state: FileState) -> FileChange | None:
    """The change that a recorded state was; None for a file that kept its content."""
    if state.kind == "same":
        return None
    return FileChange(state.path, state.kind, state.lines_added, state.lines_removed)
