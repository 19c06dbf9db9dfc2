"""`get_skill`: the whole of a skill whose name and description the system prompt lists."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.skills.session import Skills

GET_SKILL = "get_skill"


def skill_tools(skills: Skills) -> list[Tool]:
    """`get_skill`, or no tool where there is no skill to get."""
    if not skills.catalogue.skills:
        return []

    @tool("reads")
    def get_skill(
        name: Annotated[str, Field(description="As it stands under Available Skills.")],
    ) -> ToolReturn:
        """Load a skill: instructions for a kind of task, with scripts and references.

        Do so before you start when a task fits a skill's description. Load its files only when
        its text asks for them.
        """
        text = skills.load(name)
        return ToolReturn(text, details={"skill": name}, quotes=True)

    return [get_skill]
