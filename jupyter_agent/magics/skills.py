"""What `%agent skills` says and does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_agent.core.plaintext import one_line, plain, shorten
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.skills.discovery import KIND, Catalogue, Place, Skill, discover, load
from jupyter_agent.skills.folder import SKILL_FILE, Resource, contents, digest, read_skill
from jupyter_agent.skills.frontmatter import SkillError

USAGE = "%agent skills [NAME | check [FOLDER] | trust NAME | revoke NAME]"
_SHOWN = 20_000


def skills_command(words: list[str], where: Callable[[], list[Place]], root: Path) -> str:
    """Run `%agent skills WORDS` and give what it says.

    Args:
        words: What follows `%agent skills`.
        where: Gives the places to look in.
        root: What a folder to check is relative to.

    Raises:
        ConfigError: The words are wrong, there is no such skill, or the check found errors.
    """
    if not words:
        return listed(discover(where()))
    first, *more = words
    if len(more) > 1 or (first in ("trust", "revoke") and not more):
        raise ConfigError(f"Usage: {USAGE}")
    if first == "check":
        return check((root / Path(more[0]).expanduser()).resolve() if more else where())
    catalogue = discover(where())
    if first == "trust":
        return trust_skill(catalogue, more[0])
    if first == "revoke":
        return revoke_skill(catalogue, more[0])
    if more:
        raise ConfigError(f"Usage: {USAGE}")
    return shown(catalogue.any(first))


def listed(catalogue: Catalogue) -> str:
    """All skills, and what is wrong with some of them."""
    width = max((len(s.name) for s in (*catalogue.skills, *catalogue.untrusted)), default=0)
    lines = [_row(skill, width) for skill in catalogue.skills]
    if catalogue.untrusted:
        lines += ["", "Not used until you trust them (%agent skills trust NAME):"]
        lines += [_row(skill, width) for skill in catalogue.untrusted]
    problems = [
        plain(f"{skill.shown}: {warning}.")
        for skill in (*catalogue.skills, *catalogue.untrusted)
        for warning in skill.warnings
    ]
    notices = [*catalogue.notices, *problems]
    if notices:
        lines += ["", *notices]
    return "\n".join(lines) or "There are no skills."


def shown(skill: Skill) -> str:
    """One skill, as a person reads it before they trust it: the whole text and its files."""
    state = "in use" if skill.is_trusted else "not trusted"
    files = [f"  {resource.path} ({resource.size:,} bytes)" for resource in _files(skill)]
    return plain(
        "\n".join(
            [
                f"{skill.name}: {skill.shown}, {state}",
                *(f"warning: {warning}" for warning in skill.warnings),
                *(["files:", *files] if files else []),
                "",
                shorten(_text(skill), _SHOWN, f"the whole is in {skill.shown}/{SKILL_FILE}"),
            ]
        )
    )


def check(where: Path | list[Place]) -> str:
    """Check a skill, or all in a folder or in some places.

    Raises:
        ConfigError: The folder does not exist, or holds no skill.
    """
    folders = _to_check(where)
    rows = [_checked(folder) for folder in folders]
    bad = sum(": error" in row for row in rows)
    return plain("\n".join([*rows, f"{len(rows)} checked, {bad} cannot be used."]))


def trust_skill(catalogue: Catalogue, name: str) -> str:
    """Remember that the person trusts a skill of the workspace as it is now."""
    skill = catalogue.any(name)
    if skill.is_trusted:
        return f"{name} ({skill.shown}) is in use already."
    try:
        now = digest(skill.folder, contents(skill.folder))
    except SkillError as error:
        raise ConfigError(f"{skill.shown}: {error}.") from None
    if now != skill.digest:
        raise ConfigError(f"{skill.shown} is being changed. Look at it again, then trust it.")
    trust.trust(KIND, skill.folder, skill.digest)
    return f"{name} ({skill.shown}) is trusted as it is now. %agent reset makes it known."


def revoke_skill(catalogue: Catalogue, name: str) -> str:
    """Forget that the person trusted a skill of the workspace."""
    for skill in (*catalogue.skills, *catalogue.untrusted):
        if skill.name == name and skill.origin == "workspace":
            known = trust.revoke(KIND, skill.folder)
            return f"{name} is no longer trusted." if known else f"{name} was not trusted."
    raise ConfigError(f"The workspace has no skill {name!r}.")


def _row(skill: Skill, width: int) -> str:
    return f"{skill.name:<{width}}  {skill.origin:<9}  {one_line(skill.front.description, 68)}"


def _files(skill: Skill) -> list[Resource]:
    try:
        return list(contents(skill.folder).resources)
    except SkillError:
        return []


def _text(skill: Skill) -> str:
    try:
        return read_skill(skill.folder)
    except SkillError as error:
        raise ConfigError(f"{skill.shown}: {error}.") from None


def _to_check(where: Path | list[Place]) -> list[Path]:
    if isinstance(where, list):
        return [folder for place in where for folder in _with_skill(place.folder)]
    if not where.is_dir():
        raise ConfigError(f"There is no folder {where.name}.")
    folders = [where] if (where / SKILL_FILE).exists() else _with_skill(where)
    if not folders:
        raise ConfigError(f"Neither {where.name} nor a folder in it has a {SKILL_FILE}.")
    return folders


def _with_skill(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in found if (path / SKILL_FILE).exists()]


def _checked(folder: Path) -> str:
    try:
        skill = load(Place("user", folder.parent, folder.parent.name), folder)
    except (SkillError, OSError) as error:
        return f"{folder.name}: error: {error}"
    if not skill.warnings:
        return f"{folder.name}: good"
    return "\n".join(f"{folder.name}: warning: {warning}" for warning in skill.warnings)
