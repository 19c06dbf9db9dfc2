"""Notebooks as the file tools see them: cells to read, search and edit; JSON that stays valid.

They are handled as plain JSON, so that everything that a tool does not touch stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_agent.errors import ToolError

_OUTPUT_CHARACTERS = 1_000
_OUTPUT_LINES = 20


def parse(text: str) -> dict[str, Any] | None:
    """A notebook of format 4 as JSON, or None if the text is not one."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(_is_cell(cell) for cell in cells):
        return None
    return notebook  # type: ignore[no-any-return]  # it is a dict: it has cells


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict):
        return False
    source = cell.get("source")
    whole = isinstance(source, str)
    return whole or (isinstance(source, list) and all(isinstance(line, str) for line in source))


def sources(notebook: dict[str, Any]) -> list[str]:
    """Each cell's source, in order."""
    return [_joined(cell["source"]) for cell in notebook["cells"]]


def cell_lines(notebook: dict[str, Any], with_outputs: bool = True) -> Iterator[str]:
    """The lines of a notebook for reading: each cell's number, type, source, short outputs."""
    for number, cell in enumerate(notebook["cells"], 1):
        yield f"[cell {number}: {cell.get('cell_type', 'unknown')}]"
        yield from _joined(cell["source"]).split("\n")
        if with_outputs:
            yield from output_lines(cell)


def with_sources(text: str, change: Callable[[str], str]) -> str:
    """The notebook's text with each cell's source changed and everything else as it was."""
    # JSON has no raw line ends within strings: those that there are only lay it out.
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    notebook = json.loads(text)
    dump = _dumper(text, notebook)
    for cell in notebook["cells"]:
        old = _joined(cell["source"])
        new = change(old)
        if new != old:
            as_lines = isinstance(cell["source"], list)
            cell["source"] = new.splitlines(keepends=True) if as_lines else new
    return dump(notebook).replace("\n", newline)


def check(text: str, shown: str) -> None:
    """Raise a ToolError unless the text is a valid notebook."""
    try:
        problem = _problem(json.loads(text))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    if problem:
        raise ToolError(
            f"{shown} would not be a valid notebook: {problem}. Nothing was written. "
            "Give the whole notebook as nbformat 4 JSON."
        )


def _problem(notebook: Any) -> str:
    from nbformat.validator import iter_validate

    # nbformat's own check raises all kinds of errors where the version is nonsense.
    is_object = isinstance(notebook, dict)
    if not is_object or notebook.get("nbformat") != 4 or type(notebook["nbformat"]) is not int:
        return "it is not a JSON object with nbformat 4"
    if type(notebook.get("nbformat_minor")) is not int:
        return "nbformat_minor is not a number"
    errors = iter_validate(notebook)
    found = next(iter(errors), None)
    if found is not None:
        return str(found).split("\n", 1)[0][:300]
    ids = [cell["id"] for cell in notebook.get("cells", ()) if "id" in cell]
    return "two cells have the same id" if len(ids) > len(set(ids)) else ""


def _dumper(text: str, notebook: Any) -> Callable[[Any], str]:
    """A way to write JSON that gives back this very text, where there is one."""
    end = text[len(text.rstrip()) :]
    styles: list[dict[str, Any]] = [{"indent": indent} for indent in (1, 2, 4, "\t", None)]
    styles.append({"separators": (",", ":")})
    for style in styles:
        for ascii_only in (False, True):

            def dump(
                value: Any, style: dict[str, Any] = style, ascii_only: bool = ascii_only
            ) -> str:
                return json.dumps(value, ensure_ascii=ascii_only, **style) + end

            if dump(notebook) == text:
                return dump
    return lambda value: json.dumps(value, ensure_ascii=False, indent=1) + end


def output_lines(cell: dict[str, Any]) -> Iterator[str]:
    """The outputs of a cell, each with its kind and a short text."""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            kind, text = _output_text(output)
            yield f"[output: {kind}]"
            yield from _shortened(text)


def _output_text(output: dict[str, Any]) -> tuple[str, str]:
    kind = str(output.get("output_type", "unknown"))
    if kind == "stream":
        return str(output.get("name", kind)), _joined(output.get("text"))
    if kind == "error":
        return kind, f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data")
    if not isinstance(data, dict):
        return kind, ""
    return ", ".join(map(str, data)), _joined(data.get("text/plain"))


def _shortened(text: str) -> Iterator[str]:
    lines = text[:_OUTPUT_CHARACTERS].removesuffix("\n").split("\n")
    yield from (line for line in lines[:_OUTPUT_LINES] if line or len(lines) > 1)
    if len(text) > _OUTPUT_CHARACTERS or len(lines) > _OUTPUT_LINES:
        yield f"[the rest of {len(text)} characters left out]"


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else ""
