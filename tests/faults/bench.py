"""A turn against a hostile server: the real adapter, loop, toolbox and reducer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from faults.hostile import Hostile
from model_server import check_anthropic, check_openai

from jupyter_agent.agent.loop import Agent, TurnOutcome, run_turn
from jupyter_agent.core.events import Event, Retrying, TurnFinished
from jupyter_agent.core.history import repair
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.core.tool import Tool, tool
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.retry import RetryPolicy
from jupyter_agent.tools.toolbox import Toolbox

KEY = "sk-test-0123456789abcdef"
Adapter = Anthropic | OpenAI


@asynccontextmanager
async def adapter(kind: str, url: str, timeout: float = 20.0) -> AsyncIterator[Adapter]:
    make = Anthropic if kind == "anthropic" else OpenAI
    provider = make("test-model", KEY, url, timeout=timeout)
    try:
        yield provider
    finally:
        await provider.close()


class Hasty:
    """A real adapter for each request, a hasty one for the second."""

    def __init__(self, patient: Adapter, hasty: Adapter) -> None:
        self._adapters = iter((patient, hasty))
        self._patient = patient

    def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        return next(self._adapters, self._patient).stream(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._patient, name)


@asynccontextmanager
async def hasty(kind: str, url: str, timeout: float) -> AsyncIterator[Hasty]:
    """An adapter whose time-out is `timeout` for its second request only."""
    async with adapter(kind, url) as patient, adapter(kind, url, timeout) as quick:
        yield Hasty(patient, quick)


@dataclass
class Bench:
    """A conversation with one model. `noted` has the words of each run of the tool `note`."""

    provider: Adapter | Hasty
    retry: RetryPolicy
    on_event: Callable[[Event], None] = lambda event: None
    noted: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    view: TurnView = TurnView()
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def tools(self) -> list[Tool]:
        @tool("executes")
        async def note(word: str = "?") -> str:
            """Note a word."""
            self.noted.append(word)
            return f"noted {word}"

        @tool("executes")
        async def hang() -> str:
            """Wait for ever."""
            self.noted.append("hang")
            self.begun.set()
            await asyncio.Event().wait()
            return "never"

        return [note, hang]

    async def turn(self, task: str) -> TurnOutcome:
        """One turn; its events take the place of those before."""
        self.events.clear()
        self.view = TurnView()
        self.history.append(Message("user", (Text(task),)))
        agent = Agent(self.provider, Toolbox(self.tools()), "Be brief.", retry=self.retry)
        outcome = await run_turn(agent, self.history, self._emit)
        error = str(outcome.error or outcome.why)
        self._emit(TurnFinished(outcome.stop_reason, outcome.usage, error=error))
        return outcome

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        self.view = reduce(self.view, event)
        self.on_event(event)

    @property
    def retries(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def lines(self) -> list[str]:
        """Every line that tells the person of something out of the ordinary."""
        view = self.view
        notices = [notice for step in view.steps for notice in step.notices]
        return [*notices, *([view.error] if view.error else [])]


def check_requests(kind: str, server: Hostile, unknown: Sequence[str] = ()) -> None:
    """Each request is one that the provider takes, and each goes on with the one before."""
    check = check_anthropic if kind == "anthropic" else check_openai
    for request in server.requests:
        if request.body:
            check(request.body, unknown_tools=unknown)
    for earlier, later in pairwise(r.body["messages"] for r in server.requests if r.body):
        assert len(later) >= len(earlier), "the conversation became shorter"


def check_history(bench: Bench) -> None:
    """There is nothing to repair, and nothing of a call is missing."""
    assert repair(bench.history) == bench.history
    for line in bench.lines:
        assert "\n" not in line and KEY not in line and len(line) < 420, line
