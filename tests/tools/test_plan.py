"""The to-do list: what the model may write, and where a person sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_kernel import LiveKernel

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.tools.plan import Plan, plan_tools
from jupyter_agent.tools.toolbox import Toolbox

ITEMS = [
    {"text": "Load the data", "state": "done"},
    {"text": "Plot <b>it</b>", "state": "in_progress"},
    {"text": "Tell"},
]


async def update(plan: Plan, items: object) -> ToolResult:
    arguments = json.dumps({"items": items})
    return await Toolbox(plan_tools(plan)).run(ToolCall("c1", "update_plan", arguments))


async def test_the_list_is_kept() -> None:
    """A list is kept, and returned to the model with boxes."""
    plan = Plan()
    result = await update(plan, ITEMS)
    assert result.text == "[x] Load the data\n[~] Plot <b>it</b>\n[ ] Tell" == str(plan)
    assert result.details["plan"][2] == {"text": "Tell", "state": "pending"}


async def test_a_new_list_replaces_the_old_one() -> None:
    """A new list, or an empty one, replaces the last."""
    plan = Plan()
    await update(plan, ITEMS)
    await update(plan, [{"text": "Other"}])
    assert str(plan) == "[ ] Other"
    assert (await update(plan, [])).text == "(the plan is empty)"
    assert plan.items == ()


@pytest.mark.parametrize(
    ("items", "where"),
    [
        ([{"text": "a", "state": "started"}], "items.0.state"),
        ([{"text": "a", "state": "DONE"}], "items.0.state"),
        ([{"text": "a", "state": None}], "items.0.state"),
        ([{"text": "a"}, {"text": ""}], "items.1.text"),
        ([{"text": "a" * 301}], "items.0.text"),
        ([{"state": "done"}], "items.0.text"),
        ([{"text": 1}], "items.0.text"),
        ([{"text": "a", "priority": 1}], "items.0.priority"),
        (["a"], "items.0"),
        ("a", "items"),
        ([{"text": "a"}] * 51, "items"),
    ],
)
async def test_what_is_no_list(items: object, where: str) -> None:
    """A wrong state or item is an error with its place, and the old list stays."""
    plan = Plan()
    await update(plan, ITEMS)
    before = str(plan)
    result = await update(plan, items)
    assert result.is_error and f"do not fit its schema: {where}: " in result.text
    assert str(plan) == before


def test_the_transcript_shows_the_list(tmp_path: Path) -> None:
    """The transcript shows the last state of the list, escaped."""
    done = [{**item, "state": "done"} for item in ITEMS]
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        calls = [
            {"calls": [{"name": "update_plan", "arguments": {"items": items}}]}
            for items in (ITEMS, done[:2] + ITEMS[2:])
        ]
        kernel.script("Plan.", *calls, {"text": "Planned."})
        cell = kernel.run("%%agent\nPlan.")
        lines = [line.strip() for line in cell.transcript.splitlines()]
        assert [line for line in lines if line[:1] in "○◐●" and line] == [
            "● Load the data",
            "● Plot <b>it</b>",
            "○ Tell",
        ]
        html = cell.displays[0]["text/html"]
        assert "● Plot &lt;b&gt;it&lt;/b&gt;" in html and "<b>it</b>" not in html
