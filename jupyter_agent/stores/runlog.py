"""Writes the run log: one file of JSON lines for each turn, one line for each event with content.

Each line has its number (`seq`), its time and its `type`. The types are those of the events, and
`prompt`: the system prompt, the schemas of the tools and the context of the turn. The log holds
every request, reply, call, retry, approval and compaction in order. Default values are left out.

No content is written twice:

- Deltas are left out, since the finished message or result carries their text. If no message
  finished, the next line (a retry, or the turn's end) has their text as `streamed`.
- The start of a call has its id alone, since the message with the call has the rest.
- A request has its size, not its content, which is in earlier lines. The first one of a step has
  the step's number, and the limit of steps and the model if they are new.
- A repeated text becomes a reference, whole or by its lines: a display with the text of the
  result, a diff with the text of the arguments, a question's preview, the same file read again.
  `repeats` defines the references and restores the texts.
- Of a picture that was made smaller for the model, only the size is kept: the display has it.
- The schemas are in the first log of a session. Later logs have their digest and that file's name.

A line that cannot be written (a full disk, a limit on file sizes) is tried again with each event.
Meanwhile the log ends with a line `not_written` with the reason and the number of missing lines;
it stays if they are never written.

This module adds time and number, and removes secrets. `runs` reads the logs back.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_agent.core.codec import event_to_brief_json
from jupyter_agent.core.events import (
    ApprovalAsked,
    Event,
    MessageFinished,
    Preparing,
    Requested,
    Retrying,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Image, Output, ToolSpec, clean
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.files.atomic import private_folder
from jupyter_agent.files.jsonl import Upkeep, Writer, encode, new_file
from jupyter_agent.stores.repeats import LeftOut, Repeats, texts_in

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class RunLog:
    """A sink that appends to `folder/agent_run_YYYYMMDD_HHMMSS.jsonl`.

    The file is made with the first event, under a name that is still free. A log that cannot be
    written never stops a turn.

    Args:
        folder: Where the logs are.
        schemas: Where the schemas of tools stand: the name of a log, by their digest. One for all
            logs of a session, which keep it up to date.
        prepare: Makes the folder in which `folder` is. Raises `OSError`.
        place: Fields of the first line: `notebook`, its path; `turn`, the turn's number in it.
    """

    def __init__(
        self,
        folder: Path,
        schemas: MutableMapping[str, str] | None = None,
        prepare: Callable[[], object] = lambda: None,
        place: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._schemas = {} if schemas is None else schemas
        self._prepare = prepare
        self._place = {} if place is None else place
        self._upkeep = Upkeep("The run log")
        self._writer = Writer(self._create, self._upkeep)
        self._number = 0
        self._steps = 0
        self._step: StepStarted | None = None
        self._limit = 0
        self._model = ""
        self._secrets = secret_values()
        self._repeats = Repeats()
        self._calls: dict[str, tuple[str, str]] = {}
        self._streamed: dict[str, list[str]] = {"text": [], "thinking": []}

    def __call__(self, event: Event) -> None:
        if isinstance(event, (TextDelta, ThinkingDelta)):
            kind = "text" if isinstance(event, TextDelta) else "thinking"
            self._streamed[kind].append(event.text)
            return
        if isinstance(event, (Preparing, ToolOutput)):
            return
        if isinstance(event, StepStarted):
            self._begin_step(event)
            return
        data = _as_json(event)
        if isinstance(event, Requested):
            data = self._request(data)
        self._write_step()
        if isinstance(event, TurnStarted):
            self._model = event.model
            data |= {name: fact for name, fact in self._place.items() if fact}
        if isinstance(event, TurnFinished):
            data["steps"] = self._steps  # so that a list of runs reads no whole log
        if isinstance(event, (Retrying, TurnFinished)):
            data |= self._unfinished()
        elif isinstance(event, MessageFinished):
            self._unfinished()  # the message has it
        self.write(event.type, data, self._near(event))
        if isinstance(event, ToolFinished):
            self._calls.pop(event.result.call_id, None)

    def prompt(self, system: str, tools: Sequence[ToolSpec], context: Sequence[str]) -> None:
        """Write the `prompt` line, once for the turn.

        Args:
            system: The system prompt.
            tools: The schemas of the tools.
            context: The texts that the session added to the task.
        """
        schemas = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in tools
        ]
        digest = _digest(schemas)
        file_name = self._schemas.get(digest, "")
        tools_data: dict[str, Any] = {"digest": digest}
        is_own = self.path is not None and self.path.name == file_name  # the name was free again
        if file_name and not is_own and (self._folder / file_name).exists():
            tools_data["file"] = file_name
        else:
            tools_data["schemas"] = schemas
        self.write("prompt", {"system": system, "tools": tools_data, "context": list(context)})
        if "schemas" in tools_data and self.path is not None and not self.problem:
            self._schemas[digest] = self.path.name

    def write(
        self, kind: str, data: Mapping[str, Any], near: Iterable[tuple[str, str]] | None = None
    ) -> None:
        """Append one line.

        Args:
            kind: The line's type.
            data: Its content; values that JSON lacks are written as their type's name or text.
            near: Texts of earlier lines, by address, of which it may repeat parts.
        """
        self._number += 1
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            self._secrets = secret_values(also=self._secrets)
            line = redact_json(_storable(data), self._secrets)
            encoded = self._encoded(timestamp, kind, line, near)
        except RecursionError:
            line = {"not_logged": "its content is nested too deeply"}
            encoded = self._encoded(timestamp, kind, line, None)
        self._writer.write(encoded)
        for index, block in _calls(line):
            address = f"{self._number}/message/blocks/{index}/arguments"
            self._calls[block["id"]] = address, block["arguments"]

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        self._write_step()
        self._writer.close()

    def take_notices(self) -> list[str]:
        """The notices since the last call."""
        return self._upkeep.take_notices()

    @property
    def path(self) -> Path | None:
        """The file; None before the first event."""
        return self._writer.path

    @property
    def problem(self) -> str:
        """Why the file lacks lines; empty if it lacks none."""
        reason = self._writer.reason
        return f"The run log could not be written: {reason}." if reason else ""

    def _create(self) -> tuple[Path, int]:
        self._prepare()
        private_folder(self._folder, follow_link=False)
        stem = datetime.now().astimezone().strftime("agent_run_%Y%m%d_%H%M%S")
        return new_file(self._folder, stem)

    def _begin_step(self, event: StepStarted) -> None:
        """Keep a step for the line of its first request, mostly the next event."""
        self._write_step()
        self._steps += 1
        self._step = event

    def _write_step(self) -> None:
        """Write a line of its own for a step whose request does not come next."""
        if self._step is not None:
            self.write(self._step.type, event_to_brief_json(self._step))
            self._limit = self._step.limit
            self._step = None

    def _request(self, data: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._step is not None:
            fields["step"] = self._step.number
            if self._step.limit != self._limit:
                fields["limit"] = self._limit = self._step.limit
            self._step = None
        if data["model"] != self._model:
            fields["model"] = self._model = data["model"]
        return fields | {key: item for key, item in data.items() if key not in ("model", "type")}

    def _unfinished(self) -> dict[str, Any]:
        """The text streamed since the last reply; clears it."""
        streamed = {kind: "".join(parts) for kind, parts in self._streamed.items() if parts}
        for parts in self._streamed.values():
            parts.clear()
        return {"streamed": streamed} if streamed else {}

    def _encoded(
        self,
        timestamp: str,
        kind: str,
        data: dict[str, Any],
        near: Iterable[tuple[str, str]] | None,
    ) -> bytes:
        head = {"seq": self._number, "time": timestamp, "type": kind}
        said = {key: item for key, item in data.items() if key not in head}
        return encode(self._repeats.shorten(self._number, head | said, near))

    def _near(self, event: Event) -> Iterable[tuple[str, str]] | None:
        """The arguments of an event's call, whose lines its diff repeats; None for other events."""
        if isinstance(event, ToolFinished):
            call_id = event.result.call_id
        elif isinstance(event, ApprovalAsked):
            call_id = event.call_id
        else:
            return None
        address, arguments = self._calls.get(call_id, ("", ""))
        return texts_in(address, arguments)


def _as_json(event: Event) -> dict[str, Any]:
    """The JSON of an event. A tool's details and displays may hold any value."""
    if isinstance(event, ToolStarted):
        return {"call_id": event.call.id}  # the message with the call has the rest
    try:
        data = event_to_brief_json(event)
    except Exception as error:
        note = f"{type(error).__name__}: its content is not JSON"
        if not isinstance(event, ToolFinished) or "not_logged" in event.result.details:
            return {"not_logged": note}
        kept = {key: _named(value) for key, value in event.result.details.items()}
        shown = tuple(
            replace(output, data=_named(output.data), metadata={})
            for output in event.result.display
        )
        result = replace(event.result, display=shown, details={**kept, "not_logged": note})
        return _as_json(replace(event, result=result))
    if isinstance(event, ToolFinished):
        data["seconds"] = round(event.seconds, 6)
        _leave_out_smaller_pictures(event, data)
    return data


def _leave_out_smaller_pictures(event: ToolFinished, data: dict[str, Any]) -> None:
    content, display = event.result.content, event.result.display
    shown = [value for output in display for value in _pictures(output)]
    images = [index for index, block in enumerate(content) if isinstance(block, Image)]
    if len(shown) < len(images):
        return
    for index in images:
        picture = data["result"]["content"][index]
        if picture["data"] not in shown:
            picture["data"] = LeftOut(len(picture["data"]))


def _pictures(output: Output) -> Iterator[str]:
    for kind, value in output.data.items():
        if kind in _PICTURES and isinstance(value, str):
            yield value


def _calls(line: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The calls in the line of a reply, each with its place among the blocks."""
    if line.get("type") != "message_finished" or "message" not in line:
        return []
    blocks = enumerate(line["message"]["blocks"])
    return [(index, block) for index, block in blocks if block["type"] == "tool_call"]


def _storable(value: Any) -> Any:
    """The value as JSON, with every text valid in UTF-8."""
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, (bool, int, LeftOut)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return clean(str(value))


def _named(value: Any) -> Any:
    """The value with texts in place of values that JSON lacks."""
    try:
        return _storable(value)
    except Exception:  # an object's own str() may fail
        return f"[{type(value).__name__}]"


def _digest(schemas: list[dict[str, Any]]) -> str:
    text = json.dumps(schemas, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
