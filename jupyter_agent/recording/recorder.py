"""Records the replies of a model into a cassette."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path

from jupyter_agent.core.events import MessageFinished, Noticed
from jupyter_agent.core.history import turn_messages
from jupyter_agent.core.messages import JsonObject, Message, is_served
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.llm.tokens import TokenCounter
from jupyter_agent.recording import cassette as cassette_file
from jupyter_agent.recording.cassette_model import (
    Cassette,
    Decision,
    PromptFingerprint,
    RecordedCall,
    Source,
)
from jupyter_agent.recording.digests import Digests, asked
from jupyter_agent.recording.tool_results import FileRecorder


class Recorder:
    """A provider that returns another one's replies and notes them.

    Nothing is written before `commit`: a failed turn leaves the cassette unchanged.

    Args:
        provider: The model to ask.
        path: The cassette.
        workspace: The workspace of the tools; None: the current folder.

    Attributes:
        tool_results: Records the results of tools and the changes of files.
    """

    def __init__(self, provider: Model, path: Path, workspace: Workspace | None = None) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source = provider.source
        self.tool_results = FileRecorder(workspace or Workspace(Path()))
        self._provider = provider
        self._path = path
        self._root = (workspace or Workspace(Path())).root
        self._digests, self._turn_digests = Digests(self._root), Digests(self._root)
        self._counter = TokenCounter()
        self._turn: list[RecordedCall] = []
        self._waiting: list[tuple[RecordedCall, ...]] = []
        self._written: list[str] = []
        self._said: list[str] = []

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        async with aclosing(self._provider.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, MessageFinished):
                    self.note(request, part)
                # A replay on another computer fetches nothing, and must look the same.
                yield replace(part, lasting=False) if isinstance(part, Noticed) else part

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(request)

    async def close(self) -> None:
        await self._provider.close()

    def begin(self, messages: Sequence[Message] = ()) -> None:
        """Start a turn; drop the notes of a failed one."""
        self._turn.clear()
        self._said.clear()
        self.tool_results.take()
        self.tool_results.states = ()

    def decided(self, decision: Decision) -> None:
        """Note the user's decision about a call of the last reply."""
        last = self._turn[-1]
        self._turn[-1] = replace(last, decisions=(*last.decisions, decision))

    def heard(self, texts: Sequence[str]) -> None:
        """Note lines that the user typed before the next model call."""
        self._said.extend(texts)

    def commit(self) -> None:
        """Write the turn into the cassette, after earlier turns that could not be written.

        Raises:
            ConfigError: It cannot be written; the next turn tries again.
        """
        if not self._turn:
            return
        self._remember()
        turn = list(self._turn)
        turn[-1] = replace(turn[-1], said_after=tuple(self._said), files=self.tool_results.states)
        source: Source = "scripted" if self.source == "scripted" else "recorded"
        blank = Cassette(self.name, self.model, source)
        self._waiting.append(tuple(turn))
        self._turn.clear()
        while self._waiting:
            cassette_file.record(self._path, blank, self._waiting[0], self._written)
            self._written.append(self._waiting.pop(0)[0].conversation)

    def notices(self) -> list[str]:
        """No notices: a recording cannot differ from itself."""
        return []

    def note(self, request: Request, reply: MessageFinished, source: Source | None = None) -> None:
        """Note a reply; `source` is None for this provider's own."""
        self._remember()
        turn = turn_messages(request.messages)
        step = len(self._turn) + 1
        entry = RecordedCall(
            conversation=self._digests.conversation(request.messages),
            turn=self._turn_digests.conversation(turn),
            step=step,
            asked=asked(turn, self._root),
            reply=reply,
            source=source,
            said=tuple(self._said),
            told=self._fingerprint(request) if step == 1 else None,
        )
        self._said.clear()
        self._turn.append(replace(entry, schemas=_schemas(request, reply)))

    def _fingerprint(self, request: Request) -> PromptFingerprint:
        return replace(fingerprint(request), tokens=self._counter.fixed(request))

    def _remember(self) -> None:
        """Add the tool results since the last reply to that reply's entry."""
        if self._turn:
            self._turn[-1] = replace(self._turn[-1], remembered=self.tool_results.take())


def _schemas(request: Request, reply: MessageFinished) -> dict[str, JsonObject]:
    """The schemas of the MCP tools that a reply calls, since a replay asks no server for them.

    All schemas if it calls a tool that does not exist, since the error names those that do.
    """
    served = {tool.name: tool.parameters for tool in request.tools if is_served(tool.name)}
    called = {call.name for call in reply.message.tool_calls}
    if called <= {tool.name for tool in request.tools}:
        return {name: schema for name, schema in served.items() if name in called}
    return served


def fingerprint(request: Request) -> PromptFingerprint:
    """Digests of a request's system prompt and tools."""
    # Without the servers' tools: they differ between computers, and a replay asks no server.
    tools = [asdict(tool) for tool in request.tools if not is_served(tool.name)]
    return PromptFingerprint(_digest(request.system), _digest(json.dumps(tools, sort_keys=True)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
