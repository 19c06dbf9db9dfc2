"""`%agent trust`: what came with a folder, in plain words, and the person's word on it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from IPython.core.error import StdinNotImplementedError

from jupyter_agent.config import held
from jupyter_agent.core.environment import TRUST_VALUE, TRUST_VARIABLE
from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.files import trust as store
from jupyter_agent.kernel.front_end import is_attended
from jupyter_agent.magics.parser import Command, family
from jupyter_agent.mcp.servers import TRUST_KIND as SERVERS
from jupyter_agent.recording.trusted import KIND as CASSETTES
from jupyter_agent.session.folder_trust import Waiting, planted, waiting
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.session.protected_settings import ProtectedSettings
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.skills.discovery import KIND as SKILLS
from jupyter_agent.skills.discovery import discover

_NOTHING = "Nothing here waits for trust."
_YES = frozenset({"y", "yes"})
_QUESTION = "Trust all of this, as it is now? [y]es, [n]o: "
_UNATTENDED = (
    "Nobody can be asked here, so nothing was trusted. To trust the settings, servers and skills "
    f"of this folder, set {TRUST_VARIABLE}={TRUST_VALUE} before the kernel starts."
)
_MOST_LINES = 60


@family(
    "trust",
    heading="What it may do",
    examples={
        "%agent trust show": "see what waits for your trust; nothing is trusted",
        "%agent trust": "see it, and be asked once whether to trust all of it",
        "%agent trust revoke": "trust nothing of this folder any more",
    },
)
@click.pass_obj
def trust(sessions: KernelSessions) -> str:
    """show what this folder's settings, servers, skills and recordings would do, and trust them"""
    waiting = _waiting_in(sessions)
    if not waiting:
        return _NOTHING
    print(_told(waiting))  # noqa: T201 (the question below is about it)
    return _decided(sessions.kernel.shell, waiting)


@trust.command("show", cls=Command)
@click.pass_obj
def _show(sessions: KernelSessions) -> str:
    """show what waits for your trust; nothing is trusted"""
    waits = _told(_waiting_in(sessions)) or _NOTHING
    return "\n".join([waits, *planted(sessions.kernel.workspace)])


@trust.command("revoke", cls=Command)
@click.pass_obj
def _revoke(sessions: KernelSessions) -> str:
    """trust nothing of this folder any more"""
    kernel = sessions.kernel
    kernel.refuse_while_busy()
    root = kernel.workspace.root
    skills = [
        skill.folder
        for skill in discover(kernel.skill_places()).skills
        if skill.origin == "workspace"
    ]
    places: list[tuple[str, Path]] = [(store.SETTINGS, root), (SERVERS, root)]
    places += [(SKILLS, folder) for folder in skills]
    places += [(CASSETTES, path) for path in kernel.cassettes]
    done = [store.revoke(kind, place) for kind, place in places]
    return "Nothing of this folder is trusted any more." if any(done) else "Nothing was trusted."


def _waiting_in(sessions: KernelSessions) -> list[Waiting]:
    sessions.kernel.refuse_while_busy()
    return list(_waiting(sessions.kernel))


def _told(waiting: Sequence[Waiting]) -> str:
    return "\n".join(line for one in waiting for line in one.lines)


def _decided(shell: Any, waiting: Sequence[Waiting]) -> str:
    if hasattr(shell, "kernel") and not is_attended(shell):
        return _UNATTENDED
    try:
        answer = input(_QUESTION)
    except (StdinNotImplementedError, EOFError, OSError):
        return _UNATTENDED
    except KeyboardInterrupt:
        return "Nothing was trusted."
    if answer.strip().casefold() not in _YES:
        return "Nothing was trusted."
    for one in waiting:
        one.accept()
    return "Trusted, as it is now. A change is asked about again."


def _waiting(kernel: Kernel) -> Iterator[Waiting]:
    """All that waits, as it is on the disk: a change that is held back is among it."""
    if changes := tuple(_changes(kernel.protected)):
        yield Waiting(changes, kernel.protected.accept)
    with held.released(kernel.protected.pending.files):
        effective = kernel.effective()
        found = list(waiting(effective, kernel.cassettes))
    yield from found


def _changes(protected: ProtectedSettings) -> Iterator[str]:
    """What the agent's code changed, without the value of anything."""
    pending = protected.pending
    if pending.variables:
        yield f"Variables that the agent's code set: {', '.join(sorted(pending.variables))}"
    if keys := protected.layers.keys:
        yield f"Settings that the agent's code changed: {', '.join(keys)}"
    for path in pending.files:
        yield f"The agent's code changed {path.name}:"
        yield from _difference(held.before(path), held.content_of(path))


def _difference(before: bytes | None, after: bytes | None) -> Iterator[str]:
    old, new = (_lines(content) for content in (before, after))
    found = [
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    yield from (f"  {_unsecret(plain(line))}" for line in found[:_MOST_LINES])
    if len(found) > _MOST_LINES:
        yield f"  ({len(found) - _MOST_LINES} more lines)"


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()


def _unsecret(line: str) -> str:
    """A line of a settings file without the value of a key, headers or a proxy."""
    name, colon, _ = line.partition(":")
    secret = any(word in name.casefold() for word in ("key", "header", "proxy", "token", "auth"))
    return f"{name}: (not shown)" if colon and secret else one_line(line, 200)
