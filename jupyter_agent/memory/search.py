"""Search over memory, resources, run logs and records of sessions: the cold layer.

An SQLite FTS5 index in the cache of the state folder. It is derived: a file is indexed again when
its time or size changes, but only its changed entries, and a damaged index is rebuilt. Several
roots share one index and one query.

Entries are found by their words and by the questions that were saved with them. With a model of
embeddings the hits by words and those by meaning are fused by reciprocal rank. In both cases what
holds an identifier of the query (`TimeoutError`, `df_2024`, a path) to the letter comes first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jupyter_agent.core.plaintext import plain
from jupyter_agent.errors import AgentError, ToolError
from jupyter_agent.files.atomic import only_owner, open_private
from jupyter_agent.files.jsonl import Reader
from jupyter_agent.files.shared import READ_LIMIT, cache_folder
from jupyter_agent.memory.entries import FILES, Parsed, parse
from jupyter_agent.memory.scope import MemoryRoot
from jupyter_agent.memory.sources import markdown_files

if TYPE_CHECKING:
    from jupyter_agent.memory.embeddings import Embeddings

SourceKind = Literal["decision", "lesson", "resource", "log", "session"]
LASTING: tuple[SourceKind, ...] = ("decision", "lesson", "resource")
"""The kinds of documents that do not change by the agent's mere work."""
DATABASE = "memory-search.sqlite"
_VERSION = 3
_CHUNK = 4_000
"""Characters of a document that are one hit."""
_FILE_LIMIT = 4 * 1024 * 1024
_LOGS = 300
"""Run logs that are searched: the newest."""
_SNIPPET = 240
_WORDS = 24
_POOL = 60
"""Hits of each kind that are fused, at least."""
_RANK = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)."""
_BEGINNING = 2_000
"""Characters of a document that its vector stands for."""
_MADE_AT_ONCE = 500
"""Documents whose vectors are made, and stored, in one go."""
_LOG_LINE_LIMIT = 20_000
_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[\w./\\:-]*\w")
_IDENTIFIER = re.compile(
    r"\w*_\w+"  # df_2024, __init__
    r"|\w*[a-z][A-Z]\w*"  # TimeoutError
    r"|(?=\w*\d)(?=\w*[^\W\d])\w+"  # utf8, E501
    r"|[A-Z]{5,}"  # ECONNRESET
    r"|\d{3,}"  # 404
    r"|\w{2,}(?:[./\\:]+\w{2,})+[\w./\\:-]*"  # pd.read_csv, src/app.py
    r"|[\w.-]*[./\\][\w./\\:-]*[./\\][\w./\\:-]*"  # a/b/c, /etc/x
)
_SCHEMA = """
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, mtime INTEGER, size INTEGER);
CREATE TABLE documents (
  id INTEGER PRIMARY KEY, file INTEGER, digest TEXT, kind TEXT, path TEXT, ref TEXT, date TEXT,
  title TEXT, text TEXT, questions TEXT);
CREATE INDEX of_file ON documents (file);
CREATE VIRTUAL TABLE words USING fts5(
  title, text, questions, content='', tokenize='unicode61 remove_diacritics 2');
CREATE TABLE vectors (document INTEGER PRIMARY KEY, model TEXT, vector BLOB);
"""
_WEIGHTS = "4.0, 1.0, 1.0"
"""How much a word counts in the title, the text and the questions."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One matching document. `ref` is the id of an entry, or the number of a part.

    `path` is the displayed path, `file` the real one.
    """

    kind: SourceKind
    path: str
    ref: str
    date: str
    title: str
    snippet: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class _Source:
    """A file to search. `path` is the real path, `shown` the displayed one."""

    path: Path
    shown: str
    kind: SourceKind
    scope: str
    mtime: int
    size: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query: its text, its words, the most hits, and the kinds of documents (None: all)."""

    query: str
    words: tuple[str, ...]
    limit: int
    kinds: tuple[SourceKind, ...] | None

    @property
    def pool(self) -> int:
        """The hits of one kind that are ranked, before the best are taken."""
        return max(self.limit, _POOL)

    def by_words(self, base: sqlite3.Connection) -> list[int]:
        """Documents with all words, next those with any. A word matches as a prefix."""
        terms = [f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in self.words]
        found: dict[int, None] = {}
        for joined in (" AND ".join(terms), " OR ".join(terms))[: 2 if len(terms) > 1 else 1]:
            found.update(dict.fromkeys(self._matches(base, joined)))
            if len(found) >= self.pool:
                break
        return list(found)[: self.pool]

    def by_identifiers(self, base: sqlite3.Connection, ranked: Sequence[int]) -> list[int]:
        """Documents that hold an identifier of the query to the letter, up to case: those with the
        most identifiers first, next in the order of `ranked`."""
        held: dict[int, int] = {}
        for name in identifiers(self.query):
            phrase = " ".join(_WORD.findall(_spaced(name.casefold())))
            for number in self._matches(base, f'"{phrase}"'):
                asked = "SELECT title, text, questions FROM documents WHERE id = ?"
                if holds(name, "\n".join(base.execute(asked, (number,)).fetchone())):
                    held[number] = held.get(number, 0) + 1
        places = {number: place for place, number in enumerate(ranked)}
        return sorted(held, key=lambda number: (-held[number], places.get(number, len(places))))

    def _matches(self, base: sqlite3.Connection, expression: str) -> list[int]:
        """The ids of the documents that match an FTS5 expression, the best first."""
        narrowed = (
            "" if self.kinds is None else f"AND d.kind IN ({','.join('?' * len(self.kinds))})"
        )
        rows = base.execute(
            f"SELECT d.id FROM (SELECT rowid AS id, bm25(words, {_WEIGHTS}) AS score FROM words "
            "WHERE words MATCH ? ORDER BY score LIMIT 2000) AS w "
            f"JOIN documents AS d ON d.id = w.id WHERE 1 {narrowed} "
            "ORDER BY w.score, d.path, d.ref LIMIT ?",
            (expression, *(self.kinds or ()), self.pool),
        )
        return [number for (number,) in rows]


@dataclass(frozen=True, slots=True)
class _Document:
    kind: str
    path: str
    ref: str
    date: str
    title: str
    text: str
    questions: str = ""

    @property
    def digest(self) -> str:
        parts = (self.kind, self.path, self.ref, self.date, self.title, self.text, self.questions)
        whole = "\0".join(parts)
        return hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest()


class MemorySearch:
    """Finds words in memory, resources, run logs and session records.

    Args:
        roots: The memory roots, the workspace's own first.
        state: The state folder of the workspace, with the index and `logs/`.
        embeddings: The model for the search by meaning; None searches by words alone.
    """

    def __init__(
        self,
        roots: Sequence[MemoryRoot],
        state: Path,
        embeddings: Embeddings | None = None,
    ) -> None:
        self._roots = tuple(roots)
        self._state = state
        self._embeddings = embeddings

    def find(
        self, query: str, limit: int = 10, kinds: Collection[SourceKind] | None = None
    ) -> list[Hit]:
        """The best matching documents: those with the query's identifiers, next those with all
        words; with a model of embeddings, those that are near in words and in meaning.

        Args:
            query: Words; other characters are ignored.
            limit: The most hits.
            kinds: The kinds of documents; all by default.

        Raises:
            ToolError: The query has no words.
            AgentError: The index can neither be used nor made, or the model of embeddings cannot
                be loaded.
        """
        words = _WORD.findall(_spaced(query.casefold()))[:_WORDS]
        if not words:
            raise ToolError("The query has no words. Give a few.")
        asked = _Asked(query, tuple(words), limit, None if kinds is None else tuple(kinds))
        return self._tried(lambda base: self._found(base, asked))

    def refresh(self) -> int:
        """Update the index. Returns its number of documents."""

        def count(base: sqlite3.Connection) -> list[Hit]:
            self._refreshed(base)
            counted.append(base.execute("SELECT count(*) FROM documents").fetchone()[0])
            return []

        counted: list[int] = []
        self._tried(count)
        return counted[-1]

    def rebuild(self) -> int:
        """Rebuild the index. Returns its number of documents."""
        self._forget()
        return self.refresh()

    def _tried(self, ask: Any) -> list[Hit]:
        """Query the index; rebuild a damaged one and query once more."""
        for last in (False, True):
            try:
                with contextlib.closing(self._open()) as base:
                    found: list[Hit] = ask(base)
                    return found
            except sqlite3.DatabaseError as error:
                busy = "locked" in str(error) or "busy" in str(error)
                if last or busy:
                    raise AgentError(f"The search index cannot be used: {error}.") from None
                self._forget()
            except OSError as error:
                reason = error.strerror or error
                raise AgentError(f"The search index cannot be made: {reason}.") from None
        return []

    def _open(self) -> sqlite3.Connection:
        path = cache_folder(self._state) / DATABASE
        # SQLite would leave it to the umask; its other files get the permissions of this one.
        # Closing a file that is in use would free the locks that this process has on it.
        if path.exists():
            only_owner(path)
        else:
            open_private(path, "ab").close()
        base = sqlite3.connect(path, timeout=10, isolation_level=None)
        try:
            # Derived data need not survive a crash of the system: it is checked and rebuilt.
            base.execute("PRAGMA synchronous=OFF")
            if base.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                self._create(base)
        except BaseException:
            base.close()
            raise
        return base

    def _create(self, base: sqlite3.Connection) -> None:
        base.execute("BEGIN IMMEDIATE")
        if base.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
            base.execute("COMMIT")  # another process was faster
            return
        for name in ("files", "documents", "words", "vectors"):
            base.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in _SCHEMA.split(";"):
            if statement.strip():
                base.execute(statement)
        base.execute(f"PRAGMA user_version={_VERSION}")
        base.execute("COMMIT")

    def _forget(self) -> None:
        for end in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                (cache_folder(self._state) / f"{DATABASE}{end}").unlink()

    def _found(self, base: sqlite3.Connection, asked: _Asked) -> list[Hit]:
        self._refreshed(base)
        ranked = asked.by_words(base)
        if self._embeddings is not None:
            ranked = _fused(ranked, self._by_meaning(base, asked, self._embeddings))
        first = asked.by_identifiers(base, ranked)
        ranked = list(dict.fromkeys((*first, *ranked)))[: asked.limit]
        return [hit for number in ranked if (hit := _hit(base, number, asked.words))]

    def _by_meaning(
        self, base: sqlite3.Connection, asked: _Asked, embeddings: Embeddings
    ) -> list[int]:
        """The nearest documents by the cosine of their vectors, which are made where missing."""
        kinds = tuple(kind for kind in asked.kinds or LASTING if kind in LASTING)
        marks = ",".join("?" * len(kinds))
        model = embeddings.identity
        missing = base.execute(
            "SELECT d.id, d.title, d.questions, d.text FROM documents AS d "
            "LEFT JOIN vectors AS v ON v.document = d.id AND v.model = ? "
            f"WHERE v.document IS NULL AND d.kind IN ({marks})",
            (model, *kinds),
        ).fetchall()
        for start in range(0, len(missing), _MADE_AT_ONCE):
            part = missing[start : start + _MADE_AT_ONCE]
            texts = ["\n".join(row[1:])[:_BEGINNING] for row in part]
            vectors = embeddings.vectors(texts)
            base.execute("BEGIN IMMEDIATE")
            base.executemany(
                "INSERT OR REPLACE INTO vectors (document, model, vector) VALUES (?, ?, ?)",
                [(row[0], model, data) for row, data in zip(part, vectors, strict=True)],
            )
            base.execute("COMMIT")
        rows = base.execute(
            "SELECT v.document, v.vector FROM vectors AS v "
            "JOIN documents AS d ON d.id = v.document "
            f"WHERE v.model = ? AND d.kind IN ({marks}) ORDER BY d.path, d.ref",
            (model, *kinds),
        ).fetchall()
        order = embeddings.nearest(asked.query, [data for _, data in rows], asked.pool)
        return [rows[place][0] for place in order]

    def _refreshed(self, base: sqlite3.Connection) -> None:
        """Index changed files, and drop removed ones."""
        indexed = {
            path: (number, mtime, size)
            for number, path, mtime, size in base.execute("SELECT id, path, mtime, size FROM files")
        }
        sources = {str(source.path): source for source in self._sources()}
        changed = [
            source
            for path, source in sources.items()
            if indexed.get(path, (0, -1, -1))[1:] != (source.mtime, source.size)
        ]
        gone = [path for path in indexed if path not in sources]
        if not changed and not gone:
            return
        base.execute("BEGIN IMMEDIATE")
        try:
            for path in gone:
                _put(base, indexed[path][0], [])
                base.execute("DELETE FROM files WHERE path = ?", (path,))
            for source in changed:
                _take_in(base, source)
            base.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                base.execute("ROLLBACK")
            raise

    def _sources(self) -> Iterator[_Source]:
        for root in self._roots:
            yield from _memory_sources(root)
            for path in markdown_files(root):
                yield from _source(path, root.shows(path), "resource")
            for path in sorted((root.path / "agent-transcripts").glob("*.jsonl")):
                yield from _source(path, root.shows(path), "session")
        logs = sorted((self._state / "logs").glob("agent_run_*.jsonl"), reverse=True)
        for path in logs[:_LOGS]:
            yield from _source(path, f"{self._state.name}/logs/{path.name}", "log")


def identifiers(query: str) -> list[str]:
    """The words of a query that name one thing to the letter: names in code, codes, paths."""
    return list(dict.fromkeys(filter(_IDENTIFIER.fullmatch, _NAME.findall(query))))


def holds(identifier: str, text: str) -> bool:
    """True if a text has an identifier to the letter, up to case, and not as a part of a word."""
    return bool(re.search(rf"(?<!\w){re.escape(identifier)}(?!\w)", text, re.IGNORECASE))


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Several rankings as one, by reciprocal rank; the order of the first decides ties."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, number in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (_RANK + place)
    return sorted(scores, key=lambda number: -scores[number])  # stable: ties stay in that order


def _hit(base: sqlite3.Connection, number: int, words: Sequence[str]) -> Hit | None:
    row = base.execute(
        "SELECT d.kind, d.path, d.ref, d.date, d.title, d.text, f.path FROM documents AS d "
        "JOIN files AS f ON f.id = d.file WHERE d.id = ?",
        (number,),
    ).fetchone()
    if row is None:
        return None
    kind, path, ref, date, title, text, file = row
    return Hit(kind, path, ref, date, title, _snippet(text, words), file)


def as_rows(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    """Hits in the form of `workspace_get_context`."""
    rows = []
    for hit in hits:
        meta = {"document_path": hit.path, **({"document_id": hit.ref} if hit.ref else {})}
        dated = {"date": hit.date} if hit.date else {}
        rows.append(
            {"kind": hit.kind, "title": hit.title, **dated, "snippet": hit.snippet, "_meta": meta}
        )
    return rows


def _memory_sources(root: MemoryRoot) -> Iterator[_Source]:
    top = root.memory()
    kinds = {name: kind for kind, name in FILES.items()}
    for pattern in ("*/*.md", "*/*/*.md"):
        for path in sorted(top.glob(pattern)):
            if path.name in kinds and path.resolve().is_relative_to(root.path):
                scope = path.parent.relative_to(top).as_posix()
                yield from _source(path, root.shows(path), kinds[path.name], scope)


def _source(path: Path, shown: str, kind: SourceKind, scope: str = "") -> Iterator[_Source]:
    with contextlib.suppress(OSError):
        found = path.stat()
        if path.is_file():
            yield _Source(path, shown, kind, scope, found.st_mtime_ns, found.st_size)


def _take_in(base: sqlite3.Connection, source: _Source) -> None:
    try:
        with source.path.open("rb") as stream:
            data = stream.read(READ_LIMIT if source.kind in FILES else _FILE_LIMIT)
    except OSError:
        data = b""
    base.execute(
        "INSERT INTO files (path, mtime, size) VALUES (?, ?, ?) "
        "ON CONFLICT (path) DO UPDATE SET mtime = excluded.mtime, size = excluded.size",
        (str(source.path), source.mtime, source.size),
    )
    asked = "SELECT id FROM files WHERE path = ?"
    _put(base, base.execute(asked, (str(source.path),)).fetchone()[0], _documents(source, data))


def _put(base: sqlite3.Connection, file: int, documents: Iterable[_Document]) -> None:
    """Replace the documents of a file; writes only the different ones."""
    asked = "SELECT digest, id FROM documents WHERE file = ?"
    old: dict[str, int] = dict(base.execute(asked, (file,)))
    seen: set[str] = set()
    for document in documents:
        digest = document.digest
        if old.pop(digest, None) is not None or digest in seen:
            seen.add(digest)
            continue
        seen.add(digest)
        made = base.execute(
            "INSERT INTO documents (file, digest, kind, path, ref, date, title, text, questions) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                file,
                digest,
                document.kind,
                document.path,
                document.ref,
                document.date,
                document.title,
                document.text,
                document.questions,
            ),
        )
        texts = (document.title, document.text, document.questions)
        base.execute(
            "INSERT INTO words (rowid, title, text, questions) VALUES (?, ?, ?, ?)",
            (made.lastrowid, *map(_spaced, texts)),
        )
    for number in old.values():
        asked = "SELECT title, text, questions FROM documents WHERE id = ?"
        row = base.execute(asked, (number,)).fetchone()
        base.execute(
            "INSERT INTO words (words, rowid, title, text, questions) "
            "VALUES ('delete', ?, ?, ?, ?)",
            (number, *map(_spaced, row)),
        )
        base.execute("DELETE FROM documents WHERE id = ?", (number,))
        base.execute("DELETE FROM vectors WHERE document = ?", (number,))


def _documents(source: _Source, data: bytes) -> Iterator[_Document]:
    if source.kind in {"decision", "lesson"}:
        return _entries(source, parse(source.kind, data, source.scope))
    text = data.decode("utf-8-sig", "replace")
    if source.kind == "resource":
        return _parts(source, source.path.stem, text)
    return _log_lines(source, text)


def _entries(source: _Source, parsed: Parsed) -> Iterator[_Document]:
    for entry in parsed.entries:
        text = plain(f"{entry.content}\n{' '.join((entry.category, *entry.tags))}")
        title = plain(entry.title)
        questions = plain("\n".join(entry.questions))
        yield _Document(source.kind, source.shown, entry.id, entry.date, title, text, questions)


def _parts(source: _Source, title: str, text: str) -> Iterator[_Document]:
    text = plain(text)
    heading = re.search(r"^(?:name:|#)[ \t]+(.+)$", text, re.MULTILINE)
    title = heading[1].strip("\"' ")[:200] if heading else title
    for number, start in enumerate(range(0, len(text), _CHUNK)):
        # Parts overlap, so that words on a border are found together.
        part = text[max(0, start - 200) : start + _CHUNK]
        yield _Document(source.kind, source.shown, str(number or ""), "", title, part)


def _log_lines(source: _Source, text: str) -> Iterator[_Document]:
    for line in Reader(text.encode("utf-8", "replace").split(b"\n")):
        data = line.value
        if data.get("type") == "prompt":
            continue
        words = plain("\n".join(_strings(data)))[:_LOG_LINE_LIMIT]
        if words.strip():
            date = str(data.get("time", ""))[:10]
            title = f"{data.get('type', '')}"
            yield _Document(source.kind, source.shown, f"line {line.number}", date, title, words)


_NO_WORDS = frozenset(
    {"type", "time", "seq", "id", "call_id", "metadata", "media_type", "usage", "$same", "$of"}
)
_JSON_TEXT = ("$json", "$compact")
"""The arguments of a call, of which a run log has the value."""


def _strings(value: Any) -> Iterator[str]:
    """The texts in a line of a log, without pictures and names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _JSON_TEXT:
                yield json.dumps(item, ensure_ascii=False)
            elif key not in _NO_WORDS and not key.startswith("image/") and key != "text/html":
                yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _spaced(text: str) -> str:
    """The text with spaces around characters of scripts without spaces between words."""
    return _CJK.sub(r" \1 ", text)


def _snippet(text: str, words: Iterable[str]) -> str:
    """The part of a text around the first of the words, in one line."""
    flat = " ".join(text.split())
    low = flat.casefold()
    places = [place for word in words if (place := low.find(word)) >= 0]
    start = max(0, min(places, default=0) - _SNIPPET // 4)
    cut = flat[start : start + _SNIPPET]
    return f"{'… ' if start else ''}{cut}{' …' if start + _SNIPPET < len(flat) else ''}"
