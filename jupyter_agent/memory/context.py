"""`workspace_get_context`: the memory of a scope as quoted YAML, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_agent.core.plaintext import shorten
from jupyter_agent.core.quoting import quoted_yaml
from jupyter_agent.errors import ToolError
from jupyter_agent.files.shared import read_regular
from jupyter_agent.memory.entries import Kind, superseded
from jupyter_agent.memory.scope import RESOURCES, Scope, workspaces_in
from jupyter_agent.memory.sources import (
    OVERVIEW,
    STATUSES,
    Document,
    Documents,
    body_of,
    files_in,
    overviews,
)
from jupyter_agent.memory.store import Located, WorkspaceMemory

Topic = Literal["plans", "features", "architecture", "overview", "decisions", "lessons"]
Status = Literal["new", "in_progress", "partial", "done", "abandoned"]
BUDGET = 32_000
"""Characters of one answer, about 8,000 tokens."""
_TREE_LINES = 100
_TREE_DEPTH = 2
_ENTRY_LIMIT = 4_000
_TAGS_SHOWN = 200
_WARNINGS = 10
_FOLDERS: dict[Topic, str] = {
    "plans": "_plans",
    "features": "_features",
    "architecture": "_architecture",
}
_KINDS: dict[Topic, Kind] = {"decisions": "decision", "lessons": "lesson"}
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters for the topics. An empty one matches everything; one of several values suffices."""

    status: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    category: str = ""

    def takes(self, tags: Iterable[str]) -> bool:
        wanted = {tag.strip().casefold() for tag in self.tags}
        return not wanted or any(tag.casefold() in wanted for tag in tags)


class Contexts:
    """Answers `workspace_get_context` over one memory."""

    def __init__(self, memory: WorkspaceMemory) -> None:
        self.memory = memory
        self._documents = Documents()

    def text(
        self,
        scope: Scope,
        topics: Sequence[Topic] = (),
        include_defaults: bool = True,
        filters: Filters | None = None,
        budget: int = BUDGET,
    ) -> str:
        """The text for the model: YAML between the delimiters of stored data.

        Args:
            scope: The part of the memory.
            topics: The topics besides the defaults.
            include_defaults: True includes the folders and the overviews' T0.
            filters: The filters for the topics.
            budget: The approximate characters. Rows beyond it are counted under `omitted`.

        Raises:
            ToolError: The scope leads out of the memory root.
        """
        answer = _Answer(self, scope, filters or Filters(), budget)
        return quoted_yaml(answer.data(topics, include_defaults), "workspace memory")

    def head(self, path: Path) -> Document:
        return self._documents.head(path)


class _Answer:
    """The state of one answer."""

    def __init__(self, contexts: Contexts, scope: Scope, filters: Filters, budget: int) -> None:
        self._contexts = contexts
        self._memory = contexts.memory
        self._root = contexts.memory.root
        self._scope = scope
        self._filters = filters
        self._left = budget
        self._omitted: dict[str, str] = {}
        self._warnings: list[str] = []

    def data(self, topics: Sequence[Topic], include_defaults: bool) -> dict[str, Any]:
        self._check_known()
        defaults = self._defaults(include_defaults)
        wanted = list(dict.fromkeys(topics))
        answer: dict[str, Any] = {"defaults": defaults}
        self._left -= _size(defaults)
        for position, topic in enumerate(wanted):
            # The next topics get the unused share of this one.
            share = max(self._left, 2_000) // (len(wanted) - position)
            answer[topic] = self._topic(topic, share)
            self._left -= _size(answer[topic])
        if self._omitted:
            answer["omitted"] = self._omitted
        if self._warnings:
            warnings = list(dict.fromkeys(self._warnings))
            more = len(warnings) - _WARNINGS
            rest = [f"{more} more warnings"] if more > 0 else []
            answer["warnings"] = warnings[:_WARNINGS] + rest
        return answer

    def _check_known(self) -> None:
        resources = self._root.resources(self._scope)
        if resources.is_dir() or self._root.memory(self._scope).is_dir():
            return
        workspaces = ", ".join(workspaces_in(self._root)) or "none"
        self._warnings.append(
            f"Nothing is known of {self._scope} yet. Known workspaces: {workspaces}."
        )

    def _defaults(self, whole: bool) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        if whole:
            defaults["folder_structure"] = self._tree()
            rows = [
                {"scope": _scope_of(path, self._root.path), **self._t0(path, "overview")}
                for path in overviews(self._root, self._scope)
            ]
            defaults["overviews_t0"] = self._fitting("overviews_t0", rows, self._left // 3)
            if self._root.outside:
                # The paths start there, and no file tool reaches them.
                defaults["memory_root"] = self._root.outside
        index = self._memory.fresh_index(self._scope.workspace)
        if len(index["tags"]) > _TAGS_SHOWN:
            rarest = len(index["tags"]) - _TAGS_SHOWN
            index["tags"] = sorted(index["tags"], key=lambda row: -row["count"])[:_TAGS_SHOWN]
            self._omitted["tags"] = f"{rarest} omitted, the rarest"
        index["categories"] = index["categories"][:_TAGS_SHOWN]
        updated = index["last_updated"]
        index["last_updated"] = updated.isoformat() if updated else None
        defaults["memory_metadata"] = index
        return defaults

    def _topic(self, topic: Topic, share: int) -> Any:
        if topic == "overview":
            return self._overview(share)
        if topic in _KINDS:
            return self._entries(topic, _KINDS[topic], share)
        rows = (
            self._t0(path, topic) for path in files_in(self._root, self._scope, _FOLDERS[topic])
        )
        wanted = [row for row in rows if self._filters.takes(row.get("tags", ()))]
        if topic == "plans" and self._filters.status:
            wanted = [row for row in wanted if row.get("status") in self._filters.status]
        return self._fitting(topic, wanted, share)

    def _overview(self, share: int) -> _Row | None:
        path = self._root.inside(*RESOURCES.split("/"), *self._scope.parts, OVERVIEW)
        try:
            data = read_regular(path)
        except ToolError as error:
            self._warnings.append(f"{self._root.shows(path)}: {error}")
            return None
        if data is None:
            self._warnings.append(f"There is no {self._root.shows(path)}.")
            return None
        text = data.decode("utf-8-sig", "replace")
        row = self._t0(path, "overview")
        meta = row.pop("_meta")
        content = shorten(
            body_of(text), max(share, 2_000), f"all of it in {self._root.shows(path)}"
        )
        return {"scope": str(self._scope), **row, "content": content, "_meta": meta}

    def _entries(self, topic: Topic, kind: Kind, share: int) -> list[_Row]:
        memory, scope = self._memory, self._scope
        for path, parsed in memory.parsed(scope, kind):
            if parsed.conflicts:
                self._warnings.append(
                    f"{path} holds git conflict markers (line {parsed.conflicts[0]})."
                )
            if parsed.torn:
                self._warnings.append(f"{path} ends in an unfinished entry, which is left out.")
            if parsed.other:
                self._warnings.append(f"{path} holds more text than its entries; read it there.")
        everything = list(memory.all(scope, kind))
        gone = superseded(located.entry for located in everything)
        holding = [located for located in everything if located.entry.id not in gone]
        wanted = [located for located in holding if self._takes(located)]
        # The newest first; within a day the last written one.
        wanted.reverse()
        wanted.sort(key=lambda located: located.entry.date, reverse=True)
        rows = self._fitting(topic, wanted, share, _entry_row)
        if len(holding) < len(everything):
            old = f"{len(everything) - len(holding)} superseded"
            self._omitted[topic] = "; ".join(filter(None, (self._omitted.get(topic), old)))
        return rows

    def _takes(self, located: Located) -> bool:
        category = self._filters.category.strip().casefold()
        entry = located.entry
        return self._filters.takes(entry.tags) and (
            not category or entry.category.casefold() == category
        )

    def _t0(self, path: Path, topic: Topic) -> _Row:
        shown = self._root.shows(path)
        try:
            head = self._contexts.head(path)
        except OSError as error:
            self._warnings.append(f"{shown} cannot be read: {error.strerror}.")
            head = Document(path.stem)
        if head.problem:
            self._warnings.append(f"{shown} {head.problem}.")
        if topic == "plans" and not head.problem and head.status not in STATUSES:
            statuses = ", ".join(STATUSES)
            self._warnings.append(f"{shown} has the status {head.status!r}, not one of {statuses}.")
        fields = {
            "description": head.description,
            "status": head.status,
            "created": head.created,
            "updated": head.updated,
            "tags": list(head.tags),
        }
        where = f"{_scope_of(path, self._root.path)}/" if path.name == OVERVIEW else ""
        return {
            "name": head.name,
            **{name: value for name, value in fields.items() if value},
            "_meta": {"document_path": shown, "document_id": where + path.stem},
        }

    def _fitting(
        self,
        topic: str,
        items: Sequence[Any],
        share: int,
        row: Callable[[Any], _Row] = lambda item: item,
    ) -> list[_Row]:
        """As many rows as the budget allows, at least one; counts the others."""
        rows: list[_Row] = []
        for item in items:
            made = row(item)
            share -= _size(made)
            if share < 0 and rows:
                break
            rows.append(made)
        if omitted := len(items) - len(rows):
            self._omitted[topic] = f"{omitted} omitted; narrow the scope or use filters to see them"
        return rows

    def _tree(self) -> str:
        top = self._root.resources(self._scope)
        lines = [f"{RESOURCES}/{self._scope}/"]
        if not top.is_dir():
            return f"{lines[0]} (nothing there)"
        _branches(top, "", _TREE_DEPTH, lines)
        if len(lines) > _TREE_LINES:
            more = len(lines) - _TREE_LINES
            lines = [*lines[:_TREE_LINES], f"... {more} omitted"]
        return "\n".join(lines) + "\n"


def _entry_row(located: Located) -> _Row:
    entry = located.entry
    meta = {"document_path": located.path, "document_id": entry.id}
    meta["saved_by"] = str(entry.provenance or "written by hand") or "unknown"
    if entry.supersedes:
        meta["supersedes"] = entry.supersedes
    return {
        "title": entry.title,
        **({"date": entry.date} if entry.date else {}),
        "category": entry.category,
        "tags": list(entry.tags),
        "content": shorten(entry.content, _ENTRY_LIMIT, f"all of it in {located.path}"),
        "_meta": meta,
    }


def _branches(folder: Path, indent: str, depth: int, lines: list[str]) -> None:
    try:
        found = [p for p in folder.iterdir() if not p.name.startswith(".") and not p.is_symlink()]
    except OSError:
        return
    shown = [p for p in found if p.is_dir() or p.suffix == ".md"]
    shown.sort(key=lambda p: (p.is_dir(), p.name))
    for position, path in enumerate(shown):
        last = position == len(shown) - 1
        is_folder = path.is_dir()
        lines.append(f"{indent}{'└── ' if last else '├── '}{path.name}{'/' if is_folder else ''}")
        # The content of a folder like `_plans` belongs to its topic.
        if is_folder and depth > 1 and not path.name.startswith("_"):
            _branches(path, indent + ("    " if last else "│   "), depth - 1, lines)


def _scope_of(path: Path, root: Path) -> str:
    return "/".join(path.relative_to(root).parts[2:-1])


def _size(value: Any) -> int:
    """The approximate characters of a value in YAML."""
    if isinstance(value, str):
        return len(value) + 4
    if isinstance(value, dict):
        return sum(len(str(key)) + 6 + _size(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return sum(4 + _size(item) for item in value)
    return 8
