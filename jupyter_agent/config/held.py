"""Files that the agent's code changed, as they were before, until the person accepts the change.

Settings decide what the agent may do, so its own code must not change them for its next turn. The
readers of such files read through here. A file that somebody changes again is read as it is then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Held:
    """A change that does not count: what the file held before, and a digest of what it holds."""

    before: bytes | None
    digest: str


_HELD: dict[str, _Held] = {}


def hold(path: Path, before: bytes | None, digest: str) -> None:
    """Go on reading `before` from `path` as long as its content has this digest.

    Args:
        path: The file, as its readers name it: where a link leads may change.
        before: Its content before the change; None: there was no file.
        digest: Of its content after the change, by `digest_of`.
    """
    _HELD[_key(path)] = _Held(before, digest)


def release(path: Path) -> None:
    """Read the file as it is from now on."""
    _HELD.pop(_key(path), None)


@contextmanager
def released(paths: Iterable[Path]) -> Iterator[None]:
    """Read the files as they are, for a look at what a change would do."""
    places = [_key(path) for path in paths]
    kept = {place: _HELD.pop(place) for place in places if place in _HELD}
    try:
        yield
    finally:
        _HELD.update(kept)


def is_held(path: Path) -> bool:
    """Whether the file is still as the agent's code left it."""
    return _in_force(path) is not None


def before(path: Path) -> bytes | None:
    """What a held file held before the change; None where there was no such file.

    Raises:
        KeyError: The file is not held.
    """
    return _HELD[_key(path)].before


def digest_of(content: bytes | None) -> str:
    """Tells contents apart; a file that is not there has its own digest."""
    return "none" if content is None else hashlib.sha256(content).hexdigest()


def content_of(path: Path) -> bytes | None:
    """What a file holds now; None where there is no readable file."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def _in_force(path: Path) -> _Held | None:
    kept = _HELD.get(_key(path)) if _HELD else None
    return kept if kept and digest_of(content_of(path)) == kept.digest else None


def _key(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (which follows no link)
