"""The cells that a task means: "this cell", "the cell above", "the selection".

"This cell" is the one in which the person was before they went to the agent's cell: when a cell
runs by Shift+Enter, JupyterLab makes the next one active, which nobody has chosen. Above and below
go by the place of the agent's cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_agent.core.plaintext import shorten
from jupyter_agent.kernel.context import Level
from jupyter_agent.kernel.notebook_page import OpenNotebook, PageCell
from jupyter_agent.source.cell import without_literals

_HIDDEN = "context.detail is not sample"
_LIMIT = 4_000
"""Characters of each cell."""
_HERE = re.compile(r"(?i)\b(?:this|that|the (?:current|active|selected)) cell\b|\bhere\b")
_ABOVE = re.compile(r"(?i)\b(?:cell|code|one) above\b|\b(?:above|previous|preceding) cell\b")
_BELOW = re.compile(r"(?i)\b(?:cell|code|one) below\b|\b(?:below|next|following) cell\b")
_SELECTED = re.compile(r"(?i)\bselect(?:ed|ion)\b|\bhighlighted\b|\bmarked\b")


@dataclass(frozen=True, slots=True)
class CellsMeant:
    """The cells of the open notebook that a task means.

    Attributes:
        names: Their names, for the user; empty if there are none.
        text: The cells, for the model.
    """

    names: str = ""
    text: str = ""


def words_for_cells(task: str) -> bool:
    """True if a task has words that may mean a cell of the notebook."""
    return any(words.search(task) for words in (_HERE, _ABOVE, _BELOW, _SELECTED))


def cells_meant(task: str, notebook: OpenNotebook | None, level: Level) -> CellsMeant:
    """The cells that a task means, as far as `context.detail` allows to show them."""
    if notebook is None:
        return CellsMeant()
    found = dict(_meant(task, notebook))
    selected = notebook.selected if _SELECTED.search(task) else ""
    names = [f"cell {number}" for number in found]
    texts = [_shown(number, words, notebook, level) for number, words in found.items()]
    if selected:
        names.append("the selection")
        # Half of a string cannot be told from code, so a selection is data as a whole.
        shown = (
            f":\n{shorten(selected, _LIMIT)}" if level == "sample" else f" is withheld: {_HIDDEN}"
        )
        texts.append(f"The text that is selected there{shown}")
    return CellsMeant(", ".join(names), "\n\n".join(texts))


def _meant(task: str, notebook: OpenNotebook) -> Iterator[tuple[int, str]]:
    """The numbers of the cells, from 1, each with the words for it."""
    places = {cell.id: number for number, cell in enumerate(notebook.cells, 1)}
    here, running = places.get(notebook.active), places.get(notebook.running)
    selects = _SELECTED.search(task) and notebook.selected
    if here is not None and here != running and (_HERE.search(task) or selects):
        yield here, "where the person was before: this cell"
    if running is not None and running > 1 and _ABOVE.search(task):
        yield running - 1, "above"
    if running is not None and running < len(notebook.cells) and _BELOW.search(task):
        yield running + 1, "below"


def _shown(number: int, words: str, notebook: OpenNotebook, level: Level) -> str:
    cell = notebook.cells[number - 1]
    heading = f"Cell {number} of the notebook ({words}; {cell.kind}, ref {notebook.ref(cell)})"
    if level == "names":
        return heading
    if level == "sample":
        source = cell.source
    else:
        source = without_literals(cell.source) if cell.kind == "code" else f"(withheld: {_HIDDEN})"
    outputs = _outputs(cell, level)
    lines = [
        f"{heading}:",
        shorten(source, _LIMIT),
        *([f"Its output: {outputs}"] if outputs else []),
    ]
    return "\n".join(lines)


def _outputs(cell: PageCell, level: Level) -> str:
    """The texts of its outputs; where values are hidden, the kind of an error alone."""
    texts = []
    for output in cell.outputs:
        if output.get("output_type") == "error":
            value = f": {output.get('evalue')}" if level == "sample" else ""
            texts.append(f"{output.get('ename')}{value}")
        elif level == "sample":
            data = output.get("data")
            plain = data.get("text/plain") if isinstance(data, dict) else output.get("text")
            texts.append("".join(plain) if isinstance(plain, list) else str(plain or ""))
    return shorten("\n".join(texts), 1_000)
