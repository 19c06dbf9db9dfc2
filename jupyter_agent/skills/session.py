"""The skills of one session: found once, loaded on demand, remembered while they are active."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from jupyter_agent.core.plaintext import shorten
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.skills.discovery import Catalogue, Place, Skill, discover, is_unchanged
from jupyter_agent.skills.folder import SKILL_FILE, contents, read_skill
from jupyter_agent.skills.frontmatter import SkillError, parse
from jupyter_agent.skills.prompt import SCHEME, skill_prompt, skills_metadata_prompt

ACTIVE_LIMIT = 40_000
"""Characters of the active skills that a compaction puts back."""
_SLASH = re.compile(r"/([^\W_]+(?:-[^\W_]+)*)(?=\s|$)")


class Skills:
    """What one session knows of skills.

    Args:
        where: The places to look in, nearest first.

    Attributes:
        catalogue: What was found, fixed for the session: the system prompt lists it.
        active: Names of the skills that were loaded, in that order.
    """

    def __init__(self, where: Iterable[Place]) -> None:
        self.catalogue: Catalogue = discover(where)
        self.active: list[str] = []

    def metadata_prompt(self) -> str:
        """Level 1: what the system prompt lists. Empty where there are no skills."""
        return skills_metadata_prompt(self.catalogue.skills)

    def load(self, name: str) -> str:
        """Level 2: the whole skill. It is active from then on.

        Raises:
            ToolError: There is no such skill; it is not trusted, or has changed since.
        """
        skill = self._find(name.strip().removeprefix("/"))
        text = whole(skill)
        if skill.name not in self.active:
            self.active.append(skill.name)
        return text

    def file(self, path: str) -> Path:
        """Level 3: the real path of `skill:NAME/path`. Only files that belong to the skill.

        Raises:
            ToolError: It is no such path, or no such file; the skill is unknown or has changed.
        """
        name, _, inner = path.strip().removeprefix(SCHEME).partition("/")
        return file_of(self._find(name), inner)

    def active_text(self, limit: int = ACTIVE_LIMIT) -> str:
        """All active skills again, for after a compaction; those beyond `limit` by name only.

        The skills that were loaded last come first where the room is short.
        """
        texts: dict[str, str] = {}
        for name in reversed(self.active):
            try:
                text = whole(self._find(name))
            except ToolError:
                continue  # gone or changed since: nothing to put back
            left_out = f"The skill {name} was loaded; load it again with get_skill if needed."
            texts[name] = text if len(text) <= limit else left_out
            limit -= len(texts[name])
        return "\n\n".join(texts[name] for name in self.active if name in texts)

    def by_hand(self, task: str, names: Iterable[str] = ()) -> tuple[tuple[Skill, ...], str]:
        """The skills that a person loads: those named with `--skill`, and `/NAME` before a task.

        A task that begins with a slash and no skill's name is left as it is: it may be a path.

        Returns:
            The skills, each once, and the task without them. A task of names alone stays whole.

        Raises:
            ConfigError: A skill is unknown or not trusted.
        """
        found = {name: self.catalogue.find(name) for name in names}
        known = {s.name for s in (*self.catalogue.skills, *self.catalogue.untrusted)}
        rest = task.strip()
        while (match := _SLASH.match(rest)) and match[1] in known:
            found[match[1]] = self.catalogue.find(match[1])
            rest = rest[match.end() :].lstrip()
        return tuple(found.values()), rest or task.strip()

    def given(self, skills: Iterable[Skill]) -> str:
        """The texts of skills that a person loaded, for the context of the task."""
        return "\n\n".join(self.load(skill.name) for skill in skills)

    def _find(self, name: str) -> Skill:
        try:
            skill = self.catalogue.find(name)
        except ConfigError as error:
            raise ToolError(str(error)) from None
        return checked(skill)


def checked(skill: Skill) -> Skill:
    """The skill, if it still is what the person trusted. Raises `ToolError`."""
    if not is_unchanged(skill):
        raise ToolError(
            f"The skill {skill.name} has changed since the person trusted it. "
            f"They can look at it and trust it anew: %agent skills trust {skill.name}"
        )
    return skill


def whole(skill: Skill) -> str:
    """A skill's text as the model reads it. Raises `ToolError` where it cannot be read."""
    try:
        front, body = parse(read_skill(skill.folder), skill.folder.name)
        return skill_prompt(skill, front.raw, body, contents(skill.folder))
    except (SkillError, OSError) as error:
        raise ToolError(f"The skill {skill.name} cannot be read: {error}.") from None


def file_of(skill: Skill, inner: str) -> Path:
    """The real path of a file that belongs to a skill. Raises `ToolError`."""
    try:
        known = [SKILL_FILE, *(resource.path for resource in contents(skill.folder).resources)]
    except SkillError as error:
        raise ToolError(f"The skill {skill.name} cannot be read: {error}.") from None
    if inner not in known:
        listed = shorten(", ".join(known), 1_000).replace("\n", " ")
        raise ToolError(f"The skill {skill.name} has no file {inner[:200]!r}. It has: {listed}.")
    return Path(os.path.realpath(skill.folder / inner))
