"""The output of a command: plain text for terminals and logs, HTML for front ends."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.redact import redact, secret_values

_CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0"
_TABLE = "border-collapse:collapse;margin:2px 0;font-size:13px"
_PRE = "margin:4px 0;white-space:pre-wrap"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. The first cell of a row is its name; a row of one cell is a heading."""

    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        rows = [tuple(map(plain, row)) for row in self.rows]
        columns = max(map(len, rows), default=0)
        widths = [
            max((len(row[index]) for row in rows if len(row) > index + 1), default=0)
            for index in range(columns)
        ]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
            for row in rows
        )
        return "\n".join(lines)

    @property
    def html(self) -> str:
        rows = "".join(
            "<tr>"
            + "".join(
                _html_cell(cell, not index and len(row) > 1) for index, cell in enumerate(row)
            )
            + "</tr>"
            for row in self.rows
        )
        return f'<table style="{_TABLE}">{rows}</table>'


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Tables and texts, one below the other."""

    parts: tuple[Table | str, ...]

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.parts)

    @property
    def html(self) -> str:
        """The HTML, fully escaped; inline styles only, since notebooks keep no others."""
        return "".join(_html_part(part) for part in self.parts)


def without_secrets(said: CommandReport | str) -> CommandReport | str:
    """A report without secrets and control characters: the output is saved with the notebook."""
    secrets = secret_values()
    if isinstance(said, str):
        return redact(plain(said), secrets)
    return CommandReport(tuple(_part_without(part, secrets) for part in said.parts))


def _part_without(part: Table | str, secrets: tuple[str, ...]) -> Table | str:
    if isinstance(part, str):
        return redact(part, secrets)
    return Table(tuple(tuple(redact(cell, secrets) for cell in row) for row in part.rows))


@contextmanager
def errors_without_secrets() -> Iterator[None]:
    """Remove secrets and control characters from the messages of errors in this context.

    IPython shows them, and saves them with the notebook; some quote a server.
    """
    try:
        yield
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (redact(plain(error.args[0]), secret_values()), *error.args[1:])
        raise


def table(rows: Iterable[Sequence[str]]) -> Table:
    return Table(tuple(tuple(row) for row in rows))


def report(*parts: Table | str) -> CommandReport:
    """A report of the parts that are not empty."""
    return CommandReport(tuple(part for part in parts if part and part != Table(())))


def _html_cell(text: str, is_name: bool) -> str:
    inside = html.escape(plain(text))
    return f'<td style="{_CELL}">{f"<code>{inside}</code>" if is_name else inside}</td>'


def _html_part(part: Table | str) -> str:
    if isinstance(part, Table):
        return part.html
    return f'<pre style="{_PRE}">{html.escape(plain(part))}</pre>'
