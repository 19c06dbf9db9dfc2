"""Files that many processes write: locks, appends that are whole or absent, replacements.

Lock files and the search index are derived. They lie in `cache/` of a state folder, which hides
itself from git, never beside the user's own files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from jupyter_agent.errors import ToolError
from jupyter_agent.files import atomic

CACHE = "cache"
READ_LIMIT = 64 * 1024 * 1024
"""Bytes of a file that is read whole; a longer one is refused."""
_LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.01
_HELD_POLL_SECONDS = 0.2
_tokens: dict[int, str] = {}


def cache_folder(state: Path) -> Path:
    """The folder for derived files, made on demand. Raises `OSError` if that fails."""
    folder = state / CACHE
    atomic.private_folder(folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        atomic.atomic_write(ignore, b"*\n", private=True)
    return folder


@contextlib.contextmanager
def locked(path: Path, state: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock of a file against every other process and thread.

    The lock is a file of its own in the state folder, named by the hash of the resolved path, so
    that two paths of one file share it. The system frees it when its holder dies.

    Raises:
        ToolError: The lock cannot be made, or another holds it for more than `seconds`.
    """
    from filelock import FileLock, Timeout

    try:
        lock = FileLock(
            lock_file(path, state), timeout=seconds, mode=0o600, poll_interval=_POLL_SECONDS
        )
        lock.acquire()
    except Timeout:
        raise ToolError(f"{path.name} is in use by another process. Try again later.") from None
    except OSError as error:
        raise ToolError(f"{path.name} cannot be locked: {error.strerror or error}.") from None
    try:
        yield
    finally:
        lock.release()


def lock_file(path: Path, state: Path) -> Path:
    """The file whose lock stands for `path`, in the state folder; its folder is made.

    Raises:
        OSError: The folder cannot be made.
    """
    real = os.path.normcase(os.path.realpath(path))
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
    folder = cache_folder(state) / "locks"
    atomic.private_folder(folder)
    return folder / f"{name}.lock"


def claim(lock: Path) -> Callable[[], None] | None:
    """Take the lock of a lock file if nobody holds it. The system frees it when this process dies.

    Returns:
        What frees it; None if another holds it.

    Raises:
        OSError: The file cannot be locked.
    """
    from filelock import FileLock, Timeout

    taken = FileLock(lock, mode=0o600, thread_local=False)
    try:
        taken.acquire(timeout=0)
    except Timeout:
        return None
    return taken.release


@contextlib.contextmanager
def held(lock: Path, stop: threading.Event) -> Iterator[bool]:
    """Hold the lock of a lock file; waits for it without a limit. Gives False if `stop` came first.

    Raises:
        OSError: The file cannot be locked.
    """
    while (release := claim(lock)) is None:
        if stop.wait(_HELD_POLL_SECONDS):
            yield False
            return
    try:
        yield True
    finally:
        release()


def is_locked(lock: Path) -> bool:
    """True if somebody holds a lock file: another process, or another lock object of this one.

    False if there is no file. A link, a folder or a pipe counts as held.

    Raises:
        OSError: The file cannot be examined.
    """
    from filelock import FileLock, Timeout

    try:
        if not stat.S_ISREG(lock.lstat().st_mode):
            return True
    except FileNotFoundError:
        return False
    probe = FileLock(lock, mode=0o600, thread_local=False)
    try:
        probe.acquire(timeout=0)
    except Timeout:
        return True
    probe.release()
    return False


def process_token() -> str:
    """A random name of this process, the same until it ends; a forked one has its own."""
    return _tokens.setdefault(os.getpid(), secrets.token_hex(8))


def read_regular(path: Path) -> bytes | None:
    """The bytes of a file; None if it does not exist.

    Raises:
        ToolError: It is a folder, a pipe or a device, too large, or cannot be read.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path.name} is no ordinary file. Move it away.")
        if found.st_size > READ_LIMIT:
            raise ToolError(f"{path.name} is too large ({found.st_size:,} bytes). Split it.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"{path.name} cannot be read: {error.strerror or error}.") from None


def append(path: Path, data: bytes) -> None:
    """Add bytes to the end of a file; makes a missing one. Call it under the file's lock.

    Raises:
        OSError: Nothing was added.
    """
    if path.exists():
        atomic.append(path, data, durable=True)
    else:
        replace(path, data)


def replace(path: Path, data: bytes, durable: bool = True) -> None:
    """Replace a file's content, all of it or nothing. Call it under the file's lock.

    Only the owner may read a new file. `durable=False` is for derived files.

    Raises:
        OSError: An existing file is unchanged.
    """
    atomic.private_folder(path.parent)
    private = None if path.exists() else True
    atomic.atomic_write(path, data, private=private, durable=durable, token=path.name.strip("."))
    if durable:
        atomic.sync_folder(path.parent)


def set_aside(path: Path, data: bytes | None = None, why: str = "corrupt") -> Path:
    """Keep data that is unusable as `NAME.corrupt-<time>`, and return that path.

    Args:
        path: The unusable file. Without `data` it is moved as a whole.
        data: The damaged part; it is copied, and the file itself stays for the caller to repair.
        why: The word in the new name.

    Raises:
        OSError: Nothing was moved.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        end = stamp if number == 1 else f"{stamp}-{number}"
        aside = path.with_name(f"{path.name}.{why}-{end}")
        try:
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as stream:
            stream.write(data or b"")
            stream.flush()
            os.fsync(stream.fileno())
        if data is None:
            os.replace(path, aside)  # noqa: PTH105 (onto the name that was just taken)
        return aside
    raise FileExistsError(f"no free name for {path.name}.{why}-{stamp}")


def today() -> str:
    """The user's local date as `YYYY-MM-DD`."""
    return time.strftime("%Y-%m-%d")
