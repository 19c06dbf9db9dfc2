"""Answers with recorded replies in place of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from jupyter_agent.core.events import ReplySource
from jupyter_agent.core.history import turn_messages
from jupyter_agent.core.messages import JsonObject, Message
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ReplayMismatch
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.recording.cassette_model import Cassette, Decision, RecordedCall
from jupyter_agent.recording.digests import Digests
from jupyter_agent.recording.miss import explain
from jupyter_agent.recording.recorder import fingerprint
from jupyter_agent.recording.tool_results import FileReplayer
from jupyter_agent.recording.trusted import is_trusted

_Place = tuple[int, RecordedCall]
"""The number of a recorded turn, and one of its entries."""


class Replay:
    """A provider that answers from a cassette.

    A reply is found by the digest of the whole conversation; if earlier cells differ (a cell was
    run twice, or edited), by that of the current turn.

    Args:
        cassette: The recording.
        file_name: The name of its file.
        workspace: The workspace of the tools; None: the current folder.
        files: The file of each turn if they come from several files.
        origins: The files with the digests of their contents.

    Attributes:
        tool_results: The recorded results of tools and changes of files.
        prompt_tokens: The recorded tokens of the system prompt and the tools; 0 if unknown.
    """

    name = "replay"

    def __init__(
        self,
        cassette: Cassette,
        file_name: str,
        workspace: Workspace | None = None,
        files: Sequence[str] = (),
        origins: Sequence[tuple[Path, str]] = (),
    ) -> None:
        self.model = cassette.model
        self.source: ReplySource = cassette.source
        self.tool_results = FileReplayer(cassette, workspace or Workspace(Path()))
        prompts = (turn[0].told for turn in cassette.turns)
        self.prompt_tokens = next((each.tokens for each in prompts if each and each.tokens), 0)
        self._cassette = cassette
        self._file_name = file_name
        self._files = files
        self._origins = origins
        self._root = (workspace or Workspace(Path())).root
        self._digests, self._turn_digests = Digests(self._root), Digests(self._root)
        self._by_conversation: defaultdict[str, list[_Place]] = defaultdict(list)
        self._by_turn: defaultdict[str, list[_Place]] = defaultdict(list)
        for number, turn in enumerate(cassette.turns):
            for entry in turn:
                self._by_conversation[entry.conversation].append((number, entry))
                self._by_turn[entry.turn].append((number, entry))
        self._current = -1
        self._step = 0
        self._served: set[int] = set()
        self._changed: dict[str, bool] = {}

    def begin(self, messages: Sequence[Message]) -> None:
        """Nothing to prepare for a turn."""

    def commit(self) -> None:
        """Nothing to write."""

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        yield self.entry(request).reply

    def entry(self, request: Request) -> RecordedCall:
        """The recorded call that answers a request.

        Raises:
            ReplayMismatch: There is none; the message names the first difference.
        """
        turn = turn_messages(request.messages)
        places = self._places(request.messages, turn)
        if not places:
            raise ReplayMismatch(explain(self._cassette, self._file_name, turn, self._root))
        self._refuse_ambiguous(places)
        entry = self._next(places)
        self.tool_results.enter(entry.remembered, self._cassette.turns[self._current][-1].files)
        if entry.told is not None:
            current = fingerprint(request)
            # An embedded model got the short instructions, and a replay does not know that.
            is_brief = self._cassette.provider == "local"
            for what, differs in (
                ("the system prompt", entry.told.system != current.system and not is_brief),
                ("the tools", entry.told.tools != current.tools),
            ):
                if differs:
                    self._changed.setdefault(what, True)
        return entry

    @property
    def strangers(self) -> list[str]:
        """The names of the files that were neither recorded nor trusted here."""
        return [path.name for path, digest in self._origins if not is_trusted(path, digest)]

    def knows(self, messages: Sequence[Message]) -> bool:
        """True if a reply to this conversation is recorded; serves nothing."""
        return bool(self._places(messages, turn_messages(messages)))

    def _places(self, messages: Sequence[Message], turn: Sequence[Message]) -> Sequence[_Place]:
        whole = self._by_conversation.get(self._digests.conversation(messages), [])
        return whole or self._by_turn.get(self._turn_digests.conversation(turn), [])

    def notices(self) -> list[str]:
        """Notices of a changed system prompt or changed tools, which are no miss; each once."""
        changed = [what for what, untold in self._changed.items() if untold]
        self._changed.update(dict.fromkeys(changed, False))
        if not changed:
            return []
        is_one = len(changed) == 1 and changed[0] != "the tools"
        return [
            f"{self._file_name}: {' and '.join(changed)} {'is' if is_one else 'are'} not what the "
            "model was told when it was recorded. Its replies are replayed all the same."
        ]

    def _refuse_ambiguous(self, places: Sequence[_Place]) -> None:
        names = sorted({self._files[number] for number, _ in places}) if self._files else []
        if len(names) > 1 and any(entry.reply != places[0][1].reply for _, entry in places):
            raise ReplayMismatch(
                f"{' and '.join(names)} answer this task in different ways, and this kernel does "
                "not know its notebook's name. Name one of them with %agent cassette FILE."
            )

    def _next(self, places: Sequence[_Place]) -> RecordedCall:
        """The entry to serve among equals: of the turn in replay, else of the first one that was
        not served yet, else of the last."""
        current = [place for place in places if place[0] == self._current]
        fresh = [place for place in places if place[0] not in self._served]
        going_on = places[0][1].step > 1 and current
        self._current, entry = (current if going_on else fresh or places[-1:])[0]
        self._served.add(self._current)
        self._step = entry.step
        return entry

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The user's decisions about the calls of the last served reply."""
        return self._cassette.turns[self._current][self._step - 1].decisions

    @property
    def said_next(self) -> tuple[str, ...]:
        """The user's lines between the last served reply and the next one."""
        turn = self._cassette.turns[self._current]
        return turn[self._step].said if self._step < len(turn) else turn[-1].said_after

    def body(self, request: Request) -> JsonObject:
        """Nothing is sent."""
        return {}

    async def close(self) -> None:
        """Nothing to release."""
