"""Whether a file may be written without a question."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from jupyter_agent.core.addresses import host_of
from jupyter_agent.core.effects import Risk
from jupyter_agent.core.plaintext import one_line
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.workspace import CASSETTE
from jupyter_agent.policy.catalogue import HOLE, URL
from jupyter_agent.policy.verdict import PolicyContext

_DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "nul", "NUL")
_STEERING = frozenset({STATE_FOLDER, ".git", ".agents", "agents.md"})
_RULES = "/agent/rules/"
"""The hot rules of a memory root, wherever one is or comes to be."""
_RUN_BY_OTHERS = re.compile(
    r"/(?:\.github/(?:workflows|actions)|\.gitlab-ci\.yml|\.circleci|\.travis\.yml|jenkinsfile|"
    r"\.vscode|\.idea|\.devcontainer|\.ipython|\.jupyter|\.husky|\.config|\.ssh|"
    r"\.pre-commit-config\.yaml|\.env(?:rc|\.\w+)?|\.(?:npm|yarn|pip|net|py|bash|zsh|vim|cond[a])rc|"
    r"\.(?:bash_|z)?profile|\.gitconfig|\.gitattributes|\.gitmodules|\.netrc|pip\.conf|"
    r"(?:site|user)customize\.py|conftest\.py|[^/]+\.pth|setup\.py|crontab|cron\.\w+|"
    r"(?:jupyter|ipython)\w*_config\.(?:py|json))(?:/|$)"
)
"""Files that other programs run, or take orders from, without being asked to."""
_MOST_MATCHES = 1_000
_MOST_FOLDERS = 1_000


def judge_write(
    text: str, start: Path, around: PolicyContext, line: int = 0, native: bool = False
) -> tuple[Risk | None, Path | None]:
    """The risk of writing to a path, and the file that it is.

    Args:
        text: The path as the code gives it; a `HOLE` stands for each part that is not known.
        start: Where a relative path starts from.
        around: The workspace.
        line: The line of the code.
        native: Whether nobody sees the file when it is opened, so that a path that is not known
            must be judged now.
    """
    if URL.match(text):
        address = text.partition(HOLE)[0]
        what = f"writes to the network: {one_line(address)}"
        return Risk("network", what, line, host_of(address)), None
    if HOLE in text:
        return (_judge_pattern(text, start, around, line) if native else None), None
    if text in _DEVICES:
        return None, None
    path = real(text, start)
    if path is None:
        return None, None  # no such path can be: writing there fails
    return judge_path(path, one_line(text), around, line), path


def judge_path(path: Path, shown: str, around: PolicyContext, line: int = 0) -> Risk | None:
    """What is risky about writing to a path.

    Args:
        path: The path, absolute and without symlinks.
        shown: How the person reads it.
        around: The workspace.
        line: The line of the code; 0 for none.
    """
    place = str(path)
    if steers(path, around):
        return Risk("agent", f"writes to {shown}, which steers the agent itself", line, place)
    if not path.is_relative_to(around.root):
        if is_temporary(path, around):
            return None
        return Risk("outside", f"writes outside the workspace: {shown}", line, place)
    if path in around.seen:
        return None
    if _RUN_BY_OTHERS.search(f"/{path.relative_to(around.root).as_posix().casefold()}"):
        return Risk("settings", f"writes to {shown}, which other programs run", line, place)
    if not os.path.lexists(path):
        return None
    return Risk("overwrite", f"writes over {shown}, which the agent has not read", line, place)


def _judge_pattern(text: str, start: Path, around: PolicyContext, line: int) -> Risk | None:
    """The risk of writing to one of the paths that a text with holes may become.

    Holes are taken for parts of names. Only what is there already can be written over.
    """
    shown = one_line(text.replace(HOLE, "…"))
    unseen = Risk("overwrite", f"writes to a file that only shows when it runs: {shown}", line)
    if not text.strip(HOLE):
        return unseen
    folder = real(os.path.dirname(text.partition(HOLE)[0]) or ".", start)  # noqa: PTH120
    if folder is None or ".." in text.partition(HOLE)[2]:
        return unseen
    if risk := judge_path(folder / "…", shown, around, line):
        return risk
    pattern = "*".join(glob.escape(part) for part in text.split(HOLE))
    for count, name in enumerate(glob.iglob(pattern, root_dir=start)):  # noqa: PTH207
        path = real(name, start)
        if count > _MOST_MATCHES or path is None:
            return unseen
        if risk := judge_path(path, one_line(name), around, line):
            return risk
    return None


def real(text: str, start: Path) -> Path | None:
    """The absolute path without symlinks, or None where no path can be like this."""
    try:
        return Path(os.path.realpath(start / os.path.expanduser(text)))  # noqa: PTH111
    except (OSError, ValueError, RuntimeError):
        return None


def steers(path: Path, around: PolicyContext) -> bool:
    """Whether a path is, or is in, or holds, what steers the agent.

    By name at any depth, and in any case: a notebook in a subfolder has an AGENTS.md of its own.
    """
    folded = f"{path.as_posix().casefold()}/"
    if not _STEERING.isdisjoint(folded.split("/")) or _RULES in folded:
        return True
    if folded.endswith(f"{CASSETTE}/"):
        return True
    return any(
        path.is_relative_to(guarded) or guarded.is_relative_to(path)
        for guarded in around.protected
        if path != around.root
    )


def may_go(path: Path, around: PolicyContext, is_tree: bool) -> bool:
    """True if a removal loses nothing: what does not exist, is temporary, or the agent's own.

    Args:
        path: An absolute path.
        around: The workspace, and what the agent made.
        is_tree: Whether all below the path goes, too.
    """
    if not os.path.lexists(path) or is_temporary(path, around):
        return True
    return path in around.made and (not is_tree or _is_all_made(path, around))


def _is_all_made(path: Path, around: PolicyContext) -> bool:
    """True if the agent made all files below a folder, as far as there are not too many."""
    if path.is_symlink() or not path.is_dir():
        return True
    for count, (folder, _, names) in enumerate(os.walk(path)):
        if count > _MOST_FOLDERS or any(Path(folder, name) not in around.made for name in names):
            return False
    return True


def is_temporary(path: Path, around: PolicyContext) -> bool:
    """True for a path in the system's folder for temporary files that is nobody's work.

    The workspace, its neighbours in a folder of their own, and the user's home may lie there, too.

    Args:
        path: An absolute path.
        around: The workspace, and where that folder is.
    """
    folder, home, root = around.temporary, around.home, around.root
    if not path.is_relative_to(folder) or path == folder or path.is_relative_to(root):
        return False
    if home.is_relative_to(folder) and path.is_relative_to(home):
        return False
    beside = root.relative_to(folder).parts[:1] if root.is_relative_to(folder) else ()
    return not beside or path.relative_to(folder).parts[:1] != beside
