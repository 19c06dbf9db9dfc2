"""The files that people keep in `resources/`: overviews, plans, and the head of each file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from jupyter_agent.core import safe_yaml
from jupyter_agent.memory.scope import MemoryRoot, Scope

STATUSES = ("new", "in_progress", "partial", "done", "abandoned")
OVERVIEW = "OVERVIEW.md"
HEAD_LIMIT = 16_384
"""Bytes in which the front matter of a file is looked for."""
_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_SIMPLE = re.compile(r"^([A-Za-z_-]+):[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,3}[ \t]+(.+)$", re.MULTILINE)
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Document:
    """The T0 of a file: its front matter, or a title and description from its text.

    `problem` describes an invalid front matter; empty if it is valid.
    """

    name: str
    description: str = ""
    status: str = ""
    created: str = ""
    updated: str = ""
    tags: tuple[str, ...] = ()
    problem: str = ""


class Documents:
    """Reads the heads of files, each once until it changes."""

    def __init__(self) -> None:
        self._heads: dict[Path, tuple[tuple[int, int], Document]] = {}

    def head(self, path: Path) -> Document:
        """The head of a file. Raises `OSError` if it cannot be read."""
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_size)
        cached = self._heads.get(path)
        if cached is None or cached[0] != stamp:
            with path.open("rb") as stream:
                text = stream.read(HEAD_LIMIT).decode("utf-8-sig", "replace")
            document = read_head(text.replace("\r\n", "\n"), path.stem)
            self._heads[path] = cached = (stamp, document)
        return cached[1]


def read_head(text: str, stem: str) -> Document:
    """The head of a file from its text. Never raises."""
    found = _FRONT.match(text)
    if not found:
        heading = _HEADING.search(text)
        paragraph = next(
            (p.strip() for p in text.split("\n\n") if p.strip() and not p.lstrip().startswith("#")),
            "",
        )
        problem = "has no front matter" if not text.startswith("---") else "has a torn front matter"
        return Document(
            heading[1].strip()[:200] if heading else stem,
            " ".join(paragraph.split())[:300],
            problem=problem,
        )
    values, problem = _values(found[1])
    return Document(
        _text(values.get("name")) or stem,
        _text(values.get("description")),
        _text(values.get("status")),
        _text(values.get("created")),
        _text(values.get("updated")),
        _tags(values.get("tags")),
        problem,
    )


def body_of(text: str) -> str:
    """A file without its front matter."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FRONT.match(text)
    return text[found.end() :].strip() if found else text.strip()


def files_in(root: MemoryRoot, scope: Scope, folder: str) -> Iterator[Path]:
    """The Markdown files in every folder of a name (`_plans`) within a scope, sorted."""
    for path in markdown_files(root, scope):
        below = path.relative_to(root.path).parts[2 + len(scope.parts) : -1]
        if folder in below:
            yield path


def overviews(root: MemoryRoot, scope: Scope) -> Iterator[Path]:
    """The `OVERVIEW.md` files within a scope, the scope's own first."""
    found = [path for path in markdown_files(root, scope) if path.name == OVERVIEW]
    return iter(sorted(found, key=lambda path: (len(path.parts), path)))


def markdown_files(root: MemoryRoot, scope: Scope | None = None) -> Iterator[Path]:
    """The Markdown files below a scope's resources, sorted; none that a symlink leads out to."""
    top = root.resources(scope)
    for folder, folders, names in os.walk(top):
        here = Path(folder)
        too_deep = len(here.relative_to(top).parts) >= _DEPTH
        folders[:] = [] if too_deep else sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            path = here / name
            if name.endswith(".md") and _safe(path, root):
                yield path


def _safe(path: Path, root: MemoryRoot) -> bool:
    if not path.is_symlink():
        return path.is_file()
    real = Path(os.path.realpath(path))
    return real.is_relative_to(root.path) and real.is_file()


def _values(front: str) -> tuple[dict[Any, Any], str]:
    try:
        values = safe_yaml.load(front)
    except (yaml.YAMLError, ValueError, RecursionError):
        # Mostly a colon in an unquoted description: the lines say enough.
        return dict(_SIMPLE.findall(front)), "has front matter that is not YAML"
    return (values, "") if isinstance(values, dict) else ({}, "has front matter without fields")


def _text(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return " ".join(str(value).split())[:1_000]
    return ""


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.strip("[]").split(",")
    if not isinstance(value, list):
        return ()
    return tuple(text for item in value[:50] if (text := _text(item).strip("\"' ")))
