"""`%agent cells` and `%agent export`, as functions of the words after the command."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jupyter_agent.core.redact import MARK, redact, secret_values
from jupyter_agent.core.transcript import TurnView
from jupyter_agent.errors import ConfigError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.promotion.cell import cell, comment
from jupyter_agent.promotion.export import export, notebook
from jupyter_agent.promotion.turn import executed, results

_NO_TURN = "no turn has run yet. Give the agent a task first: %%agent"


def cells_command(
    words: Sequence[str], turn: TurnView | None, opaque: Collection[str] | None = None
) -> str:
    """`%agent cells`: the text of the cell to put below.

    Args:
        words: What stands after the command: nothing.
        turn: The last turn.
        opaque: `opaque_names` of the kernel's namespace.

    Raises:
        ConfigError: There are words, no turn, or nothing in it that ran and made something.
    """
    if words:
        raise ConfigError(f"%agent: unexpected {words[0]!r}. Usage: %agent cells")
    if turn is None:
        raise ConfigError(f"%agent cells: {_NO_TURN}")
    text = cell(executed(turn), results(turn), opaque)
    if not text:
        raise ConfigError("%agent cells: the last turn ran no code that made or changed anything.")
    return _without_secrets(f"# What the agent ran for: {comment(turn.task)}\n\n{text}")


def export_command(
    words: Sequence[str],
    turn: TurnView | None,
    workspace: Workspace,
    opaque: Collection[str] | None = None,
    before: Sequence[str] = (),
) -> str:
    """`%agent export FILE.ipynb`: write the notebook, and say so.

    Args:
        words: What stands after the command: the file.
        turn: The last turn.
        workspace: Where the file may be.
        opaque: `opaque_names` of the kernel's namespace.
        before: The person's cells that ran without an error before the turn, oldest first.

    Raises:
        ConfigError: There is not one word, no turn, or the file cannot be written.
    """
    if len(words) != 1:
        what = f"unexpected {words[1]!r}" if words else "a file is needed"
        raise ConfigError(f"%agent: {what}. Usage: %agent export FILE.ipynb")
    if turn is None:
        raise ConfigError(f"%agent export: {_NO_TURN}")
    made = notebook(turn, opaque, [_without_secrets(code) for code in before])
    for each in made.cells:
        each.source = _without_secrets(each.source)
    shown = export(made, words[0], workspace)
    return f"{shown}: {len(made.cells)} cells. None of them has run yet."


def _without_secrets(code: str) -> str:
    text = redact(code, secret_values())
    if text == code:
        return code
    return f"# {MARK}: a secret stood here. Read it from the environment instead.\n{text}"
