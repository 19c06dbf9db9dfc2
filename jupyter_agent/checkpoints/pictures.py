"""What is kept of a workspace before code runs, and what is seen to be different afterwards."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_agent.checkpoints.journal import Record, before_line, left_line, notice_line
from jupyter_agent.checkpoints.scan import (
    Picture,
    Stamp,
    differences,
    from_json,
    to_json,
)
from jupyter_agent.checkpoints.states import ABSENT, MOVED, State, look, stat_mark
from jupyter_agent.workspace import open_private

PICTURE = "picture.json"
KNOWN = "known.json"
Known = Mapping[str, tuple[Stamp, str]]
AFTER_THE_END = "the kernel stopped while code ran, and it was changed after that"
NOT_IN_ADVANCE = "it was not kept before code ran"
_PATIENCE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A picture of the workspace with the digests of what was kept of it."""

    picture: Picture
    digests: Mapping[str, str]

    def state(self, path: str) -> State:
        """What was at the path when the picture was taken."""
        stamp = self.picture.files.get(path)
        if stamp is None:
            return ABSENT
        digest = self.digests.get(path)
        if digest is None:
            mark = stat_mark(stamp.size, stamp.modified, stamp.inode)
            return State(mark, stamp.mode, stamp.size, why=NOT_IN_ADVANCE)
        kind = "link" if State(mode=stamp.mode).is_link else "content"
        return State(f"{kind}:{digest}", stamp.mode, stamp.size, "blob")

    def is_like(self, other: Kept) -> bool:
        """Whether the other one would restore the same."""
        return self.digests == other.digests and self.picture.is_like(other.picture)

    def save(self, folder: Path) -> None:
        data = {"picture": to_json(self.picture), "digests": self.digests}
        _replace(folder / PICTURE, data)


def load_picture(folder: Path) -> Kept | None:
    """The picture in a record's folder; None where there is none."""
    try:
        data = json.loads((folder / PICTURE).read_bytes())
        return Kept(from_json(data["picture"]), dict(data["digests"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pictured_digests(folder: Path) -> set[str]:
    kept = load_picture(folder)
    return set(kept.digests.values()) if kept else set()


def save_known(folder: Path, known: Known) -> None:
    _replace(folder / KNOWN, known)


def load_known(folder: Path) -> dict[str, tuple[Stamp, str]]:
    """Digests of the workspace's files as they were last seen."""
    try:
        data = json.loads((folder / KNOWN).read_bytes())
        return {path: (Stamp(*stamp), str(digest)) for path, (stamp, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def changed_lines(
    root: Path, record: Record, before: Kept, after: Picture, stopped: int | None = None
) -> Iterator[dict[str, Any]]:
    """The lines for a journal that say what differs between a picture and a later one.

    Args:
        root: The workspace's.
        record: What the journal says so far.
        before: The picture from before the code ran.
        after: The one from after.
        stopped: When the kernel was last seen alive, in nanoseconds, where it stopped meanwhile:
            what changed after that, somebody else changed.
    """
    found = differences(before.picture, after, root)
    places = {_identity(after.files[path]): path for path in found.made}
    for path in (*found.made, *found.changed, *found.gone):
        moved = places.get(_identity(before.picture.files.get(path)), "")
        yield from _lines(root, record, before, path, after.files.get(path), stopped, moved)


def _lines(
    root: Path,
    record: Record,
    before: Kept,
    path: str,
    stamp: Stamp | None,
    stopped: int | None,
    moved: str,
) -> Iterator[dict[str, Any]]:
    try:
        now = look(root / path)
    except OSError:
        return
    old, entry = before.state(path), record.entries.get(path)
    if moved and not now.is_there and old.is_there and not old.kept:
        old = replace(old, kept=f"{MOVED}/{moved}", why="")
    if entry is not None and now.mark == entry.after:
        return
    if entry is None:
        if _is_untouched(old, now, before.picture.files.get(path), stamp):
            return
        folders = 0 if old.is_there else _new_folders(path, before.picture)
        yield before_line(path, old, folders)
        if old.why:
            yield notice_line(f"{path}: cannot be restored, since {old.why}")
    if stopped is not None and _latest(root / path, stamp) > stopped + _PATIENCE:
        yield {"line": "unclear", "path": path, "why": AFTER_THE_END}
    else:
        yield left_line(path, now)


def _identity(stamp: Stamp | None) -> Stamp | None:
    return stamp._replace(changed=0) if stamp else None


def _is_untouched(old: State, now: State, then: Stamp | None, stamp: Stamp | None) -> bool:
    if old.kept or not old.is_there:
        return old.is_same(now)
    return then is not None and stamp is not None and then.is_like(stamp)


def _new_folders(path: str, before: Picture) -> int:
    above = path.split("/")[:-1]
    folders = ("/".join(above[:count]) for count in range(1, len(above) + 1))
    return sum(folder not in before.folders for folder in folders)


def _latest(path: Path, stamp: Stamp | None) -> int:
    """When a path changed last: of a file that is gone, when its folder did."""
    if stamp is not None:
        return stamp.latest
    for folder in path.parents:
        try:
            return os.lstat(folder).st_mtime_ns
        except OSError:
            continue
    return 0


def _replace(path: Path, data: Any) -> None:
    """Put JSON in a file's place. What is lost with the power is made anew, so it is not synced."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    with open_private(temporary, "xb") as stream:
        stream.write(json.dumps(data, separators=(",", ":")).encode())
    temporary.replace(path)
