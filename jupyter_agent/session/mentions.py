"""What a task marks with `@`: variables and files. A slip of the pen is found before a model call.

An `@` is text in an address, in code (a decorator), in backquotes, and before a name like nothing
that there is: a person's handle.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from jupyter_agent.core.plaintext import defused, one_line, plain
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.errors import AgentError, ConfigError, ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.context import FILE_NAME, Level, mentioned
from jupyter_agent.kernel.describe import describe
from jupyter_agent.kernel.describe import one_line as headline
from jupyter_agent.kernel.describe.datafiles import DataFile

_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`"
    r"|^[ \t]*@[\w.]+(?:\(.*\))?[ \t]*$(?=\s*^[ \t]*(?:@|async\b|def\b|class\b))",
    re.DOTALL | re.MULTILINE,
)
_PATH = re.compile(rf"(?<![\w@.`])@({FILE_NAME})")
_NEAR = 0.8
_SHORTEST = 3
_MOST_NAMES = 3
_MOST_FILES = 2_000
_MOST_DESCRIBED = 10
_LONGEST_FILE = 2_000
"""Characters about each file that the task names."""


def check_mentions(
    task: str, variables: Mapping[str, object], known: Collection[str], workspace: Workspace
) -> None:
    """Refuse a task that names a variable or a file which does not exist, but nearly.

    Args:
        task: The task.
        variables: The user's variables.
        known: All names of the kernel.
        workspace: Where the files are.

    Raises:
        ConfigError: With the names nearest to the first wrong one.
    """
    text = _CODE.sub(" ", task)
    for name in mentioned(text):
        if name not in variables and name not in known:
            _refuse("variable", name, _near(name, variables))
    for path in _paths(text):
        if _file(path, workspace) is None:
            near = _near(path, _files_beside(path, workspace))
            # `plot2.png` beside `plot1.png` is a file to be made.
            _refuse("file", path, [each for each in near if _wordy(each) != _wordy(path)])


def attached(task: str, variables: Mapping[str, object], workspace: Workspace, level: Level) -> str:
    """A line about what the task's `@` attaches; empty for nothing."""
    names = [name for name in mentioned(task) if name in variables]
    files = [(path, found) for path in _paths(task) if (found := _file(path, workspace))]
    parts = []
    if names and level == "none":
        listed = ", ".join(f"@{name}" for name in names)
        parts.append(f"Not attached, since context.detail is none: {listed}.")
    elif names:
        parts.append(f"Attached: {', '.join(_shown(name, variables[name]) for name in names)}.")
    if files:
        sizes = (f"@{path} ({found.stat().st_size:,} bytes)" for path, found in files)
        parts.append(f"Files that the task names: {', '.join(sizes)}.")
    return plain(" ".join(parts))


def described_files(task: str, workspace: Workspace, level: Level) -> str:
    """What the files are that a task marks with `@`, for the model; empty for nothing."""
    if level not in ("schema", "sample"):
        return ""
    found = ((path, _readable(path, workspace)) for path in _paths(task))
    files = [DataFile(place, f"@{path}") for path, place in found if place]
    texts = [describe(each, level, _LONGEST_FILE) for each in files[:_MOST_DESCRIBED]]
    body = defused(redact(plain("\n\n".join(texts)), secret_values()))
    return f"<context>\nFiles that the task names:\n{body}\n</context>" if body else ""


def _shown(name: str, value: object) -> str:
    return f"@{name} ({one_line(headline(value, 'schema'), 80)})"


def _refuse(kind: str, name: str, near: list[str]) -> None:
    if near:
        raise ConfigError(
            f"There is no {kind} @{name}. Did you mean {' or '.join(f'@{n}' for n in near)}? "
            f"If it is no {kind}, put it in backquotes: `@{name}`."
        )


def _near(name: str, names: Iterable[str]) -> list[str]:
    if len(name) < _SHORTEST:
        return []
    spelled = {each.lower(): each for each in names if len(each) >= _SHORTEST}
    found = difflib.get_close_matches(name.lower(), spelled, _MOST_NAMES, _NEAR)
    return [spelled[each] for each in found]


def _wordy(path: str) -> str:
    return re.sub(r"\d+", "", path)


def _paths(text: str) -> Iterator[str]:
    yield from dict.fromkeys(match[1].rstrip(".-") for match in _PATH.finditer(text))


def _file(path: str, workspace: Workspace) -> Path | None:
    with suppress(AgentError, ToolError, OSError, ValueError):
        found = workspace.resolve(path)
        return found if found.exists() else None
    return None


def _readable(path: str, workspace: Workspace) -> Path | None:
    """The regular file of a path, if it may hold neither keys nor what code has shown."""
    with suppress(AgentError, ToolError, OSError, ValueError):
        found = workspace.readable(path)
        return found if found.is_file() and not workspace.protects(found) else None
    return None


def _files_beside(path: str, workspace: Workspace) -> list[str]:
    """The paths of the files in the folder of a path; of the folders there, if it has none."""
    folder, slash, _ = path.rpartition("/")
    place = _file(folder, workspace) if slash else workspace.root
    if place is None:
        with suppress(OSError), os.scandir(workspace.root) as entries:
            names = [e.name for _, e in zip(range(_MOST_FILES), entries, strict=False)]
            near = _near(folder, names)
            return [f"{each}{path[len(folder) :]}" for each in near]
        return []
    with suppress(OSError), os.scandir(place) as entries:
        beside = [e.name for _, e in zip(range(_MOST_FILES), entries, strict=False)]
        return [f"{folder}{slash}{name}" for name in beside]
    return []
