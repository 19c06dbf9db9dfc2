"""Finds the notebooks and other files that the paths of a command line name."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jupyter_agent.errors import ConfigError
from jupyter_agent.files.atomic import STATE_FOLDER

_LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages"})
TASKS = Path(STATE_FOLDER) / "tasks.jsonl"
"""What is known of the tasks whose notebooks are written into a folder."""


def find_notebooks(paths: Sequence[Path]) -> list[Path]:
    """The notebooks themselves, and those in the folders below, each once and in order.

    Hidden folders (checkpoints, virtual environments), installed packages and the folders in which
    lists of tasks are run are left out.

    Raises:
        ConfigError: A path does not exist, or is no notebook; or there is none at all.
    """
    found: dict[str, Path] = {}
    for path in paths:
        for notebook in _below(path):
            found.setdefault(os.path.realpath(notebook), notebook)
    if not found:
        raise ConfigError(f"No notebook in {', '.join(map(str, paths))}. Name another folder.")
    return list(found.values())


def find_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files below a folder whose names fit a pattern, without what is left out above."""
    if _is_environment(folder):
        return
    yield from files_below(
        folder, pattern, lambda each: each.name not in _LEFT_OUT and not _is_environment(each)
    )


def is_folder_of_tasks(folder: Path) -> bool:
    """True if the notebooks of a list of tasks are written there: they are made, not kept."""
    return (folder / TASKS).is_file()


def files_below(folder: Path, pattern: str, enters: Callable[[Path], bool]) -> Iterator[Path]:
    """The files whose names fit a pattern, folder by folder in order. Hidden ones are left out.

    Args:
        folder: Where to begin.
        pattern: As in a shell.
        enters: Whether to look into a folder that is not hidden. Links are not followed.
    """
    for root, names, files in os.walk(folder):
        here = Path(root)
        names[:] = sorted(
            name
            for name in names
            if not name.startswith(".")
            and enters(here / name)
            and not is_folder_of_tasks(here / name)
        )
        for name in sorted(fnmatch.filter(files, pattern)):
            if not name.startswith("."):
                yield here / name


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from find_files(path, "*.ipynb")
    elif not path.exists():
        raise ConfigError(f"There is no notebook or folder {path}.")
    elif path.suffix != ".ipynb":
        raise ConfigError(f"{path} is not a notebook. Name files that end in .ipynb, or folders.")
    else:
        yield path
