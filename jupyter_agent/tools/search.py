"""`list_files` and `search_files`: what a person would look through, in a stable order.

The regular expression runs in a process of its own (`matching`): one that backtracks without end
would hold the interpreter lock, and with it the kernel, and nothing in the process could stop it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pathspec import GitIgnoreSpec
from pydantic import Field

from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.textfile import open_regular, system_refusals
from jupyter_agent.files.walk import SCANNED_ENTRIES, Walk
from jupyter_agent.files.workspace import Workspace

LISTED_FILES = 500
SEARCH_SECONDS = 10.0
_COMPILING = threading.Lock()


Hidden = Callable[[], frozenset[Path]]


def nothing_hidden() -> frozenset[Path]:
    return frozenset()


def search_tools(
    workspace: Workspace, hidden: Hidden = nothing_hidden, seconds: float = SEARCH_SECONDS
) -> list[Tool]:
    """`list_files` and `search_files`, for one workspace.

    Args:
        workspace: Where to look.
        hidden: Gives the files that are never listed: the cassette, whatever its name.
        seconds: How long one search may take, by default 10.
    """

    @tool("reads")
    def list_files(
        path: Annotated[str, Field(description="A folder in the workspace.")] = ".",
        pattern: Annotated[
            str | None, Field(description="Glob such as *.csv or data/**/*.json.")
        ] = None,
    ) -> str:
        """List the files in a folder and the folders below it.

        More:
        - Leaves out .git and what .gitignore files ignore, unless path is itself ignored.
        """
        return _list(workspace, hidden(), path, pattern)

    @tool("reads")
    def search_files(
        pattern: Annotated[str, Field(description="Python regular expression.")],
        path: Annotated[str, Field(description="A folder or file in the workspace.")] = ".",
        glob: Annotated[
            str | None, Field(description="Only files such as *.py or src/**/*.md.")
        ] = None,
    ) -> str:
        """Search the text of files line by line; gives `path:line: text`.

        More:
        - Of notebooks only the cells' source is searched.
        - Leaves out .git and what .gitignore files ignore, unless path is itself ignored.
        """
        return _search(workspace, hidden(), pattern, path, glob, seconds)

    return [list_files, search_files]


def _list(workspace: Workspace, hidden: frozenset[Path], path: str, pattern: str | None) -> str:
    start = _listable(workspace, path)
    shown = workspace.relative(start)
    with system_refusals(f"Listing {shown}"):
        if not start.is_dir():
            if start.exists():
                raise ToolError(f"{shown} is a file, not a folder. Use read_file.")
            raise ToolError(f"There is no folder {shown}. Try list_files without a path.")
    walk = Walk(workspace, start, hidden)
    files = [_on_one_line(workspace.relative(file)) for file in _matching(walk, pattern)]
    wanted = f" that fit {pattern!r}" if pattern else ""
    lines = files[:LISTED_FILES] or [f"There are no files{wanted} in {shown}."]
    left_out = files[LISTED_FILES:]
    if left_out:
        lines.append(f"[{len(left_out)} more files left out{_folders(left_out)}]")
    return "\n".join([*lines, *_walk_notices(walk)])


def _search(
    workspace: Workspace,
    hidden: frozenset[Path],
    pattern: str,
    path: str,
    glob: str | None,
    seconds: float,
) -> str:
    _check_expression(pattern)
    start = _listable(workspace, path)
    shown = workspace.relative(start)
    walk = Walk(workspace, start, hidden)
    with system_refusals(f"Searching {shown}"):
        if not start.is_dir():
            open_regular(start, shown).close()
            files = [start]
        else:
            files = list(_matching(walk, glob))
    places = [(_on_one_line(workspace.relative(file)), os.path.realpath(file)) for file in files]
    found = _run_matching({"pattern": pattern, "files": places}, seconds)
    lines: list[str] = found["lines"] or [f"Nothing in {len(files)} files fits {pattern!r}."]
    return "\n".join([*lines, *found["notices"], *_walk_notices(walk)])


def _listable(workspace: Workspace, path: str) -> Path:
    target = workspace.readable(path)
    if workspace.protects(target):
        raise ToolError(f"{STATE_FOLDER} and .git are neither listed nor searched.")
    return target


def _matching(walk: Walk, glob: str | None) -> Iterator[Path]:
    """The walk's files whose path from where it starts fits the glob."""
    if not glob:
        yield from walk.files()
        return
    plain = glob.removeprefix("./")
    # A leading ! or # means something else to git; a person who writes it means the character.
    escaped = f"\\{plain}" if plain.startswith(("!", "#")) else plain
    try:
        spec = GitIgnoreSpec.from_lines([escaped])
    except ValueError:
        raise ToolError(f"{glob!r} is not a valid glob. Use for instance *.csv.") from None
    for file in walk.files():
        if spec.match_file(file.relative_to(walk.start).as_posix()):
            yield file


def _check_expression(pattern: str) -> None:
    if not pattern:
        raise ToolError("pattern is empty. Give a regular expression.")
    try:
        with _COMPILING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at position {error.pos}"
        raise ToolError(
            f"pattern is not a valid regular expression: {error.msg}{where}. "
            "Escape special characters with a backslash to search for them."
        ) from None
    except (OverflowError, RecursionError):
        raise ToolError("pattern is too complex a regular expression. Simplify it.") from None


def _run_matching(request: dict[str, Any], seconds: float) -> dict[str, Any]:
    package = str(Path(__file__).parents[2])
    # -I and the path at the end: nothing that lies in the workspace may pose as a module.
    start = (
        f"import sys; sys.path.append({package!r}); "
        "from jupyter_agent.tools.matching import main; main()"
    )
    with system_refusals("Searching"):
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    with process:
        try:
            output, _ = process.communicate(json.dumps(request).encode(), seconds)
        except subprocess.TimeoutExpired:
            raise ToolError(
                f"The search took more than {seconds:g} seconds and was stopped. "
                "Simplify the regular expression, or narrow the search with path or glob."
            ) from None
        finally:
            process.kill()
    if process.returncode != 0:
        raise ToolError("The search failed. Simplify the regular expression.")
    found: dict[str, Any] = json.loads(output)
    return found


def _folders(paths: list[str]) -> str:
    """Where the files are, by the first folder: what to ask for next."""
    counts = Counter(path.split("/")[0] + "/" for path in paths if "/" in path)
    named = [f"{folder} {count}" for folder, count in sorted(counts.items())][:20]
    return f": {', '.join(named)}. Narrow with path or pattern." if named else ""


def _walk_notices(walk: Walk) -> list[str]:
    notices = []
    if not walk.complete:
        notices.append(f"[stopped after {SCANNED_ENTRIES} entries; narrow with path]")
    if walk.unreadable:
        notices.append(f"[{walk.unreadable} folders could not be read]")
    return notices


def _on_one_line(path: str) -> str:
    """A name may hold line breaks, and would then pass for two."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)
