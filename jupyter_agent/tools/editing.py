"""`write_file` and `edit_file`: all or nothing, and how a file is stored is kept."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from jupyter_agent.core.diffs import diff_output
from jupyter_agent.core.messages import Output
from jupyter_agent.core.plaintext import count, restored
from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.files.diff import DECISION_LINES, compare, line_count
from jupyter_agent.files.textfile import (
    EDITABLE_BYTES,
    Encoding,
    detect,
    open_regular,
    refuse_special,
    size,
    system_refusals,
)
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools import notebooks
from jupyter_agent.tools.replacement import Replacement, hint

_LISTED_MATCHES = 20
_COUNTED_MATCHES = 1_000


BeforeWrite = Callable[[Path, bytes], None]
"""Takes a resolved path and what is about to be written there."""


def nothing_before(path: Path, data: bytes) -> None:
    """For where nobody needs to know."""


def editing_tools(workspace: Workspace, before_write: BeforeWrite = nothing_before) -> list[Tool]:
    """`write_file` and `edit_file`, for one workspace."""

    def before_writing(path: str, content: str) -> tuple[Output, ...] | None:
        return _foreseen(_planned_write(workspace, path, restored(content)))

    def before_editing(
        path: str, old_str: str, new_str: str, replace_all: bool
    ) -> tuple[Output, ...] | None:
        replacement = Replacement(restored(old_str), restored(new_str))
        return _foreseen(_planned_edit(workspace, path, replacement, replace_all))

    @tool("writes", before_writing)
    def write_file(
        path: Annotated[str, Field(description="Relative to the workspace.")],
        content: str,
    ) -> ToolReturn:
        """Create a file, or replace the whole content of one. Folders are made as needed.

        To change a part of a file use edit_file.

        More:
        - An existing file keeps its encoding and its kind of line endings.
        - A notebook (.ipynb) must be valid nbformat JSON.
        """
        # The model may have read these words in a file, with section tags defused.
        return _made(_planned_write(workspace, path, restored(content)), "Writing", before_write)

    @tool("writes", before_editing)
    def edit_file(
        path: Annotated[str, Field(description="Relative to the workspace.")],
        old_str: Annotated[str, Field(description="Exact text, without line numbers.")],
        new_str: Annotated[str, Field(description="What to put in its place.")],
        replace_all: Annotated[bool, Field(description="Replace each occurrence.")] = False,
    ) -> ToolReturn:
        """Replace a piece of text in a file.

        old_str must occur exactly once, unless replace_all is true: give enough lines around it.

        More:
        - In a notebook (.ipynb) it is looked for in the source of each cell.
        """
        replacement = Replacement(restored(old_str), restored(new_str))
        write = _planned_edit(workspace, path, replacement, replace_all)
        return _made(write, "Editing", before_write)

    return [write_file, edit_file]


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that is about to be made.

    Attributes:
        target: The file's resolved path.
        shown: The path for the user.
        old: The content that it has; None if it does not exist.
        new: The content that it gets.
        before: The old content as text; empty for a binary file.
        after: The new content as text.
    """

    target: Path
    shown: str
    old: bytes | None
    new: bytes
    before: str | None
    after: str


def _planned_write(workspace: Workspace, path: str, content: str) -> _Write:
    target = workspace.writable(path)
    shown = workspace.relative(target)
    is_notebook = shown.lower().endswith(".ipynb")
    if is_notebook:
        notebooks.check(content, shown)
    with system_refusals(f"Writing {shown}"):
        old = _existing(target, shown)
    # A notebook is UTF-8 without a mark, whatever it was.
    as_before = None if is_notebook else old
    encoding, text = _as_stored(as_before, content) if as_before else (Encoding(), content)
    new = _encoded(encoding, text, shown)
    return _Write(target, shown, old, new, None if old is None else _decoded(old), text)


def _planned_edit(
    workspace: Workspace, path: str, replacement: Replacement, replace_all: bool
) -> _Write:
    target = workspace.writable(path)
    shown = workspace.relative(target)
    with system_refusals(f"Editing {shown}"), open_regular(target, shown) as stream:
        if os.fstat(stream.fileno()).st_size > EDITABLE_BYTES:
            raise ToolError(
                f"{shown} is too large to be edited. The limit is {size(EDITABLE_BYTES)}."
            )
        data = stream.read()
    encoding = detect(io.BytesIO(data), len(data))
    if encoding is None:
        raise ToolError(f"{shown} is a binary file and cannot be edited.")
    text = encoding.decode(data)
    edited = _edited(text, shown, replacement, replace_all)
    return _Write(target, shown, data, _encoded(encoding, edited, shown), text, edited)


def _made(write: _Write, action: str, before_write: BeforeWrite) -> ToolReturn:
    if write.new == write.old:
        return _unchanged(write.shown)
    with system_refusals(f"{action} {write.shown}"):
        _store(write.target, write.shown, write.new, before_write)
    return _written(write.shown, write.before, write.after)


def _edited(text: str, shown: str, replacement: Replacement, replace_all: bool) -> str:
    is_notebook = shown.lower().endswith(".ipynb")
    notebook = notebooks.parse(text) if is_notebook else None
    parts = [text] if notebook is None else notebooks.sources(notebook)
    places = [(part, at) for part, body in enumerate(parts) for at in _some(replacement, body)]
    if not places:
        raise ToolError(f"old_str does not occur in {shown}. {hint(replacement.old, parts)}")
    if len(places) > 1 and not replace_all:
        named = [
            f"{f'cell {part + 1} ' if notebook else ''}line {parts[part].count(chr(10), 0, at) + 1}"
            for part, at in places[:_LISTED_MATCHES]
        ]
        count = str(len(places)) if len(places) <= _COUNTED_MATCHES else "very many"
        more = ", …" if len(places) > _LISTED_MATCHES else ""
        raise ToolError(
            f"old_str occurs {count} times in {shown}: {', '.join(named)}{more}. "
            "Give more lines around the one that you mean, or set replace_all."
        )
    if notebook is not None:
        return notebooks.with_sources(text, replacement.apply)
    edited = replacement.apply(text)
    if is_notebook:
        notebooks.check(edited, shown)
    return edited


def _some(replacement: Replacement, text: str) -> Iterator[int]:
    return islice(replacement.positions(text), _COUNTED_MATCHES + 1)


def _existing(target: Path, shown: str) -> bytes | None:
    """A file's bytes, None where there is none; a special file or folder is refused."""
    try:
        mode = target.lstat()
    except FileNotFoundError:
        return None
    refuse_special(mode.st_mode, shown)
    if mode.st_size > EDITABLE_BYTES:
        raise ToolError(
            f"{shown} has {size(mode.st_size)}, too much to be replaced. Write to another path."
        )
    with open_regular(target, shown) as stream:
        return stream.read()


def _as_stored(old: bytes, content: str) -> tuple[Encoding, str]:
    """How an existing text file is stored, and the new content with its kind of line ending."""
    encoding = detect(io.BytesIO(old), len(old)) or Encoding()
    previous = _decoded(old)
    if "\r\n" in previous and "\r" not in content and not re.search(r"(?<!\r)\n", previous):
        content = content.replace("\n", "\r\n")
    if encoding.name == "latin-1":
        with contextlib.suppress(UnicodeEncodeError):
            content.encode("latin-1")
            return encoding, content
        return Encoding(), content
    return encoding, content


def _decoded(data: bytes) -> str:
    """A text file's text; a binary file counts as having no lines."""
    return _text_of(data) or ""


def _encoded(encoding: Encoding, text: str, shown: str) -> bytes:
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        character = ascii(error.object[error.start : error.start + 1])
        raise ToolError(
            f"{shown} is stored as {encoding.name}, which has no character {character}. "
            "Use other characters, or write the whole file anew with write_file."
        ) from None


def _store(target: Path, shown: str, data: bytes, before_write: BeforeWrite) -> None:
    """Write a file and the folders above it; where that fails, none of them is left."""
    _refuse_read_only(target, shown)
    before_write(target, data)
    made = [folder for folder in target.parents if not os.path.lexists(folder)]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target, data)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _refuse_read_only(target: Path, shown: str) -> None:
    # Replacing a file asks only its folder for permission; the person has protected the file.
    with contextlib.suppress(FileNotFoundError):
        if not target.lstat().st_mode & 0o222 or not os.access(target, os.W_OK):
            raise ToolError(f"{shown} is read-only. Write to another path.")


def _foreseen(write: _Write) -> tuple[Output, ...] | None:
    return foreseen(write.shown, write.old, write.new, write.after)


def foreseen(
    shown: str, old: bytes | None, new: bytes, after: str | None = None
) -> tuple[Output, ...] | None:
    """What a write would change, for the user who decides about it; None if nothing.

    Args:
        shown: The path for the user.
        old: The content of the file; None if it does not exist.
        new: The content that it would get.
        after: The same as text, if it is known to be one.
    """
    if old == new:
        return None
    before = "" if old is None else _text_of(old)
    after = _text_of(new) if after is None else after
    if before is None or after is None:
        sizes = f"{size(len(old or b''))} become {size(len(new))}"
        return (remark(shown, f"a binary file: {sizes}"),)
    diff = compare(*_compared(shown, None if old is None else before, after), shown, DECISION_LINES)
    if not diff.added and not diff.removed:
        return (remark(shown, "only line endings or the encoding change"),)
    lost = _outputs_lost(shown, before, after)
    return (diff_output(diff.text + lost, diff.added, diff.removed),)


def _outputs_lost(shown: str, before: str, after: str) -> str:
    """A remark on a notebook's outputs, which a diff of its sources does not show."""
    if not shown.lower().endswith(".ipynb"):
        return ""
    books = notebooks.parse(before), notebooks.parse(after)
    old, new = (
        sum(len(c.get("outputs", ())) for c in (b or {"cells": []})["cells"]) for b in books
    )
    return f"\n[{new:,} of {count(old, 'saved output')} stay]" if new < old else ""


def remark(shown: str, text: str) -> Output:
    """A remark in the place of a diff."""
    return diff_output(f"--- a/{shown}\n+++ b/{shown}\n[{text}]", 0, 0)


def _text_of(data: bytes) -> str | None:
    """A text file's text; None for a binary file."""
    encoding = detect(io.BytesIO(data), len(data))
    return None if encoding is None else encoding.decode(data)


def _written(shown: str, old: str | None, new: str) -> ToolReturn:
    diff = compare(*_compared(shown, old, new), shown)
    change = "created" if old is None else "changed"
    counts = f"{line_count(new)} lines" + (
        "" if old is None else f", {diff.added} added, {diff.removed} removed"
    )
    return ToolReturn(
        f"{change.capitalize()} {shown}: {counts}.",
        (Output("diff", {"text/plain": diff.text}),),
        {
            "path": shown,
            "change": change,
            "lines_added": diff.added,
            "lines_removed": diff.removed,
        },
    )


def _compared(shown: str, old: str | None, new: str) -> tuple[str | None, str]:
    """What a person wants to compare: of notebooks the cells' sources, where they differ."""
    if not shown.lower().endswith(".ipynb"):
        return old, new
    before, after = notebooks.parse(old or ""), notebooks.parse(new)
    if after is None or (old is not None and before is None):
        return old, new
    lines = [None if book is None else _source_text(book) for book in (before, after)]
    return (old, new) if lines[0] == lines[1] else (lines[0], lines[1] or "")


def _source_text(notebook: dict[str, object]) -> str:
    return "".join(f"{line}\n" for line in notebooks.cell_lines(notebook, with_outputs=False))


def _unchanged(shown: str) -> ToolReturn:
    return ToolReturn(
        f"{shown} is unchanged: it already has this content.",
        details={"path": shown, "change": "unchanged", "lines_added": 0, "lines_removed": 0},
    )
