"""Whether a file may be written without a question."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.policy.catalogue import URL
from jupyter_agent.policy.verdict import PolicyContext, Risk

_DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "nul", "NUL")
_STEERING = frozenset({STATE_FOLDER, ".git", ".agents", "agents.md"})
_RULES = "/agent/rules/"
"""The hot rules of a memory root, wherever one is or comes to be."""
UNKNOWN_FILE = "writes to a file whose name is only known when it runs"


def judge_write(
    text: str, start: Path, around: PolicyContext, line: int = 0
) -> tuple[Risk | None, Path | None]:
    """What is risky about writing to a path, and the file that it is.

    Args:
        text: The path as the code gives it.
        start: Where a relative path starts from.
    """
    if URL.match(text):
        return Risk("network", f"writes to the network: {one_line(text)}", line, host(text)), None
    if text in _DEVICES:
        return None, None
    path = real(text, start)
    if path is None:
        return None, None  # no such path can be: writing there fails
    shown, place = one_line(text), str(path)
    if steers(path, around):
        what = f"writes to {shown}, which steers the agent itself"
        return Risk("agent", what, line, place), path
    if not path.is_relative_to(around.root):
        if path.is_relative_to(_temporary()):
            return None, path
        return Risk("outside", f"writes outside the workspace: {shown}", line, place), path
    if path in around.seen or not os.path.lexists(path):
        return None, path
    what = f"writes over {shown}, which the agent has not read"
    return Risk("overwrite", what, line, place), path


def judge_folder(text: str, start: Path, around: PolicyContext, line: int = 0) -> Risk | None:
    """What is risky about making a folder. That it exists is no risk: nothing is written over."""
    risk, _ = judge_write(text, start, around, line)
    return risk if risk and risk.kind != "overwrite" else None


def real(text: str, start: Path) -> Path | None:
    """The absolute path without symlinks, or None where no path can be like this."""
    try:
        return Path(os.path.realpath(start / os.path.expanduser(text)))  # noqa: PTH111
    except (OSError, ValueError, RuntimeError):
        return None


def host(address: str) -> str:
    """The host of an address such as `https://a.b/c`, in lower case; empty where it has none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def steers(path: Path, around: PolicyContext) -> bool:
    """Whether a path is, or is in, or holds, what steers the agent.

    By name at any depth, and in any case: a notebook in a subfolder has an AGENTS.md of its own.
    """
    folded = f"{path.as_posix().casefold()}/"
    if not _STEERING.isdisjoint(folded.split("/")) or _RULES in folded:
        return True
    return any(
        path.is_relative_to(guarded) or guarded.is_relative_to(path)
        for guarded in around.protected
        if path != around.root
    )


def _temporary() -> Path:
    return Path(os.path.realpath(tempfile.gettempdir()))
