"""The user's variables in the shell's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any


def user_variables(shell: Any, names: Mapping[str, object] | None = None) -> dict[str, object]:
    """The variables that the user or the agent made, in the order of their creation.

    Left out: names that start with an underscore, IPython's own names, modules.

    Args:
        shell: The IPython shell.
        names: The names to choose from; None for the shell's.
    """
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list((shell.user_ns if names is None else names).items())
        if not name.startswith("_")
        # By its type: an object may lie about its class, or fail when asked.
        and not issubclass(type(value), ModuleType)
        and not (name in hidden and hidden[name] is value)
    }
