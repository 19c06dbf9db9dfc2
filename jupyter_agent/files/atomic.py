"""Writes to the disk: private folders, files that change as a whole or not at all, appends."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import IO, Any

STATE_FOLDER = ".jupyter_agent"
TURNS_FOLDER = "jupyter_agent_turns"
"""Beside the user's settings: what they were when a turn began."""
_CLOSED: set[str] = set()
"""State folders of earlier versions that were closed to others."""


def private_folder(folder: Path, *, follow_link: bool = True) -> None:
    """Make a folder that only its owner may enter, and its missing parents.

    An existing folder stays unchanged, except for a state folder that an earlier version left
    open: it and its content lose the permissions of others.

    Args:
        folder: Its path.
        follow_link: True if the path may be a link to a folder.

    Raises:
        OSError: It cannot be made, or the path is no folder.
    """
    if not follow_link and (mode := _mode(folder)):
        if not stat.S_ISDIR(mode):
            shown = f"{folder.parent.name}/{folder.name}"
            raise OSError(0, f"{shown} is {kind_of(mode)} and no folder. Move it away")
        return
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            is_ours = place == folder or STATE_FOLDER in place.parts
            place.mkdir(mode=0o700 if is_ours else 0o777, exist_ok=True)
        elif place.name == STATE_FOLDER:
            _close(place)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _close(state: Path) -> None:
    """Remove the permissions of others from a state folder and everything in it.

    Touches an open folder alone, and this user's own files; follows no link. If the system
    refuses, or knows no permissions, they stay unchanged.
    """
    with contextlib.suppress(OSError):
        found = state.lstat()
        is_open = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077
        if os.name == "nt" or str(state) in _CLOSED or not is_open:
            return
        _CLOSED.add(str(state))  # once, also where permissions do not stick
        for folder, _, files in os.walk(state, topdown=False):
            for place in (*(os.path.join(folder, name) for name in files), folder):  # noqa: PTH118
                only_owner(place)


def only_owner(place: str | os.PathLike[str] | int) -> None:
    """Remove the permissions of others from a file or folder; a refusal of the system is ignored.

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
    """Like `open`, for files that only their owner may read: logs, copies, outputs.

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
    durable: bool = True,
    token: str = "",
) -> None:
    """Replace a file's content, all of it or nothing.

    The bytes go to a temporary file in the same folder, which is renamed to `path`. An existing
    file keeps its permission bits, and its owner if the system allows; a new file gets those of
    the umask. The temporary file never has wider permissions. A symlink at `path` is replaced,
    never followed.

    Args:
        path: The file.
        data: Its new content.
        mode: Permission bits to set in place of these.
        private: True if only the owner may read the file; None: if it is in a state folder.
        durable: True waits until the bytes are on the disk; False is for derived files.
        token: Names the temporary file by `temporary_of`, for writers that never write at the
            same time: a killed one leaves a single file, which the next one removes. Empty for
            a unique name.

    Raises:
        OSError: Nothing was written; an existing file is unchanged.
    """
    temporary = temporary_of(path, token or secrets.token_hex(8))
    if token:
        temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    if private is None:
        private = STATE_FOLDER in path.parts
    old = _regular(path)
    is_new = old is None and mode is None and not private
    try:
        # With mode 0o666 the umask decides, which mkstemp does not allow.
        with os.fdopen(os.open(temporary, flags, 0o666 if is_new else 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if not private and not is_new:
            _give_permissions(temporary, old, mode)
        os.replace(temporary, path)  # noqa: PTH105 (Path.replace says less of what it does)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def temporary_of(path: Path, token: str) -> Path:
    """The path of the temporary file with a file's new content."""
    return path.with_name(f".jupyter_agent-{token}.tmp")


def append(path: Path, data: bytes, *, durable: bool = False, on_new_line: bool = False) -> int:
    """Add data to the end of a file that exists, all of it or nothing. Links are not followed.

    Args:
        path: The file.
        data: The bytes.
        durable: True waits until they are on the disk.
        on_new_line: True ends an unfinished last line first.

    Returns:
        The new size of the file.

    Raises:
        OSError: Nothing was added, unless the system refuses to remove a part that was.
    """
    if ordinary(path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    flags = os.O_RDWR | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    try:
        start = os.fstat(descriptor).st_size
        if on_new_line and start:
            os.lseek(descriptor, start - 1, os.SEEK_SET)
            data = data if os.read(descriptor, 1) == b"\n" else b"\n" + data
        try:
            write_whole(descriptor, data)
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
    """Write all of the data: on a nearly full disk a single write may be partial."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def ordinary(path: Path) -> os.stat_result | None:
    """The status (`os.lstat`) of an ordinary file; None if the path does not exist.

    Raises:
        OSError: It is a link, a folder, a pipe or a device, or its status is unreadable.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        kind = kind_of(found.st_mode)
        raise OSError(0, f"{path.parent.name}/{path.name} is {kind} and no file. Move it away")
    return found


def reason_of(error: Exception) -> str:
    """An error's reason, for the end of a sentence: `no space left on device`."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}".rstrip(".: ")
    reason = str(error.strerror or error).rstrip(".")
    return reason if error.errno == 0 else reason[:1].lower() + reason[1:]


def kind_of(mode: int) -> str:
    """The kind of a file by its mode: `a link`, `a pipe`."""
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def _mode(path: Path) -> int:
    """The mode of the entry at a path; 0 if there is none."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _regular(path: Path) -> os.stat_result | None:
    """The status of a regular file; None for anything else, or if it does not exist."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _give_permissions(target: Path, old: os.stat_result | None, mode: int | None) -> None:
    """Give a file the owner and the permission bits of the old one, or the bits of `mode`.

    If the group cannot be kept, the new group gets the permissions of everybody.
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
