"""Reads and judges DSEval's problems with DSEval's own classes, asked line by line.

    python -m evals.dseval_worker CHECKOUT

A problem's variables come from the reference code of those before it, so that each question is
judged by itself, as DSEval's evaluator does without propagated errors.
"""

from __future__ import annotations

import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

from benchmarks.line import Json, serve

_REFERENCE_SECONDS = 60


def _dseval(checkout: Path) -> None:
    """Make DSEval's modules importable without its `__init__`, which needs langchain."""
    package = types.ModuleType("dseval")
    package.__path__ = [str(checkout / "dseval")]
    sys.modules["dseval"] = package
    os.environ["MPLBACKEND"] = "Agg"


class Reader:
    """Answers `list` and `judge`.

    Args:
        checkout: DSEval's checkout.
    """

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        self._home = Path.cwd()
        self._sets: dict[str, Any] = {}

    def __call__(self, request: Json) -> Json:
        if request["action"] == "list":
            paths = sorted((self._checkout / "benchmarks").glob("*/*.py"))
            names = [str(path) for path in paths if not path.name.startswith("_")]
            return {"problems": [each for name in names for each in self._listed(name)]}
        os.chdir(request["folder"])
        try:
            return self._judged(request)
        finally:
            os.chdir(self._home)

    def _set(self, path: str) -> Any:
        from dseval.problem import ProblemSet  # type: ignore[import-not-found]

        if path not in self._sets:
            self._sets[path] = ProblemSet.fromfile(Path(path))
        return self._sets[path]

    def _listed(self, path: str) -> list[Json]:
        """The questions of a set; none if files are missing that DSEval would fetch."""
        problems = self._set(path)
        inputs = problems.data_directory
        needed = {name for each in problems for name in each.data or ()}
        if any(inputs is None or not (inputs / name).is_file() for name in needed):
            print(f"{path}: left out, since its data are missing", file=sys.stderr)
            return []
        codes = [each.reference_code for each in problems]
        return [
            {
                "path": path,
                "index": index,
                "question": problem.question.strip(),
                "setup": codes[:index],
                "inputs": str(inputs) if inputs else "",
            }
            for index, problem in enumerate(problems)
            if problem.is_complete
        ]

    def _judged(self, request: Json) -> Json:
        from dseval.simulation import Environment  # type: ignore[import-not-found]
        from dseval.validator import validator_comments_to_verdict  # type: ignore[import-not-found]

        if request["inputs"]:
            shutil.copytree(request["inputs"], "inputs")
        problems = self._set(request["path"])
        problem = problems[request["index"]]
        limits = problem.execution or {}
        true = Environment()
        try:
            for each in problems.problems[: request["index"]]:
                true.execute(each.reference_code, **_unhurried(each.execution))
            tried = true.fork()
            true.execute(problem.reference_code, **_unhurried(problem.execution))
        except Exception as error:  # whatever the set's own code raises
            return {"failed": f"its own code fails: {type(error).__name__}: {error}"[:300]}
        tried.execute(request["code"], **limits)
        comments = problem.validator.validate(true.last_cell.output, tried.last_cell.output)
        verdict, subverdict, reason = validator_comments_to_verdict(comments)
        lines = [line for line in str(reason).splitlines() if line.strip()]
        shown = lines[-1] if verdict.name == "Crash" and lines else " ".join(lines)
        return {"verdict": verdict.name, "subverdict": subverdict.name, "reason": shown[:300]}


def _unhurried(limits: Json | None) -> Json:
    """The limits of reference code: a slow machine must not fail it."""
    return {**(limits or {}), "max_time": _REFERENCE_SECONDS, "raise_error": True}


if __name__ == "__main__":
    given = Path(sys.argv[1])
    _dseval(given)
    serve(Reader(given))
