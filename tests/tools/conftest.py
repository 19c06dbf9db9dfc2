"""A workspace in a temporary folder, and the file tools as a model calls them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.toolbox import Toolbox

CallTool = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def call(root: Path) -> CallTool:
    """Run a file tool through the toolbox, so that its schema takes part."""
    toolbox = Toolbox(file_tools(Workspace(root)))

    async def run(name: str, **arguments: Any) -> ToolResult:
        return await toolbox.run(ToolCall("c1", name, json.dumps(arguments)))

    return run
