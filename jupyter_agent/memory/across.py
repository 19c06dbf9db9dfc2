"""Memory across workspaces: the person's own memory beside those of the workspaces.

What several workspaces say of one thing stands side by side, each with its origin. Nothing is
merged, and nothing judges which of them is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.core.plaintext import shorten
from jupyter_agent.core.quoting import quoted_yaml
from jupyter_agent.errors import ToolError
from jupyter_agent.memory.entries import Kind, MemoryEntry, superseded
from jupyter_agent.memory.scope import PERSON, Scope, workspaces_in
from jupyter_agent.memory.search import MemorySearch, holds, identifiers
from jupyter_agent.memory.similar import fingerprint, same_subject
from jupyter_agent.memory.store import Located, Saved, WorkspaceMemory

OWN = "the person's own memory"
ENTRY_KINDS: tuple[Kind, ...] = ("decision", "lesson")
MOST_IDS = 20
_ENTRY_LIMIT = 8_000
"""Characters of one whole entry. Several share twice as many, each `_SMALLEST_SHARE` at least."""
_SMALLEST_SHARE = 2_000
_LOOKED_AT = 60
"""Hits among which entries about the same thing are looked for."""


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry with the memory that it was found in, and the workspace that it comes from.

    `kept_in` is `OWN`, or the memory root in words. `snippet` is empty for a whole entry.
    """

    located: Located
    kept_in: str
    workspace: str
    snippet: str = ""

    @property
    def origin(self) -> tuple[str, str]:
        """Where it comes from: two entries with different origins never replace each other."""
        return self.kept_in, self.workspace


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a search.

    Attributes:
        side_by_side: Entries about one thing from different workspaces, in groups.
        others: All other entries, by their origin.
    """

    side_by_side: tuple[tuple[FoundEntry, ...], ...]
    others: tuple[tuple[FoundEntry, ...], ...]

    @property
    def is_empty(self) -> bool:
        return not self.side_by_side and not self.others


class AcrossMemory:
    """The person's own memory, and those of all known workspaces.

    Args:
        own: The store of the person's own memory.
        workspaces: The stores of the other memory roots, this workspace's first.
        here: The search over the roots of the workspaces.
        mine: The search over the person's own memory. Its index lies there, so that nothing of
            it is written into a workspace.
        workspace: The name of this workspace, for the origin of what is copied.
        may_save: False if this workspace lets nothing out.
    """

    def __init__(
        self,
        own: WorkspaceMemory,
        workspaces: Sequence[WorkspaceMemory],
        here: MemorySearch,
        mine: MemorySearch,
        workspace: str,
        may_save: bool = True,
    ) -> None:
        self.own = own
        self.may_save = may_save
        self._workspaces = tuple(workspaces)
        self._here = here
        self._mine = mine
        self._workspace = workspace

    def find(self, query: str, limit: int = 10) -> Findings:
        """The entries that match, and those of other workspaces about the same.

        Raises:
            ToolError: The query has no words, or the person's own memory cannot be used.
            AgentError: An index cannot be used.
        """
        seen = self._ranked(query)
        chosen = seen[:limit]
        groups = _groups(chosen, seen)
        grouped = {id(each) for group in groups for each in group}
        by_origin: dict[tuple[str, str], list[FoundEntry]] = {}
        for each in chosen:
            if id(each) not in grouped:
                by_origin.setdefault(each.origin, []).append(each)
        return Findings(tuple(groups), tuple(map(tuple, by_origin.values())))

    def get(self, ids: Sequence[str], scope: Scope | None = None) -> list[FoundEntry]:
        """Whole entries by their ids, in that order; each from every memory that holds it.

        Args:
            ids: The ids; unknown ones are left out.
            scope: The only scope to look in; None looks in all.
        """
        found: dict[str, list[FoundEntry]] = {}
        for memory in self._all():
            scopes = [scope] if scope else map(Scope, workspaces_in(memory.root))
            for place in scopes:
                for located in memory.all(place):
                    found.setdefault(located.entry.id, []).append(
                        self._found_entry(memory, located)
                    )
        return [each for wanted in dict.fromkeys(ids) for each in found.get(wanted, ())]

    def listed(self, scope: Scope | None = None) -> list[FoundEntry]:
        """All entries of the person's own memory, or those in a scope."""
        scopes = [scope] if scope else map(Scope, workspaces_in(self.own.root))
        return [
            self._found_entry(self.own, each) for place in scopes for each in self.own.all(place)
        ]

    def copy(self, scope: Scope, entry_id: str) -> Saved:
        """Copy an entry of this workspace's memory into the person's own, under the same scope.

        Raises:
            ToolError: There is no such entry, this workspace lets nothing out, or it cannot be
                saved.
        """
        self.check_saving()
        for located in self._workspaces[0].all(scope):
            if located.entry.id == entry_id:
                place = Scope(*located.scope.split("/"))
                return self.own.take_in(place, located.entry, self._workspace)
        raise ToolError(f"There is no entry {entry_id} in {scope}.")

    def check_saving(self) -> None:
        """Raise `ToolError` if this workspace lets nothing out."""
        if not self.may_save:
            raise ToolError("Nothing is saved from here: memory.across_workspaces is read.")

    def _all(self) -> tuple[WorkspaceMemory, ...]:
        return (self.own, *self._workspaces)

    def _ranked(self, query: str) -> list[FoundEntry]:
        """The entries that match, without superseded ones.

        Two indexes rank apart, so their hits take turns, the person's own first; but what holds
        the identifiers of the query comes before what does not.
        """
        names = identifiers(query)
        found: list[tuple[tuple[int, int, int], FoundEntry]] = []
        self.own.root.check()
        searches = [self._mine] if self.own.root.path.exists() else []  # looking makes no folder
        for order, search in enumerate((*searches, self._here)):
            holding = _Holding(self._all())
            for place, hit in enumerate(search.find(query, _LOOKED_AT, ENTRY_KINDS)):
                for memory, located in holding.of(hit.file, hit.ref):
                    text = _searched(located.entry)
                    named = sum(holds(name, text) for name in names)
                    each = self._found_entry(memory, located, hit.snippet)
                    found.append(((-named, place, order), each))
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]

    def _found_entry(
        self, memory: WorkspaceMemory, located: Located, snippet: str = ""
    ) -> FoundEntry:
        if memory is self.own:
            came = located.entry.provenance
            return FoundEntry(located, OWN, came.workspace if came else "", snippet)
        root = memory.root
        kept_in = "this workspace" if memory is self._workspaces[0] else root.outside or root.shown
        return FoundEntry(located, kept_in, located.scope.split("/")[0], snippet)


class _Holding:
    """The entries of several memories that are not superseded, by file and id."""

    def __init__(self, memories: Iterable[WorkspaceMemory]) -> None:
        self._memories = tuple(memories)
        self._entries: dict[tuple[int, str], dict[str, Located]] = {}

    def of(self, file: str, entry_id: str) -> list[tuple[WorkspaceMemory, Located]]:
        """The entry of an id in a file; empty if it is superseded or gone."""
        for number, memory in enumerate(self._memories):
            top = memory.root.memory()
            if not Path(file).is_relative_to(top):
                continue
            parts = Path(file).relative_to(top).parts[:-1]
            key = number, parts[0]
            if key not in self._entries:
                everything = list(memory.all(Scope(parts[0])))
                gone = superseded(located.entry for located in everything)
                self._entries[key] = {
                    f"{located.scope}\n{located.entry.id}": located
                    for located in everything
                    if located.entry.id not in gone
                }
            located = self._entries[key].get(f"{'/'.join(parts)}\n{entry_id}")
            return [(memory, located)] if located else []
        return []


def _searched(entry: MemoryEntry) -> str:
    return "\n".join((entry.title, entry.content, *entry.tags, *entry.questions))


def _groups(
    chosen: Sequence[FoundEntry], seen: Sequence[FoundEntry]
) -> list[tuple[FoundEntry, ...]]:
    """Groups of entries about the same thing from different workspaces, in the order found."""
    groups: list[tuple[FoundEntry, ...]] = []
    used: set[int] = set()
    for one in chosen:
        if id(one) in used:
            continue
        same = [
            other
            for other in seen
            if id(other) not in used and other is not one and _is_same(one, other)
        ]
        if any(other.origin != one.origin for other in same):
            groups.append((one, *same))
            used.update(map(id, groups[-1]))
    return groups


def _is_same(one: FoundEntry, other: FoundEntry) -> bool:
    first, second = one.located.entry, other.located.entry
    return same_subject(fingerprint(first.title), fingerprint(second.title)) or same_subject(
        first.fingerprint(), second.fingerprint()
    )


def findings_text(found: Findings) -> str:
    """The findings for the model: YAML between the delimiters of stored data."""
    data: dict[str, Any] = {}
    if found.side_by_side:
        data["side_by_side"] = [
            {
                "note": "from different workspaces, about the same; none of them outranks another",
                "entries": [{**_origin(each), **_row(each)} for each in group],
            }
            for group in found.side_by_side
        ]
    if found.others:
        data["results"] = [
            {**_origin(group[0]), "entries": [_row(each) for each in group]}
            for group in found.others
        ]
    return quoted_yaml(data, "memory across workspaces")


def entries_text(found: Sequence[FoundEntry]) -> str:
    """Whole entries for the model, within a budget: YAML between the delimiters of stored data."""
    share = max(_SMALLEST_SHARE, 2 * _ENTRY_LIMIT // max(1, len(found)))
    rows = []
    for each in found:
        entry = each.located.entry
        content = shorten(entry.content, min(share, _ENTRY_LIMIT), "the entry is longer")
        labels = {"category": entry.category, "tags": list(entry.tags)}
        rows.append({**_origin(each), **_row(each), **labels, "content": content})
    return quoted_yaml({"entries": rows}, "memory across workspaces")


def _origin(each: FoundEntry) -> dict[str, str]:
    return {"workspace": each.workspace or PERSON, "kept_in": each.kept_in}


def _row(each: FoundEntry) -> dict[str, Any]:
    located = each.located
    entry = located.entry
    meta = {"document_id": entry.id, "scope": located.scope}
    if each.kept_in != OWN:
        meta["document_path"] = located.path
    meta["saved_by"] = str(entry.provenance or "written by hand") or "unknown"
    return {
        "kind": entry.kind,
        "title": entry.title,
        **({"date": entry.date} if entry.date else {}),
        **({"snippet": each.snippet} if each.snippet else {}),
        "_meta": meta,
    }
