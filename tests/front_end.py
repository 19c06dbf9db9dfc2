"""A front end that has the widget, without a browser: the Python twin of `live.js`.

running = kernel.start("%%agent\\nDo it.", allow_stdin=True)
page = FrontEnd(kernel, running)
page.await_call("asking")
page.answer("no", "not today")
cell = running.finish()
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from live_kernel import Json, LiveKernel, Running


class FrontEnd:
    """The page in which one cell runs.

    Args:
        kernel: The kernel.
        running: The cell.
        greets: Whether it says that it is there as soon as it is opened.

    Attributes:
        state: What the view shows, with all operations carried out.
        opened, closed: The ids of the kernel's comms.
        open_counts: How many comms were open after each was opened or closed.
        received: The content of each message to the widget, with the time when it came.
        keeps: Whether it says at the end of a turn that it has the outputs.
    """

    def __init__(self, kernel: LiveKernel, running: Running, *, greets: bool = True) -> None:
        self.state: Json = {}
        self.opened: set[str] = set()
        self.closed: set[str] = set()
        self.open_counts: list[int] = []
        self.received: list[tuple[float, Json]] = []
        self.keeps = True
        self._kernel = kernel
        self._running = running
        self._model = ""
        self._greets = greets
        running.watch = self._take

    def send(self, content: object) -> None:
        """Send anything."""
        self._kernel.tell(self._model, content)

    def stop(self) -> None:
        """Press Stop."""
        self.send({"t": "stop"})

    def steer(self, text: str) -> None:
        """Type into the text field."""
        self.send({"t": "steer", "text": text})

    def answer(self, answer: str, reason: str = "") -> None:
        """Press a button of the question that waits."""
        self.send({"t": "answer", "call": self.asking[0]["id"], "answer": answer, "reason": reason})

    @property
    def calls(self) -> list[Json]:
        return [call for step in self.state.get("steps", ()) for call in step["calls"]]

    @property
    def asking(self) -> list[Json]:
        """The calls about which a question waits."""
        return [call for call in self.calls if call["state"] == "asking"]

    @property
    def text(self) -> str:
        """The state as one text, to look for words in."""
        return json.dumps(self.state, ensure_ascii=False)

    @property
    def size(self) -> int:
        """Bytes of all messages to the widget."""
        return sum(len(json.dumps(content).encode()) for _, content in self.received)

    def until(self, condition: Callable[[], Any], timeout: float = 30) -> None:
        """Wait until something holds of the page."""
        self._running.await_that(lambda: bool(condition()), timeout)

    def until_closed(self) -> None:
        """Wait until nothing that the kernel opened is open."""
        self.until(lambda: self.opened and self.opened <= self.closed)

    def until_asked(self) -> Json:
        """Wait for a question, in its call and in the header; gives the call."""
        self.until(lambda: self.asking and self.state["wait"])
        return self.asking[0]

    def _take(self, message: Json) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        comm = content["comm_id"]
        if kind == "comm_open" and content["target_name"] == "jupyter.widget":
            self.opened.add(comm)
            self.open_counts.append(len(self.opened - self.closed))
            if "_esm" in content["data"]["state"]:
                self._model = comm
                if self._greets:
                    self.send({"t": "ready"})
        elif kind == "comm_close":
            self.closed.add(comm)
            self.open_counts.append(len(self.opened - self.closed))
        elif kind == "comm_msg" and content["data"].get("method") == "custom":
            self.received.append((time.monotonic(), content["data"]["content"]))
            self._show(content["data"]["content"])
            if content["data"]["content"]["t"] == "end" and self.keeps:
                self.send({"t": "kept", "by": "twin"})

    def _show(self, content: Json) -> None:
        if content["t"] == "state":
            self.state = content["state"]
        elif content["t"] == "patch" and self.state:
            for operation in content["ops"]:
                apply(self.state, operation)


def apply(state: Json, operation: list[Any]) -> None:
    """Carry out one operation; raises where its path leads nowhere."""
    verb, path, value = operation
    target: Any = state
    for key in path[:-1]:
        target = target[key]
    if verb == "set":
        target[path[-1]] = value
    elif verb == "append":
        assert isinstance(target[path[-1]], str)
        target[path[-1]] += value
    else:
        assert verb == "push"
        target[path[-1]].append(value)
