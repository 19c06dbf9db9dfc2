"""The folder of the notebooks: what it allows, whether it can be written, git, cassettes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from jupyter_agent import config
from jupyter_agent.errors import AgentError, ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.workspace import CASSETTE
from jupyter_agent.notebooks.check.notebook_scan import NotebookScan, scan_notebook
from jupyter_agent.notebooks.doctor.examined import Examined
from jupyter_agent.notebooks.find import find_files
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.trusted import cassettes
from jupyter_agent.session.effective_settings import EffectiveSettings
from jupyter_agent.session.folder_trust import planted
from jupyter_agent.skills.discovery import discover, places

_RIGHTS, _GIT, _CASSETTES, _SETTINGS = "permissions", "git", "cassettes", "settings"
_LOOSE = {
    "approvals.mode": "auto",
    "context.detail": "sample",
}
"""Settings that a folder should not set to this value unseen."""
_LEADING = ("api_base", "system_prompt_path", "http.proxy", "provider")
"""Settings by which a folder decides where keys and data go, or what the agent is told."""
_PRIVATE = ("logs", "sessions", "checkpoints", "outputs")
_MOST_NOTEBOOKS = 200


def examine_settings(place: EffectiveSettings) -> Iterator[Examined]:
    """Which layers are in force."""
    layers = {"your own file": place.user, "the folder's file": place.folder}
    for name, layer in layers.items():
        if layer is None:
            yield Examined(_SETTINGS, name, "note", "does not exist")
        else:
            text = f"{layer.source}: sets {', '.join(layer.values) or 'nothing'}"
            yield Examined(_SETTINGS, name, "ok", text)
    names = [key for key, source in place.settings.sources.items() if source == "environment"]
    text = f"sets {', '.join(names)}" if names else "sets nothing"
    yield Examined(_SETTINGS, "environment", "ok" if names else "note", text)


def examine_rights(place: EffectiveSettings) -> Iterator[Examined]:
    """What the agent may do unasked, who decided that, and where its state is kept."""
    settings = place.settings.settings
    mode, source = settings.approvals.mode, place.settings.source_of("approvals.mode")
    if mode == "auto":
        text = f"auto ({source}): every tool call runs without a question."
        remedy = "Set approvals.mode to ask_risky, unless nothing here can be harmed."
        yield Examined(_RIGHTS, "approvals", "warning", text, remedy)
    else:
        yield Examined(_RIGHTS, "approvals", "ok", f"{mode} ({source})")
    yield from _loosened(place)
    yield _state_folder(place)
    yield _trust()
    for line in planted(place.workspace):
        yield Examined(_RIGHTS, "state folder", "note", line)
    where = places(place.workspace, settings.tools.skills_dir)
    for skill in discover(where).untrusted:
        text = (
            f"the skill {skill.name} ({skill.shown}) came with the folder, or the agent's code "
            "changed it. It is not used until you trust it."
        )
        remedy = f"Look at it: %agent skills {skill.name}. Then: %agent skills trust {skill.name}"
        yield Examined(_RIGHTS, "skills", "warning", text, remedy)


_OUT_OF_THE_FILE = "Remove it from the file, set it in the environment, and change the key."
_LOOK_AND_TRUST = "Look at it, and decide in a notebook: %agent trust"


def _loosened(place: EffectiveSettings) -> Iterator[Examined]:
    """What the folder's own file decides that a person would want to know of."""
    values = place.folder.values if place.folder else {}
    for key, value in values.items():
        shown = "a value that is not shown" if config.is_secret(key) else str(value)
        if key in place.ignored:
            text = f"the folder's file sets it to {shown}; it is ignored until you trust it."
            remedy = _OUT_OF_THE_FILE if config.is_secret(key) else _LOOK_AND_TRUST
            yield Examined(_RIGHTS, key, "warning", text, remedy)
        elif place.settings.source_of(key) != (place.folder.source if place.folder else ""):
            yield Examined(
                _RIGHTS,
                key,
                "note",
                "the folder's file sets it, but your file or the environment overrides that.",
            )
        elif _LOOSE.get(key) == value:
            remedy = (
                "Set it in your own file, which a folder cannot loosen, or remove it from this one."
            )
            text = f"the folder's file sets it to {value}."
            yield Examined(_RIGHTS, key, "warning", text, remedy)
        elif key in _LEADING:
            text = (
                f"the folder's file sets it to {shown}: it decides where your key and data go, or "
                "what the model reads."
            )
            yield Examined(_RIGHTS, key, "warning", text, "Check that you trust this value.")
        elif config.is_secret(key):
            text = "the folder's file holds it (not shown), and may be shared with others."
            yield Examined(_RIGHTS, key, "warning", text, _OUT_OF_THE_FILE)


def _state_folder(place: EffectiveSettings) -> Examined:
    """Tried for real: what permissions say is not the whole truth on every file system."""
    folder = place.workspace.state_folder
    if not Path(os.path.realpath(folder)).is_relative_to(place.workspace.root):
        text = f"{folder} leads out of the workspace, and is not used."
        return Examined(_RIGHTS, "state folder", "problem", text, "Replace it by a folder.")
    target = folder if folder.exists() else place.workspace.root
    try:
        with tempfile.TemporaryFile(dir=target):
            pass
    except OSError as error:
        remedy = "Give yourself the right to write there, or set workspace_dir to another folder."
        text = f"{target} cannot be written: {error.strerror}."
        return Examined(_RIGHTS, "state folder", "problem", text, remedy)
    made = "exists and" if folder.exists() else "is created at the first turn, where it"
    return Examined(_RIGHTS, "state folder", "ok", f"{folder} {made} can be written")


def _trust() -> Examined:
    if problem := trust.problem():
        return Examined(_RIGHTS, "trust", "problem", problem, "Move the file away.")
    there = "holds what you trust" if trust.store_path().exists() else "does not exist yet"
    return Examined(_RIGHTS, "trust", "ok", f"{trust.store_path()} {there}")


# ---------------------------------------------------------------- git


def examine_git(folder: Path) -> Iterator[Examined]:
    """Whether git leaves alone what is private, and does not leave alone what is to be shared."""
    if shutil.which("git") is None:
        yield Examined(_GIT, "git", "note", "it is not installed here")
        return
    if _git(folder, "rev-parse", "--is-inside-work-tree") != 0:
        yield Examined(_GIT, "repository", "note", "the folder is in no git repository")
        return
    open_ones = [name for name in _PRIVATE if not _ignored(folder, f".jupyter_agent/{name}/x")]
    if open_ones:
        text = f"git does not ignore {', '.join(f'.jupyter_agent/{name}' for name in open_ones)}."
        yield Examined(_GIT, ".gitignore", "warning", text, "Run: jupyter agent init")
    else:
        yield Examined(_GIT, ".gitignore", "ok", "logs, sessions and checkpoints stay out of git")
    for path in find_files(folder, f"*{CASSETTE}"):
        shown = path.relative_to(folder).as_posix()
        if _ignored(folder, shown):
            text = f"{shown} is ignored, so that nobody else can replay its notebook."
            remedy = "Remove the line that ignores it from .gitignore."
            yield Examined(_GIT, "cassette", "problem", text, remedy)


def _ignored(folder: Path, path: str) -> bool:
    return _git(folder, "check-ignore", "--quiet", "--no-index", path) == 0


def _git(folder: Path, *words: str) -> int:
    command = ["git", "-C", str(folder), *words]
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=20, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return -1


# ---------------------------------------------------------------- cassettes


def examine_cassettes(folder: Path) -> Iterator[Examined]:
    """Notebooks with agent cells, and whether their cassettes are there and can be read."""
    scans = [scan for path in _notebooks(folder) if (scan := _read(path))]
    asking = [scan for scan in scans if scan.has_turns]
    if not asking:
        yield Examined(_CASSETTES, "notebooks", "note", "no notebook here has agent cells")
    for path in dict.fromkeys(path for scan in asking for path in scan.cassettes):
        shown = os.path.relpath(path, folder)
        try:
            cassette = load(path)
        except ConfigError as error:
            yield _untold(shown, path, error)
            continue
        whose = (
            f"recorded from {cassette.model}"
            if cassette.source == "recorded"
            else "scripted by hand"
        )
        yield Examined(_CASSETTES, shown, "ok", f"{cassette.replies} replies, {whose}")
        for strange in cassettes([path]):
            text = (
                "it was not recorded or trusted here: at the front end, calls that it allowed are "
                f"asked about again. {strange.does}"
            )
            yield Examined(
                _CASSETTES, shown, "note", text, "To trust it, in a notebook: %agent trust"
            )


def _untold(shown: str, path: Path, error: ConfigError) -> Examined:
    if path.exists():
        remedy = "Restore the file, or record its notebook again: jupyter agent record NOTEBOOK"
        return Examined(_CASSETTES, shown, "problem", str(error), remedy)
    text = "not recorded yet, so that its notebook cannot be replayed."
    return Examined(_CASSETTES, shown, "warning", text, "Record it: jupyter agent record NOTEBOOK")


def _notebooks(folder: Path) -> list[Path]:
    return list(islice(find_files(folder, "*.ipynb"), _MOST_NOTEBOOKS))


def _read(path: Path) -> NotebookScan | None:
    try:
        return scan_notebook(path, lambda task, names: task)
    except AgentError:
        return None
