"""Writing to the disk: private folders, files that change as a whole or not at all, appends."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import IO, Any

STATE_FOLDER = ".jupyter_agent"
_CLOSED: set[str] = set()
"""State folders of earlier versions that were closed to others."""


def private_folder(folder: Path, *, follow_link: bool = True) -> None:
    """Make a folder that only its owner may enter, and those above it that are missing.

    A folder that exists is left as it is, but for a state folder, which an earlier version left
    open: it is closed with all that is in it.

    Args:
        folder: Where it goes.
        follow_link: Whether a link to a folder may be in its place.

    Raises:
        OSError: It cannot be made, or something else is in its place.
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
    """Take a state folder's permissions from others, and those of all that is in it.

    Only where it is open, and only what is this user's own; no link is followed. Where the system
    refuses, or knows no permissions, all stays as it is.
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
    durable: bool = True,
    token: str = "",
) -> None:
    """Put data in a file's place, all of it or nothing.

    The bytes go to a new file in the same folder, which is then renamed. An existing file's
    permission bits are kept, and its owner where the system allows; a new file's are as the umask
    says. Meanwhile the bytes are never more open than that. A symlink at `path` is replaced, never
    followed.

    Args:
        path: Where they go.
        data: The bytes.
        mode: Permission bits that the file gets instead.
        private: Whether only the owner may read the file; None: where it is in a state folder.
        durable: Whether to wait until the bytes are on the disk; False for what can be made anew.
        token: Names the new file, as `temporary_of` does, for writers that never write at the same
            time: one that was killed leaves a single file, which the next one takes away. Empty
            for a name of its own.

    Raises:
        OSError: Nothing was written; a file that was there is unchanged.
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
        # Mode 0o666 leaves it to the umask what a new file may, which mkstemp does not.
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
    """Where a file's new content is until it takes the file's place."""
    return path.with_name(f".jupyter_agent-{token}.tmp")


def append(path: Path, data: bytes, *, durable: bool = False, on_new_line: bool = False) -> int:
    """Add data to the end of a file that exists, all of it or nothing. Links are not followed.

    Args:
        path: The file.
        data: The bytes.
        durable: Whether to wait until they are on the disk.
        on_new_line: Whether a last line that has no end gets one first.

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
    """Write all of the data: where a disk is nearly full, the system may write less at first."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_folder(folder: Path) -> None:
    """Put a file's new name on the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def ordinary(path: Path) -> os.stat_result | None:
    """The system's facts about an ordinary file; None where nothing is at the path.

    Raises:
        OSError: It is a link, a folder, a pipe or a device, or it cannot be looked at.
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
    """What went wrong, for the end of a sentence: `no space left on device`."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}".rstrip(".: ")
    reason = str(error.strerror or error).rstrip(".")
    return reason if error.errno == 0 else reason[:1].lower() + reason[1:]


def kind_of(mode: int) -> str:
    """What a file's mode says that it is: `a link`, `a pipe`."""
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def _mode(path: Path) -> int:
    """The mode of what is at a path; 0 where nothing is."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


def _regular(path: Path) -> os.stat_result | None:
    """The system's facts about a file; None where there is none, or it is a link or a folder."""
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
