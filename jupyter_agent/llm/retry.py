"""The one retry policy. The SDKs' own retries are off, so that there is a single budget."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from tenacity import (
    AsyncRetrying,
    DoSleep,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_any,
    wait_exponential_jitter,
)
from tenacity.stop import stop_base

from jupyter_agent.core.events import Preparing, Requested, Retrying
from jupyter_agent.core.ports import Model, ReplyPart, Request
from jupyter_agent.errors import ProviderError

_TICK = 1.0
"""Seconds from one count of a wait to the next."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of retries of a failed model call, and the waits before them.

    Args:
        enabled: False never tries again.
        max_retries: Tries after the first one.
        initial_delay: Seconds before the first retry.
        max_delay: The longest of the growing waits in seconds. A server's `Retry-After` may be
            longer.
        exponential_base: The factor from one wait to the next.
        max_total: The most seconds of all waits for one model call. If a server asks for more,
            the call fails.
    """

    enabled: bool = True
    max_retries: int = 3
    initial_delay: float = 1.0
    max_delay: float = 60.0
    exponential_base: float = 2.0
    max_total: float = 300.0

    @property
    def attempts(self) -> int:
        return 1 + max(0, self.max_retries) if self.enabled else 1


async def stream_with_retry(
    provider: Model, request: Request, policy: RetryPolicy
) -> AsyncGenerator[ReplyPart | Requested, None]:
    """The stream of `provider`; after a temporary failure `Retrying`, a wait, and a new start.

    `Requested` comes before each start. Parts before a `Retrying` are void. During a wait,
    `Preparing` counts its seconds.

    Raises:
        ProviderError: The failure is permanent, or the tries are used up.
    """
    retrying = _retrying(policy)
    state = RetryCallState(retrying, fn=None, args=(), kwargs={})
    retrying.begin()
    while True:
        # Driven by hand: `Retrying` must come before the wait, and a callback cannot yield.
        step = await retrying.iter(state)
        if isinstance(step, DoSleep):
            yield Retrying(_reason(state), state.attempt_number, float(step))
            async with aclosing(_wait(state, policy, float(step))) as waits:
                async for waiting in waits:
                    yield waiting
            state.prepare_for_next_attempt()
            continue
        yield _requested(provider, request, state.attempt_number)
        try:
            async with _closing(provider.stream(request)) as parts:
                async for part in parts:
                    yield part
            return
        except ProviderError:
            _, error, trace = sys.exc_info()
            assert error is not None
            state.set_exception((type(error), error, trace))


async def _wait(
    state: RetryCallState, policy: RetryPolicy, seconds: float
) -> AsyncGenerator[Preparing, None]:
    """Wait, and say every second how long it still takes."""
    asked = _error(state).retry_after is not None
    attempt = f"attempt {state.attempt_number + 1} of {policy.attempts}"
    begin = "The provider asks to wait: " if asked else "Trying again in "
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > _TICK / 2:
        whole = f"{math.ceil(left):,} s, {attempt}"
        yield Preparing(f"{begin}{whole}")
        await asyncio.sleep(min(_TICK, left))
    await asyncio.sleep(max(0.0, left))
    if seconds > _TICK / 2:
        yield Preparing(f"waiting for the model, {attempt}")


def _retrying(policy: RetryPolicy) -> AsyncRetrying:
    return AsyncRetrying(
        stop=stop_any(stop_after_attempt(policy.attempts), _stop_after_waiting(policy.max_total)),
        wait=_Wait(policy),
        retry=retry_if_exception(lambda error: getattr(error, "retryable", False)),
        retry_error_callback=_give_up,
    )


class _Wait(wait_exponential_jitter):
    """The server's `Retry-After`, else a growing wait with random jitter of half the first one."""

    def __init__(self, policy: RetryPolicy) -> None:
        super().__init__(
            multiplier=policy.initial_delay,
            max=policy.max_delay,
            exp_base=policy.exponential_base,
            jitter=policy.initial_delay / 2,
        )

    def __call__(self, retry_state: RetryCallState) -> float:
        asked = _error(retry_state).retry_after
        if asked is not None and asked >= 0:
            return asked
        return float(super().__call__(retry_state))


class _stop_after_waiting(stop_base):
    """Stop before a wait that makes all waits together longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.idle_for + retry_state.upcoming_sleep > self._seconds


def _give_up(state: RetryCallState) -> None:
    error = _error(state)
    asked = error.retry_after
    if asked is not None and state.upcoming_sleep == asked > 1 and error.retryable:
        wait = f" The server asks to wait {_time(asked)}."
    else:
        wait = ""
    if state.attempt_number == 1 and not wait:
        raise error
    tries = f" Gave up after {state.attempt_number} attempts." if state.attempt_number > 1 else ""
    raise ProviderError(
        f"{error}{wait}{tries}",
        status=error.status,
        retry_after=error.retry_after,
    ) from error


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 86_400 else "more than a day"


def _error(state: RetryCallState) -> ProviderError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, ProviderError)
    return error


def _requested(provider: Model, request: Request, attempt: int) -> Requested:
    counts = len(request.messages), len(request.tools), request.characters
    return Requested(provider.model, *counts, attempt)


def _reason(state: RetryCallState) -> str:
    return str(_error(state))


@asynccontextmanager
async def _closing(parts: AsyncIterator[ReplyPart]) -> AsyncIterator[AsyncIterator[ReplyPart]]:
    """Close a provider's stream at the end of the context, not at garbage collection."""
    try:
        yield parts
    finally:
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()
