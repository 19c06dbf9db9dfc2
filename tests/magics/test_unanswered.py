"""Turns to which no model replied, and calls that waited for a yes when all ended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_kernel import LiveKernel
from model_server import Call, ModelServer, Reply, failed

REFUSED = failed(401, {"error": {"message": "invalid x-api-key"}})
DELETES = "import os\nos.remove('mine.csv')"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        yield kernel


def use(kernel: LiveKernel, server: ModelServer) -> None:
    kernel.helper(
        "%agent config provider openai",
        f"%agent config api_base {server.openai_url}",
        "%agent config api_key k",
        "%agent config model m",
        "%agent config approvals.mode ask_risky",
    )


def said_by_person(body: dict[str, Any]) -> list[str]:
    """The texts of the person's messages in a request, without the kernel's state."""
    texts = []
    for message in body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            parts = [content] if isinstance(content, str) else [p["text"] for p in content]
            texts += [p for part in parts for p in part.split("\n\n<context>")[:1]]
    return [text for text in texts if not text.startswith("<context>")]


def test_failed_turns_do_not_pile_up(desk: LiveKernel) -> None:
    """Three times a 401: the fourth request has the task once, and what the person ran before."""
    with ModelServer([REFUSED, REFUSED, REFUSED, Reply(text="Four.")]) as server:
        use(desk, server)
        desk.run("weights = [1, 2]")
        for _ in range(3):
            assert "401" in desk.run("%%agent\nWhat is two and two?").error
        desk.run("%%agent\nWhat is two and two?")
    body = server.bodies[-1]
    assert json.dumps(body).count("What is two and two?") == 1
    assert [message["role"] for message in body["messages"]].count("user") == 1
    assert "weights" in json.dumps(body["messages"])
    assert "Cells that the person ran since" in json.dumps(body["messages"])
    assert desk.run("%agent history").said.count("What is two and two?") == 1


def test_another_task_replaces_them(desk: LiveKernel) -> None:
    """The model reads the unanswered task as such, with the next one; history shows both."""
    with ModelServer([Reply(text="Hi."), REFUSED, REFUSED, Reply(text="Done.")]) as server:
        use(desk, server)
        desk.run("%%agent\nHello.")
        desk.run("%%agent\nSum the prices.")
        desk.run("%%agent\nSum the prices.")
        desk.run("%%agent\nPlease try again.")
        roles = [message["role"] for message in server.bodies[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        texts = "\n".join(said_by_person(server.bodies[-1]))
        assert texts.count("Sum the prices.") == 1 and "got no reply" in texts
        history = desk.run("%agent history").said
        assert "no reply" in history and "Sum the prices." in history


def test_resume_goes_on_with_the_unanswered_task(desk: LiveKernel) -> None:
    """`%agent resume` keeps the task that got no reply; after a restart, too."""
    with ModelServer([REFUSED, REFUSED, Reply(text="6."), Reply(text="7.")]) as server:
        use(desk, server)
        desk.run("%%agent\nCount the apples.")
        desk.run("%agent resume")
        assert desk.run("%agent resume").displays[-1]["text/plain"] == "6."
        assert json.dumps(server.bodies[-1]).count("Count the apples.") == 1
        desk.run("%%agent\nAnd the pears?")
        assert json.dumps(server.bodies[-1]).count("Count the apples.") == 1


def test_after_a_restart(desk: LiveKernel) -> None:
    """The next kernel knows which turns got no reply, and replaces them as well."""
    with ModelServer([Reply(text="Hi."), REFUSED, Reply(text="Done.")]) as server:
        use(desk, server)
        desk.run("%%agent\nHello.")
        desk.run("%%agent\nSum the prices.")
        desk.restart()
        use(desk, server)
        desk.helper("%agent config session.resume auto")
        desk.run("%%agent\nSum the prices.")
        body = json.dumps(server.bodies[-1])
    assert body.count("Sum the prices.") == 1 and "Hello." in body


def test_a_call_that_waited_for_a_yes_did_not_run(desk: LiveKernel, tmp_path: Path) -> None:
    """Interrupted at the question: the model reads that the call was not run."""
    (tmp_path / "mine.csv").write_text("1", encoding="utf-8")
    call = Call("execute_code", json.dumps({"code": DELETES}))
    with ModelServer([Reply(calls=(call,)), Reply(text="All right.")]) as server:
        use(desk, server)
        running = desk.start("%%agent\nClean up.", allow_stdin=True)
        running.question()
        desk.interrupt()
        running.finish()
        desk.run("%%agent\nGo on.")
        (result,) = [m["content"] for m in server.bodies[-1]["messages"] if m["role"] == "tool"]
    assert result.startswith("Not run: the person interrupted")
    assert (tmp_path / "mine.csv").exists()


def test_a_kernel_that_ends_at_the_question(desk: LiveKernel, tmp_path: Path) -> None:
    """Killed at the question: the next kernel's model reads that the calls were not run."""
    (tmp_path / "mine.csv").write_text("1", encoding="utf-8")
    first = Call("execute_code", json.dumps({"code": "done = 1"}))
    calls = [Call("execute_code", json.dumps({"code": code})) for code in (DELETES, "later = 1")]
    with ModelServer([Reply(calls=(first,)), Reply(calls=tuple(calls))]) as server:
        use(desk, server)
        pid = desk.value("__import__('os').getpid()")
        running = desk.start("%%agent\nClean up.", allow_stdin=True)
        running.question()
        os.kill(pid, signal.SIGKILL)  # a restart interrupts first, and the turn may notice
        desk.restart()
    with ModelServer([Reply(text="All right.")]) as server:
        use(desk, server)
        desk.run("%agent resume")
        results = [m["content"] for m in server.bodies[-1]["messages"] if m["role"] == "tool"]
    assert [result.startswith("Not run: the kernel ended") for result in results] == [
        False,
        True,
        True,
    ]
