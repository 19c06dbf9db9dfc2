"""The code blocks of the documentation, and what is said about how they are tested.

A block is a fence with a language. What a test has to know of it stands in an HTML comment right
above it, which readers of the page do not see and readers of its source do:

    <!-- test: given
    import pandas
    df = pandas.DataFrame({"a": [1, 2]})
    -->
    ```python
    df.mean()
    ```

| comment | |
| --- | --- |
| `given CODE` | run this first, in the page's kernel |
| `replies YAML` | what the model of the `%%agent` cell says; without it, "Done." |
| `by a model that writes code` | the block is a reply of such a model, not a cell |
| `output` | a text block that is what the cell or the command above it shows |
| `file NAME` | write the block to this file, in the folder of the page's cells |
| `run SCRIPT` | run this command; SCRIPT has the replies of its model |
| `usage` | a text block: a line of `%agent help`, or all options of a `jupyter agent` command |
| `not run, REASON` | a block that is only read: its syntax, its commands and settings |
| `no code, REASON` | a text block that is neither code nor output: a picture of folders |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    (
        path
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        # `make docs` puts a copy of the example notebooks' folder there.
        if not path.is_relative_to(ROOT / "docs" / "examples")
    ),
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
CELLS = ("python", "ipython")
"""Languages of blocks that are cells. Magics stand in `ipython`."""
DIRECTIVES = ("{toctree}",)
"""What Sphinx reads, and complains of."""
KINDS = (
    "given",
    "replies",
    "by a model that writes code",
    "output",
    "file",
    "run",
    "usage",
    "not run",
    "no code",
)
_NOTE = re.compile(r"<!--\s*test:(.*?)-->", re.S)
_KIND = re.compile(rf"\s*({'|'.join(KINDS)})\b,?(.*)", re.S)


class PageError(ValueError):
    """A page has a block that no test would understand; the message says where."""


@dataclass(frozen=True, slots=True)
class Block:
    """One code block of a page, with the notes above it: kinds, and what follows them."""

    page: Path
    line: int
    language: str
    text: str
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    def note(self, kind: str) -> str | None:
        """What is said under this kind, if anything."""
        return dict(self.notes).get(kind)


def tokens(page: Path) -> list[Token]:
    """The Markdown of a page, in pieces."""
    reader = MarkdownIt("commonmark").enable("table")
    return reader.parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in order.

    Raises:
        PageError: There is one without a language, or a note that belongs to no block.
    """
    return list(_blocks(page, tokens(page)))


def _blocks(page: Path, parts: list[Token]) -> Iterator[Block]:
    notes: tuple[tuple[str, str], ...] = ()
    for part in parts:
        line = part.map[0] + 1 if part.map else 0
        where = f"{page.name}:{line}"
        if part.type == "fence":
            language = part.info.strip()
            if not language:
                raise PageError(f"{where}: a block without a language.")
            yield Block(page, line, language, part.content, notes)
        if part.type == "code_block":
            raise PageError(f"{where}: an indented block. Put it into a fence with a language.")
        if part.type == "html_block":
            notes += _notes(part.content, where)
        elif notes and part.type != "fence":
            raise PageError(f"{where}: the test comment above belongs to no block.")
        else:
            notes = ()
    if notes:
        raise PageError(f"{page.name}: the last test comment belongs to no block.")


def _notes(text: str, where: str) -> tuple[tuple[str, str], ...]:
    found = []
    for match in _NOTE.finditer(text):
        kind = _KIND.fullmatch(match[1])
        if kind is None:
            raise PageError(f"{where}: no such test comment: {match[1].strip()!r}.")
        if kind[1] in ("not run", "no code") and not kind[2].strip():
            raise PageError(f"{where}: {kind[1]!r} needs a reason.")
        found.append((kind[1], kind[2].strip("\n ")))
    return tuple(found)


def code_spans(page: Path) -> Iterator[tuple[str, str]]:
    """Each piece of code inside of a sentence or a table, with where it stands."""
    for part in tokens(page):
        for piece in part.children or ():
            if piece.type == "code_inline":
                line = part.map[0] + 1 if part.map else 0
                yield f"{page.relative_to(ROOT).as_posix()}:{line}", piece.content
