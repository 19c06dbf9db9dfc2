"""Side effects: what running code is about to do outside of the kernel's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

SideEffectAction = Literal[
    "write",
    "change",
    "make_folder",
    "delete",
    "move",
    "open_database",
    "run",
    "fork",
    "connect",
    "environment",
    "browse",
    "signal",
]
PATH_ACTIONS = frozenset({"write", "change", "make_folder", "delete", "move", "open_database"})
"""Actions whose place is a path."""


@dataclass(frozen=True, slots=True)
class SideEffect:
    """Something that code is about to do.

    Args:
        action: What it does. `change` is a change of permissions, owner or times.
        place: Where: an absolute path whose folders have no symlinks, the line of a command, a
            host, the name of an environment variable, an address for the browser, the id of a
            process. May be empty for `fork`.
        target: The new path of a `move`, the whole address of a `connect` if it is known.
        is_tree: True if it is about all that is below the path, too.
    """

    action: SideEffectAction
    place: str
    target: str = ""
    is_tree: bool = False


SideEffectJudge = Callable[[SideEffect], None]
"""Called before a side effect; prevents it by a `PermissionError`."""
