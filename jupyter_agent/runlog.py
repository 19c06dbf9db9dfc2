"""The run log: one file of JSON lines for each turn, one line for each event that says something.

Deltas are left out, since the finished message or result carries their text, and so are calls
where they start. A tool's result stands there twice at most: as the model and as the person saw
it. Time and sequence number are added here, secrets are taken out.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from jupyter_agent.codec import event_to_json
from jupyter_agent.events import Event, TextDelta, ThinkingDelta, ToolOutput, ToolStarted
from jupyter_agent.messages import clean
from jupyter_agent.redact import redact_json, secret_values


class RunLog:
    """A sink that appends to `folder/agent_run_YYYYMMDD_HHMMSS.jsonl`.

    The file is made with the first event, under a name that is still free. A log that cannot be
    written (a full disk, a read-only folder) is given up and says why in `problem`: it never
    stops a turn.
    """

    def __init__(self, folder: Path) -> None:
        self.path: Path | None = None
        self.problem = ""
        self._folder = folder
        self._file: IO[str] | None = None
        self._number = 0
        self._closed = False
        self._secrets = secret_values()

    def __call__(self, event: Event) -> None:
        if isinstance(event, (TextDelta, ThinkingDelta, ToolOutput)):
            return
        # The call itself is in the message that asked for it.
        if isinstance(event, ToolStarted):
            self.write(event.type, {"call_id": event.call.id})
            return
        try:
            data = event_to_json(event)
        except Exception as error:
            # Details and displays hold whatever a tool put there.
            data = {"not_logged": f"{type(error).__name__}: its content is not JSON"}
        self.write(event.type, data)

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """Append one line; `data` may be anything that JSON holds."""
        if self.problem or self._closed:
            return
        self._number += 1
        line = {"seq": self._number, "time": datetime.now(UTC).isoformat(), "type": kind, **data}
        text = json.dumps(redact_json(line, self._secrets), ensure_ascii=False, default=str)
        text = clean(text)
        try:
            self._file = self._file or self._create()
            self._file.write(text + "\n")
            self._file.flush()
        except OSError as error:
            self.problem = f"The run log could not be written: {error.strerror or error}."

    def close(self) -> None:
        """No line comes any more; later ones are dropped."""
        if self._file is not None:
            with suppress(OSError):  # what is buffered for a full disk is lost either way
                self._file.close()
        self._closed = True

    def _create(self) -> IO[str]:
        self._folder.mkdir(parents=True, exist_ok=True)
        stem = datetime.now().astimezone().strftime("agent_run_%Y%m%d_%H%M%S")
        for number in range(1, 10_000):
            path = self._folder / (f"{stem}.jsonl" if number == 1 else f"{stem}_{number}.jsonl")
            try:
                file = path.open("x", encoding="utf-8")
            except FileExistsError:
                continue
            self.path = path
            return file
        raise FileExistsError(f"no free name for {stem}")
