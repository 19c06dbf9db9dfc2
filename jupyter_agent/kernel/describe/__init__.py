"""What a model is told about the objects in the person's kernel, and how much it may see."""

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
