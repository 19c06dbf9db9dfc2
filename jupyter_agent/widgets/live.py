"""The live view of a turn: a widget if the front end answers, else plain HTML updates.

A thread of its own sends all messages, so that the view stays up to date while the agent's code
holds the event loop, and an interrupt never strikes in the middle of a message.
"""

from __future__ import annotations

import asyncio
import contextvars
import html
import logging
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    QuestionAnswered,
    QuestionAsked,
    TextDelta,
    ThinkingDelta,
)
from jupyter_agent.core.messages import clean
from jupyter_agent.core.transcript import LiveTranscript, TurnView
from jupyter_agent.widgets.pace import (
    FEW_SENT,
    INTERVAL,
    PATIENCE,
    is_due,
    may_hurry,
    whole_interval,
)
from jupyter_agent.widgets.saved import SavedOutput, running_html, running_line
from jupyter_agent.widgets.state import Operation, Price, ViewState, Wait, merged

if TYPE_CHECKING:
    from jupyter_agent.widgets.front import Front

A = TypeVar("A")
HANDSHAKE = 2.0
"""Seconds that a front end has to answer, before plain updates take the widget's place."""
RETURN = 15.0
"""Seconds to wait for a page that has answered before: it exists, and is busy."""
OFFER = 0.25
"""Seconds between two states that are sent to a front end that has not answered yet."""
LISTEN = 0.1
"""Seconds to read messages that arrived while code held the event loop."""
MOST_TYPED = 20_000
"""The most characters of one line by the user."""
CLAIM = 1.0
"""Seconds for a page to confirm the outputs at the end of a turn."""
LINGER = 2.0
"""Seconds that a finished turn's widget stays open for the next one to open beside it.

JupyterLab reads all widgets' messages in one subshell, and deletes it with the last widget. A
message of the next turn's page that comes meanwhile is lost, and asyncio says so in the cell.
"""
MOST_SOURCE = 20_000
"""Characters of a cell by which it is found again."""
_SAVED_MID_RUN = (
    "The agent was at work here when this was saved. %agent show last brings the turn back, also "
    "after a restart. If the kernel is still busy, the code may wait for an answer: interrupt it "
    "first."
)


@dataclass(frozen=True, slots=True)
class TurnCell:
    """The cell in which a turn runs, so that a page loaded meanwhile finds it.

    Attributes:
        run: The id of the request to execute it.
        page: The connection that sent the request: outputs arrive there alone.
        id: The cell's id; empty if the front end did not send it.
        source: Its text.
        is_own: True if the cell holds nothing but the turn.
        count: Its execution count.
        is_in_lab: True if JupyterLab or Notebook 7 runs it, which have widgets as a rule.
    """

    run: str = ""
    page: str = ""
    id: str = ""
    source: str = ""
    is_own: bool = False
    count: int = 0
    is_in_lab: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "page": self.page,
            "id": self.id,
            "source": self.source if len(self.source) <= MOST_SOURCE else "",
            "own": self.is_own,
            "count": self.count,
        }


OnLine = Callable[[str], bool]
"""Called with the prompt of the front end's input line when it asks, and with an empty text when
it is no longer read. Returns True if a page shows the turn: it takes the line away then."""


class Surface(Protocol):
    """The kernel's functions for a live view."""

    def publish(self, data: Mapping[str, Any], update: bool) -> None:
        """Show a MIME bundle in the cell, or replace the first one (`update`)."""

    def replace_by(self, outputs: Sequence[SavedOutput]) -> None:
        """Replace the published output by the outputs that stay."""

    def ask(self, asked: ApprovalAsked, about: str = "", on_line: OnLine = ...) -> ApprovalAnswered:
        """Ask a question by the front end's input line. Blocks.

        Args:
            asked: The question.
            about: Its subject (the code, a diff), if nothing else shows it.
            on_line: Follows the line.
        """

    def ask_in_words(self, asked: QuestionAsked, on_line: OnLine = ...) -> QuestionAnswered:
        """Ask for an answer in words by the front end's input line. Blocks."""

    def stop(self) -> None:
        """Interrupt the turn. May be called on any thread."""

    @property
    def kernel_id(self) -> str:
        """The kernel's id on its server, or an empty text."""

    @property
    def cell(self) -> TurnCell:
        """The running cell."""


class LiveView:
    """A sink that shows a running turn, and the user who watches it.

    Args:
        surface: The kernel's functions for the view.
        time_out: Seconds that a question waits for an answer.
        price: Returns words for the turn's cost so far.

    Attributes:
        has_pages: True once a page has answered since the kernel began, so that one may come back.
        was_in_vain: True if none came although a question waited for it.
    """

    has_pages = False
    was_in_vain = False
    _lingering: ClassVar[set[LiveView]] = set()

    def __init__(self, surface: Surface, time_out: float, price: Price = lambda view: "") -> None:
        self._surface = surface
        self._time_out = time_out
        self._watch = LiveTranscript()
        self._picture = ViewState(price)
        self._host = secrets.token_hex(8)
        self._front: Front | None = None
        self._mode: Literal["waiting", "widget", "html"] = "waiting"
        self._loop = asyncio.get_running_loop()
        self._decided = asyncio.Event()
        self._met = asyncio.Event()
        self._questions: dict[str, asyncio.Future[ApprovalAnswered]] = {}
        self._answers: dict[str, asyncio.Future[QuestionAnswered]] = {}
        self._choices: tuple[str, ...] = ()
        self._unread: tuple[str, ...] = ()
        self._asked: Wait | None = None
        self._waited = self._waits_since = 0.0
        self._started = self._opened = time.monotonic()
        self._sent_at = 0.0
        self._fresh_state = False
        self._stop_asked = False
        self._end_sent = False
        self._pending: list[Operation] = []
        self._shown_view: TurnView | None = None
        self._size = 0
        self._changed = threading.Event()
        self._sent: deque[float] = deque(maxlen=FEW_SENT)
        self._speaks = self._has_first_words = False
        self._soon = threading.Event()
        self._over = threading.Event()
        self._claimed = asyncio.Event()
        self._is_unserved = False
        self._final: list[dict[str, Any]] | None = None
        self._thread: threading.Thread | None = None

    # The sink

    def __call__(self, event: Event) -> None:
        self._watch(event)
        if self._thread is None:
            self._open()
        self._notice_first_words(event)
        self._changed.set()

    def _notice_first_words(self, event: Event) -> None:
        """Send the first words of a text without delay: they show that the model answers."""
        if not isinstance(event, (TextDelta, ThinkingDelta)):
            self._speaks = False
        elif not self._speaks:
            self._speaks = self._has_first_words = True
            self._wake()

    def _wake(self) -> None:
        """Allow the next message at once, unless many were sent just before."""
        if self._may_hurry:
            self._soon.set()

    async def close(self, outputs: Sequence[SavedOutput]) -> bool:
        """End the view: the saved form replaces it.

        A page that was loaded during the turn does not get the cell's outputs from the kernel: the
        widget, which it finds again, puts them into the cell. The widget stays until a page
        confirms the outputs.

        Returns:
            True if a page has them, or none could.
        """
        self._over.set()
        self._changed.set()
        self._soon.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
        self._surface.replace_by(outputs)
        if self._thread is not None and self.has_pages:
            is_watched = self._mode == "widget"
            self._final = [
                {"data": dict(output.data), "metadata": dict(output.metadata)} for output in outputs
            ]
            with suppress(Exception):  # the connection may be gone
                self._send_end()
                if is_watched:  # else no page is there to confirm them
                    async with asyncio.timeout(CLAIM):
                        await self._claimed.wait()
            if not self._claimed.is_set():
                return False
            self._linger()
        else:
            self.forget()
        return True

    def _linger(self) -> None:
        """A page has the outputs: close the widget after a while, or when the next one opens."""
        if self._front is not None and self not in self._lingering:
            self._lingering.add(self)
            self._loop.call_later(LINGER, self.forget)

    @classmethod
    def forget_lingering(cls) -> None:
        """Close the widgets of finished turns."""
        for view in tuple(cls._lingering):
            view.forget()

    def forget(self) -> None:
        """Close the widget; no page gets the outputs by it any more."""
        self._lingering.discard(self)
        front, self._front = self._front, None
        if front is not None:
            with suppress(Exception):  # the connection may be gone
                front.close()

    def _send_end(self) -> None:
        """Send the end of the turn; the outputs only to a page without them."""
        if self._front is not None and self._final is not None:
            outputs = {"outputs": self._final} if self._is_unserved else {}
            self._front.send({"t": "end", **outputs})

    def _act_on_late(self, message: Mapping[str, Any]) -> None:
        """Handle a page that came after the end of the turn, or that confirms the outputs."""
        with suppress(Exception):
            if message.get("t") == "ready":
                self._is_unserved = message.get("served") is False
                self._send_end()
            elif message.get("t") == "kept":
                if self._front is not None:
                    self._front.send({"t": "kept", "by": str(message.get("by", ""))[:100]})
                self._loop.call_soon_threadsafe(self._claimed.set)
                self._loop.call_soon_threadsafe(self._linger)

    # The person

    async def decide(self, asked: ApprovalAsked) -> ApprovalAnswered:
        """Ask in the widget if there is one, else by a prompt."""
        with self._open_question(asked, self._questions) as answer:
            if not await self._has_widget():
                return self.decide_now(asked)
            late = ApprovalAnswered(asked.call_id, "no", "time_out")
            return await self._by_widget(asked, answer, late)

    async def answer(self, asked: QuestionAsked) -> QuestionAnswered:
        """Like `decide`, for a question that is answered in words."""
        self._choices = asked.choices
        with self._open_question(asked, self._answers) as answer:
            if not await self._has_widget():
                with self._waiting(asked):
                    return self._surface.ask_in_words(asked, on_line=self._follow_line)
            late = QuestionAnswered(asked.call_id, by="time_out")
            return await self._by_widget(asked, answer, late)

    @contextmanager
    def _open_question(
        self, asked: ApprovalAsked | QuestionAsked, open_questions: dict[str, asyncio.Future[A]]
    ) -> Iterator[asyncio.Future[A]]:
        """Take the widget's answer from now on: it may come with the widget's first message."""
        answer = open_questions[asked.call_id] = self._loop.create_future()
        try:
            yield answer
        finally:
            del open_questions[asked.call_id]

    async def _has_widget(self) -> bool:
        """True if the widget asks; False if there is none, so that the input line does."""
        await self._decided.wait()
        if self._mode == "html":
            await self._listen_again()
        return self._mode != "html"

    async def _by_widget(
        self, asked: ApprovalAsked | QuestionAsked, answer: asyncio.Future[A], late: A
    ) -> A:
        """Wait for the widget's answer; `late` if none comes in time."""
        try:
            with self._waiting(asked):
                async with asyncio.timeout(self._time_out):
                    return await answer
        except TimeoutError:
            return late

    async def _listen_again(self) -> None:
        """Before a question by a prompt: a page may come late, above all a busy one's first."""
        left = self._opened + RETURN - time.monotonic()
        is_slow = self._surface.cell.is_in_lab and not LiveView.was_in_vain
        with suppress(TimeoutError):
            async with asyncio.timeout(max(LISTEN, left) if is_slow else LISTEN):
                await self._met.wait()
        LiveView.was_in_vain = not self._met.is_set()

    def decide_now(self, asked: ApprovalAsked) -> ApprovalAnswered:
        """Ask by the front end's input line: the widget cannot answer while code runs."""
        with self._waiting(asked):
            return self._surface.ask(asked, on_line=self._follow_line)

    @contextmanager
    def _waiting(self, asked: ApprovalAsked | QuestionAsked) -> Iterator[None]:
        """Show that the turn waits for the person; its clock stands still meanwhile.

        A delegate's code may ask while the question of another one waits, which is shown again
        afterwards.
        """
        before, begun = self._asked, time.monotonic()
        self._asked = Wait(asked.question, begun, self._time_out, call_id=asked.call_id)
        if before is None:
            self._waits_since = begun
        self._changed.set()
        try:
            yield
        finally:
            self._asked = before
            if before is None:
                self._waited += time.monotonic() - begun
            self._changed.set()

    def _follow_line(self, prompt: str) -> bool:
        if (asked := self._asked) is not None:
            self._asked = replace(asked, line=prompt)
            if asked.line and self._mode == "widget" and self._front is not None:
                # By itself: a line that was soon over may be in no state that was sent.
                with suppress(Exception):  # the connection may be gone
                    self._front.send({"t": "line_over", "prompt": asked.line})
        self._changed.set()
        self._wake()
        return self._mode == "widget"

    def said(self) -> tuple[str, ...]:
        texts, self._unread = self._unread, ()
        return texts

    # The front end

    def owns(self, comm_id: str) -> bool:
        """True if messages of this comm are for this view; it takes them on any thread."""
        return self._front is not None and self._front.owns(comm_id)

    def _open(self) -> None:
        """Publish the output for the view, and offer the widget to the front end."""
        self._publish(update=False)
        try:
            from jupyter_agent.widgets.front import Front

            place = {**self._surface.cell.as_json(), "output": self._output(update=False)}
            self._front = Front(self._host, self._surface.kernel_id, place, self._receive)
            self.forget_lingering()
        except Exception:
            logging.getLogger(__name__).debug("No widget could be opened.", exc_info=True)
        self._opened = time.monotonic()  # the import above may take a while
        # The thread's messages belong to this cell, which the context knows.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="jupyter-agent-live", daemon=True
        )
        self._thread.start()

    def _receive(self, message: Mapping[str, Any]) -> None:
        """Handle a message of the front end: untrusted, at any time, on any thread."""
        if self._over.is_set():
            self._act_on_late(message)
            return
        if message.get("t") == "ready":
            self._meet(message)  # at once: code may hold the loop
            return
        if message.get("t") == "stop":
            self._stop_asked = True
            self._changed.set()
            self._surface.stop()
        with suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._act_on, dict(message))

    def _meet(self, message: Mapping[str, Any]) -> None:
        """A page shows the turn from now on."""
        self._is_unserved = self._is_unserved or message.get("served") is False
        self._mode = "widget"
        LiveView.has_pages = True
        self._fresh_state = True
        with suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._decided.set)
            self._loop.call_soon_threadsafe(self._met.set)
        self._changed.set()
        self._wake()

    def _act_on(self, message: dict[str, Any]) -> None:
        if not self._is_for_open_question(message):
            return
        match message:
            case {"t": "steer", "text": str(text)} if text.strip():
                self._unread = (*self._unread, clean(text.strip()[:MOST_TYPED]))
            case {"t": "answer", "call": str(call_id), "answer": "yes" | "no" | "always" as answer}:
                waiting = self._questions.get(call_id)
                if waiting is not None and not waiting.done():
                    reason = clean(str(message.get("reason") or "")[:MOST_TYPED]).strip()
                    rejected = _numbers(message.get("rejected"))
                    waiting.set_result(
                        ApprovalAnswered(call_id, answer, "person", reason, rejected)
                    )
            case {"t": "reply", "call": str(call_id)}:
                asked = self._answers.get(call_id)
                if asked is not None and not asked.done() and (text := self._reply_in(message)):
                    asked.set_result(QuestionAnswered(call_id, text))
        self._changed.set()

    def _is_for_open_question(self, message: Mapping[str, Any]) -> bool:
        """False for an answer to a question of before at the same call: a delegate asks many."""
        steps, number = self._watch.view.shown_steps, message.get("number")
        if number is None or not steps:
            return True
        return any(
            call.call.id == message.get("call") and call.questions == number
            for call in steps[-1].calls
        )

    def _reply_in(self, message: Mapping[str, Any]) -> str:
        """The answer in a message of the front end: a choice by its number, or a text."""
        match message:
            case {"choice": int(number)} if 0 <= number < len(self._choices):
                return self._choices[number]
            case {"text": str(text)}:
                return clean(text[:MOST_TYPED]).strip()
        return ""

    # The thread that sends

    def _run(self) -> None:
        while not self._over.is_set():
            self._changed.wait(self._wait())
            self._changed.clear()
            if self._over.is_set():
                return
            try:
                self._send()
            except Exception:
                logging.getLogger(__name__).debug("The live view was not sent.", exc_info=True)
            self._soon.wait(INTERVAL)
            self._soon.clear()

    def _wait(self) -> float | None:
        """Seconds to wait for something new before the next look."""
        return HANDSHAKE / 10 if self._mode == "waiting" else PATIENCE

    def _send(self) -> None:
        if self._stop_asked and self._front is not None:
            # Tells the page that the kernel listens, so that it stops asking the server.
            self._stop_asked = False
            self._front.send({"t": "stopping"})
        if self._mode == "waiting" and time.monotonic() - self._opened > (
            RETURN if LiveView.has_pages else HANDSHAKE
        ):
            self._mode = "html"
            self._loop.call_soon_threadsafe(self._decided.set)
        if self._mode == "widget":
            self._send_operations()
        else:
            self._send_whole()

    def _send_operations(self) -> None:
        # Before the view is read: words that arrive later are sent with the next message.
        hurries, self._has_first_words = self._has_first_words, False
        view = self._watch.view
        self._pending += self._picture.update(view, self._unread, self._asked)
        if view.stop_reason is not None and not self._end_sent:
            self._end_sent = True
            self._pending.append(["set", ["elapsed"], self._elapsed])
        if self._fresh_state:
            self._fresh_state = False
            self._send_state()
        elif self._is_due or (self._pending and hurries and self._may_hurry):
            assert self._front is not None
            self._front.send({"t": "patch", "ops": merged(self._pending)})
            self._pending.clear()
        else:
            self._has_first_words = self._has_first_words or hurries
            return
        self._sent_at = time.monotonic()
        self._sent.append(self._sent_at)

    @property
    def _is_due(self) -> bool:
        return is_due(self._pending, time.monotonic() - self._sent_at)

    @property
    def _may_hurry(self) -> bool:
        """True if few messages were sent in the last second."""
        return may_hurry(self._sent, time.monotonic())

    def _send_whole(self) -> None:
        """Send the whole view to a page that has not answered.

        Perhaps there is none, perhaps code holds the event loop. The widget shows each state that
        it gets, whether its answer was read or not. Without a widget the HTML stays visible.
        """
        since, view = time.monotonic() - self._sent_at, self._watch.view
        if self._mode == "waiting":
            if since < OFFER:
                return
        elif view is self._shown_view or since < whole_interval(self._size):
            return
        else:
            self._publish(update=True)
        self._picture.update(view, self._unread, self._asked)
        self._send_state()
        self._sent_at = time.monotonic()

    def _send_state(self) -> None:
        self._pending.clear()
        if self._front is not None:
            state = {**self._picture.state, "elapsed": self._elapsed}
            if self._asked is not None:
                state["wait"] = self._asked.as_json()
            self._front.send({"t": "state", "state": state})

    @property
    def _elapsed(self) -> float:
        """Seconds since the turn began, without those in which it waited for the person."""
        asked, now = self._asked, time.monotonic()
        waiting = 0.0 if asked is None else now - self._waits_since
        return round(now - self._started - self._waited - waiting, 1)

    def _publish(self, update: bool) -> None:
        self._surface.publish(self._output(update), update)

    def _output(self, update: bool) -> dict[str, str]:
        """The output that the widget draws into; without a widget it is the view itself."""
        view = self._shown_view = self._watch.view
        inside = running_html(view) if update else html.escape(_SAVED_MID_RUN)
        self._size = len(inside)
        run = re.sub("[^A-Za-z0-9-]", "-", self._surface.cell.run)
        classes = f"jupyter-agent-live jupyter-agent-live-{self._host} jupyter-agent-run-{run}"
        return {
            "text/plain": running_line(view),
            "text/html": f'<div class="{classes}">{inside}</div>',
        }


def _numbers(value: object) -> tuple[int, ...]:
    """The numbers in a message of the front end."""
    return tuple(each for each in value if type(each) is int) if isinstance(value, list) else ()
