"""Delivers interrupts to the running code of the agent, or to the turn around it.

In an awaited cell ipykernel's own SIGINT handler only cancels a future from the event loop, so
code that holds the loop (`while True: pass`) could never be stopped. For the length of a turn
this module installs its own handler: if the agent's code holds the main thread, it raises
`KeyboardInterrupt` there; otherwise it cancels the current task, or keeps the request for later. It
never raises into code of this package that a turn depends on.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from jupyter_agent.kernel.marks import is_in_agents_code

INSIST_SECONDS = 0.25
"""Seconds that a cancellation may take before the signal is sent again."""
AGAIN_SECONDS = 0.02
"""Seconds before a signal is repeated that came while the agent's code called this package's."""
_PACKAGE = Path(__file__).parents[1]
_OWN_CODE = (str(_PACKAGE / "kernel"), str(_PACKAGE / "undo"), str(_PACKAGE / "core"))
"""Code that an exception in the middle would leave half done."""


class TimeLimit:
    """A time limit. `expired` becomes True when the code under it is interrupted for it."""

    def __init__(self, seconds: float, expire: Callable[[TimeLimit], None]) -> None:
        self.expired = False
        self._seconds = seconds
        self._expire = expire
        self.start()

    def start(self) -> None:
        """Start the clock, or let it go on."""
        self._since = time.monotonic()
        self._timer = threading.Timer(self._seconds, self._expire, (self,))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop the clock."""
        self._timer.cancel()
        self._seconds = max(0.0, self._seconds - (time.monotonic() - self._since))


class Interrupts:
    """The interrupts of one turn: SIGINT, and the time-out of one execution.

    `requested` becomes True when the user interrupts, and stays so.
    """

    def __init__(self) -> None:
        self.requested = False
        self.executions = 0
        """How many executions of the agent's code have ended."""
        self.blocking = False
        """True while code without top-level await holds the event loop; the executor sets it."""
        self._task: asyncio.Task[Any] | None = None
        self._limit: TimeLimit | None = None
        self._signal_is_ours = False
        self._installed = False
        self._cancelling_since: float | None = None
        self._put_off = False
        self._insisting = False
        self._ending = threading.Lock()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Take SIGINT for the length of a turn, from before its first line to after its last.

        Outside of `cancelling` an interrupt only sets `requested`. Inside of another `installed`,
        and off the main thread, where Python allows no handler, this changes nothing.
        """
        if self._installed:
            yield
            return
        self.requested = self._put_off = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        ended, loop = threading.Event(), asyncio.get_running_loop()
        watch = threading.Thread(target=self._watch, args=(loop, ended), daemon=True)
        previous = signal.signal(signal.SIGINT, self._on_sigint)
        try:
            self._installed = True
            watch.start()
            yield
        finally:
            with self._ending:
                self._installed = self._insisting = self._put_off = False
                self._cancelling_since = None
            ended.set()
            signal.signal(signal.SIGINT, previous)

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let an interrupt cancel `task`; one that came before cancels it at once."""
        self._task = task
        if self.requested:
            task.cancel()
        try:
            yield
        finally:
            self._task = None

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[TimeLimit | None]:
        """Interrupt the code in this context after `seconds`; None sets no limit.

        Inside of another limit (a question while code runs) the outer clock stands still.
        """
        if seconds is None:
            yield None
            return
        outer = self._limit
        if outer is not None:
            outer.stop()
        self._limit = limit = TimeLimit(seconds, self._expire)
        try:
            yield limit
        finally:
            limit.stop()
            self._limit = outer
            if outer is not None:
                outer.start()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The code in this context holds the event loop; an interrupt raises into it."""
        before, self.blocking = self.blocking, True
        try:
            yield
        finally:
            self.blocking = before

    def stop(self) -> None:
        """Interrupt like the kernel's interrupt, for a Stop button. For any thread."""
        if not self._installed:
            return
        if threading.current_thread() is threading.main_thread():
            # Not by a signal: the kernel has its own handler in place while it handles a message.
            self.requested = True
            if (task := self._task) is not None:
                task.get_loop().call_soon(self._cancel, task, None)
        else:
            _signal_main_thread()

    def cancel_turn(self) -> None:
        """Cancel the turn at its next await; the last call after interrupted code."""
        if self._task is not None:
            self._task.cancel()

    def _expire(self, limit: TimeLimit) -> None:
        if not self._installed:
            # No handler of ours is installed, but awaited code can be cancelled.
            limit.expired = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            return
        self._signal_is_ours = True
        _signal_main_thread()

    def _watch(self, loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
        """Repeat a signal that had no effect at once.

        If it came just before the loop went to sleep, the loop is woken up. If it came while the
        code awaited, and the code went on to hold the loop, it is sent again. (A handler must not
        start a thread: the code may hold the locks for that.)
        """
        while not ended.wait(AGAIN_SECONDS if self._put_off else INSIST_SECONDS):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_wake_up)
            with self._ending:
                since = self._cancelling_since
                late = since is not None and time.monotonic() - since > INSIST_SECONDS
                if (late or self._put_off) and self._installed:
                    self._insisting = True
                    _signal_main_thread()

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if self._insisting:
            self._insisting = False
        elif not self._signal_is_ours:
            self.requested = True
        elif self._limit is None:
            self._signal_is_ours = False
            return  # the code finished while the time-out's signal was under way
        else:
            self._signal_is_ours, self._limit.expired = False, True
        self._put_off = False
        if self.blocking or is_in_agents_code(frame):
            if not _in_own_code(frame):
                raise KeyboardInterrupt
            self._put_off = True
        elif self._task is not None:
            limit = None if self.requested else self._limit
            self._cancelling_since = time.monotonic()
            self._task.get_loop().call_soon_threadsafe(self._cancel, self._task, limit)

    def _cancel(self, task: asyncio.Task[Any], limit: TimeLimit | None) -> None:
        """Cancel for the user, or for a time-out whose execution still runs."""
        self._cancelling_since = None
        if self._installed and (limit is None or limit is self._limit):
            task.cancel()


def _wake_up() -> None:
    """Does nothing: the call itself wakes up the loop."""


def _signal_main_thread() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # wakes up time.sleep, too
    else:
        _thread.interrupt_main()


def _in_own_code(frame: FrameType | None) -> bool:
    """True if the interrupted frame is this package's own, which must not be broken off."""
    while frame is not None and frame.f_code.co_filename == contextlib.__file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OWN_CODE)
