"""The tools of MCP servers as tools of a session: checked, bounded, shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_agent.core.messages import Image, JsonObject, Output, Text, ToolSpec
from jupyter_agent.core.plaintext import one_line, shorten
from jupyter_agent.core.tool import Tool, ToolReturn, report
from jupyter_agent.kernel.bounded import BoundedText, Overflow
from jupyter_agent.kernel.images import picture
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.mcp.servers import Offer, ServedTool
from jupyter_agent.tools.code import MODEL_LIMIT, Sight

_SHOWN = 10_000
"""Characters of a result that the person is shown."""
_SHOWN_SIDE = 1_600
"""Pixels of the longest side of a picture that the person is shown."""
_NOTHING = "(no output)"
_FAILED = "The tool failed and said nothing."


def mcp_tools(offer: Offer, sight: Callable[[], Sight], outputs: Callable[[], Path]) -> list[Tool]:
    """One `Tool` for each tool that the servers offer.

    Args:
        offer: What they offer.
        sight: What the model may see of results.
        outputs: The folder for results that are too long.
    """
    return [_tool(served, sight, outputs) for served in offer.tools]


def _tool(served: ServedTool, sight: Callable[[], Sight], outputs: Callable[[], Path]) -> Tool:
    calls = 0

    async def call(**arguments: Any) -> ToolReturn:
        nonlocal calls
        calls += 1
        # Asked for here: progress arrives in the server's own task, where it is not set.
        say = report.get() or (lambda text: None)
        reply = await served.server.call(served.original, arguments, say)
        whole = Overflow(outputs, f"{served.name}_{calls}.txt")
        details = {"server": served.server.name, "tool": served.original}
        return _returned(
            _blocks(reply.content, reply.structured), reply.is_error, sight(), whole, details
        )

    spec = ToolSpec(served.name, served.description, served.schema)
    arguments = any_arguments(served.schema)
    return Tool(spec, call, arguments, "reads" if served.only_reads else "executes")


def _blocks(
    content: tuple[Text | Image, ...], structured: JsonObject | None
) -> tuple[Text | Image, ...]:
    """The content, and the structured part where the content does not say the same."""
    if structured is None or _says_the_same(content, structured):
        return content
    text = json.dumps(structured, ensure_ascii=False, indent=1, default=str)
    return (*content, Text(text))


def _says_the_same(content: tuple[Text | Image, ...], structured: JsonObject) -> bool:
    """Servers send JSON twice, as text for older clients; a plain value under `result`."""
    texts = [block.text for block in content if isinstance(block, Text)]
    result = structured.get("result") if set(structured) == {"result"} else None
    many = result if isinstance(result, list) else [result]
    if texts == [result] or (len(texts) == len(many) and _parsed(texts) == many):
        return True
    return len(texts) == 1 and _parsed(texts) in ([structured], [result])


def _parsed(texts: list[str]) -> list[Any]:
    found: list[Any] = []
    for text in texts:
        try:
            found.append(json.loads(text))
        except (ValueError, RecursionError):
            found.append(text)
    return found


def _returned(
    blocks: tuple[Text | Image, ...],
    is_error: bool,
    sight: Sight,
    whole: Overflow,
    details: JsonObject,
) -> ToolReturn:
    bounded = BoundedText(MODEL_LIMIT * 2 // 3, MODEL_LIMIT // 3, whole)
    images: list[Image] = []
    for block in blocks:
        # Checked before anyone gets it: a server may call anything a picture.
        if isinstance(block, Text):
            bounded.add(("\n" if bounded.length else "") + block.text)
        elif image := picture({block.media_type: block.data}, _SHOWN_SIDE):
            images.append(image)
        else:
            bounded.add(f"\n[a picture that cannot be shown: {one_line(block.media_type)}]")
    whole.close()
    text = str(bounded).strip()
    details = {**details, "characters": bounded.length, "pictures": len(images)}
    if bounded.whereabouts:
        details["whereabouts"] = bounded.whereabouts
    return ToolReturn(
        _for_model(text, images, sight, details) or (Text(_FAILED if is_error else _NOTHING),),
        _for_person(text, images),
        details,
        is_error,
    )


def _for_model(
    text: str, images: list[Image], sight: Sight, details: JsonObject
) -> tuple[Text | Image, ...]:
    if sight.shapes_only:
        return (Text(_shape(details)),)
    seen = [picture({one.media_type: one.data}, sight.longest_side) for one in images]
    pictures = [image for image in seen if image] if sight.longest_side else []
    return (*([Text(text)] if text else []), *pictures)


def _for_person(text: str, images: list[Image]) -> tuple[Output, ...]:
    said = [Output("result", {"text/plain": shorten(text, _SHOWN)})] if text else []
    return (*said, *(Output("display", {one.media_type: one.data}) for one in images))


def _shape(details: JsonObject) -> str:
    return (
        f"{details['characters']:,} characters of text and {details['pictures']} pictures\n"
        "(privacy.outputs is shapes: the data itself is withheld from you)"
    )
