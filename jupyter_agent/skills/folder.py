"""What lies in a skill's folder: bounded, confined, and with a digest that trust hangs on."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jupyter_agent.skills.frontmatter import SkillError

SKILL_FILE = "SKILL.md"
SKILL_BYTES = 256 * 1024
MOST_FILES = 1_000
MOST_BYTES = 50 * 1024 * 1024
_DEEPEST = 6
_SKIPPED = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class Resource:
    """A file of a skill: its path from the skill's folder with forward slashes, its bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a skill besides its SKILL.md, sorted, and what was left out of them."""

    resources: tuple[Resource, ...]
    warnings: tuple[str, ...] = ()


def read_skill(folder: Path) -> str:
    """The text of a folder's SKILL.md: no byte-order mark, plain line ends.

    Raises:
        SkillError: It is missing, too large, no text, no regular file, or leads out of the folder.
    """
    path = folder / SKILL_FILE
    try:
        if not _inside(path, folder):
            raise SkillError(f"its {SKILL_FILE} leads out of its folder")
        data = _read_regular(path)
    except OSError as error:
        raise SkillError(f"its {SKILL_FILE} cannot be read ({error.strerror})") from None
    if len(data) > SKILL_BYTES:
        raise SkillError(f"its {SKILL_FILE} is larger than {SKILL_BYTES // 1024} KB")
    if b"\0" in data:
        raise SkillError(f"its {SKILL_FILE} is no UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SkillError(f"its {SKILL_FILE} is no UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def contents(folder: Path) -> Contents:
    """The files of a skill. Hidden ones and caches do not belong to it.

    Raises:
        SkillError: There are too many, they are too large together, or one cannot be looked at.
    """
    try:
        return _contents(folder)
    except OSError as error:
        raise SkillError(f"its files cannot be listed ({error.strerror})") from None


def _contents(folder: Path) -> Contents:
    warnings: list[str] = []
    found: list[Resource] = []
    total = 0
    for path in _walk(folder, folder, warnings):
        size = path.stat().st_size
        total += size
        found.append(Resource(path.relative_to(folder).as_posix(), size))
        if len(found) > MOST_FILES:
            raise SkillError(f"it has more than {MOST_FILES:,} files")
        if total > MOST_BYTES:
            raise SkillError(f"its files are larger than {MOST_BYTES // 1024 // 1024} MB together")
    resources = sorted((r for r in found if r.path != SKILL_FILE), key=lambda r: r.path)
    return Contents(tuple(resources), tuple(warnings))


def digest(folder: Path, files: Contents) -> str:
    """A fingerprint of SKILL.md and of every file that belongs to the skill.

    Raises:
        SkillError: A file cannot be read.
    """
    whole = hashlib.sha256()
    for name in (SKILL_FILE, *(resource.path for resource in files.resources)):
        try:
            with (folder / name).open("rb") as stream:
                one = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise SkillError(f"{name} cannot be read ({error.strerror})") from None
        whole.update(f"{one} {name}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _walk(folder: Path, top: Path, warnings: list[str], depth: int = 0) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SkillError(f"{folder.name} cannot be listed ({error.strerror})") from None
    for entry in found:
        path = folder / entry.name
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        if entry.is_symlink() and not _inside(path, top):
            shown = path.relative_to(top).as_posix()
            warnings.append(f"{shown} leads out of the skill's folder and is left out")
        elif entry.is_dir(follow_symlinks=False):
            if depth < _DEEPEST:
                yield from _walk(path, top, warnings, depth + 1)
        elif entry.is_file():
            yield path


def _inside(path: Path, folder: Path) -> bool:
    """Whether a path, with its symlinks resolved, is in a folder."""
    try:
        real = Path(os.path.realpath(path))
        return real.is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError):
        return False


def _read_regular(path: Path) -> bytes:
    """At most one byte more than allowed; a pipe or a device is refused without waiting."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise SkillError(f"its {path.name} is not a regular file")
        return stream.read(SKILL_BYTES + 1)
