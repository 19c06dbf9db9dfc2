"""Whether a side effect that is about to happen needs the person's yes: a pure function.

Here the real path, host or command is known, whatever the code says.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from jupyter_agent.core.effects import SideEffect
from jupyter_agent.core.plaintext import all_in_one_line, one_line
from jupyter_agent.policy import catalogue
from jupyter_agent.policy.files import host, is_temporary, judge_folder, judge_write, steers
from jupyter_agent.policy.verdict import PolicyContext, Risk

_PROBES = frozenset(
    "file ldconfig lscpu uname nproc sysctl getconf which hostname nvidia-smi gcc cc xclip xsel "  # noqa: SIM905
    "wl-copy pbcopy".split()
)
"""Commands by which libraries look at the machine, or fill the clipboard. They change nothing."""
_PROBING = re.compile(r"[\w./\-\s=,:+]*")
_INSTALLERS = re.compile(
    r"\b(?:pip\d?|conda|mamba|uv|poetry|npm|apt|apt-get|brew)\s+(?:-\S+\s+)*(?:\w+\s+)?(?:install|add|"
    r"uninstall|remove|update|upgrade)\b"
)
_STEERING_VARIABLES = re.compile(
    r"(?i)(?:LD_\w+|DYLD_\w+|PATH|HOME|PYTHON\w*|IPYTHONDIR|JUPYTER\w*|BASH_ENV|ENV|PROMPT_COMMAND|"
    r"(?:https?|all|no)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_\w+|"
    r"\w+_(?:BASE_URL|API_BASE|API_KEY|ENDPOINT))"
)
_HARMLESS_VARIABLES = frozenset({"PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONUNBUFFERED"})
_HERE = frozenset({"localhost", "0.0.0.0", "::", "::1", ""})


def judge_effect(effect: SideEffect, around: PolicyContext) -> Risk | None:
    """The risk of a side effect; None if it needs no question.

    Args:
        effect: What is about to happen.
        around: Where the code runs, and the files that the agent has read or made.
    """
    match effect.action:
        case "write" | "change" | "make_folder" | "delete" | "move":
            risk = _judge_files(effect, around)
            is_exempt = risk is not None and all(map(_is_exempt, _paths(effect)))
            return None if is_exempt else risk
        case "run" | "fork":
            return _judge_command(effect.place)
        case "connect":
            return _judge_host(effect)
        case "browse":
            what = f"opens in your browser: {one_line(effect.place)}"
            return Risk("network", what, place=host(effect.place))
        case "environment":
            return _judge_variable(effect.place)
        case "signal":
            what = f"sends a signal to process {one_line(effect.place)}"
            return Risk("process", what, place=effect.place)
    return None


def is_usual_in_import(effect: SideEffect) -> bool:
    """True for what installed libraries do while they are imported, unasked by anybody.

    They write bytecode and their own hidden files, look at the machine by commands, and set
    variables for libraries of their own.
    """
    if effect.action in ("run", "fork", "environment"):
        return True
    if effect.action not in ("write", "change", "make_folder", "move"):
        return False
    return all("__pycache__" in path.parts or _is_hidden_at_home(path) for path in _paths(effect))


def _paths(effect: SideEffect) -> list[Path]:
    return [Path(path) for path in (effect.place, effect.target) if path]


def _judge_files(effect: SideEffect, around: PolicyContext) -> Risk | None:
    path, target = Path(effect.place), Path(effect.target or effect.place)
    match effect.action:
        case "delete":
            return _judge_removal(path, around, f"deletes {shown_path(path, around)}")
        case "move":
            names = shown_path(path, around), shown_path(target, around)
            words = f"moves {names[0]} to {names[1]}"
            return _judge_write(target, around) or _judge_removal(path, around, words)
        case "make_folder":
            return judge_folder(shown_path(path, around), around.root, around)
        case "change":
            risk = _judge_write(path, around)
            words = f"changes the permissions, owner or times of {shown_path(path, around)}"
            return replace(risk, what=words) if risk else None
    return _judge_write(path, around)


def _judge_write(path: Path, around: PolicyContext) -> Risk | None:
    return judge_write(shown_path(path, around), around.root, around)[0]


def _judge_removal(path: Path, around: PolicyContext, words: str) -> Risk | None:
    """A removal is harmless for what the agent made itself, and for what does not exist."""
    if path in around.made or not os.path.lexists(path):
        return None
    if is_temporary(path, around.root):
        return None
    if steers(path, around):
        return Risk("agent", f"{words}, which steers the agent itself", place=str(path))
    return Risk("delete", words, place=str(path))


def shown_path(path: Path, around: PolicyContext) -> str:
    """A path for the person: relative to the workspace if it lies there."""
    inside = path.is_relative_to(around.root)
    return one_line(path.relative_to(around.root).as_posix() if inside else str(path))


def _is_exempt(path: Path) -> bool:
    """True for caches of libraries and for devices without content."""
    text = str(path)
    if text.startswith("/proc/self/") or (text.startswith("/dev/") and not _is_disk(text)):
        return True
    return any(path.is_relative_to(folder) for folder in _caches())


def _is_disk(path: str) -> bool:
    return bool(re.match(r"/dev/(?:sd|nvme|vd|hd|mapper|disk|mem|kmem|loop)", path))


def _is_hidden_at_home(path: Path) -> bool:
    home = Path.home()
    if path.is_relative_to(home):
        return path.relative_to(home).as_posix().startswith(".")
    settings = os.environ.get("MPLCONFIGDIR")
    return bool(settings) and path.is_relative_to(os.path.realpath(settings or ""))


@cache
def _caches() -> tuple[Path, ...]:
    """The folders in which libraries keep caches and settings of their own."""
    home = Path.home()
    named = (os.environ.get("XDG_CACHE_HOME"),)
    ipython = Path(os.environ.get("IPYTHONDIR") or home / ".ipython") / "profile_default" / "db"
    usual = (ipython, home / ".cache", home / "Library" / "Caches")
    folders = (*(Path(name) for name in named if name), *usual)
    return tuple(Path(os.path.realpath(folder)) for folder in folders)


def _judge_command(line: str) -> Risk | None:
    if not line:
        return Risk("process", "starts another process")
    words = list(_words(line))
    program = Path(words[0]).name if words else ""
    plain = _PROBING.fullmatch(line) is not None
    if plain and (program in _PROBES or program in catalogue.LISTING_MAGICS):
        return None
    shown = all_in_one_line(line)
    if _INSTALLERS.search(line):
        return Risk("install", f"installs packages: {shown}", place=line)
    return Risk("process", f"runs {shown}", place=line)


def _words(line: str) -> Iterator[str]:
    try:
        yield from shlex.split(line)
    except ValueError:
        yield from line.split()


def _judge_host(effect: SideEffect) -> Risk | None:
    name = effect.place.strip("[]").casefold()
    if name in _HERE or name in _own_names() or _is_loopback(name):
        return None
    return Risk("network", f"connects to {one_line(effect.target or name)}", place=name)


def is_address(host: str) -> bool:
    """True for the number of a computer in a network, which a look-up of its name gives."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _own_names() -> frozenset[str]:
    return frozenset({socket.gethostname().casefold()})


def _judge_variable(name: str) -> Risk | None:
    if name in _HARMLESS_VARIABLES or not _STEERING_VARIABLES.fullmatch(name):
        return None
    return Risk("settings", f"changes the environment variable {one_line(name)}", place=name)
