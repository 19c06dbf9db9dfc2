"""The request to execute the running cell, and whether a person is at its front end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def request_of(shell: Any) -> Mapping[str, Any]:
    """The request to execute the cell; empty if there is none."""
    try:
        found = shell.kernel.get_parent("shell")
    except (AttributeError, LookupError, TypeError):
        return {}
    return found if isinstance(found, Mapping) else {}


def is_jupyterlab(request: Mapping[str, Any]) -> bool:
    """True for JupyterLab and Notebook 7: they tell with each cell which ones were deleted."""
    return "deletedCells" in request.get("metadata", {})


def is_attended(shell: Any) -> bool:
    """True if the cell's front end has a user who can answer.

    nbclient, nbval and other programs that run notebooks declare that they have none.
    """
    if not hasattr(shell, "kernel"):
        return sys.stdin is not None and sys.stdin.isatty()
    return bool(request_of(shell).get("content", {}).get("allow_stdin", False))
