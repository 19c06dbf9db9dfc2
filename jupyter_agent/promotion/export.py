"""A notebook of a turn: the task, a cell a step, the model's words between, the answer."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_agent.core.legible import stable
from jupyter_agent.core.markdown import inert
from jupyter_agent.core.transcript import StepView, TurnView
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.promotion.cell import Kept, hoisted, joined_imports, notes, sources
from jupyter_agent.promotion.executed import Executed, statements
from jupyter_agent.promotion.slicing import needed
from jupyter_agent.promotion.turn import executed, results
from jupyter_agent.source.dataflow import Facts, Program

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(
    view: TurnView,
    opaque: Collection[str] | None = None,
    before: Sequence[str] = (),
) -> Any:
    """The notebook of a turn, in nbformat 4. The same turn gives the same notebook.

    Leaves out failed code, as `cell` does. Keeps statements that only look at something, since the
    model's words refer to them.

    Args:
        view: The turn.
        opaque: As for `cell`.
        before: The person's cells from before the turn. The notebook begins with those that the
            turn's code needs.
    """
    import nbformat

    earlier = [Executed(code) for code in before]
    ran = executed(view)
    kept = needed(statements(ran), results(view), opaque, lookups=True)
    theirs = _needed_cells(earlier, kept)
    cells = [*_opening(view, theirs), *_steps(view, kept, ran), *_closing(view)]
    made: Any = nbformat.v4.new_notebook(metadata=_METADATA)
    for number, (kind, source) in enumerate(cells):
        new: Any = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(new(source, id=f"cell-{number}"))
    nbformat.validate(made)
    return made


def export(made: Any, path: str, workspace: Workspace) -> str:
    """Write a notebook to a new file in the workspace; gives its path from the root.

    Raises:
        ConfigError: The path leads outside of the workspace, does not end in `.ipynb`, exists, or
            cannot be written. Leaves no file behind.
    """
    import nbformat

    if not path.endswith(".ipynb"):
        raise ConfigError(
            f"%agent export: {path!r} is no notebook. Name a file that ends in .ipynb."
        )
    try:
        target = workspace.writable(path)
        shown = workspace.relative(target)
    except ToolError as error:
        raise ConfigError(f"%agent export: {error}") from None
    data = nbformat.writes(made).encode() + b"\n"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_new(target, data)
    except FileExistsError:
        raise ConfigError(
            f"%agent export: {shown} is there already. Give another name, or move it away."
        ) from None
    except OSError as error:
        raise ConfigError(f"%agent export: {shown} cannot be written ({error.strerror}).") from None
    return shown


def _write_new(target: Path, data: bytes) -> None:
    """Write a new file as a whole or not at all.

    Raises:
        FileExistsError: It exists, or another process makes it at the same time.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        atomic_write(target, data)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _needed_cells(earlier: Sequence[Executed], kept: Sequence[Kept]) -> list[str]:
    """The person's cells that the turn's code depends on, unchanged."""
    live = _uses(facts for _, facts in kept)
    parts = statements(earlier)
    program = Program([part.tree for part in parts])
    chosen: list[str] = []
    everything = any(facts.opaque for _, facts in kept)
    for place in range(len(earlier) - 1, -1, -1):
        own = [program.facts(part.tree) for part in parts if part.origin == place]
        binds = set().union(*(facts.binds for facts in own))
        effect = any(facts.effect for facts in own)
        if effect or binds & live or (everything and binds):
            chosen.append(earlier[place].code)
            live |= _uses(own)
            everything = everything or any(facts.opaque for facts in own)
    return chosen[::-1]


def _uses(all_: Iterable[Facts]) -> set[str]:
    return set().union(*(facts.reads | facts.deferred | facts.deletes for facts in all_))


def _opening(view: TurnView, theirs: Sequence[str]) -> Iterator[tuple[str, str]]:
    task = "\n".join(f"> {line}".rstrip() for line in _words(view.task).split("\n"))
    yield "markdown", f"**Task**\n\n{task}"
    if theirs:
        yield "markdown", "What was there before:"
        yield from (("code", code.strip("\n")) for code in theirs)


def _steps(
    view: TurnView, kept: Sequence[Kept], ran: Sequence[Executed]
) -> Iterator[tuple[str, str]]:
    first, rest = hoisted(kept)
    if first:
        yield "code", "\n".join(joined_imports(first))
    for step in view.own_steps:
        if not step.calls:
            continue
        part = [each for each in rest if each[0].ran.step == step.number]
        told = [_words(step.text), *_other_calls(step)]
        words = "\n\n".join(text for text in told if text)
        told_code = notes([each for each in ran if each.step == step.number])
        if words and (part or told_code or any(_other_calls(step))):
            yield "markdown", words
        yield from (("code", note) for note in told_code)
        if part:
            yield "code", "\n".join(sources(part, is_last=True))


def _other_calls(step: StepView) -> Iterator[str]:
    """A line for each file that a step wrote by other tools than code."""
    for call in step.calls:
        details = call.result.details if call.result and not call.result.is_error else {}
        path, change = details.get("path"), details.get("change")
        if isinstance(path, str) and change in ("created", "changed", "deleted"):
            yield f"*({change} by the agent: {inert(stable(path))})*"


def _closing(view: TurnView) -> Iterator[tuple[str, str]]:
    if answer := _words(view.answer):
        yield "markdown", answer


def _words(text: str) -> str:
    """A text of the model or the person: legible, without secrets, with inactive markup."""
    return inert(stable(text)).strip("\n")
