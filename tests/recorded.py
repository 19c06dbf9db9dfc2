"""A small notebook with turns of the agent, recorded for real: a kernel, a script, a cassette.

    book = record(tmp_path)
    book.save(book.read())

`rewrite` breaks it by hand, `change` changes it as a program does that knows how.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import yaml

from jupyter_agent.core.messages import Message, Text
from jupyter_agent.notebooks import recording
from jupyter_agent.recording.cassette import RecordedTurn, load, save

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
        """The lines of the cassette as values, without the blank ones."""
        text = self.cassette.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line]

    def rewrite(self, change: Callable[[list[Any]], None]) -> None:
        """Change the lines of the cassette by hand: the digests of the turns stay."""
        lines = self.lines()
        change(lines)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self.cassette.write_text(text, encoding="utf-8")

    def change(self, number: int, change: Callable[[RecordedTurn], RecordedTurn]) -> None:
        """Change a turn of the cassette, which gets a new digest."""
        cassette = load(self.cassette)
        turns = list(cassette.turns)
        turns[number] = change(turns[number])
        save(replace(cassette, turns=tuple(turns)), self.cassette)

    def say(self, number: int, text: str) -> None:
        """Let the model answer something else in a turn of the cassette."""

        def said(turn: RecordedTurn) -> RecordedTurn:
            *steps, last = turn.steps
            reply = replace(last.reply, message=Message("assistant", (Text(text),)))
            return replace(turn, steps=(*steps, replace(last, reply=reply)))

        self.change(number, said)


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
    """Record a notebook in an otherwise empty folder, as `jupyter agent record` does."""
    book = Recorded(folder / f"{NAME}.ipynb")
    book.save(notebook_of(*(sources or SOURCES)))
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump(TURNS), encoding="utf-8")
    recording.record(book.path, {"provider": "scripted", "script": script.name}, timeout=60)
    script.unlink()
    return book
