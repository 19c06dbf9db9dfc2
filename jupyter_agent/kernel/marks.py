"""Tells whose code runs: the agent's or somebody else's.

The agent's code has a mark in its context. Tasks, threads and calls of thread pools that it starts
inherit the mark, and keep it after the call. All other code has none: the person's cells, the
kernel, the debugger and this package.

Code that runs in a context without the mark is the agent's, too, if a function of the agent's code
is among its callers and a call of the agent runs.

Threads that `threading` did not start (those of native libraries, and of `_thread`) have no context
of anybody's. While a call of the agent runs, their outputs count as the agent's; their side effects
are judged only below a function of the agent's code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import CodeType, FrameType
from typing import Any

from jupyter_agent.core.effects import SideEffectJudge

judged_marks: set[int] = set()
"""The ids of the marks with a judge: while there are none, nothing needs to be judged."""
_calls: list[object] = []
"""The calls that run."""
_judges: list[SideEffectJudge] = []
"""The judges of the calls that run."""
AGENT_FILE = "<agent-"
"""The beginning of the file names of the agent's compiled code."""


class _Mark:
    """The mark of one call's code: the key of the call, and the judge of its side effects."""

    __slots__ = ("call", "judge")

    def __init__(self, call: object, judge: SideEffectJudge | None) -> None:
        self.call = call
        self.judge = judge
        if judge is not None:
            judged_marks.add(id(self))

    def __del__(self, marks: set[int] = judged_marks) -> None:
        marks.discard(id(self))


_mark: ContextVar[_Mark | None] = ContextVar("jupyter_agent_mark", default=None)


@contextmanager
def agents_code() -> Iterator[object]:
    """Mark what runs in this context, and what it starts, as the code of one call of the agent.

    Yields:
        The key of the call, for `is_of`.
    """
    _let_threads_inherit()
    call = object()
    _calls.append(call)
    token = _mark.set(_Mark(call, None))
    try:
        yield call
    finally:
        _mark.reset(token)
        _calls.remove(call)


@contextmanager
def with_judge(judge: SideEffectJudge | None) -> Iterator[None]:
    """Set the judge of the marked code in this context, and of what it starts there.

    Args:
        judge: None lets all side effects happen.
    """
    mark = _mark.get()
    token = _mark.set(None if mark is None else _Mark(mark.call, judge))
    if judge is not None:
        _judges.append(judge)
    try:
        yield
    finally:
        _mark.reset(token)
        if judge is not None:
            _judges.remove(judge)


def own() -> AbstractContextManager[None]:
    """Let this package's own side effects happen, where the agent's code calls it."""
    return with_judge(None)


def judge_of_this() -> SideEffectJudge | None:
    """The judge of the running code; None if all its side effects may happen."""
    mark = _mark.get()
    if mark is not None:
        return mark.judge
    return _judges[-1] if _judges and is_in_agents_code(sys._getframe()) else None


def is_marked() -> bool:
    """True if the running code has a mark of its own."""
    return _mark.get() is not None


def is_agents() -> bool:
    """True if the running code is the agent's, of this call or of an earlier one."""
    return _mark.get() is not None or (bool(_calls) and _is_without_mark())


def is_of(call: object) -> bool:
    """True if the running code belongs to a call that still runs."""
    mark = _mark.get()
    return _is_without_mark() if mark is None else mark.call is call


def _is_without_mark() -> bool:
    """True if code without a mark is the agent's, while a call of the agent runs."""
    is_nobodys = isinstance(threading.current_thread(), threading._DummyThread)
    return is_nobodys or is_in_agents_code(sys._getframe())


def is_in_agents_code(frame: FrameType | None) -> bool:
    """True if the agent's code is on the stack above the event loop's dispatch.

    It is the agent's cell, or a function of it that runs in a task of its own.
    """
    dispatch = _loop_dispatch()
    while frame is not None and frame.f_code is not dispatch:
        if frame.f_code.co_filename.startswith(AGENT_FILE):
            return True
        frame = frame.f_back
    return False


@cache
def _loop_dispatch() -> CodeType:
    from asyncio.events import Handle  # not for `%load_ext`, which runs no code of the agent's

    return Handle._run.__code__


# ---------------------------------------------------------------- what the marked code starts


@cache
def _let_threads_inherit() -> None:
    threading.Thread.start = _starting(threading.Thread.start)  # type: ignore[assignment, method-assign]
    pools.ThreadPoolExecutor.submit = _submitting(pools.ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """`Thread.start` by which a thread has the mark of the running code until it ends.

    Callbacks that others give to the thread later run in contexts of their own, without it.
    """

    @wraps(start)
    def start_with_mark(thread: threading.Thread) -> None:
        mark = _mark.get()
        if mark is not None and getattr(thread, "_target", None) is not pools._worker:
            run = thread.run

            def run_with_mark() -> None:
                del thread.run  # so that nothing holds the mark once it has ended
                _mark.set(mark)
                run()

            thread.run = run_with_mark  # type: ignore[method-assign]
        start(thread)

    return start_with_mark


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    """`ThreadPoolExecutor.submit` by which a call has the mark of the code that submits it.

    A pool works for the agent's code and for others, whoever made it.
    """

    @wraps(submit)
    def submit_with_mark(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        mark = _mark.get()
        if mark is None:
            return submit(pool, function, *args, **kwargs)
        return submit(pool, _with_mark, mark, function, *args, **kwargs)

    return submit_with_mark


def _with_mark(mark: _Mark, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = _mark.set(mark)
    try:
        return function(*args, **kwargs)
    finally:
        _mark.reset(token)
