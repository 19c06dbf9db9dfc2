"""Markers on disk of the protected state at the start of a turn, kept until the turn is over.

The code of a turn may change the user's settings and end the kernel, so that nothing is put back.
The next kernel reads the earlier state here. The files are in Jupyter's configuration folder:

    jupyter_agent_turns/KERNEL.json    files of settings and the trust store when the last turn
                                       began; it begins with "-" once that has ended
    jupyter_agent_turns/KERNEL.lock    locked as long as the kernel runs
"""

from __future__ import annotations

import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.files.atomic import TURNS_FOLDER, open_private, ordinary, private_folder
from jupyter_agent.files.shared import process_token
from jupyter_agent.files.trust import Grant

_LARGEST = 64 * 1024 * 1024
_FORGOTTEN = 3600.0
"""Seconds after which the lock of an ended kernel may go, though no turn of it is here."""
_RUNS, _ENDED = b"{", b"-"
"""The first byte of a turn's file; one that has ended is no JSON."""
_written: dict[Path, TurnMarker] = {}
_locks: dict[Path, Any] = {}
"""The lock of this kernel, until it ends."""


@dataclass(frozen=True)
class TurnMarker:
    """The protected state at the start of a turn.

    Attributes:
        root: The workspace.
        files: By name, the digest of each of the user's settings files, and the content that
            counted: an earlier one if a change waited for the user's decision.
        trusted: All entries of the trust store.
        skills: The user's own skills by the path of their folders, each with a stamp of its files.
    """

    root: Path
    files: dict[str, tuple[str, bytes | None]]
    trusted: frozenset[Grant]
    skills: dict[str, str]


def begin(began: TurnMarker) -> Path:
    """Write the marker: a turn of this kernel begins.

    Returns:
        The file, for `end`.

    Raises:
        OSError: It cannot be written.
    """
    place = _folder() / f"{process_token()}.json"
    if _written.get(place) == began and place.exists():
        _mark(place, _RUNS)  # most turns begin in the same state as the last one
        return place
    _hold_lock(place.with_suffix(".lock"))
    files = {name: [seen, _text(counting)] for name, (seen, counting) in began.files.items()}
    value = {"root": str(began.root), "files": files, "trusted": sorted(began.trusted)}
    value["skills"] = began.skills
    with open_private(place, "wb") as stream:  # the file survives the kernel without a sync
        stream.write(json.dumps(value).encode())
    _written[place] = began
    return place


def end(place: Path) -> None:
    """Mark the turn as ended, after its code's changes are held. Raises `OSError`."""
    _mark(place, _ENDED)


def others() -> list[tuple[Path, int]]:
    """The files of other kernels, each with a stamp that changes with each turn."""
    own = f"{process_token()}.json"
    try:
        with os.scandir(_folder()) as entries:
            found = [e for e in entries if e.name.endswith(".json") and e.name != own]
    except Exception:  # there is no folder, or the agent's code has replaced `os.scandir`
        return []
    turns = []
    for entry in found:
        with suppress(OSError):  # it has just ended
            turns.append((Path(entry.path), entry.stat(follow_symlinks=False).st_mtime_ns))
    return sorted(turns)


def read(place: Path) -> TurnMarker | None:
    """The marker in a turn's file; None if the turn has ended, or the file is torn or gone."""
    try:
        found = ordinary(place)
        if found is None or found.st_size > _LARGEST:
            return None
        value = json.loads(place.read_bytes())
        files = {
            str(name): (str(seen), _bytes(text)) for name, (seen, text) in value["files"].items()
        }
        trusted = frozenset((str(kind), str(at), str(one)) for kind, at, one in value["trusted"])
        skills = {str(path): str(stamp) for path, stamp in value["skills"].items()}
        return TurnMarker(Path(value["root"]), files, trusted, skills)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


@contextmanager
def outlived(place: Path) -> Iterator[bool]:
    """Yields True if the turn's kernel has ended; the file is removed unless the block raises."""
    from filelock import FileLock, Timeout

    path = place.with_suffix(".lock")
    lock = FileLock(path, mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield place.exists()
        place.unlink(missing_ok=True)
        with suppress(OSError):  # Windows keeps a file that is open
            path.unlink(missing_ok=True)
    finally:
        lock.release()


def _mark(place: Path, state: bytes) -> None:
    with place.open("r+b", buffering=0) as stream:
        stream.write(state)


def _hold_lock(path: Path) -> None:
    """Hold a lock that shows other kernels that this one runs."""
    if path in _locks and path.exists():
        return
    from filelock import FileLock

    private_folder(path.parent)
    _remove_forgotten(path.parent)
    lock = FileLock(path, mode=0o600, thread_local=False)
    lock.acquire(timeout=0)
    _locks[path] = lock


def _remove_forgotten(folder: Path) -> None:
    """Remove the locks of kernels that ended between two turns."""
    for path in folder.glob("*.lock"):
        turn = path.with_suffix(".json")
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _FORGOTTEN and not turn.exists():
                with outlived(turn):
                    pass


def _folder() -> Path:
    return Path(jupyter_config_dir()) / TURNS_FOLDER


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode("ascii")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
