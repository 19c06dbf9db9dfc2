"""The journal of a turn or an undo, written before each change: a file of JSON lines.

    {"line": "begin", "checkpoint": 1, "id": …, "kind": "turn", "owner": …, "task": …, …}
    {"line": "before", "path": …, "state": […], "folders": 0}    what was there before
    {"line": "target", "path": …, "state": […], "folders": 0}    what an undo will put there
    {"line": "left", "path": …, "state": […], "sure": true}      what is, or will be, there
    {"line": "between", "path": …}                               somebody else changed it, too
    {"line": "unclear", "path": …, "why": …}                     it is not known who changed it
    {"line": "code", "running": true}                            code begins to run, or has ended
    {"line": "planned"}                                          an undo's plan is complete
    {"line": "notice", "text": …}
    {"line": "end"}

Each line ends with a tab and its signature, which only this person's kernels can make, and only in
this workspace: a journal that came with a folder, or from another one, is ignored. A line that a
crash has torn is skipped: the change that it announced was not begun.
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
    """One path in a journal: what a turn or an undo found there, and what it left there.

    Attributes:
        before: What was there before the first change.
        new_folders: How many of the folders above it did not exist.
        left: The marks of all that was put there, the latest last.
        target: What an undo puts there; None in a turn.
        emptied: How many of the folders above it an undo removes if they are empty afterwards.
        unclear: Why it is not known who changed it last; empty if it is known.
        sure: True if the turn was seen to change it; False if it only changed meanwhile.
    """

    before: FileVersion
    new_folders: int = 0
    left: list[str] = field(default_factory=list)
    target: FileVersion | None = None
    emptied: int = 0
    unclear: str = ""
    sure: bool = True

    @property
    def after(self) -> str:
        """The mark of what is there after the last change."""
        return self.left[-1] if self.left else self.before.mark


@dataclass
class JournalRecord:
    """A turn, an undo or a redo, as its journal says.

    Attributes:
        id: Its time and a random part; also the name of its folder.
        kind: What it is.
        owner: The notebook's name.
        task: The beginning of the task; empty for an undo.
        undoes: The ids of the records that an undo or a redo takes back.
        kernel: The id of the process that wrote it.
        entries: The paths that it changed or will change.
        notices: What cannot be restored, one line each.
        code_runs: True while code runs, and if the kernel died then.
        planned: True if the plan of an undo is complete.
        ended: True if nothing more will be written.
        failed: The paths for which an undo failed.
    """

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
        """Apply one line. Raises KeyError, TypeError or ValueError for an invalid line."""
        match line["line"]:
            case "before":
                version = from_json(line["state"])
                self.entries.setdefault(line["path"], FileEntry(version, int(line["folders"])))
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
        """The digests of the blobs that undoing it needs."""
        for entry in self.entries.values():
            for version in (entry.before, entry.target or ABSENT):
                if version.kept == "blob":
                    yield version.digest


def before_line(path: str, version: FileVersion, new_folders: int) -> dict[str, Any]:
    return {"line": "before", "path": path, "state": to_json(version), "folders": new_folders}


def target_line(path: str, version: FileVersion, emptied: int) -> dict[str, Any]:
    return {"line": "target", "path": path, "state": to_json(version), "folders": emptied}


def left_line(path: str, version: FileVersion, sure: bool = True) -> dict[str, Any]:
    return {"line": "left", "path": path, "state": to_json(version), "sure": sure}


def notice_line(text: str) -> dict[str, Any]:
    return {"line": "notice", "text": text}


BETWEEN = "it was changed by something else in the middle of the turn"


def is_restorable(workspace: Workspace, path: str) -> bool:
    """True if undo may write at a journal's path: inside of the workspace, and not protected."""
    parts = path.split("/")
    if not path or "\0" in path or Path(path).is_absolute() or {"", ".", ".."} & {*parts}:
        return False
    if os.name == "nt" and refused_on_windows(path, workspace.root):
        return False
    return not workspace.protects(workspace.root / path)


class Seal:
    """Signs the lines of journals for one person and one workspace, and checks the signatures.

    Args:
        secret: The person's key.
        root: The workspace's folder. A journal that is copied elsewhere is not valid there.
    """

    def __init__(self, secret: bytes, root: Path) -> None:
        self._secret = secret
        self._place = os.fsencode(os.path.realpath(root))

    def closed(self, record: str, line: bytes) -> bytes:
        """A line of a record's journal with its signature."""
        return line + b"\t" + trust.sign(self._signed(record, line), self._secret).encode()

    def opened(self, record: str, sealed: bytes) -> bytes:
        """A line without its signature. Raises ValueError if that is wrong."""
        line, _, seal = sealed.rpartition(b"\t")
        mark = seal.decode("ascii", "replace")
        if not trust.is_signed(self._signed(record, line), mark, self._secret):
            raise ValueError("not written by this person in this folder")
        return line

    def _signed(self, record: str, line: bytes) -> bytes:
        return b"\0".join((b"journal", self._place, record.encode(), line))


class Journal:
    """Writes a record's journal. Each line is in the file before `write` returns.

    Args:
        folder: The record's own folder; it is made.
        record: What the journal says so far; kept up to date.
        seal: Signs the lines.

    Raises:
        OSError: The journal cannot be made.
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
        """Append lines, and apply them to the record.

        Args:
            lines: Made by `before_line` and the like.
            durable: Wait until they are on the disk, so that they survive a power cut.

        Raises:
            OSError: They cannot be written. The record is unchanged.
        """
        jsonl.append(self._path, map(self._closed, lines), durable=durable)
        for line in lines:
            self.record.take(line)

    def _closed(self, line: dict[str, Any]) -> bytes:
        # ASCII, since a file name that is not UTF-8 has lone surrogates.
        return self._seal.closed(self.record.id, jsonl.encode(line, ascii=True))


def read(folder: Path, seal: Seal) -> JournalRecord | None:
    """Reads the record in a folder; None if there is none with a valid signature and format."""
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
