"""A page that has a notebook open, as far as the kernel sees it: it answers over a real comm.

    page = OpenPage(kernel, ["%load_ext jupyter_agent", "%%agent\\nWork."])
    page.run(1)

Its cells are those of a notebook file. What the real page does is in `browser/test_cells.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from live_kernel import Cell, Json, LiveKernel, Running

TARGET = "jupyter_agent.notebook"


class OpenPage:
    """A notebook on a page with our extension.

    Args:
        kernel: Its kernel.
        sources: The sources of its code cells.

    Attributes:
        cells: The cells: `id`, `type`, `source`, `count` and `outputs`.
        heard: The messages of the kernel.
        active: The id of the cell in which the person was.
        selected: The text that is selected there.
        is_deaf: True if it opens no comm and answers nothing.
    """

    def __init__(self, kernel: LiveKernel, sources: Sequence[str]) -> None:
        self.kernel = kernel
        self.cells = [self.cell(f"cell{number}id", source) for number, source in enumerate(sources)]
        self.heard: list[Json] = []
        self.active = self.selected = ""
        self.is_deaf = self.lacks_extension = False

    @staticmethod
    def cell(name: str, source: str, kind: str = "code") -> Json:
        return {"id": name, "type": kind, "source": source, "count": None, "outputs": []}

    def ref(self, number: int) -> str:
        cell = self.cells[number]
        return f"{cell['id'][:8]}.{sha256(cell['source'].encode()).hexdigest()[:6]}"

    @property
    def sources(self) -> list[str]:
        return [cell["source"] for cell in self.cells]

    @property
    def kinds(self) -> list[str]:
        """What the kernel asked for, in order."""
        return [message["t"] for message in self.heard]

    def start(self, number: int, source: str = "") -> Running:
        """Run a cell as a person does at the page, and do not wait for it."""
        cell = self.cells[number]
        running = self.kernel.start(source or cell["source"], allow_stdin=True, cell_id=cell["id"])
        running.watch = self._hear
        return running

    def run(self, number: int, source: str = "") -> Cell:
        return self.start(number, source).finish()

    def _hear(self, message: Json) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "comm_open" and content["target_name"] == TARGET:
            if self.lacks_extension:
                self.kernel.send_comm(content["comm_id"], {}, "comm_close")
            elif not self.is_deaf:
                self._comm = content["comm_id"]
                self._say({"t": "here", "page": "page", "ran": True})
        elif kind == "comm_msg" and content["comm_id"] == getattr(self, "_comm", ""):
            self.heard.append(content["data"])
            if not self.is_deaf:
                self._answer(content["data"])

    def _say(self, data: Json) -> None:
        self.kernel.send_comm(self._comm, data)

    def _answer(self, asked: Json) -> None:
        if asked["t"] == "read":
            found: Json = {"cells": self.cells, "active": self.active, "selected": self.selected}
        else:
            found = {"outcomes": [self._edit(edit) for edit in asked["edits"]]}
        self._say({"n": asked["n"], **found})

    def _at(self, name: str) -> int:
        return next((n for n, cell in enumerate(self.cells) if cell["id"] == name), -1)

    def _edit(self, edit: Json) -> Json:
        at, above = self._at(edit["id"]), self._at(edit["after"])
        outcome: dict[str, Any] = {"ok": True, "was": self.cells[at - 1]["id"] if at > 0 else ""}
        if edit["kind"] == "insert":
            made = edit["cell"]
            self.cells.insert(above + 1, self.cell(edit["id"], edit["new"], made["cell_type"]))
            return outcome
        if at < 0 or self.cells[at]["source"] != edit["old"]:
            return {"ok": False, "why": "gone" if at < 0 else "changed"}
        if edit["kind"] == "change":
            self.cells[at]["source"] = edit["new"]
            return outcome
        cell = self.cells.pop(at)
        if edit["kind"] == "move":
            self.cells.insert(self._at(edit["after"]) + 1, cell)
        return {**outcome, "cell": {"cell_type": cell["type"], "source": cell["source"]}}
