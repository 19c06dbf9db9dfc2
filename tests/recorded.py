"""A small notebook with turns of the agent, recorded for real: a kernel, a script, a cassette.

    book = record(tmp_path)
    book.save(book.read())

`damaged` and `edited` make broken ones of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml

from jupyter_agent.notebooks import execute

NAME = "analysis"
DOUBLE, WORDS, MORE = "Double x.", "Say it in words.", "And once more."
LOAD = f"%load_ext jupyter_agent\n%agent cassette {NAME}.cassette.jsonl"
SOURCES = (
    "x = 21",
    LOAD,
    f"%%agent\n{DOUBLE}",
    "y",
    f"%%agent --into label\n{WORDS}",
    f'from jupyter_agent import ask\nanswer = await ask("{MORE}")',
)
CELLS = {DOUBLE: 2, WORDS: 4, MORE: 5}
TURNS = [
    {
        "task": DOUBLE,
        "replies": [
            {
                "text": "I compute it.",
                "calls": [{"name": "execute_code", "arguments": {"code": "y = 2 * x\ny"}}],
            },
            {"text": "It is 42."},
        ],
    },
    {"task": WORDS, "replies": [{"text": "Forty-two."}]},
    {"task": MORE, "replies": [{"text": "Still forty-two."}]},
]


@dataclass(frozen=True)
class Recorded:
    """A notebook and its cassette."""

    path: Path

    @property
    def cassette(self) -> Path:
        return self.path.with_suffix(".cassette.jsonl")

    def read(self) -> Any:
        return nbformat.read(self.path, as_version=4)

    def save(self, notebook: Any) -> None:
        nbformat.write(notebook, self.path)

    def edit(self, cell: int, source: str) -> None:
        """Write another source into a cell."""
        notebook = self.read()
        notebook.cells[cell].source = source
        self.save(notebook)

    def lines(self) -> list[Any]:
        """The lines of the cassette as values."""
        text = self.cassette.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def rewrite(self, change: Callable[[list[Any]], None]) -> None:
        """Change the lines of the cassette."""
        lines = self.lines()
        change(lines)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self.cassette.write_text(text, encoding="utf-8")


def notebook_of(*sources: str) -> Any:
    """A notebook of code cells, whose ids are the same each time."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


def record(folder: Path, *sources: str) -> Recorded:
    """Record a notebook in an otherwise empty folder, and save it with its outputs."""
    book = Recorded(folder / f"{NAME}.ipynb")
    book.save(notebook_of(*(sources or SOURCES)))
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump(TURNS), encoding="utf-8")
    settings = {"mode": "record", "provider": "scripted", "script": script.name}
    execution = execute(book.path, settings, timeout=60)
    assert not execution.error, execution.error
    script.unlink()
    book.save(execution.notebook)
    return book
