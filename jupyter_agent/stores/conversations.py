"""Saves conversations to disk message by message, for a resume in a later kernel.

One file of JSON lines for each notebook, `sessions/<notebook>.jsonl`, for all its sessions:

    {"conversation": 1, "package": …, "notebook": …, "id": …, "mark": …}
    {"line": "message", "session": …, "message": …}
    {"line": "replace", "session": …, "from": 3, "messages": […]}   the history from there on
    {"line": "reset", "session": …}
    {"line": "turn", "session": …, "stop_reason": …, "usage": …, "plan": […], "variables": […]}

The file is appended to, with one write for the lines of one event. Cut at any byte it is still a
conversation: an unfinished line counts as not written, and the next write starts a new line.
Secrets are removed. Pictures are kept, since a resumed model must see them again, up to a size
each and in all.

A kernel holds the lock of its file for as long as it lives. A second kernel of the same notebook
writes to `<notebook>-2.jsonl`, and each resumes what its own file holds.

A failed write is tried again with the next event, until the file holds the whole conversation. The
file is a fold of the history and not of events: compaction and resume change the history, and no
event holds that change.

The `mark` is the user's signature of the file's id and place: a file without it came with the
folder, and no conversation is resumed from it unless the user asks for it.
"""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from filelock import FileLock, Timeout

from jupyter_agent.core.codec import message_from_json, message_to_json
from jupyter_agent.core.events import TurnStop
from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import JsonObject, Message, Text, Usage
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.files import trust
from jupyter_agent.files.atomic import atomic_write, ordinary, private_folder
from jupyter_agent.files.jsonl import Reader, Upkeep, append, decode, encode
from jupyter_agent.files.shared import set_aside
from jupyter_agent.kernel.context import Level
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.kernel.describe.introspection import module_name, type_name
from jupyter_agent.kernel.describe.parts import inert
from jupyter_agent.kernel.describe.parts import name as inert_name
from jupyter_agent.version import __version__

FORMAT = 1
PICTURE_CHARACTERS = 1_500_000
"""A picture whose base64 is longer is left out."""
PICTURES_CHARACTERS = 20_000_000
"""Of all pictures of a file together; later ones are left out."""
NO_PICTURE = "(a picture that was not kept with the conversation)"
NOT_STORED = "(a message that could not be stored)"
_MOST_KERNELS = 20
_MOST_LOOKED_AT = 200
_LONGEST_HEADER = 10_000
_MOST_VARIABLES = 500
_MOST_LISTED = 60
_WASTE = 1_000_000
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable without its value: `summary` is the headline of its description."""

    name: str
    type: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, with the plan and the variables at that moment.

    `plan` has the items of the to-do list as `{"text": …, "state": …}`. `unanswered` is the
    number of turns up to this one to which no model replied, and that no later task replaced.
    `plan_waits` is True if a turn has ended with a plan that no later one has carried out.
    """

    stop_reason: TurnStop
    provider: str
    model: str
    usage: Usage
    plan: tuple[JsonObject, ...] = ()
    variables: tuple[Variable, ...] = ()
    unanswered: int = 0
    plan_waits: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation from its file. `history` is valid for every provider.

    `is_unfinished` is True if the end of the kernel broke off the last turn. `skipped` is the
    number of unreadable lines.
    """

    history: tuple[Message, ...] = ()
    turns: tuple[TurnEnd, ...] = ()
    is_unfinished: bool = False
    skipped: int = 0

    @property
    def plan(self) -> tuple[JsonObject, ...]:
        return self.turns[-1].plan if self.turns else ()

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables at the end of the last finished turn."""
        return self.turns[-1].variables if self.turns else ()

    @property
    def unanswered(self) -> int:
        """The number of turns at the end of the history to which no model replied."""
        return self.turns[-1].unanswered if self.turns and not self.is_unfinished else 0


class Conversations:
    """The file of one notebook's conversations. No failure here stops a turn.

    A failed write is repeated by the next call of `keep` or `end_turn`: the whole conversation is
    still in memory.

    Args:
        folder: The folder `sessions` of the state folder; made with the first message.
        notebook: The notebook's path from the workspace's root, or empty if it is unknown.
        prepare: Makes the parent of `folder`. Raises `OSError`.

    Attributes:
        path: The file; None before its first use.
    """

    def __init__(
        self, folder: Path, notebook: str, prepare: Callable[[], object] = lambda: None
    ) -> None:
        self.path: Path | None = None
        self._folder = folder
        self._notebook = notebook
        self._prepare = prepare
        self._upkeep = Upkeep("The conversation", "saved")
        self._lock: FileLock | None = None
        self._id = ""
        self._found: dict[str, _StoredSession] = {}
        self._is_foreign = False
        # True if a new file replaces the foreign one at the first save.
        self._to_move_aside = False
        self._live: dict[str, _LiveSession] = {}
        # Ends of turns whose write failed, each with its session.
        self._late: list[tuple[str, dict[str, Any]]] = []
        # True if the next save writes the whole file in place of an append.
        self._to_rewrite = False
        self._size = 0
        self._pictures = 0
        self._secrets: tuple[str, ...] = ()

    # Reading -------------------------------------------------------------------------------------

    def load(self, session: str = "default", trusted: bool = False) -> Stored:
        """The conversation that the file held when this kernel first used it.

        Later messages of this kernel's session continue it.

        Args:
            session: The session's name.
            trusted: True accepts a file of any origin.
        """
        stored = self.look(session)
        if session not in self._found or (self._is_foreign and not trusted):
            return Stored()
        if self._is_foreign:
            self._is_foreign = self._to_move_aside = False
            self._to_rewrite = True  # signed by this user
        found = self._found[session]
        if own := self._live.get(session):
            # This kernel has begun a conversation meanwhile, which follows the stored one.
            own.ends[:0] = found.turns
            self._to_rewrite = True
        else:
            self._live[session] = _LiveSession(
                list(found.messages), list(found.messages), list(found.turns), found.in_turn
            )
        return stored

    def look(self, session: str = "default") -> Stored:
        """The conversation of `load`, of any origin, without continuing it."""
        self._use()
        found = self._found.get(session)
        if found is None:
            return Stored()
        history = tuple(repair(found.messages))
        return Stored(history, tuple(found.turns), found.in_turn, found.skipped)

    @property
    def is_foreign(self) -> bool:
        """True if this user did not write the file in this folder."""
        self._use()
        return self._is_foreign

    @property
    def sessions(self) -> tuple[str, ...]:
        """The names of the sessions in the file at its first use."""
        self._use()
        return tuple(name for name, found in self._found.items() if found.messages)

    def take_notices(self) -> list[str]:
        """The notices since the last call."""
        return self._upkeep.take_notices()

    @property
    def problem(self) -> str:
        """Why the file lacks a part of the conversation; empty if it is complete."""
        return self._upkeep.reason

    # Writing -------------------------------------------------------------------------------------

    def keep(self, session: str, history: Sequence[Message]) -> None:
        """Write the new messages of the session's history.

        Cheap if there are none, so that it may be called with each event.
        """
        kept = self._live.setdefault(session, _LiveSession())
        wanted = kept.wanted
        if wanted is None or not len(wanted) == len(history) == _common(wanted, history):
            kept.wanted = list(history)
            kept.in_turn = kept.in_turn or bool(history)
        elif kept.written is wanted and not self.problem:
            return
        self._save()

    def end_turn(self, session: str, end: TurnEnd) -> None:
        """Write the end of a turn. It is on the disk on return, unless there is a `problem`."""
        kept = self._live.setdefault(session, _LiveSession())
        kept.in_turn = False
        kept.ends = [*(replace(each, plan=(), variables=()) for each in kept.ends), end]
        line = {"line": "turn", "session": session, **_turn_to_json(end, end)}
        if not self._save([line], durable=True):
            self._late.append((session, line))

    def reset(self, session: str) -> None:
        """Forget the session's conversation."""
        is_there = session in self._live or self._holds(session)
        self._found.pop(session, None)
        self._late = [(name, line) for name, line in self._late if name != session]
        self._live[session] = _LiveSession(wanted=[], to_reset=is_there)
        if is_there:
            self._save()

    def texts(self) -> Iterator[str]:
        """All texts of this kernel's sessions, in pieces."""
        for kept in self._live.values():
            for message in kept.wanted or ():
                for block in message.blocks:
                    yield getattr(block, "text", "") or getattr(block, "arguments", "")

    def close(self) -> None:
        """Release the file for other kernels."""
        if self.problem:
            self._save()
        if self._lock is not None:
            self._lock.release()
        self._lock = self.path = None

    def _holds(self, session: str) -> bool:
        self._use()
        return session in self._found

    def _stored(self, message: Message) -> dict[str, Any]:
        """The JSON of a message without secrets and without oversized pictures."""
        try:
            data = message_to_json(message)
        except Exception:
            data = message_to_json(Message(message.role, (Text(NOT_STORED),)))
        blocks = (self._stored_block(block) for block in data["blocks"])
        return {**data, "blocks": [block for block in blocks if block is not None]}

    def _redacted(self, data: dict[str, Any]) -> dict[str, Any]:
        self._secrets = secret_values(also=self._secrets)
        redacted: dict[str, Any] = redact_json(data, self._secrets)
        return redacted

    def _stored_block(self, block: dict[str, Any]) -> dict[str, Any] | None:
        if block["type"] == "image":
            length = len(block["data"])
            if length > PICTURE_CHARACTERS or self._pictures + length > PICTURES_CHARACTERS:
                return {"type": "text", "text": NO_PICTURE}
            self._pictures += length
            return block  # base64: a key found there is chance
        if block["type"] == "tool_result":
            inner = [self._stored_block(each) for each in block["content"]]
            rest = redact_json({**block, "content": []}, self._secrets)
            return {**rest, "content": inner}
        redacted: dict[str, Any] = redact_json(block, self._secrets)
        # A signature covers the exact text: a provider refuses any other.
        return None if block["type"] == "thinking" and redacted != block else redacted

    def _save(self, last: Sequence[Mapping[str, Any]] = (), durable: bool = False) -> bool:
        """Write missing lines: ends of earlier turns, next messages, finally `last`.

        Returns:
            True if the file is complete.
        """
        self._use()
        if self.path is None:
            return False
        self._secrets = secret_values()  # a key may be new since the last save
        pictures = self._pictures
        try:
            self._keep_hold()
            if self._to_rewrite or not self._is_as_left():
                data = self._contents()
                atomic_write(self.path, data)
                self._size = len(data)
            else:
                # The end of a turn comes after its messages, and before those of the next turn.
                over = [line for name, line in self._late if not self._live[name].in_turn]
                late = [line for name, line in self._late if self._live[name].in_turn]
                lines = [*late, *self._new_lines(), *over, *last]
                if lines:
                    self._size = append(self.path, map(_line, lines), durable=durable)
        except Exception as error:  # the agent's code may have patched the functions called here
            self._pictures = pictures
            self._upkeep.failed(error)
            return False
        self._written()
        return True

    def _written(self) -> None:
        """Note that the file is complete."""
        self._late.clear()
        self._to_rewrite = False
        for kept in self._live.values():
            kept.written, kept.to_reset = kept.wanted, False
        self._upkeep.succeeded()

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """The lines for the sessions' messages that the file lacks."""
        for session, kept in self._live.items():
            if kept.to_reset or (kept.written is None and session in self._found):
                yield {"line": "reset", "session": session}
            if kept.wanted is None or kept.wanted is kept.written:
                continue
            written = kept.written or []
            same = _common(written, kept.wanted)
            rest = [self._stored(message) for message in kept.wanted[same:]]
            if same < len(written):
                yield {"line": "replace", "session": session, "from": same, "messages": rest}
            else:
                for each in rest:
                    yield {"line": "message", "session": session, "message": each}

    def _contents(self) -> bytes:
        """The whole content of the file, from this kernel's memory."""
        others = {} if self._is_foreign else self._found
        others = {name: found for name, found in others.items() if name not in self._live}
        self._pictures = _pictures(others)
        lines = [self._header()]
        for session, found in others.items():
            messages = [message_to_json(message) for message in found.messages]
            lines += _session_lines(session, messages, found.turns, found.in_turn)
        for session, kept in self._live.items():
            messages = [self._stored(message) for message in kept.wanted or ()]
            lines += _session_lines(session, messages, kept.ends, kept.in_turn)
        return b"".join(_line(each) + b"\n" for each in lines)

    def _is_as_left(self) -> bool:
        """True if the file still has at least the bytes written to it."""
        assert self.path is not None
        found = ordinary(self.path)
        return found is not None and found.st_size >= self._size

    def _keep_hold(self) -> None:
        """Ensure that this kernel alone holds the file, and that this user wrote it."""
        assert self.path is not None
        is_held = self._lock is not None and _is_in_place(self._lock)
        if not is_held:  # else the folder is the one in which the lock was made
            self._prepare()
            private_folder(self._folder, follow_link=False)
        if self._lock is not None and not is_held:
            # Somebody removed the lock: another kernel may have the file by now.
            self._lock.release(force=True)
            self._lock = None
            self.path = self._free_path(self.path)
        if self._to_move_aside and trust.sign(""):
            aside = set_aside(self.path, why="foreign")
            self._upkeep.notices.append(
                f"The conversation in sessions/{self.path.name} was not written by you in this "
                f"folder, so a new one begins. It was moved to {aside.name}; "
                "%agent resume --trust brings it back in this kernel."
            )
            self._to_move_aside = False
            self._to_rewrite = True

    # The file ------------------------------------------------------------------------------------

    def _use(self) -> None:
        """Lock the first file of this notebook that no other kernel uses, and read it."""
        if self.path is not None:
            return
        try:
            self._prepare()
            private_folder(self._folder, follow_link=False)
            self._open(self._free_path())
        except Exception as error:  # as in `_save`
            if self._lock is not None:
                self._lock.release()
            self._lock = None
            self._upkeep.failed(error)

    def _open(self, path: Path) -> None:
        data = path.read_bytes() if ordinary(path) else b""
        if data and not _is_ours(data):
            aside = set_aside(path)
            self._upkeep.notices.append(
                f"{path.name} is not a conversation that this version can read. It was moved to "
                f"{aside.name}, and a new one begins."
            )
            data = b""
        if b"\n" not in data:
            self._id = secrets.token_hex(8)
            data = _line(self._header()) + b"\n"
            atomic_write(path, data)
        header = decode(data.partition(b"\n")[0]) or {}
        self._id = str(header.get("id", ""))
        self._found = _read(data)
        mark = str(header.get("mark", ""))
        self._is_foreign = bool(self._found) and not trust.is_signed(self._place, mark)
        self._to_move_aside = self._is_foreign
        self._size = len(data)
        self._pictures = _pictures(self._found)
        live = sum(found.size for found in self._found.values())
        self._to_rewrite = not self._is_foreign and len(data) - live > max(_WASTE, live)
        self.path = path
        if self._to_rewrite:
            with suppress(OSError):  # any length is allowed
                data = self._contents()
                atomic_write(path, data)
                self._size = len(data)
            self._to_rewrite = False

    @property
    def _place(self) -> str:
        """The text that the mark signs."""
        return _signed_text(self._id, self._folder)

    def _free_path(self, taken: Path | None = None) -> Path:
        """The first path that no other kernel holds.

        Args:
            taken: The path that this kernel had; if given, no other file with content is used.
        """
        stem = file_stem(self._notebook)
        for number in range(1, _MOST_KERNELS + 1):
            path = self._folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
            if taken is not None and path != taken and path.exists():
                continue
            lock = FileLock(f"{path}.lock", mode=0o600, thread_local=False)
            ordinary(Path(lock.lock_file))
            try:
                lock.acquire(timeout=0.2)  # another kernel may only look whether it is held
            except Timeout:
                continue
            if not _is_in_place(lock):  # it was removed at this moment
                lock.release()
                continue
            self._lock = lock
            return path
        raise OSError(0, f"{_MOST_KERNELS} kernels of this notebook are running already")

    def _header(self) -> dict[str, Any]:
        self._id = self._id or secrets.token_hex(8)
        mark = trust.sign(self._place)
        header = {"conversation": FORMAT, "package": __version__, "notebook": self._notebook}
        return {**header, "id": self._id, "mark": mark}


@dataclass
class _LiveSession:
    """A session that this kernel adds to.

    Attributes:
        wanted: Its messages; None before the first one.
        written: The messages in the file; None before the first save.
        ends: The ends of its turns.
        in_turn: True if messages follow the last of these ends.
        to_reset: True if the file holds an earlier conversation of the session to forget.
    """

    wanted: list[Message] | None = None
    written: list[Message] | None = None
    ends: list[TurnEnd] = field(default_factory=list)
    in_turn: bool = False
    to_reset: bool = False


def _signed_text(conversation: str, folder: Path) -> str:
    return f"session {conversation} {os.path.realpath(folder)}"


def foreign(folder: Path) -> list[str]:
    """The names of the conversations in a folder that this user did not write there."""
    if os.path.islink(folder):  # noqa: PTH114 (never raises)
        return []
    found = []
    for path in sorted(folder.glob("*.jsonl"))[:_MOST_LOOKED_AT]:
        with suppress(OSError):
            if ordinary(path) is None:
                continue
            with path.open("rb") as stream:
                header = decode(stream.readline(_LONGEST_HEADER)) or {}
                has_messages = bool(stream.read(1))
            signed = _signed_text(str(header.get("id", "")), folder)
            if has_messages and not trust.is_signed(signed, str(header.get("mark", ""))):
                found.append(path.name)
    return found


def _is_in_place(lock: FileLock) -> bool:
    """True if the locked file is the one that the next kernel will find at its path."""
    held = getattr(getattr(lock, "_context", None), "lock_file_fd", None)
    if held is None:
        return True  # filelock keeps it elsewhere
    try:
        return os.path.samestat(Path(lock.lock_file).stat(), os.fstat(held))
    except OSError:
        return False


def _session_lines(
    session: str, messages: list[dict[str, Any]], turns: Sequence[TurnEnd], in_turn: bool
) -> list[dict[str, Any]]:
    """A session in the fewest lines."""
    lines: list[dict[str, Any]] = []
    if messages or in_turn:
        lines.append({"line": "replace", "session": session, "from": 0, "messages": messages})
    lines += [
        {"line": "turn", "session": session, **_turn_to_json(turn, turns[-1])} for turn in turns
    ]
    if in_turn and turns:
        end = {"from": len(messages), "messages": []}
        lines.append({"line": "replace", "session": session, **end})
    return lines


def file_stem(notebook: str) -> str:
    """The name of a notebook's file, without its ending.

    Args:
        notebook: The notebook's path from the workspace's root, or empty.
    """
    path = notebook.removesuffix(".ipynb").replace("\\", "/").strip("/")
    name = re.sub(r'[\x00-\x1f<>:"|?*]', "_", path.replace("/", "--")).strip(" .") or "notebook"
    if name.encode("utf-8", "replace").decode() != name or len(os.fsencode(name)) > _LONGEST_NAME:
        digest = sha256(os.fsencode(path)).hexdigest()[:8]
        short = name.encode("ascii", "replace").decode().replace("?", "_")
        name = f"{short[: _LONGEST_NAME - 10]}-{digest}"
    return name


# Lines -------------------------------------------------------------------------------------------


@dataclass
class _StoredSession:
    """A session from its file, when this kernel first read it.

    Attributes:
        in_turn: True if messages follow the last end of a turn.
        skipped: The number of unreadable lines of the file.
        size: The approximate bytes of its messages.
        sizes: The approximate bytes of each message.
    """

    messages: list[Message] = field(default_factory=list)
    turns: list[TurnEnd] = field(default_factory=list)
    in_turn: bool = False
    skipped: int = 0
    size: int = 0
    sizes: list[int] = field(default_factory=list)

    def take(self, line: Mapping[str, Any], length: int) -> None:
        """Apply a line. Raises ValueError, KeyError or TypeError if it is invalid."""
        match line["line"]:
            case "message":
                self._put(len(self.messages), [message_from_json(line["message"])], length)
            case "replace":
                messages = [message_from_json(each) for each in line["messages"]]
                self._put(int(line["from"]), messages, length)
            case "turn":
                self.turns.append(_turn_from_json(line))
                self.in_turn = False
            case _:
                raise ValueError("a line of an unknown kind")

    def _put(self, start: int, messages: list[Message], length: int) -> None:
        self.messages[start:] = messages
        share = length // max(1, len(messages))
        self.sizes[start:] = [share] * len(messages)
        self.size = sum(self.sizes)
        self.in_turn = True


def _read(data: bytes) -> dict[str, _StoredSession]:
    """The sessions in the complete lines after the header, by name."""
    found: dict[str, _StoredSession] = {}
    skipped = 0
    lines = Reader(io.BytesIO(data.partition(b"\n")[2]))
    for each in lines:
        line = each.value
        try:
            session = str(line["session"])
            if line["line"] == "reset":
                found.pop(session, None)
                continue
            read = found.get(session) or _StoredSession()
            read.take(line, each.size)
            found[session] = read
        except (ValueError, KeyError, TypeError, RecursionError):
            skipped += 1  # from another version
    for read in found.values():
        read.skipped = skipped + lines.passed_over + lines.is_torn
    return found


def _turn_from_json(line: Mapping[str, Any]) -> TurnEnd:
    if line["stop_reason"] not in get_args(TurnStop):
        raise ValueError("an unknown way to end")
    usage = {each.name: int(line["usage"][each.name]) for each in fields(Usage)}
    return TurnEnd(
        line["stop_reason"],
        str(line["provider"]),
        str(line["model"]),
        Usage(**usage),
        tuple({"text": str(item["text"]), "state": str(item["state"])} for item in line["plan"]),
        tuple(Variable(*map(str, each)) for each in line["variables"]),
        int(line.get("unanswered", 0)),
        line.get("plan_waits") is True,
    )


def _turn_to_json(turn: TurnEnd, last: TurnEnd) -> dict[str, Any]:
    """The JSON of a turn's end in a rewritten file: only the last has a plan and variables."""
    data = asdict(turn)
    data["variables"] = [list(asdict(each).values()) for each in turn.variables]
    kept = data if turn is last else {**data, "plan": [], "variables": []}
    redacted: dict[str, Any] = redact_json(kept, secret_values())
    return redacted


def _line(data: Mapping[str, Any]) -> bytes:
    """A line of the file. In ASCII, since texts may hold lone surrogates."""
    return encode(data, ascii=True)


def _is_ours(data: bytes) -> bool:
    """True if the data is a file of this format, or the beginning of one."""
    first, newline, _ = data.partition(b"\n")
    if not newline:
        beginning = _line({"conversation": FORMAT}).rstrip(b"}")
        return first.startswith(beginning) or beginning.startswith(first)
    return (decode(first) or {}).get("conversation") == FORMAT


def _common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """The number of equal messages at the start."""
    both = min(len(one), len(other))
    # In C, and by identity for the very same objects, as after nearly every event.
    if list(one[:both]) == list(other[:both]):
        return both
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a is not b), min(len(one), len(other)))


def _pictures(found: Mapping[str, _StoredSession]) -> int:
    """Characters of all pictures."""
    blocks = (
        block
        for session in found.values()
        for message in session.messages
        for each in message.blocks
        for block in (each.content if each.type == "tool_result" else (each,))
    )
    return sum(len(block.data) for block in blocks if block.type == "image")


# Variables ---------------------------------------------------------------------------------------


def described(variables: Mapping[str, object]) -> tuple[Variable, ...]:
    """The variables to store: name, type and shape, no values; of many the newest."""
    kept = list(variables.items())[-_MOST_VARIABLES:]
    return tuple(
        Variable(inert_name(name), _type(value), one_line(value, "schema")) for name, value in kept
    )


def gone(stored: Sequence[Variable], current: Mapping[str, object], level: Level = "schema") -> str:
    """The text for a model that continues in another kernel: which variables are gone or changed.

    Args:
        stored: The variables of the earlier kernel.
        current: The variables of this one.
        level: The level of detail (`context.detail`).
    """
    if level == "none":
        return ""
    missing = [each for each in stored if each.name not in current]
    other = [
        each for each in stored if each.name in current and _type(current[each.name]) != each.type
    ]
    lines = ["This conversation goes on in a new kernel."]
    if missing:
        lines.append("These variables of the earlier kernel do not exist any more:")
        lines += _listed(missing, level)
    if other:
        lines.append("These variables are of another type now:")
        lines += [
            f"- {inert(each.name)}: was {inert(each.type)}, is {_type(current[each.name])}"
            for each in other[:_MOST_LISTED]
        ]
    if len(lines) == 1:
        lines.append("It has all variables of the earlier one by name; their values may differ.")
    return "\n".join(lines)


def _listed(variables: Sequence[Variable], level: Level) -> Iterator[str]:
    for each in variables[-_MOST_LISTED:]:
        what = each.type if level == "names" else each.summary or each.type
        yield f"- {inert(each.name)}: {inert(what)}"
    if len(variables) > _MOST_LISTED:
        yield f"- and {len(variables) - _MOST_LISTED} more"


def _type(value: object) -> str:
    cls = type(value)
    library = ""
    with suppress(Exception):
        library = module_name(cls).partition(".")[0]
    name = type_name(cls)
    return name if library in ("", "builtins", "__main__") else f"{inert(library)}.{name}"
