"""The trust store: settings, servers, skills and recordings of a workspace that the user accepted.

A workspace may be somebody else's, so its own settings, servers and skills act only after the user
said yes. The answers are kept in the user's Jupyter configuration folder, never in the workspace:

    {"version": 1, "trusted": {"mcp": {"/path/of/the/workspace": ["<digest>", …]}}}

A digest covers the whole accepted definition, so that a change asks again. A store that cannot be
read trusts nothing, and is never overwritten.

`JUPYTER_AGENT_TRUST=workspace`, set before the kernel starts, trusts a workspace's settings,
servers and skills: for unattended runs. Entries that a turn's code adds for its workspace are
removed when the turn ends (`revoke_since`).

Beside it is the user's own secret key. It signs files that this package writes into a workspace and
must later distinguish from planted ones.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.core.environment import TRUST_VALUE, TRUST_VARIABLE
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.atomic import atomic_write, ordinary, private_folder

STORE = "jupyter_agent_trust.json"
KEY = "jupyter_agent_key"
_VERSION = 1
_LOCK_SECONDS = 10.0

SETTINGS = "settings"
"""The kind of the settings of a workspace's own file; one digest is over all that need trust."""
HELD = "held"
"""The kind of entries for changes by the agent's code that do not count until the user says so."""

Trusted = dict[str, dict[str, list[str]]]
"""Digests by kind and by place."""
Grant = tuple[str, str, str]
"""Kind, place and digest."""

# Read once, before any code of the agent's runs: it must not trust its own work.
_FROM_OUTSIDE = os.environ.get(TRUST_VARIABLE) == TRUST_VALUE
_BY_THIS_PROCESS: set[Grant] = set()
_CASSETTE = "cassette"
_KINDS_OF_A_WORKSPACE = frozenset({SETTINGS, "mcp", "skill"})


def is_trusted(kind: str, place: str | Path, digest: str) -> bool:
    """True if the user trusted exactly this digest.

    Args:
        kind: `settings`, `mcp`, `skill`, `cassette` or `held`.
        place: The workspace's folder; symlinks are resolved.
        digest: The digest of the whole definition.
    """
    if _FROM_OUTSIDE and kind in _KINDS_OF_A_WORKSPACE:
        return True
    return digest in digests(kind, place)


def digests(kind: str, place: str | Path) -> frozenset[str]:
    """All digests of a kind that the user trusted in this place; empty if the store is torn."""
    try:
        return frozenset(_read().get(kind, {}).get(_place(place), []))
    except ConfigError:
        return frozenset()


def grants() -> frozenset[Grant]:
    """All entries of the store; empty if it cannot be read."""
    try:
        found = _read()
    except ConfigError:
        return frozenset()
    return frozenset(
        (kind, place, digest)
        for kind, places in found.items()
        for place, digests in places.items()
        for digest in digests
    )


def revoke_since(before: frozenset[Grant], root: Path, by_others: bool = False) -> bool:
    """Remove the entries of a workspace that were added since `before`, during a turn.

    Args:
        before: The entries at the start of the turn.
        root: The workspace.
        by_others: True if the turn ran in another process, which has died: new entries for
            recordings of the workspace are removed, too.

    Returns:
        True if there were any.

    Raises:
        ConfigError: As `trust`.
    """
    kinds = _KINDS_OF_A_WORKSPACE | ({_CASSETTE} if by_others else set())
    new = [
        (kind, place, digest)
        for kind, place, digest in grants() - before
        if (kind in kinds and Path(place).is_relative_to(_place(root)))
        or (kind == _CASSETTE and (kind, place, digest) in _BY_THIS_PROCESS)
    ]
    for kind, place, digest in new:
        revoke(kind, place, digest)
    return bool(new)


def replace(kind: str, place: str | Path, *digests: str) -> None:
    """Trust these digests, and no other ones of their kind in this place.

    Raises:
        ConfigError: As `trust`.
    """
    with _changing() as trusted:
        trusted.setdefault(kind, {})[_place(place)] = list(dict.fromkeys(digests))
    _BY_THIS_PROCESS.update((kind, _place(place), digest) for digest in digests)


def trust(kind: str, place: str | Path, digest: str) -> None:
    """Add an entry: the user trusts this digest.

    Raises:
        ConfigError: The store cannot be read, written or locked; it is unchanged.
    """
    with _changing() as trusted:
        digests = trusted.setdefault(kind, {}).setdefault(_place(place), [])
        if digest not in digests:
            digests.append(digest)
    _BY_THIS_PROCESS.add((kind, _place(place), digest))


def revoke(kind: str, place: str | Path, digest: str | None = None) -> bool:
    """Remove the entry of a digest, or all entries of its kind in this place.

    Args:
        kind: As for `is_trusted`.
        place: As for `is_trusted`.
        digest: The entry to remove; None: all of the kind there.

    Returns:
        True if there was an entry.

    Raises:
        ConfigError: As `trust`.
    """
    with _changing() as trusted:
        places = trusted.get(kind, {})
        old = places.get(_place(place), [])
        kept = [known for known in old if digest is not None and known != digest]
        if kept:
            places[_place(place)] = kept
        else:
            places.pop(_place(place), None)
    return len(kept) < len(old)


def problem() -> str:
    """Why the store cannot be read, so that nothing is trusted; empty if it can."""
    try:
        _read()
    except ConfigError as error:
        return str(error)
    return ""


def store_path() -> Path:
    """The file of the store. It may not exist yet."""
    return Path(jupyter_config_dir()) / STORE


def personal_key() -> bytes:
    """The user's secret key. The first use makes it, in a file that only they can read.

    Raises:
        ConfigError: It cannot be read or made.
    """
    path = Path(jupyter_config_dir()) / KEY
    try:
        if (key := _read_key(path)) is not None:
            return key
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            if (key := _read_key(path)) is None:
                key = secrets.token_hex(32).encode("ascii")
                atomic_write(path, key, mode=0o600)
            return key
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read or created: {error.strerror or error}."
        ) from error


def sign(data: str | bytes, key: bytes | None = None) -> str:
    """The signature of the data by the user's key; empty if the key is not available.

    Args:
        data: The data to sign.
        key: The user's key, for callers that sign often; None reads it.
    """
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    try:
        return hmac.digest(personal_key() if key is None else key, data, "sha256").hex()
    except ConfigError:
        return ""


def is_signed(data: str | bytes, mark: str, key: bytes | None = None) -> bool:
    """True if `mark` is the signature of this data by the user's key."""
    made = sign(data, key)
    return bool(made) and hmac.compare_digest(made.encode(), mark.encode("utf-8", "replace"))


def _read_key(path: Path) -> bytes | None:
    found = ordinary(path)
    if found is None:
        return None
    key = path.read_bytes().strip()
    if len(key) < 32:  # it was emptied: anybody could sign with it
        raise OSError(0, "the key in it is too short. Move it away")
    return key


def _place(place: str | Path) -> str:
    return os.path.realpath(place)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a file. Raises `ConfigError` if another process does for too long."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_SECONDS, mode=0o600):
            yield
    except Timeout:
        raise ConfigError(f"{path} is locked by another process. Try again.") from None


@contextmanager
def _changing() -> Iterator[Trusted]:
    """Yields the store's content for changes; reads and writes it back under its lock."""
    path = store_path()
    try:
        private_folder(path.parent)
        with _locked(path):
            trusted = _read()
            yield trusted
            data = json.dumps({"version": _VERSION, "trusted": trusted}, indent=2) + "\n"
            atomic_write(path, data.encode("ascii"), private=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _read() -> Trusted:
    path = store_path()
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise _foreign(path)
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        raise _foreign(path) from None
    if not isinstance(value, dict) or value.get("version") != _VERSION:
        raise _foreign(path)
    return _checked(value.get("trusted"), path)


def _checked(value: object, path: Path) -> Trusted:
    if not isinstance(value, dict):
        raise _foreign(path)
    for places in value.values():
        if not isinstance(places, dict):
            raise _foreign(path)
        for digests in places.values():
            if not isinstance(digests, list) or not all(isinstance(one, str) for one in digests):
                raise _foreign(path)
    return value


def _foreign(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is not a trust store of this version, so nothing is trusted. Move it away."
    )
