"""The folder that an agent may touch: path confinement, the state folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.core.messages import clean
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.files.atomic import STATE_FOLDER, atomic_write, kind_of, private_folder

CASSETTE = ".cassette.jsonl"
_PRIVATE_FILES = ("config.yaml", "mcp.json")
_OWN_PREFIX = "jupyter_agent"
"""The prefix of our files in Jupyter's configuration folder: some hold keys."""
_TICK = 2_000_000_000
"""Nanoseconds in which two changes may have the same time: some file systems count in seconds."""
_LONGEST_PATH = 4096
_LONGEST_NAME = 255
_GITIGNORE = """\
# Written by jupyter_agent, once; yours to edit.
.gitignore
logs/
outputs/
sessions/
checkpoints/
trash/
"""
_WINDOWS_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    device + digit for device in ("COM", "LPT") for digit in "0123456789¹²³"
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder, and the paths in it that a model may read and write.

    Args:
        root: The folder. Its symlinks are resolved once.
    """

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(os.path.realpath(self.root)))

    def resolve(self, path: str) -> Path:
        """The absolute path, without symlinks, of a path relative to the root or inside of it.

        The path need not exist.

        Raises:
            ToolError: The path is empty or too long, or leads outside. The message is the same
                for every path outside, whether or not it exists.
        """
        _check_spelling(path)
        if os.name == "nt" and refused_on_windows(path, self.root):
            raise _outside(path)
        try:
            target = Path(os.path.realpath(self.root / path))
            names = target.relative_to(self.root).parts
            too_long = len(os.fsencode(target)) >= _LONGEST_PATH or any(
                len(os.fsencode(name)) > _LONGEST_NAME for name in names
            )
        except (OSError, ValueError, RecursionError):
            raise _outside(path) from None
        if self._ends_in_symlink(target):
            raise _outside(path)
        if too_long:
            raise ToolError(f"{_shown(path)} is too long or has a name that is. Use a shorter one.")
        return target

    def relative(self, path: Path) -> str:
        """The path from the root, with forward slashes, for display; `.` is the root.

        Raises:
            ToolError: The path is not inside of the root.
        """
        try:
            return clean(path.relative_to(self.root).as_posix())
        except ValueError:
            raise _outside(str(path)) from None

    def writable(self, path: str) -> Path:
        """Like `resolve`, for a path to write.

        Raises:
            ToolError: As `resolve`; or the path is in a state folder or in `.git`.
        """
        target = self.resolve(path)
        if self.protects(target):
            raise ToolError(
                f"{_shown(path)} belongs to {STATE_FOLDER} or .git, where tools must not write. "
                "Use another folder."
            )
        return target

    def readable(self, path: str) -> Path:
        """Like `resolve`, for a path to read.

        Raises:
            ToolError: As `resolve`; or it is a state file that may hold keys.
        """
        target = self.resolve(path)
        by_name = (
            target.parent.name.casefold() == STATE_FOLDER
            and target.name.casefold() in _PRIVATE_FILES
        )
        own = target.parent == Path(os.path.realpath(jupyter_config_dir()))
        by_name |= own and target.name.casefold().startswith(_OWN_PREFIX)
        if by_name or any(_same(target, self.state_folder / name) for name in _PRIVATE_FILES):
            raise ToolError(f"{_shown(path)} may hold keys and must not be read.")
        return target

    def protects(self, path: Path) -> bool:
        """True if a path is, or is in, a state folder, a `.git` or Jupyter's configuration.

        `path` must be resolved. The names count at any depth, since a notebook in a subfolder has
        a state folder of its own, and in upper and lower case, since many file systems ignore
        case.
        """
        names = (name.casefold() for name in path.relative_to(self.root).parts)
        if any(name in (STATE_FOLDER, ".git") for name in names):
            return True
        places = [place for place in (path, *path.parents) if place.is_relative_to(self.root)]
        # The trust store is there, and a home folder may be a workspace.
        guarded = (self.state_folder, self.root / ".git", Path(jupyter_config_dir()))
        return any(_same(place, folder) for place in places for folder in guarded)

    @property
    def state_folder(self) -> Path:
        """The folder of configuration, logs, sessions and checkpoints. It may not exist yet."""
        return self.root / STATE_FOLDER

    def ensure_state_folder(self) -> Path:
        """The state folder, made on demand with a `.gitignore` for its local files.

        An existing `.gitignore` stays unchanged.

        Raises:
            ConfigError: The folder cannot be made, or is a symlink that leads outside.
        """
        folder = self.state_folder
        if not Path(os.path.realpath(folder)).is_relative_to(self.root):
            raise ConfigError(f"{folder} leads out of the workspace. Replace it by a folder.")
        try:
            if folder.exists() and not folder.is_dir():
                kind = kind_of(folder.stat().st_mode)
                raise ConfigError(
                    f"The folder {folder} cannot be made: {kind} is in its place. Move it away."
                )
            private_folder(folder)
            if not os.path.lexists(folder / ".gitignore"):
                atomic_write(folder / ".gitignore", _GITIGNORE.encode())
        except PermissionError:
            raise ConfigError(
                f"{folder} cannot be written to. Give yourself the right, with chmod u+rwx."
            ) from None
        except OSError as error:
            raise ConfigError(f"The folder {folder} cannot be made: {error.strerror}.") from error
        return folder

    def _ends_in_symlink(self, target: Path) -> bool:
        """True if `realpath` gave up on a cycle of links, which it leaves in the path."""
        below = [place for place in (target, *target.parents) if place.is_relative_to(self.root)]
        return any(os.path.islink(place) for place in below)  # noqa: PTH114 (never raises)


def refused_on_windows(path: str, root: Path | PureWindowsPath) -> bool:
    """True if Windows would take the path for a device, a data stream or another drive.

    Call it before the path is resolved, because resolving `//server/share` asks the server.
    """
    pure = PureWindowsPath(path)
    if pure.drive:
        same_drive = pure.drive.casefold() == PureWindowsPath(root).drive.casefold()
        if not same_drive or not pure.root:
            return True
    names = pure.parts[1:] if pure.anchor else pure.parts
    return any(
        ":" in name
        or (name != ".." and name != name.rstrip(" ."))
        or name.split(".")[0].rstrip().upper() in _WINDOWS_DEVICES
        for name in names
    )


def notebook_path(namespace: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    """The path of a kernel's notebook; None if the front end does not name it.

    Args:
        namespace: The kernel's variables; VS Code sets `__vsc_ipynb_file__` there.
        environ: The environment; Jupyter Server sets `JPY_SESSION_NAME` there.
    """
    for name in (namespace.get("__vsc_ipynb_file__"), environ.get("JPY_SESSION_NAME")):
        if isinstance(name, str) and name.endswith(".ipynb") and "\0" not in name:
            path = Path(name)
            beside = Path.cwd() / path.name
            # Some servers give a path from their own root, while the kernel runs beside it.
            return beside if not path.exists() and beside.exists() else Path.cwd() / path
    return None


def cassette_of(notebook: Path) -> Path:
    """The path of a notebook's cassette."""
    return notebook.with_name(f"{notebook.stem}{CASSETTE}")


def cassettes_in(folder: Path) -> list[Path]:
    """The cassettes of a folder, by name."""
    return sorted(folder.glob(f"*{CASSETTE}"))


def changed_at(folder: Path) -> int | None:
    """The time in nanoseconds when an entry was last added to a folder or removed from it.

    None if an equal time later would not prove that nothing changed: the folder does not exist,
    or its last change is so recent that the next one may get the same time.
    """
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return None
    return changed if time.time_ns() - changed > _TICK else None


def _check_spelling(path: str) -> None:
    if not path.strip():
        raise ToolError("The path is empty. Give one relative to the workspace's root.")
    if "\0" in path:
        raise ToolError("The path holds a NUL character. Give one without it.")
    if len(path) > _LONGEST_PATH:
        raise ToolError("The path is too long. Use a shorter one.")


def _outside(path: str) -> ToolError:
    return ToolError(
        f"{_shown(path)} is outside of the workspace. "
        "Use a path inside of it, relative to its root."
    )


def _shown(path: str) -> str:
    return repr(path if len(path) <= 120 else f"{path[:80]}…{path[-30:]}")


def _same(one: Path, other: Path) -> bool:
    """True if both paths are one existing file, which may have several names."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
