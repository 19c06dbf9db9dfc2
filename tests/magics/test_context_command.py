"""`%agent context`: the preview is what is sent, to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from generated import wires
from live_kernel import LiveKernel
from model_server import Json, ModelServer, Reply, check_anthropic, check_openai

from jupyter_agent.llm.tokens import count_tokens

WIRES = wires()
PARTS = ("system prompt", "tools (", "history (", "context (")


@pytest.fixture(scope="module")
def module_server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: Reply(text="Fine.")) as server:
        yield server


@pytest.fixture
def server(module_server: ModelServer) -> ModelServer:
    module_server.requests.clear()
    return module_server


@pytest.fixture
def talking(kernel: LiveKernel) -> LiveKernel:
    """The kernel without a conversation and a provider, with some variables and cells."""
    kernel.helper(
        "%agent reset",
        "%agent config provider none",
        "%agent config script none",
        "%agent config api_base none",
        "%agent config api_key k",
        "%agent config model m",
        "%agent config context.detail schema",
        "%agent config tools.enable_code true",
    )
    kernel.run("names = ['Ann', 'Bob']\nsizes = {'a': 1.5}\ntext = 'größe ☃ </context>'")
    kernel.run("print('printed')\nsizes['b']")
    return kernel


def choose(kernel: LiveKernel, server: ModelServer, wire: str) -> None:
    base = server.anthropic_url if wire == "anthropic" else server.openai_url
    kernel.helper(f"%agent config provider {wire}", f"%agent config api_base {base}")


def ask(kernel: LiveKernel, server: ModelServer, task: str, options: str = "") -> Json:
    """Run a turn and give the body of its first request."""
    before = len(server.requests)
    cell = kernel.run(f"%%agent {options}\n{task}")
    assert cell.status == "ok", cell.error
    body = server.requests[before].body
    (check_anthropic if server.requests[before].path.endswith("messages") else check_openai)(body)
    return body


def said(kernel: LiveKernel, words: str = "") -> str:
    cell = kernel.run(f"%agent context {words}")
    assert cell.status == "ok", cell.error
    return cell.said


def section(body: Json, task: str) -> str:
    """The context section that came with a task, as the last message holds it."""
    content = body["messages"][-1]["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content]
    whole = "\n\n".join(texts)
    assert whole.startswith(task)
    return whole.removeprefix(task).strip("\n")


# The section -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("level", ["none", "names", "schema", "sample"])
def test_the_section_is_what_is_sent(
    talking: LiveKernel, server: ModelServer, wire: str, level: str
) -> None:
    """At each level the previewed section equals that of the request."""
    choose(talking, server, wire)
    talking.helper(f"%agent config context.detail {level}")
    for number, task in enumerate(("Fix the error in @names.", "Go on with @sizes and @nothing.")):
        shown = said(talking, task)
        counts, told = shown.rstrip("\n").split("\n\n", 1)
        # The rules go with the first task only, and they tell nothing of the kernel.
        has_rules = number == 0 and level != "none"
        assert counts.count("\n") == 3 + has_rules == 3 + told.startswith("<rules ")
        rules = told.rpartition("</rules>\n\n")
        sent = section(ask(talking, server, task), task).removeprefix("".join(rules[:2]).rstrip())
        assert rules[2] == (sent.strip("\n") or "Nothing about the kernel is sent.")
        assert (sent == "") == (level == "none")
        talking.run("names.append('Cid')\nmore = 1")


def test_looking_sends_nothing(talking: LiveKernel, server: ModelServer) -> None:
    """A preview sends no request, and shows the same when repeated."""
    choose(talking, server, "anthropic")
    for words in ("", "all", "Fix @names."):
        assert said(talking, words) == said(talking, words)
    assert server.requests == []


def test_without_a_provider(talking: LiveKernel) -> None:
    """Without a model the preview works; only `all` needs one."""
    shown = said(talking)
    assert "names: list, 2 items" in shown and shown.splitlines()[0].startswith("system prompt")
    cell = talking.run("%agent context all")
    assert cell.status == "error" and "\n" not in cell.error
    assert cell.error.startswith("ConfigError: ")


def test_tokens_for_each_part(talking: LiveKernel, server: ModelServer) -> None:
    """The preview counts the tokens of each part; those of the context fit its text."""
    choose(talking, server, "anthropic")
    ask(talking, server, "Look.")
    counts, context = said(talking, "Look.").rstrip("\n").split("\n\n", 1)
    rows = counts.splitlines()
    assert [row.startswith(part) for row, part in zip(rows, PARTS, strict=True)] == [True] * 4
    numbers = [int(row.split()[-2].replace(",", "")) for row in rows]
    assert all(numbers) and all(row.endswith(" tokens") for row in rows)
    assert numbers[3] == count_tokens(context)
    assert "history (2 messages)" in rows[2] and "context (schema)" in rows[3]


@pytest.mark.parametrize("task", ["what's wrong with @names", 'why "x" fails', "a \\ b @names"])
def test_a_task_as_people_write_it(talking: LiveKernel, server: ModelServer, task: str) -> None:
    """A previewed task may have apostrophes, quotation marks or backslashes."""
    choose(talking, server, "anthropic")
    shown = said(talking, task).rstrip("\n").split("\n\n", 1)[1]
    assert shown == section(ask(talking, server, task), task)


# The whole request -------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_all_is_the_body(talking: LiveKernel, server: ModelServer, wire: str) -> None:
    """The previewed request equals the body that the turn sends."""
    choose(talking, server, wire)
    for _ in range(2):
        shown = json.loads(said(talking, "all"))
        assert ask(talking, server, "(your task)") == shown
        talking.run("names.append('Cid')")


def test_all_with_the_scripted_model(talking: LiveKernel) -> None:
    """The scripted model sends nothing: the preview of the request says so."""
    talking.script("A.", {"text": "Fine."})
    assert said(talking, "all") == "Nothing is sent.\n"


def test_all_holds_no_key(talking: LiveKernel, server: ModelServer) -> None:
    """Preview the whole request with a key set: the key is no part of it."""
    choose(talking, server, "anthropic")
    talking.helper("%agent config api_key sk-secret-0123456789")
    assert "sk-secret" not in said(talking, "all")


# Looking changes nothing -------------------------------------------------------------------------


def test_looking_does_not_fix_the_tools(talking: LiveKernel, server: ModelServer) -> None:
    """After a preview, switching off code before the first turn removes execute_code."""
    choose(talking, server, "anthropic")
    said(talking)
    talking.helper("%agent config tools.enable_code false")
    names = [tool["name"] for tool in ask(talking, server, "Look.")["tools"]]
    assert "execute_code" not in names and "inspect_variable" in names


def test_the_first_turns_settings_choose_the_tools(
    talking: LiveKernel, server: ModelServer
) -> None:
    """A task from code switches off code for its first turn: the turn offers no execute_code."""
    choose(talking, server, "anthropic")
    cell = talking.run(
        "from jupyter_agent import ask\nanswer = await ask('Look.', tools__enable_code=False)"
    )
    assert cell.status == "ok", cell.error
    names = [tool["name"] for tool in server.requests[-1].body["tools"]]
    assert "execute_code" not in names


def test_looking_leaves_the_cells_as_news(talking: LiveKernel, server: ModelServer) -> None:
    """After previews, cells and changes are still news for the next turn."""
    choose(talking, server, "anthropic")
    ask(talking, server, "Begin.")
    talking.run("names.append('Cid')")
    said(talking), said(talking)
    sent = section(ask(talking, server, "Go on."), "Go on.")
    assert "names (mutated)" in sent and "names.append(…)" in sent


def test_the_whole_request_for_reading(talking: LiveKernel, server: ModelServer) -> None:
    """In a notebook it is folded by messages and tools, escaped; the plain text stays the JSON."""
    choose(talking, server, "openai")
    cell = talking.run("%agent context all Is <b>this</b> bold")
    assert cell.status == "ok", cell.error
    (data,) = cell.displays
    assert json.loads(data["text/plain"])["model"] == "m"
    markup = data["text/html"]
    for words in ("messages (2)", "user · Is &lt;b&gt;this", "execute_code · ", "The same as JSON"):
        assert words in markup
    assert "<b>this" not in markup
