"""From what the agent ran in a turn to ordinary cells: one clean cell, or a notebook."""

from __future__ import annotations

from jupyter_agent.magics.promotion import cells_command, export_command
from jupyter_agent.promotion.cell import cell
from jupyter_agent.promotion.executed import Executed
from jupyter_agent.promotion.export import export, notebook
from jupyter_agent.promotion.turn import executed, opaque_names, results

__all__ = [
    "Executed",
    "cell",
    "cells_command",
    "executed",
    "export",
    "export_command",
    "notebook",
    "opaque_names",
    "results",
]
