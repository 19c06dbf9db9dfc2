"""Sees side effects of the kernel's process before they happen, by an audit hook.

The hook sees what Python itself does: files that are opened for writing, removed or moved,
processes, connections, variables of the environment. It does not see what native code does by
itself (pyarrow, polars, duckdb, HDF5), nor what child processes do.

Two kinds of listeners get the side effects. Those of `watching` get all, whoever causes them, and
only note them. The judge of the running code (`marks`) gets those of the agent's code, and may
prevent them.

A hook cannot be removed: while nobody listens it returns at once.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.core.effects import SideEffect, SideEffectAction, SideEffectJudge
from jupyter_agent.kernel.marks import judge_of_this, judged_marks, own, with_judge

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OPEN_FILES = "/proc/self/fd"
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish"})
_IMPORTLIB = "<frozen importlib"
_OWN_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"

Listener = Callable[[SideEffect], None]
_listeners: list[Listener] = []


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Call `listener` with the side effects of this process, whoever causes them."""
    _install()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def judged(judge: SideEffectJudge) -> Iterator[None]:
    """Let `judge` see the side effects of the agent's code in this context before they happen.

    Args:
        judge: Called in the code's thread; a `PermissionError` prevents the side effect. Called
            after this context, too, for what the code left running.
    """
    _install()
    with with_judge(judge):
        yield


def announce(effect: SideEffect) -> bool:
    """Report a side effect that the hook cannot see as what it is, such as a shell command.

    Returns:
        True if the judge of the running code allowed it; False if there is no judge.

    Raises:
        PermissionError: It is refused.
    """
    judge = judge_of_this()
    _tell(effect, judge)
    return judge is not None


def is_by_import() -> bool:
    """True if an installed library, or importlib itself, causes the side effect in an import.

    Nothing of the agent's own code may stand between the import and the side effect.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_IMPORTLIB):
            return True
        if not name.startswith(_libraries()):
            return False
        frame = frame.f_back
    return False


def is_by(*files: str) -> bool:
    """True if a function of one of these files of the standard library is among the callers.

    Args:
        *files: The ends of their paths, such as `multiprocessing/popen_fork.py`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(files):
            return True
        frame = frame.f_back
    return False


def open_for_writing() -> set[str]:
    """Files that the process has open for writing; empty if the system does not list them."""
    found: set[str] = set()
    try:
        numbers = os.listdir(_OPEN_FILES)  # noqa: PTH208
    except OSError:
        return found
    import fcntl  # wherever the numbers can be listed

    for number in map(int, numbers):
        try:
            # Most are sockets and pipes, and to ask for a name takes ten times as long.
            is_file = stat.S_ISREG(os.fstat(number).st_mode)
            if is_file and fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                found.add(os.readlink(f"{_OPEN_FILES}/{number}"))  # noqa: PTH115
        except OSError:
            continue
    return found


# ---------------------------------------------------------------- the hook


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    read = _EVENTS.get(event)
    if read is None or not (_listeners or judged_marks):
        return
    judge = judge_of_this()
    if judge is None and not _listeners:
        return
    try:
        found = read(arguments)
    except (TypeError, ValueError, OSError, IndexError, AttributeError):
        return  # arguments that the call itself refuses
    for effect in found:
        _tell(effect, judge)


def _tell(effect: SideEffect, judge: SideEffectJudge | None) -> None:
    for listener in tuple(_listeners):
        with suppress(Exception):  # it only notes, and the code may be the person's
            listener(effect)
    if judge is None:
        return
    try:
        with own():
            judge(effect)
    except PermissionError as error:
        raise error.with_traceback(None) from None
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise PermissionError(f"Refused: the side effect cannot be judged ({words}).") from None


@cache
def _libraries() -> tuple[str, ...]:
    """The beginnings of the file names of installed code."""
    import site

    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    return ("<frozen ", _OWN_FOLDER, *(f"{folder}{os.sep}" for folder in folders))


# ---------------------------------------------------------------- the events


_Read = Callable[[tuple[Any, ...]], Sequence[SideEffect]]


def _opened(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    path, mode, flags = arguments
    if isinstance(path, int):
        return []  # a descriptor: its file was seen when it was opened
    if (isinstance(flags, int) and flags & _WRITING) or (mode and set("wax+") & set(mode)):
        return [SideEffect("write", _path(path))]
    return []


def _at(action: SideEffectAction, at: int, folder: int = -1, is_tree: bool = False) -> _Read:
    """Reads the path in argument `at`, relative to the descriptor in argument `folder`."""

    def read(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
        return [SideEffect(action, _path(arguments[at], _base(arguments, folder)), "", is_tree)]

    return read


def _moved(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    source = _path(arguments[0], _base(arguments, 2))
    return [SideEffect("move", source, _path(arguments[1], _base(arguments, 3)), is_tree=True)]


def _ran(at: int) -> _Read:
    def read(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
        return [SideEffect("run", _command(arguments[at]))]

    return read


def _forked(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    return [SideEffect("fork", "")]


def _signalled(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    import psutil  # type: ignore[import-untyped]

    process, number = arguments
    if number == 0:
        return []  # asks only whether it is alive
    with suppress(psutil.Error, ValueError):
        if psutil.Process(abs(process)).ppid() == os.getpid():
            return []  # a child of the kernel's own
    return [SideEffect("signal", str(process))]


def _into(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    """`shutil.move` moves into a folder that exists."""
    (found,) = _moved(arguments)
    if os.path.isdir(found.target):  # noqa: PTH112
        name = os.path.basename(found.place)  # noqa: PTH119
        return [replace(found, target=os.path.join(found.target, name))]  # noqa: PTH118
    return [found]


def _connected(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    import socket

    endpoint, address = arguments
    if not isinstance(address, tuple) or endpoint.type == socket.SOCK_DGRAM:
        return []  # a socket of this machine; libraries connect by UDP to learn their own address
    return [SideEffect("connect", _text(address[0]))]


def _sent(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    address = arguments[1]
    return [SideEffect("connect", _text(address[0]))] if isinstance(address, tuple) else []


def _host(at: int) -> _Read:
    def read(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
        host = arguments[at]
        return [SideEffect("connect", _text(host))] if host else []

    return read


def _requested(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
    address = _text(arguments[0])
    parts = urlsplit(address)
    if parts.scheme.lower() in ("file", "data") or not parts.hostname:
        return []
    return [SideEffect("connect", parts.hostname, address)]


def _named(action: SideEffectAction) -> _Read:
    def read(arguments: tuple[Any, ...]) -> Sequence[SideEffect]:
        return [SideEffect(action, _text(arguments[0]))]

    return read


_EVENTS: dict[str, _Read] = {
    "open": _opened,
    "os.truncate": _at("write", 0),
    "os.link": _at("write", 1, 3),
    "os.symlink": _at("write", 1, 2),
    "os.chmod": _at("change", 0, 2),
    "os.chown": _at("change", 0, 3),
    "os.utime": _at("change", 0, 3),
    "os.mkdir": _at("make_folder", 0, 2),
    "os.remove": _at("delete", 0, 1),
    "os.rmdir": _at("delete", 0, 1),
    "shutil.rmtree": _at("delete", 0, 1, is_tree=True),
    "shutil.copytree": _at("make_folder", 1, is_tree=True),
    "os.rename": _moved,
    "shutil.move": _into,
    "sqlite3.connect": _at("open_database", 0),
    "subprocess.Popen": _ran(1),
    "os.system": _ran(0),
    "os.exec": _ran(1),
    "os.posix_spawn": _ran(1),
    "os.spawn": _ran(2),
    "os.fork": _forked,
    "os.forkpty": _forked,
    "socket.connect": _connected,
    "socket.sendto": _sent,
    "socket.sendmsg": _sent,
    "socket.getaddrinfo": _host(0),
    "socket.gethostbyname": _host(0),
    "urllib.Request": _requested,
    "http.client.connect": _host(1),
    "ftplib.connect": _host(1),
    "smtplib.connect": _host(1),
    "poplib.connect": _host(1),
    "imaplib.open": _host(1),
    "webbrowser.open": _named("browse"),
    "os.putenv": _named("environment"),
    "os.unsetenv": _named("environment"),
    "os.kill": _signalled,
    "os.killpg": _signalled,
}


def _path(given: Any, folder: str = "") -> str:
    """The absolute path of an argument. Only the links of its folder are resolved."""
    path = _of_descriptor(given) if isinstance(given, int) else os.fsdecode(given)
    above, name = os.path.split(os.path.abspath(os.path.join(folder, path)))  # noqa: PTH100, PTH118
    return os.path.join(os.path.realpath(above), name)  # noqa: PTH118


def _base(arguments: tuple[Any, ...], at: int) -> str:
    """The folder of a descriptor among the arguments; empty if none is given."""
    given = arguments[at] if 0 <= at < len(arguments) else None
    return _of_descriptor(given) if isinstance(given, int) and given >= 0 else ""


def _of_descriptor(number: int) -> str:
    return os.readlink(f"{_OPEN_FILES}/{number}")  # noqa: PTH115


def _command(given: Any) -> str:
    """The line of a command, without the shell that is asked to run it."""
    if isinstance(given, str | bytes | os.PathLike):
        return os.fsdecode(given)
    words = [os.fsdecode(word) for word in given]
    if len(words) > 2 and os.path.basename(words[0]) in _SHELLS and words[1] == "-c":  # noqa: PTH119
        return words[2]
    return shlex.join(words)


def _text(given: Any) -> str:
    return os.fsdecode(given) if isinstance(given, bytes) else str(given)
