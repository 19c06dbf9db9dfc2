"""The trust in cassettes: those that this user recorded here, or accepted.

A cassette may come with somebody else's folder, and its recorded approvals are not this user's.
Trust goes by the digest of the file's content, so that a file that is changed from outside must be
trusted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust

if TYPE_CHECKING:
    from jupyter_agent.recording.cassette import Cassette

KIND = "cassette"
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class UntrustedCassette:
    """A cassette that was neither recorded nor accepted here.

    Args:
        path: The file.
        does: The consequences of trusting it, in one line.
        digest: The digest of the content that was examined.
    """

    path: Path
    does: str
    digest: str

    @property
    def name(self) -> str:
        return self.path.name

    def trust(self) -> None:
        """Accept it with this content. Raises `ConfigError` if the store cannot be written."""
        _accept(self.path, self.digest)


def cassettes(paths: Iterable[Path]) -> list[UntrustedCassette]:
    """The files that are untrusted cassettes. Unreadable ones are left out."""
    return list(_untrusted(dict.fromkeys(path.resolve() for path in paths)))


def _untrusted(paths: Iterable[Path]) -> Iterator[UntrustedCassette]:
    from jupyter_agent.recording.cassette import load

    for path in paths:
        digest = digest_of(path)
        if not digest or is_trusted(path, digest):
            continue
        with suppress(ConfigError):
            yield UntrustedCassette(path, _does(load(path)), digest)


def _does(cassette: Cassette) -> str:
    """A line, for instance: 12 recorded replies, whose code then runs without asking you: it was
    allowed 2 calls that ask (runs the shell command ls)."""
    allowed = [
        decision
        for turn in cassette.turns
        for step in turn.steps
        for decision in step.decisions
        if decision.answer != "no"
    ]
    replies = (
        "1 recorded reply" if cassette.replies == 1 else f"{cassette.replies} recorded replies"
    )
    line = f"{replies}, whose calls then run in a replay without asking you"
    if not allowed:
        return line
    reasons = dict.fromkeys(reason for decision in allowed for reason in decision.reasons)
    some = ", ".join(one_line(reason, 80) for reason in list(reasons)[:_MOST_REASONS])
    calls = "1 call was" if len(allowed) == 1 else f"{len(allowed)} calls were"
    return f"{line}: {calls} allowed when it was recorded{f' ({some})' if some else ''}"


def digest_of(path: Path) -> str:
    """The digest of a file's content; empty if it cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""


def is_trusted(path: Path, digest: str | None = None) -> bool:
    """True if a cassette was recorded or accepted here.

    Args:
        path: The file.
        digest: The digest of its content; None reads the file.
    """
    return trust.is_trusted(KIND, path, digest_of(path) if digest is None else digest)


def trust_as_written(path: Path) -> None:
    """Trust a cassette that the product itself wrote for the user.

    If the trust store cannot be written, the recording stays and is asked about.
    """
    with suppress(ConfigError):
        _accept(path, digest_of(path))


def forget(path: Path) -> None:
    """Remove a file's entries from the store."""
    with suppress(ConfigError):
        trust.revoke(KIND, path)


def _accept(path: Path, digest: str) -> None:
    trust.replace(KIND, path, digest)  # one digest for each file: recordings change with each turn
