"""What decides where the next turn goes and what it may do, kept from the agent's code.

Variables of the environment (keys, addresses, proxies, certificates, `JUPYTER_AGENT_*`), files of
settings and the trust store are remembered before a turn's code runs. What that code changed of
them does not count for the next turn: variables are put back, changed files are read as they were.
One line says so, and `%agent trust` accepts it. Other variables count at once, and so do the
person's own cells. Where a turn's code ends the kernel, the next one finds by `midturn` what
counted. A guard rail: the agent's code shares the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent import config
from jupyter_agent.config import held
from jupyter_agent.core.redact import keep_secret, secret_values
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.mcp.definitions import USER_FILE as USER_SERVERS
from jupyter_agent.mcp.definitions import WORKSPACE_FILE as WORKSPACE_SERVERS
from jupyter_agent.session import turn_marker

_NAMES = re.compile(
    r"JUPYTER_AGENT_\w+|ANTHROPIC_\w+|OPENAI_\w+|(?:https?|all|no|ftp|wss?)_proxy|"
    r"SSL_CERT_(?:FILE|DIR)|SSLKEYLOGFILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NETRC|"
    r"HF_(?:ENDPOINT|HOME|TOKEN|HUB_\w+)|"
    r"HOME|USERPROFILE|APPDATA|XDG_CONFIG_HOME|JPY_SESSION_NAME|"
    r"JUPYTER_(?:CONFIG_DIR|CONFIG_PATH|NO_CONFIG|PREFER_ENV_PATH|PLATFORM_DIRS)|"
    r"OTEL_INSTRUMENTATION_GENAI_\w+",
    re.IGNORECASE,
)
"""Variables by which a server, a key, a way to it, or a file of settings is found."""
_ACCEPT = "This does not count until you say so: %agent trust"
_HELD = "held"
"""The kind under which the trust store names changed files of the person's, for later kernels."""


@dataclass
class Pending:
    """What waits for the person's word.

    Attributes:
        variables: For each name the value that was put back, and the one that the agent's code
            set; None stands for no value.
        files: Files that it changed.
    """

    variables: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)


class ProtectedSettings:
    """What one kernel's turns depend on.

    Attributes:
        pending: What the agent's code changed and the person has not accepted.
    """

    def __init__(self) -> None:
        self._before: _State | None = None
        self.pending = Pending()
        self._looked_at: object = None
        self._found: list[str] = []
        self._accepted: set[tuple[Path, str]] = set()
        self._turn: Path | None = None
        self.look()

    def look(self) -> None:
        """Hold what the code of another kernel, or of an earlier one, changed meanwhile."""
        with suppress(OSError, ConfigError):
            for place, _ in turn_marker.others():
                with turn_marker.outlived(place) as is_over:
                    began = turn_marker.read(place) if is_over else None
                    if began is not None:
                        self._hold_for_good(began)
            running = turn_marker.others()
            stamps = [*map(_stamp, (*_own_files(), trust.store_path())), running]
            if stamps == self._looked_at:
                return
            self._looked_at = stamps
            for path in _own_files():
                if not held.is_held(path) and _hold_again(path):
                    self._note(path)
            for began in filter(None, (turn_marker.read(place) for place, _ in running)):
                for path in self._changed_since(began):
                    self._note(path)

    def _hold_for_good(self, began: turn_marker.TurnMarker) -> None:
        """Hold what changed since a turn began whose kernel died, also in kernels to come."""
        for path in self._changed_since(began):
            self._note(path)
            digest = held.digest_of(held.content_of(path))
            if not _hold_again(path):
                _write_down(path, digest, held.before(path))
        if _trust_again(began.trusted, began.root, by_others=True):
            self._found.append("what you trust")

    def _changed_since(self, began: turn_marker.TurnMarker) -> Iterator[Path]:
        """The person's files that are not as they were when a turn began; they are held now."""
        for path in _own_files():
            seen, counting = began.files.get(path.name, ("", None))
            digest = held.digest_of(held.content_of(path))
            if digest in (seen, held.digest_of(counting)) or (path, digest) in self._accepted:
                continue
            if not held.is_held(path):
                held.hold(path, counting, digest)
            yield path

    def _note(self, path: Path) -> None:
        if path not in self.pending.files:
            self.pending.files.append(path)
            self._found.append(path.name)

    def take_notice(self) -> str:
        """What code in another kernel changed, on one line; given once, empty where nothing was."""
        names, self._found = ", ".join(self._found), []
        return f"Changed by the agent's code in another kernel: {names}. {_ACCEPT}" if names else ""

    def begin(self, workspace: Workspace) -> None:
        """Remember how things are: a turn begins in a workspace."""
        self._before = None
        with suppress(Exception):  # code of earlier turns may have replaced what is called here
            self._forget_settled()
            self._before = _State(workspace)
            self._turn = turn_marker.begin(self._before.for_kernels_to_come())

    def end(self) -> tuple[str, ...]:
        """Put back what the turn's code changed.

        Returns:
            What was changed, in one line; nothing where nothing was, or no turn had begun.
        """
        before, self._before = self._before, None
        if before is None:
            return ()
        names, files, trusts = self._put_back(before), list[Path](), False
        with suppress(Exception):  # the turn's code may have replaced what is called here
            files = self._hold(before)
            trusts = _trust_again(before.trusted, before.root)
            if self._turn is not None:
                turn_marker.end(self._turn)
        changed = [*names, *(path.name for path in files), *(["what you trust"] if trusts else [])]
        if not changed:
            return ()
        return (
            f"The agent's code changed what decides the next turn: {', '.join(changed)}. {_ACCEPT}",
        )

    def accept(self) -> None:
        """The person's word: what is pending counts from now on, but for trust itself.

        Raises:
            ConfigError: The trust store cannot be written.
        """
        for name, (_, value) in self.pending.variables.items():
            _set(os.environ, name, value)
        for path in self.pending.files:
            self._accepted.add((path, held.digest_of(held.content_of(path))))
            held.release(path)
            _hold_no_longer(path)
        self.pending = Pending()

    def _forget_settled(self) -> None:
        """Drop what the person has decided since by a cell or an edit of their own."""
        waiting = self.pending
        for path in waiting.files:
            if not held.is_held(path):
                _hold_no_longer(path)
        self.pending = Pending(
            {
                name: values
                for name, values in waiting.variables.items()
                if os.environ.get(name) == values[0]
            },
            [path for path in waiting.files if held.is_held(path)],
        )

    def _put_back(self, before: _State) -> list[str]:
        now = deciding_variables()
        changed = sorted(
            name
            for name in now.keys() | before.variables.keys()
            if now.get(name) != before.variables.get(name)
        )
        for name in changed:
            old, new = before.variables.get(name), now.get(name)
            self.pending.variables[name] = old, new
            for value in secret_values({name: new or ""}):
                keep_secret(value)
            _set(os.environ, name, old)
        return changed

    def _hold(self, before: _State) -> list[Path]:
        changed = [
            path for path, (content, _) in before.files.items() if held.content_of(path) != content
        ]
        for path in changed:
            digest, counting = held.digest_of(held.content_of(path)), before.files[path][1]
            held.hold(path, counting, digest)
            if path in _own_files():
                with suppress(ConfigError, OSError):  # in this kernel it is held in any case
                    _write_down(path, digest, counting)
        self.pending.files += [path for path in changed if path not in self.pending.files]
        for path in self.pending.files:
            if path in _own_files() and held.is_held(path):
                _keep(path, held.before(path))  # that the turn's code may have changed, too
        return changed


class _State:
    """How things are at one moment."""

    def __init__(self, workspace: Workspace) -> None:
        folder = workspace.state_folder
        files = (*_own_files(), folder / config.WORKSPACE_FILE, folder / WORKSPACE_SERVERS)
        self.root = workspace.root
        self.variables = deciding_variables()
        self.files = {path: _contents(path) for path in files}
        self.trusted = trust.grants()

    def for_kernels_to_come(self) -> turn_marker.TurnMarker:
        """What is kept in case that the kernel dies."""
        own = {path: self.files[path] for path in _own_files()}
        files = {
            path.name: (held.digest_of(now), counting) for path, (now, counting) in own.items()
        }
        return turn_marker.TurnMarker(self.root, files, self.trusted)


def _contents(path: Path) -> tuple[bytes | None, bytes | None]:
    """What a file holds, and what counts of it."""
    now = held.content_of(path)
    return now, held.before(path) if held.is_held(path) else now


def _hold_again(path: Path) -> bool:
    """Hold a change that an earlier kernel's code made; whether there is one.

    What counts is the content before the change. Where that was tampered with, nothing counts.
    """
    digest = held.digest_of(held.content_of(path))
    # By the folder and the name, since the code may put a link in the file's place.
    place = os.path.realpath(path.parent)
    entries = (entry for kind, where, entry in trust.grants() if (kind, where) == (_HELD, place))
    for entry in entries:
        name, after, counting = [*entry.split(" "), "", ""][:3]
        if (name, after) == (path.name, digest):
            before = held.content_of(_kept(path))
            held.hold(path, before if held.digest_of(before) == counting else None, digest)
            return True
    return False


def _write_down(path: Path, digest: str, counting: bytes | None) -> None:
    """Hold a change of one of the person's own files in kernels to come, too.

    Args:
        path: The file.
        digest: Of what it holds.
        counting: What counts of it.

    Raises:
        ConfigError: The trust store cannot be written.
    """
    _hold_no_longer(path)
    _keep(path, counting)
    trust.trust(_HELD, path.parent, f"{path.name} {digest} {held.digest_of(counting)}")


def _trust_again(before: frozenset[trust.Grant], root: Path, by_others: bool = False) -> bool:
    """Trust what was trusted when a turn began; whether its code had added something.

    Args:
        before: All that was trusted.
        root: The turn's workspace.
        by_others: Whether the turn ran in another process.

    Raises:
        ConfigError: The trust store cannot be read or written.
    """
    has_new = trust.revoke_since(before, root, by_others)
    for kind, place, digest in before - trust.grants():
        if kind == _HELD:  # the turn's code must not forget what is held
            trust.trust(kind, place, digest)
    return has_new


def _hold_no_longer(path: Path) -> None:
    """Forget a change of one of the person's own files: they have decided."""
    if path in _own_files():
        with suppress(ConfigError, OSError):
            place = os.path.realpath(path.parent)
            for kind, where, entry in trust.grants():
                if (kind, where) == (_HELD, place) and entry.startswith(f"{path.name} "):
                    trust.revoke(_HELD, path.parent, entry)
            _kept(path).unlink(missing_ok=True)


def _keep(path: Path, counting: bytes | None) -> None:
    """Keep what counts of a changed file, for kernels to come."""
    with suppress(OSError):
        if held.content_of(_kept(path)) == counting:
            return
        if counting is None:
            _kept(path).unlink(missing_ok=True)
        else:
            atomic_write(_kept(path), counting, private=True)


def _stamp(path: Path) -> object:
    """Changes whenever the file does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _kept(path: Path) -> Path:
    """Where the content that counts is kept while a changed file of the person's is held."""
    return path.with_name(f"{path.name}.before")


def _own_files() -> tuple[Path, ...]:
    """The person's own files of settings, for all of their notebooks."""
    folder = Path(jupyter_config_dir())
    return (folder / config.USER_FILE, folder / USER_SERVERS)


def deciding_variables() -> dict[str, str]:
    """The variables of the environment on which a turn's server and settings depend."""
    return {name: value for name, value in os.environ.items() if _NAMES.fullmatch(name)}


def _set(environ: MutableMapping[str, str], name: str, value: str | None) -> None:
    if value is None:
        environ.pop(name, None)
    else:
        environ[name] = value
