"""The embedded model in a real kernel: turns, interrupts, and what is left when the kernel ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from live_kernel import LiveKernel
from small_model import small_model


@pytest.fixture
def talking(tmp_path: Path) -> Iterator[LiveKernel]:
    """A kernel whose provider is the embedded model."""
    environ = {
        "JUPYTER_AGENT_PROVIDER": "local",
        "JUPYTER_AGENT_LOCAL__MODEL_PATH": str(small_model()),
        "JUPYTER_AGENT_LOCAL__CONTEXT": "2048",
        "JUPYTER_AGENT_LOCAL__THREADS": "1",
        "JUPYTER_AGENT_MAX_TOKENS": "16",
        "JUPYTER_AGENT_MAX_STEPS": "2",
    }
    with LiveKernel(tmp_path, environ) as kernel:
        kernel.load()
        yield kernel


def kernel_process(kernel: LiveKernel) -> psutil.Process:
    return psutil.Process(int(kernel.value("__import__('os').getpid()")))


def servers(kernel: psutil.Process) -> list[psutil.Process]:
    found = kernel.children(recursive=True)
    return [child for child in found if "jupyter_agent.llm.serving" in child.cmdline()]


def is_gone(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def await_that(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_a_turn_and_the_end_of_the_kernel(talking: LiveKernel) -> None:
    """No process before the first turn, one for all turns, quiet; none after a kill -9."""
    process = kernel_process(talking)
    seen = talking.run("%agent context all")
    assert "Reply with one ```python block" in seen.said
    assert servers(process) == []

    cell = talking.run("%%agent\nSay hello.", timeout=300)
    assert cell.status == "ok", cell.error
    assert "SmolLM2-135M-Instruct.Q4_1" in cell.transcript
    assert cell.stdout == cell.stderr == ""
    (server,) = servers(process)

    talking.helper("%agent config max_steps 1")
    talking.run("%%agent --fresh\nSay hello again.", timeout=300)
    assert servers(process) == [server], "other settings are no other server"

    process.kill()
    await_that(lambda: is_gone(server))
    assert "llama" not in (talking.folder / "kernel_stderr.txt").read_text(encoding="utf-8")


@pytest.mark.deep
def test_an_interrupt_and_a_death(talking: LiveKernel) -> None:
    """Stop amid a reply: the turn ends, the server stays. Killed, it is started again."""
    process = kernel_process(talking)
    talking.helper("%agent config max_tokens 1000")
    running = talking.start("%%agent\nTell a very long story about the sea.")
    await_that(lambda: bool(servers(process)))
    (server,) = servers(process)
    await_that(lambda: bool(server.net_connections()) and sum(server.cpu_times()[:2]) > 2)
    talking.interrupt()
    cell = running.finish(120)
    assert cell.status == "error"
    assert "TurnInterrupted" in cell.error
    assert not is_gone(server)

    talking.helper("%agent config max_tokens 16")
    os.kill(server.pid, signal.SIGKILL)
    assert talking.run("%%agent --fresh\nSay hello.", timeout=300).status == "ok"
    (again,) = servers(process)
    assert again.pid != server.pid

    talking.helper("%unload_ext jupyter_agent")
    await_that(lambda: is_gone(again))


@pytest.mark.deep
def test_an_interrupt_amid_the_load(talking: LiveKernel) -> None:
    """Stop before the model is there: one line, no process, and the next turn goes well."""
    process = kernel_process(talking)
    running = talking.start("%%agent\nSay hello.")
    await_that(lambda: bool(servers(process)))
    (server,) = servers(process)
    talking.interrupt()
    cell = running.finish(120)
    assert cell.status == "error"
    assert is_gone(server)
    assert talking.run("%%agent\nSay hello.", timeout=300).status == "ok"


@pytest.mark.deep
def test_a_file_that_is_no_model(talking: LiveKernel) -> None:
    """One line says what is wrong with it, and no process is left."""
    process = kernel_process(talking)
    half = talking.folder / "half.gguf"
    half.write_bytes(small_model().read_bytes()[:5_000_000])
    talking.helper(f"%agent config local.model_path {half}")
    cell = talking.run("%%agent\nSay hello.", timeout=120)
    assert cell.status == "error"
    assert "corrupted or incomplete" in cell.error
    assert servers(process) == []
