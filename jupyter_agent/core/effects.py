"""Side effects: what code is about to do outside of the kernel's memory, and the risks of that."""

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
    "show_widget",
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
            process, the kind of a widget. May be empty for `fork`.
        target: The new path of a `move`, the whole address of a `connect` if it is known, the
            digest of a widget's script.
        is_tree: True if it is about all that is below the path, too.
    """

    action: SideEffectAction
    place: str
    target: str = ""
    is_tree: bool = False


SideEffectJudge = Callable[[SideEffect], None]
"""Called before a side effect; prevents it by a `PermissionError` with a `Refusal`."""

RiskKind = Literal[
    "shell",
    "process",
    "install",
    "delete",
    "network",
    "outside",
    "overwrite",
    "folder",
    "browser",
    "hidden",
    "settings",
    "agent",
    "tool",
    "widget",
    "memory",
]


@dataclass(frozen=True, slots=True)
class Risk:
    """One thing that a call does and a person may want to know of first.

    Args:
        kind: The kind of effect.
        what: One short line for that person.
        line: The line of the code, from 1; 0 for none.
        place: Where the effect takes place, if the code tells it: the real path of a file or
            folder, the host of an address without its port, or the command.
    """

    kind: RiskKind
    what: str
    line: int = 0
    place: str = ""


class Refusal(str):
    """The text of a `PermissionError` by a judge.

    Attributes:
        is_by_person: True if a person said no; False if nobody answered.
    """

    is_by_person = False
