"""Whole notebooks, executed in kernels of their own."""

from jupyter_agent.notebooks.one import Execution, Watch, execute

__all__ = ["Execution", "Watch", "execute"]
