"""What `jupyter agent record` and `run` say to a kernel between two cells. Runs in that kernel."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

_cassettes: dict[Path, Path] = {}
"""The cassettes that takes stand in for, by the take."""
_LONGEST_ANSWER = 400
_reruns: dict[Path, Path] = {}
"""The files with the results of a second run, by the cassette."""


def prepare(mode: str, takes: str, again: str, asks: bool) -> dict[str, str]:
    """Before a cell: set the mode, and let a take stand in for the cassette.

    The notebook may name its cassette in any cell, so this is done before each of them.

    Args:
        mode: The mode of the turns to come.
        takes: The folder of the takes; empty for the cassette itself.
        again: The folder for the results of a run that learns what varies; empty for none.
        asks: Whether the cell gives the agent a task from code, for which the extension need not
            be loaded.

    Returns:
        The notebook's cassettes so far, each with its take, or with the file of the results in
        `again`; empty where no agent is there yet.

    Raises:
        ConfigError: The cassette's folder does not exist.
    """
    shell = get_ipython()
    if not (asks or hasattr(shell, "agent_magics") or hasattr(shell, "agent_sessions")):
        return {}
    from jupyter_agent.errors import ConfigError
    from jupyter_agent.session.registry import sessions_of

    notebook = sessions_of(shell).kernel
    notebook.is_being_recorded = True
    notebook.set("mode", mode)
    notebook.rerun_into = None
    if (used := notebook.cassette) is None:
        return {}
    cassette = _cassettes.get(used, used).absolute()
    if not cassette.parent.is_dir():
        raise ConfigError(f"There is no folder for the cassette {cassette.name}. Make it first.")
    take = take_of(cassette, Path(takes)) if takes else cassette
    if mode == "replay" and not take.exists():
        take = cassette  # of this one nothing was recorded
    if take != cassette:
        take.parent.mkdir(parents=True, exist_ok=True)
        _cassettes[take] = cassette
    if take != used.absolute():
        notebook.use_cassette(str(take))
    if again:
        into = take_of(cassette, Path(again))
        into.parent.mkdir(parents=True, exist_ok=True)
        notebook.rerun_into = _reruns[cassette] = into
    found = _reruns if again else {cassette: take for take, cassette in _cassettes.items()}
    return {str(cassette): str(file) for cassette, file in found.items()}


def take_of(cassette: Path, folder: Path) -> Path:
    """Where a cassette's take is, in the folder of the takes."""
    digest = sha256(str(cassette).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return folder / digest / cassette.name


def last_turn() -> dict[str, Any]:
    """After the last cell: how its turn ended, as a literal; empty where there was none."""
    from jupyter_agent.core.plaintext import one_line
    from jupyter_agent.core.redact import redact, secret_values
    from jupyter_agent.session.answer import Answer

    shell = get_ipython()
    answer = shell.user_ns.get("_agent") if shell else None
    if not isinstance(answer, Answer):
        return {}
    cost = answer.receipt.cost
    return {
        "stop": str(answer.stop_reason),
        "steps": answer.receipt.steps,
        "tokens": answer.usage.total_tokens,
        "cost": None if cost is None else float(cost),
        "answer": one_line(redact(str(answer), secret_values()), _LONGEST_ANSWER),
    }
