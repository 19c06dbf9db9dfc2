"""The trust in cassettes: those that this user recorded here, or accepted.

A cassette may come with somebody else's folder, and its recorded approvals are not this user's.
Trust goes by the digest of each turn, so that only a turn that is changed from outside must be
trusted again. The turns of the package's example notebooks are known by their digests, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust

if TYPE_CHECKING:
    from jupyter_agent.recording.cassette import Cassette, RecordedTurn

KIND = "cassette"
EXAMPLES = "example_turns.txt"
"""The file with the digests of the turns of the example notebooks; `make examples` writes it."""
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class UntrustedCassette:
    """A cassette with turns that were neither recorded nor accepted here.

    Args:
        path: The file.
        does: The consequences of trusting it, in one line.
        digests: The digests of the content that was examined: of the file, then of each turn.
    """

    path: Path
    does: str
    digests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.name

    def trust(self) -> None:
        """Accept it with this content. Raises `ConfigError` if the store cannot be written."""
        trust.replace(KIND, self.path, *self.digests)


def cassettes(paths: Iterable[Path]) -> list[UntrustedCassette]:
    """The files that are untrusted cassettes. Unreadable ones are left out."""
    return list(_untrusted(dict.fromkeys(path.resolve() for path in paths)))


def _untrusted(paths: Iterable[Path]) -> Iterator[UntrustedCassette]:
    from jupyter_agent.recording.cassette import load

    for path in paths:
        digest = digest_of(path)
        if not digest or trust.is_trusted(KIND, path, digest):
            continue
        with suppress(ConfigError):
            cassette = load(path)
            known = trusted_turns([path])
            strange = [turn for turn in cassette.turns if turn.digest not in known]
            if strange or not cassette.turns:
                digests = (digest, *(turn.digest for turn in cassette.turns))
                yield UntrustedCassette(path, _does(cassette, strange), digests)


def _does(cassette: Cassette, turns: Iterable[RecordedTurn]) -> str:
    """A line, for instance: 12 recorded replies, whose calls then run in a replay without asking
    you: 2 calls were allowed when it was recorded (runs the shell command ls).

    Args:
        cassette: The whole recording.
        turns: Its turns that are not trusted.
    """
    steps = [step for turn in turns for step in turn.steps]
    allowed = [decision for step in steps for decision in step.decisions if decision.answer != "no"]
    replies = "1 recorded reply" if len(steps) == 1 else f"{len(steps)} recorded replies"
    if len(steps) < cassette.replies:
        replies += f" (of {cassette.replies}) that are new here"
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


def is_trusted(path: Path) -> bool:
    """True if all turns of a cassette were recorded or accepted here."""
    from jupyter_agent.recording.cassette import load

    if trust.is_trusted(KIND, path, digest_of(path)):
        return True
    with suppress(ConfigError):
        turns = load(path).turns
        return bool(turns) and {turn.digest for turn in turns} <= trusted_turns([path])
    return False


def trusted_turns(paths: Iterable[Path]) -> frozenset[str]:
    """The digests of the turns that the user recorded or accepted in these files.

    Those of the example notebooks are among them.
    """
    known = (trust.digests(KIND, path) for path in paths)
    return _of_the_examples().union(*known)


@cache
def _of_the_examples() -> frozenset[str]:
    text = (files("jupyter_agent.recording") / EXAMPLES).read_text(encoding="ascii")
    return frozenset(text.split())


def trust_as_written(path: Path) -> None:
    """Trust a cassette that the product itself wrote for the user.

    If the trust store cannot be written, the recording stays and is asked about.
    """
    from jupyter_agent.recording.cassette import load

    with suppress(ConfigError):
        trust_turns(path, (turn.digest for turn in load(path).turns), is_all=True)


def trust_turns(path: Path, digests: Iterable[str], *, is_all: bool) -> None:
    """Trust turns of a cassette that the product itself wrote for the user, and no others.

    Args:
        path: The file.
        digests: The digests of the turns.
        is_all: True if the file has no other turns.
    """
    whole = [digest_of(path)] if is_all else []
    with suppress(ConfigError):
        trust.replace(KIND, path, *whole, *digests)


def forget(path: Path) -> None:
    """Remove a file's entries from the store."""
    with suppress(ConfigError):
        trust.revoke(KIND, path)
