"""Completion on Tab: the words of `%agent`, the options of `%%agent`, skills and variables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_agent.errors import AgentError
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.magics import commands, parser
from jupyter_agent.session.options import OPTIONS
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.skills.discovery import discover

_LAST_WORD = re.compile(r"\S*\Z")
_MENTION = re.compile(r"(?<![\w@.`])@(\w*)\Z")
_SKILL = re.compile(r"/([a-z0-9-]*)\Z")


def completions(sessions: KernelSessions, text: str, row: int) -> tuple[str, list[str]]:
    """The completions at the end of a text that is being typed.

    Args:
        sessions: The kernel's sessions.
        text: The cell up to the cursor.
        row: The cursor's line, counted from 0.

    Returns:
        The part of the text that they replace, and the whole words, sorted.
    """
    lines = text.split("\n")
    line = lines[row].lstrip()
    begun = _LAST_WORD.findall(line)[0]
    magic, space, rest = line.partition(" ")
    try:
        if line.startswith("%agent"):
            own = commands.completions(sessions, rest) if magic == "%agent" and space else ()
            return begun, _begun_with(begun, own)
        if line.startswith("%%agent") and not any(before.strip() for before in lines[:row]):
            words = rest.split()[: -1 if begun else None]
            found = parser.completions(OPTIONS, words, begun, sessions) if space else ()
            return begun, _begun_with(begun, found)
        if any(before.startswith("%%agent") for before in lines[:row]):
            return _in_task(sessions, lines, row)
    except AgentError:
        pass  # a wrong setting is reported by a run, not by typing
    return "", []


def _begun_with(begun: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(begun)})


def _in_task(sessions: KernelSessions, lines: list[str], row: int) -> tuple[str, list[str]]:
    line = lines[row]
    if mention := _MENTION.search(line):
        variables = user_variables(sessions.kernel.shell)
        return mention[0], sorted(f"@{name}" for name in variables if name.startswith(mention[1]))
    is_start = not any(text.strip() for text in lines[1:row])
    if is_start and (skill := _SKILL.fullmatch(line.rpartition(" ")[2])):
        names = [each.name for each in discover(sessions.kernel.skill_places()).skills]
        return skill[0], sorted(f"/{name}" for name in names if name.startswith(skill[1]))
    return "", []
