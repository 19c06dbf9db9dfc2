"""Chooses the window that shows a turn: a widget, plain updates, a terminal, or none."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from jupyter_agent.config import Settings
from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    QuestionAnswered,
    QuestionAsked,
    Sink,
    TurnStarted,
)
from jupyter_agent.core.legible import whole
from jupyter_agent.core.ports import Nobody, User
from jupyter_agent.core.transcript import LiveTranscript, TurnView
from jupyter_agent.core.wording import body, shown
from jupyter_agent.kernel.comms import Clicks
from jupyter_agent.kernel.front_end import is_attended
from jupyter_agent.llm.pricing import cost, in_dollars
from jupyter_agent.magics.prompt import answer_by_input, ask_by_input
from jupyter_agent.magics.surface import KernelSurface, is_captured, show
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.widgets.live import LiveView
from jupyter_agent.widgets.saved import SavedOutput
from jupyter_agent.widgets.terminal import TerminalView


@dataclass(frozen=True, slots=True)
class Window:
    """The view of a running turn, and its user.

    `close` takes the saved form, shows it if needed, and returns True if some page has it.
    Otherwise the window waits for a page that comes back, until `forget` is called.
    """

    sink: Sink
    user: User
    close: Callable[[Sequence[SavedOutput]], Awaitable[bool]]
    forget: Callable[[], None] = lambda: None


def open_window(kernel: Kernel, settings: Settings) -> Window:
    """The window for the running cell."""
    if not hasattr(kernel.shell, "kernel"):
        return _terminal(kernel, settings)
    if not is_attended(kernel.shell):
        return Window(_nothing, Nobody(), _publish)
    surface = KernelSurface(kernel.shell, kernel.interrupts, settings.approvals.timeout)
    if settings.display == "static" or is_captured(kernel.shell):
        by_prompt = ByPrompt(surface.ask, surface.ask_in_words)
        return Window(by_prompt, by_prompt, _publish)
    live = LiveView(surface, settings.approvals.timeout, lambda view: _price(view, settings))

    clicks = Clicks(kernel.shell.kernel, live.owns)
    clicks.start()

    async def close(outputs: Sequence[SavedOutput]) -> bool:
        try:
            return await live.close(outputs)
        finally:
            clicks.stop()

    watching = OnceAsked(live)
    return Window(watching, watching, close, live.forget)


def forget_finished() -> None:
    """Close the windows of finished turns that still wait for a page."""
    LiveView.forget_lingering()


def _terminal(kernel: Kernel, settings: Settings) -> Window:
    live = settings.display != "static" and sys.stdout.isatty()
    read = input  # while the agent's code runs, another one stands in its place

    def ask(asked: ApprovalAsked, about: str) -> ApprovalAnswered:
        # The live view shows the call above the question.
        about, seconds = "" if live else about, settings.approvals.timeout
        return ask_by_input(asked, kernel.interrupts, seconds, read, about)

    def ask_in_words(asked: QuestionAsked) -> QuestionAnswered:
        return answer_by_input(asked, kernel.interrupts, settings.approvals.timeout, read)

    by_prompt = ByPrompt(ask, ask_in_words)
    user = by_prompt if sys.stdin is not None and sys.stdin.isatty() else Nobody()
    if not live:
        return Window(by_prompt, user, _publish)
    return Window(TerminalView(sys.stdout), user, _lasts)


async def _publish(outputs: Sequence[SavedOutput]) -> bool:
    """Show the saved form once, at the end."""
    show(outputs)
    return True


async def _lasts(outputs: Sequence[SavedOutput]) -> bool:
    """Show nothing: a terminal's own output stays."""
    return True


def _price(view: TurnView, settings: Settings) -> str:
    return in_dollars(cost(view.provider, view.model, view.usage, settings.api_base))


def _nothing(event: Event) -> None:
    """Ignore an event: nobody watches the running turn."""


class OnceAsked:
    """The user at a live view that shows a replayed turn only from its first question on.

    Replayed turns without a question are shown at their end, which comes at once.

    Args:
        live: The view.
    """

    def __init__(self, live: LiveView) -> None:
        self._live = live
        self._held: list[Event] | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnStarted) and event.provider == "replay":
            self._held = []
        if self._held is None:
            self._live(event)
        else:
            self._held.append(event)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        self._show()
        return await self._live.decide(asked)

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        self._show()
        return self._live.decide_now(asked)

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        self._show()
        return await self._live.answer(asked)

    def _show(self) -> None:
        held, self._held = self._held or [], None
        for event in held:
            self._live(event)

    def said(self) -> tuple[str, ...]:
        return self._live.said()


class ByPrompt:
    """A user who is asked by a line of text, and cannot type during the turn.

    Also a sink: it keeps the calls, to show the one that a question is about.
    """

    def __init__(
        self,
        ask: Callable[[ApprovalAsked, str], ApprovalAnswered],
        ask_in_words: Callable[[QuestionAsked], QuestionAnswered],
    ) -> None:
        self._ask = ask
        self._ask_in_words = ask_in_words
        self._watch = LiveTranscript()

    def __call__(self, event: Event) -> None:
        self._watch(event)

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return self._ask(asked, self._about(asked.call_id))

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        return self._ask(asked, "")

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        return self._ask_in_words(asked)

    def _about(self, call_id: str) -> str:
        calls = [call for call in self._watch.view.calls if call.call.id == call_id]
        texts = [text for call in calls for text in (body(call), *shown(call)) if text]
        return whole("\n".join(texts))

    def said(self) -> tuple[str, ...]:
        return ()
