"""Whole notebooks, executed in kernels of their own."""

from jupyter_agent.notebooks.one import NotebookExecution, NotebookWatch, execute

__all__ = ["NotebookExecution", "NotebookWatch", "execute"]
