"""Stores workspace memory: reads and saves entries, and rebuilds the index."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.quoting import secret_in
from jupyter_agent.errors import ToolError
from jupyter_agent.files import shared
from jupyter_agent.memory.entries import (
    FILES,
    Kind,
    MemoryEntry,
    Parsed,
    Provenance,
    confirmation,
    entry_id,
    parse,
    source_of,
    superseded,
    torn_from,
    without,
    written,
)
from jupyter_agent.memory.index import INDEX, descriptions_in, index_of, rendered
from jupyter_agent.memory.scope import MemoryRoot, Scope, folders_in, workspaces_in
from jupyter_agent.memory.similar import Likeness, likeness

TITLE_LIMIT = 200
CONTENT_LIMIT = 20_000
"""Characters. An entry is the gist; the whole belongs into a file that the entry names."""
TAGS_LIMIT = 20
QUESTIONS_LIMIT = 5
QUESTION_LIMIT = 150
NAME_LIMIT = 60
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Located:
    """An entry with its place. `path` is in the form of `_meta.document_path`."""

    entry: MemoryEntry
    path: str
    scope: str


@dataclass(frozen=True, slots=True)
class Saved:
    """The outcome of a save. With an `existing` entry nothing was written.

    `likeness` is the similarity of the existing one; `aside` is the name of the file with a torn
    end that was set aside.
    """

    path: str
    entry: MemoryEntry
    existing: Located | None = None
    likeness: Likeness | None = None
    aside: str = ""


class WorkspaceMemory:
    """The decisions and lessons below one memory root.

    Args:
        root: The memory root.
        provenance: Returns the origin of a new entry.
        today: Returns the date of a new entry, as YYYY-MM-DD.
    """

    def __init__(
        self,
        root: MemoryRoot,
        provenance: Callable[[], Provenance] = Provenance,
        today: Callable[[], str] = shared.today,
    ) -> None:
        self.root = root
        self._provenance = provenance
        self._today = today
        self._cache: dict[Path, tuple[tuple[int, int, int], Parsed]] = {}
        self._reading = threading.RLock()

    def save(
        self,
        scope: Scope,
        kind: Kind,
        title: str,
        content: str,
        category: str = "",
        tags: Sequence[str] = (),
        supersedes: str = "",
        distinct: bool = False,
        questions: Sequence[str] = (),
    ) -> Saved:
        """Append an entry and update the index.

        An entry equal to an existing one is not written; nor is a nearly equal one, unless it is
        `distinct`, supersedes that one, or comes from another workspace.

        Args:
            scope: The workspace, or the domain in it, that the entry is about.
            kind: Decision or lesson.
            title: A few words, in one line.
            content: The text.
            category: Its category; empty for none.
            tags: Its tags.
            supersedes: The id of the entry that it replaces; empty for none.
            distinct: True saves it beside a nearly equal one.
            questions: What it answers, in other words: for the search alone.

        Raises:
            ToolError: A value cannot be stored, holds a secret, or supersedes an unknown entry;
                or the file cannot be written. Nothing was changed.
        """
        draft = _draft(kind, title, content, category, tags, questions)
        return self._save(scope, draft, self._provenance(), supersedes, distinct)

    def take_in(self, scope: Scope, entry: MemoryEntry, workspace: str) -> Saved:
        """Append a copy of another memory's entry, with its date and origin, unless it is there.

        Args:
            scope: Where to keep it.
            entry: The entry.
            workspace: The workspace that it comes from.

        Raises:
            ToolError: As `save`.
        """
        draft = _draft(
            entry.kind, entry.title, entry.content, entry.category, entry.tags, entry.questions
        )
        origin = entry.provenance or Provenance("by hand")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        source = replace(origin, workspace=workspace, supersedes="", time=origin.time or now)
        return self._save(scope, replace(draft, date=entry.date), source, "", False)

    def forget(self, id: str) -> list[Located]:
        """Delete the entries with an id from their files. Returns them; empty if there are none.

        Raises:
            ToolError: A file cannot be written.
        """
        gone: list[Located] = []
        for name in workspaces_in(self.root):
            scope = Scope(name)
            if not any(located.entry.id == id for located in self.all(scope)):
                continue
            with self._writing(name):
                for located in list(self.all(scope)):
                    if located.entry.id == id:
                        place = Scope(*located.scope.split("/"))
                        self._remove(
                            self.root.inside(*self._parts(place, located.entry.kind)), located
                        )
                        gone.append(located)
                self.write_index(name)
        return gone

    def _remove(self, path: Path, located: Located) -> None:
        entry = located.entry
        before = shared.read_regular(path) or b""
        try:
            shared.replace(path, without(entry.kind, before, entry.id, located.scope))
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"{located.path} cannot be written: {reason}.") from None

    def _save(
        self,
        scope: Scope,
        draft: MemoryEntry,
        origin: Provenance,
        supersedes: str,
        distinct: bool,
    ) -> Saved:
        kind = draft.kind
        path = self.root.inside(*self._parts(scope, kind))
        place = str(Scope(*scope.parts[:2]))
        with self._writing(scope.workspace):
            memories = self.memories(scope.workspace)
            if supersedes:
                self._check_superseded(supersedes, memories, scope.workspace, origin.workspace)
            elif found := self._like(draft, scope, origin.workspace, distinct):
                return Saved(found[0].path, draft, *found)
            # The id covers the superseded one, so that a return to an old decision is new.
            new_id = entry_id(kind, f"{place}{supersedes}", draft.title, draft.content)
            if supersedes and any(located.entry.id == new_id for located in self.all(scope)):
                raise ToolError(
                    f"{supersedes} is superseded by this very entry, {new_id}, already."
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            source = source_of(
                new_id, replace(origin, time=origin.time or now, supersedes=supersedes)
            )
            entry = replace(draft, id=new_id, date=draft.date or self._today(), source=source)
            aside = self._append(path, lambda before: written(entry, before))
            self.write_index(scope.workspace)
        return Saved(self.root.shows(path), entry, aside=aside)

    def confirm(self, scope: Scope, id: str) -> str:
        """Note that an entry still holds. Returns the file's shown path.

        Raises:
            ToolError: There is no such entry, or the file cannot be written.
        """
        for located in self.all(scope):
            if located.entry.id == id:
                path = self.root.inside(
                    *self._parts(Scope(*located.scope.split("/")), located.entry.kind)
                )
                with self._writing(scope.workspace):
                    self._append(path, lambda before: confirmation(id, self._today(), before))
                return located.path
        raise ToolError(f"There is no entry {id} in {scope}.")

    def all(self, scope: Scope, kind: Kind | None = None) -> Iterator[Located]:
        """The entries in a scope; those of a workspace with all of its domains'."""
        for domain in self._domains(scope):
            place = Scope(scope.workspace, domain or None)
            for each in FILES if kind is None else (kind,):
                path = self.root.inside(*self._parts(place, each))
                shown = self.root.shows(path)
                name = str(place)
                for entry in self._read(path, each, name).entries:
                    yield Located(entry, shown, name)

    def parsed(self, scope: Scope, kind: Kind) -> Iterator[tuple[str, Parsed]]:
        """Each file of a kind in a scope, with its shown path."""
        for domain in self._domains(scope):
            place = Scope(scope.workspace, domain or None)
            path = self.root.inside(*self._parts(place, kind))
            if path.exists():
                yield self.root.shows(path), self._read(path, kind, str(place))

    def memories(self, workspace: str) -> dict[str, dict[Kind, Parsed]]:
        """All entries of a workspace, by domain; the workspace itself has the empty name."""
        found: dict[str, dict[Kind, Parsed]] = {}
        for domain in self._domains(Scope(workspace)):
            place = Scope(workspace, domain or None)
            kinds: dict[Kind, Parsed] = {}
            for kind in FILES:
                path = self.root.inside(*self._parts(place, kind))
                if path.exists():
                    kinds[kind] = self._read(path, kind, str(place))
            if kinds:
                found[domain] = kinds
        return found

    def index(self, workspace: str) -> dict[str, Any]:
        """The index from the Markdown, independent of `_index.yaml`."""
        old = shared.read_regular(self._index_path(workspace))
        descriptions = descriptions_in(old) if old else None
        return index_of(workspace, self.memories(workspace), descriptions)

    def fresh_index(self, workspace: str) -> dict[str, Any]:
        """The index; also updates `_index.yaml` if its lock is free.

        A person's edit or a killed writer leaves the file behind the Markdown.
        """
        path = self._index_path(workspace)
        index = self.index(workspace)
        if path.parent.is_dir() and rendered(index) != shared.read_regular(path):
            with suppress(ToolError), shared.locked(path, self.root.state, 0.2):
                self.write_index(workspace)
        return index

    def rebuild(self, workspace: str | None = None) -> list[str]:
        """Rebuild the index of a workspace, or of each one. Returns the displayed paths.

        Raises:
            ToolError: An index cannot be written.
        """
        names = workspaces_in(self.root) if workspace is None else [Scope(workspace).workspace]
        done = []
        for name in names:
            if self.root.memory(Scope(name)).is_dir():
                with self._writing(name):
                    self.write_index(name)
                done.append(self.root.shows(self._index_path(name)))
        return done

    def write_index(self, workspace: str) -> None:
        """Write `_index.yaml`; keeps an unparsable one beside it. Needs the lock."""
        path = self._index_path(workspace)
        old = shared.read_regular(path)
        try:
            if old and descriptions_in(old) is None:
                shared.set_aside(path)
            new = rendered(self.index(workspace))
            if new != old:
                shared.replace(path, new, durable=False)
        except OSError as error:
            raise ToolError(f"{INDEX} cannot be written: {error.strerror or error}.") from None

    def _index_path(self, workspace: str) -> Path:
        return self.root.inside("user", "memory", "workspaces", workspace, INDEX)

    def _parts(self, scope: Scope, kind: Kind) -> tuple[str, ...]:
        return ("user", "memory", "workspaces", *scope.parts[:2], FILES[kind])

    def _domains(self, scope: Scope) -> list[str]:
        if scope.domain is not None:
            return [scope.domain]
        return ["", *folders_in(self.root.memory(scope))]

    def _writing(self, workspace: str) -> Any:
        """One lock for a workspace: its index is made from all of its files."""
        self.root.prepare(self._index_path(workspace).parent)
        return shared.locked(self._index_path(workspace), self.root.state)

    def _read(self, path: Path, kind: Kind, scope: str) -> Parsed:
        """The parsed content of a file, cached until the file changes."""
        with self._reading:
            try:
                found = path.stat()
            except OSError:
                return Parsed()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            cached = self._cache.get(path)
            if cached is None or cached[0] != stamp:
                data = shared.read_regular(path) or b""
                self._cache[path] = cached = (stamp, parse(kind, data, scope))
            return cached[1]

    def _append(self, path: Path, render: Callable[[bytes], bytes]) -> str:
        """Append to a file after setting a torn end aside. Returns the place of that end."""
        self.root.prepare(path.parent)
        before = shared.read_regular(path) or b""
        _check_appendable(before, path)
        aside = ""
        try:
            if (torn := torn_from(before)) is not None:
                aside = self.root.shows(shared.set_aside(path, before[torn:]))
                before = before[:torn]
                shared.replace(path, before)
            shared.append(path, render(before))
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"{self.root.shows(path)} cannot be written: {reason}.") from None
        return aside

    def _like(
        self, draft: MemoryEntry, scope: Scope, workspace: str, distinct: bool
    ) -> tuple[Located, Likeness] | None:
        """The first equal entry; else a nearly equal one that is not superseded; else None.

        Searches the draft's own scope, and the entries of the whole workspace. What another
        workspace than the named one says in nearly the same words stays beside it.
        """
        kind, wanted = draft.kind, draft.fingerprint()
        near: Located | None = None
        for domain in dict.fromkeys((scope.domain or "", "")):
            place = Scope(scope.workspace, domain or None)
            path = self.root.inside(*self._parts(place, kind))
            entries = self._read(path, kind, str(place)).entries
            gone = superseded(entries)
            for entry in entries:
                like = likeness(wanted, entry.fingerprint())
                if like == "same" or (like and entry.id not in gone):
                    located = Located(entry, self.root.shows(path), str(place))
                    if like == "same":
                        return located, like
                    if (came := entry.provenance) is None or came.workspace in ("", workspace):
                        near = near or located
        return (near, "near") if near and not distinct else None

    def _check_superseded(
        self, id: str, memories: dict[str, dict[Kind, Parsed]], workspace: str, origin: str
    ) -> None:
        entries = [e for kinds in memories.values() for p in kinds.values() for e in p.entries]
        old = next((entry for entry in entries if entry.id == id), None)
        if old is None:
            raise ToolError(f"supersedes: there is no entry {id!r} in {workspace}.")
        if (came := old.provenance) and came.workspace not in ("", origin):
            raise ToolError(
                f"supersedes: {id} was saved from the workspace {came.workspace}, where it may "
                "hold. Save yours beside it, without supersedes."
            )
        if newer := superseded(entries).get(id):
            raise ToolError(f"supersedes: {id} is superseded by {newer} already. Name that one.")


def _draft(
    kind: Kind,
    title: str,
    content: str,
    category: str,
    tags: Sequence[str],
    questions: Sequence[str],
) -> MemoryEntry:
    """The entry to store, without id and date."""
    title = _SPACE.sub(" ", plain(title)).strip()
    if not title:
        raise ToolError("The title is empty. Say in a few words what it is about.")
    if len(title) > TITLE_LIMIT:
        raise ToolError(
            f"The title is too long ({len(title):,} characters, at most {TITLE_LIMIT})."
        )
    if len(content) > CONTENT_LIMIT:
        raise ToolError(
            f"The content is too long ({len(content):,} characters, at most {CONTENT_LIMIT:,}). "
            "Save the gist, and name the file that holds the whole."
        )
    content = "\n".join(line.rstrip() for line in plain(content).strip().split("\n"))
    if not content:
        raise ToolError("The content is empty. Say what happened, why, and what to do.")
    names = [_name("category", category)] if category.strip() else [""]
    labels = [_name("tag", part) for tag in tags for part in tag.split(",") if part.strip()]
    if len(labels) > TAGS_LIMIT:
        raise ToolError(f"There are too many tags ({len(labels)}, at most {TAGS_LIMIT}).")
    asked = tuple(dict.fromkeys(filter(None, map(_question, questions))))
    if len(asked) > QUESTIONS_LIMIT:
        raise ToolError(f"There are too many questions ({len(asked)}, at most {QUESTIONS_LIMIT}).")
    for text in (title, content, names[0], *labels, *asked):
        if kind_of_secret := secret_in(text):
            raise ToolError(
                f"This holds what looks like {kind_of_secret}, which memory must not keep. "
                "Leave it out and say where it is kept instead. Nothing was saved."
            )
    return MemoryEntry(
        kind, title, content, names[0], tuple(dict.fromkeys(labels)), questions=asked
    )


def _question(text: str) -> str:
    """A question as one line without the sign that separates them."""
    text = _SPACE.sub(" ", plain(text).replace("|", "/")).strip()
    if len(text) > QUESTION_LIMIT:
        raise ToolError(
            f"A question is too long ({len(text)} characters, at most {QUESTION_LIMIT})."
        )
    return text


def _name(what: str, text: str) -> str:
    name = _SPACE.sub(" ", plain(text)).strip()
    if len(name) > NAME_LIMIT:
        raise ToolError(f"A {what} is too long ({len(name)} characters, at most {NAME_LIMIT}).")
    return name


def _check_appendable(data: bytes, path: Path) -> None:
    """Raise `ToolError` if an appended entry would not be read as one."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(f"{path.name} is UTF-16. Save it as UTF-8 first; nothing was written.")
    if b"<<<<<<< " in data or b">>>>>>> " in data:
        parsed = parse("decision", data)
        if parsed.conflicts:
            raise ToolError(
                f"{path.name} holds git conflict markers (line {parsed.conflicts[0]}). "
                "They have to be resolved first; nothing was saved."
            )
