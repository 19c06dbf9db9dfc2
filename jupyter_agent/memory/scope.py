"""The folders of the memory, and the scopes that select a part of it.

A scope is a workspace, optionally a domain in it, and optionally a repository in that. The names
become folders, so each is one plain folder name on every system, and its resolved path is inside of
the memory root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.files.atomic import STATE_FOLDER, only_owner, private_folder
from jupyter_agent.files.workspace import Workspace, refused_on_windows

PERSON = "person"
"""The scope, in the person's own memory, of what is about the person and no workspace."""
RESOURCES = "resources/workspaces"
MEMORY = "user/memory/workspaces"
MEMORY_FILES = ("decisions.md", "lessons.md", "_index.yaml", "overview.md")
_LONGEST_NAME = 100
_LONGEST_BYTES = 200
_FORBIDDEN = re.compile(
    r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]'
)


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the memory. A repository needs its domain.

    Raises:
        ToolError: A name is no plain folder name; the message says why.
    """

    workspace: str
    domain: str | None = None
    repository: str | None = None

    def __post_init__(self) -> None:
        if self.repository is not None and self.domain is None:
            raise ToolError("scope: a repository needs its domain. Give both.")
        for field in ("workspace", "domain", "repository"):
            if (name := getattr(self, field)) is not None:
                check_name(field, name)

    @property
    def parts(self) -> tuple[str, ...]:
        names = (self.workspace, self.domain, self.repository)
        return tuple(name for name in names if name is not None)

    def __str__(self) -> str:
        return "/".join(self.parts)


def check_name(field: str, name: str) -> None:
    """Raise `ToolError` unless a name is one plain folder name on every system."""
    shown = repr(one_line(name, 60) or name[:60])
    if not name.strip():
        raise ToolError(f"scope.{field} is empty. Give a folder's name.")
    if len(name) > _LONGEST_NAME or len(name.encode("utf-8", "replace")) > _LONGEST_BYTES:
        raise ToolError(f"scope.{field} is too long. At most {_LONGEST_NAME} characters.")
    if _FORBIDDEN.search(name) or name in {".", ".."}:
        raise ToolError(f"scope.{field} {shown} is a path or holds a forbidden character.")
    if name != name.strip(" .\t") or name.startswith(("_", "~")):
        raise ToolError(f"scope.{field} {shown} must not start or end with '.', '_', '~' or space.")
    if refused_on_windows(name, PureWindowsPath("C:/")) or name.casefold() in MEMORY_FILES:
        raise ToolError(f"scope.{field} {shown} is a reserved name. Use another.")


@dataclass(frozen=True, slots=True)
class MemoryRoot:
    """A folder with `resources/workspaces` and `user/memory/workspaces`; both may be missing.

    Args:
        path: The folder, kept with symlinks resolved.
        shown: The prefix of displayed paths, so that `read_file` accepts them; empty if the root
            is the workspace, or outside of it.
        outside: The path from the workspace to a root outside of it, for instance `..`.
        is_personal: True for the person's own memory: only they may enter its folders.
    """

    path: Path
    shown: str = ""
    outside: str = ""
    is_personal: bool = False

    def __post_init__(self) -> None:
        if not self.is_personal:  # whose path is no link, see `personal_root`
            object.__setattr__(self, "path", Path(os.path.realpath(self.path)))

    def check(self) -> None:
        """Raise `ToolError` if a personal root, or the folder above it, is a link or no folder."""
        for place in (self.path.parent, self.path) if self.is_personal else ():
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                what = "a link" if place.is_symlink() else "no folder"
                raise ToolError(
                    f"Your own memory cannot be used: {place.parent.name}/{place.name} in "
                    f"Jupyter's data folder is {what}. Move it away."
                )

    def prepare(self, folder: Path) -> None:
        """Make a folder below a personal root, which only its owner may enter; else do nothing.

        Raises:
            ToolError: The root is a link or no folder, or cannot be made.
        """
        if not self.is_personal:
            return
        try:
            for place in (self.path.parent, self.path):
                private_folder(place, follow_link=False)
                only_owner(place)
            for place in reversed([p for p in (folder, *folder.parents) if self._is_below(p)]):
                private_folder(place)
        except OSError as error:
            reason = str(error.strerror or error).rstrip(".")
            raise ToolError(f"Your own memory cannot be used: {reason}.") from None

    def _is_below(self, folder: Path) -> bool:
        return folder != self.path and folder.is_relative_to(self.path)

    @property
    def state(self) -> Path:
        """The state folder that all users of this root share."""
        return self.path if self.path.name == STATE_FOLDER else self.path / STATE_FOLDER

    def resources(self, scope: Scope | None = None) -> Path:
        """`resources/workspaces/{scope}`. Raises `ToolError` if it leads out of the root."""
        return self.inside(RESOURCES, *(scope.parts if scope else ()))

    def memory(self, scope: Scope | None = None) -> Path:
        """`user/memory/workspaces/{W}[/{D}]`; memory has no level for repositories."""
        return self.inside(MEMORY, *(scope.parts[:2] if scope else ()))

    def inside(self, *names: str) -> Path:
        """The resolved path. Raises `ToolError` if a symlink leads out of the root."""
        self.check()
        try:
            path = Path(os.path.realpath(self.path.joinpath(*names)))
        except (OSError, ValueError):
            raise ToolError("The scope is no usable path.") from None
        if not path.is_relative_to(self.path) or path.is_symlink():
            raise ToolError(f"{'/'.join(names)} leads out of the memory root. Nothing was done.")
        return path

    def shows(self, path: Path) -> str:
        """A path in the form of `_meta.document_path`."""
        relative = path.relative_to(self.path).as_posix()
        return f"{self.shown}/{relative}" if self.shown else relative


def personal_root() -> MemoryRoot:
    """The person's own memory: `jupyter_agent/memory` in Jupyter's data folder.

    It may not exist yet. The folders above these two may be links, they themselves may not.
    """
    from jupyter_core.paths import jupyter_data_dir

    data = Path(os.path.realpath(jupyter_data_dir()))
    return MemoryRoot(data / "jupyter_agent" / "memory", "own memory", is_personal=True)


def find_root(workspace: Workspace) -> MemoryRoot:
    """The nearest folder, from the workspace up, with `resources/workspaces` or `user/memory`.

    Otherwise the state folder. A parent that belongs to another user is skipped: anybody who may
    write `/tmp` could plant memories there.

    Raises:
        ConfigError: The state folder is a symlink that leads out of the workspace.
    """
    for folder in (workspace.root, *workspace.root.parents):
        if _holds_memory(folder) and _trusted(folder, workspace.root):
            return _root(folder, workspace)
    if not Path(os.path.realpath(workspace.state_folder)).is_relative_to(workspace.root):
        raise ConfigError(
            f"{workspace.state_folder} leads out of the workspace. Replace it by a folder."
        )
    return _root(workspace.state_folder, workspace)


def all_roots(
    own: MemoryRoot, workspace: Workspace, configured: Sequence[str] = ()
) -> tuple[MemoryRoot, ...]:
    """The workspace's own root, then those of `memory.roots`, each once.

    Args:
        own: The root of `find_root`.
        workspace: The base of relative paths.
        configured: Folders; `~` is the home.

    Raises:
        ConfigError: One of them is no folder.
    """
    roots = [own]
    for name in configured:
        folder = workspace.root / Path(name).expanduser()
        if not folder.is_dir():
            raise ConfigError(f"memory.roots: there is no folder {name}.")
        root = _root(folder, workspace)
        if root.path not in [each.path for each in roots]:
            roots.append(root)
    return tuple(roots)


def workspaces_in(root: MemoryRoot) -> list[str]:
    """The names of the workspaces that have resources or memories, sorted."""
    names: set[str] = set()
    for folder in (root.resources(), root.memory()):
        names.update(folders_in(folder))
    return sorted(names)


def folders_in(folder: Path) -> list[str]:
    """The names of the folders in a folder that may be parts of a scope, sorted."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(name for name in found if _is_name(name))


def _is_name(name: str) -> bool:
    try:
        check_name("workspace", name)
    except ToolError:
        return False
    return not name.startswith(".")


def _root(folder: Path, workspace: Workspace) -> MemoryRoot:
    real = Path(os.path.realpath(folder))
    if real == workspace.root:
        return MemoryRoot(real)
    if not real.is_relative_to(workspace.root):
        try:
            return MemoryRoot(real, outside=Path(os.path.relpath(real, workspace.root)).as_posix())
        except ValueError:  # another drive
            return MemoryRoot(real, outside=real.as_posix())
    return MemoryRoot(real, real.relative_to(workspace.root).as_posix())


def _holds_memory(folder: Path) -> bool:
    return (folder / "resources" / "workspaces").is_dir() or (folder / "user" / "memory").is_dir()


def _trusted(folder: Path, workspace: Path) -> bool:
    if folder == workspace or not hasattr(os, "getuid"):
        return True
    try:
        return folder.stat().st_uid in (os.getuid(), workspace.stat().st_uid)
    except OSError:
        return False
