"""Completion on Tab: commands and their words, settings and values, options, skills, variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jupyter_agent import config
from jupyter_agent.errors import AgentError
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.magics.commands import COMMANDS
from jupyter_agent.session.registry import Sessions

_LAST_WORD = re.compile(r"\S*\Z")
_MENTION = re.compile(r"(?<![\w@.`])@(\w*)\Z")
_SKILL = re.compile(r"/([a-z0-9-]*)\Z")
_VALUES_OF = {
    "--approve": "approvals.mode",
    "--context": "context.detail",
    "--provider": "provider",
}

Words = Callable[[Sessions, list[str]], Iterable[str]]
"""The words that may come next in a command, given those that stand before."""


def completions(
    sessions: Sessions, options: list[str], text: str, row: int
) -> tuple[str, list[str]]:
    """What may stand at the end of a text that is being typed.

    Args:
        sessions: The kernel's.
        options: The options of `%%agent`.
        text: The cell up to the cursor.
        row: The cursor's line, counted from 0.

    Returns:
        The part of the text that they replace, and the whole words, sorted.
    """
    lines = text.split("\n")
    line = lines[row].lstrip()
    try:
        if line.startswith("%agent"):
            return _chosen(line, _in_command(sessions, options, line))
        if line.startswith("%%agent") and not any(before.strip() for before in lines[:row]):
            return _chosen(line, _in_options(sessions, options, line))
        if any(before.startswith("%%agent") for before in lines[:row]):
            return _in_task(sessions, lines, row)
    except AgentError:
        pass  # a wrong setting is told when something runs, not when somebody types
    return "", []


def _chosen(line: str, words: Iterable[str]) -> tuple[str, list[str]]:
    begun = _LAST_WORD.findall(line)[0]
    return begun, sorted({word for word in words if word.startswith(begun)})


def _in_command(sessions: Sessions, options: list[str], line: str) -> Iterable[str]:
    before = line.split()[1:] if line[-1:].isspace() else line.split()[1:-1]
    if not before:
        return COMMANDS if " " in line else ()
    name, rest = before[0], before[1:]
    if name == "resume":
        return _in_options(sessions, [*options, "--trust"], line)
    return _WORDS[name](sessions, rest) if name in _WORDS else ()


def _in_options(sessions: Sessions, options: list[str], line: str) -> Iterable[str]:
    before = line.split() if line[-1:].isspace() else line.split()[:-1]
    last = before[-1] if before else ""
    if last in _VALUES_OF:
        return config.choices(_VALUES_OF[last])
    if last == "--session":
        return sessions.names
    if last == "--skill":
        return _skills(sessions)
    return options if len(before) > 0 else ()


def _in_task(sessions: Sessions, lines: list[str], row: int) -> tuple[str, list[str]]:
    line = lines[row]
    if mention := _MENTION.search(line):
        names = user_variables(sessions.notebook.shell)
        return mention[0], sorted(f"@{name}" for name in names if name.startswith(mention[1]))
    is_start = not any(text.strip() for text in lines[1:row])
    if is_start and (skill := _SKILL.fullmatch(line.rpartition(" ")[2])):
        found = sorted(f"/{name}" for name in _skills(sessions) if name.startswith(skill[1]))
        return skill[0], found
    return "", []


def _skills(sessions: Sessions) -> list[str]:
    from jupyter_agent.skills.discovery import discover

    return [skill.name for skill in discover(sessions.notebook.skill_places()).skills]


def _all_skills(sessions: Sessions) -> list[str]:
    from jupyter_agent.skills.discovery import discover

    found = discover(sessions.notebook.skill_places())
    return [skill.name for skill in (*found.skills, *found.untrusted)]


def _config(sessions: Sessions, before: list[str]) -> Iterable[str]:
    if not before:
        return config.keys()
    is_known = len(before) == 1 and before[0] in set(config.keys())
    return config.choices(before[0]) if is_known else ()


def _skill_words(sessions: Sessions, before: list[str]) -> Iterable[str]:
    own = () if before else ("check", "trust", "revoke")
    return (*own, *_all_skills(sessions)) if len(before) < 2 else ()


def _mcp_words(sessions: Sessions, before: list[str]) -> Iterable[str]:
    if not before:
        return ("tools", "restart", "trust", "revoke")
    return sessions.notebook.servers.names if len(before) == 1 else ()


def _first(*words: str) -> Words:
    return lambda sessions, before: () if before else words


def _log_words(sessions: Sessions, before: list[str]) -> Iterable[str]:
    if not before:
        return ("list", "show", "grep", "path", "clean")
    if before[0] != "clean" or before[-1] == "--days":
        return ()
    words = ("show", "logs", "sessions", "outputs", "undo", "--days", "--all")
    return [word for word in words if word not in before[1:]]


def _session(sessions: Sessions, before: list[str]) -> Iterable[str]:
    return () if before else sessions.names


_WORDS: dict[str, Words] = {
    "help": lambda sessions, before: () if before else COMMANDS,
    "config": _config,
    "context": _first("all"),
    "show": _first("last"),
    "skills": _skill_words,
    "notes": _first("list", "show", "edit", "delete"),
    "memory": _first("show", "search", "review", "confirm", "rebuild", "sessions"),
    "mcp": _mcp_words,
    "trust": _first("show", "revoke"),
    "undo": _first("show", "list", "redo"),
    "log": _log_words,
    "history": _session,
    "reset": _session,
    "compact": _session,
}


def option_names(magic: Any) -> list[str]:
    """The options of a magic with `magic_arguments`."""
    names = (name for action in magic.parser._actions for name in action.option_strings)
    return [name for name in names if name.startswith("--")]
