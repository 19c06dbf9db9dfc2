"""This package as a person has it: a real kernel, a notebook page, and `%%agent` cells.

Nothing is switched off: the log, the checkpoints, the receipt, the saved conversation and the live
view with a front end that answers are all there, and the default policy asks about risky calls.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import chain
from benchmarks.borrowed import Cell, FrontEnd, LiveKernel, Running
from benchmarks.server import Seen, Server

MODEL = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}
ENVIRONMENT = {
    "JUPYTER_AGENT_APPROVALS__MODE": "ask_risky",
    "ANTHROPIC_API_KEY": "none",
    "OPENAI_API_KEY": "none",
    "NO_PROXY": "127.0.0.1",
}


@dataclass(frozen=True)
class Weighed:
    """A message to the page.

    Attributes:
        moment: When it came.
        content: What it says, as text.
        size: Its bytes with Jupyter's envelope.
    """

    moment: float
    content: str
    size: int


@dataclass(frozen=True)
class Turned:
    """One `%%agent` cell.

    Attributes:
        seconds: From sending the cell until the kernel was idle again, everything shown.
        cell: What a notebook would keep of it.
        page: The page that watched it.
        seen: What the model server saw.
        wire: Each message about the view.
    """

    seconds: float
    cell: Cell
    page: FrontEnd
    seen: Seen
    wire: list[Weighed]


class Kernel:
    """A kernel with the extension, to be used as a context manager.

    Args:
        server: The model.
        folder: Where its notebook lies.
        kind: The wire format: `anthropic` or `openai`.
    """

    def __init__(self, server: Server, folder: Path, kind: str = "anthropic") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.live = LiveKernel(folder, ENVIRONMENT)
        self._server = server
        self._is_configured = False

    def __enter__(self) -> Kernel:
        self.live.__enter__()
        self.live.load()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.__exit__(kind, error, trace)

    def turn(self, plan: chain.Plan, task: str = "", options: str = "") -> Turned:
        """One `%%agent` cell in a fresh conversation, watched by a page.

        Args:
            plan: What the model says; see `chain`.
            task: Default: the chain's.
            options: More for the `%%agent` line.

        Raises:
            RuntimeError: The cell failed.
        """
        # One address for all turns: a person does not change theirs from turn to turn either.
        name = f"ours-{id(self)}"
        base = self._server.plan(name, plan)
        if not self._is_configured:
            self._is_configured = True
            self.live.helper(
                f"%agent config provider {self.kind}",
                f"%agent config model {MODEL[self.kind]}",
                f"%agent config api_base {base if self.kind == 'anthropic' else f'{base}/v1'}",
            )
        code = f"%%agent --fresh --max-steps 400 {options}\n{task or chain.TASK}"
        began = time.perf_counter()
        running = self.live.start(code, allow_stdin=True)
        page = FrontEnd(self.live, running)
        wire = _weighed(running)
        cell = running.finish(900)
        took = time.perf_counter() - began
        if cell.status != "ok":
            raise RuntimeError(f"The %%agent cell failed: {cell.error}")
        return Turned(took, cell, page, self._server.seen(name), wire)

    @property
    def memory(self) -> int:
        """Bytes of memory that the kernel's process holds."""
        import psutil

        return int(psutil.Process(self.live.value("__import__('os').getpid()")).memory_info().rss)


def _weighed(running: Running) -> list[Weighed]:
    """The weight of each message about the view, as it comes."""
    wire: list[Weighed] = []
    watch = running.watch

    def take(message: dict[str, Any]) -> None:
        moment = time.monotonic()
        parts = ("header", "parent_header", "metadata", "content")
        size = len(json.dumps({part: message[part] for part in parts}, default=str).encode())
        data = message["content"].get("data", {})
        said = data.get("content", data) if isinstance(data, dict) else data
        wire.append(Weighed(moment, json.dumps(said), size))
        watch(message)

    running.watch = take
    return wire
