"""A person interrupts the kernel while a turn runs: it ends at once, and all that follows works."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Cell, LiveKernel, Running
from model_server import (
    Call,
    Fault,
    ModelServer,
    Reply,
    check_anthropic,
    check_openai,
    check_stable,
    failed,
)

LINE = (
    "TurnInterrupted: The agent was interrupted. What it had finished is kept, and the next "
    "%%agent cell goes on from there."
)
BEGUN = "from pathlib import Path\nPath('begun').touch()\n"
ENDLESS = {
    "busy loop": BEGUN + "while True: pass",
    "sleep": BEGUN + "import time\ntime.sleep(60)",
    "await": BEGUN + "import asyncio\nawait asyncio.sleep(60)",
    "busy loop after await": "import asyncio\nawait asyncio.sleep(0)\n"
    + BEGUN
    + "while True: pass",
    "sleep after await": "import asyncio, time\nawait asyncio.sleep(0)\n"
    + BEGUN
    + "time.sleep(60)",
    "command": "!touch begun; sleep 60",
    "thread": BEGUN + "import threading\nthreading.Event().wait(60)",
    "helper task": (
        "import asyncio\nasync def wait():\n    await asyncio.sleep(60)\n"
        + BEGUN
        + "await asyncio.gather(wait(), wait())"
    ),
}


@pytest.fixture(autouse=True)
def _nothing_begun(kernel: LiveKernel) -> Iterator[None]:
    yield
    (kernel.folder / "begun").unlink(missing_ok=True)


def stop(kernel: LiveKernel, running: Running) -> Cell:
    """Interrupt a cell, which must end long before it would by itself."""
    started = time.monotonic()
    kernel.interrupt()
    cell = running.finish(timeout=30)
    assert time.monotonic() - started < 15
    return cell


def check_usable(kernel: LiveKernel) -> None:
    """An ordinary cell runs, an ordinary endless one can be interrupted, and the agent works."""
    assert kernel.run("6 * 7").result == "42"
    Path(kernel.folder / "begun").unlink(missing_ok=True)
    running = kernel.start(BEGUN + "while True: pass")
    kernel.await_file("begun")
    assert stop(kernel, running).reply["ename"] == "KeyboardInterrupt"
    assert kernel.agent("1 + 1").result.text == "2"


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_interrupting_the_agents_code(kernel: LiveKernel, code: str) -> None:
    """Interrupt endless code: one line says so, finished work stays, the kernel is usable."""
    kernel.run("mine = 'kept'")
    running, logs = kernel.start_agent("finished = 'kept'", code, "never = 1")
    kernel.await_file("begun")
    turn = kernel.turn(stop(kernel, running), logs)
    assert (turn.cell.status, turn.cell.error) == ("error", LINE)
    assert turn.stop_reason == "interrupted"
    assert [result.state for result in turn.results] == ["done", "interrupted"]
    assert turn.cell.transcript.splitlines()[-1].strip().startswith("Interrupted.")
    assert kernel.value("mine, finished, 'never' in globals()") == ("kept", "kept", False)
    check_usable(kernel)


def test_code_that_had_shown_something(kernel: LiveKernel) -> None:
    """Interrupt code after it printed: what it printed is in the transcript and for the model."""
    running, logs = kernel.start_agent("print('so far')\n" + ENDLESS["busy loop"])
    kernel.await_file("begun")
    turn = kernel.turn(stop(kernel, running), logs)
    assert turn.result.text == "so far\nInterrupted by the person."
    assert "so far" in turn.cell.transcript


def test_code_that_catches_the_interrupt(kernel: LiveKernel) -> None:
    """Interrupt code that cleans up and ends by itself: the turn ends all the same."""
    running, logs = kernel.start_agent(
        f"try:\n    {ENDLESS['busy loop'].replace(chr(10), chr(10) + '    ')}\n"
        "except KeyboardInterrupt:\n    cleaned = True",
        "never_after = 1",
    )
    kernel.await_file("begun")
    turn = kernel.turn(stop(kernel, running), logs)
    assert (turn.cell.error, turn.stop_reason) == (LINE, "interrupted")
    assert kernel.value("cleaned, 'never_after' in globals()") == (True, False)


@pytest.mark.parametrize("kind", ["busy loop", "await"])
def test_two_interrupts_at_once(kernel: LiveKernel, kind: str) -> None:
    """Press Stop twice in a row: the cell ends once, and the kernel is usable."""
    running, _ = kernel.start_agent(ENDLESS[kind])
    kernel.await_file("begun")
    kernel.interrupt()
    assert stop(kernel, running).status == "error"
    check_usable(kernel)


def test_two_turns_interrupted_one_after_the_other(kernel: LiveKernel) -> None:
    """Interrupt a turn, start the next one and interrupt that too: both end in the one line."""
    for kind in ("busy loop", "await"):
        (kernel.folder / "begun").unlink(missing_ok=True)
        running, _ = kernel.start_agent(ENDLESS[kind])
        kernel.await_file("begun")
        assert stop(kernel, running).error == LINE
    check_usable(kernel)


def test_an_interrupt_is_not_a_time_out(kernel: LiveKernel) -> None:
    """Interrupt code that has a time-out too: it counts as interrupted, no late signal comes."""
    running, logs = kernel.start_agent({"code": ENDLESS["sleep"], "timeout": 30})
    kernel.await_file("begun")
    turn = kernel.turn(stop(kernel, running), logs)
    assert (turn.result.state, turn.cell.error) == ("interrupted", LINE)


def test_the_old_handler_is_back(kernel: LiveKernel) -> None:
    """After turns that ended well, were interrupted or failed, SIGINT has the handler of before."""
    ask = "import signal\nrepr(signal.getsignal(signal.SIGINT))"
    before = kernel.run(ask).result
    kernel.agent("1", {"code": "while True: pass", "timeout": 0.2})
    running, _ = kernel.start_agent(ENDLESS["await"])
    kernel.await_file("begun")
    stop(kernel, running)
    kernel.script("another task")
    assert kernel.run("%%agent\nnot in the script").status == "error"
    assert kernel.run(ask).result == before


# With a model behind HTTP ------------------------------------------------------------------------


def use(kernel: LiveKernel, server: ModelServer, provider: str = "openai") -> None:
    """Let the kernel's next turns ask `server`, in a new conversation."""
    address = server.openai_url if provider == "openai" else server.anthropic_url
    kernel.helper(
        "%agent reset",
        f"%agent config provider {provider}",
        f"%agent config api_base {address}",
        "%agent config api_key not-a-key",
        "%agent config model test-model",
        "%agent config retry.initial_delay 30",
    )


def code_call(code: str) -> Call:
    return Call("execute_code", json.dumps({"code": code}))


def await_request(server: ModelServer, count: int = 1) -> None:
    end = time.monotonic() + 30
    while len(server.requests) < count:
        assert time.monotonic() < end, "no request came"
        time.sleep(0.01)


def check_requests(server: ModelServer, provider: str) -> None:
    """What was sent is valid, and each request goes on from the one before."""
    check = check_openai if provider == "openai" else check_anthropic
    for body in server.bodies:
        check(body)
    check_stable(server.requests)


STALLS = {
    "before the reply": Reply(text="Late.", delay=60),
    "in the middle of the words": Reply(text="Let me", fault=Fault("stall", seconds=60)),
    "in the middle of a call": Reply(
        text="Let me", calls=(code_call("never = 1"),), fault=Fault("stall", seconds=60)
    ),
}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("stall", STALLS.values(), ids=STALLS.keys())
def test_interrupting_the_model_call(kernel: LiveKernel, provider: str, stall: Reply) -> None:
    """Interrupt while the model is silent: what was finished stays, the next turn is valid."""
    script = [Reply(calls=(code_call("worked = 1"),)), stall, Reply(text="Here I am.")]
    with ModelServer(script) as server:
        use(kernel, server, provider)
        running = kernel.start("%%agent\nWork.")
        await_request(server, 2)
        assert stop(kernel, running).error == LINE
        assert kernel.run("worked").result == "1"
        again = kernel.run("%%agent\nGo on.")
        assert again.displays[-1]["text/plain"] == "Here I am."
        check_requests(server, provider)
    check_usable(kernel)


def test_interrupting_the_wait_before_a_retry(kernel: LiveKernel) -> None:
    """Interrupt while the agent waits to try again: it ends at once and asks no more."""
    with ModelServer([failed(503), Reply(text="Here I am.")]) as server:
        use(kernel, server)
        running = kernel.start("%%agent\nWork.")
        await_request(server)
        time.sleep(0.3)  # its answer says at once that it failed
        assert stop(kernel, running).error == LINE
        assert len(server.requests) == 1
        assert kernel.run("%%agent\nGo on.").displays[-1]["text/plain"] == "Here I am."
        check_requests(server, "openai")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", ["busy loop", "await"])
def test_the_history_after_an_interrupted_call(
    kernel: LiveKernel, provider: str, kind: str
) -> None:
    """Interrupt the second of three calls: each has its result in the next request."""
    codes = ("first = 1", ENDLESS[kind], "third = 1")
    script = [Reply(text="Now.", calls=tuple(map(code_call, codes))), Reply(text="Here I am.")]
    with ModelServer(script) as server:
        use(kernel, server, provider)
        running = kernel.start("%%agent\nWork.")
        kernel.await_file("begun")
        assert stop(kernel, running).error == LINE
        assert kernel.run("%%agent\nGo on.").displays[-1]["text/plain"] == "Here I am."
        check_requests(server, provider)
        sent = json.dumps(server.bodies[-1]["messages"])
    assert sent.count("nterrupted by the person") == 1
    assert sent.count("Not run: the person interrupted the turn before.") == 1
    assert kernel.value("first, 'third' in globals()") == (1, False)
    check_usable(kernel)


def test_three_turns_interrupted_then_one_that_ends(kernel: LiveKernel) -> None:
    """Interrupt turn after turn before the model says a word: the fourth request is valid."""
    silent = Reply(text="Late.", delay=60)
    with ModelServer([silent, silent, silent, Reply(text="Here I am.")]) as server:
        use(kernel, server, "anthropic")
        for number in (1, 2, 3):
            running = kernel.start(f"%%agent\nTask {number}.")
            await_request(server, number)
            assert stop(kernel, running).error == LINE
        assert kernel.run("%%agent\nGo on.").displays[-1]["text/plain"] == "Here I am."
        check_requests(server, "anthropic")
        assert all(f"Task {number}." in str(server.bodies[-1]) for number in (1, 2, 3))
