"""Tools made of functions, and the toolbox that answers any call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Annotated

import pytest
from pydantic import Field

from jupyter_agent.core.messages import Image, Output, Text, ToolCall, ToolResult
from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError
from jupyter_agent.tools.toolbox import Toolbox

RAN: list[str] = []


@tool("reads")
def add(first: Annotated[int, Field(description="One number.")], second: int = 1) -> str:
    """Add two numbers."""
    RAN.append("add")
    return str(first + second)


@tool("reads")
def ping() -> str:
    """Answer."""
    return "pong"


@tool("executes")
async def wait(seconds: float) -> str:
    """Wait a while."""
    await asyncio.sleep(seconds)
    return "waited"


@tool("writes")
def refuse() -> str:
    """Refuse."""
    raise ToolError("no, because")


@tool("writes")
def crash() -> str:
    """Fail."""
    raise KeyError("secret_name")


@tool("reads")
def nothing() -> str:
    """Return what no tool may."""
    return None  # type: ignore[return-value]


@tool("reads")
def rich() -> ToolReturn:
    """Return all that there is."""
    shown = Output("result", {"text/plain": "3"})
    return ToolReturn((Text("a"), Image("image/png", "AA==")), (shown,), {"k": 1}, True)


@pytest.fixture
def toolbox() -> Toolbox:
    RAN.clear()
    return Toolbox([add, ping, wait, refuse, crash, nothing, rich])


async def run(toolbox: Toolbox, name: str, arguments: str) -> ToolResult:
    return await toolbox.run(ToolCall("c1", name, arguments))


def test_spec_of_a_tool() -> None:
    """Name, description and schema come from the function."""
    assert (add.name, add.spec.description, add.effect) == ("add", "Add two numbers.", "reads")
    assert add.spec.parameters == {
        "type": "object",
        "properties": {
            "first": {"type": "integer", "description": "One number."},
            "second": {"type": "integer", "default": 1},
        },
        "required": ["first"],
    }


def test_two_tools_of_one_name() -> None:
    """Two tools of one name are refused."""
    with pytest.raises(ValueError, match="add"):
        Toolbox([add, add])


def test_specs_keep_their_order(toolbox: Toolbox) -> None:
    """The schemas are sent in the order of the tools."""
    assert [spec.name for spec in toolbox.specs][:3] == ["add", "ping", "wait"]


def test_runs_alone(toolbox: Toolbox) -> None:
    """Writing and executing tools run alone; reading and unknown ones do not."""
    alone = {
        name: toolbox.runs_alone(ToolCall("c", name, "")) for name in ("add", "refuse", "wait", "x")
    }
    assert alone == {"add": False, "refuse": True, "wait": True, "x": False}


async def test_runs_a_tool(toolbox: Toolbox) -> None:
    """A call with good arguments is answered under its id."""
    assert await run(toolbox, "add", '{"first": 2}') == ToolResult("c1", (Text("3"),))


@pytest.mark.parametrize("arguments", ["", "{}", " {} "])
async def test_no_arguments(toolbox: Toolbox, arguments: str) -> None:
    """For a tool without arguments an empty text is an empty object."""
    assert (await run(toolbox, "ping", arguments)).text == "pong"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("not json", "not valid JSON"),
        ('{"first": 2', "cut off"),
        ('{"first": 2}{"first": 3}', "not valid JSON"),
        ("[1, 2]", "an array"),
        ("null", "null"),
        ('"first"', "a string"),
        ("7", "a number"),
        ("true", "a boolean"),
        ("", "first: Field required"),
        ("{}", "first: Field required"),
        ('{"first": "2"}', "valid integer"),
        ('{"first": 2.5}', "integer"),
        ('{"first": null}', "integer"),
        ('{"first": true}', "integer"),
        ('{"first": 2, "third": 3}', "third: Extra inputs"),
        ('{"first": "\\ud800"}', "first"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
async def test_bad_arguments(toolbox: Toolbox, arguments: str, words: str) -> None:
    """Arguments that do not fit are an error result, and the tool is not run."""
    result = await run(toolbox, "add", arguments)
    assert result.is_error
    assert words in result.text
    assert RAN == []


async def test_unknown_tool(toolbox: Toolbox) -> None:
    """An unknown name is answered with the nearest and with all of them."""
    result = await run(toolbox, "pin", "{}")
    assert result.is_error
    assert "Did you mean ping?" in result.text
    listed = result.text.partition("The tools are: ")[2].rstrip(".").split(", ")
    assert {"add", "ping", "wait"} < set(listed) and listed == sorted(listed)
    assert "Did you mean" not in (await run(toolbox, "", "{}")).text


async def test_refusal(toolbox: Toolbox) -> None:
    """A ToolError gives its message to the model, without a traceback."""
    assert await run(toolbox, "refuse", "") == ToolResult("c1", (Text("no, because"),), True)


async def test_crash(toolbox: Toolbox) -> None:
    """A bug in a tool is one line for the model and a traceback for the log."""
    result = await run(toolbox, "crash", "")
    assert result.is_error
    assert result.text == "The tool crash failed: KeyError: 'secret_name'"
    assert "Traceback" in result.details["traceback"]
    assert "test_toolbox.py" in result.details["traceback"]


async def test_wrong_return(toolbox: Toolbox) -> None:
    """A tool that returns no text has failed."""
    result = await run(toolbox, "nothing", "")
    assert result.is_error
    assert "NoneType" in result.text


async def test_three_audiences(toolbox: Toolbox) -> None:
    """Content, display and details reach the result as they are."""
    result = await run(toolbox, "rich", "")
    assert (result.text, len(result.content), result.is_error) == ("a", 2, True)
    assert result.display[0].data == {"text/plain": "3"}
    assert result.for_model().details == {}


async def test_cancellation_passes_through(toolbox: Toolbox) -> None:
    """Cancelling a turn cancels its tool, and gives no result."""
    task = asyncio.create_task(run(toolbox, "wait", '{"seconds": 30.0}'))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_plain_functions_do_not_block_the_loop() -> None:
    """A plain function runs in a worker thread, so that others go on meanwhile."""
    loop = asyncio.get_running_loop()
    met = asyncio.Event()

    @tool("reads")
    def meet() -> str:
        """Wait until the event loop answers."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
        loop.call_soon_threadsafe(met.set)
        return "met"

    box: list[Tool] = [meet]
    assert (await run(Toolbox(box), "meet", "")).text == "met"
    await asyncio.wait_for(met.wait(), 60)


def test_functions_that_are_defined_again() -> None:
    """Functions with the same code keep the schemas of their own defaults and hints."""

    def made(most: int, kind: type) -> Tool:
        def count(number: int = most) -> str:
            """Count."""
            return str(number)

        count.__annotations__["number"] = kind
        return tool("reads")(count)

    again, other, text = made(3, int), made(5, int), made(3, str)
    assert made(3, int).spec == again.spec
    properties = [each.spec.parameters["properties"]["number"] for each in (again, other, text)]
    assert [each["default"] for each in properties] == [3, 5, 3]
    assert [each["type"] for each in properties] == ["integer", "integer", "string"]


def test_defaults_without_a_hash() -> None:
    """Defaults that cannot be hashed are allowed."""

    @tool("reads")
    def name(parts: list[str] = ["a"]) -> str:  # noqa: B006
        """Name."""
        return "".join(parts)

    assert name.spec.parameters["properties"]["parts"]["default"] == ["a"]


def test_functions_behind_one_decorator() -> None:
    """Functions behind one decorator keep their names and arguments."""

    def logged(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> str:
            return function(*args, **kwargs)

        return run

    @tool("reads")
    @logged
    def first(number: int) -> str:
        """One."""
        return str(number)

    @tool("reads")
    @logged
    def second(text: str) -> str:
        """Another."""
        return text

    names = [(each.name, *each.spec.parameters["properties"]) for each in (first, second)]
    assert names == [("first", "number"), ("second", "text")]


def test_defaults_that_are_equal_and_not_the_same() -> None:
    """The defaults 1, True and 1.0 have different schemas."""

    def made(default: object) -> Tool:
        def count(number: object = default) -> str:
            """Count."""
            return str(number)

        return tool("reads")(count)

    given = [made(each).spec.parameters["properties"]["number"]["default"] for each in (1, True)]
    assert [type(each) for each in given] == [int, bool]


def test_functions_that_are_named_later() -> None:
    """A tool has the name of its function at the time of its creation."""

    def made(name: str) -> Tool:
        def nameless() -> str:
            """Answer."""
            return name

        nameless.__name__ = name
        return tool("reads")(nameless)

    assert [made(name).name for name in ("alpha", "beta")] == ["alpha", "beta"]
