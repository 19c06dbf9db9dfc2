"""Notes the files that the kernel's process changes while code runs, for undo."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jupyter_agent.core.effects import PATH_ACTIONS, SideEffect
from jupyter_agent.kernel.effects import open_for_writing, watching
from jupyter_agent.source.cell import parse_python

_BESIDE = ("", "-journal", "-wal", "-shm")
_MOST_PATTERNS = 500
_MOST_GAPS = 6
"""Places in a pattern that fit anything; more would take too long to compare."""


@dataclass(eq=False)
class Writes:
    """The observed changes of one execution.

    Attributes:
        code: The code.
        paths: Absolute paths of changed files.
        held: Absolute paths of files that were open for writing before.
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
        if str(path) in self.paths or str(path) in self.held or str(path) in self._open_now:
            return True
        return any(str(folder) in self.folders for folder in (path, *path.parents))

    def explains(self, path: Path) -> bool:
        """True if an unobserved change is probably the code's.

        It started processes, or one of its texts contains the file's name.
        """
        return self.has_children or any(each.fullmatch(path.name) for each in self._names)

    def note(self, effect: SideEffect) -> None:
        """Note a side effect, if it is about files or starts a process."""
        if effect.action in ("run", "fork"):
            self.has_children = True
        if effect.action not in PATH_ACTIONS:
            return
        endings = _BESIDE if effect.action == "open_database" else ("",)
        for path in filter(None, (effect.place, effect.target)):
            self.paths |= {path + ending for ending in endings} | {os.path.realpath(path)}
            if effect.is_tree:
                self.folders.add(path)

    @cached_property
    def _open_now(self) -> set[str]:
        """Files that are open for writing at the first question after the execution.

        Most executions change no file, so that nobody asks, and a look takes a tenth of a
        millisecond.
        """
        return open_for_writing()

    @cached_property
    def _names(self) -> list[re.Pattern[str]]:
        return [re.compile(each) for each in list(_file_names(self.code))[:_MOST_PATTERNS]]


@contextmanager
def watched(code: str = "") -> Iterator[Writes]:
    """Note the changes of files within this context, in all threads."""
    writes = Writes(code, held=open_for_writing())
    with watching(writes.note):
        yield writes


def _file_names(code: str) -> Iterator[str]:
    """Patterns of file names in the code's texts; a computed part matches anything."""
    try:
        tree = parse_python(code)
    except (RecursionError, MemoryError):
        tree = None
    if tree is None:
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
