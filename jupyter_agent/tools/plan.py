"""The visible to-do list of a session."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.core.tool import Tool, ToolReturn, tool

State = Literal["pending", "in_progress", "done"]
_BOXES: dict[State, str] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}


class PlanItem(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, Field(min_length=1, max_length=300)]
    state: State = "pending"


class Plan:
    """The list as the model last gave it. It is empty until then."""

    def __init__(self) -> None:
        self.items: tuple[PlanItem, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{_BOXES[item.state]} {item.text}" for item in self.items)


def plan_tools(plan: Plan) -> list[Tool]:
    """`update_plan`, which replaces the items of `plan`."""

    @tool("reads")
    async def update_plan(
        items: Annotated[list[PlanItem], Field(max_length=50)],
    ) -> ToolReturn:
        """Show the person a to-do list for work of several steps, and keep it up to date.

        Give the whole list each time, with at most one item in progress.
        """
        plan.items = tuple(items)
        details = {"plan": [item.model_dump() for item in items]}
        return ToolReturn(str(plan) or "(the plan is empty)", details=details)

    return [update_plan]
