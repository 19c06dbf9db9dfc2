"""Stores the full texts of shortened messages in files of the workspace's state folder."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_agent.core.messages import clean
from jupyter_agent.core.redact import redact, secret_values
from jupyter_agent.errors import AgentError, ToolError
from jupyter_agent.files.atomic import STATE_FOLDER, atomic_write, private_folder
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.bounded import OUTPUTS
from jupyter_agent.llm.wire import safe_id

Keep = Callable[[str, str], str]
"""Stores a text under a name and returns its path; empty if it cannot be stored."""


def keep_in(workspace: Workspace, conversation: str) -> Keep:
    """A function that stores a text beside the long outputs of code and returns its path.

    Args:
        workspace: The workspace with the state folder.
        conversation: A name that distinguishes this conversation's files, for instance the
            notebook's name and the session's. File names are the same in each run, since notices
            contain them and recordings contain the notices.
    """
    prefix = safe_id(conversation)

    def keep(text: str, name: str) -> str:
        path = f"{STATE_FOLDER}/{OUTPUTS}/{prefix}-{safe_id(name)}.txt"
        try:
            workspace.ensure_state_folder()
            target = workspace.resolve(path)
            private_folder(workspace.state_folder / OUTPUTS, follow_link=False)
            stored = redact(clean(text), secret_values())
            atomic_write(target, stored.encode("utf-8"))
        except (OSError, AgentError, ToolError):
            return ""  # the notice names no file
        return path

    return keep
