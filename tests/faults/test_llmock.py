"""`llmock` breaks the calls in its own ways, sees how we react, and judges."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from faults.bench import Bench, adapter, hasty

from jupyter_agent.llm.retry import RetryPolicy

PATHS = {"anthropic": "/anthropic", "openai": "/v1"}
POLICY = RetryPolicy(initial_delay=0.1, max_delay=1.0)
SAID = "The answer is quite surely forty two, as I said before."
NOTE = {"type": "reply", "tool_calls": [{"name": "note", "arguments": {"word": "a"}}]}
ANSWER = {"type": "reply", "text": SAID, "times": 9}


def broken(kind: str, after: int, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, **more}


def failing(status: int, times: int = 1, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, "times": times, **more}


class Judge:
    """A running `llmock`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer

    def script(self, *behaviors: dict[str, Any]) -> None:
        self.call("POST", "/_llmock/reset")
        self.call("POST", "/_llmock/scenario", {"behaviors": behaviors})

    @property
    def requests(self) -> int:
        return int(self.call("GET", "/_llmock/requests")["count"])

    @property
    def findings(self) -> list[str]:
        return [
            f"{f['code']}: {f['title']}" for f in self.call("GET", "/_llmock/verdict")["findings"]
        ]

    def listens(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the judge's own process listens; False where it ended, or never does.

        Nothing is sent before: another test's server may have taken the port, and count requests.
        """
        port, end = int(self.address.rpartition(":")[2]), time.monotonic() + 60
        while time.monotonic() < end and server.poll() is None:
            with suppress(psutil.Error):
                found = psutil.Process(server.pid).net_connections("inet")
                if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found):
                    return True
            time.sleep(0.05)
        return False


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    command = Path(sys.executable).with_name("llmock")
    if not command.exists():
        pytest.skip("llmock is not installed")
    for _ in range(5):
        server, made = started(command)
        try:
            if made.listens(server):
                yield made
                return
        finally:
            server.terminate()
            server.wait(10)
    pytest.fail("llmock did not start")


def started(command: Path) -> tuple[subprocess.Popen[bytes], Judge]:
    """A judge on a port that was free a moment ago: another test may take it meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--tool-mode", "off"]
    server = subprocess.Popen(
        [command, "serve", *options, "--log-level", "error"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return server, Judge(f"http://127.0.0.1:{port}")


# name -> (what goes wrong after the first step, requests in all)
PASSING: dict[str, tuple[list[dict[str, Any]], int]] = {
    "rate limit": ([failing(429, 2, retry_after=0.4)], 4),
    "outage": ([failing(503, 3, retry_after=0.2)], 5),
    "overload": ([failing(529)], 3),
    "several": ([failing(500), failing(408), failing(409)], 5),
    "truncated early": ([broken("truncate", 2)], 3),
    "truncated late": ([broken("truncate", 7)], 3),
    "disconnected": ([broken("disconnect", 0), broken("disconnect", 5)], 4),
    "malformed": ([broken("malformed", 4)], 3),
    "stalled": ([broken("stall", 3, stall_seconds=30)], 3),
    "slow": ([{"type": "slow_first_token", "seconds": 0.5}], 2),
}
# The judge takes a reply as accepted when it could send the whole of it, which a short one is
# before anybody can hang up. That it was asked for again is seen in the number of requests.
UNSEEN = "malformed_chunk_ignored"
FINAL = (400, 401, 403, 404, 422)


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("name", PASSING)
async def test_what_passes(judge: Judge, kind: str, name: str) -> None:
    """Faults that pass are overcome, and the judge has nothing to find fault with."""
    faults, requests = PASSING[name]
    judge.script(NOTE)
    async with hasty(
        kind, judge.address + PATHS[kind], 1.5 if name == "stalled" else 20.0
    ) as provider:
        bench = Bench(provider, POLICY)
        bench.on_event = lambda event: (
            judge.call("POST", "/_llmock/scenario", {"behaviors": [*faults, ANSWER]})
            if event.type == "tool_started"
            else None
        )
        outcome = await bench.turn("What is the answer?")
    assert (outcome.stop_reason, bench.noted) == ("end", ["a"])
    assert bench.view.steps[-1].text == SAID
    assert judge.requests == requests
    assert [found for found in judge.findings if not found.startswith(UNSEEN)] == []


@pytest.mark.parametrize("kind", PATHS)
async def test_what_stays(judge: Judge, kind: str) -> None:
    """What another try cannot mend is asked once, and the judge agrees."""
    judge.script(*(failing(status) for status in FINAL), ANSWER)
    async with adapter(kind, judge.address + PATHS[kind]) as provider:
        bench = Bench(provider, POLICY)
        for number, status in enumerate(FINAL):
            outcome = await bench.turn(f"Task {number}.")
            assert outcome.stop_reason == "error" and str(status) in str(outcome.error)
        assert (await bench.turn("And now?")).stop_reason == "end"
    assert judge.requests == len(FINAL) + 1
    assert judge.findings == []


@pytest.mark.parametrize("kind", PATHS)
async def test_an_outage_that_stays(judge: Judge, kind: str) -> None:
    """A server that is down for good is asked four times, ever more slowly, and no more."""
    judge.script(failing(500, 99))
    async with adapter(kind, judge.address + PATHS[kind]) as provider:
        bench = Bench(provider, POLICY)
        outcome = await bench.turn("What is the answer?")
    assert outcome.stop_reason == "error" and "4 attempts" in str(outcome.error)
    assert judge.requests == 4
    assert judge.findings == []
