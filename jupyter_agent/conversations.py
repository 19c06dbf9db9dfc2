"""Conversations on disk: each message as it becomes part of the history, for a resume.

One file of JSON lines for each notebook, `sessions/<notebook>.jsonl`, for all its sessions:

    {"conversation": 1, "package": …, "notebook": …}
    {"line": "message", "session": …, "message": …}
    {"line": "replace", "session": …, "from": 3, "messages": […]}   the history from there on
    {"line": "reset", "session": …}
    {"line": "turn", "session": …, "stop_reason": …, "usage": …, "plan": […], "variables": […]}

The file is appended to, one write for what comes at once. Cut at any byte it is still a
conversation: a line that is not whole counts as not written, and what comes after it starts on a
line of its own. Secrets are taken out. Pictures are kept, since a model that goes on has to see
what it saw, but only up to a size each and in all.

A kernel holds the lock of its file for as long as it lives. A second kernel of the same notebook
writes to `<notebook>-2.jsonl`, and each resumes what its own file holds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from jupyter_agent.codec import message_from_json, message_to_json
from jupyter_agent.events import TurnStop
from jupyter_agent.history import repair
from jupyter_agent.kernel.describe import one_line
from jupyter_agent.kernel.describe.anatomy import module_name, type_name
from jupyter_agent.kernel.describe.parts import inert
from jupyter_agent.kernel.describe.parts import name as inert_name
from jupyter_agent.messages import JsonObject, Message, Text, Usage
from jupyter_agent.redact import redact_json, secret_values
from jupyter_agent.version import __version__
from jupyter_agent.workspace import atomic_write, private_folder

FORMAT = 1
PICTURE_CHARACTERS = 1_500_000
"""A picture whose base64 is longer is left out."""
PICTURES_CHARACTERS = 20_000_000
"""Of all pictures of a file together; later ones are left out."""
NO_PICTURE = "(a picture that was not kept with the conversation)"
NOT_STORED = "(a message that could not be stored)"
_MOST_KERNELS = 20
_MOST_VARIABLES = 500
_TOLD = 60
_WASTE = 1_000_000
_LONGEST_NAME = 120

Level = Literal["none", "names", "schema", "sample"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable as it was, without its value: `summary` is the headline of its description."""

    name: str
    type: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, and what there was then.

    `plan` has the items of the to-do list as `{"text": …, "state": …}`.
    """

    stop_reason: TurnStop
    provider: str
    model: str
    usage: Usage
    plan: tuple[JsonObject, ...] = ()
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation as the file has it. `history` is valid for every provider.

    `is_unfinished` says that the last turn was broken off by the end of its kernel. `skipped` is
    the number of lines that could not be read.
    """

    history: tuple[Message, ...] = ()
    turns: tuple[TurnEnd, ...] = ()
    is_unfinished: bool = False
    skipped: int = 0

    @property
    def plan(self) -> tuple[JsonObject, ...]:
        return self.turns[-1].plan if self.turns else ()

    @property
    def usages(self) -> tuple[Usage, ...]:
        return tuple(turn.usage for turn in self.turns)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables at the end of the last turn that ended."""
        return self.turns[-1].variables if self.turns else ()


class Conversations:
    """The file of one notebook's conversations. Nothing here stops a turn.

    Args:
        folder: The folder `sessions` of the state folder; it is made with the first message.
        notebook: The notebook's path from the workspace's root, or empty where it is not known.

    Attributes:
        problem: Why nothing is written any more; empty as long as it is.
        notices: What a person should know: files that were moved aside.
    """

    def __init__(self, folder: Path, notebook: str) -> None:
        self.problem = ""
        self.notices: list[str] = []
        self.path: Path | None = None
        self._folder = folder
        self._notebook = notebook
        self._lock: FileLock | None = None
        self._found: dict[str, _Session] = {}
        self._written: dict[str, list[Message]] = {}
        self._size = 0
        self._pictures = 0
        self._secrets: tuple[str, ...] = ()

    # Reading -------------------------------------------------------------------------------------

    def load(self, session: str = "default") -> Stored:
        """The conversation that the file held when this kernel first used it.

        What this kernel goes on to keep for the session continues it.
        """
        self._use()
        found = self._found.get(session)
        if found is None:
            return Stored()
        if session in self._written:
            # This kernel has begun another one meanwhile, which now follows the stored one.
            self._written[session] = [_ANOTHER]
        else:
            self._written[session] = list(found.messages)
        history = tuple(repair(found.messages))
        return Stored(history, tuple(found.turns), found.in_turn, found.skipped)

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions of which the file held something."""
        self._use()
        return tuple(name for name, found in self._found.items() if found.messages)

    # Writing -------------------------------------------------------------------------------------

    def keep(self, session: str, history: Sequence[Message]) -> None:
        """The session's history is this now: what is new in it is written.

        Cheap where nothing is new, so that it may be called with each event.
        """
        written = self._written.get(session)
        same = _common(written or (), history)
        if written is not None and same == len(written) == len(history):
            return
        self._secrets = secret_values()  # a key may have been configured meanwhile
        lines: list[dict[str, Any]] = []
        if written is None and self._holds(session):
            lines.append({"line": "reset", "session": session})
        if written is None or same == len(written):
            messages = map(self._stored, history[same:])
            lines += [{"line": "message", "session": session, "message": m} for m in messages]
        else:
            rest = [self._stored(message) for message in history[same:]]
            lines.append({"line": "replace", "session": session, "from": same, "messages": rest})
        if self._append(lines):
            self._written[session] = list(history)

    def end_turn(self, session: str, end: TurnEnd) -> None:
        """A turn has ended. It is on the disk when this returns."""
        data = asdict(end)
        data["variables"] = [list(asdict(each).values()) for each in end.variables]
        self._append([{"line": "turn", "session": session, **self._redacted(data)}], durable=True)

    def reset(self, session: str) -> None:
        """The session's conversation is forgotten."""
        if session in self._written or self._holds(session):
            self._append([{"line": "reset", "session": session}])
        self._found.pop(session, None)
        self._written[session] = []

    def close(self) -> None:
        """Let another kernel have the file."""
        if self._lock is not None:
            self._lock.release()
        self._lock = self.path = None

    def _holds(self, session: str) -> bool:
        self._use()
        return session in self._found

    def _stored(self, message: Message) -> dict[str, Any]:
        """A message as it is written: without secrets and without pictures that are too large."""
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
            return block  # base64: no words, in which a key might be found by chance
        if block["type"] == "tool_result":
            inner = [self._stored_block(each) for each in block["content"]]
            rest = redact_json({**block, "content": []}, self._secrets)
            return {**rest, "content": inner}
        redacted: dict[str, Any] = redact_json(block, self._secrets)
        # A signature covers the very words: a provider refuses others.
        return None if block["type"] == "thinking" and redacted != block else redacted

    def _append(self, lines: Sequence[Mapping[str, Any]], durable: bool = False) -> bool:
        self._use()
        if self.problem or self.path is None:
            return False
        text = "".join(_as_line(line) for line in lines)
        try:
            if not self._is_as_left():
                self._begin_again()
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
            with os.fdopen(descriptor, "r+b", buffering=0) as stream:
                stream.write((b"\n" if _is_torn(stream) else b"") + text.encode())
                if durable:
                    os.fsync(stream.fileno())
                self._size = os.fstat(stream.fileno()).st_size
        except OSError as error:
            self.problem = f"The conversation could not be kept: {error.strerror or error}."
            return False
        return True

    def _is_as_left(self) -> bool:
        """Whether the file holds at least what was written to it."""
        assert self.path is not None
        try:
            return self.path.stat().st_size >= self._size
        except FileNotFoundError:
            return False

    def _begin_again(self) -> None:
        """Somebody removed the file, or a part of it: what this kernel has is written anew."""
        assert self.path is not None
        data = _as_line(self._header())
        for session, messages in self._written.items():
            kept = [self._stored(message) for message in messages if message is not _ANOTHER]
            data += _as_line({"line": "replace", "session": session, "from": 0, "messages": kept})
        atomic_write(self.path, data.encode())

    # The file ------------------------------------------------------------------------------------

    def _use(self) -> None:
        """Take the first file of this notebook that no other kernel uses, and read it."""
        if self.path is not None or self.problem:
            return
        try:
            private_folder(self._folder)
            self.path = self._free_path()
            data = self.path.read_bytes() if self.path.exists() else b""
            if data and not _is_ours(data):
                self._move_aside(self.path)
                data = b""
            if b"\n" not in data:
                data = _as_line(self._header()).encode()
                atomic_write(self.path, data)
            self._found = _read(data)
            self._size = len(data)
            live = sum(found.size for found in self._found.values())
            if len(data) - live > max(_WASTE, live):
                self._rewrite(self.path)
            self._pictures = _pictures(self._found)
        except OSError as error:
            self.problem = f"The conversation cannot be kept: {error.strerror or error}."

    def _free_path(self) -> Path:
        stem = file_stem(self._notebook)
        for number in range(1, _MOST_KERNELS + 1):
            path = self._folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
            lock = FileLock(f"{path}.lock", mode=0o600, thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            self._lock = lock
            return path
        raise OSError(None, f"{_MOST_KERNELS} kernels of this notebook run already")

    def _move_aside(self, path: Path) -> None:
        time = datetime.now(UTC).strftime("%Y%m%d_%H%M%S_%f")
        aside = path.with_name(f"{path.name}.corrupt-{time}")
        path.rename(aside)
        self.notices.append(
            f"{path.name} is no conversation that this version can read. It was moved to "
            f"{aside.name}, and a new one begins."
        )

    def _rewrite(self, path: Path) -> None:
        """Write the file anew without what was replaced or forgotten."""
        lines = [_as_line(self._header())]
        for session, found in self._found.items():
            turns = [
                {"line": "turn", "session": session, **_turn_to_json(turn, found.turns[-1])}
                for turn in found.turns
            ]
            messages = [message_to_json(message) for message in found.messages]
            whole = {"line": "replace", "session": session, "from": 0, "messages": messages}
            open_turn = {"line": "replace", "session": session, "from": len(messages)}
            lines += map(_as_line, [whole, *turns])
            if found.in_turn:
                lines.append(_as_line({**open_turn, "messages": []}))
        data = "".join(lines).encode()
        atomic_write(path, data)
        self._size = len(data)

    def _header(self) -> dict[str, Any]:
        return {"conversation": FORMAT, "package": __version__, "notebook": self._notebook}


_ANOTHER = Message("user", (Text("\0another conversation"),))
"""Stands for messages in the file that are no part of the history any more."""


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
class _Session:
    """What a file holds of one session. `size` is about what its lines take."""

    messages: list[Message] = field(default_factory=list)
    turns: list[TurnEnd] = field(default_factory=list)
    in_turn: bool = False
    skipped: int = 0
    size: int = 0
    sizes: list[int] = field(default_factory=list)

    def take(self, line: Mapping[str, Any], length: int) -> None:
        """Add what a line says. Raises ValueError, KeyError or TypeError where it says nothing."""
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


def _read(data: bytes) -> dict[str, _Session]:
    """What the whole lines after the header say, by session."""
    found: dict[str, _Session] = {}
    skipped = 0
    for raw in data.split(b"\n")[1:]:
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            session = str(line["session"])
            if line["line"] == "reset":
                found.pop(session, None)
                continue
            read = found.get(session) or _Session()
            read.take(line, len(raw))
            found[session] = read
        except (ValueError, KeyError, TypeError, RecursionError):
            skipped += 1  # torn by a crash, or from another version
    for read in found.values():
        read.skipped = skipped
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
    )


def _turn_to_json(turn: TurnEnd, last: TurnEnd) -> dict[str, Any]:
    """A turn for a file that is written anew: only the last one needs what there was then."""
    data = asdict(turn)
    data["variables"] = [list(asdict(each).values()) for each in turn.variables]
    return data if turn is last else {**data, "plan": [], "variables": []}


def _as_line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) + "\n"


def _is_ours(data: bytes) -> bool:
    """Whether a file is one of ours, or the first bytes of one."""
    first, newline, _ = data.partition(b"\n")
    if not newline:
        beginning = _as_line({"conversation": FORMAT}).rstrip("}\n").encode()
        return first.startswith(beginning) or beginning.startswith(first)
    try:
        header = json.loads(first)
        return isinstance(header, dict) and header.get("conversation") == FORMAT
    except ValueError:
        return False


def _is_torn(stream: Any) -> bool:
    """Whether a file's last line has no end."""
    if stream.seek(0, os.SEEK_END) == 0:
        return False
    stream.seek(-1, os.SEEK_END)
    return bool(stream.read(1) != b"\n")


def _common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages at the start are the same."""
    both = min(len(one), len(other))
    # In C, and by identity where they are the very same, as after nearly every event.
    if list(one[:both]) == list(other[:both]):
        return both
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a is not b), min(len(one), len(other)))


def _pictures(found: Mapping[str, _Session]) -> int:
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
    """The variables as they are kept: name, type and form, no values; the newest where many."""
    kept = list(variables.items())[-_MOST_VARIABLES:]
    return tuple(
        Variable(inert_name(name), _type(value), one_line(value, "schema")) for name, value in kept
    )


def gone(stored: Sequence[Variable], now: Mapping[str, object], level: Level = "schema") -> str:
    """What to tell a model that goes on in another kernel: which variables are not as they were.

    Args:
        stored: The variables of the earlier kernel.
        now: The variables of this one.
        level: What may be told (`context.detail`).
    """
    if level == "none":
        return ""
    missing = [each for each in stored if each.name not in now]
    other = [each for each in stored if each.name in now and _type(now[each.name]) != each.type]
    lines = ["This conversation goes on in a new kernel."]
    if missing:
        lines.append("These variables of the earlier kernel do not exist any more:")
        lines += _told(missing, level)
    if other:
        lines.append("These variables are of another type now:")
        lines += [
            f"- {inert(each.name)}: was {inert(each.type)}, is {_type(now[each.name])}"
            for each in other[:_TOLD]
        ]
    if len(lines) == 1:
        lines.append("It has all variables of the earlier one by name; their values may differ.")
    return "\n".join(lines)


def _told(variables: Sequence[Variable], level: Level) -> Iterator[str]:
    for each in variables[-_TOLD:]:
        what = each.type if level == "names" else each.summary or each.type
        yield f"- {inert(each.name)}: {inert(what)}"
    if len(variables) > _TOLD:
        yield f"- and {len(variables) - _TOLD} more"


def _type(value: object) -> str:
    cls = type(value)
    library = ""
    with suppress(Exception):
        library = module_name(cls).partition(".")[0]
    name = type_name(cls)
    return name if library in ("", "builtins", "__main__") else f"{inert(library)}.{name}"
