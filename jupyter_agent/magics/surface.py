"""The kernel as a live view sees it: where it shows things, how it asks, how it is stopped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.display import DisplayHandle

from jupyter_agent.events import ApprovalAnswered, ApprovalAsked
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.magics.prompt import ask_by_input

_CONNECTION_FILE = re.compile(r"kernel-([A-Za-z0-9-]+)\.json")


class KernelSurface:
    """One cell of a Jupyter kernel.

    Args:
        shell: The kernel's IPython shell.
        interrupts: What interrupts the turn.
        time_out: Seconds that a question waits for an answer.
    """

    def __init__(self, shell: Any, interrupts: Interrupts, time_out: float) -> None:
        self._shell = shell
        self._interrupts = interrupts
        self._time_out = time_out
        self._handle = DisplayHandle()

    def publish(self, data: Mapping[str, Any], update: bool) -> None:
        if update:
            self._handle.update(dict(data), raw=True)
        else:
            self._handle.display(dict(data), raw=True)

    def ask(self, asked: ApprovalAsked, about: str = "") -> ApprovalAnswered:
        return ask_by_input(asked, self._interrupts, self._time_out, input, about)

    def stop(self) -> None:
        self._interrupts.stop()

    @property
    def kernel_id(self) -> str:
        """A server names a kernel's connection file by the kernel's id."""
        path = Path(str(getattr(self._shell.kernel.parent, "connection_file", "")))
        found = _CONNECTION_FILE.fullmatch(path.name)
        return found[1] if found else ""


def is_attended(shell: Any) -> bool:
    """Whether the cell was sent by a front end in which a person can answer.

    nbclient, nbval and whatever else runs notebooks by itself say that they cannot.
    """
    try:
        content = shell.kernel.get_parent("shell").get("content", {})
    except (AttributeError, LookupError, TypeError):
        return False
    return bool(content.get("allow_stdin", False))
