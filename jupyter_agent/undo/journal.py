"""What is written down of one turn, or of one undo, before it happens: a file of JSON lines.

    {"line": "begin", "checkpoint": 1, "id": …, "kind": "turn", "owner": …, "task": …, …}
    {"line": "before", "path": …, "state": […], "folders": 0}    what was there at first
    {"line": "target", "path": …, "state": […], "folders": 0}    what an undo will put there
    {"line": "left", "path": …, "state": […], "sure": true}      what is, or will be, there
    {"line": "between", "path": …}                               somebody else changed it, too
    {"line": "unclear", "path": …, "why": …}                     it is not known who changed it
    {"line": "code", "running": true}                            code runs, or does not any more
    {"line": "planned"}                                          an undo's plan is complete
    {"line": "notice", "text": …}
    {"line": "end"}

Each line ends with a tab and its seal, which only this person's kernels can make in this workspace:
a journal that came with a folder, or from another one, counts for nothing. A line that was torn by
a crash is passed over: what it announced was not begun.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jupyter_agent.files import jsonl, trust
from jupyter_agent.files.atomic import atomic_write, ordinary, private_folder
from jupyter_agent.files.workspace import Workspace, refused_on_windows
from jupyter_agent.undo.versions import ABSENT, FileVersion, from_json, to_json

FORMAT = 2
FILE = "journal.jsonl"
_LARGEST = 256 * 1024 * 1024
Kind = Literal["turn", "undo", "redo"]


@dataclass
class FileEntry:
    """One file in a record.

    Attributes:
        before: What was there before the record's first change.
        folders: How many of the folders above it were not there.
        left: The marks of everything that the record has put there, the last one last.
        target: What an undo puts there; None in a turn.
        emptied: How many of the folders above it an undo removes where they are empty then.
        unclear: Why it is not known who changed it last; empty where it is known.
        sure: Whether the record was seen to change it: it did not just change meanwhile.
    """

    before: FileVersion
    folders: int = 0
    left: list[str] = field(default_factory=list)
    target: FileVersion | None = None
    emptied: int = 0
    unclear: str = ""
    sure: bool = True

    @property
    def after(self) -> str:
        """The mark of what the record left there."""
        return self.left[-1] if self.left else self.before.mark


@dataclass
class JournalRecord:
    """What a journal says. `owner` is the notebook's name, `kernel` the id of its process."""

    id: str
    kind: Kind = "turn"
    owner: str = ""
    task: str = ""
    undoes: tuple[str, ...] = ()
    kernel: str = ""
    entries: dict[str, FileEntry] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    code_runs: bool = False
    planned: bool = False
    ended: bool = False
    failed: tuple[str, ...] = ()

    def take(self, line: dict[str, Any]) -> None:
        """Add what one line says. Raises KeyError, TypeError or ValueError for a strange line."""
        match line["line"]:
            case "before":
                state = from_json(line["state"])
                self.entries.setdefault(line["path"], FileEntry(state, int(line["folders"])))
            case "target":
                entry = self.entries[line["path"]]
                entry.target, entry.emptied = from_json(line["state"]), int(line["folders"])
            case "left":
                entry = self.entries[line["path"]]
                entry.left.append(from_json(line["state"]).mark)
                entry.sure &= bool(line.get("sure", True))
            case "between":
                self.entries[line["path"]].unclear = BETWEEN
            case "unclear":
                self.entries[line["path"]].unclear = str(line["why"])
            case "notice":
                self.notices.append(str(line["text"]))
            case "code":
                self.code_runs = bool(line["running"])
            case "planned":
                self.planned = True
            case "end":
                self.ended, self.failed = True, tuple(map(str, line.get("failed", ())))

    def digests(self) -> Iterator[str]:
        """The contents that the record needs to be undone."""
        for entry in self.entries.values():
            for state in (entry.before, entry.target or ABSENT):
                if state.kept == "blob":
                    yield state.digest


def before_line(path: str, state: FileVersion, folders: int) -> dict[str, Any]:
    return {"line": "before", "path": path, "state": to_json(state), "folders": folders}


def target_line(path: str, state: FileVersion, folders: int) -> dict[str, Any]:
    return {"line": "target", "path": path, "state": to_json(state), "folders": folders}


def left_line(path: str, state: FileVersion, sure: bool = True) -> dict[str, Any]:
    return {"line": "left", "path": path, "state": to_json(state), "sure": sure}


def notice_line(text: str) -> dict[str, Any]:
    return {"line": "notice", "text": text}


BETWEEN = "it was changed by something else in the middle of the turn"


def is_restorable(workspace: Workspace, path: str) -> bool:
    """Whether a path of a journal is one that undo may write: inside, and no place of ours."""
    parts = path.split("/")
    if not path or "\0" in path or Path(path).is_absolute() or {"", ".", ".."} & {*parts}:
        return False
    if os.name == "nt" and refused_on_windows(path, workspace.root):
        return False
    return not workspace.protects(workspace.root / path)


class Seal:
    """Tells lines that this person's kernels wrote in one workspace from others.

    Args:
        secret: The person's.
        root: The workspace's folder. Its journals count nowhere else, also where they are copied.
    """

    def __init__(self, secret: bytes, root: Path) -> None:
        self._secret = secret
        self._place = os.fsencode(os.path.realpath(root))

    def closed(self, record: str, line: bytes) -> bytes:
        """A line of a record's journal with its seal."""
        return line + b"\t" + trust.sign(self._signed(record, line), self._secret).encode()

    def opened(self, record: str, sealed: bytes) -> bytes:
        """A line without its seal. Raises ValueError where that is wrong."""
        line, _, seal = sealed.rpartition(b"\t")
        mark = seal.decode("ascii", "replace")
        if not trust.is_signed(self._signed(record, line), mark, self._secret):
            raise ValueError("not written by this person in this folder")
        return line

    def _signed(self, record: str, line: bytes) -> bytes:
        return b"\0".join((b"journal", self._place, record.encode(), line))


class Journal:
    """A record that is being written: each line is in the file before `write` returns.

    Args:
        folder: The record's own folder; it is made.
        record: What it says so far. Lines are added to it, too.
        seal: What its lines are sealed with.
    """

    def __init__(self, folder: Path, record: JournalRecord, seal: Seal) -> None:
        self.folder = folder
        self.record = record
        self._seal = seal
        private_folder(folder)
        self._path = folder / FILE
        if not self._path.exists():
            head = {"line": "begin", "checkpoint": FORMAT, "id": record.id, "kind": record.kind}
            more = {"owner": record.owner, "task": record.task, "undoes": record.undoes}
            begin = self._closed({**head, **more, "kernel": record.kernel})
            atomic_write(self._path, begin + b"\n", private=True)

    def write(self, *lines: dict[str, Any], durable: bool = True) -> None:
        """Append lines.

        Args:
            lines: What they say.
            durable: Whether to wait until they are on the disk, where a power cut leaves them.

        Raises:
            OSError: They cannot be written; the record is then as it was.
        """
        jsonl.append(self._path, map(self._closed, lines), durable=durable)
        for line in lines:
            self.record.take(line)

    def _closed(self, line: dict[str, Any]) -> bytes:
        # In ASCII: a name that is no UTF-8 has lone surrogates.
        return self._seal.closed(self.record.id, jsonl.encode(line, ascii=True))


def read(folder: Path, seal: Seal) -> JournalRecord | None:
    """The record in a folder; None where there is none that can be understood."""
    try:
        found = ordinary(folder / FILE)
        if found is None or found.st_size > _LARGEST:
            return None
        raw = (folder / FILE).read_bytes()
    except OSError:
        return None
    record: JournalRecord | None = None
    for text in raw.split(b"\n"):
        try:
            line = jsonl.decode(seal.opened(folder.name, text)) or {}
            if record is None:
                record = _begun(line)
            else:
                record.take(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if record is None:
                return None
    return record if record and record.id == folder.name else None


def _begun(line: dict[str, Any]) -> JournalRecord:
    if line["line"] != "begin" or line["checkpoint"] != FORMAT:
        raise ValueError("not a journal of this format")
    kind: Kind = line["kind"]
    undoes = tuple(line["undoes"])
    return JournalRecord(line["id"], kind, line["owner"], line["task"], undoes, line["kernel"])
