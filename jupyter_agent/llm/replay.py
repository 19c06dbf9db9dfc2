"""Recorded replies instead of a model, and the recorder that makes them."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from jupyter_agent.errors import ReplayMismatch
from jupyter_agent.events import MessageFinished, ReplySource
from jupyter_agent.llm import cassette as tape
from jupyter_agent.llm.cassette import Cassette, Decision, Entry
from jupyter_agent.llm.conversation import Item, extend, items, task_index
from jupyter_agent.llm.provider import Provider, ReplyPart, Request
from jupyter_agent.messages import JsonObject, Message
from jupyter_agent.plaintext import one_line


class _Digests:
    """The digests of a growing conversation; each message is looked at once."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._chain: list[str] = [""]

    def conversation(self, messages: Sequence[Message]) -> str:
        known = 0
        for ours, theirs in zip(self._messages, messages, strict=False):
            if ours is not theirs:
                break
            known += 1
        del self._messages[known:], self._chain[known + 1 :]
        for message in messages[known:]:
            self._messages.append(message)
            self._chain.append(extend(self._chain[-1], items(message)))
        return self._chain[-1]


def _turn_messages(request: Request) -> Sequence[Message]:
    return request.messages[task_index(request.messages) :]


def _asked(turn: Sequence[Message]) -> tuple[Item, ...]:
    """What was said to the model since its last reply."""
    new: list[Message] = []
    for message in reversed(turn):
        if message.role == "assistant":
            break
        new.insert(0, message)
    return tuple(item for message in new for item in items(message))


_MADE = ("Created ", "Recorded note: ", "Saved decision to ", "Saved lesson to ")
"""How results begin that are others where the file, the note or the entry is there already."""
_Place = tuple[int, Entry]
"""The number of a recorded turn, and one of its entries."""


class Replay:
    """A provider that answers from a cassette.

    A reply is found by the digest of the whole conversation; where earlier cells went another
    way (a cell was run twice, or edited), by that of the current turn.
    """

    name = "replay"

    def __init__(self, cassette: Cassette, file_name: str) -> None:
        self.model = cassette.model
        self.source: ReplySource = cassette.source
        self._cassette = cassette
        self._file_name = file_name
        self._digests, self._turn_digests = _Digests(), _Digests()
        self._by_conversation: defaultdict[str, list[_Place]] = defaultdict(list)
        self._by_turn: defaultdict[str, list[_Place]] = defaultdict(list)
        for number, turn in enumerate(cassette.turns):
            for entry in turn:
                self._by_conversation[entry.conversation].append((number, entry))
                self._by_turn[entry.turn].append((number, entry))
        self._current = -1
        self._step = 0
        self._served: set[int] = set()

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        turn = _turn_messages(request)
        conversation = self._digests.conversation(request.messages)
        turn_digest = self._turn_digests.conversation(turn)
        places = self._by_conversation.get(conversation) or self._by_turn.get(turn_digest)
        if not places:
            raise ReplayMismatch(self._explain(turn))
        yield self._next(places).reply

    def _next(self, places: Sequence[_Place]) -> Entry:
        """The entry to serve among equals: of the turn that is being replayed, else of the first
        one that was not served yet, else of the last."""
        current = [place for place in places if place[0] == self._current]
        fresh = [place for place in places if place[0] not in self._served]
        going_on = places[0][1].step > 1 and current
        self._current, entry = (current if going_on else fresh or places[-1:])[0]
        self._served.add(self._current)
        self._step = entry.step
        return entry

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What the person decided about the calls of the reply that was served last."""
        return self._cassette.turns[self._current][self._step - 1].decisions

    @property
    def said_next(self) -> tuple[str, ...]:
        """What the person typed between the reply that was served last and the next one."""
        turn = self._cassette.turns[self._current]
        return turn[self._step].said if self._step < len(turn) else turn[-1].said_after

    def body(self, request: Request) -> JsonObject:
        """Nothing is sent."""
        return {}

    async def close(self) -> None:
        """Nothing to release."""

    def _explain(self, messages: Sequence[Message]) -> str:
        """The first difference between what was recorded and what happened."""
        task = next(item.text for item in items(messages[0]) if item.kind == "task")
        turn = self._recorded_turn(task)
        if turn is None:
            return self._unknown_task(task)
        asked, step = _asked(messages), sum(m.role == "assistant" for m in messages) + 1
        again = f"Record the cell again (mode: record) to bring {self._file_name} up to date."
        if step > len(turn):
            return f"{self._file_name} has {len(turn)} replies for this task, not {step}. {again}"
        for now, then in zip(asked, turn[step - 1].asked, strict=False):
            if now != then and then.text.startswith(_MADE):
                again = f"Start from a folder without what the turn makes or saves, or: {again}"
            if now != then:
                return (
                    f"Step {step} went another way than recorded: {_difference(then, now)} {again}"
                )
        return f"Step {step} followed other tool calls or results than recorded. {again}"

    def _recorded_turn(self, task: str) -> tuple[Entry, ...] | None:
        for turn in self._cassette.turns:
            if turn[0].asked and turn[0].asked[0].text == task:
                return turn
        return None

    def _unknown_task(self, task: str) -> str:
        tasks = [turn[0].asked[0].text for turn in self._cassette.turns if turn[0].asked]
        near = difflib.get_close_matches(task, tasks, 1, cutoff=0.3)
        message = f"{self._file_name} holds no reply for the task {one_line(task, 60)!r}."
        if near:
            difference = _difference(Item("task", near[0]), Item("task", task))
            message += f" The nearest differs: {difference}"
        return f"{message} Record this cell with mode: record."


def _difference(then: Item, now: Item) -> str:
    """The words around the first place where two texts part."""
    old, new = then.text.split(), now.text.split()
    if old == new:
        return f"in the {now.kind}, where only white space differs."
    start = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    first = max(0, start - 3)
    before, after = " ".join(old[first : start + 6]), " ".join(new[first : start + 6])
    return f"in the {now.kind}, recorded {one_line(before)!r}, now {one_line(after)!r}."


class Recorder:
    """A provider that passes on another one's replies and notes them.

    Nothing is written before `commit`: a turn that fails leaves the cassette as it was.
    """

    def __init__(self, provider: Provider, path: Path) -> None:
        self.name = provider.name
        self.model = provider.model
        self.source = provider.source
        self._provider = provider
        self._path = path
        self._digests, self._turn_digests = _Digests(), _Digests()
        self._turn: list[Entry] = []
        self._written: list[str] = []
        self._said: list[str] = []

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        async with aclosing(self._provider.stream(request)) as stream:  # type: ignore[type-var]
            async for part in stream:
                if isinstance(part, MessageFinished):
                    self._note(request, part)
                yield part

    def body(self, request: Request) -> JsonObject:
        return self._provider.body(request)

    async def close(self) -> None:
        await self._provider.close()

    def begin(self) -> None:
        """A new turn starts; what a failed one left behind is dropped."""
        self._turn.clear()
        self._said.clear()

    def decided(self, decision: Decision) -> None:
        """Note what the person decided about a call of the last reply."""
        last = self._turn[-1]
        self._turn[-1] = replace(last, decisions=(*last.decisions, decision))

    def heard(self, texts: Sequence[str]) -> None:
        """Note what the person typed before the next call."""
        self._said.extend(texts)

    def commit(self) -> None:
        """Write the turn into the cassette."""
        if not self._turn:
            return
        self._turn[-1] = replace(self._turn[-1], said_after=tuple(self._said))
        source: tape.Source = "scripted" if self.source == "scripted" else "recorded"
        blank = Cassette(self.name, self.model, source)
        tape.record(self._path, blank, tuple(self._turn), self._written)
        self._written.append(self._turn[0].conversation)
        self._turn.clear()

    def _note(self, request: Request, reply: MessageFinished) -> None:
        turn = _turn_messages(request)
        entry = Entry(
            self._digests.conversation(request.messages),
            self._turn_digests.conversation(turn),
            len(self._turn) + 1,
            _asked(turn),
            reply,
            said=tuple(self._said),
        )
        self._said.clear()
        self._turn.append(entry)
