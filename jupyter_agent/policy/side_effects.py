"""Whether a side effect that is about to happen needs the person's yes.

Here the real path, host or command is known, whatever the code says.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from jupyter_agent.core.addresses import host_of, ip_address
from jupyter_agent.core.effects import PATH_ACTIONS, Risk, RiskKind, SideEffect
from jupyter_agent.core.plaintext import all_in_one_line, one_line
from jupyter_agent.policy import catalogue
from jupyter_agent.policy.files import is_temporary, judge_path, may_go, steers
from jupyter_agent.policy.verdict import PolicyContext

_PROBES = frozenset(
    {"ldconfig", "lscpu", "uname", "nproc", "getconf", "which", "nvidia-smi"}
    | {"xclip", "xsel", "wl-copy", "pbcopy"}
)
"""Commands by which libraries look at the machine, or fill the clipboard. They change no file."""
_PROBING = re.compile(r"[\w./\-\s=,:+]*")
_INSTALLERS = re.compile(
    r"\b(?:pip[\dx]?|conda|(?:micro)?mamba|uv|poetry|pdm|npm|apt|apt-get|brew)\s+(?:-\S+\s+)*"
    r"(?:\w+\s+)?(?:install|add|uninstall|remove|update|upgrade)\b"
)


def _caches() -> tuple[Path, ...]:
    """The folders in which libraries keep caches and settings of their own."""
    home = Path.home()
    named = (os.environ.get("XDG_CACHE_HOME"),)
    ipython = Path(os.environ.get("IPYTHONDIR") or home / ".ipython") / "profile_default" / "db"
    usual = (ipython, home / ".cache", home / "Library" / "Caches")
    folders = (*(Path(name) for name in named if name), *usual)
    return tuple(Path(os.path.realpath(folder)) for folder in folders)


# Made once, before any code of the agent's runs, which could change the variables.
_CACHES = _caches()
_HERE = frozenset({"localhost", "0.0.0.0", "::", "::1", ""})


def judge_effect(effect: SideEffect, around: PolicyContext) -> tuple[Risk, ...]:
    """The risks of a side effect; none if it needs no question.

    Args:
        effect: What is about to happen.
        around: Where the code runs, and the files that the agent has read or made.
    """
    return tuple(risk for risk in _risks(effect, around) if risk is not None)


def judge_change(effect: SideEffect, around: PolicyContext) -> tuple[Risk, ...]:
    """Like `judge_effect`, where nothing may change: also for what the agent may write else.

    Temporary files and caches of libraries may be written.
    """
    risks = judge_effect(effect, around)
    if risks or _is_unnamed_file(effect, around):
        return risks
    path, is_there = Path(effect.place), os.path.lexists(effect.place)
    lasting = (each for each in _paths(effect) if not _is_exempt(each))
    if effect.action not in PATH_ACTIONS or all(is_temporary(each, around) for each in lasting):
        return ()
    if (effect.action == "open_database" and is_there) or (
        effect.action == "delete" and not is_there
    ):
        return ()
    kind: RiskKind = "delete" if effect.action == "delete" else "overwrite"
    verb = "deletes" if effect.action == "delete" else "writes to"
    return (Risk(kind, f"{verb} {_shown(path, around)}", place=str(path)),)


def _risks(effect: SideEffect, around: PolicyContext) -> Iterator[Risk | None]:
    path, target = Path(effect.place), Path(effect.target or effect.place)
    match effect.action:
        case "write":
            yield None if _is_unnamed_file(effect, around) else _judge_write(path, around)
        case "change":
            risk = _judge_write(path, around)
            words = f"changes the permissions, owner or times of {_shown(path, around)}"
            yield replace(risk, what=words) if risk else None
        case "make_folder":
            risk = _judge_write(path, around)
            yield risk if risk and risk.kind != "overwrite" else None
        case "open_database":
            # One that exists may be opened to read it: what is changed there shows in SQL.
            yield None if os.path.lexists(path) else _judge_write(path, around)
        case "delete":
            yield _judge_removal(effect, around, f"deletes {_shown(path, around)}")
        case "move":
            words = f"moves {_shown(path, around)} to {_shown(target, around)}"
            yield _judge_write(target, around)
            yield _judge_removal(effect, around, words)
        case "run" | "fork":
            yield _judge_command(effect.place)
        case "connect":
            yield _judge_host(effect)
        case "browse":
            what = f"opens in your browser: {one_line(effect.place)}"
            yield Risk("network", what, place=host_of(effect.place))
        case "environment":
            yield _judge_variable(effect.place)
        case "signal":
            what = f"sends a signal to process {one_line(effect.place)}"
            yield Risk("process", what, place=effect.place)
        case "show_widget":
            what = f"shows {one_line(effect.place)}, whose own script then runs in this page"
            yield Risk("widget", what, place=f"{effect.place} {effect.target}")


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


def _is_unnamed_file(effect: SideEffect, around: PolicyContext) -> bool:
    """True for how `tempfile` begins a file: it opens the folder of temporary files itself.

    What gets a name there is judged by that name.
    """
    return effect.action == "write" and Path(effect.place) == around.temporary


def _judge_write(path: Path, around: PolicyContext) -> Risk | None:
    if _is_exempt(path):
        return None
    return judge_path(Path(os.path.realpath(path)), _shown(path, around), around)


def _judge_removal(effect: SideEffect, around: PolicyContext, words: str) -> Risk | None:
    path = Path(effect.place)
    if may_go(path, around, effect.is_tree):
        return None
    if steers(path, around):
        return Risk("agent", f"{words}, which steers the agent itself", place=str(path))
    return Risk("delete", words, place=str(path))


def _shown(path: Path, around: PolicyContext) -> str:
    """A path for the person: relative to the workspace if it lies there."""
    inside = path.is_relative_to(around.root)
    return one_line(path.relative_to(around.root).as_posix() if inside else str(path))


def _is_exempt(path: Path) -> bool:
    """True for caches of libraries and for devices without content."""
    text = str(path)
    if text.startswith("/proc/self/") or (text.startswith("/dev/") and not _is_disk(text)):
        return True
    return any(path.is_relative_to(folder) for folder in _CACHES)


def _is_disk(path: str) -> bool:
    return bool(re.match(r"/dev/(?:sd|nvme|vd|hd|mapper|disk|mem|kmem|loop)", path))


def _is_hidden_at_home(path: Path) -> bool:
    home = Path.home()
    if path.is_relative_to(home):
        return path.relative_to(home).as_posix().startswith(".")
    settings = os.environ.get("MPLCONFIGDIR")
    return bool(settings) and path.is_relative_to(os.path.realpath(settings or ""))


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
    number = ip_address(name)
    if name in _HERE or name in _own_names() or (number is not None and number.is_loopback):
        return None
    return Risk("network", f"connects to {one_line(effect.target or name)}", place=name)


@cache
def _own_names() -> frozenset[str]:
    return frozenset({socket.gethostname().casefold()})


def _judge_variable(name: str) -> Risk | None:
    """The risk of setting an environment variable; None if it steers nothing."""
    shown = one_line(name)
    if found := catalogue.AGENT_VARIABLES.match(name):
        return Risk("agent", f"changes the agent's settings: {shown}", place=found[0])
    if found := catalogue.STEERING_VARIABLES.match(name):
        what = f"sets a variable that steers other programs: {shown}"
        return Risk("settings", what, place=found[0])
    return None
