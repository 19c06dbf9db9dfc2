"""From what the agent ran in a turn to ordinary cells: one clean cell, or a notebook."""

from __future__ import annotations

from jupyter_agent.promotion.cell import cell, pieces
from jupyter_agent.promotion.executed import Executed
from jupyter_agent.promotion.export import export, notebook
from jupyter_agent.promotion.turn import executed, executed_by, opaque_names, results

__all__ = [
    "Executed",
    "cell",
    "executed",
    "executed_by",
    "export",
    "notebook",
    "opaque_names",
    "pieces",
    "results",
]
