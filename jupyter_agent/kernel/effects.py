"""Finds the files that the kernel's process changes while code runs, by an audit hook.

The hook sees files that Python itself opens for writing, removes, renames and creates. It does not
see files that native libraries open (pyarrow, polars, HDF5), nor those of child processes. A hook
cannot be removed: outside of `watched` it returns at once.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHILDREN = frozenset(
    {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"}
)
_FOLDERS = frozenset({"os.rename", "shutil.rmtree", "shutil.move", "shutil.copytree"})
"""Events about all that is below a path, too."""
_PLACES = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.chown"), (0,)),
    **dict.fromkeys(("os.mkdir", "os.utime", "shutil.rmtree", "sqlite3.connect"), (0,)),
    **dict.fromkeys(("os.rename", "shutil.move"), (0, 1)),
    **dict.fromkeys(("os.link", "os.symlink", "shutil.copytree"), (1,)),
}
_BESIDE = ("", "-journal", "-wal", "-shm")
_OPEN_FILES = "/proc/self/fd"
_MOST_PATTERNS = 500
_MOST_GAPS = 6
"""Places in a pattern that fit anything; more would take too long to compare."""


@dataclass(eq=False)
class Writes:
    """The observed changes of one execution.

    Attributes:
        code: The code.
        paths: Absolute paths of changed files.
        held: Absolute paths of files that were open for writing before or after.
        folders: Absolute paths of folders in which every file may have changed.
        has_children: True if it started other processes, which the hook does not see.
    """

    code: str = ""
    paths: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    has_children: bool = False

    def saw(self, path: Path) -> bool:
        """True if the process itself changed the path."""
        if str(path) in self.paths or str(path) in self.held:
            return True
        return any(str(folder) in self.folders for folder in (path, *path.parents))

    def explains(self, path: Path) -> bool:
        """True if an unobserved change is probably the code's.

        It started processes, or one of its texts contains the file's name.
        """
        return self.has_children or any(each.fullmatch(path.name) for each in self._names)

    @cached_property
    def _names(self) -> list[re.Pattern[str]]:
        return [re.compile(each) for each in list(_file_names(self.code))[:_MOST_PATTERNS]]


_watching: list[Writes] = []


@contextmanager
def watched(code: str = "") -> Iterator[Writes]:
    """Observe the changes of files within this context, in all threads."""
    _install()
    writes = Writes(code, held=_open_files())
    _watching.append(writes)
    try:
        yield writes
    finally:
        _watching.remove(writes)
        writes.held |= _open_files()


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open" and len(arguments) == 3:
        path, mode, flags = arguments
        if (isinstance(flags, int) and flags & _WRITING) or (mode and set("wax+") & set(mode)):
            _note([path])
    elif event in _PLACES:
        places = [arguments[index] for index in _PLACES[event] if index < len(arguments)]
        beside = _BESIDE if event == "sqlite3.connect" else ("",)
        folder = _folder_of(event, arguments)
        _note(places, beside, folder, with_folders=event in _FOLDERS)
    elif event in _CHILDREN:
        for writes in _watching:
            writes.has_children = True


def _folder_of(event: str, arguments: tuple[Any, ...]) -> Callable[[int], str]:
    """Returns the base folder of a path argument, if its descriptor is given."""
    first = {"os.rename": 2, "os.chmod": 2, "os.mkdir": 2, "os.utime": 3, "os.symlink": 2}
    start = first.get(event, 3 if event == "os.link" else 1)

    def folder(index: int) -> str:
        offset = start + (index if event in ("os.rename", "os.link") else 0)
        given = arguments[offset] if offset < len(arguments) else None
        if event not in ("os.remove", "os.rmdir", *first) or not isinstance(given, int):
            return ""
        return _of_descriptor(given) if given >= 0 else ""

    return folder


def _note(
    places: list[Any],
    beside: tuple[str, ...] = ("",),
    folder: Callable[[int], str] = lambda index: "",
    with_folders: bool = False,
) -> None:
    for index, place in enumerate(places):
        try:
            if isinstance(place, int):
                path = _of_descriptor(place)
            else:
                path = os.path.join(folder(index), os.fsdecode(place))  # noqa: PTH118
            # Resolves the links of the folder; the entry itself may be a link that changes.
            above, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
            path = os.path.join(os.path.realpath(above), name)  # noqa: PTH118
        except (TypeError, ValueError, OSError):
            continue
        found = {path + ending for ending in beside} | {os.path.realpath(path)}
        for writes in tuple(_watching):
            writes.paths |= found
            if with_folders:
                writes.folders.add(path)


def _of_descriptor(number: int) -> str:
    return os.readlink(f"{_OPEN_FILES}/{number}")  # noqa: PTH115


def _open_files() -> set[str]:
    """Files that the process has open for writing; empty if the system does not list them."""
    found: set[str] = set()
    try:
        numbers = os.listdir(_OPEN_FILES)  # noqa: PTH208
    except OSError:
        return found
    for number in numbers:
        try:
            path = os.readlink(f"{_OPEN_FILES}/{number}")  # noqa: PTH115
            # The permission bits of the link show the mode of the open file.
            if path.startswith("/") and os.lstat(f"{_OPEN_FILES}/{number}").st_mode & 0o200:
                found.add(path)
        except OSError:
            continue
    return found


def _file_names(code: str) -> Iterator[str]:
    """Patterns of file names in the code's texts; a computed part matches anything."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = re.findall(r"[^\s'\"()\[\],;=]+", code)  # with magics in it
        yield from (re.escape(word.rpartition("/")[2]) for word in words if "." in word)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
                for part in node.values
            ]
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            pieces = re.split(r"%[0-9.]*[a-z]|\{[^{}]*\}", node.value)
            text = ".*".join(map(re.escape, pieces))
        else:
            continue
        name = text.rpartition("/")[2]
        name = re.sub(r"(?:\.\*)+", ".*", name)
        if name.count(".*") > _MOST_GAPS:
            continue
        if len(re.sub(r"[.*\\]", "", name)) > 2:  # a pattern of dots and stars fits anything
            yield name
