"""`read_cells` and `edit_cells`: the notebook in which the agent runs, as it is open."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.core.diffs import diff_output
from jupyter_agent.core.messages import JsonObject, Output
from jupyter_agent.core.plaintext import plain, restored, shorten
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tool import CannotRun, Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.files.diff import DECISION_LINES, RESULT_LINES, Diff, compare
from jupyter_agent.kernel.notebook_page import (
    CellEdit,
    EditOutcome,
    NotebookPage,
    OpenNotebook,
    PageCell,
    Refusal,
)
from jupyter_agent.tools.notebooks import output_lines, parse, sources
from jupyter_agent.tools.propose import Proposal

READ_LIMIT = 30_000
"""Characters of one listing."""
SOURCE_LIMIT = 1_500
"""Characters of one cell's source in a listing of many cells."""
FEW = 5
"""So many cells are listed with their whole source."""
MOST_EDITS = 50
TOP = "top"
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_WHY: Mapping[Refusal, str] = {
    "changed": "refused: the cell has changed meanwhile",
    "gone": "refused: the cell is gone",
    "running": "refused: you run in this cell",
    "failed": "refused: the page could not do it",
}
_NO_PAGE = "The page of the notebook does not answer, so nothing was edited."


class Edit(BaseModel):
    """One edit."""

    model_config = ConfigDict(extra="forbid", strict=True)

    do: Literal["change", "insert", "delete", "move"]
    cell: Annotated[str, Field(description="its ref")] = ""
    after: Annotated[str, Field(description="insert, move: ref of the cell above, or top")] = ""
    source: str = ""
    kind: Literal["code", "markdown"] = "code"


@dataclass(frozen=True, slots=True)
class CellSight:
    """What the model may see of cells.

    Attributes:
        outputs: True if it may read outputs.
        why: Why not, if it may not.
    """

    outputs: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """An edit that fits the notebook, and the difference by which the user decides."""

    edit: CellEdit
    diff: Output


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision about a call: the rejected edits, from 0, and the user's reason."""

    rejected: tuple[int, ...] = ()
    reason: str = ""


@dataclass
class CellEditor:
    """Carries out `edit_cells`.

    Args:
        page: Gives the page with the notebook; None where none may be asked, as in a replay.
        decided: Gives what the user decided about the running call; None if nobody decided, but
            the settings want it: then nothing is edited.
        proposals: The cells that the turn offers.
        note: Called with the edits that were made, for undo.
    """

    page: Callable[[], NotebookPage | None]
    decided: Callable[[], Decided | None]
    proposals: list[Proposal]
    note: Callable[[Sequence[CellEdit]], None]
    _shown: tuple[list[Edit], list[Planned]] = field(default_factory=lambda: ([], []))

    async def preview(self, edits: list[Edit]) -> tuple[Output, ...]:
        """What the edits would change, one output each.

        Raises:
            CannotRun: They do not fit the notebook, or no page has it.
        """
        self._shown = [], []
        notebook = await _read(self.page())
        if notebook is None:
            raise CannotRun(_NO_PAGE)
        self._shown = edits, planned(edits, notebook)
        return tuple(each.diff for each in self._shown[1])

    async def run(self, edits: list[Edit]) -> ToolReturn:
        """Make the edits that the user accepted."""
        decided, shown = self.decided(), self._shown
        self._shown = [], []
        notebook = await _read(self.page())
        if notebook is None:
            return self._propose(edits)
        # What was shown is what is made: the page refuses a cell that is another one by now.
        going = shown[1] if shown[1] and shown[0] == edits else planned(edits, notebook)
        if decided is None:
            raise ToolError("Nobody could decide about these edits. Read the cells and try again.")
        wanted = _accepted(going, decided.rejected)
        outcomes = await self._apply(list(wanted.values()))
        if outcomes is None:
            raise ToolError(f"{_NO_PAGE} Read the cells before you try again.")
        self.note([each.edit for each in outcomes if each.refused is None])
        return _told(going, dict(zip(wanted, outcomes, strict=True)), decided.reason)

    async def _apply(self, edits: list[CellEdit]) -> list[EditOutcome] | None:
        page = self.page()
        return [] if not edits else await page.apply(edits) if page else None

    def _propose(self, edits: Sequence[Edit]) -> ToolReturn:
        """Offer the new sources as cells, since no page can be edited."""
        offered = [
            edit for edit in edits if edit.source.strip() and edit.do in ("change", "insert")
        ]
        if not offered:
            raise ToolError(_NO_PAGE)
        secrets = secret_values()
        for edit in offered:
            source = redact(restored(edit.source).strip("\n"), secrets)
            self.proposals.append(Proposal(source, edit.kind))
        left = len(edits) - len(offered)
        others = f" {left} other edits (deletions, moves) were not made." if left else ""
        return ToolReturn(
            f"{_NO_PAGE} {len(offered)} cells are offered to the person instead, below this one, "
            f"when the turn ends well.{others}",
            details={"proposed": "cells"},
        )


def cell_tools(
    page: Callable[[], NotebookPage | None],
    editor: CellEditor | None,
    sight: Callable[[], CellSight],
    stored: Callable[[], StoredCells],
) -> list[Tool]:
    """`read_cells`, and `edit_cells` where there is a page.

    Args:
        page: Gives the page with the notebook; None where none may be asked, as in a replay.
        editor: Makes edits; None: `edit_cells` is not offered.
        sight: What the model may see.
        stored: Gives the cells as far as they are known without a page.
    """

    @tool("reads")
    async def read_cells(
        cells: Annotated[
            str, Field(description="`3-7`, or a text in the source; empty: all.")
        ] = "",
    ) -> str:
        """Read this notebook's cells, run or not. `ref` (id.hash) names a cell in its state now."""
        notebook = await _read(page())
        if notebook is None:
            return stored().listing(cells, sight())
        return listing(notebook, cells, sight())

    if editor is None:
        return [read_cells]

    async def preview(edits: list[Edit]) -> tuple[Output, ...]:
        return await editor.preview(edits)

    @tool("writes", preview)
    async def edit_cells(
        edits: list[Edit],
    ) -> ToolReturn:
        """Edit this notebook's other cells by their refs. Nothing is run. The person may reject."""
        return await editor.run(edits)

    return [read_cells, edit_cells]


async def _read(page: NotebookPage | None) -> OpenNotebook | None:
    return None if page is None else await page.read()


# Reading -----------------------------------------------------------------------------------------


def listing(notebook: OpenNotebook, wanted: str, sight: CellSight) -> str:
    """The wanted cells as text for the model."""
    numbers = _wanted(notebook, wanted)
    if not numbers:
        raise ToolError(f"No cell fits {wanted!r}. The notebook has {len(notebook.cells)} cells.")
    lines: list[str] = []
    size = 0
    is_short = len(numbers) > FEW
    for number in numbers:
        found = list(_cell_lines(notebook, number, sight, is_short))
        size += sum(map(len, found))
        if size > READ_LIMIT and lines:
            lines.append(f"[cells {number}-{numbers[-1]} left out: read them by number]")
            break
        lines += found
    if not sight.outputs:
        lines.append(f"({sight.why})")
    return plain(shorten("\n".join(lines), 4 * READ_LIMIT))


def _wanted(notebook: OpenNotebook, wanted: str) -> list[int]:
    """The numbers of the cells, from 1, that a range or a text names."""
    every = range(1, len(notebook.cells) + 1)
    if found := _RANGE.fullmatch(wanted):
        first, last = int(found[1]), int(found[2] or found[1])
        return [number for number in every if first <= number <= last]
    text = wanted.strip().lower()
    return [number for number in every if text in notebook.cells[number - 1].source.lower()]


def _cell_lines(
    notebook: OpenNotebook, number: int, sight: CellSight, is_short: bool
) -> Iterator[str]:
    cell = notebook.cells[number - 1]
    marks = []
    if cell.id == notebook.running:
        marks.append("you run here")
    if cell.id == notebook.active:
        marks.append("active")
    ran = [f"In [{cell.count}]"] if cell.count is not None else []
    not_run = ["not run"] if cell.kind == "code" and not ran and cell.id != notebook.running else []
    facts = ", ".join([cell.kind, *ran, *not_run, f"ref {notebook.ref(cell)}", *marks])
    yield f"[cell {number}: {facts}]"
    source = cell.source
    if is_short and len(source) > SOURCE_LIMIT:
        left = len(source) - SOURCE_LIMIT
        source = f"{source[:SOURCE_LIMIT]}\n[{left} characters left out: read_cells {number}]"
    yield from source.split("\n")
    if cell.id == notebook.active and notebook.selected:
        yield f"[selected in it: {shorten(notebook.selected, 1_000)}]"
    if cell.id != notebook.running and sight.outputs:
        yield from output_lines({"outputs": list(cell.outputs)})


@dataclass(frozen=True, slots=True)
class StoredCells:
    """The cells as far as they are known without a page.

    Attributes:
        path: The notebook's file; None if it is not known.
        inputs: The inputs that ran in this kernel, with their numbers, oldest first.
    """

    path: Path | None
    inputs: tuple[tuple[int, str], ...]

    def listing(self, wanted: str, sight: CellSight) -> str:
        """The cells of the file, and the inputs that it does not hold."""
        cells = self._of_file()
        known = {cell.source.strip() for cell in cells or ()}
        ran = tuple(
            PageCell(f"input{number}", "code", source, number)
            for number, source in self.inputs
            if source.strip() and source.strip() not in known
        )
        if cells is None:
            note = "(The notebook cannot be seen from here: these are the inputs that ran.)"
            return f"{listing(OpenNotebook(ran), wanted, sight)}\n{note}" if ran else note
        note = "(From the notebook's file as it was last saved: the open page cannot be seen.)"
        shown = f"{listing(OpenNotebook(cells), wanted, sight)}\n{note}"
        if not ran:
            return shown
        late = shorten("\n".join(f"In [{each.count}]: {each.source}" for each in ran[-10:]), 5_000)
        return f"{shown}\nInputs that ran and are not in the file:\n{plain(late)}"

    def _of_file(self) -> tuple[PageCell, ...] | None:
        """The cells of the file; None if it cannot be read."""
        try:
            notebook = parse(self.path.read_text(encoding="utf-8")) if self.path else None
        except (OSError, UnicodeDecodeError):
            notebook = None
        if notebook is None:
            return None
        return tuple(
            PageCell(
                str(cell.get("id") or f"cell{number}"),
                str(cell.get("cell_type", "code")),
                source,
                cell["execution_count"] if type(cell.get("execution_count")) is int else None,
                tuple(each for each in cell.get("outputs") or () if isinstance(each, dict)),
            )
            for number, (cell, source) in enumerate(
                zip(notebook["cells"], sources(notebook), strict=True), 1
            )
        )


# Editing -----------------------------------------------------------------------------------------


def planned(edits: Sequence[Edit], notebook: OpenNotebook) -> list[Planned]:
    """The edits as the page takes them.

    Raises:
        CannotRun: One does not fit the notebook; the first problem in a line.
    """
    if not 0 < len(edits) <= MOST_EDITS:
        raise CannotRun(f"Give between 1 and {MOST_EDITS} edits. Nothing was edited.")
    plan = _Plan(notebook)
    for number, edit in enumerate(edits, 1):
        try:
            plan.add(edit)
        except ToolError as error:
            raise CannotRun(f"Edit {number}: {error} Nothing was edited.") from None
    return plan.planned


class _Plan:
    """Checks edits one after the other against the notebook and each other."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self.planned: list[Planned] = []
        self._notebook = notebook
        self._touched: set[str] = set()
        self._deleted: set[str] = set()
        self._last_below: dict[str, str] = {}

    def add(self, edit: Edit) -> None:
        if edit.do == "insert":
            if not edit.source.strip():
                raise ToolError("an insertion needs a source.")
            self._insert(edit)
            return
        cell = self._find(edit.cell)
        name = self._name(cell)
        if cell.id == self._notebook.running:
            raise ToolError(f"{name} is the one in which you run; it cannot be edited.")
        if cell.id in self._touched:
            raise ToolError(f"{name} is in two edits; give one for each cell.")
        self._touched.add(cell.id)
        match edit.do:
            case "change":
                self._change(cell, name, restored(edit.source))
            case "delete":
                self._deleted.add(cell.id)
                made = CellEdit("delete", cell.id, old=cell.source)
                lost = "its outputs go, too" if cell.outputs else ""
                self._put(made, f"Delete {name}", lost)
            case "move":
                after, where = self._place(edit.after)
                if after == cell.id:
                    raise ToolError(f"{name} cannot be moved below itself.")
                made = CellEdit("move", cell.id, cell.source, cell.source, after)
                self._put(made, f"Move {name} {where or 'to the top'}")

    def _change(self, cell: PageCell, name: str, source: str) -> None:
        source = _fit_to_save(source, cell.source)
        if source == cell.source:
            raise ToolError(f"{name} has this source already.")
        made = CellEdit("change", cell.id, old=cell.source, new=source)
        self._put(made, f"Change {name}")

    def _insert(self, edit: Edit) -> None:
        source = _fit_to_save(restored(edit.source).strip("\n"))
        after, where = self._place(edit.after)
        new_id = str(uuid.uuid4())
        # Several insertions at one place stand in the order in which they are given.
        above = self._last_below.get(after, after)
        self._last_below[after] = new_id
        cell = {"cell_type": edit.kind, "id": new_id, "source": source, "metadata": {}}
        made = CellEdit("insert", new_id, new=source, after=above, cell=cell)
        self._put(made, f"New {edit.kind} cell {where or 'at the top'}")

    def _place(self, after: str) -> tuple[str, str]:
        if after.strip() == TOP:
            return "", ""
        if not after:
            raise ToolError('it needs `after`: the ref of the cell above, or "top".')
        above = self._find(after)
        if above.id in self._deleted:
            raise ToolError(f"{self._name(above)} is deleted by an edit before.")
        return above.id, f"below {self._name(above)}"

    def _find(self, named: str) -> PageCell:
        cells = {self._notebook.ref(cell): cell for cell in self._notebook.cells}
        if named in cells:
            return cells[named]
        wanted = named.partition(".")[0]
        near = [cell for cell in self._notebook.cells if wanted and cell.id.startswith(wanted)]
        if len(near) == 1:
            current = self._notebook.ref(near[0])
            raise ToolError(f"{self._name(near[0])} has changed (its ref is {current}): read it.")
        raise ToolError(f"there is no cell with the ref {named!r}. Read the cells again.")

    def _name(self, cell: PageCell) -> str:
        return f"cell {self._notebook.cells.index(cell) + 1}"

    def _put(self, edit: CellEdit, title: str, remark: str = "") -> None:
        edit = replace(edit, title=title)
        self.planned.append(Planned(edit, _diff(edit, DECISION_LINES, remark)))


def _fit_to_save(source: str, old: str = "") -> str:
    """The source without secrets, as it is saved with the notebook; unaltered if `old` has some."""
    secrets = secret_values()
    return source if redact(old, secrets) != old else redact(source, secrets)


def _diff(edit: CellEdit, most: int = RESULT_LINES, remark: str = "") -> Output:
    """The difference for the user, at most so many lines; a remark stands below in brackets."""
    if edit.kind == "move":
        first = shorten(edit.old, 500).split("\n")
        heading = [f"--- a/{edit.title}", f"+++ b/{edit.title}"]
        return diff_output("\n".join([*heading, *(f" {x}" for x in first)]), 0, 0)
    lines = _compared(edit, most)
    remarked = f"{lines.text}\n[{remark}]" if remark else lines.text
    return diff_output(remarked, lines.added, lines.removed)


def _compared(edit: CellEdit, most: int = RESULT_LINES) -> Diff:
    # A last line without an end is the rule in cells, and no news.
    old = None if edit.kind == "insert" else f"{edit.old}\n"
    new = "" if edit.kind == "delete" else f"{edit.new}\n"
    return compare(old, new, edit.title, most)


def _accepted(going: Sequence[Planned], rejected: Sequence[int]) -> dict[int, CellEdit]:
    """The accepted edits by their number. What would stand below a rejected new cell moves up."""
    found: dict[int, CellEdit] = {}
    above: dict[str, str] = {}
    for number, each in enumerate(going):
        edit = replace(each.edit, after=above.get(each.edit.after, each.edit.after))
        if number not in rejected:
            found[number] = edit
        elif edit.kind == "insert":
            above[edit.id] = edit.after
    return found


def _told(going: Sequence[Planned], outcomes: Mapping[int, EditOutcome], reason: str) -> ToolReturn:
    """The result for the model, line by line, with the diffs of what was made for the user."""
    lines, made = [], []
    for number, each in enumerate(going, 1):
        outcome = outcomes.get(number - 1)
        if outcome is None:
            because = f": {reason}" if reason else ""
            lines.append(f"{number}. {each.edit.title}: rejected by the person{because}")
        elif outcome.refused is not None:
            lines.append(f"{number}. {each.edit.title}: {_WHY[outcome.refused]}")
        else:
            lines.append(f"{number}. {each.edit.title}: done")
            made.append(each)
    if len(made) < len(lines):
        lines.append("Read the cells again before further edits.")
    details: JsonObject = {"cells": [_noted(each.edit) for each in made]}
    return ToolReturn(
        "\n".join(lines), tuple(_diff(each.edit) for each in made), details, is_error=not made
    )


def _noted(edit: CellEdit) -> JsonObject:
    """An edit for the receipt."""
    lines = _compared(edit) if edit.kind != "move" else Diff("", 0, 0)
    counts = {"lines_added": lines.added, "lines_removed": lines.removed}
    return {"edit": edit.kind, "title": edit.title, **counts}
