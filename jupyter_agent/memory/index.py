"""`_index.yaml`: the tags and categories of a workspace's memory, derived from the Markdown.

Made from the entries alone, so that a rebuild gives the same bytes. Only the descriptions of tags,
which people write into it by hand, are kept from the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import yaml

from jupyter_agent.core import safe_yaml
from jupyter_agent.core.quoting import to_yaml
from jupyter_agent.memory.entries import FILES, Kind, MemoryEntry, Parsed

INDEX = "_index.yaml"
Memories = Mapping[str, Mapping[Kind, Parsed]]
"""The parsed files of each domain; the workspace itself has the empty name."""


def index_of(
    workspace: str, memories: Memories, descriptions: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The index in the form of seed 002, section 4.5.

    `last_updated` is the date of the newest entry, since the index is derived. It is a date as
    YAML knows it, or None where no entry has one.
    """
    entries: dict[Kind, list[MemoryEntry]] = {"decision": [], "lesson": []}
    for kinds in memories.values():
        for kind, parsed in kinds.items():
            entries[kind] += parsed.entries
    tags = {kind: Counter(tag for e in found for tag in e.tags) for kind, found in entries.items()}
    categories = {
        kind: Counter(entry.category for entry in found if entry.category)
        for kind, found in entries.items()
    }
    newest = max((entry.date for found in entries.values() for entry in found), default="")
    tag_descriptions = descriptions or {}
    return {
        "workspace": workspace,
        "last_updated": _date(newest),
        "tags": _rows(tags, tag_descriptions),
        "categories": _rows(categories, {}),
        "summary": {
            "total_decisions": len(entries["decision"]),
            "total_lessons": len(entries["lesson"]),
            "domains_with_memory": sorted(
                domain for domain, kinds in memories.items() if domain and any(kinds.values())
            ),
        },
    }


def rendered(index: Mapping[str, Any]) -> bytes:
    """The bytes of `_index.yaml`."""
    return to_yaml(dict(index)).encode("utf-8", "replace")


def descriptions_in(data: bytes) -> dict[str, str] | None:
    """The descriptions of tags in an `_index.yaml`; None if it cannot be parsed."""
    try:
        index = safe_yaml.load(data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        return None
    if not isinstance(index, dict):
        return {} if index is None else None
    tags = index.get("tags")
    rows = [row for row in tags if isinstance(row, dict)] if isinstance(tags, list) else []
    return {
        row["name"]: row["description"]
        for row in rows
        if isinstance(row.get("name"), str) and isinstance(row.get("description"), str)
    }


def _rows(
    counts: Mapping[Kind, Counter[str]], descriptions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A row for each name, in order: the files with it, and its count."""
    rows = []
    for name in sorted(set().union(*counts.values())):
        used_in = [FILES[kind].removesuffix(".md") for kind in FILES if name in counts[kind]]
        row: dict[str, Any] = {"name": name}
        if name in descriptions:
            row["description"] = descriptions[name]
        rows.append({**row, "used_in": used_in, "count": sum(c[name] for c in counts.values())})
    return rows


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
