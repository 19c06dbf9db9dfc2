"""Protects the settings that decide a turn's server and rights from the agent's code.

Environment variables (keys, addresses, proxies, certificates, `JUPYTER_AGENT_*`), settings files,
settings in memory, the user's skills and the trust store are remembered before a turn's code runs.
Changes by that code do not count for the next turn: variables are put back, changed files are read
in their earlier version, changed skills wait. One
line says so, and `%agent trust` accepts the changes. Other variables, and the user's own cells,
take effect at once. If a turn's code ends the kernel, the next kernel finds the earlier state in
the turn's marker (`turn_marker`). A guard rail: the agent's code shares the process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
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
from jupyter_agent.session.held_layers import HeldLayers, Layers
from jupyter_agent.skills.discovery import hold_skill, user_skills

_NAMES = re.compile(
    r"JUPYTER_AGENT_\w+|ANTHROPIC_\w+|OPENAI_\w+|(?:https?|all|no|ftp|wss?)_proxy|"
    r"SSL_CERT_(?:FILE|DIR)|SSLKEYLOGFILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NETRC|"
    r"HF_(?:ENDPOINT|HOME|TOKEN|HUB_\w+)|"
    r"HOME|USERPROFILE|APPDATA|XDG_CONFIG_HOME|JPY_SESSION_NAME|"
    r"JUPYTER_(?:CONFIG_DIR|CONFIG_PATH|DATA_DIR|NO_CONFIG|PREFER_ENV_PATH|PLATFORM_DIRS)|"
    r"OTEL_INSTRUMENTATION_GENAI_\w+",
    re.IGNORECASE,
)
"""Variables by which a server, a key, a way to it, or a file of settings is found."""
_ACCEPT = "This does not count until you say so: %agent trust"
_HELD = trust.HELD


@dataclass
class Pending:
    """Changes by the agent's code that wait for the user's decision.

    Attributes:
        variables: For each name the restored value, and the one that the agent's code set; None
            stands for no value.
        files: Files that the agent's code changed.
    """

    variables: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)


class ProtectedSettings:
    """The protected settings of one kernel.

    Args:
        in_memory: Returns the layers of settings that this process holds.
        cells: Returns a number that changes when a cell of the user's runs; None in such a cell.

    Attributes:
        pending: Changes by the agent's code that the user has not accepted.
        layers: The settings in memory, with held changes.
    """

    def __init__(
        self,
        in_memory: Callable[[], Layers] = tuple,
        cells: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._cells = cells
        self._after: tuple[int, _Environment] | None = None
        self._late: list[str] = []
        self._before: _State | None = None
        self.pending = Pending()
        self.layers = HeldLayers(in_memory)
        self._looked_at: object = None
        self._found: list[str] = []
        self._accepted: set[tuple[Path, str]] = set()
        self._turn: Path | None = None
        self.look()

    def look(self) -> None:
        """Hold changes that the code of other or earlier kernels has made since the last look.

        And those of this kernel's variables since the last turn, if no cell of the user's has run:
        a thread of the turn's code made them.
        """
        with suppress(Exception):  # the turn's code may have patched these functions
            self._look_between_turns()
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

    def _look_between_turns(self) -> None:
        after, self._after = self._after, None
        if after is None or self._before is not None:
            return
        if after[0] == self._cells():
            self._late += [*self._put_back(after[1]), *self.layers.end()]
            self._after = after

    def _hold_for_good(self, began: turn_marker.TurnMarker) -> None:
        """Hold changes since the start of a turn whose kernel died, also for later kernels."""
        for path in self._changed_since(began):
            self._note(path)
            digest = held.digest_of(held.content_of(path))
            if not _hold_again(path):
                _write_down(path, digest, held.before(path))
        self._found += _hold_skills(began.skills)
        if _trust_again(began.trusted, began.root, by_others=True):
            self._found.append("what you trust")

    def _changed_since(self, began: turn_marker.TurnMarker) -> Iterator[Path]:
        """The user's files that changed since the start of a turn; holds them."""
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
        """The changes by code in other kernels, on one line; returned once, empty if none."""
        late, self._late = ", ".join(dict.fromkeys(self._late)), []
        names, self._found = ", ".join(self._found), []
        lines = [f"Changed since the last turn, by no cell of yours: {late}."] if late else []
        if names:
            lines.append(f"Changed by the agent's code in another kernel: {names}.")
        return " ".join([*lines, _ACCEPT]) if lines else ""

    def was_set(self, key: str) -> None:
        """Let a setting in memory count: the user has set it, between two turns."""
        if self._before is None:
            self.layers.release(key)
            self.layers.begin()

    def begin(self, workspace: Workspace) -> None:
        """Remember the current state: a turn begins in a workspace."""
        self._before = None
        with suppress(Exception):  # code of earlier turns may have patched these functions
            self._forget_settled()
            self.layers.begin()
            self._before = _State(workspace)
            self._turn = turn_marker.begin(self._before.for_kernels_to_come())

    def end(self) -> tuple[str, ...]:
        """Put back the changes of the turn's code.

        Returns:
            The changes in one line; empty if there were none, or no turn had begun.
        """
        before, self._before = self._before, None
        if before is None:
            return ()
        names, more = self._put_back(before.environment), list[str]()
        files, trusts = list[Path](), False
        with suppress(Exception):  # the turn's code may have patched these functions
            files = self._hold(before)
            trusts = _trust_again(before.trusted, before.root)
            if self._turn is not None:
                turn_marker.end(self._turn)
        with suppress(Exception):
            more = [*self.layers.end(), *_hold_skills(before.skills)]
        with suppress(Exception):
            self.layers.begin()
            cells = self._cells()
            self._after = (cells, _Environment.now()) if cells is not None else None
        changed = [*names, *more, *(path.name for path in files)]
        changed += ["what you trust"] if trusts else []
        if not changed:
            return ()
        return (
            f"The agent's code changed what decides the next turn: {', '.join(changed)}. {_ACCEPT}",
        )

    def accept(self) -> None:
        """Accept the pending changes for the user, except for those of the trust store.

        Raises:
            ConfigError: The trust store cannot be written.
        """
        for name, (_, value) in self.pending.variables.items():
            _set(os.environ, name, value)
        for path in self.pending.files:
            self._accepted.add((path, held.digest_of(held.content_of(path))))
            held.release(path)
            _hold_no_longer(path)
        self.layers.accept()
        self.pending = Pending()

    def _forget_settled(self) -> None:
        """Drop pending changes that the user has meanwhile decided by a cell or an edit."""
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

    def _put_back(self, before: _Environment) -> list[str]:
        current = deciding_variables()
        hidden = _put_back_hidden(before.hidden)
        changed = sorted(
            name
            for name in current.keys() | before.variables.keys()
            if current.get(name) != before.variables.get(name)
        )
        for name in changed:
            old, new = before.variables.get(name), current.get(name)
            self.pending.variables[name] = old, new
            for value in secret_values({name: new or ""}):
                keep_secret(value)
            _set(os.environ, name, old)
        for name in hidden.keys() - set(changed):
            self.pending.variables[name] = os.environ.get(name), hidden[name]
        return sorted({*changed, *hidden})

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


@dataclass(frozen=True)
class _Environment:
    """The deciding variables at one moment.

    Attributes:
        variables: Those of `os.environ`.
        hidden: Those of the process itself, by `_hidden_variables`.
    """

    variables: dict[str, str]
    hidden: dict[bytes, bytes]

    @classmethod
    def now(cls) -> _Environment:
        return cls(deciding_variables(), _hidden_variables())


class _State:
    """The protected state at one moment."""

    def __init__(self, workspace: Workspace) -> None:
        folder = workspace.state_folder
        files = (*_own_files(), folder / config.WORKSPACE_FILE, folder / WORKSPACE_SERVERS)
        self.root = workspace.root
        self.environment = _Environment.now()
        self.skills = _stamps_of_skills()
        self.files = {path: _contents(path) for path in files}
        self.trusted = trust.grants()

    def for_kernels_to_come(self) -> turn_marker.TurnMarker:
        """The marker that later kernels read if this one dies."""
        own = {path: self.files[path] for path in _own_files()}
        files = {
            path.name: (held.digest_of(content), counting)
            for path, (content, counting) in own.items()
        }
        return turn_marker.TurnMarker(self.root, files, self.trusted, self.skills)


def _contents(path: Path) -> tuple[bytes | None, bytes | None]:
    """A file's content, and the content that counts: an earlier one while a change is held."""
    content = held.content_of(path)
    return content, held.before(path) if held.is_held(path) else content


def _hold_again(path: Path) -> bool:
    """Hold a change that an earlier kernel's code made. Returns True if there is one.

    The content before the change counts. If that was tampered with, no content counts.
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
    """Hold a change of one of the user's own files for later kernels, too.

    Args:
        path: The file.
        digest: The digest of its content.
        counting: The content that counts.

    Raises:
        ConfigError: The trust store cannot be written.
    """
    _hold_no_longer(path)
    _keep(path, counting)
    trust.trust(_HELD, path.parent, f"{path.name} {digest} {held.digest_of(counting)}")


def _trust_again(before: frozenset[trust.Grant], root: Path, by_others: bool = False) -> bool:
    """Restore the trust store to its state when a turn began.

    Returns True if the turn's code had added something.

    Args:
        before: The entries when the turn began.
        root: The turn's workspace.
        by_others: True if the turn ran in another process.

    Raises:
        ConfigError: The trust store cannot be read or written.
    """
    has_new = trust.revoke_since(before, root, by_others)
    for kind, place, digest in before - trust.grants():
        if kind == _HELD:  # the turn's code must not release held changes
            trust.trust(kind, place, digest)
    return has_new


def _hold_no_longer(path: Path) -> None:
    """Release a held change of one of the user's own files: the user has decided."""
    if path in _own_files():
        with suppress(ConfigError, OSError):
            place = os.path.realpath(path.parent)
            for kind, where, entry in trust.grants():
                if (kind, where) == (_HELD, place) and entry.startswith(f"{path.name} "):
                    trust.revoke(_HELD, path.parent, entry)
            _kept(path).unlink(missing_ok=True)


def _keep(path: Path, counting: bytes | None) -> None:
    """Store the counting content of a changed file for later kernels."""
    with suppress(OSError):
        if held.content_of(_kept(path)) == counting:
            return
        if counting is None:
            _kept(path).unlink(missing_ok=True)
        else:
            atomic_write(_kept(path), counting, private=True)


def _stamp(path: Path) -> object:
    """A value that changes whenever the file does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _kept(path: Path) -> Path:
    """The path of the stored content that counts while a change of the user's file is held."""
    return path.with_name(f"{path.name}.before")


def _own_files() -> tuple[Path, ...]:
    """The user's own settings files, for all notebooks."""
    folder = Path(jupyter_config_dir())
    return (folder / config.USER_FILE, folder / USER_SERVERS)


def deciding_variables() -> dict[str, str]:
    """The environment variables that decide a turn's server and settings."""
    return {name: value for name, value in os.environ.items() if _NAMES.fullmatch(name)}


def _hidden_variables() -> dict[bytes, bytes]:
    """The deciding variables of the process itself, which child processes and C code get.

    `os.putenv` and C functions set them past `os.environ`. Empty on systems without a known way to
    read them.
    """
    if sys.platform == "win32":
        return {}
    import ctypes

    entries = ctypes.POINTER(ctypes.c_char_p)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            library._NSGetEnviron.restype = ctypes.POINTER(entries)
            found = library._NSGetEnviron().contents
        else:
            found = entries.in_dll(library, "environ")
    except (OSError, ValueError, AttributeError):
        return {}
    variables, number = {}, 0
    while found and (entry := found[number]) is not None:
        name, _, value = entry.partition(b"=")
        if _NAMES.fullmatch(os.fsdecode(name)):
            variables[name] = value
        number += 1
    return variables


def _put_back_hidden(before: dict[bytes, bytes]) -> dict[str, str | None]:
    """Restore the variables of the process itself. Returns the changed ones; None: it was removed.

    Args:
        before: The variables at the start of the turn, by `_hidden_variables`.
    """
    changed, now = {}, _hidden_variables()
    for name in before.keys() | now.keys():
        if before.get(name) == now.get(name):
            continue
        if name in before:
            os.putenv(name, before[name])
        else:
            os.unsetenv(name)
        changed[os.fsdecode(name)] = os.fsdecode(now[name]) if name in now else None
    return changed


def _stamps_of_skills() -> dict[str, str]:
    return {path: str(stamp) for path, stamp in user_skills().items()}


def _hold_skills(before: Mapping[str, str]) -> list[str]:
    """Hold the user's skills that changed since the start of a turn. Returns their names.

    Args:
        before: The skills at the start of the turn, by `_stamps_of_skills`.

    Raises:
        ConfigError: The trust store cannot be written.
    """
    changed = [path for path, stamp in _stamps_of_skills().items() if before.get(path) != stamp]
    return [f"the skill {Path(path).name}" for path in changed if hold_skill(Path(path))]


def _set(environ: MutableMapping[str, str], name: str, value: str | None) -> None:
    if value is None:
        environ.pop(name, None)
    else:
        environ[name] = value
