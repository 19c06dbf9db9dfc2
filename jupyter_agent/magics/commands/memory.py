"""`%agent notes` and `%agent memory`: read and correct the memory."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from jupyter_agent.core.plaintext import one_line, plain
from jupyter_agent.errors import ConfigError, ToolError
from jupyter_agent.magics.parser import Command, Family, PositiveNumber, argument
from jupyter_agent.memory.across import OWN, AcrossMemory, FoundEntry
from jupyter_agent.memory.entries import superseded
from jupyter_agent.memory.notes import Note, Notes, shown_time
from jupyter_agent.memory.review import review
from jupyter_agent.memory.scope import Scope, workspaces_in
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.session.registry import KernelSessions
from jupyter_agent.session.resources import Memory
from jupyter_agent.stores.session_accounts import accounts

_HEADING = "Memory and skills"

# Notes -------------------------------------------------------------------------------------------

notes = Family(
    "notes",
    heading=_HEADING,
    default="list",
    help="the notes: list, show, edit, delete",
    examples={
        "%agent notes": "list all notes",
        "%agent notes edit 1 The readers want kilograms.": "replace the text of note 1",
        "%agent notes delete 1": "delete it",
    },
)
_NUMBER = argument(
    "number",
    metavar="N",
    type=PositiveNumber("{!r} is no number of a note"),
    help="the number of a note in the list",
    needed="give the number of a note",
)


@notes.command("list", cls=Command)
@argument("category", required=False, metavar="CATEGORY", help="only the notes of this category")
@click.pass_obj
def _list(sessions: KernelSessions, category: str | None) -> str:
    """the notes, one line each"""
    found = _notes(sessions).read()
    wanted = None if category is None else category.casefold()
    shown = [n for n in found.notes if wanted is None or n.category.casefold() == wanted]
    lines = [_note_line(note) for note in shown]
    if found.repair:
        lines.append(found.repair)
    return "\n".join(lines) or "No notes recorded yet."


@notes.command("show", cls=Command)
@_NUMBER
@click.pass_obj
def _show_note(sessions: KernelSessions, number: int) -> str:
    """one note, whole"""
    for note in _notes(sessions).read().notes:
        if note.number == number:
            return f"{number}  [{shown_time(note)}] {plain(note.category)}\n{plain(note.content)}"
    raise ToolError(f"There is no note {number}.")


@notes.command("edit", cls=Command)
@_NUMBER
@argument("text", nargs=-1, required=True, metavar="TEXT", help="the new text of the note")
@click.pass_obj
def _edit(sessions: KernelSessions, number: int, text: tuple[str, ...]) -> str:
    """replace the text of a note"""
    sessions.kernel.refuse_while_busy()
    return f"Changed: {_note_line(_notes(sessions).edit(number, ' '.join(text)))}"


@notes.command("delete", cls=Command)
@_NUMBER
@click.pass_obj
def _delete(sessions: KernelSessions, number: int) -> str:
    """delete a note"""
    sessions.kernel.refuse_while_busy()
    return f"Deleted: {_note_line(_notes(sessions).delete(number))}"


def _notes(sessions: KernelSessions) -> Notes:
    return sessions["default"].setup.preview().resources.notes


def _note_line(note: Note) -> str:
    return (
        f"{note.number:>4}  [{shown_time(note)}] {one_line(note.category, 30):<16} "
        f"{one_line(note.content, 120)}"
    )


# Workspace memory --------------------------------------------------------------------------------

memory = Family(
    "memory",
    heading=_HEADING,
    default="show",
    help="workspace memory and your own: show, search, review or rebuild it; other sessions",
    examples={
        "%agent memory": "list the workspaces that have a memory",
        "%agent memory show devtools/ci": "list what is remembered of the domain ci there",
        "%agent memory search cache tables": "find both words in memory, resources and logs",
        "%agent memory confirm devtools d-1a2b": "keep a decision that review calls old",
        "%agent memory keep devtools d-1a2b": "copy it into your own memory, for all workspaces",
        "%agent memory mine": "list what is in your own memory",
    },
)


def _scope_argument(**more: Any) -> Any:
    meaning = "WORKSPACE, WORKSPACE/DOMAIN or WORKSPACE/DOMAIN/REPOSITORY"
    return argument("scope", metavar="SCOPE", help=meaning, **more)


@memory.command("show", cls=Command)
@_scope_argument(required=False)
@click.pass_obj
def _show(sessions: KernelSessions, scope: str | None) -> str:
    """how much each workspace remembers; with SCOPE, each entry in it"""
    memory = _memory(sessions).store
    if scope is None:
        rows = []
        for name in workspaces_in(memory.root):
            summary = memory.index(name)["summary"]
            rows.append(
                f"{one_line(name, 40):<24} {summary['total_decisions']} decisions, "
                f"{summary['total_lessons']} lessons"
            )
        return "\n".join(rows) or "There is no workspace memory yet."
    place = _scope(scope)
    everything = list(memory.all(place))
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
    return "\n".join(lines) or f"Nothing is remembered of {place}."


@memory.command("search", cls=Command)
@argument("words", nargs=-1, required=True, metavar="WORDS", help="words to look for")
@click.pass_obj
def _search(sessions: KernelSessions, words: tuple[str, ...]) -> str:
    """find words in memory, your own too, and in resources, session records and run logs"""
    memory, query = _memory(sessions), " ".join(words)
    lines = [
        f"{hit.kind:<8} {plain(' '.join((hit.path, hit.ref)).rstrip())}  "
        f"{one_line(hit.title, 80)}\n"
        f"         {one_line(hit.snippet, 200)}"
        for hit in memory.search.find(query, 20)
    ]
    if memory.across is not None:
        lines += _found_across(sessions, query)
    return "\n".join(lines) or "Nothing was found."


def _found_across(sessions: KernelSessions, query: str) -> list[str]:
    """Hits in the person's own memory, and entries of different workspaces about the same."""
    if sessions.kernel.settings().settings.memory.across_workspaces == "off":
        return []
    try:
        found = _across(sessions).find(query)
    except ToolError as error:
        return [str(error)]
    groups = (*found.side_by_side, *found.others)
    own = [each for group in groups for each in group if each.kept_in == OWN]
    lines = ["Your own memory:", *map(_own_line, own)] if own else []
    for group in found.side_by_side:
        ids = ", ".join(f"{each.located.entry.id} ({_origin(each)})" for each in group)
        lines.append(f"About the same, from different workspaces: {ids}")
    return lines


@memory.command("entry", cls=Command)
@argument("entry", metavar="ID", help="the id of an entry; show, search and mine list them")
@click.pass_obj
def _entry(sessions: KernelSessions, entry: str) -> str:
    """one entry, whole, from every memory that holds it"""
    found = _across(sessions).get([entry])
    if not found:
        raise ToolError(f"There is no entry {plain(entry)}.")
    parts = []
    for each in found:
        shown = each.located.entry
        labels = f"{plain(shown.category)}; {plain(', '.join(shown.tags))}"
        asked = [f"Answers: {plain(' | '.join(shown.questions))}"] if shown.questions else []
        parts.append("\n".join([_own_line(each), labels, *asked, plain(shown.content)]))
    return "\n\n".join(parts)


@memory.command("mine", cls=Command)
@_scope_argument(required=False)
@click.pass_obj
def _mine(sessions: KernelSessions, scope: str | None) -> str:
    """your own memory, which all workspaces share: each entry and where it comes from"""
    found = _across(sessions).listed(None if scope is None else _scope(scope))
    return "\n".join(map(_own_line, found)) or "Your own memory has no entries."


@memory.command("keep", cls=Command)
@_scope_argument()
@argument("entry", metavar="ID", help="the id of an entry; show lists them")
@click.pass_obj
def _keep(sessions: KernelSessions, scope: str, entry: str) -> str:
    """copy an entry of this workspace into your own memory, with its origin"""
    sessions.kernel.refuse_while_busy()
    saved = _across(sessions, saves=True).copy(_scope(scope), entry)
    if saved.existing is not None:
        known = saved.existing.entry
        return f"Your own memory has it already: {known.id} {one_line(known.title, 100)}"
    return f"Kept as {saved.entry.id} in {saved.path}."


@memory.command("forget", cls=Command)
@argument("entry", metavar="ID", help="the id of an entry; mine lists them")
@click.pass_obj
def _forget(sessions: KernelSessions, entry: str) -> str:
    """delete an entry from your own memory; those of workspaces stay"""
    sessions.kernel.refuse_while_busy()
    if not (gone := _across(sessions).own.forget(entry)):
        raise ToolError(f"Your own memory has no entry {plain(entry)}.")
    return "\n".join(f"Deleted: {one_line(each.entry.title, 100)} ({each.path})" for each in gone)


@memory.command("review", cls=Command)
@_scope_argument(required=False)
@click.pass_obj
def _review(sessions: KernelSessions, scope: str | None) -> str:
    """list entries that are old, that name missing files, or that contradict others"""
    memory = _memory(sessions).store
    scopes = [_scope(scope)] if scope is not None else _all_scopes(memory)
    lines: list[str] = []
    for each in scopes:
        # A file named by an entry may lie in the root, or beside the state folder that is one.
        root = memory.root
        places = (root.path.parent,) if root.path == root.state else ()
        found = review(memory, each, date.today(), places)
        lines += [f"{finding.kind:<13} {plain(finding.text)}" for finding in found]
    if not lines:
        return "Nothing to review."
    hint = (
        "Keep an entry with %agent memory confirm SCOPE ID; replace one by saving with supersedes."
    )
    return "\n".join([*lines, hint])


@memory.command("confirm", cls=Command)
@_scope_argument()
@argument("entry", metavar="ID", help="the id of an entry; show and review list them")
@click.pass_obj
def _confirm(sessions: KernelSessions, scope: str, entry: str) -> str:
    """say that an entry still holds"""
    sessions.kernel.refuse_while_busy()
    memory = _memory(sessions).store
    return f"Confirmed {entry} in {memory.confirm(_scope(scope), entry)}."


@memory.command("rebuild", cls=Command)
@argument(
    "workspace", required=False, metavar="WORKSPACE", help="build only the index of this workspace"
)
@click.pass_obj
def _rebuild(sessions: KernelSessions, workspace: str | None) -> str:
    """build the indexes again from the files"""
    sessions.kernel.refuse_while_busy()
    memory = _memory(sessions)
    done = memory.store.rebuild(workspace)
    count = memory.search.rebuild()
    lines = [f"Made again: {path}" for path in done] or ["There was no index to make."]
    return "\n".join([*lines, f"The search index has {count:,} documents."])


@memory.command("sessions", cls=Command)
@click.pass_obj
def _sessions(sessions: KernelSessions) -> str:
    """what the sessions that share this memory do now, and did before"""
    parts = []
    for account in accounts(_memory(sessions).store.root, 20):
        name = f"{account.notebook or '(no notebook)'}, session {account.session}"
        summary = account.summary.replace("\n", "\n  ")
        parts.append(f"{name}, since {account.started}: {account.doing}\n  {summary}")
    return "\n".join(parts) or "No session has been recorded yet."


def _memory(sessions: KernelSessions) -> Memory:
    resources = sessions["default"].setup.preview().resources
    if resources.memory is None:
        raise ConfigError(resources.problem)
    return resources.memory


def _across(sessions: KernelSessions, saves: bool = False) -> AcrossMemory:
    """The memory across workspaces. Raises `ConfigError` if the setting, as it is now, forbids it.

    Args:
        sessions: The kernel's sessions.
        saves: True if something is about to leave this workspace.
    """
    across = _memory(sessions).across
    level = sessions.kernel.settings().settings.memory.across_workspaces
    if level == "off":
        raise ConfigError("Your own memory is not used here: memory.across_workspaces is off.")
    if across is None:
        raise ConfigError(
            "memory.across_workspaces was off when this conversation began. Begin anew: "
            "%agent reset"
        )
    if saves and level != "on":
        raise ConfigError("Nothing leaves this workspace: memory.across_workspaces is read.")
    return across


def _own_line(each: FoundEntry) -> str:
    located = each.located
    source = str(located.entry.provenance) if located.entry.provenance else "by hand"
    head = f"{located.entry.id}  {located.entry.kind:<8} {located.entry.date or '(no date)':<10}"
    return (
        f"{head}  {one_line(located.entry.title, 100)}\n"
        f"              {_kept_in(each)}, {plain(located.scope)}; {plain(source)}"
    )


def _origin(each: FoundEntry) -> str:
    return plain(f"{each.workspace or 'by hand'}, {_kept_in(each)}")


def _kept_in(each: FoundEntry) -> str:
    return "your own memory" if each.kept_in == OWN else plain(each.kept_in)


def _all_scopes(memory: WorkspaceMemory) -> list[Scope]:
    top = memory.root.memory()
    names = workspaces_in(memory.root)
    return [Scope(name) for name in names if (top / name).is_dir()]


def _scope(text: str) -> Scope:
    """A scope as a person types it: `workspace/domain/repository`. Raises `ToolError`."""
    parts = text.strip("/").split("/")
    if len(parts) > 3:
        raise ToolError(f"{text!r} has too many parts. Give WORKSPACE/DOMAIN/REPOSITORY.")
    return Scope(*parts)
