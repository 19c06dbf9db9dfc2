"""The cell that binds the inputs of a task: values of YAML as Python literals, never as code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError

_MOST_CHARACTERS = 100_000
_DEEPEST = 40
_WIDTH = 88


def inputs_cell(inputs: Mapping[str, Any]) -> str:
    """An assignment for each input, one below the other; empty without inputs.

    Args:
        inputs: Texts, numbers, true, false, nothing, and lists and mappings of these, by name.

    Raises:
        AgentError: A name is none of Python's, or a value cannot be written as a literal.
    """
    writing = _Writing()
    lines = []
    for name, value in inputs.items():
        shown = one_line(str(name), 60)
        if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
            raise AgentError(
                f"`inputs`: {shown!r} is not fit for the name of a variable. "
                "Use letters, digits and _, with a letter first."
            )
        try:
            lines.append(f"{name} = {writing.literal(value, len(name) + 3)}")
        except _NoLiteral as error:
            raise AgentError(f"`inputs`: {shown} {error}") from None
    return "\n".join(lines)


class _NoLiteral(Exception):
    """Why a value cannot be written."""


class _Writing:
    """Writes literals, up to a number of characters: aliases of YAML may mean a billion values."""

    def __init__(self) -> None:
        self._written = 0

    def literal(self, value: object, column: int = 0, depth: int = 0) -> str:
        if depth > _DEEPEST:
            raise _NoLiteral("is nested too deeply. Put the data into a file, and name that.")
        if isinstance(value, list):
            return self._several("[", "]", [((), each) for each in value], column, depth)
        if isinstance(value, dict):
            pairs = [((key,), each) for key, each in value.items()]
            return self._several("{", "}", pairs, column, depth)
        if isinstance(value, float) and not math.isfinite(value):
            raise _NoLiteral("is not a finite number. Leave it out, or write it as text.")
        if value is not None and not isinstance(value, bool | int | float | str):
            kind = type(value).__name__
            raise _NoLiteral(
                f"is a {kind} to YAML, which no literal of Python has. Put it in quotes, as text."
            )
        return self._counted(repr(value) if not isinstance(value, int) else _number(value))

    def _several(
        self,
        begin: str,
        end: str,
        items: list[tuple[tuple[Any, ...], Any]],
        column: int,
        depth: int,
    ) -> str:
        self._counted(begin + end)
        indent = "    " * (depth + 1)
        parts = []
        for key, value in items:
            name = f"{self.literal(key[0], 0, depth + 1)}: " if key else ""
            parts.append(name + self.literal(value, len(indent) + len(name), depth + 1))
        line = f"{begin}{', '.join(parts)}{end}"
        if column + len(line) <= _WIDTH and "\n" not in line:
            return line
        below = "".join(f"{indent}{part},\n" for part in parts)
        return f"{begin}\n{below}{'    ' * depth}{end}"

    def _counted(self, text: str) -> str:
        self._written += len(text) + 2
        if self._written > _MOST_CHARACTERS:
            raise _NoLiteral(
                f"makes the inputs longer than {_MOST_CHARACTERS:,} characters. "
                "Put the data into a file, and name that."
            )
        return text


def _number(value: int) -> str:
    if value.bit_length() > 4_000:  # Python refuses to write longer ones in decimals
        raise _NoLiteral("is a number of too many digits. Write it as text.")
    return repr(value)
