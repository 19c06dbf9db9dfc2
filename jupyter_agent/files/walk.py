"""Lists the files below a folder that a person would look through.

Leaves out files that git ignores, and does not follow symlinks to folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from jupyter_agent.errors import ToolError
from jupyter_agent.files.atomic import STATE_FOLDER
from jupyter_agent.files.textfile import open_regular
from jupyter_agent.files.workspace import Workspace

SCANNED_ENTRIES = 100_000
_GITIGNORE_BYTES = 1 << 20
# Besides .git and the state folder: files that come and go as a notebook runs. With them a replay
# would list other files than the recording.
_NEVER_LISTED = GitIgnoreSpec.from_lines(
    [
        ".git",
        STATE_FOLDER,
        ".ipynb_checkpoints/",
        "__pycache__/",
        ".agent_memory.json*",
        "*.cassette.jsonl*",
        ".jupyter_agent-*.tmp",
    ]
)
Rules = list[tuple[Path, GitIgnoreSpec]]


@dataclass
class Walk:
    """One walk through a folder, bounded in its number of entries.

    Args:
        workspace: The workspace that confines it.
        start: The folder, resolved. If it is itself ignored, only rules below it count.
        hidden: Resolved paths of files that are never listed.
    """

    workspace: Workspace
    start: Path
    hidden: frozenset[Path] = frozenset()
    entries: int = field(default=0, init=False)
    unreadable: int = field(default=0, init=False)

    @property
    def complete(self) -> bool:
        """True if the walk visited every entry, within its bound."""
        return self.entries < SCANNED_ENTRIES

    def files(self) -> list[Path]:
        """All files, sorted by their path from the root."""
        found = self._below(self.start, self._rules_above())
        return sorted(found, key=self.workspace.relative)

    def _below(self, start: Path, rules: Rules) -> Iterator[Path]:
        folders = [(start, rules)]
        while folders and self.complete:
            folder, above = folders.pop()
            own = gitignore(folder)
            rules = [*above, (folder, own)] if own else above
            below = []
            for entry in self._entries(folder):
                place = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if ignored(self.workspace.root, place, is_folder, rules):
                    continue
                if is_folder:
                    below.append((place, rules))
                elif place not in self.hidden and self._is_file(entry, place):
                    yield place
            folders.extend(reversed(below))

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            self.unreadable += 1
            return []
        kept = found[: SCANNED_ENTRIES - self.entries]
        self.entries += len(found)
        return kept

    def _is_file(self, entry: os.DirEntry[str], place: Path) -> bool:
        """True for a regular file, or a link to one inside of the workspace."""
        try:
            if entry.is_symlink():
                target = self.workspace.readable(self.workspace.relative(place))
                return target.is_file() and not self.workspace.protects(target)
            return entry.is_file()
        except (ToolError, OSError):
            return False

    def _rules_above(self) -> Rules:
        """The rules of the folders above the start; none if they ignore the start itself."""
        rules: Rules = []
        folder = self.workspace.root
        for name in self.start.relative_to(folder).parts:
            if own := gitignore(folder):
                rules.append((folder, own))
            folder = folder / name
            if ignored(self.workspace.root, folder, True, rules):
                return []
        return rules


def gitignore(folder: Path) -> GitIgnoreSpec | None:
    """The rules of a folder's own `.gitignore`; None if it has none."""
    path = folder / ".gitignore"
    try:
        with open_regular(path, ".gitignore") as stream:
            text = stream.read(_GITIGNORE_BYTES).decode("utf-8-sig", "replace")
    except (ToolError, OSError):
        return None
    lines = []
    for line in text.splitlines():
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue  # git skips an invalid pattern, too
        lines.append(line)
    return GitIgnoreSpec.from_lines(lines) if lines else None


def ignored(root: Path, place: Path, is_folder: bool, rules: Rules) -> bool:
    """True if git would ignore the path: the nearest `.gitignore` with a matching rule decides."""
    slash = "/" if is_folder else ""
    if _NEVER_LISTED.match_file(place.relative_to(root).as_posix() + slash):
        return True
    for folder, spec in reversed(rules):
        verdict = spec.check_file(place.relative_to(folder).as_posix() + slash).include
        if verdict is not None:
            return verdict
    return False
