"""Reads and writes cassettes: files with the recorded replies of a notebook, one JSON line each.

    {"cassette": 1, "package": …, "provider": …, "model": …, "source": "recorded" | "scripted"}
    {"conversation": …, "turn": …, "step": 1, "asked": [["task", …]], "reply": …, "usage": …, …}

A line has `decisions` if the user decided about the reply's calls, and `said` if the user typed
something before the request: a replay repeats them. `remembered` and `files` are the effects of
its calls and its turn on files and notes, so that a replay need not start in an empty folder;
`told` holds digests of the system prompt and the tools.

`conversation` is the digest of the whole conversation before the reply, `turn` that of the
current turn alone, `asked` lists the new items since the step before, from which a miss is
explained.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from jupyter_agent.core.codec import event_from_json, event_to_json
from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import clean
from jupyter_agent.core.redact import redact_json, secret_values
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.atomic import atomic_write
from jupyter_agent.recording.cassette_model import (
    SOURCES,
    Cassette,
    Decision,
    FileState,
    PromptFingerprint,
    RecordedCall,
    Remembered,
    Source,
)
from jupyter_agent.recording.digests import Item
from jupyter_agent.recording.trusted import is_trusted, trust_as_written
from jupyter_agent.version import __version__

FORMAT = 1
_DECISIONS = TypeAdapter(tuple[Decision, ...])
_REMEMBERED = TypeAdapter(tuple[Remembered, ...])
_FILES = TypeAdapter(tuple[FileState, ...])
_PROMPT = TypeAdapter(PromptFingerprint | None)
_SCHEMAS = TypeAdapter(dict[str, dict[str, Any]])


def load(path: Path) -> Cassette:
    """Read a cassette. Raises `ConfigError` with the file and the damaged line."""
    if path.exists() and not (
        path.is_file() or path.is_dir()
    ):  # reading a pipe would block, a device has no end
        raise ConfigError(f"{path.name} is no file. Move it away, or name another cassette.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        # Not splitlines(): JSON leaves U+2028 and U+0085 inside of a line.
        lines = [line.strip() for line in text.split("\n")]
    except FileNotFoundError:
        raise ConfigError(
            f"There is no cassette {path.name}. Record one with mode: record."
        ) from None
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path.name}, line {number}: the cassette cannot be read, since this is not UTF-8. "
            "Restore the file or record the notebook anew."
        ) from None
    except OSError as error:
        raise ConfigError(f"The cassette {path.name} cannot be read: {error}.") from None
    header = _header(path, lines)
    entries = [
        (number, _entry(path, number, line)) for number, line in enumerate(lines[1:], 2) if line
    ]
    return replace(header, turns=tuple(_by_turn(path, entries)))


def save(cassette: Cassette, path: Path) -> None:
    """Write a cassette atomically, without secrets."""
    secrets = secret_values()
    source = _weakest_source(cassette)
    header = {
        "cassette": FORMAT,
        "package": __version__,
        "provider": cassette.provider,
        "model": cassette.model,
        "source": source,
    }
    entries = (entry for turn in cassette.turns for entry in turn)
    rows = [header, *(_entry_json(_sourced(entry, cassette, source)) for entry in entries)]
    text = "".join(json.dumps(redact_json(row, secrets), ensure_ascii=False) + "\n" for row in rows)
    atomic_write(path, clean(text).encode("utf-8"))


def record(
    path: Path, blank: Cassette, turn: tuple[RecordedCall, ...], written: Collection[str]
) -> None:
    """Put one turn into the cassette at `path`, which is made if it does not exist.

    `blank` is an empty cassette with the provider and model. The header of a cassette with
    scripted replies says `scripted` until the last of them is recorded again. The written file is
    trusted, unless it keeps turns of a file that was not.
    """
    key = sha256(str(path.resolve()).encode()).hexdigest()[:16]
    try:
        lock = Path(tempfile.gettempdir()) / f"jupyter_agent-{key}.lock"
        with FileLock(lock, timeout=10, mode=0o600):
            is_own = not path.exists() or is_trusted(path)
            present = load(path) if path.exists() else blank
            stamped = tuple(replace(e, source=e.source or blank.source) for e in turn)
            updated = present.with_turn(stamped, written)
            save(replace(updated, provider=blank.provider, model=blank.model), path)
            here = Counter([*written, turn[0].conversation])
            if is_own or Counter(each[0].conversation for each in updated.turns) <= here:
                trust_as_written(path)
    except (OSError, Timeout) as error:
        raise ConfigError(
            f"The turn is done, but it could not be recorded in {path.name}: "
            f"{getattr(error, 'strerror', None) or 'another kernel holds it'}. "
            "It is tried again with the next turn."
        ) from None


def _weakest_source(cassette: Cassette) -> Source:
    """`scripted` if any reply is: the header claims only what holds for all."""
    sources = {entry.source or cassette.source for turn in cassette.turns for entry in turn}
    return "scripted" if "scripted" in (sources or {cassette.source}) else "recorded"


def _header(path: Path, lines: list[str]) -> Cassette:
    try:
        data = json.loads(lines[0])
        version = data["cassette"]
        header = Cassette(str(data["provider"]), str(data["model"]), data["source"])
        if header.source not in SOURCES or not isinstance(version, int):
            raise ValueError
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise ConfigError(
            f"{path.name} is no cassette: its first line is not a cassette header. Record it anew."
        ) from None
    if version > FORMAT:
        raise ConfigError(
            f"{path.name} has cassette format {version}; this version of the package reads up to "
            f"{FORMAT}. Update jupyter-agent-magics."
        )
    return header


def _entry(path: Path, number: int, line: str) -> RecordedCall:
    try:
        data = json.loads(line)
        reply = event_from_json({"type": "message_finished", **data["finished"]})
        if not isinstance(reply, MessageFinished):
            raise ValueError
        asked = tuple(Item(str(kind), str(text)) for kind, text in data["asked"])
        digests = data["conversation"], data["turn"]
        source = data.get("source")
        if not all(isinstance(digest, str) for digest in digests) or source not in (None, *SOURCES):
            raise ValueError
        said, after = (_texts(data.get(key, [])) for key in ("said", "said_after"))
        decisions = _decisions(data.get("decisions", []), len(reply.message.tool_calls))
        remembered = _REMEMBERED.validate_python(data.get("remembered", []))
        files = _FILES.validate_python(data.get("files", []))
        prompt = _PROMPT.validate_python(data.get("told"))
        return RecordedCall(
            conversation=digests[0],
            turn=digests[1],
            step=int(data["step"]),
            asked=asked,
            reply=reply,
            source=source,
            said=said,
            decisions=decisions,
            said_after=after,
            remembered=remembered,
            files=files,
            told=prompt,
            schemas=_SCHEMAS.validate_python(data.get("schemas", {})),
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise ConfigError(
            f"{path.name}, line {number}: not a recorded reply (damaged, or a merge conflict). "
            "Restore the file or record the notebook anew."
        ) from None


def _texts(value: object) -> tuple[str, ...]:
    """A list of texts as a tuple. Raises `ValueError` for anything else."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError
    return tuple(value)


def _decisions(value: object, calls: int) -> tuple[Decision, ...]:
    """Decisions about a reply with `calls` calls, at most one each; else raises `ValueError`."""
    decisions = _DECISIONS.validate_python(value)
    places = [decision.call for decision in decisions]
    if len(places) != len(set(places)) or not set(places) <= set(range(calls)):
        raise ValueError
    return decisions


def _sourced(entry: RecordedCall, cassette: Cassette, header: Source) -> RecordedCall:
    """The entry, with its source only if that differs from the header's."""
    source = entry.source or cassette.source
    return replace(entry, source=None if source == header else source)


def _entry_json(entry: RecordedCall) -> dict[str, Any]:
    finished = event_to_json(entry.reply)
    del finished["type"]
    return {
        "conversation": entry.conversation,
        "turn": entry.turn,
        "step": entry.step,
        "asked": [[item.kind, item.text] for item in entry.asked],
        **({"source": entry.source} if entry.source else {}),
        "finished": finished,
        **({"said": list(entry.said)} if entry.said else {}),
        **({"decisions": [asdict(d) for d in entry.decisions]} if entry.decisions else {}),
        **({"said_after": list(entry.said_after)} if entry.said_after else {}),
        **({"remembered": [_brief(r) for r in entry.remembered]} if entry.remembered else {}),
        **({"files": [_brief(f) for f in entry.files]} if entry.files else {}),
        **({"told": asdict(entry.told)} if entry.told else {}),
        **({"schemas": dict(entry.schemas)} if entry.schemas else {}),
    }


def _brief(value: Remembered | FileState) -> dict[str, Any]:
    """The fields that are not empty; most are."""
    return {key: held for key, held in asdict(value).items() if held}


def _by_turn(
    path: Path, entries: Iterable[tuple[int, RecordedCall]]
) -> list[tuple[RecordedCall, ...]]:
    """The entries grouped by turn; `entries` has each with its line's number."""
    turns: list[list[RecordedCall]] = []
    for number, entry in entries:
        if entry.step == 1:
            turns.append([])
        if not turns or entry.step != len(turns[-1]) + 1:
            raise ConfigError(
                f"{path.name}, line {number}: the steps of a turn are not whole (a line is "
                "missing, or comes twice). "
                "Restore the file or record the notebook anew."
            )
        turns[-1].append(entry)
    return [tuple(turn) for turn in turns]
