"""Mode `cached`: recorded replies first, then the real model, whose replies are recorded."""

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
    """A provider that replays a turn's recorded replies, and asks the model from the first miss on.

    A turn with a miss is recorded as a whole, and replaces the recording of the same conversation
    or the same task.

    Args:
        provider: The model to ask.
        path: The cassette, which need not exist yet.
        workspace: The workspace of the tools; None: the current folder.

    Attributes:
        recorder: Notes every reply, also replayed ones.
        is_asking: True from the turn's first miss on.
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
        """The origin of the turn's replies so far."""
        if self.is_asking or self.replay is None:
            return self._live
        return self.replay.source

    @property
    def tool_results(self) -> ToolRecording:
        """The recorded results of tools, which are recorded again."""
        return _CachedResults(self)

    def begin(self, messages: Sequence[Message]) -> None:
        """Start a turn with this conversation. A changed cassette is read again."""
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
        """Write the turn into the cassette if the model was asked."""
        if self.is_asking:
            self.recorder.commit()

    def notices(self) -> list[str]:
        """The notices of the replay."""
        return self.replay.notices() if self.replay is not None else []

    def _open(self) -> Replay | None:
        """A replay of the cassette; the same object while the file is unchanged."""
        if not self._path.exists():
            self._loaded = None
            return None
        stamp = self._path.stat().st_mtime_ns
        if self._loaded is None or self._loaded[0] != stamp:
            origins = [(self._path, digest_of(self._path))]
            made = Replay(load(self._path), self._path.name, self._workspace, origins=origins)
            self._loaded = stamp, made
        return self._loaded[1]


class _CachedResults:
    """Tool results of a partly replayed turn: returned as recorded, and recorded again."""

    def __init__(self, cached: Cached) -> None:
        self._cached = cached

    @property
    def _replayed(self) -> ToolRecording | None:
        is_replaying = not self._cached.is_asking and self._cached.replay is not None
        return self._cached.replay.tool_results if is_replaying and self._cached.replay else None

    def lookup(self, key: CallKey) -> Remembered | None:
        recorded = self._replayed.lookup(key) if self._replayed else None
        return recorded and self._cached.recorder.tool_results.keep(recorded)

    def record(self, key: CallKey, result: Remembered) -> Remembered:
        recorded = self._replayed.record(key, result) if self._replayed else result
        recorder = self._cached.recorder.tool_results
        return recorder.record(key, result) if recorded is result else recorder.keep(recorded)

    def leftovers(self) -> frozenset[Path]:
        return self._replayed.leftovers() if self._replayed else frozenset()

    def files(self, changes: Sequence[FileChange], rewritten: Iterable[str]) -> list[FileChange]:
        recorded = self._replayed.files(changes, rewritten) if self._replayed else list(changes)
        return self._cached.recorder.tool_results.files(recorded, rewritten)
