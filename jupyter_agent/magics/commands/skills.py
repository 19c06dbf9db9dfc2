"""`%agent skills`: list, read, check and trust skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jupyter_agent.core.plaintext import one_line, plain, shorten
from jupyter_agent.errors import ConfigError
from jupyter_agent.files import trust
from jupyter_agent.magics.parser import Command, argument, family
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.skills.discovery import KIND, Catalogue, Place, Skill, accept, discover, load
from jupyter_agent.skills.folder import SKILL_FILE, Resource, contents, read_skill
from jupyter_agent.skills.frontmatter import SkillError

_SHOWN = 20_000


def _names(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    found = discover(ctx.obj.kernel.skill_places())
    return [skill.name for skill in (*found.skills, *found.untrusted)]


def _name(**more: Any) -> Any:
    return argument(
        "name", metavar="NAME", help="the name of a skill", shell_complete=_names, **more
    )


@family(
    "skills",
    heading="Memory and skills",
    examples={
        "%agent skills": "list the skills and their problems",
        "%agent skills plotting-well": "read one",
        "%agent skills check .agents/skills": "check the skills that you write there",
        "%agent skills trust station-report": "use this skill, although it came with this folder",
    },
)
@_name(required=False)
@click.pass_obj
def skills(sessions: KernelSessions, name: str | None) -> str:
    """the skills, or one of them; check them for errors; trust one, or stop trusting it"""
    catalogue = discover(sessions.kernel.skill_places())
    return listed(catalogue) if name is None else shown(catalogue.any(name))


@skills.command("check", cls=Command)
@argument(
    "folder", required=False, metavar="FOLDER", help="the folder of a skill, or a folder of skills"
)
@click.pass_obj
def _check(sessions: KernelSessions, folder: str | None) -> str:
    """check all skills, or those of a folder, for errors"""
    if folder is None:
        return check(sessions.kernel.skill_places())
    return check((sessions.kernel.workspace.root / Path(folder).expanduser()).resolve())


@skills.command("trust", cls=Command)
@_name()
@click.pass_obj
def _trust(sessions: KernelSessions, name: str) -> str:
    """trust a skill that came with this folder, as it is now, so that it is used"""
    sessions.kernel.refuse_while_busy()  # the agent's code must not trust what it found or wrote
    return trust_skill(discover(sessions.kernel.skill_places()), name)


@skills.command("revoke", cls=Command)
@_name()
@click.pass_obj
def _revoke(sessions: KernelSessions, name: str) -> str:
    """stop trusting a skill"""
    sessions.kernel.refuse_while_busy()
    return revoke_skill(discover(sessions.kernel.skill_places()), name)


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
    """Remember that the person trusts a skill as it is now."""
    skill = catalogue.any(name)
    if skill.is_trusted:
        return f"{name} ({skill.shown}) is in use already."
    accept(skill)
    return f"{name} ({skill.shown}) is trusted as it is now. %agent reset makes it known."


def revoke_skill(catalogue: Catalogue, name: str) -> str:
    """Forget that the person trusted a skill of the workspace."""
    for skill in (*catalogue.skills, *catalogue.untrusted):
        if skill.name == name and skill.origin == "workspace":
            known = trust.revoke(KIND, skill.folder)
            return f"{name} is no longer trusted." if known else f"{name} was not trusted."
    raise ConfigError(f"The workspace has no skill {name!r}. %agent skills lists them.")


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
        raise ConfigError(f"There is no folder {where.name}. Name a folder of skills.")
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
