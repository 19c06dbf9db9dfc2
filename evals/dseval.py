"""DSEval: problem sets that are judged by the variables and values that an answer's code leaves.

Its own package, which comes with its data, reads and judges them, in a process of its own: what an
agent wrote is executed there, and may well end it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.line import ROOT, Json
from evals.dseval_worker import TEXTS_AS_OBJECTS
from evals.tasks import Attempt, DataError, Judgement, Kind, Task
from evals.worker import Ended, TimedWorker

_SECONDS = 120.0
"""The longest judgement. DSEval itself limits the code, mostly to a second."""
_LISTING = 600.0
_KINDS: dict[str, Kind] = {
    "Correct": "right",
    "IntactViolation": "input spoilt",
    "PresentationError": "wrong format",
    "WrongOutput": "wrong value",
    "WrongVariables": "wrong value",
    "UnitTestFailure": "wrong value",
    "BadModel": "wrong value",
    "Timeout": "time-out",
    "Crash": "error",
    "SyntaxError": "error",
}
"""Our kinds by DSEval's verdicts."""


class DSEval:
    """The problem sets of a checkout: the package `dseval/`, and `benchmarks/NAME/*.py`.

    Args:
        folder: The checkout.
    """

    name = "DSEval"
    source = (
        "[DSEval](https://github.com/MetaCopilot/dseval) (MIT), by Microsoft Research: a checkout "
        "with its package `dseval/` and its problem sets `benchmarks/`, put into `dseval/`"
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        log = ROOT / "build" / "evals" / "logs" / "dseval.txt"
        self._worker = TimedWorker(
            Path(sys.executable), "evals.dseval_worker", [str(folder.resolve())], log
        )

    def tasks(self) -> list[Task]:
        if not (self._folder / "dseval" / "validator.py").is_file():
            raise DataError(f"{self._folder} has no dseval/validator.py: is it DSEval's checkout?")
        try:
            answer = self._worker.ask(_LISTING, action="list")
        except Ended as ended:
            raise DataError(f"{self._folder} cannot be read: {ended}") from None
        if not answer["problems"]:
            raise DataError(
                f"{self._folder} has no problem that can be read. {_told(answer)}".strip()
            )
        if answer["left_out"]:
            print(_told(answer), flush=True)
        return [_task(each) for each in answer["problems"]]

    def judge(self, task: Task, attempt: Attempt) -> Judgement:
        if not attempt.code.strip():
            return Judgement("no code that ran")
        inputs = str(task.files["inputs"]) if "inputs" in task.files else ""
        with tempfile.TemporaryDirectory(prefix="eval-") as folder:
            try:
                found = self._worker.ask(
                    _SECONDS,
                    action="judge",
                    path=task.key["path"],
                    index=task.key["index"],
                    code=attempt.code,
                    folder=folder,
                    inputs=inputs,
                )
            except Ended as ended:
                return Judgement("time-out" if ended.late else "error", str(ended)[:300])
        if "failed" in found:
            return Judgement("not judged", found["failed"])
        kind = _KINDS.get(found["verdict"], "wrong value")
        return Judgement(kind, f"{found['verdict']}, {found['subverdict']}: {found['reason']}")

    def close(self) -> None:
        self._worker.close()


def _told(listing: Json) -> str:
    """A line about the sets that are left out; empty if none is."""
    left_out = listing["left_out"]
    if not left_out:
        return ""
    name, reason = next(iter(left_out.items()))
    return f"DSEval: {len(left_out)} sets are left out, such as {name} ({reason})"


def _task(problem: dict[str, object]) -> Task:
    path = Path(str(problem["path"]))
    setup = problem["setup"]
    assert isinstance(setup, list)
    return Task(
        set=f"DSEval {path.parent.name}",
        id=f"dseval/{path.parent.name}/{path.stem}/{problem['index']}",
        text=str(problem["question"]),
        setup=(TEXTS_AS_OBJECTS, *setup),
        files={"inputs": Path(str(problem["inputs"]))} if problem["inputs"] else {},
        wants="code",
        key={"path": str(path), "index": problem["index"]},
    )
