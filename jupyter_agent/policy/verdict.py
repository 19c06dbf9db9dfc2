"""What the policy is told, and what it answers."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jupyter_agent.core.effects import Risk, RiskKind
from jupyter_agent.core.plaintext import one_line

Mode = Literal["read_only", "ask_risky", "ask_all", "auto"]

NOUNS: Mapping[RiskKind, str] = {
    "shell": "shell commands",
    "process": "other processes",
    "install": "package installs",
    "delete": "deletions",
    "network": "network access",
    "outside": "writes outside the workspace",
    "overwrite": "writes over files that the agent has not read",
    "folder": "changes of the working folder",
    "browser": "JavaScript in your browser",
    "hidden": "code that cannot be seen before it runs",
    "settings": "changes to how Python and IPython work",
    "agent": "changes to the agent itself",
    "tool": "tools of other servers",
    "widget": "widgets with exactly this script",
    "memory": "saves to your own memory from this workspace",
}
"""Each kind in words, for the person who answers."""

NEVER_GRANTED: frozenset[RiskKind] = frozenset({"agent"})
"""Kinds that are asked for each time: who may change the agent may change what it asks for."""

ASKED_IN_AUTO: frozenset[RiskKind] = frozenset({"memory"})
"""Kinds that are asked for once even where every call runs: they reach other workspaces, whoever
works there later."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a name in the kernel's namespace is, as far as the policy needs it.

    Args:
        qualified: `os` for the module os however it is named, `os.system` for that function,
            `pathlib.PosixPath()` for an instance of a class, empty for anything else.
        text: The value, where it is a short string or a path.
        in_memory: Whether it is a buffer such as `io.StringIO`: writing there makes no file.
    """

    qualified: str = ""
    text: str | None = None
    in_memory: bool = False


def _real(path: str) -> Path:
    return Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """Where a call would run.

    Args:
        root: The workspace's folder, absolute and without symlinks.
        folder: The kernel's working folder, from which relative paths in code start.
        seen: Files that the agent has read whole or written itself, absolute, without symlinks.
        protected: Folders and files that steer the agent: code that writes there always asks.
        names: The kernel's names before the code runs, looked up only as the code uses them.
        granted: What the person has allowed for the session, as `grants` gives it.
        own_names: Names that the agent's own code made, which it may delete.
        made: Files that the agent's code or tools made, absolute, without symlinks.
        temporary: The system's folder for temporary files, without symlinks.
        home: The user's home, without symlinks.
    """

    root: Path
    folder: Path
    seen: Set[Path] = frozenset()
    protected: frozenset[Path] = frozenset()
    names: Mapping[str, Known] = field(default_factory=dict)
    granted: Set[str] = frozenset()
    own_names: Container[str] = frozenset()
    made: Set[Path] = frozenset()
    temporary: Path = field(default_factory=lambda: _real(tempfile.gettempdir()))
    home: Path = field(default_factory=lambda: _real("~"))


@dataclass(frozen=True, slots=True)
class Told:
    """What code tells of the content that it gives to files.

    Attributes:
        texts: The new content of each file, where it is sure.
        is_all: True if the code does nothing else.
    """

    texts: Mapping[Path, str] = field(default_factory=dict)
    is_all: bool = False


NOTHING_TOLD = Told()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done with a call.

    Args:
        decision: Run it, ask the person, or refuse it.
        reason: Why it is refused, in one line.
        risks: Why it asks.
        writes: Files that it writes, where they can be told: the agent's own from then on.
        tool: The tool's name, where it asks because of the tool and not because of the risks.
        contents: What the files get that code writes, where the code tells it.
    """

    decision: Literal["allow", "ask", "refuse"]
    reason: str = ""
    risks: tuple[Risk, ...] = ()
    writes: tuple[Path, ...] = ()
    tool: str = ""
    contents: Told = NOTHING_TOLD


_OF_PATHS = frozenset({"delete", "overwrite", "outside"})
PROCESSES: frozenset[RiskKind] = frozenset({"shell", "process", "install"})


def covers(approved: Risk, risk: Risk) -> bool:
    """True if a yes to one risk, before code ran, is a yes to what the code then does.

    A risk without a place covers its kind. Commands of a shell, processes and installs are one
    kind here: the code tells the same command in different ways.
    """
    kinds = {approved.kind, risk.kind}
    is_same_file = bool(approved.place) and kinds <= {"overwrite", "delete"}
    if len(kinds) > 1 and not kinds <= PROCESSES and not is_same_file:
        return False
    if not approved.place or approved.place == risk.place:
        return True
    if risk.kind in PROCESSES:
        return _is_same_command(approved, risk.place)
    if risk.kind == "network":
        return False
    return Path(risk.place).is_relative_to(approved.place)


def is_granted(risk: Risk, granted: Set[str]) -> bool:
    """True if a right that was given for the session covers a risk."""
    if risk.kind in NEVER_GRANTED:
        return False
    # A command of the shell and a process are the same thing once it happens.
    kinds = {"shell", "process"} if risk.kind in ("shell", "process") else {risk.kind}
    if not kinds.isdisjoint(granted) or scope(risk) in granted:
        return True
    folders = (
        right.partition("@")[2] for right in tuple(granted) if right.startswith(f"{risk.kind}@")
    )
    return risk.kind in _OF_PATHS and any(Path(risk.place).is_relative_to(f) for f in folders)


def scope(risk: Risk) -> str:
    """What "always" grants for a risk: its kind and where, as an entry of `granted`."""
    return f"{risk.kind}@{_where(risk)}" if _where(risk) else risk.kind


def _is_same_command(approved: Risk, line: str) -> bool:
    """True if a command that the code told is the one that runs."""
    if approved.kind == "shell" and len(line.split()) == 1:
        return True  # the shell of a cell magic, which reads the script that was shown
    beginning = re.split(r"[{$…]", approved.place, maxsplit=1)[0]
    if beginning != approved.place and beginning.strip():
        return line.startswith(beginning)  # IPython puts values into the rest
    told, runs = _words(approved.place), _words(line)
    # `%pip install x` runs as `/usr/bin/python -m pip install x`.
    return told in (runs[: len(told)], runs[-len(told) :])


def scope_words(risk: Risk, root: Path) -> str:
    """The same for the person: "deletions in data/". `root` is the workspace."""
    where = _where(risk)
    if risk.kind == "widget":
        where = where.rpartition(" ")[0]  # without the digest of its script
    if Path(where).is_relative_to(root):
        inside = Path(where).relative_to(root).as_posix()
        ending = "/" if risk.kind in _OF_PATHS else ""
        where = "this folder" if inside == "." else f"{inside}{ending}"
    if not where:
        return NOUNS[risk.kind]
    return f"{NOUNS[risk.kind]}{_JOINS.get(risk.kind, ' in')} {one_line(where)}"


_JOINED = re.compile(r"[;&|<>\n`$(){}]")
"""What may put several commands into one line: a right for such a line is for it alone."""
_JOINS = {
    "network": " to",
    "process": ":",
    "install": ":",
    "shell": ":",
    "settings": ":",
    "widget": ":",
}


def _where(risk: Risk) -> str:
    if risk.kind in PROCESSES and not _JOINED.search(risk.place):
        return next(iter(_words(risk.place)), "")
    if risk.kind in _OF_PATHS:
        return os.path.dirname(risk.place)  # noqa: PTH120
    return risk.place


def _words(command: str) -> list[str]:
    return command.lstrip("%! ").replace("'", "").replace('"', "").split()
