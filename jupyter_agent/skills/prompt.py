"""What a model reads of skills: the list in the system prompt, and a whole skill.

Nothing here differs from machine to machine. A file of a skill is `skill:NAME/path`, which
`read_file` takes, and which code turns into a real path with `jupyter_agent_skills.path`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from jupyter_agent.core.plaintext import defused, plain, shorten
from jupyter_agent.skills.discovery import Skill
from jupyter_agent.skills.folder import SKILL_FILE, Contents, Resource
from jupyter_agent.skills.frontmatter import LONGEST_DESCRIPTION

MODULE = "jupyter_agent_skills"
SCHEME = "skill:"
METADATA_LIMIT = 12_000
"""Characters of the list of skills in the system prompt."""
BODY_LIMIT = 60_000
_LISTED = 100
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console"})
_PYTHON = frozenset({"python", "py", "python3"})
# What other clients' skills write before a path of their own.
_PREFIX = r"(?:\./|\{baseDir\}/|\$\{?CLAUDE_SKILL_DIR\}?/)?"


def skills_metadata_prompt(skills: Sequence[Skill], limit: int = METADATA_LIMIT) -> str:
    """Level 1: a name and a description in one line each; empty where there are no skills.

    Beyond `limit` characters only names are listed.
    """
    if not skills:
        return ""
    lines: list[str] = []
    left = limit
    rest = sorted(skills, key=lambda skill: skill.name)
    while rest:
        line = f"**{rest[0].name}** - {_inert(rest[0].front.description)}"
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
        rest.pop(0)
    if rest:
        names = shorten(", ".join(skill.name for skill in rest), limit // 4).replace("\n", " ")
        lines.append(f"{len(rest)} more: {names}")
    return "\n".join(["### Available Skills", "", *lines])


def skill_prompt(skill: Skill, raw: str, body: str, files: Contents) -> str:
    """Level 2: the front matter, the body with paths that work, and the list of files.

    Args:
        skill: The skill.
        raw: Its front matter as it stands.
        body: What follows it.
        files: What lies beside it.
    """
    text = with_working_paths(body, skill.name, files.resources)
    whole = f"read {SCHEME}{skill.name}/{SKILL_FILE} for the whole"
    inner = "\n\n".join(
        part
        for part in (
            f"---\n{plain(raw)}\n---",
            shorten(plain(text), BODY_LIMIT, whole),
            _listing(skill.name, files.resources),
        )
        if part
    )
    # Its end cannot be faked from within.
    return f'<skill_content name="{skill.name}">\n{defused(inner)}\n</skill_content>'


def with_working_paths(body: str, name: str, resources: Sequence[Resource]) -> str:
    """The body in which the skill's own relative paths work.

    In prose they become `skill:NAME/…`. In Python a string that is such a path becomes a call
    that gives the real one, and so it does in shell commands, where IPython fills in `{…}`.
    """
    in_folders = _paths(r for r in resources if "/" in r.path)
    everywhere = _paths(resources)
    if everywhere is None:
        return body
    lines: list[str] = []
    fence, language = "", ""
    for line in body.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})\s*(\w*)", line)
        if mark and not fence:
            fence, language = mark[1], mark[2].lower()
        elif mark and mark[1].startswith(fence) and not mark[2]:
            fence, language = "", ""
        elif not fence:
            line = everywhere.sub(_in_prose(name), line)  # noqa: PLW2901 (the line, rewritten)
        elif in_folders is not None:
            line = _in_code(line, language, name, in_folders)  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def module_of(name: str) -> str:
    """The name of the package that code imports a skill's scripts from."""
    word = name.replace("-", "_")
    return f"{MODULE}.{word if word.isidentifier() else '_' + word}"


def _paths(resources: Iterable[Resource]) -> re.Pattern[str] | None:
    paths = sorted((r.path for r in resources), key=len, reverse=True)
    if not paths:
        return None
    choices = "|".join(map(re.escape, paths))
    return re.compile(rf"(?<![\w/:.\-]){_PREFIX}(?P<path>{choices})(?![\w/\-]|\.\w)")


def _in_prose(name: str) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{SCHEME}{name}/{match['path']}"


def _in_code(line: str, language: str, name: str, pattern: re.Pattern[str]) -> str:
    def call(match: re.Match[str]) -> str:
        return f'{MODULE}.path("{name}/{match["path"]}")'

    if language in _PYTHON:
        quoted = re.compile(rf"(?P<quote>[\"'])(?:{pattern.pattern})(?P=quote)")
        return quoted.sub(call, line)
    if language in _SHELLS:
        return pattern.sub(lambda match: "{" + call(match) + "}", line)
    return pattern.sub(_in_prose(name), line) if not language else line


def _listing(name: str, resources: Sequence[Resource]) -> str:
    """The files of a skill, and how to get at them."""
    if not resources:
        return ""
    lines = [
        "## Files of this skill",
        "",
        "`read_file` takes these paths. In code, "
        f'`import {MODULE}` and `{MODULE}.path("{name}/…")` give the real path, and scripts are '
        "modules. There is no shell tool.",
        "",
    ]
    for resource in resources[:_LISTED]:
        shown = plain(resource.path).replace("\n", " ")
        line = f"- {SCHEME}{name}/{shown} ({_size(resource.size)})"
        if (script := PurePosixPath(resource.path)).suffix == ".py" and script.stem.isidentifier():
            parents = [part for part in script.parts[:-1] if part != "scripts"]
            if not parents:
                line += f": `from {module_of(name)} import {script.stem}`"
        lines.append(line)
    if len(resources) > _LISTED:
        lines.append(f"- {len(resources) - _LISTED} more files")
    return "\n".join(lines)


def _inert(description: str) -> str:
    """Somebody's text as one line that cannot look like another part of the prompt."""
    text = " ".join(plain(description).split())
    if len(text) > LONGEST_DESCRIPTION:
        text = text[: LONGEST_DESCRIPTION - 1].rstrip() + "…"
    return defused(text).replace("<", "&lt;").replace(">", "&gt;").replace("**", "\\*\\*")


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KB"
