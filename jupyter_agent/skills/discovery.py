"""Which skills there are: found in four places, where the nearer one wins.

Skills of the workspace may be somebody else's work, so they are used only after the person
trusted them, and only as they were then.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from jupyter_core.paths import jupyter_config_dir

from jupyter_agent.core.plaintext import plain
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.skills.folder import SKILL_FILE, contents, digest, read_skill
from jupyter_agent.skills.frontmatter import FrontMatter, SkillError, parse

SHARED_FOLDER = ".agents/skills"
USER_FOLDER = "jupyter_agent_skills"
KIND = "skill"
"""What the trust store calls them."""
_MOST_SKILLS = 500

Origin = Literal["workspace", "user", "shipped"]


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of skills.

    Args:
        origin: Whose it is.
        folder: Where it is. It may not exist.
        shown: Its name for people.
        within: The folder that it and its skills must not lead out of, if any.
    """

    origin: Origin
    folder: Path
    shown: str
    within: Path | None = None


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill as it was found.

    `digest` is that of its files: of the workspace's skills, and of the user's that the agent's
    code has changed.
    """

    front: FrontMatter
    origin: Origin
    folder: Path
    shown: str
    digest: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.front.name

    @property
    def is_trusted(self) -> bool:
        """Whether its text may reach a model, as it was when it was found."""
        if self.origin == "user":
            return not self.digest or self.digest not in trust.digests(trust.HELD, self.folder)
        return self.origin == "shipped" or trust.is_trusted(KIND, self.folder, self.digest)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What was found.

    Attributes:
        skills: Those in use, by name.
        untrusted: Those that the person has not trusted, by name: they came with the workspace, or
            the agent's code changed them.
        notices: One line each: collisions, and folders that hold no usable skill.
    """

    skills: tuple[Skill, ...] = ()
    untrusted: tuple[Skill, ...] = ()
    notices: tuple[str, ...] = ()

    def find(self, name: str) -> Skill:
        """The skill in use of that name.

        Raises:
            ConfigError: There is none, with the nearest name; or it is not trusted.
        """
        for skill in self.skills:
            if skill.name == name:
                return skill
        if any(skill.name == name for skill in self.untrusted):
            raise ConfigError(
                f"The skill {name} came with the workspace, or the agent's code changed it, and it "
                "is not trusted. "
                f"Look at it: %agent skills {name}. Then: %agent skills trust {name}"
            )
        raise ConfigError(_unknown(name, [skill.name for skill in self.skills]))

    def any(self, name: str) -> Skill:
        """The same, but the one that waits for trust comes first: for looking at it."""
        for skill in (*self.untrusted, *self.skills):
            if skill.name == name:
                return skill
        raise ConfigError(_unknown(name, [s.name for s in (*self.untrusted, *self.skills)]))


def places(workspace: Workspace, skills_dir: str) -> list[Place]:
    """Where skills are looked for, nearest first.

    Args:
        workspace: The notebook's.
        skills_dir: The setting `tools.skills_dir`, relative to the state folder.
    """
    root = workspace.root
    own = Path(os.path.normpath(workspace.state_folder / skills_dir))
    return [
        Place("workspace", own, _shown(own, root), root),
        Place("workspace", root / SHARED_FOLDER, SHARED_FOLDER, root),
        Place("user", Path(jupyter_config_dir()) / USER_FOLDER, "your configuration folder"),
        Place("shipped", shipped_folder(), "shipped with jupyter_agent"),
    ]


def shipped_folder() -> Path:
    """Where the package's own skills are: inside of it when installed, beside it in a clone."""
    package = Path(__file__).parent.parent
    inside = package / "shipped_skills"
    return inside if inside.is_dir() else package.parent / "skills"


def discover(where: Iterable[Place]) -> Catalogue:
    """Find the skills in all places, nearest first. It never raises for what lies there."""
    used: dict[str, Skill] = {}
    untrusted: dict[str, Skill] = {}
    notices: list[str] = []
    for place in where:
        for skill in _in_place(place, notices):
            if not skill.is_trusted:
                first = untrusted.setdefault(skill.name, skill)
            else:
                first = used.setdefault(skill.name, skill)
            if first is not skill:
                notices.append(_collision(first, skill))
    return Catalogue(_by_name(used), _by_name(untrusted), tuple(notices))


def load(place: Place, folder: Path) -> Skill:
    """The skill in one folder.

    Raises:
        SkillError: It cannot be used; the message says why.
    """
    real = Path(os.path.realpath(folder))
    if place.within is not None and not real.is_relative_to(place.within):
        raise SkillError("it leads out of the workspace")
    front, _ = parse(read_skill(real), folder.name)
    files = contents(real)
    is_watched = place.origin == "user" and bool(trust.digests(trust.HELD, real))
    fingerprint = digest(real, files) if place.origin == "workspace" or is_watched else ""
    warnings = (*front.warnings, *files.warnings)
    return Skill(front, place.origin, real, f"{place.shown}/{folder.name}", fingerprint, warnings)


def accept(skill: Skill) -> None:
    """Trust a skill as it was found.

    Raises:
        ConfigError: It has changed since, or the trust store cannot be written.
    """
    try:
        now = digest(skill.folder, contents(skill.folder))
    except SkillError as error:
        raise ConfigError(f"{skill.shown}: {error}.") from None
    if now != skill.digest:
        raise ConfigError(f"{skill.shown} is being changed. Look at it again, then trust it.")
    if skill.origin == "user":
        trust.revoke(trust.HELD, skill.folder)
    else:
        trust.trust(KIND, skill.folder, skill.digest)


def is_unchanged(skill: Skill) -> bool:
    """True if a skill of the workspace is what it was when it was found, and trusted.

    One of the user's may have changed, but not by the agent's code.
    """
    if skill.origin == "shipped":
        return True
    try:
        if skill.origin == "user":
            held = trust.digests(trust.HELD, skill.folder)
            return not held or digest(skill.folder, contents(skill.folder)) not in held
        return digest(skill.folder, contents(skill.folder)) == skill.digest and skill.is_trusted
    except SkillError:
        return False


def user_skills() -> dict[str, object]:
    """The user's own skills by the path of their folders, each with a stamp of its files."""
    folder = Path(jupyter_config_dir()) / USER_FOLDER
    found = _folders(Place("user", folder, ""), [])
    return {os.path.realpath(path): _stamp(path) for path in found}


def _stamp(folder: Path) -> object:
    """A value that changes whenever a file of a skill does."""
    try:
        names = [SKILL_FILE, *(one.path for one in contents(folder).resources)]
        found = [(name, (folder / name).stat()) for name in names]
    except (SkillError, OSError):
        return None
    return [(name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found]


def hold_skill(folder: Path) -> bool:
    """Let a skill of the user's, as it is now, wait for their decision.

    Returns:
        True if it did not wait already.

    Raises:
        ConfigError: The trust store cannot be written.
    """
    try:
        now = digest(folder, contents(folder))
    except SkillError:
        return False  # it cannot be used
    if now in trust.digests(trust.HELD, folder):
        return False
    trust.trust(trust.HELD, folder, now)
    return True


def _in_place(place: Place, notices: list[str]) -> Iterator[Skill]:
    for folder in _folders(place, notices):
        try:
            yield load(place, folder)
        except SkillError as error:
            notices.append(plain(f"{place.shown}/{folder.name} is left out: {error}."))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            notices.append(plain(f"{place.shown}/{folder.name} is left out: {reason}."))


def _folders(place: Place, notices: list[str]) -> list[Path]:
    """The folders that hold a SKILL.md, spelled exactly so."""
    within = place.within
    real = Path(os.path.realpath(place.folder))
    if within is not None and not real.is_relative_to(within):
        if real.exists():
            notices.append(f"{place.shown} leads out of the workspace and is left out.")
        return []
    try:
        with os.scandir(place.folder) as entries:
            found = sorted(entry.name for entry in islice(entries, _MOST_SKILLS))
    except OSError:
        return []
    folders = [place.folder / name for name in found if not name.startswith(".")]
    return [folder for folder in folders if _holds_skill(folder)]


def _holds_skill(folder: Path) -> bool:
    try:
        return SKILL_FILE in os.listdir(folder)  # noqa: PTH208 (names only, as they are spelled)
    except OSError:
        return False


def _collision(first: Skill, other: Skill) -> str:
    return plain(
        f"{first.name} is in two places: {first.shown} is used, {other.shown} is left out."
    )


def _by_name(skills: dict[str, Skill]) -> tuple[Skill, ...]:
    return tuple(skills[name] for name in sorted(skills))


def _unknown(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names) or 'none'}."
    return f"There is no skill {plain(name)[:64]!r}. {hint}"


def _shown(folder: Path, root: Path) -> str:
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
