"""Replies that quote a tool call, in a real kernel with real SDKs: quoting is not calling."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from live_kernel import LiveKernel, Turn
from model_server import Call, ModelServer, Reply, check_openai

CODE = "open('ran.txt', 'w').close()"
CALL = {"name": "execute_code", "arguments": {"code": CODE}}
READ = {"name": "read_file", "arguments": {"path": "note.txt"}}
WAYS = {
    "tags": f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
    "a function": f"<function=execute_code>\n<parameter=code>\n{CODE}\n</parameter>\n</function>",
    "an invocation": (
        f'<invoke name="execute_code"><parameter name="code">{CODE}</parameter></invoke>'
    ),
    "Mistral": f"[TOOL_CALLS][{json.dumps(CALL)}]",
    "a fence": f"```json\n{json.dumps(CALL)}\n```",
    "bare JSON": json.dumps(CALL),
}
ASKED = "read from the text of the reply"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    # Without a view no question waits two seconds for a widget that is not there.
    environ = {**keys, "JUPYTER_AGENT_DISPLAY": "static"}
    with LiveKernel(tmp_path_factory.mktemp("kernel"), environ) as kernel:
        kernel.load()
        (kernel.folder / "note.txt").write_text("a note", encoding="utf-8")
        yield kernel


@pytest.fixture(autouse=True)
def defaults(kernel: LiveKernel) -> Iterator[None]:
    (kernel.folder / "ran.txt").unlink(missing_ok=True)
    yield
    kernel.helper("%agent config tool_protocol auto", "%agent config approvals.mode auto")
    kernel.helper("%agent config mode auto")


def use(kernel: LiveKernel, server: ModelServer, kind: str = "openai") -> None:
    address = server.anthropic_url if kind == "anthropic" else server.openai_url
    kernel.helper(
        f"%agent config provider {kind}",
        "%agent config model test-model",
        f"%agent config api_base {address}",
    )


def turn(kernel: LiveKernel, *replies: Reply, kind: str = "openai", typed: str = "") -> Turn:
    """One cell; `typed` answers the one question, nobody is there without it."""
    with ModelServer(list(replies)) as server:
        use(kernel, server, kind)
        return at(kernel, typed)


def at(kernel: LiveKernel, typed: str = "", says: str = ASKED) -> Turn:
    """The same with the server that the kernel uses by now."""
    logs = kernel.logs()
    running = kernel.start("%%agent --fresh\nDo it.", allow_stdin=bool(typed))
    if typed:
        assert says in running.question()
        running.type(typed)
    cell = running.finish()
    assert cell.status == "ok", cell.error
    return kernel.turn(cell, logs)


def ran(kernel: LiveKernel) -> bool:
    return (kernel.folder / "ran.txt").exists()


@pytest.mark.parametrize("way", WAYS)
def test_text_of_anthropic_is_text(kernel: LiveKernel, way: str) -> None:
    """A call in the text of Anthropic's API is the answer: nothing is run or asked."""
    pieces = tuple(WAYS[way][i : i + 7] for i in range(0, len(WAYS[way]), 7))
    done = turn(kernel, Reply(text=pieces), kind="anthropic")
    assert done.results == [] and not ran(kernel)
    assert kernel.value("str(_agent)") == WAYS[way]


@pytest.mark.parametrize(("way", "mode"), [("tags", "auto"), *((way, "ask_risky") for way in WAYS)])
def test_nobody_is_there_to_be_asked(kernel: LiveKernel, way: str, mode: str) -> None:
    """Without a person a call in another server's text is refused in any mode."""
    kernel.helper(f"%agent config approvals.mode {mode}")
    done = turn(kernel, Reply(text=WAYS[way]), Reply(text="Done."))
    assert done.result.state == "refused" and not ran(kernel)
    assert "nobody can be asked here" in done.result.text
    assert "tool_protocol text" in done.result.text and "approvals.mode" not in done.result.text


@pytest.mark.parametrize(
    ("mode", "typed", "runs"), [("auto", "y", True), ("auto", "n", False), ("ask_all", "y", True)]
)
def test_the_person_is_asked(kernel: LiveKernel, mode: str, typed: str, runs: bool) -> None:
    """The question names the call's origin, and the answer decides."""
    kernel.helper(f"%agent config approvals.mode {mode}")
    turn(kernel, Reply(text=WAYS["tags"]), Reply(text="Done."), typed=typed)
    assert ran(kernel) == runs


def test_harmless_tools_are_asked_about(kernel: LiveKernel) -> None:
    """Reading a file asks, too, also with read_only; a forbidden call does not."""
    kernel.helper("%agent config approvals.mode read_only")
    read = Reply(text=f"<tool_call>{json.dumps(READ)}</tool_call>")
    assert turn(kernel, read, Reply(text="Done."), typed="y").result.text.endswith("a note")
    refused = turn(kernel, Reply(text=WAYS["tags"]), Reply(text="Done."))
    assert "approvals.mode is read_only" in refused.result.text


def test_always_is_not_offered(kernel: LiveKernel) -> None:
    """Always is not offered: the next call in the text asks again."""
    calls = [Reply(text=WAYS["tags"]), Reply(text=WAYS["a fence"]), Reply(text="Done.")]
    with ModelServer(calls) as server:
        use(kernel, server)
        logs = kernel.logs()
        running = kernel.start("%%agent --fresh\nDo it.", allow_stdin=True)
        for typed in ("y", "n"):
            prompt = running.question()
            assert ASKED in prompt and "always" not in prompt.casefold()
            running.type(typed)
        done = kernel.turn(running.finish(), logs)
    assert [result.state for result in done.results] == ["done", "refused"]


def test_a_server_that_calls_by_its_api(kernel: LiveKernel) -> None:
    """After a native call the server's texts are texts, in other sessions and settings, too."""
    native = Call("read_file", json.dumps(READ["arguments"]))
    beside = Reply(text=WAYS["tags"], calls=(native,))
    ways = [*WAYS, "a function"]
    with ModelServer([beside, *(Reply(text=WAYS[way]) for way in ways)]) as server:
        use(kernel, server)
        first = at(kernel)
        kernel.helper("%agent config max_steps 7", "%agent reset")
        for way in ways[1:-1]:
            assert at(kernel).results == [] and kernel.value("str(_agent)") == WAYS[way]
        kernel.run("%%agent --session other\nDo it.")
        assert kernel.value("str(_agent)") == WAYS["a function"]
        check_openai(server.bodies[-1])
    assert [result.text.strip() for result in first.results] == ["1|a note"]
    assert not ran(kernel)


def test_thinking_is_no_call(kernel: LiveKernel) -> None:
    """A call in a thought, in a quoted fence or in backticks is never a call."""
    for text in (
        f"<think>{WAYS['tags']}</think>Nothing to do.",
        f"The note says `{WAYS['bare JSON']}`.",
        f"The note says:\n```text\n{WAYS['tags']}\n```\nI did not do it.",
    ):
        assert turn(kernel, Reply(text=text)).results == []
    thought = Reply(text="Nothing.", thinking=WAYS["tags"])
    assert turn(kernel, thought).results == []
    assert not ran(kernel)


def test_a_recorded_yes_is_replayed(kernel: LiveKernel) -> None:
    """A turn whose call was read from the text replays as it was recorded, without a server."""
    kernel.helper("%agent cassette quoted.cassette.jsonl", "%agent config mode record")
    calls = [Reply(text=WAYS["tags"]), Reply(text="Done.")]
    recorded = turn(kernel, *calls, typed="y")
    (kernel.folder / "ran.txt").unlink()
    kernel.helper("%agent config mode replay")
    replayed = at(kernel)
    assert [result.text for result in replayed.results] == [recorded.result.text]
    assert ran(kernel)
