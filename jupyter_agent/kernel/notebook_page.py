"""The notebook of a kernel as it is open in JupyterLab: its cells are read and edited there.

The page's half is `labextension/cells.js`. The server's file is never written: an edit goes into
the document that the page has open, and is saved with it. Nothing here runs a cell.

Messages, each a JSON object, from the kernel `{"t": …, "n": number, "to": page, "cell": id}`:

    open    the comm itself; each page of the notebook answers `here` with its name
    read    answered with the cells, the active cell and the selected text
    edit    a list of edits, answered with one outcome each
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from jupyter_agent.core.messages import JsonObject
from jupyter_agent.kernel.front_end import is_attended, is_jupyterlab, request_of

TARGET = "jupyter_agent.notebook"
PATIENCE = 1.0
"""Seconds to wait for a page of a front end that may not know comms at all."""
JUPYTERLAB = 6.0
"""Seconds to wait for JupyterLab, which answers, or closes a comm that it does not know."""
BETTER = 0.2
"""Seconds in which a page that fits better may answer, too."""
REPLY = 10.0
"""Seconds to wait for the reply of a page that is there; it may be busy with drawing."""

EditKind = Literal["change", "insert", "delete", "move"]
_INVERSE: Mapping[EditKind, EditKind] = {"insert": "delete", "delete": "insert"}
Refusal = Literal["changed", "gone", "running", "failed"]


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell of the open notebook.

    Attributes:
        id: Its id in the notebook.
        kind: `code`, `markdown` or `raw`.
        source: Its whole text.
        count: Its execution count; None if it has not run.
        outputs: Its outputs as in a notebook file, in brief: text alone, and shortened.
    """

    id: str
    kind: str
    source: str
    count: int | None = None
    outputs: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenNotebook:
    """The notebook as a page shows it.

    Attributes:
        cells: Its cells, in order.
        running: The id of the cell in which the agent runs.
        active: The id of the cell in which the person was before the running one; maybe empty.
        selected: The text that is selected in the active cell; mostly empty.
    """

    cells: tuple[PageCell, ...]
    running: str = ""
    active: str = ""
    selected: str = ""

    def ref(self, cell: PageCell) -> str:
        """The cell's id, short where that is clear, and a hash of its source: `8f3a1b2c.1c9f2a`."""
        short = cell.id[:8]
        is_clear = sum(each.id.startswith(short) for each in self.cells) == 1
        digest = hashlib.sha256(cell.source.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        return f"{short if is_clear else cell.id}.{digest}"


@dataclass(frozen=True, slots=True)
class CellEdit:
    """One edit of a notebook. The page refuses it if the cell's source is not `old` any more.

    Attributes:
        kind: What it does.
        id: The cell; of an insertion, the new cell's id.
        old: The cell's source before; empty for an insertion.
        new: Its source afterwards; empty for a deletion.
        after: For an insertion and a move: the id of the cell above; empty for the top.
        cell: The inserted or deleted cell as in a notebook file.
        was_after: Of an edit that was made: the id of the cell that stood above before.
        title: Names the edit for the user: "Change cell 3".
    """

    kind: EditKind
    id: str
    old: str = ""
    new: str = ""
    after: str = ""
    cell: JsonObject | None = None
    was_after: str = ""
    title: str = ""

    def inverse(self) -> CellEdit:
        """The edit that takes this one back, after it was made."""
        kind = _INVERSE.get(self.kind, self.kind)
        return CellEdit(kind, self.id, self.new, self.old, self.was_after, self.cell)

    def as_json(self) -> JsonObject:
        found = {"kind": self.kind, "id": self.id, "old": self.old, "new": self.new}
        return {**found, "after": self.after, "cell": self.cell}


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """What became of an edit: as it was made, or why it was not."""

    edit: CellEdit
    refused: Refusal | None = None


class NotebookPage:
    """The page that shows the kernel's notebook, if there is one with our extension.

    A comm is opened at the first need. Whether a page answers is decided once, and again when a
    cell comes from another page: it was reloaded, or another tab took its place.

    Args:
        shell: The kernel's IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._comm: Any = None
        self._name = ""
        self._asked_for = ""
        self._was_there = False
        # A page tells by it a message that it has had before, also after the kernel's restart.
        self._numbers = (f"{secrets.token_hex(4)}-{number}" for number in itertools.count(1))
        self._replies: dict[str, asyncio.Future[Mapping[str, Any]]] = {}

    @property
    def is_there(self) -> bool:
        """True if a page answered when one was last needed."""
        return bool(self._name)

    async def connect(self) -> bool:
        """Look for a page of the running cell's notebook; True if there is one."""
        request = request_of(self._shell)
        cell, client = _cell_of(request), str(request.get("header", {}).get("session", ""))
        if not cell or not is_attended(self._shell):
            return False
        is_decided = self._asked_for == client
        if is_decided and (self._name or not self._was_there):
            return bool(self._name)
        self._asked_for = client
        await self._open(cell, client, _patience(request))
        return bool(self._name)

    async def read(self) -> OpenNotebook | None:
        """The notebook as the page has it now; None if no page answers."""
        return _notebook(await self._ask({"t": "read"}), self._running)

    async def apply(self, edits: Sequence[CellEdit]) -> list[EditOutcome] | None:
        """Make edits in the open notebook, one after the other; None if no page answers."""
        reply = await self._ask({"t": "edit", "edits": [edit.as_json() for edit in edits]})
        found = reply.get("outcomes")
        if not isinstance(found, list) or len(found) != len(edits):
            return None
        return [_outcome(edit, each) for edit, each in zip(edits, found, strict=True)]

    def close(self) -> None:
        """Close the comm; the next need opens another one."""
        comm, self._comm, self._name = self._comm, None, ""
        if comm is not None:
            with suppress(Exception):  # the connection may be gone
                comm.close()

    @property
    def _running(self) -> str:
        return _cell_of(request_of(self._shell))

    async def _open(self, cell: str, client: str, patience: float) -> None:
        from comm import create_comm

        self.close()
        loop = asyncio.get_running_loop()
        here: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

        def take(message: Mapping[str, Any]) -> None:
            """Handle a message of a page, on any thread."""
            content = message.get("content", {})
            with suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(self._take, content.get("data"), here)

        def closed(message: Mapping[str, Any]) -> None:
            """A JupyterLab without our extension closes the comm."""
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(here.put_nowait, {})

        comm = self._comm = create_comm(target_name=TARGET, data={"cell": cell, "client": client})
        comm.on_msg(take)
        comm.on_close(closed)
        self._name = await _best(here, patience)
        if self._name:
            self._was_there = True
        else:
            self.close()

    def _take(self, data: Any, here: asyncio.Queue[Mapping[str, Any]]) -> None:
        if not isinstance(data, Mapping):
            return
        if data.get("t") == "here":
            here.put_nowait(data)
        number = data.get("n")
        reply = self._replies.get(number) if isinstance(number, str) else None
        if reply is not None and not reply.done():
            reply.set_result(data)

    async def _ask(self, message: JsonObject) -> Mapping[str, Any]:
        """The page's reply; empty if there is none. A page that was reloaded is looked for."""
        number = next(self._numbers)
        for is_again in (False, True):
            if not await self.connect():
                return {}
            reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
            self._replies[number] = reply
            try:
                sent = {**message, "n": number, "to": self._name, "cell": self._running}
                self._comm.send(sent)
                return await asyncio.wait_for(reply, REPLY)
            except TimeoutError:
                self._name = ""
                if is_again:
                    break
            finally:
                del self._replies[number]
        return {}


def _cell_of(request: Mapping[str, Any]) -> str:
    """The id of the running cell; empty if the front end does not tell it, as no console does."""
    found = request.get("metadata", {}).get("cellId")
    return found if isinstance(found, str) else ""


def _patience(request: Mapping[str, Any]) -> float:
    return JUPYTERLAB if is_jupyterlab(request) else PATIENCE


async def _best(here: asyncio.Queue[Mapping[str, Any]], patience: float) -> str:
    """The name of the page that fits best, among those that answer; empty if none does.

    That is the page that ran the cell, else one that shows it.
    """
    found: list[tuple[bool, str]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(patience) as limit:
            while True:
                page = await here.get()
                if not page:  # closed: this JupyterLab lacks our extension
                    break
                found.append((page.get("ran") is True, str(page.get("page", ""))))
                if found[-1][0]:
                    break
                limit.reschedule(asyncio.get_running_loop().time() + BETTER)
    return max(found, default=(False, ""))[1]


def _notebook(reply: Mapping[str, Any], running: str) -> OpenNotebook | None:
    cells = reply.get("cells")
    if not isinstance(cells, list):
        return None
    active, selected = str(reply.get("active") or ""), str(reply.get("selected") or "")
    found = tuple(_cell(each) for each in cells if isinstance(each, Mapping))
    return OpenNotebook(found, running, active, selected)


def _cell(data: Mapping[str, Any]) -> PageCell:
    count, outputs = data.get("count"), data.get("outputs")
    return PageCell(
        str(data.get("id", "")),
        str(data.get("type", "code")),
        str(data.get("source", "")),
        count if type(count) is int else None,
        tuple(each for each in outputs if isinstance(each, dict))
        if isinstance(outputs, list)
        else (),
    )


def _outcome(edit: CellEdit, data: Any) -> EditOutcome:
    found: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    if found.get("ok") is not True:
        why = found.get("why")
        return EditOutcome(edit, why if why in ("changed", "gone", "running") else "failed")
    cell = found.get("cell")
    was = str(found.get("was") or "")
    removed = cell if edit.kind == "delete" and isinstance(cell, dict) else edit.cell
    return EditOutcome(replace(edit, cell=removed, was_after=was))
