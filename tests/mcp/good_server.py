"""A real MCP server, for all three transports: `good_server.py stdio|sse|http [PORT] [SECONDS]`.

SECONDS is how long it takes to start.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    ImageContent,
    ResourceLink,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

server = MCPServer("good", version="1.2.3")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * 2) * 2))
    + _chunk(b"IEND", b"")
)


class Weather(BaseModel):
    city: str
    degrees: float


class Wish(BaseModel):
    colour: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def weather(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city=city, degrees=21.5)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


@server.tool()
def mixed() -> CallToolResult:
    """Blocks of several kinds."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="\x1b[31mred\x1b[0m"),
            ResourceLink(type="resource_link", name="doc", uri="file:///doc.txt"),
            ImageContent(
                type="image", data=base64.b64encode(b"<svg/>").decode(), mime_type="image/svg+xml"
            ),
        ]
    )


@server.tool()
def sound() -> Audio:
    """A sound."""
    return Audio(data=b"\0" * 30, format="wav")


@server.tool()
def fails() -> str:
    """Always fails."""
    raise ToolError("the fuel is out")


@server.tool()
async def counts(ctx: Context[Any, Any], upto: int) -> str:
    """Counts, and says so."""
    for number in range(1, upto + 1):
        await ctx.report_progress(number, upto, f"at {number}")
    return "counted"


@server.tool()
async def sleeps(seconds: float, note: str) -> str:
    """Sleeps, and writes to the file `note` whether it was cancelled."""
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        Path(note).write_text("cancelled", encoding="utf-8")
        raise
    Path(note).write_text("slept", encoding="utf-8")
    return "slept"


@server.tool()
def big(characters: int) -> str:
    """A long text."""
    return "x" * (characters - 3) + "end"


@server.tool()
def dies() -> str:
    """Ends its process while it is called."""
    os._exit(3)


@server.tool()
def process() -> str:
    """The server's process."""
    return str(os.getpid())


@server.tool()
def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def header(ctx: Context[Any, Any], name: str) -> str:
    """A header of the request."""
    return (ctx.headers or {}).get(name, "(not sent)")


@server.tool()
async def samples(ctx: Context[Any, Any]) -> str:
    """Asks the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
    try:
        params = CreateMessageRequestParams(messages=[message], max_tokens=5)
        await ctx.session.create_message(params.messages, max_tokens=5)
    except Exception as error:
        return f"no sampling: {error}"
    return "sampled"


@server.tool()
async def asks(ctx: Context[Any, Any]) -> str:
    """Asks the person."""
    answered = await ctx.elicit("What colour?", Wish)
    return f"answer: {answered.action}"


@server.tool()
async def grows(ctx: Context[Any, Any]) -> str:
    """Adds a tool to the server."""

    def grown() -> str:
        """A later tool."""
        return "new"

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    return "grown"


def main() -> None:
    transport, port, seconds = (*sys.argv[1:], "0", "0")[:3]
    time.sleep(float(seconds))
    if transport == "stdio":
        server.run("stdio")
    elif transport == "sse":
        server.run("sse", port=int(port))
    else:
        server.run("streamable-http", port=int(port))


if __name__ == "__main__":
    main()
