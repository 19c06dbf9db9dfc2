"""`describe_file` as a model calls it: what it tells at which level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.tools.describing import FileSight
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.toolbox import Toolbox

WITHHELD = "context.detail is schema"


async def described(root: Path, path: str, sight: FileSight) -> ToolResult:
    tools = file_tools(Workspace(root), described=lambda: sight)
    call = ToolCall("c1", "describe_file", json.dumps({"path": path}))
    return await Toolbox(tools).run(call)


@pytest.fixture
def trips(root: Path) -> Path:
    (root / "trips.csv").write_text("zone;fare\nHarbour;3,5\nOld Town;4,25\n", encoding="utf-8")
    return root


async def test_values_are_told_where_they_may_be(trips: Path) -> None:
    """Ranges with the values; without them the columns, and why no more; or nothing at all."""
    whole = await described(trips, "trips.csv", FileSight())
    assert "fare: number with a decimal comma, 3.5 to 4.25" in whole.text
    assert "Harbour" in whole.text
    some = await described(trips, "trips.csv", FileSight(False, why=WITHHELD))
    assert "fare: number with a decimal comma\n" in some.text
    assert "Harbour" not in some.text and "3.5" not in some.text
    assert f"(values and ranges are withheld: {WITHHELD})" in some.text
    none = await described(trips, "trips.csv", FileSight(False, True, "context.detail is none"))
    assert none.is_error and "fare" not in none.text


async def test_a_link_out_of_the_workspace(trips: Path) -> None:
    """A link that leads outside is refused like any path outside."""
    (trips.parent / "secret.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (trips / "link.csv").symlink_to(trips.parent / "secret.csv")
    result = await described(trips, "link.csv", FileSight())
    assert result.is_error and "outside of the workspace" in result.text
