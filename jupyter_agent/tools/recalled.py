"""What tools recall of what is kept, for the model and for the person."""

from __future__ import annotations

from jupyter_agent.core.messages import Output
from jupyter_agent.core.quoting import timeless
from jupyter_agent.core.tool import ToolReturn


def recalled(text: str) -> ToolReturn:
    """The model reads when things were saved; what stays in the notebook is without it.

    A replay saves the same things anew, and its outputs have to be those of the recording.
    """
    shown = timeless(text)
    display = (Output("result", {"text/plain": shown}),) if shown != text else ()
    return ToolReturn(text, display)
