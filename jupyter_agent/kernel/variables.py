"""The person's variables: what is theirs, and what a turn did to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jupyter_agent.events import VariableChange


def user_variables(shell: Any) -> dict[str, object]:
    """The variables that the person or the agent made, in the order in which they were made.

    Left out: names that start with an underscore, IPython's own names, modules.
    """
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and not (name in hidden and hidden[name] is value)
    }


def variable_changes(
    before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[VariableChange, ...]:
    """What was added, bound to another object, or deleted. Mutation in place is not seen."""
    made = [
        VariableChange(name, "added" if name not in before else "changed", type(value).__name__)
        for name, value in after.items()
        if name not in before or before[name] is not value
    ]
    gone = [
        VariableChange(name, "deleted", type(value).__name__)
        for name, value in before.items()
        if name not in after
    ]
    return (*made, *gone)


def names_digest(variables: Mapping[str, object], limit: int = 2_000) -> str:
    """One line for each variable, newest first: its name and its type, never a value."""
    lines: list[str] = []
    size = 0
    for name, value in reversed(list(variables.items())):
        line = f"{name}: {type(value).__name__}"
        size += len(line) + 1
        if size > limit:
            lines.append(f"({len(variables) - len(lines)} older variables are left out)")
            break
        lines.append(line)
    return "\n".join(lines)
