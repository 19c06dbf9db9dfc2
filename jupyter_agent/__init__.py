"""An agent that lives in the kernel of a Jupyter notebook.

    %load_ext jupyter_agent

    %%agent
    Which species is heaviest, and by how much?

Nothing heavy is imported before the first `%%agent` cell runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_agent.version import __version__ as __version__

if TYPE_CHECKING:
    from jupyter_agent.kernel.describe import register_describer as register_describer
    from jupyter_agent.magics.ask import ask as ask
    from jupyter_agent.magics.ask import delegate as delegate
    from jupyter_agent.stores.runs import read_run as read_run
    from jupyter_agent.stores.runs import runs as runs

__all__ = [
    "__version__",
    "ask",
    "delegate",
    "load_ipython_extension",
    "read_run",
    "register_describer",
    "runs",
    "unload_ipython_extension",
]

_WHERE = {
    "ask": "jupyter_agent.magics.ask",
    "delegate": "jupyter_agent.magics.ask",
    "read_run": "jupyter_agent.stores.runs",
    "register_describer": "jupyter_agent.kernel.describe",
    "runs": "jupyter_agent.stores.runs",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jupyter_agent`: register `%%agent` and `%agent`."""
    from jupyter_agent.magics.register import register

    register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext jupyter_agent`: take the magics away. Sessions are forgotten."""
    from jupyter_agent.magics.register import unregister

    unregister(shell)
