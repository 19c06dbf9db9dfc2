"""Mode `cached`: replayed as far as it was recorded, asked from there on, recorded as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.messages import Message, Text, ToolResult
from jupyter_agent.core.ports import Request
from jupyter_agent.errors import ConfigError
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.recording.cached import Cached
from jupyter_agent.recording.cassette import load

LOOK = {"text": "I look.", "calls": [{"name": "look", "arguments": {}}]}


class Talk:
    """One conversation with a `Cached`."""

    def __init__(
        self, path: Path, *turns: tuple[str, list[Any]], model: Scripted | None = None
    ) -> None:
        self.cached = Cached(model or Scripted(turns), path)
        self.history: list[Message] = []

    async def ask(self, task: str, *results: str) -> str:
        self.history.append(Message("user", (Text(task),)))
        self.cached.begin(self.history)
        left = list(results)
        while True:
            request = Request("s", tuple(self.history))
            *_, reply = [part async for part in self.cached.stream(request)]
            self.history.append(reply.message)
            if not reply.message.tool_calls:
                break
            calls = reply.message.tool_calls
            done = (ToolResult(call.id, (Text(left.pop(0)),)) for call in calls)
            self.history.append(Message("user", tuple(done)))
        self.cached.commit()
        return str(reply.message.text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.cassette.jsonl"


async def test_nothing_is_asked_twice(path: Path) -> None:
    """A second conversation is answered without a model, and the file stays as it is."""
    first = await Talk(path, ("Count.", [LOOK, {"text": "3."}])).ask("Count.", "3 rows")
    before = path.read_bytes()
    again = Talk(path)
    assert await again.ask("Count.", "3 rows") == first == "3."
    assert not again.cached.is_asking
    assert again.cached.source == "scripted"
    assert path.read_bytes() == before


async def test_a_turn_that_goes_another_way(path: Path) -> None:
    """The model is asked from the first difference on, and the turn is replaced as a whole."""
    await Talk(path, ("Count.", [LOOK, {"text": "3."}])).ask("Count.", "3 rows")
    other = Talk(path, model=_Answers("4."))
    assert await other.ask("Count.", "4 rows") == "4."
    assert other.cached.replayed.total_tokens == 0
    cassette = load(path)
    assert len(cassette.turns) == 1
    assert [len(turn) for turn in cassette.turns] == [2]
    assert await Talk(path).ask("Count.", "4 rows") == "4."


class _Answers(Scripted):
    """Gives one answer, whatever was said."""

    def __init__(self, text: str) -> None:
        super().__init__([])
        self._text = text

    async def stream(self, request: Request) -> Any:
        script = Scripted([(request.messages[0].text, [{"text": self._text}])])
        async for part in script.stream(Request("s", request.messages[:1])):
            yield part


async def test_a_new_turn_after_replayed_ones(path: Path) -> None:
    """What is new is added, what was there stays."""
    await Talk(path, ("Count.", [{"text": "3."}])).ask("Count.")
    talk = Talk(path, ("Go on.", [{"text": "More."}]))
    assert await talk.ask("Count.") == "3."
    assert await talk.ask("Go on.") == "More."
    assert talk.cached.is_asking
    assert [turn[0].asked[0].text for turn in load(path).turns] == ["Count.", "Go on."]
    again = Talk(path)
    assert [await again.ask("Count."), await again.ask("Go on.")] == ["3.", "More."]


async def test_a_turn_that_fails_is_not_recorded(path: Path) -> None:
    """Nothing is written before the turn is done."""
    await Talk(path, ("Count.", [{"text": "3."}])).ask("Count.")
    before = path.read_bytes()
    talk = Talk(path)
    await talk.ask("Count.")
    with pytest.raises(Exception, match="no turn for the task"):
        await talk.ask("Something else.")
    assert path.read_bytes() == before


async def test_a_cassette_that_is_damaged_meanwhile(path: Path) -> None:
    """It is told when the next turn begins; nobody is asked, nothing is overwritten."""
    talk = Talk(path, ("Count.", [{"text": "3."}]), ("Go on.", [{"text": "More."}]))
    await talk.ask("Count.")
    path.write_text("no cassette")
    with pytest.raises(ConfigError, match="no cassette"):
        await talk.ask("Go on.")
    assert path.read_text() == "no cassette"
