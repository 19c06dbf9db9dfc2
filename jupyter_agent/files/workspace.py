"""The folder that an agent may touch: path confinement, the state folder, atomic writes."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO, Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.core.messages import clean
from jupyter_agent.errors import ConfigError, ToolError

CASSETTE = ".cassette.jsonl"
STATE_FOLDER = ".jupyter_agent"
TRIED_AGAIN = "It is tried again with each step."
"""Ends the line that says that something is not being kept."""
_PRIVATE_FILES = ("config.yaml", "mcp.json")
_OWN_PREFIX = "jupyter_agent"
"""How the names of our files in Jupyter's configuration folder begin: some hold keys."""
_CLOSED: set[str] = set()
"""State folders of earlier versions that were closed to others."""
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
    """A folder, and what in it a model may read and write.

    Args:
        root: The folder. It is kept with symlinks resolved.
    """

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(os.path.realpath(self.root)))

    def resolve(self, path: str) -> Path:
        """The absolute path, without symlinks, of a path relative to the root or inside of it.

        Nothing needs to exist there.

        Raises:
            ToolError: The path is empty or too long, or leads outside. The message is the same
                for everything outside, whether or not it exists.
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
        """The path from the root, with forward slashes, for showing; `.` is the root.

        Raises:
            ToolError: The path is not inside of the root.
        """
        try:
            return clean(path.relative_to(self.root).as_posix())
        except ValueError:
            raise _outside(str(path)) from None

    def writable(self, path: str) -> Path:
        """Like `resolve`, for a path that is about to be written.

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
        """Like `resolve`, for a path that is about to be read.

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
        """Whether a path is, or is in, a state folder, a `.git` or Jupyter's configuration.

        `path` must be resolved.

        At any depth: a notebook in a subfolder has a state folder of its own. In any case, since
        many file systems do not tell cases apart.
        """
        names = (name.casefold() for name in path.relative_to(self.root).parts)
        if any(name in (STATE_FOLDER, ".git") for name in names):
            return True
        places = [place for place in (path, *path.parents) if place.is_relative_to(self.root)]
        # What the person trusts is kept there, and a home folder may be a workspace.
        guarded = (self.state_folder, self.root / ".git", Path(jupyter_config_dir()))
        return any(_same(place, folder) for place in places for folder in guarded)

    @property
    def state_folder(self) -> Path:
        """Where configuration, logs, sessions and checkpoints are kept. It may not exist yet."""
        return self.root / STATE_FOLDER

    def ensure_state_folder(self) -> Path:
        """The state folder, made on demand with a `.gitignore` that hides what is not for git.

        A `.gitignore` that is there already is left as it is.

        Raises:
            ConfigError: The folder cannot be made, or is a symlink that leads outside.
        """
        folder = self.state_folder
        if not Path(os.path.realpath(folder)).is_relative_to(self.root):
            raise ConfigError(f"{folder} leads out of the workspace. Replace it by a folder.")
        try:
            if folder.exists() and not folder.is_dir():
                kind = _kind(folder.stat().st_mode)
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
        """Whether `realpath` gave up on a cycle: it then leaves links and what follows them."""
        below = [place for place in (target, *target.parents) if place.is_relative_to(self.root)]
        return any(os.path.islink(place) for place in below)  # noqa: PTH114 (never raises)


def refused_on_windows(path: str, root: Path | PureWindowsPath) -> bool:
    """Whether Windows would take a path for a device, a data stream or another drive.

    Checked before the path is resolved, because resolving `//server/share` asks the server.
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
    """The notebook that a kernel belongs to, where the front end tells, else None.

    Args:
        namespace: The kernel's variables, among which VS Code puts `__vsc_ipynb_file__`.
        environ: The environment, where Jupyter Server puts `JPY_SESSION_NAME`.
    """
    for name in (namespace.get("__vsc_ipynb_file__"), environ.get("JPY_SESSION_NAME")):
        if isinstance(name, str) and name.endswith(".ipynb") and "\0" not in name:
            path = Path(name)
            beside = Path.cwd() / path.name
            # Some servers give a path from their own root, while the kernel runs beside it.
            return beside if not path.exists() and beside.exists() else Path.cwd() / path
    return None


def cassette_of(notebook: Path) -> Path:
    """The cassette that goes with a notebook's name."""
    return notebook.with_name(f"{notebook.stem}{CASSETTE}")


def cassettes_in(folder: Path) -> list[Path]:
    """The cassettes of a folder, by name."""
    return sorted(folder.glob(f"*{CASSETTE}"))


def changed_at(folder: Path) -> int | None:
    """When something was last put into a folder or taken out of it, in nanoseconds.

    None where that does not tell whether there will be more: the folder is not there, or it was
    changed so shortly before that the next change may leave the same time behind.
    """
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return None
    return changed if time.time_ns() - changed > _TICK else None


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, and those above it that are missing.

    A folder that is there already is left as it is, but for a state folder, which an earlier
    version left open: it is closed with all that is in it.

    Raises:
        OSError: It cannot be made.
    """
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            is_ours = place == folder or STATE_FOLDER in place.parts
            place.mkdir(mode=0o700 if is_ours else 0o777, exist_ok=True)
        elif place.name == STATE_FOLDER:
            _close(place)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _close(state: Path) -> None:
    """Take a state folder's permissions from others, and those of all that is in it.

    Only where it is open, and only what is this user's own; no link is followed. Where the system
    refuses, or knows no permissions, all stays as it is.
    """
    with contextlib.suppress(OSError):
        if os.name == "nt" or str(state) in _CLOSED or not _is_open_to_others(state):
            return
        _CLOSED.add(str(state))  # once, also where permissions do not stick
        for folder, _, files in os.walk(state, topdown=False):
            for place in (*(os.path.join(folder, name) for name in files), folder):  # noqa: PTH118
                only_owner(place)


def _is_open_to_others(place: Path) -> bool:
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and bool(found.st_mode & 0o077)


def only_owner(place: str | os.PathLike[str] | int) -> None:
    """Take the permissions of others from a file or a folder of one's own, as far as that can be.

    Args:
        place: A path, whose links are not followed, or a descriptor.
    """
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        found = os.fstat(place) if isinstance(place, int) else os.lstat(place)
        is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        if is_plain and found.st_mode & 0o077 and found.st_uid == os.geteuid():
            os.chmod(place, stat.S_IMODE(found.st_mode) & 0o700)  # noqa: PTH101 (or a descriptor)


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Like `open`, for what only its owner may read: logs, copies, outputs.

    Raises:
        OSError: It cannot be opened.
    """
    stream: IO[Any] = open(path, mode, opener=_private_opener, **options)  # noqa: SIM115 (the caller's)
    return stream


def _private_opener(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    only_owner(descriptor)
    return descriptor


def atomic_write(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    private: bool | None = None,
    token: str = "",
) -> None:
    """Put data in a file's place, all of it or nothing.

    The bytes go to a new file in the same folder, which is renamed when they are on the disk. An
    existing file's permission bits are kept, and its owner where the system allows; a new file's
    are as the umask says. Meanwhile the bytes are never more open than that. A symlink at `path`
    is replaced, never followed.

    Args:
        path: Where they go.
        data: The bytes.
        mode: Permission bits that the file gets instead.
        private: Whether only the owner may read the file; None: where it is in a state folder.
        token: Names the new file, as `temporary_of` does, for who must find it after a crash;
            empty for a random one.

    Raises:
        OSError: Nothing was written; a file that was there is unchanged.
    """
    temporary = temporary_of(path, token or secrets.token_hex(8))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    if private is None:
        private = STATE_FOLDER in path.parts
    old = _regular(path)
    is_new = old is None and mode is None and not private
    try:
        # Mode 0o666 leaves it to the umask what a new file may, which mkstemp does not.
        with os.fdopen(os.open(temporary, flags, 0o666 if is_new else 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not private and not is_new:
            _give_permissions(temporary, old, mode)
        os.replace(temporary, path)  # noqa: PTH105 (Path.replace says less of what it does)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def temporary_of(path: Path, token: str) -> Path:
    """Where a file's new content is until it takes the file's place."""
    return path.with_name(f".jupyter_agent-{token}.tmp")


def ordinary(path: Path) -> os.stat_result | None:
    """What the system knows of an ordinary file; None where there is none.

    Raises:
        OSError: It is a link, a folder, a pipe or a device, or it cannot be looked at.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        kind = _kind(found.st_mode)
        raise OSError(0, f"{path.parent.name}/{path.name} is {kind} and no file. Move it away")
    return found


def make_folder(path: Path) -> None:
    """Make one of our own folders where there is none. A link in its place is not followed.

    Raises:
        OSError: It cannot be made, or something else is in its place.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        private_folder(path)
        return
    if not stat.S_ISDIR(mode):
        shown = f"{path.parent.name}/{path.name}"
        raise OSError(0, f"{shown} is {_kind(mode)} and no folder. Move it away")


def reason_of(error: Exception) -> str:
    """What went wrong, for the end of a sentence: `no space left on device`."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}".rstrip(".: ")
    reason = str(error.strerror or error).rstrip(".")
    return reason if error.errno == 0 else reason[:1].lower() + reason[1:]


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def append(path: Path, data: bytes, durable: bool = False) -> int:
    """Add data to the end of a file that is there, all of it or nothing. Links are not followed.

    A last line that has no end gets one first.

    Args:
        path: The file.
        data: Whole lines.
        durable: Whether to wait until they are on the disk.

    Returns:
        The size of the file now.

    Raises:
        OSError: Nothing was added, unless the system refuses to cut off what was.
    """
    if ordinary(path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    flags = os.O_RDWR | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    try:
        start = os.fstat(descriptor).st_size
        try:
            write_whole(descriptor, (b"\n" if _is_torn(descriptor, start) else b"") + data)
            if durable:
                os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, start)
            raise
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of the data: where a disk is nearly full, the system may write less at first."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_torn(descriptor: int, size: int) -> bool:
    """Whether the last line of an open file has no end."""
    if size == 0:
        return False
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) != b"\n"


def _regular(path: Path) -> os.stat_result | None:
    """What the system says of a file; None where there is none, or it is a link or a folder."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _give_permissions(target: Path, old: os.stat_result | None, mode: int | None) -> None:
    """Give a file the owner and the permission bits of an earlier one, or these bits.

    Where the group cannot be kept, the new one gets no more than everybody has.
    """
    if old is not None:
        mode = stat.S_IMODE(old.st_mode) if mode is None else mode
        if hasattr(os, "chown"):
            with contextlib.suppress(OSError):
                os.chown(target, old.st_uid, old.st_gid)
        if target.stat().st_gid != old.st_gid:
            mode &= ~0o070 | (mode & 0o007) << 3
    if mode is not None:
        with contextlib.suppress(OSError):  # a file system that knows no permissions
            target.chmod(mode)


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
    """Whether both are one existing file: file systems know more names for it than we do."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
