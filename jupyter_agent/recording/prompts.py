"""Digests of what a turn's model is told besides the conversation: the system prompt, the tools."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from jupyter_agent.core.events import MessageFinished
from jupyter_agent.core.messages import JsonObject, is_answered_elsewhere, is_served
from jupyter_agent.core.ports import Request
from jupyter_agent.recording.cassette import PromptFingerprint


def fingerprint(request: Request) -> PromptFingerprint:
    """Digests of a request's system prompt and tools."""
    # Without the servers' and the page's tools: they differ between computers, and a replay asks
    # neither.
    tools = [asdict(tool) for tool in request.tools if not is_answered_elsewhere(tool.name)]
    return PromptFingerprint(_digest(request.system), _digest(json.dumps(tools, sort_keys=True)))


def schemas_of(request: Request, reply: MessageFinished) -> dict[str, JsonObject]:
    """The schemas of the MCP tools that a reply calls, since a replay asks no server for them.

    All schemas if it calls a tool that does not exist, since the error names those that do.
    """
    served = {tool.name: tool.parameters for tool in request.tools if is_served(tool.name)}
    called = {call.name for call in reply.message.tool_calls}
    if called <= {tool.name for tool in request.tools}:
        return {name: schema for name, schema in served.items() if name in called}
    return served


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
