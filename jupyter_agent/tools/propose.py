"""Cells that the agent offers: the person runs them, or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.core.tool import Tool, ToolReturn, tool
from jupyter_agent.errors import ToolError

Kind = Literal["code", "markdown"]
PROPOSE_CELL = "propose_cell"
"""The name of the tool."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One offered cell."""

    source: str
    kind: Kind = "code"


def propose_tools(proposals: list[Proposal]) -> list[Tool]:
    """`propose_cell`, which adds to `proposals`. The session inserts them when a turn ends well."""

    @tool("reads")
    async def propose_cell(
        source: Annotated[str, Field(max_length=100_000)],
        kind: Kind = "code",
    ) -> ToolReturn:
        """Offer the person a cell. It is inserted below this one when you are done, and not run."""
        if not source.strip():
            raise ToolError("The cell is empty. Give its source.")
        # The cell is saved with the notebook.
        source = redact(source.strip("\n"), secret_values())
        proposals.append(Proposal(source, kind))
        number = len(proposals)
        return ToolReturn(
            f"Noted as proposal {number}. It is inserted below when the turn ends well.",
            details={"proposed": kind},
        )

    return [propose_cell]


def as_one_cell(proposals: Sequence[Proposal]) -> str:
    """The text of one cell that holds all proposals: front ends take only one.

    Several are set apart by headings, and Markdown among them becomes comments.
    """
    if len(proposals) == 1:
        only = proposals[0]
        return only.source if only.kind == "code" else f"%%markdown\n{only.source}"
    if all(proposal.kind == "markdown" for proposal in proposals):
        return "%%markdown\n" + "\n\n---\n\n".join(proposal.source for proposal in proposals)
    count = len(proposals)
    return "\n\n".join(
        f"# --- Proposal {number} of {count} ---\n{_as_code(proposal)}"
        for number, proposal in enumerate(proposals, 1)
    )


def _as_code(proposal: Proposal) -> str:
    """Code as it is; words, and cell magics, which must stand on a first line, as comments."""
    if proposal.kind == "code" and not proposal.source.lstrip().startswith("%%"):
        return proposal.source
    return "\n".join(f"# {line}".rstrip() for line in proposal.source.split("\n"))
