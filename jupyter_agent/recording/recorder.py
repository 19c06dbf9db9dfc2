"""A recorder: passes on the replies of a model, and writes them into a cassette."""

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
from jupyter_agent.recording import cassette as tape
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
    """A provider that passes on another one's replies and notes them.

    Nothing is written before `commit`: a turn that fails leaves the cassette as it was.

    Args:
        provider: The one that is asked.
        path: The cassette.
        workspace: Where the tools work; the current folder where it does not matter.

    Attributes:
        past: What the turn finds and leaves in the workspace.
    """

    def __init__(self, provider: Model, path: Path, workspace: Workspace | None = None) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source = provider.source
        self.past = FileRecorder(workspace or Workspace(Path()))
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
                # Another computer has nothing to fetch, and its replay must look the same.
                yield replace(part, lasting=False) if isinstance(part, Noticed) else part

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(request)

    async def close(self) -> None:
        await self._provider.close()

    def begin(self, messages: Sequence[Message] = ()) -> None:
        """A new turn starts; what a failed one left behind is dropped."""
        self._turn.clear()
        self._said.clear()
        self.past.take()
        self.past.states = ()

    def decided(self, decision: Decision) -> None:
        """Note what the person decided about a call of the last reply."""
        last = self._turn[-1]
        self._turn[-1] = replace(last, decisions=(*last.decisions, decision))

    def heard(self, texts: Sequence[str]) -> None:
        """Note what the person typed before the next call."""
        self._said.extend(texts)

    def commit(self) -> None:
        """Write the turn into the cassette, after turns that could not be written before.

        Raises:
            ConfigError: It cannot be written; the next turn tries it again.
        """
        if not self._turn:
            return
        self._remember()
        turn = list(self._turn)
        turn[-1] = replace(turn[-1], said_after=tuple(self._said), files=self.past.states)
        source: Source = "scripted" if self.source == "scripted" else "recorded"
        blank = Cassette(self.name, self.model, source)
        self._waiting.append(tuple(turn))
        self._turn.clear()
        while self._waiting:
            tape.record(self._path, blank, self._waiting[0], self._written)
            self._written.append(self._waiting.pop(0)[0].conversation)

    def notices(self) -> list[str]:
        """Nothing: what is recorded is as it is."""
        return []

    def note(self, request: Request, reply: MessageFinished, source: Source | None = None) -> None:
        """Note a reply; `source` where it is not this provider's own."""
        self._remember()
        turn = turn_messages(request.messages)
        step = len(self._turn) + 1
        entry = RecordedCall(
            self._digests.conversation(request.messages),
            self._turn_digests.conversation(turn),
            step,
            asked(turn, self._root),
            reply,
            source,
            said=tuple(self._said),
            told=self._told(request) if step == 1 else None,
        )
        self._said.clear()
        self._turn.append(replace(entry, schemas=_schemas(request, reply)))

    def _told(self, request: Request) -> PromptFingerprint:
        return replace(told(request), tokens=self._counter.fixed(request))

    def _remember(self) -> None:
        """What the tools did since the last reply belongs to that reply's calls."""
        if self._turn:
            self._turn[-1] = replace(self._turn[-1], remembered=self.past.take())


def _schemas(request: Request, reply: MessageFinished) -> dict[str, JsonObject]:
    """Those of the MCP tools that a reply calls: a replay has no server to give them.

    All of them where it calls a tool that does not exist, since the model is told which do.
    """
    served = {tool.name: tool.parameters for tool in request.tools if is_served(tool.name)}
    called = {call.name for call in reply.message.tool_calls}
    if called <= {tool.name for tool in request.tools}:
        return {name: schema for name, schema in served.items() if name in called}
    return served


def told(request: Request) -> PromptFingerprint:
    """Digests of what the model is told besides the conversation."""
    # Those of servers differ from computer to computer, and a replay asks no server.
    tools = [asdict(tool) for tool in request.tools if not is_served(tool.name)]
    return PromptFingerprint(_digest(request.system), _digest(json.dumps(tools, sort_keys=True)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
