"""The context of a turn: text for the agent about the kernel, within a level of detail.

The levels (`context.detail`):
    none    nothing
    names   names and types of variables, and which of them changed
    schema  also their structure (shapes, columns), and the source of recent cells without any
            string, number or comment, with the types of their errors: no data value
    sample  also a few values, the full source of the cells, and their printed output
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jupyter_agent.core.events import VariableChange
from jupyter_agent.core.plaintext import defused, plain, shorten
from jupyter_agent.core.quoting import LOADED
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.kernel.describe import describe, one_line
from jupyter_agent.kernel.describe.brief import brief_frame
from jupyter_agent.kernel.describe.frames import column_names
from jupyter_agent.kernel.recent import RecentCell
from jupyter_agent.source.cell import without_literals

Level = Literal["none", "names", "schema", "sample"]

VARIABLES_LIMIT = 4_000
"""Characters for the digest of the variables."""
ATTACHED_LIMIT = 4_000
"""Characters for each variable that the task names with `@`."""
BRIEF_LIMIT = 3_000
"""Characters for all variables in the context of a small model."""
BRIEF_NAMED = 1_500
BRIEF_OTHER = 800
"""Characters there for a variable that the task names, and for another table."""


@dataclass(frozen=True, slots=True)
class CellLimits:
    """How many of the latest cells are shown, and characters of a cell's source and output."""

    cells: int
    source: int
    output: int


CELLS = CellLimits(5, 1_500, 1_000)
BRIEF_CELLS = CellLimits(3, 800, 300)
"""For a small model."""

FILE_NAME = (
    r"(?:[\w.-]+/)+[\w.-]*\w|[\w-]+\.(?:csv|tsv|txt|md|json|jsonl|parquet|feather|xlsx?|ipynb|py"
    r"|ya?ml|toml|html?|pdf|png|jpe?g|svg|db|sqlite|pkl|npy|npz|log|zip|gz)\b"
)
"""A path, or the name of a file by its ending: a `@` before it names no variable."""
_MENTION = re.compile(rf"(?<![\w@.`])@(?!{FILE_NAME})([^\W\d]\w*)")
_WORD = re.compile(r"(?<![\w@.])[^\W\d]\w*")
_FIXING = re.compile(
    r"(?i)\b(fix|repair|debug|solve|wrong|broken|fail\w*|error|exception|traceback|crash\w*|why)\b"
)


@dataclass(frozen=True, slots=True)
class KernelState:
    """The state of the kernel, from which a turn's context is made.

    `cells` are the user's cells since the last turn, oldest first; `last_failed` is the last one
    that ended with an error, however old.
    """

    variables: Mapping[str, object]
    changes: Sequence[VariableChange] = ()
    cells: Sequence[RecentCell] = ()
    last_failed: RecentCell | None = None
    meant: str = ""
    """The cells of the open notebook that the task means, as text."""


def turn_context(task: str, state: KernelState, level: Level) -> str:
    """The context section for a task; empty if the kernel holds nothing to mention."""
    if level == "none":
        return ""
    return _section(
        _variables(state, level),
        _changed(state.changes),
        *_cells(task, state, level),
        state.meant,
        *_attached(task, state.variables, level),
    )


def brief_context(task: str, state: KernelState, level: Level) -> str:
    """The context section for a small model, which looks at nothing by itself.

    Tables, and whatever the task names, are described at once, those that it names first; other
    variables have a line each. Of the person's cells only those that failed are shown, and the
    latest ones where something is to be mended: each token costs such a model time. Empty if the
    kernel holds nothing to mention.
    """
    if level == "none":
        return ""
    if not _FIXING.search(task):
        state = replace(state, cells=[cell for cell in state.cells if cell.error])
    cells = _cells(task, state, level, BRIEF_CELLS)
    return _section(_at_once(task, state.variables, level), *cells, state.meant)


def _section(*parts: str) -> str:
    body = "\n\n".join(part for part in parts if part)
    # No data of the user's can end its section.
    body = defused(redact(plain(body), secret_values()))
    return f"<context>\n{body}\n</context>" if body else ""


def mentioned(task: str) -> list[str]:
    """The names that a task marks with `@`, each once."""
    return list(dict.fromkeys(_MENTION.findall(task)))


def _at_once(task: str, variables: Mapping[str, object], level: Level) -> str:
    """The variables, newest first; those that the task names before the others, marked by `@`."""
    words = set(_WORD.findall(task)) | set(mentioned(task))
    newest = list(variables)[::-1]
    ordered = sorted(newest, key=lambda name: name not in words)
    lines: list[str] = []
    room = BRIEF_LIMIT
    for name in ordered:
        text = _for_brief(variables[name], level, name in words, room)
        room -= len(name) + len(text)
        if room < 0:
            lines.append(f"({len(ordered) - len(lines)} other variables are left out)")
            break
        lines.append(f"{'@' if name in words else ''}{name}: {text}")
    # `@name[…]` is a place for a value in the answer.
    missing = [
        name for name in mentioned(task) if name not in variables and f"@{name}[" not in task
    ]
    lines += [f"@{name}: there is no such variable." for name in missing]
    return "\n".join([LOADED, *lines]) if lines else ""


def _for_brief(value: object, level: Level, is_named: bool, room: int) -> str:
    if level == "names":
        return type(value).__name__
    if not is_named and not column_names(value):
        return _line(value, level)
    shown: Literal["sample", "schema"] = "sample" if level == "sample" else "schema"
    limit = min(BRIEF_NAMED if is_named else BRIEF_OTHER, max(room, 100))
    return brief_frame(value, shown, limit) or describe(value, shown, limit)


def _variables(state: KernelState, level: Level) -> str:
    lines: list[str] = []
    size = 0
    for name, value in reversed(list(state.variables.items())):
        line = f"{name}: {type(value).__name__ if level == 'names' else _line(value, level)}"
        size += len(line) + 1
        if size > VARIABLES_LIMIT:
            lines.append(f"({len(state.variables) - len(lines)} older variables are left out)")
            break
        lines.append(line)
    return "\n".join(["Variables in the kernel, newest first:", *lines]) if lines else ""


def _line(value: object, level: Level) -> str:
    return one_line(value, "sample" if level == "sample" else "schema")


def _changed(changes: Sequence[VariableChange]) -> str:
    if not changes:
        return ""
    words = ", ".join(f"{change.name} ({change.kind})" for change in changes)
    return shorten(f"Changed by the person since your last turn: {words}", 1_000)


def _cells(
    task: str, state: KernelState, level: Level, limits: CellLimits = CELLS
) -> Iterator[str]:
    if level == "names":
        return
    cells = list(state.cells)[-limits.cells :]
    failed = state.last_failed
    if failed is not None and failed not in cells and _FIXING.search(task):
        yield "The last cell that failed, some time ago:\n" + _cell(failed, level, limits)
    if cells:
        shown = "\n".join(_cell(cell, level, limits) for cell in cells)
        yield f"Cells that the person ran since your last turn, oldest first:\n{shown}"


def _cell(cell: RecentCell, level: Level, limits: CellLimits) -> str:
    whole = level == "sample"
    source = cell.source if whole else without_literals(cell.source)
    lines = [f"- {_indented(shorten(source.strip(), limits.source))}"]
    if whole and cell.output.strip():
        lines.append(f"  output: {_indented(shorten(cell.output.strip(), limits.output))}")
    if cell.error:
        # An exception's message may quote data; its kind does not.
        error = shorten(cell.error, limits.output) if whole else cell.error_name
        lines.append(f"  error: {_indented(error)}")
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def _attached(task: str, variables: Mapping[str, object], level: Level) -> Iterator[str]:
    for name in mentioned(task):
        if name not in variables:
            yield f"@{name}: there is no such variable."
        elif level == "names":
            yield f"@{name}: {type(variables[name]).__name__}"
        else:
            detail = describe(
                variables[name], "full" if level == "sample" else "schema", ATTACHED_LIMIT
            )
            yield f"@{name}: {detail}"
