"""Descriptions of the kernel's objects for a model, at a level of detail."""

from jupyter_agent.kernel.describe.page import describe, one_line
from jupyter_agent.kernel.describe.parts import Describer, Level, Listing, Nested, Part
from jupyter_agent.kernel.describe.registry import register_describer

__all__ = [
    "Describer",
    "Level",
    "Listing",
    "Nested",
    "Part",
    "describe",
    "one_line",
    "register_describer",
]
