"""A model that only writes text, in a real kernel: it acts by blocks of Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_kernel import LiveKernel, Turn
from model_server import ModelServer, Reply, check_anthropic, check_openai, check_stable

Json = dict[str, Any]
TOOLS = ("read_file", "write_file", "edit_file", "list_files", "search_files", "inspect_variable")


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    environ = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    with LiveKernel(tmp_path_factory.mktemp("kernel"), environ) as kernel:
        kernel.load("config tool_protocol code")
        yield kernel


@pytest.fixture(autouse=True)
def folder(kernel: LiveKernel) -> Iterator[None]:
    (kernel.folder / "a.csv").write_text("species,mass\nGentoo,5076\n", encoding="utf-8")
    yield
    kernel.helper(
        "%agent config approvals.mode auto",
        "%agent config tool_protocol code",
        "%agent config mode auto",
        "%agent config privacy.outputs full",
    )


def use(kernel: LiveKernel, server: ModelServer, kind: str = "openai") -> None:
    address = server.anthropic_url if kind == "anthropic" else server.openai_url
    kernel.helper(
        f"%agent config provider {kind}",
        "%agent config model test-model",
        f"%agent config api_base {address}",
    )


def block(code: str, words: str = "") -> Reply:
    return Reply(text=f"{words}\n```python\n{code}\n```".lstrip())


def turn(
    kernel: LiveKernel, *replies: Reply, kind: str = "openai", line: str = "--fresh"
) -> tuple[Turn, list[Json]]:
    """One cell in which the model writes these replies, then "Done."."""
    with ModelServer([*replies, Reply(text="Done.")]) as server:
        use(kernel, server, kind)
        logs = kernel.logs()
        cell = kernel.run(f"%%agent {line}\nDo it.")
    assert cell.status == "ok", cell.error
    return kernel.turn(cell, logs), server.bodies


def calls_of(done: Turn) -> list[Json]:
    """What the run log says of the tool functions that were called."""
    finished = [e["result"] for e in done.events if e["type"] == "tool_finished"]
    return [call for result in finished for call in result["details"].get("calls", ())]


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_whole_turn(kernel: LiveKernel, kind: str) -> None:
    """The model writes code, reads its output, and answers; the person sees an ordinary turn."""
    replies = [block("heavy = 5076\nheavy + 1", "I look."), block("print(heavy - 1)")]
    with ModelServer([*replies, Reply(text="Gentoo.")]) as server:
        use(kernel, server, kind)
        logs = kernel.logs()
        cell = kernel.run("%%agent --fresh\nWhich is heaviest?")
        done = kernel.turn(cell, logs)
        check_stable(server.requests)
    assert [result.text for result in done.results] == ["5077", "5075"]
    assert kernel.value("heavy") == 5076
    assert kernel.value("str(_agent)") == "Gentoo."
    assert "I look." in cell.transcript and "heavy = 5076" in cell.transcript
    assert "```python" not in cell.transcript
    for body in server.bodies:
        (check_anthropic if kind == "anthropic" else check_openai)(body)
        assert "tools" not in body
    assert "Output:\\n5077" in json.dumps(server.bodies[1]["messages"])


def test_tools_are_functions(kernel: LiveKernel) -> None:
    """Code reads and writes with the tools' functions; receipt and log include the files."""
    code = (
        "print(read_file('a.csv', limit=1))\n"
        "print(write_file(path='out/b.txt', content='hello\\n'))\n"
        "print(list_files())\n"
        "print(update_plan([{'text': 'look', 'state': 'done'}]))\n"
        "mass = 3\n"
        "print(inspect_variable('mass'))"
    )
    done, _ = turn(kernel, block(code))
    text = done.result.text
    for part in ("1|species,mass", "Created out/b.txt", "a.csv", "[x] look", "mass: int"):
        assert part in text
    assert (kernel.folder / "out/b.txt").read_text() == "hello\n"
    calls = calls_of(done)
    assert [(c["tool"], c["state"]) for c in calls] == [
        (name, "done")
        for name in ("read_file", "write_file", "list_files", "update_plan", "inspect_variable")
    ]
    assert calls[0]["arguments"] == {"path": "a.csv", "limit": 1}
    assert kernel.value("_agent.files") == ("out/b.txt",)
    assert kernel.value("_agent.variables") == ("mass",)
    assert "diff" in done.result.kinds
    assert "out/b.txt" in done.cell.transcript


def test_nothing_is_left_behind(kernel: LiveKernel, tmp_path: Path) -> None:
    """After the turn neither %who nor the context shows the functions."""
    kernel.begin_anew(tmp_path)
    kernel.helper("%agent config tool_protocol code")
    done, _ = turn(kernel, block("%who function"), block("f = 1"))
    assert not any(name in done.results[0].text for name in TOOLS)
    assert kernel.value("[n for n in ('agent_tools', 'read_file') if n in globals()]") == []
    assert kernel.value("'read_file' in get_ipython().user_ns_hidden") is False
    who = kernel.helper("%who").stdout
    assert not any(name in who for name in TOOLS)
    _, bodies = turn(kernel, line="", kind="anthropic")
    assert "read_file" not in json.dumps(bodies[0]["messages"])


def test_a_variable_of_the_person_stays(kernel: LiveKernel) -> None:
    """A person's variable `read_file` stays; the tool is agent_tools.read_file."""
    kernel.helper("read_file = 42")
    code = "print(read_file)\nprint(agent_tools.read_file('a.csv'))"
    done, _ = turn(kernel, block(code))
    assert done.result.text.startswith("42\n") and "Gentoo,5076" in done.result.text
    assert kernel.value("read_file") == 42
    kernel.helper("del read_file")


def test_a_name_that_the_code_takes(kernel: LiveKernel) -> None:
    """If code binds a tool's name, the name is that variable from then on."""
    done, _ = turn(kernel, block("list_files = [1]"), block("print(list_files)"))
    assert done.results[1].text == "[1]"
    assert kernel.value("list_files") == [1]
    assert kernel.value("_agent.variables") == ("list_files",)
    kernel.helper("del list_files")


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("read_file('gone.csv')", "ToolCallError", "gone.csv"),
        ("read_file(5)", "ToolCallError", "do not fit its schema"),
        ("read_file()", "ToolCallError", "path"),
        ("read_file('a.csv', colour=1)", "ToolCallError", "colour"),
        ("read_file('a', 1, 2, 3)", "TypeError", "at most 3 arguments"),
        ("read_file('a', path='b')", "TypeError", "two values"),
        ("read_file(object())", "TypeError", "not a object"),
        ("read_file('../../etc/passwd')", "ToolCallError", "workspace"),
        ("execute_code('1')", "NameError", "execute_code"),
    ],
)
def test_errors(kernel: LiveKernel, code: str, error: str, words: str) -> None:
    """A wrong call raises an ordinary exception with the tool's message."""
    done, _ = turn(kernel, block(code), block(f"try:\n    {code}\nexcept Exception:\n    'caught'"))
    first, second = done.results
    assert (first.is_error, first.error_name) == (True, error)
    assert words in first.text
    assert not second.is_error


def test_what_needs_a_question(kernel: LiveKernel) -> None:
    """A write over an unread file is refused, and the model reads the alternative."""
    kernel.helper("%agent config approvals.mode ask_risky")
    fresh = block("write_file('new.txt', 'x')")
    over = block("write_file('a.csv', 'gone')")
    done, _ = turn(kernel, fresh, over, block("read_file('a.csv')\nwrite_file('a.csv', 'new')"))
    one, two, three = done.results
    assert not one.is_error and not three.is_error
    assert two.error_name == "PermissionError"
    assert "needs the person's approval" in two.text and "open(path, 'w')" in two.text
    assert [c["state"] for c in calls_of(done)] == ["done", "refused", "done", "done"]
    assert (kernel.folder / "a.csv").read_text() == "new"


def test_switched_off_tools(kernel: LiveKernel) -> None:
    """After file tools are switched off in mid-session, their functions are refused."""
    turn(kernel)
    kernel.helper("%agent config tools.enable_file_tools false")
    done, _ = turn(kernel, block("read_file('a.csv')"), line="")
    kernel.helper("%agent config tools.enable_file_tools true")
    assert done.result.error_name == "PermissionError"
    assert "tools.enable_file_tools is false" in done.result.text


def test_after_the_code(kernel: LiveKernel) -> None:
    """A tool function that code kept does nothing after the code has ended."""
    kernel.helper("kept = []")
    turn(kernel, block("kept.append(read_file)"))
    assert "can be called only while" in kernel.run("kept[0]('a.csv')").error


def test_a_picture(kernel: LiveKernel) -> None:
    """A picture that is read as a file goes to the model as one."""
    kernel.helper(
        "import matplotlib; matplotlib.use('agg')",
        "import matplotlib.pyplot as plt",
        "plt.plot([1, 2]); plt.savefig('p.png'); plt.close('all')",
    )
    done, bodies = turn(kernel, block("print(read_file('p.png'))"))
    assert not done.result.is_error, done.result.text
    assert "image_url" in json.dumps(bodies[1]["messages"][-1])


def test_cut_off(kernel: LiveKernel) -> None:
    """A block that is cut off is not run, and the model is informed."""
    cut = Reply(text="```python\nran = 1\n", stop="max_tokens")
    done, bodies = turn(kernel, cut)
    assert "cut off" in done.result.text
    assert "cut off" in json.dumps(bodies[1]["messages"][-1])
    assert kernel.run("ran").status == "error"


def test_record_and_replay(kernel: LiveKernel) -> None:
    """A recorded notebook replays without the setting, with the same bytes."""
    kernel.helper("%agent cassette code.cassette.jsonl", "%agent config mode record")
    done, _ = turn(kernel, block("z = read_file('a.csv')\nprint(z)"), block("print(len(z))"))
    kernel.helper("del z", "%agent config mode replay", "%agent config tool_protocol auto")
    again = kernel.run("%%agent --fresh\nDo it.")
    assert again.status == "ok", again.error
    assert again.displays == done.cell.displays


def test_the_next_protocol(kernel: LiveKernel) -> None:
    """A conversation continues with a model that has tool calls."""
    turn(kernel, block("q = 1"))
    kernel.helper("%agent config tool_protocol auto")
    _, bodies = turn(kernel, line="", kind="anthropic")
    check_anthropic(bodies[0])
    assert any(b["type"] == "tool_use" for m in bodies[0]["messages"] for b in m["content"])


WRITTEN = '<tool_call>\n{"name": "execute_code", "arguments": {"code": "6 * 7"}}\n</tool_call>'


def test_tool_calls_in_the_text(kernel: LiveKernel) -> None:
    """With tool_protocol text a call in the text is run and shown as a call."""
    kernel.helper("%agent config tool_protocol text")
    done, bodies = turn(kernel, Reply(text=f"I look.\n{WRITTEN}"))
    assert done.result.text == "42"
    assert "<tool_call>" not in done.cell.transcript
    check_openai(bodies[1])
    assert bodies[1]["messages"][-1]["role"] == "tool"


def test_native_leaves_text_alone(kernel: LiveKernel) -> None:
    """With tool_protocol native a call in the text is part of the answer."""
    kernel.helper("%agent config tool_protocol native")
    written = '<tool_call>{"name": "execute_code", "arguments": {"code": "1"}}</tool_call>'
    with ModelServer([Reply(text=written)]) as server:
        use(kernel, server)
        cell = kernel.run("%%agent --fresh\nDo it.")
    assert cell.status == "ok"
    assert kernel.value("str(_agent)") == written
