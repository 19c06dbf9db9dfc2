"""A kernel that ends: the next one goes on with the conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel
from model_server import Call, ModelServer, Reply

SESSION = "get_ipython().agent_sessions['default']"


def code(source: str) -> Call:
    return Call("execute_code", json.dumps({"code": source}))


def use(kernel: LiveKernel, server: ModelServer, kind: str = "openai") -> None:
    url = server.openai_url if kind == "openai" else server.anthropic_url
    kernel.helper(
        f"%agent config provider {kind}",
        f"%agent config api_base {url}",
        "%agent config api_key k",
        "%agent config model m",
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        yield kernel


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_conversation_comes_back(desk: LiveKernel, kind: str) -> None:
    """Restart between turns: what was said is there again, and what is gone is told."""
    replies = [Reply(calls=(code("total = 342"),)), Reply(text="It is 342."), Reply(text="342.")]
    with ModelServer(replies) as server:
        use(desk, server, kind)
        desk.run("%%agent\nCount the rows.")
        desk.restart()
        use(desk, server, kind)
        assert "is back: 1 turn" in desk.run("%agent resume").said
        desk.run("%%agent\nWhat was the total?")
        sent = json.dumps(server.bodies[-1]["messages"])
    assert "Count the rows." in sent and "It is 342." in sent and "total" in sent
    assert "do not exist any more" in sent or "gone" in sent
    assert "2 turns" in desk.run("%agent usage").said
    assert "no turn has run" not in desk.run("%agent resume").error


def test_a_broken_off_turn_goes_on(desk: LiveKernel) -> None:
    """The kernel is killed while code runs: `%agent resume` brings it back and goes on."""
    endless = "open('begun', 'w').close()\nwhile True: pass"
    with ModelServer([Reply(calls=(code("a = 1"),)), Reply(calls=(code(endless),))]) as server:
        use(desk, server)
        desk.start("%%agent\nWork.")
        desk.await_file("begun")
        desk.restart()
    with ModelServer([Reply(text="Done at last.")]) as server:
        use(desk, server)
        cell = desk.run("%agent resume")
        assert "is back" in cell.said and "Done at last." in cell.said
        sent = json.dumps(server.bodies[-1]["messages"])
    assert "Work." in sent and "Go on with the task where you stopped." in sent
    assert sent.count('"tool_calls"') == 2 and sent.count('"role": "tool"') == 2


def test_by_itself(desk: LiveKernel) -> None:
    """`session.resume: auto`: the first task goes on where the earlier kernel was."""
    with ModelServer([Reply(text="Blue."), Reply(text="Blue, as I said.")]) as server:
        use(desk, server)
        desk.run("%%agent\nWhich colour?")
        desk.restart()
        use(desk, server)
        desk.helper("%agent config session.resume auto")
        desk.run("%%agent\nWhich was it?")
        assert "Which colour?" in json.dumps(server.bodies[-1]["messages"])


def test_a_second_cell_waits(desk: LiveKernel) -> None:
    """A second cell is sent while the first runs: it simply runs after it."""
    slow = code("import time\ntime.sleep(1)\nfirst = 1")
    replies = [Reply(calls=(slow,)), Reply(text="One."), Reply(text="Two.")]
    with ModelServer(replies) as server:
        use(desk, server)
        one, two = desk.start("%%agent\nFirst."), desk.start("%%agent\nSecond.")
        assert one.finish().displays[-1]["text/plain"] == "One."
        assert two.finish().displays[-1]["text/plain"] == "Two."
        sent = [text["content"] for text in server.bodies[-1]["messages"]]
    assert json.dumps(sent).index("First.") < json.dumps(sent).index("Second.")


def test_forgotten(desk: LiveKernel, tmp_path: Path) -> None:
    """After a reset nothing comes back; with `session.save` off nothing is written."""
    with ModelServer([Reply(text="Blue."), Reply(text="Red.")]) as server:
        use(desk, server)
        desk.run("%%agent\nWhich colour?")
        desk.helper("%agent reset")
        desk.restart()
        assert "no turn has run in this session yet" in desk.run("%agent resume").error
        use(desk, server)
        desk.helper("%agent config session.save false")
        desk.run("%%agent\nAnother secret task?")
    kept = "".join(
        path.read_text() for path in (tmp_path / ".jupyter_agent/sessions").glob("*.jsonl")
    )
    assert "Another secret task?" not in kept
