"""`delegate`: a part of a task, done by an agent with a conversation of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Literal, Protocol

from pydantic import Field

from jupyter_agent.core.tool import Tool, ToolReturn, call_id, tool
from jupyter_agent.errors import ToolError

Where = Literal["kernel", "process"]
"""Where a delegate's code runs: in this kernel, or in a child process with copies of its inputs."""
MOST_NAMES = 20
"""Inputs, and outputs, of one delegate."""
LONGEST_TASK = 20_000


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a delegate is to do.

    Args:
        call_id: The call that gives it.
        task: The task in plain words.
        inputs: The variables that the task is about.
        output: The names under which it hands over what it made.
        where: Where its code runs.
    """

    call_id: str
    task: str
    inputs: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    where: Where = "kernel"


class Delegating(Protocol):
    """Runs a delegate to its end."""

    async def __call__(self, assignment: Assignment) -> ToolReturn: ...


def delegate_tools(run: Delegating, variables: Callable[[], Sequence[str]]) -> list[Tool]:
    """`delegate`, by which the model gives a part of its task away.

    Args:
        run: Runs the delegate.
        variables: Returns the names of the person's variables.
    """

    @tool("reads", waits=True, overlaps=True)
    async def delegate(
        task: Annotated[str, Field(description="All it must know: it sees nothing else of this.")],
        inputs: Annotated[list[str], Field(description="Variables it is about.")] = [],  # noqa: B006
        output: Annotated[
            list[str], Field(description="New variables it must make; you get them.")
        ] = [],  # noqa: B006
        where: Annotated[Where, Field(description="process: heavy code, on copies.")] = "kernel",
    ) -> ToolReturn:
        """Give a part of the work to a delegate: an agent in this kernel with its own conversation.

        You get its report, and the objects. Several calls in one reply run side by side: one
        for each of several files, independent parts, a long document, a second opinion.
        """
        assignment = Assignment(call_id.get(), task.strip(), _names(inputs), _names(output), where)
        check(assignment, variables())
        return await run(assignment)

    return [delegate]


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in given))


def check(assignment: Assignment, variables: Sequence[str]) -> None:
    """Raise `ToolError` if the task is empty or too long, or a name cannot be meant.

    Args:
        assignment: What is to be checked.
        variables: The names of the person's variables.
    """
    if not assignment.task:
        raise ToolError("Give the delegate a task.")
    if len(assignment.task) > LONGEST_TASK:
        raise ToolError(f"The task is longer than {LONGEST_TASK:,} characters: put it into a file.")
    for names in (assignment.inputs, assignment.output):
        if len(names) > MOST_NAMES:
            raise ToolError(f"At most {MOST_NAMES} names are possible, not {len(names)}.")
    missing = [name for name in assignment.inputs if name not in variables]
    if missing:
        raise ToolError(f"There is no variable {missing[0]!r} to give to the delegate.")
    for name in assignment.output:
        if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
            raise ToolError(f"{name!r} cannot be the name of a variable that is handed over.")
