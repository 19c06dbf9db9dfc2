"""Tool results as a cassette keeps them, and as a replay shows them."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_agent.core.data_tables import is_frame
from jupyter_agent.core.displays import WIDGET
from jupyter_agent.core.messages import (
    ASK_USER,
    Image,
    Output,
    Text,
    ToolCall,
    ToolResult,
    is_answered_elsewhere,
    is_bitmap,
)
from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.redact import MARK
from jupyter_agent.core.tool import Prepared
from jupyter_agent.core.transcript import is_rich
from jupyter_agent.errors import ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.wire import arguments_object
from jupyter_agent.recording.cassette import GivenResult, RecordedResult
from jupyter_agent.recording.comparison import (
    TEMPORARY_FOLDER,
    exact_json,
    has_own_words,
    neutral,
    neutral_display,
    result_text,
    with_texts,
)
from jupyter_agent.recording.files import digest
from jupyter_agent.recording.varying import Span, kind, marked, match, spans, unmarked

GIVEN = frozenset(
    {"write_file", "edit_file", "read_file", "describe_file", "search_files"}
    | {"record_note", "workspace_save_memory"}
)
"""The tools whose second run would find the files or notes of the first one."""
_NOTING = frozenset({"read_file", "write_file", "edit_file"})
"""The tools whose results name a file that the agent knows from then on."""
VARYING = "varying"
"""The detail of a result with the texts in it that vary from run to run."""
_INERT = frozenset({"text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})
_LONGEST_SHOWN = 50_000
"""Characters of one rich output that a cassette keeps."""
_ERROR = "error: "


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies a tool call.

    `path` and `before` are the file that it names, and that file's digest. `is_redacted` is True if
    a secret was removed from the arguments before they were recorded, so that they are not the
    model's own.
    """

    tool: str
    arguments: str
    path: str = ""
    before: str = ""
    is_redacted: bool = False


def call_key(workspace: Workspace, asked: Prepared | ToolCall) -> CallKey:
    """The key of a call, with the state of its file before the run."""
    call = asked.call if isinstance(asked, Prepared) else asked
    values = arguments_object(call)
    compared = exact_json(values, workspace.root)
    arguments = hashlib.sha256(compared.encode("utf-8", "replace")).hexdigest()[:16]
    path = values.get("path")
    if not isinstance(path, str) or call.name not in GIVEN:
        return CallKey(call.name, arguments)
    try:
        relative = workspace.relative(workspace.resolve(path))
    except ToolError:
        return CallKey(call.name, arguments)
    is_redacted = MARK in call.arguments
    return CallKey(call.name, arguments, relative, digest(workspace, relative), is_redacted)


def noted(key: CallKey, result: ToolResult, number: int, workspace: Workspace) -> RecordedResult:
    """A result as it is recorded.

    Args:
        key: The key of its call, from before the run.
        result: The result.
        number: The number of the call in the reply; -1 for a call that running code made.
        workspace: The workspace of the tools.
    """
    after = digest(workspace, key.path) if key.path else ""
    text = result_text(result, workspace.root)
    is_from_file = any(isinstance(block, Image) for block in result.content)
    is_given = is_answered_elsewhere(key.tool) or (key.tool in GIVEN and not is_from_file)
    return RecordedResult(
        key.tool,
        key.arguments,
        "" if is_given and not text else marked([(text, False)]),
        number,
        {} if is_given else _shown(result, workspace.root),
        result.is_error,
        GivenResult(result.content, result.display, dict(result.details)) if is_given else None,
        key.path,
        key.before,
        after,
    )


def _shown(result: ToolResult, root: Path) -> dict[int, dict[str, str]]:
    """The texts of rich outputs and of tables, which the result's text does not have."""
    found = {}
    for number, output in enumerate(neutral_display(result.display, root)):
        texts = {
            name: marked([(_written(value), False)])
            for name, value in output.data.items()
            if name not in ("text/plain", WIDGET) and not is_bitmap(name)
        }
        if (
            texts
            and (is_rich(output) or is_frame(output))
            and sum(map(len, texts.values())) <= _LONGEST_SHOWN
        ):
            found[number] = texts
    return found


def _written(value: Any) -> str:
    """The value of an output as text: JSON, if it is none."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def given(call_id: str, recorded: RecordedResult, path: str = "") -> ToolResult:
    """A recorded result, for tools that a replay does not run.

    A cassette may be somebody else's: what its details say of a file counts as read or written, so
    they tell of the call's own file or of none. An answer of the person's is text alone.

    Args:
        call_id: The call.
        recorded: Its recorded result.
        path: The file that the call reads or writes; empty for none.
    """
    whole = recorded.given or GivenResult()
    content, display, details = whole.content, whole.display, dict(whole.details)
    if recorded.tool == ASK_USER:
        content = tuple(block for block in content if isinstance(block, Text))
        display = ()
        details = {key: str(details[key]) for key in ("answer", "by") if key in details}
    if recorded.tool not in _NOTING or details.get("path") != path:
        details.pop("path", None)
    return ToolResult(call_id, content, recorded.is_error, display, details)


def inert_display(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """Outputs without anything that a page could run: their plain texts and pictures."""
    plain = (
        replace(one, data={kind: data for kind, data in one.data.items() if kind in _INERT})
        for one in outputs
    )
    return tuple(one for one in plain if one.data)


def as_recorded(
    recorded: RecordedResult, result: ToolResult, today: Today
) -> tuple[ToolResult, bool]:
    """The result of a run, shown as it was recorded if it differs only in what varies.

    Args:
        recorded: The recorded result.
        result: The result of this run.
        today: Takes in today's names of recorded temporary files and identifiers.

    Returns:
        The result to show, and True if it is as recorded.
    """
    shown = today.result(result)
    now = result_text(shown, today.root)
    found = match(recorded.text, now)
    neutral_shown = replace(shown, display=neutral_display(shown.display, today.root))
    if found is None or has_own_words(result):
        return neutral_shown, found is not None
    today.learn(found)
    lines = _Lines(now, unmarked(recorded.text))
    content = tuple(
        Text(lines.restored(neutral(block.text, today.root))) if isinstance(block, Text) else block
        for block in shown.content
    )
    lines.rewind()
    display = tuple(
        _as_text_if_varying(
            replace(output, data=_data(output.data, lines, recorded.shown.get(number, {}))), output
        )
        for number, output in enumerate(neutral_shown.display)
    )
    details: Mapping[str, Any] = shown.details
    if varying := spans(recorded.text):
        details = {**details, VARYING: list(varying)}
    return replace(shown, content=content, display=display, details=details), True


def _as_text_if_varying(shown: Output, now: Output) -> Output:
    """A table as its recorded text if that differs from today's and its HTML was not recorded."""
    is_varying = shown.data.get("text/plain") != plain(str(now.data.get("text/plain")))
    if is_frame(now) and is_varying and shown.data["text/html"] == now.data["text/html"]:
        return replace(
            shown, data={kind: one for kind, one in shown.data.items() if kind != "text/html"}
        )
    return shown


def _data(data: Mapping[str, Any], lines: _Lines, recorded: Mapping[str, str]) -> dict[str, Any]:
    """The data of an output with recorded texts in place of those that vary."""

    def restored(name: str, value: Any) -> Any:
        if name == "text/plain" and isinstance(value, str):
            return lines.restored(plain(value))  # as it is shown: of a progress bar the end
        then = recorded.get(name)
        if then is None or match(then, _written(value)) is None:
            return value
        return unmarked(then) if isinstance(value, str) else json.loads(unmarked(then))

    return {name: restored(name, value) for name, value in data.items()}


class _Lines:
    """The lines of a result with the recorded line for each."""

    def __init__(self, now: str, recorded: str) -> None:
        pairs = zip(_body(now), _body(recorded), strict=True)
        self._pairs = list(pairs)
        self._place = 0

    def rewind(self) -> None:
        """Start at the first line again."""
        self._place = 0

    def restored(self, text: str) -> str:
        """A text of the result with the recorded lines; its lines are looked for in their order."""
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if not line.strip():
            return line
        for place in range(self._place, len(self._pairs)):
            now, recorded = self._pairs[place]
            for prefix in ("", "[stderr] "):
                if now == prefix + line:
                    self._place = place + 1
                    return recorded.removeprefix(prefix)
        return line


def _body(text: str) -> Iterator[str]:
    yield from text.removeprefix(_ERROR).split("\n")


class Today:
    """The names of temporary files and identifiers of this run, for those of the recording.

    A recorded call may name what an earlier result showed: a folder of `tempfile.mkdtemp()`, or a
    UUID. It runs with this run's value, and its result shows the recorded one.

    Args:
        root: The workspace's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._now: dict[str, str] = {}

    def learn(self, found: Sequence[Span]) -> None:
        """Note the spans of a matched result that later calls may name."""
        for span in found:
            if span.recorded == span.now:
                continue
            if kind(span.recorded) == "uuid" or _is_plain_path(span.now):
                self._now[span.recorded] = span.now

    def call(self, prepared: Prepared) -> Prepared:
        """The call with this run's names in its arguments."""
        if not self._now:
            return prepared
        values = self._in_values(dict(arguments_object(prepared.call)))
        text = json.dumps(values, ensure_ascii=False)
        if values == arguments_object(prepared.call):
            return prepared
        arguments = prepared.tool.arguments.model_validate_json(text)
        return replace(prepared, call=replace(prepared.call, arguments=text), arguments=arguments)

    def _in_values(self, value: Any) -> Any:
        if isinstance(value, str):
            text = value
            for recorded, now in self._now.items():
                text = _pattern(recorded).sub(lambda _, now=now: _real(now), text)  # type: ignore[misc]
            return text
        if isinstance(value, Mapping):
            return {key: self._in_values(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._in_values(item) for item in value]
        return value

    def recorded(self, text: str) -> str:
        """A text with the recorded names for those of this run."""
        for recorded, now in self._now.items():
            text = _pattern(now).sub(lambda _, then=recorded: then, text)  # type: ignore[misc]
        return text

    def result(self, result: ToolResult) -> ToolResult:
        """The result of this run with the recorded names."""
        if not self._now:
            return result
        content = tuple(
            Text(self.recorded(block.text)) if isinstance(block, Text) else block
            for block in result.content
        )
        display = with_texts(result.display, lambda _, text: self.recorded(text))
        return replace(result, content=content, display=display)


_PREFIX = "<tmp>"


def _pattern(name: str) -> re.Pattern[str]:
    """Finds a name in a text, with or without the folder for temporary files spelt out."""
    if name.startswith(_PREFIX):
        rest = re.escape(name.removeprefix(_PREFIX))
        return re.compile(rf"(?:{_PREFIX}|{TEMPORARY_FOLDER}){rest}(?![\w.-]*\w)")
    return re.compile(re.escape(name))


def _is_plain_path(name: str) -> bool:
    """True for the path of a temporary file that cannot be anything else, wherever it is put."""
    parts = name.removeprefix(_PREFIX).split("/")
    return bool(_PLAIN_PATH.fullmatch(name)) and ".." not in parts


_PLAIN_PATH = re.compile(rf"{_PREFIX}(?:/[\w.-]+)+")


def _real(name: str) -> str:
    """The path of a temporary file on this machine."""
    return tempfile.gettempdir() + name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else name
