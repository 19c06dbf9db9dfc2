"""A workspace with a memory root in a temporary folder, and its tools as a model calls them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.memory.entries import Provenance
from jupyter_agent.memory.notes import Notes
from jupyter_agent.memory.scope import MemoryRoot, find_root
from jupyter_agent.memory.search import MemorySearch
from jupyter_agent.memory.store import WorkspaceMemory
from jupyter_agent.tools.notes import note_tools
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.tools.workspace_memory import search_memory_tools, workspace_memory_tools

CallTool = Callable[..., Awaitable[ToolResult]]
OVERVIEW = """\
---
name: DevTools
description: Shared development tools and infrastructure
tags: [devtools, infrastructure]
---
# DevTools

The whole story.
"""
PLAN = """\
---
name: "Workflow Engine"
description: "Build a workflow execution engine"
status: {status}
created: 2026-02-08
updated: 2026-02-09
tags: [workflow, {tag}]
---
# Plan
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "project"
    common = folder / "resources" / "workspaces" / "devtools" / "common"
    for name in ("_plans", "_features", "metan/_plans", "metan/_architecture"):
        (common / name).mkdir(parents=True)
    (common.parent / "OVERVIEW.md").write_text(OVERVIEW, encoding="utf-8")
    plan = PLAN.format(status="done", tag="engine")
    (common / "_plans" / "260208-workflow-engine.md").write_text(plan, encoding="utf-8")
    plan = PLAN.format(status="in_progress", tag="nestjs").replace("Workflow Engine", "Self-Serve")
    (common / "metan" / "_plans" / "260223-spa.md").write_text(plan, encoding="utf-8")
    (common / "_features" / "login.md").write_text("# Login\n\nHow to log in.\n", encoding="utf-8")
    return Workspace(folder)


@pytest.fixture
def root(workspace: Workspace) -> MemoryRoot:
    return find_root(workspace)


@pytest.fixture
def memory(root: MemoryRoot) -> WorkspaceMemory:
    return WorkspaceMemory(root, lambda: Provenance("agent", "a.ipynb", "default"))


@pytest.fixture
def notes(workspace: Workspace) -> Notes:
    return Notes(workspace)


@pytest.fixture
def search(workspace: Workspace, root: MemoryRoot) -> MemorySearch:
    return MemorySearch([root], workspace.state_folder)


@pytest.fixture
def call(notes: Notes, memory: WorkspaceMemory, search: MemorySearch) -> CallTool:
    """Run a tool through the toolbox, so that its schema takes part."""
    tools = [*note_tools(notes), *workspace_memory_tools(memory), *search_memory_tools(search)]
    toolbox = Toolbox(tools)

    async def run(name: str, **arguments: Any) -> ToolResult:
        return await toolbox.run(ToolCall("c1", name, json.dumps(arguments)))

    return run
