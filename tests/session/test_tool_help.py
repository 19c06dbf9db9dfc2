"""What a request leaves out of the tools' schemas, and how a model gets at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from jupyter_agent.core.messages import ToolCall
from jupyter_agent.core.tool import RARE, Tool, tool
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.tools.help import help_tools
from jupyter_agent.tools.toolbox import Toolbox


class Place(BaseModel):
    """Where."""

    city: str
    street: Annotated[str | None, Field(max_length=9)] = None


@tool("reads")
def find(
    place: Place,
    most: Annotated[int | None, Field(ge=1, description="How many.")] = None,
    strictly: Annotated[bool, Field(description="To the letter.", json_schema_extra=RARE)] = False,
) -> str:
    """Find things.

    More:
    Begin with the city alone.
    """
    return f"{place.city} {strictly}"


def test_a_schema_says_nothing_twice() -> None:
    """References in place; no titles, no "or null", no limits; nothing of the rare."""
    assert find.spec.description == "Find things."
    assert find.spec.parameters == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "street": {"type": "string"}},
                "required": ["city"],
            },
            "most": {"type": "integer", "description": "How many."},
        },
        "required": ["place"],
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"place": {"city": "Rome"}, "strictly": True}, "Rome True"),
        ({"place": {"city": "Rome", "street": None}, "most": None}, "Rome False"),
        ({"place": {"city": "Rome"}, "most": 0}, "greater than or equal to 1"),
        ({"place": {"city": "Rome", "street": "0123456789"}}, "at most 9 characters"),
        ({"place": {"city": "Rome"}, "other": 1}, "other"),
    ],
)
async def test_what_is_not_sent_holds(arguments: dict[str, Any], text: str) -> None:
    """Rare arguments and nulls are taken, limits are kept, as if the schema said so."""
    result = await Toolbox([find]).run(ToolCall("c1", "find", json.dumps(arguments)))
    assert text in result.text and result.is_error == (text[:4] != "Rome")


async def test_help_tells_the_rest() -> None:
    """`tool_help` names the tools with more to say, and says it."""
    (told,) = help_tools([find])
    assert told.spec.description.endswith("Names: find.")
    toolbox = Toolbox([find, told])
    result = await toolbox.run(ToolCall("c1", "tool_help", '{"name": "find"}'))
    assert "Begin with the city alone." in result.text
    assert 'Argument strictly: {"default": false, "description": "To the letter."' in result.text
    wrong = await toolbox.run(ToolCall("c2", "tool_help", '{"name": "file"}'))
    assert wrong.is_error and "only about find" in wrong.text
    assert help_tools([told]) == []


def test_each_tool_of_a_session(here: Kernel) -> None:
    """No schema of ours has a title, a reference or "or null"; each tool says what it does."""
    tools = AgentSetup(here, "default").preview().tools
    assert "workspace_save_memory" in _named(tools)["tool_help"].spec.description
    for each in tools:
        keys = set(_keys(each.spec.parameters))
        assert not keys & {"title", "$ref", "$defs", "anyOf", "additionalProperties", "rare"}
        assert each.spec.description and "More:" not in each.spec.description


def _named(tools: list[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _keys(schema: Any) -> Iterator[str]:
    """The keywords of a schema; the names of arguments are none."""
    if isinstance(schema, list):
        for item in schema:
            yield from _keys(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            yield from _keys(list(value.values()) if key == "properties" else value)
