"""The first request of a fresh kernel: what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_kernel import LiveKernel
from model_server import Json, ModelServer, Reply
from open_notebook import OpenPage

from jupyter_agent.core.messages import Message, Text, ToolSpec
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.tokens import TokenCounter

BUDGET = 4_000
"""Tokens of a first request without memory or skills, whatever tools there are."""
SOURCES = ["sizes = {'a': 1.5, 'b': 2.5}", "%%agent\nAdd up the sizes."]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: Reply(text="4.0")) as server:
        yield server


def as_request(body: Json) -> Request:
    """The body of a request, of Anthropic's form or OpenAI's, as what the counter counts."""
    messages = list(body["messages"])
    system = body.get("system")
    if system is None:
        system = messages.pop(0)["content"]
    tools = [tool.get("function", tool) for tool in body["tools"]]
    specs = tuple(
        ToolSpec(tool["name"], tool["description"], tool.get("parameters") or tool["input_schema"])
        for tool in tools
    )
    said = tuple(Message("user", (Text(text_of(each["content"])),)) for each in messages)
    return Request(text_of(system), said, specs)


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part["text"] for part in content)


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_the_first_request_keeps_its_budget(
    kernel: LiveKernel, server: ModelServer, tmp_path: Path, wire: str
) -> None:
    """A small task in a fresh kernel with the page open, so that all tools are offered: system
    prompt, tools, rules and context are less than 4,000 tokens. The second one has the same tools,
    so that the provider's cache holds."""
    kernel.begin_anew(tmp_path)
    base = server.anthropic_url if wire == "anthropic" else server.openai_url
    kernel.helper(
        *(f"%agent config provider {wire}", f"%agent config api_base {base}"),
        *("%agent config api_key k", "%agent config model m"),
    )
    page = OpenPage(kernel, SOURCES)
    server.requests.clear()
    for number in (0, 1, 1):
        cell = page.start(number).finish()
        assert cell.status == "ok", cell.error
    first, second = (request.body for request in server.requests)
    request = as_request(first)
    names = {tool.name for tool in request.tools}
    assert {"execute_code", "read_cells", "edit_cells", "describe_file", "tool_help"} <= names
    assert "sizes" in request.messages[-1].text and "<rules" in request.messages[-1].text
    used = TokenCounter().request(request)
    assert used < BUDGET, f"{used} tokens"
    assert json.dumps(second["tools"]) == json.dumps(first["tools"])
