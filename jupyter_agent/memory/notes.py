"""The notes of a workspace: `.agent_memory.json`, a list of `{timestamp, category, content}`.

The file is made with the first note. A damaged file is moved to
`.agent_memory.json.corrupt-<time>`; the notes that can be found in it are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jupyter_agent.core.plaintext import plain
from jupyter_agent.core.quoting import escaped, quoted, secret_in
from jupyter_agent.errors import ToolError
from jupyter_agent.files import shared
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.similar import Likeness, fingerprint, likeness

NOTES = ".agent_memory.json"
GENERAL = "general"
CONTENT_LIMIT = 10_000
"""Characters of one note."""
RECALL_LIMIT = 32_000
"""Characters that are recalled at once, about 8,000 tokens: the newest notes."""
_CATEGORY_LIMIT = 60
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Note:
    """One note. `number` counts from 1 in the order of the file."""

    number: int
    timestamp: str
    category: str
    content: str


@dataclass(frozen=True, slots=True)
class Read:
    """The notes of the file. `repair` describes a repair and the place of the damaged file."""

    notes: tuple[Note, ...] = ()
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of `record`. With an `existing` note nothing was written."""

    note: Note
    existing: Note | None = None
    likeness: Likeness | None = None
    repair: str = ""


class Notes:
    """The notes beside a notebook.

    Args:
        workspace: The workspace with the file.
        now: The clock for notes, without a time zone as in the seed.
    """

    def __init__(self, workspace: Workspace, now: Callable[[], datetime] = datetime.now) -> None:
        self.path = workspace.root / NOTES
        self._workspace = workspace
        self._now = now

    def read(self) -> Read:
        """All notes. Repairs a damaged file.

        Raises:
            ToolError: The file cannot be read.
        """
        data = self._bytes()
        if data is None:
            return Read()
        if (raw := _loaded(data)) is not None:
            return Read(_notes(raw))
        try:
            with self._locked():
                raw, repair = self._repaired()
        except ToolError as error:
            raw = _salvaged(data)
            return Read(_notes(raw), f"{NOTES} is damaged and could not be repaired: {error}")
        return Read(_notes(raw), repair)

    def record(self, content: str, category: str = GENERAL, distinct: bool = False) -> Recorded:
        """Add a note, unless an equal or nearly equal one exists.

        Raises:
            ToolError: The note cannot be stored or holds a secret, or the file cannot be written.
        """
        content, category = _checked(content, category)
        with self._locked():
            raw, repair = self._repaired()
            notes = _notes(raw)
            stamp = self._now().isoformat(timespec="microseconds")
            note = Note(len(raw) + 1, stamp, category, content)
            if found := _like(note, notes, distinct):
                return Recorded(note, *found, repair)
            raw.append({"timestamp": stamp, "category": category, "content": content})
            self._write(raw)
        return Recorded(note, repair=repair)

    def edit(self, number: int, content: str) -> Note:
        """Replace a note's content. Raises `ToolError` if that fails or there is no such note."""
        with self._locked():
            raw, _ = self._repaired()
            old = _numbered(_notes(raw), number)
            content, _ = _checked(content, old.category)
            raw[number - 1] = {**raw[number - 1], "content": content}
            self._write(raw)
        return Note(number, old.timestamp, old.category, content)

    def delete(self, number: int) -> Note:
        """Delete a note. Raises `ToolError` if that fails or there is no such note."""
        with self._locked():
            raw, _ = self._repaired()
            old = _numbered(_notes(raw), number)
            del raw[number - 1]
            self._write(raw)
        return old

    def recall(self, category: str | None = None) -> str:
        """The notes in the form of seed 000, as quoted data; of many the newest.

        Raises:
            ToolError: The file cannot be read.
        """
        found = self.read()
        notes = found.notes
        if category is not None:
            wanted = category.strip().casefold()
            notes = tuple(note for note in notes if note.category.casefold() == wanted)
        tail = f"\n\n{found.repair}" if found.repair else ""
        if not notes:
            none = "No notes recorded yet"
            return (f"No notes found in category: {category}" if found.notes else none) + tail
        shown = _newest(notes)
        text = f"## Recorded Session Notes\n\n{quoted(_grouped(shown), NOTES)}"
        if omitted := len(notes) - len(shown):
            text += f"\n\n{omitted} older notes omitted; ask for one category to see more of it."
        return text + tail

    def _locked(self) -> Any:
        return shared.locked(self.path, self._workspace.state_folder)

    def _bytes(self) -> bytes | None:
        if self.path.is_symlink():
            raise ToolError(f"{NOTES} is a symlink. Replace it by a file.")
        return shared.read_regular(self.path)

    def _repaired(self) -> tuple[list[dict[str, Any]], str]:
        """The stored notes, and a description of the repair, if any. Needs the lock."""
        data = self._bytes()
        if data is None:
            return [], ""
        if (raw := _loaded(data)) is not None:
            return raw, ""
        try:
            raw = _salvaged(data)
            aside = shared.set_aside(self.path)
            if raw:
                self._write(raw)
        except OSError as error:
            raise ToolError(f"{error.strerror or error}.") from None
        kept = f"{len(raw)} notes in it were kept" if raw else "no notes were found in it"
        return raw, f"{NOTES} was damaged: it is now {aside.name}, and {kept}."

    def _write(self, raw: list[dict[str, Any]]) -> None:
        try:
            shared.replace(self.path, _dumped(raw))
        except OSError as error:
            raise ToolError(f"{NOTES} cannot be written: {error.strerror or error}.") from None


def _checked(content: str, category: str) -> tuple[str, str]:
    if len(content) > CONTENT_LIMIT:
        raise ToolError(
            f"The note is too long ({len(content):,} characters, at most {CONTENT_LIMIT:,}). "
            "Note the gist, and the file that holds the whole."
        )
    content = plain(content).strip()
    category = _SPACE.sub(" ", plain(category)).strip() or GENERAL
    if not content:
        raise ToolError("The note is empty.")
    if len(category) > _CATEGORY_LIMIT:
        raise ToolError(f"The category is too long (at most {_CATEGORY_LIMIT} characters).")
    if kind := secret_in(content) or secret_in(category):
        raise ToolError(
            f"This holds what looks like {kind}, which notes must not keep. "
            "Leave it out and say where it is kept instead. Nothing was saved."
        )
    return content, category


def _like(note: Note, notes: tuple[Note, ...], distinct: bool) -> tuple[Note, Likeness] | None:
    wanted = fingerprint(note.content)
    near: Note | None = None
    for existing in notes:
        like = likeness(wanted, fingerprint(existing.content))
        if like == "same":
            return existing, "same"
        if like and near is None:
            near = existing
    return (near, "near") if near and not distinct else None


def _loaded(data: bytes) -> list[dict[str, Any]] | None:
    """The notes of a sound file; None for any other data."""
    try:
        raw = json.loads(data.decode("utf-8-sig")) if data.strip() else []
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, list) or not all(_is_note(item) for item in raw):
        return None
    return raw


def _is_note(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("content"), str)


def _salvaged(data: bytes) -> list[dict[str, Any]]:
    """Each complete note in a damaged file, once, in order."""
    text = data.decode("utf-8-sig", "replace")
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    position = text.find("{")
    while position >= 0:
        end = position + 1
        try:
            item, stop = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            item = None
        else:
            # A foreign object may hold notes: the search goes on inside.
            if _is_note(item):
                end = stop
        if _is_note(item) and item not in found:
            found.append(item)
        position = text.find("{", end)
    return found


def _dumped(raw: list[dict[str, Any]]) -> bytes:
    """The text of `json.dumps(indent=2)`, made many times faster, since the values are flat."""
    notes = (
        "  {\n"
        + ",\n".join(f"    {_json(key)}: {_json(value)}" for key, value in note.items())
        + "\n  }"
        for note in raw
    )
    body = ",\n".join(notes)
    return (f"[\n{body}\n]\n" if raw else "[]\n").encode("utf-8", "replace")


_json = json.JSONEncoder(ensure_ascii=False).encode


def _notes(raw: list[dict[str, Any]]) -> tuple[Note, ...]:
    return tuple(
        Note(number, str(item.get("timestamp", "")), str(item.get("category") or GENERAL), content)
        for number, item in enumerate(raw, 1)
        if isinstance(content := item["content"], str)
    )


def _numbered(notes: tuple[Note, ...], number: int) -> Note:
    if not 1 <= number <= len(notes):
        there = f"There are notes 1 to {len(notes)}." if notes else "There are none."
        raise ToolError(f"There is no note {number}. {there}")
    return notes[number - 1]


def _newest(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    size = 0
    for count, note in enumerate(reversed(notes)):
        size += len(note.content) + 30
        if size > RECALL_LIMIT and count:
            return notes[len(notes) - count :]
    return notes


def _grouped(notes: tuple[Note, ...]) -> str:
    """The notes by category in the order of their first notes, in the form of the seed."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        category = _SPACE.sub(" ", escaped(note.category)).strip()
        groups.setdefault(category, []).append(f"- [{shown_time(note)}] {_indented(note.content)}")
    return "\n\n".join(f"### {name}\n" + "\n".join(lines) for name, lines in groups.items())


def shown_time(note: Note) -> str:
    """`2025-11-14 10:30:45`. Shows an unparsable timestamp unchanged."""
    try:
        return datetime.fromisoformat(note.timestamp).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return _SPACE.sub(" ", escaped(note.timestamp))[:40]


def _indented(content: str) -> str:
    """The content with further lines indented, so that they stay inside of the list item."""
    return escaped(content).strip().replace("\n", "\n  ")
