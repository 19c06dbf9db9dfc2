"""Judges the side effects of code that may change nothing outside of one folder.

For code that runs where no person can be asked: in a child process, or while a value that such a
process returned is read.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from jupyter_agent.core.addresses import ip_address
from jupyter_agent.core.effects import PATH_ACTIONS, Refusal, SideEffect
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.kernel.effects import is_by_import

_HERE = frozenset({"localhost", "0.0.0.0", "::", ""})
_WORDS = {
    "write": "writing to {}",
    "change": "changing the permissions, owner or times of {}",
    "make_folder": "making the folder {}",
    "delete": "deleting {}",
    "move": "moving {}",
    "open_database": "making the database {}",
    "run": "running {}",
    "fork": "starting another process",
    "connect": "connecting to {}",
    "browse": "opening {} in the browser",
    "signal": "sending a signal to process {}",
    "show_widget": "showing {}",
}


class Confined:
    """A judge that refuses side effects with one line.

    Files may be written, moved and deleted in the folder; existing databases may be opened (changes
    by SQL do not show here); servers of this machine may be reached. Variables of the environment
    are the process's own. What installed libraries do while they are imported, they may: write
    bytecode and their own hidden files, and look at the machine by commands.

    Args:
        folder: Where files may change; None for nowhere.
        where: Words for the place that the code runs in, for the message.
    """

    def __init__(self, folder: Path | None, where: str) -> None:
        self._folder = None if folder is None else Path(os.path.realpath(folder))
        self._where = where

    def __call__(self, effect: SideEffect) -> None:
        if self._is_allowed(effect) or (is_by_import() and _is_usual_in_import(effect)):
            return
        words = _WORDS[effect.action].format(one_line(effect.target or effect.place, 200))
        raise PermissionError(Refusal(f"not allowed in {self._where}: {words}"))

    def _is_allowed(self, effect: SideEffect) -> bool:
        if effect.action == "environment":
            return True
        if effect.action == "connect":
            return _is_here(effect.place)
        if effect.action not in PATH_ACTIONS:
            return False
        if effect.action == "open_database" and (
            os.path.lexists(effect.place) or Path(effect.place).name == ":memory:"
        ):
            return True
        return all(map(self._is_inside, filter(None, (effect.place, effect.target))))

    def _is_inside(self, path: str) -> bool:
        if path == os.devnull or path.startswith(("/proc/self/", "/dev/fd/")):
            return True
        folder = self._folder
        return folder is not None and Path(os.path.realpath(path)).is_relative_to(folder)


def _is_here(host: str) -> bool:
    name = host.strip("[]").casefold()
    number = ip_address(name)
    if number is not None and number.is_loopback:
        return True
    return name in _HERE or name == socket.gethostname().casefold()


def _is_usual_in_import(effect: SideEffect) -> bool:
    if effect.action in ("run", "fork"):
        return True
    if effect.action not in ("write", "change", "make_folder", "move"):
        return False
    paths = (Path(each) for each in (effect.place, effect.target) if each)
    return all("__pycache__" in path.parts or _is_hidden_at_home(path) for path in paths)


def _is_hidden_at_home(path: Path) -> bool:
    home = Path.home()
    return path.is_relative_to(home) and path.relative_to(home).as_posix().startswith(".")
