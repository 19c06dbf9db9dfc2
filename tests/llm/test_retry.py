"""When a model call is tried again, and after how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from model_server import Fault, ModelServer, Reply, failed

from jupyter_agent.core.events import (
    MessageFinished,
    Preparing,
    Requested,
    Retrying,
    TextDelta,
)
from jupyter_agent.core.messages import Message, Text
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.errors import ContextOverflow, ProviderError
from jupyter_agent.llm.openai import OpenAI
from jupyter_agent.llm.retry import RetryPolicy, stream_with_retry

HI = Request("", (Message("user", (Text("hi"),)),))
QUICK = RetryPolicy(initial_delay=0.01, max_delay=0.05)
BUSY = failed(503, {"error": {"message": "busy"}})


async def asked(
    *replies: Reply, policy: RetryPolicy = QUICK
) -> tuple[list[ReplyPart | Retrying], ProviderError | None, int]:
    """What came, the error at the end if there was one, and the number of requests."""
    with ModelServer(replies) as server:
        provider = OpenAI("m", "k", server.openai_url)
        parts: list[ReplyPart | Retrying] = []
        error = None
        try:
            async for part in stream_with_retry(provider, HI, policy):
                if not isinstance(part, Requested):
                    parts.append(part)
        except ProviderError as raised:
            error = raised
        await provider.close()
        return parts, error, len(server.requests)


async def test_no_failure() -> None:
    """A successful call passes through."""
    parts, error, requests = await asked(Reply(text="ok"))
    assert (parts[0], error, requests) == (TextDelta("ok"), None, 1)


async def test_second_try() -> None:
    """A temporary failure is announced before the wait, and the call is repeated."""
    parts, error, requests = await asked(
        Reply(text="half", fault=Fault("cut")), BUSY, Reply(text="ok")
    )
    assert error is None and requests == 3
    assert parts[0] == TextDelta("half")
    tries = [part for part in parts if isinstance(part, Retrying)]
    assert [retry.attempt for retry in tries] == [1, 2]
    assert "503" in tries[1].reason
    assert isinstance(parts[-1], MessageFinished) and parts[-1].message.text == "ok"


async def test_each_request_is_told() -> None:
    """Before each attempt comes an event with its size and number."""
    with ModelServer([BUSY, Reply(text="ok")]) as server:
        provider = OpenAI("m", "k", server.openai_url)
        request = replace(HI, characters=2)
        parts = [part async for part in stream_with_retry(provider, request, QUICK)]
        await provider.close()
    assert parts[0] == Requested("m", messages=1, tools=0, characters=2, attempt=1)
    assert isinstance(parts[1], Retrying)
    assert parts[2] == Requested("m", 1, 0, 2, attempt=2)
    assert not any(isinstance(part, Requested) for part in parts[3:])


async def test_tries_used_up() -> None:
    """After the last attempt one line has the status, the attempts and the remedy."""
    _, error, requests = await asked(*[BUSY] * 9)
    assert requests == 4 and error is not None
    assert "503" in str(error) and "4 attempts" in str(error) and "later" in str(error)
    assert "\n" not in str(error) and error.status == 503 and not error.retryable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_failures_that_cannot_pass(status: int) -> None:
    """A permanent error is raised at once, unchanged."""
    parts, error, requests = await asked(failed(status, "no"), Reply(text="ok"))
    assert (parts, requests) == ([], 1)
    assert error is not None and "attempts" not in str(error)


async def test_overflow_is_not_tried_again() -> None:
    """A context overflow is not retried and keeps its class."""
    body = {"error": {"code": "context_length_exceeded", "message": "too long"}}
    _, error, requests = await asked(failed(400, body), Reply(text="ok"))
    assert isinstance(error, ContextOverflow) and requests == 1


@pytest.mark.parametrize("policy", [RetryPolicy(enabled=False), RetryPolicy(max_retries=0)])
async def test_switched_off(policy: RetryPolicy) -> None:
    """Without retries there is exactly one attempt, and its own error."""
    parts, error, requests = await asked(BUSY, Reply(text="ok"), policy=policy)
    assert (parts, requests) == ([], 1)
    assert error is not None and "attempts" not in str(error)


async def test_growing_waits() -> None:
    """The waits grow by the base from the initial delay, with some chance, up to the limit."""
    policy = RetryPolicy(max_retries=4, initial_delay=0.02, max_delay=0.1, exponential_base=3)
    parts, _, _ = await asked(*[BUSY] * 5, policy=policy)
    waits = [part.delay for part in parts if isinstance(part, Retrying)]
    assert 0.02 <= waits[0] <= 0.03
    assert 0.06 <= waits[1] <= 0.07
    assert waits[2:] == [0.1, 0.1]


async def test_retry_after_is_kept() -> None:
    """The server's wait replaces ours, longer or shorter."""
    replies = [
        failed(429, "slow", retry_after="0"),
        failed(429, "slow", retry_after_ms="40"),
        failed(429, "slow", retry_after="0.2"),
    ]
    parts, error, _ = await asked(*replies, Reply(text="ok"))
    waits = [part.delay for part in parts if isinstance(part, Retrying)]
    assert error is None
    assert waits == [0, 0.04, 0.2]


async def test_a_wait_is_counted() -> None:
    """During a wait one line says how long it takes, second by second, and which attempt comes."""
    parts, error, _ = await asked(failed(529, "busy", retry_after="2"), Reply(text="ok"))
    assert error is None
    assert [part.text for part in parts if isinstance(part, Preparing)] == [
        "The provider asks to wait: 2 s, attempt 2 of 4",
        "The provider asks to wait: 1 s, attempt 2 of 4",
        "waiting for the model, attempt 2 of 4",
    ]
    policy = RetryPolicy(max_retries=1, initial_delay=1.0)
    parts, _, _ = await asked(BUSY, Reply(text="ok"), policy=policy)
    assert "Trying again in 2 s, attempt 2 of 2" in str(parts)


async def test_a_server_that_asks_for_an_hour() -> None:
    """A wait of an hour is neither waited for nor shortened: the call ends and says why."""
    parts, error, requests = await asked(failed(429, "slow", retry_after="3600"), Reply(text="ok"))
    assert (parts, requests) == ([], 1)
    assert "The server asks to wait 3600 s." in str(error)


async def test_cancelled_wait() -> None:
    """An interrupt during the wait ends it at once."""
    with ModelServer([failed(429, "slow", retry_after="30")]) as server:
        provider = OpenAI("m", "k", server.openai_url)
        waiting = asyncio.Event()

        async def run() -> None:
            async for part in stream_with_retry(provider, HI, RetryPolicy()):
                if isinstance(part, Retrying):
                    waiting.set()

        task = asyncio.create_task(run())
        await waiting.wait()
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 5
        await provider.close()


async def test_closing_early() -> None:
    """Closing the outer stream closes the provider's, and with it the connection."""
    reply = Reply(text="x", fault=Fault("stall", seconds=30))
    with ModelServer([reply]) as server:
        provider = OpenAI("m", "k", server.openai_url)
        stream = stream_with_retry(provider, HI, QUICK)
        assert isinstance(await anext(stream), Requested)
        assert await anext(stream) == TextDelta("x")
        await stream.aclose()
        assert await asyncio.to_thread(server.hung_up.wait, 2)
        await provider.close()


class Odd:
    """A provider that fails in a way that is no `ProviderError`."""

    name = "odd"
    model = "m"
    source = "live"
    tries = 0

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        self.tries += 1
        yield TextDelta("x")
        raise RuntimeError("a bug")

    async def close(self) -> None:
        """There is nothing to release."""


async def test_bugs_are_not_tried_again() -> None:
    """An error that is no model failure passes unchanged."""
    odd = Odd()
    with pytest.raises(RuntimeError, match="a bug"):
        async for _ in stream_with_retry(odd, HI, QUICK):  # type: ignore[arg-type]
            pass
    assert odd.tries == 1
