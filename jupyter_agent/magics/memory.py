"""`%agent notes` and `%agent memory`: what a person sees of the memory, and does to it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.errors import AgentError, ConfigError, ToolError
from jupyter_agent.memory.entries import superseded
from jupyter_agent.memory.notes import Note, Notes, shown_time
from jupyter_agent.memory.review import review
from jupyter_agent.memory.scope import Scope, workspaces_in
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.stores.session_records import accounts

if TYPE_CHECKING:
    from jupyter_agent.memory.search import Search

NOTES_USAGE = "notes [list [CATEGORY] | show N | edit N TEXT | delete N]"
MEMORY_USAGE = (
    "memory [show [SCOPE] | search WORDS | review [SCOPE] | confirm SCOPE ID | rebuild [WORKSPACE]"
    " | sessions]"
)


def notes_command(notes: Notes, words: Sequence[str]) -> str:
    """What `%agent notes WORDS` says. Raises `AgentError` with one line."""
    name, rest = (words[0], list(words[1:])) if words else ("list", [])
    commands: dict[str, Callable[[], str]] = {
        "list": lambda: _notes_list(notes, rest),
        "show": lambda: _note_show(notes, rest),
        "edit": lambda: _note_edit(notes, rest),
        "delete": lambda: _note_delete(notes, rest),
    }
    return _run("notes", NOTES_USAGE, commands, name)


def memory_command(memory: WorkspaceMemory, search: Search, words: Sequence[str]) -> str:
    """What `%agent memory WORDS` says. Raises `AgentError` with one line."""
    name, rest = (words[0], list(words[1:])) if words else ("show", [])
    commands: dict[str, Callable[[], str]] = {
        "show": lambda: _memory_show(memory, rest),
        "search": lambda: _memory_search(search, rest),
        "review": lambda: _memory_review(memory, rest),
        "confirm": lambda: _memory_confirm(memory, rest),
        "rebuild": lambda: _memory_rebuild(memory, search, rest),
        "sessions": lambda: _sessions(memory, rest),
    }
    return _run("memory", MEMORY_USAGE, commands, name)


def _run(area: str, usage: str, commands: Mapping[str, Callable[[], str]], name: str) -> str:
    if name not in commands:
        near = difflib.get_close_matches(name, commands, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Usage: %agent {usage}"
        raise ConfigError(f"%agent {area}: there is no {name!r}. {hint}")
    try:
        return commands[name]()
    except ToolError as error:
        raise AgentError(f"%agent {area} {name}: {error}") from None


def _notes_list(notes: Notes, words: list[str]) -> str:
    _takes(words, 1, NOTES_USAGE)
    found = notes.read()
    wanted = words[0].casefold() if words else None
    shown = [n for n in found.notes if wanted is None or n.category.casefold() == wanted]
    lines = [_note_line(note) for note in shown]
    if found.repair:
        lines.append(found.repair)
    return "\n".join(lines) or "No notes recorded yet."


def _note_show(notes: Notes, words: list[str]) -> str:
    number = _number(words[:1])
    _takes(words, 1, NOTES_USAGE)
    for note in notes.read().notes:
        if note.number == number:
            return f"{number}  [{shown_time(note)}] {plain(note.category)}\n{plain(note.content)}"
    raise ToolError(f"There is no note {number}.")


def _note_edit(notes: Notes, words: list[str]) -> str:
    if len(words) < 2:
        raise ConfigError(f"Usage: %agent {NOTES_USAGE}")
    return f"Changed: {_note_line(notes.edit(_number(words[:1]), ' '.join(words[1:])))}"


def _note_delete(notes: Notes, words: list[str]) -> str:
    number = _number(words[:1])
    _takes(words, 1, NOTES_USAGE)
    return f"Deleted: {_note_line(notes.delete(number))}"


def _note_line(note: Note) -> str:
    return (
        f"{note.number:>4}  [{shown_time(note)}] {one_line(note.category, 30):<16} "
        f"{one_line(note.content, 120)}"
    )


def _memory_show(memory: WorkspaceMemory, words: list[str]) -> str:
    _takes(words, 1, MEMORY_USAGE)
    if not words:
        rows = []
        for name in workspaces_in(memory.root):
            summary = memory.index(name)["summary"]
            rows.append(
                f"{one_line(name, 40):<24} {summary['total_decisions']} decisions, "
                f"{summary['total_lessons']} lessons"
            )
        return "\n".join(rows) or "There is no workspace memory yet."
    scope = scope_from(words[0])
    everything = list(memory.all(scope))
    gone = superseded(located.entry for located in everything)
    lines = []
    for located in everything:
        entry = located.entry
        replaced = f" (superseded by {gone[entry.id]})" if entry.id in gone else ""
        source = str(entry.provenance) if entry.provenance else "by hand"
        head = f"{entry.id}  {entry.kind:<8} {entry.date or '(no date)':<10}"
        lines.append(
            f"{head}  {one_line(entry.title, 100)}{replaced}\n"
            f"              {located.path}; {plain(entry.category)}; "
            f"{plain(', '.join(entry.tags))}; {plain(source)}"
        )
    return "\n".join(lines) or f"Nothing is remembered of {scope}."


def _memory_search(search: Search, words: list[str]) -> str:
    if not words:
        raise ConfigError(f"Usage: %agent {MEMORY_USAGE}")
    hits = search.find(" ".join(words), 20)
    return (
        "\n".join(
            f"{hit.kind:<8} {plain(' '.join((hit.path, hit.ref)).rstrip())}  "
            f"{one_line(hit.title, 80)}\n"
            f"         {one_line(hit.snippet, 200)}"
            for hit in hits
        )
        or "Nothing was found."
    )


def _memory_review(memory: WorkspaceMemory, words: list[str]) -> str:
    _takes(words, 1, MEMORY_USAGE)
    scopes = [scope_from(words[0])] if words else _all_scopes(memory)
    lines: list[str] = []
    for scope in scopes:
        # A file named by an entry may lie in the root, or beside the state folder that is one.
        places = (memory.root.path.parent,) if memory.root.path == memory.root.state else ()
        found = review(memory, scope, date.today(), places)
        lines += [f"{finding.kind:<13} {plain(finding.text)}" for finding in found]
    if not lines:
        return "Nothing to review."
    hint = (
        "Keep an entry with %agent memory confirm SCOPE ID; replace one by saving with supersedes."
    )
    return "\n".join([*lines, hint])


def _memory_confirm(memory: WorkspaceMemory, words: list[str]) -> str:
    if len(words) != 2:
        raise ConfigError(f"Usage: %agent {MEMORY_USAGE}")
    return f"Confirmed {words[1]} in {memory.confirm(scope_from(words[0]), words[1])}."


def _memory_rebuild(memory: WorkspaceMemory, search: Search, words: list[str]) -> str:
    _takes(words, 1, MEMORY_USAGE)
    done = memory.rebuild(words[0] if words else None)
    count = search.rebuild()
    lines = [f"Made again: {path}" for path in done] or ["There was no index to make."]
    return "\n".join([*lines, f"The search index has {count:,} documents."])


def _sessions(memory: WorkspaceMemory, words: list[str]) -> str:
    _takes(words, 0, MEMORY_USAGE)
    parts = []
    for account in accounts(memory.root, 20):
        name = f"{account.notebook or '(no notebook)'}, session {account.session}"
        summary = account.summary.replace("\n", "\n  ")
        parts.append(f"{name}, since {account.started}: {account.doing}\n  {summary}")
    return "\n".join(parts) or "No session has been recorded yet."


def _all_scopes(memory: WorkspaceMemory) -> list[Scope]:
    top = memory.root.memory()
    names = workspaces_in(memory.root)
    return [Scope(name) for name in names if (top / name).is_dir()]


def scope_from(text: str) -> Scope:
    """A scope as a person types it: `workspace/domain/repository`. Raises `ToolError`."""
    parts = text.strip("/").split("/")
    if len(parts) > 3:
        raise ToolError(f"{text!r} has too many parts. Give WORKSPACE/DOMAIN/REPOSITORY.")
    return Scope(*parts)


def _number(words: list[str]) -> int:
    try:
        return int(words[0])
    except (IndexError, ValueError):
        raise ConfigError(f"Give the number of a note. Usage: %agent {NOTES_USAGE}") from None


def _takes(words: list[str], most: int, usage: str) -> None:
    if len(words) > most:
        raise ConfigError(f"%agent: unexpected {words[most]!r}. Usage: %agent {usage}")
