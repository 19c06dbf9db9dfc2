"""What came of a task, kept by the process that executed it: a kill of the command that asked for
it loses nothing that came to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jupyter_agent.core.plaintext import one_line
from jupyter_agent.errors import AgentError
from jupyter_agent.files.atomic import atomic_write, reason_of
from jupyter_agent.notebooks.jobs import NotebookOutcome
from jupyter_agent.notebooks.tasks.store import TaskNumbers, TaskRecord, TaskStore
from jupyter_agent.notebooks.writing import write_copy

LONGEST = 300
"""Characters of an answer, or of a reason, in a record."""
_STOPS = {
    "step_limit": "the agent stopped at its limit of steps (max_steps)",
    "budget": "the agent stopped at its budget",
    "stuck": "the agent repeated itself, and was stopped",
    "refused": "the model refused the task",
    "interrupted": "the agent was interrupted",
    "error": "the agent's turn failed",
}


@dataclass(frozen=True)
class TaskKeeper:
    """Writes the notebook of a task before and after it is executed, and its record if it is done.

    Attributes:
        store: Where they go.
        record: The record of its beginning.
        notebook: The prepared notebook.
        cells: How many cells that has.
    """

    store: TaskStore
    record: TaskRecord
    notebook: bytes
    cells: int

    def begin(self) -> bool:
        """Write the prepared notebook. False if the task is done meanwhile.

        Raises:
            AgentError: It cannot be written.
        """
        last = self.store.records().get(self.record.task)
        is_same_mode = last and self.record.mode in ("", last.mode)
        if last and last.state == "done" and last.parts == self.record.parts and is_same_mode:
            return False
        path = self.store.notebook(self.record.task)
        try:
            atomic_write(path, self.notebook)
        except OSError as error:
            raise AgentError(f"{path.name} cannot be written: {reason_of(error)}") from None
        return True

    def end(self, outcome: NotebookOutcome) -> NotebookOutcome:
        """Write the executed notebook, and the record if the task is done."""
        turn = outcome.value if isinstance(outcome.value, dict) else {}
        outcome = replace(outcome, error=self._problem(outcome, str(turn.get("stop", ""))))
        try:
            if outcome.document:
                path = self.store.notebook(self.record.task)
                write_copy(self.notebook, outcome.execution, path)
            if not outcome.error:
                numbers = numbers_of(outcome)
                words = one_line(str(turn.get("answer", "")), LONGEST)
                self.store.add(replace(self.record, state="done", numbers=numbers, words=words))
        except AgentError as error:
            return replace(outcome, error=outcome.error or str(error))
        return outcome

    def _problem(self, outcome: NotebookOutcome, stop: str) -> str:
        """Why the task is not done, in one line; empty if it is."""
        if outcome.error and outcome.cell is not None and outcome.cell + 1 < self.cells:
            return f"cell {outcome.cell + 1}: {one_line(outcome.error, LONGEST)}"
        if outcome.error:
            return one_line(outcome.error, LONGEST)
        return _STOPS.get(stop, "") if stop else "no turn of the agent came to an end"


def numbers_of(outcome: NotebookOutcome) -> TaskNumbers:
    """What a task took, as its kernel said."""
    turn: dict[str, Any] = outcome.value if isinstance(outcome.value, dict) else {}
    return TaskNumbers(
        steps=turn.get("steps"),
        tokens=turn.get("tokens"),
        cost=turn.get("cost"),
        seconds=round(outcome.seconds, 3),
    )
