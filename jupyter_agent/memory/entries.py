r"""Reads and writes the entries of `decisions.md` and `lessons.md`: Markdown is the truth.

A written entry:

    <!-- entry: id=d-1a2b3c4d5e; by=agent; notebook=x.ipynb; time=2026-11-22T10:00:00+00:00 -->
    ### [2026-11-22] Title

    **Category:** architecture
    **Tags:** tag1, tag2
    **Answers:** which database? | where are the tables kept?

    What was decided, and why.

    ---

From the heading to the rule it has the form of seed 002, section 4.5. The comment above holds the
entry's origin and the id of an entry that it supersedes. `Answers` is optional: questions and other
words by which the entry is found; it is a field only directly below one of the other two, so that
no text of an older entry turns into it. Lines of a content that look like
structure (`### ...`, `---`, `<!--`, conflict markers, the two fields) get a backslash, which
reading removes again; fences that a content leaves open are closed.

Entries written by people are read leniently: a date, the fields and the rule may be missing. Files
are only appended to, so their other content stays unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Literal

from jupyter_agent.memory.similar import TextFingerprint, fingerprint

Kind = Literal["decision", "lesson"]
FILES: Mapping[Kind, str] = {"decision": "decisions.md", "lesson": "lessons.md"}
UNCATEGORIZED = "general"

_COMMENT = "<!-- entry: "
_LINE = re.compile(
    r"(?:(?P<heading>###[ \t]+\S.*)"
    r"|(?P<section>#{1,2}[ \t]+\S.*)"
    r"|(?P<comment><!-- entry: .*-->)"
    r"|(?P<confirmed><!-- confirmed: .*-->)"
    r"|(?P<rule>-{3,})"
    r"|(?P<fence> {0,3}(?:`{3,}|~{3,}).*)"
    r"|(?P<conflict><{7}|>{7})(?: .*)?)[ \t]*"
)
_FIRST_OF_LINE = frozenset("#<>-`~ ")
"""The possible first characters of a line that `_LINE` matches."""
_DATED = re.compile(r"###[ \t]+\[(\d{4}-\d\d-\d\d)\][ \t]*(.*)")
_ID = re.compile(r"[\w.-]{1,40}")
_FIELD = re.compile(r"\s*\*\*(Category|Tags):\*\*[ \t]*(.*)")
_ANSWERS = re.compile(r"[ \t]*\n\*\*Answers:\*\*[ \t]*(.*)")
_BETWEEN_QUESTIONS = " | "
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_STRUCTURE = r"#{1,3}(?=\s|$)|(?:-[ \t]*){3,}$|<!--|<{7}|={7}|>{7}|\|{7}|\*\*(?:Category|Tags):\*\*"
_TO_ESCAPE = re.compile(rf"^( {{0,3}})(?=\\*(?:{_STRUCTURE}))")
_ESCAPED = re.compile(rf"^( {{0,3}})\\(?=\\*(?:{_STRUCTURE}))")
_IN_FENCE = re.compile(r" {0,3}\\*#{1,2}(?:\s|$)")
_NOT_IN_COMMENT = re.compile(r"[;<>\r\n\t]|--+")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of an entry, and the entry that it supersedes. Empty means unknown.

    `workspace` is the name of the workspace's folder, in the person's own memory alone: elsewhere
    the file lies in its workspace.
    """

    by: str = ""
    notebook: str = ""
    session: str = ""
    model: str = ""
    time: str = ""
    supersedes: str = ""
    workspace: str = ""

    def __str__(self) -> str:
        named = (
            f"workspace {self.workspace}" if self.workspace else "",
            self.notebook,
            f"session {self.session}" if self.session else "",
            self.model,
        )
        return ", ".join(part for part in (self.by, *named) if part)


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One decision or lesson. `date` is empty if a person wrote none.

    `source` is the text of the comment above the entry; empty if a person wrote the entry.
    `questions` are for the search alone: the model that reads the entry does not get them.
    """

    kind: Kind
    title: str
    content: str
    category: str = ""
    tags: tuple[str, ...] = ()
    date: str = ""
    id: str = ""
    source: str = ""
    questions: tuple[str, ...] = ()

    @property
    def provenance(self) -> Provenance | None:
        """The entry's origin; None if a person wrote it."""
        return _provenance(self.source) if self.source else None

    @property
    def supersedes(self) -> str:
        """The id of the entry that this one supersedes; mostly empty."""
        if "supersedes=" not in self.source:
            return ""
        return _provenance(self.source).supersedes

    def fingerprint(self) -> TextFingerprint:
        """The fingerprint for the search of duplicates."""
        return fingerprint(f"{self.title}\n{self.content}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of a file. `conflicts` are the lines with git's markers, counted from 1; `spans`
    has the first line of each entry and the line after its last one, counted from 0.

    `torn` is True if the file ends in an unfinished entry of ours, which is not among the
    `entries`. `other` is text that people wrote outside of entries.
    """

    entries: tuple[MemoryEntry, ...] = ()
    confirmed: Mapping[str, str] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    conflicts: tuple[int, ...] = ()
    torn: bool = False
    spans: tuple[tuple[int, int], ...] = ()


def entry_id(kind: Kind, scope: str, title: str, content: str) -> str:
    """The id of an entry, from its content: the same in a recording and in its replay."""
    text = f"{kind}\n{scope}\n{title}\n{content}"
    return f"{kind[0]}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:10]}"


def parse(kind: Kind, data: bytes, scope: str = "") -> Parsed:
    """The entries in the bytes of a file. Never raises.

    Args:
        kind: The kind of the entries.
        data: UTF-8, with or without a BOM; invalid bytes become U+FFFD.
        scope: A part of the generated ids of entries without one.
    """
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return _Reader(kind, scope).read(text.split("\n"))


def torn_from(data: bytes) -> int | None:
    """The start of an unfinished entry at the end of a file, by a killed writer; else None.

    Every write of ours starts with a comment and ends with a rule, so that an end without a rule
    is recognized. A crash of the system leaves zero bytes.
    """
    whole = data.rstrip(b"\0")
    start = whole.rfind(b"\n" + _COMMENT.encode()) + 1
    if start == 0 and not whole.removeprefix(b"\xef\xbb\xbf").startswith(_COMMENT.encode()):
        last = whole.rfind(b"\n") + 1
        line = whole[last:]
        if line and _COMMENT.encode().startswith(line):
            return last
        return None if len(whole) == len(data) else len(whole)
    if parse("decision", whole[start:]).torn:
        return start
    last = whole.rfind(b"\n") + 1
    if whole[last:] and _COMMENT.encode().startswith(whole[last:]):
        return last
    return None if len(whole) == len(data) else len(whole)


def written(entry: MemoryEntry, before: bytes = b"") -> bytes:
    """The bytes of an entry to append to a file that ends with `before`.

    With the line endings of `before`, after a blank line.
    """
    category = entry.category or UNCATEGORIZED
    tags = f"**Tags:** {', '.join(entry.tags)}".rstrip()
    if entry.questions:
        tags += f"\n**Answers:** {_BETWEEN_QUESTIONS.join(entry.questions)}"
    text = (
        f"{_COMMENT}{entry.source} -->\n### [{entry.date}] {entry.title}\n\n"
        f"**Category:** {category}\n{tags}\n\n{escape(entry.content)}\n\n---\n"
    )
    return appended(text, before)


def without(kind: Kind, data: bytes, id: str, scope: str = "") -> bytes:
    """The bytes of a file without the entries of an id, and all other bytes unchanged.

    Args:
        kind: The kind of the entries.
        data: The file.
        id: The id of the entries to leave out.
        scope: As for `parse`.
    """
    parsed = parse(kind, data, scope)
    lines = data.split(b"\n")
    for entry, (start, end) in reversed(list(zip(parsed.entries, parsed.spans, strict=True))):
        if entry.id == id:
            is_apart = start > 0 and not lines[start - 1].strip()
            is_end = end >= len(lines) or not lines[end].strip()
            # One of the two blank lines around it goes with it.
            del lines[start - (is_apart and is_end) : end]
    return b"\n".join(lines)


def confirmation(entry_id: str, date: str, before: bytes = b"") -> bytes:
    """The bytes of a line that confirms an entry, to append."""
    return appended(f"<!-- confirmed: {entry_id}; date={date} -->\n", before)


def appended(text: str, before: bytes) -> bytes:
    """The bytes of a text to append, with the separation from `before` and its line endings."""
    first = before.find(b"\n")
    windows = first > 0 and before[first - 1 : first] == b"\r"
    bare = before.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    gap = "" if not bare or bare.endswith(b"\n\n") else "\n" if bare.endswith(b"\n") else "\n\n"
    text = gap + text
    return (text.replace("\n", "\r\n") if windows else text).encode("utf-8", "replace")


def escape(content: str) -> str:
    """A content without lines that look like structure; `unescape` undoes it."""
    lines, fence = _changed(content, lambda line: _TO_ESCAPE.sub(r"\1\\", line, count=1))
    return "\n".join([*lines, fence] if fence else lines)


def unescape(content: str) -> str:
    """The content before `escape`, except for a fence that `escape` closed."""
    if "\\" not in content:
        return content
    return "\n".join(_changed(content, lambda line: _ESCAPED.sub(r"\1", line, count=1))[0])


def _changed(content: str, change: Callable[[str], str]) -> tuple[list[str], str]:
    """The changed lines, without comments in fenced code, and the fence open at the end."""
    lines: list[str] = []
    fence = ""
    for line in content.split("\n"):
        fence, inside = _after(line, fence)
        plain_comment = inside and _IN_FENCE.match(line)
        lines.append(line if plain_comment else change(line))
    return lines, fence


def superseded(entries: Iterable[MemoryEntry]) -> dict[str, str]:
    """The ids of superseded entries, each with the id of its successor."""
    return {replaced: entry.id for entry in entries if (replaced := entry.supersedes)}


def source_of(id: str, provenance: Provenance) -> str:
    """The text of the comment above an entry."""
    values = {item.name: getattr(provenance, item.name) for item in fields(provenance)}
    said = {"id": id, **{name: value for name, value in values.items() if value}}
    return "; ".join(f"{name}={_clean(value)}" for name, value in said.items())


class _Reader:
    """Reads a file line by line. An entry is its heading, the comment above it and its body."""

    def __init__(self, kind: Kind, scope: str) -> None:
        self._kind: Kind = kind
        self._scope = scope
        self._entries: list[MemoryEntry] = []
        self._confirmed: dict[str, str] = {}
        self._other: list[str] = []
        self._conflicts: list[int] = []
        self._comment: str | None = None
        self._heading: str | None = None
        self._body: list[str] = []
        self._fence = ""
        self._spans: list[tuple[int, int]] = []
        self._number = 0
        self._start = 0

    def read(self, lines: Sequence[str]) -> Parsed:
        for number, line in enumerate(lines, 1):
            self._number = number
            structure = _LINE.fullmatch(line) if line and line[0] in _FIRST_OF_LINE else None
            if structure is None or self._is_text(structure.lastgroup or "", line.rstrip()):
                self._body.append(line)
            elif structure.lastgroup == "conflict":
                self._conflicts.append(number)
        torn = self._comment is not None or lines[-1].startswith(_COMMENT)
        if not torn:
            self._close(with_this_line=True)
        return Parsed(
            tuple(self._entries),
            self._confirmed,
            tuple(self._other),
            tuple(self._conflicts),
            torn,
            tuple(self._spans),
        )

    def _is_text(self, group: str, line: str) -> bool:
        """Reads a line of structure; True if it is a part of the open entry's or text's body."""
        if group == "comment":
            # It begins an entry of ours even where people left a fence open above it.
            self._close()
            self._fence = ""
            self._start = self._number - 1
            self._comment = line[len(_COMMENT) : -len("-->")].strip()
        elif self._fence or group == "fence":
            self._fence, _ = _after(line, self._fence)
            return True
        elif group == "heading":
            if self._comment is None or self._heading is not None or self._body:
                self._close()
            if self._comment is None:
                self._start = self._number - 1
            self._heading = line
        elif group == "rule":
            if self._heading is None:
                return True
            self._close(with_this_line=True)
        elif group == "confirmed":
            # In the midst of an entry by hand it is no part of it, and does not end it.
            name, _, date = line[len("<!-- confirmed: ") : -len("-->")].partition(";")
            self._confirmed[name.strip()] = date.partition("=")[2].strip()
            if self._heading is None:
                self._close()
        else:
            self._close()
            return group == "section"
        return False

    def _close(self, with_this_line: bool = False) -> None:
        """Ends the open entry, or text outside of entries: before this line, or with it."""
        body = "\n".join(self._body)
        if self._heading is not None:
            entry = _entry(self._kind, self._scope, self._heading, self._comment or "", body)
            self._entries.append(entry)
            self._spans.append((self._start, self._number - (not with_this_line)))
        elif body := body.strip():
            self._other.append(body)
        self._comment = self._heading = None
        self._body = []


@lru_cache(maxsize=20_000)
def _entry(kind: Kind, scope: str, heading: str, source: str, body: str) -> MemoryEntry:
    """An entry from its heading, the comment above it and the lines below.

    Cached, since a file is read again after each save.
    """
    dated = _DATED.match(heading)
    date, title = (dated[1], dated[2].strip()) if dated else ("", heading[3:].strip())
    read: dict[str, str] = {}
    questions = ""
    position = 0
    while len(read) < 2 and (found := _FIELD.match(body, position)) and found[1] not in read:
        read[found[1]] = found[2].strip()
        position = found.end()
        if not questions and (found := _ANSWERS.match(body, position)):
            questions = found[1].strip()
            position = found.end()
    content = body[position:].strip("\n")
    content = unescape(content) if source else content.strip()
    return MemoryEntry(
        kind,
        title,
        content,
        read.get("Category", ""),
        _tags(read.get("Tags", "")),
        date,
        _id_in(source) or entry_id(kind, scope, title, content),
        source,
        tuple(part.strip() for part in questions.split("|") if part.strip()),
    )


def _after(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open after a line, and True if the line itself is inside of one."""
    found = _FENCE.match(line)
    if not fence:
        if found and not (found[1][0] == "`" and "`" in found[2]):
            return found[1], False
        return "", False
    closes = found and found[1].startswith(fence) and not found[2].strip()
    return ("" if closes else fence), not closes


def _tags(text: str) -> tuple[str, ...]:
    tags = [tag for part in text.split(",") if (tag := part.strip())]
    return tuple(dict.fromkeys(tags))


def _id_in(source: str) -> str:
    """The id that a comment gives. Of words that are none the entry gets one of its own: ids are
    shown, and told outside of quotations."""
    name, _, value = source.partition(";")[0].partition("=")
    return value.strip() if name == "id" and _ID.fullmatch(value.strip()) else ""


def _clean(value: str) -> str:
    """A value that cannot end its place in the comment."""
    return _NOT_IN_COMMENT.sub("_", value)[:200].strip()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


_KNOWN = tuple(item.name for item in fields(Provenance))


def _provenance(source: str) -> Provenance:
    values = dict(_pairs(source))
    return Provenance(**{name: values[name] for name in _KNOWN if name in values})
