"""Mode `cached`: what is recorded is replayed, and what is not is asked for and recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

from jupyter_agent.core.events import FileChange, ReplySource
from jupyter_agent.core.messages import JsonObject, Message, Usage
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.errors import ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette import load
from jupyter_agent.recording.cassette_model import Remembered, Source
from jupyter_agent.recording.recorder import Recorder
from jupyter_agent.recording.replay import Replay
from jupyter_agent.recording.tool_results import CallKey, ToolRecording
from jupyter_agent.recording.trusted import digest_of


class Cached:
    """A provider that replays a turn as far as it was recorded, and asks from there on.

    A turn that it had to ask for is recorded as a whole, in the place of what was recorded for
    the same conversation or the same task.

    Args:
        provider: The one that is asked.
        path: The cassette, which need not exist yet.
        workspace: Where the tools work; the current folder where it does not matter.

    Attributes:
        recorder: Notes every reply, also those that are replayed.
        is_asking: Whether the turn has come to what is not recorded.
        replayed: The tokens of the turn's replies that were replayed, which nobody pays.
    """

    def __init__(self, provider: Model, path: Path, workspace: Workspace | None = None) -> None:
        self.name = provider.name
        self.model = provider.model
        self.recorder = Recorder(provider, path, workspace)
        self.is_asking = False
        self.replayed = Usage()
        self._live: ReplySource = provider.source
        self._path = path
        self._workspace = workspace
        self._loaded: tuple[int, Replay] | None = None
        self.replay = self._open()

    @property
    def source(self) -> ReplySource:
        """Where the replies of the turn come from, as far as it has come."""
        if self.is_asking or self.replay is None:
            return self._live
        return self.replay.source

    @property
    def past(self) -> ToolRecording:
        """What is recorded of the workspace, and is taken down anew."""
        return _Both(self)

    def begin(self, messages: Sequence[Message]) -> None:
        """A new turn starts, with this conversation. A cassette that was changed is read again."""
        self.replay, self.replayed = self._open(), Usage()
        self.is_asking = self.replay is None or not self.replay.knows(messages)
        self.recorder.begin()

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        if not self.is_asking and self.replay is not None:
            try:
                entry = self.replay.entry(request)
            except ReplayMismatch:
                pass
            else:
                self.replayed += entry.reply.usage
                self.recorder.note(request, entry.reply, entry.source or self._recorded_source)
                yield entry.reply
                return
        self.is_asking = True
        async with aclosing(self.recorder.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                yield part

    @property
    def _recorded_source(self) -> Source | None:
        if self.replay is None or self.replay.source == "live":
            return None
        return self.replay.source

    def body(self, request: Request) -> JsonObject:
        return self.recorder.body(request)

    async def close(self) -> None:
        await self.recorder.close()

    def commit(self) -> None:
        """Write the turn into the cassette, where anything of it was asked for."""
        if self.is_asking:
            self.recorder.commit()

    def notices(self) -> list[str]:
        """What is worth a word about what was replayed."""
        return self.replay.notices() if self.replay is not None else []

    def _open(self) -> Replay | None:
        """The cassette as it is; the same object as long as it is the same file."""
        if not self._path.exists():
            self._loaded = None
            return None
        stamp = self._path.stat().st_mtime_ns
        if self._loaded is None or self._loaded[0] != stamp:
            origins = [(self._path, digest_of(self._path))]
            made = Replay(load(self._path), self._path.name, self._workspace, origins=origins)
            self._loaded = stamp, made
        return self._loaded[1]


class _Both:
    """The past of a turn that is partly replayed: given as recorded, and taken down again."""

    def __init__(self, cached: Cached) -> None:
        self._cached = cached

    @property
    def _recalled(self) -> ToolRecording | None:
        is_replaying = not self._cached.is_asking and self._cached.replay is not None
        return self._cached.replay.past if is_replaying and self._cached.replay else None

    def instead(self, touch: CallKey) -> Remembered | None:
        known = self._recalled.instead(touch) if self._recalled else None
        return known and self._cached.recorder.past.keep(known)

    def settle(self, touch: CallKey, now: Remembered) -> Remembered:
        known = self._recalled.settle(touch, now) if self._recalled else now
        past = self._cached.recorder.past
        return past.settle(touch, now) if known is now else past.keep(known)

    def leftovers(self) -> frozenset[Path]:
        return self._recalled.leftovers() if self._recalled else frozenset()

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        then = self._recalled.files(changes, rewritten) if self._recalled else list(changes)
        return self._cached.recorder.past.files(then, rewritten)
