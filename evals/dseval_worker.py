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
TEXTS_AS_OBJECTS = """\
with __import__('warnings').catch_warnings(action='ignore'):
    if __import__('pandas').__version__.startswith('3.'):
        __import__('pandas').set_option('future.infer_string', False)"""
"""DSEval was written for pandas 2, where columns of texts have the type `object`: its own checks of
its data fail otherwise. An agent's kernel does the same, so that values can be compared."""


def _dseval(checkout: Path) -> None:
    """Make DSEval's modules importable without its `__init__`, which needs langchain."""
    package = types.ModuleType("dseval")
    package.__path__ = [str(checkout / "dseval")]
    sys.modules["dseval"] = package
    os.environ["MPLBACKEND"] = "Agg"
    exec(TEXTS_AS_OBJECTS, {})


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
            return self._list([str(path) for path in paths if not path.name.startswith("_")])
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

    def _list(self, paths: list[str]) -> Json:
        """The questions of all sets, and why some sets are left out, by their names."""
        found: list[Json] = []
        left_out: dict[str, str] = {}
        for path in paths:
            try:
                found += self._listed(path)
            except Exception as error:  # whatever a set's own code raises with today's packages
                left_out[f"{Path(path).parent.name}/{Path(path).stem}"] = _reason(error)
        return {"problems": found, "left_out": left_out}

    def _listed(self, path: str) -> list[Json]:
        """The questions of a set; FileNotFoundError if DSEval would have to fetch its data."""
        problems = self._set(path)
        inputs = problems.data_directory
        for name in {name for each in problems for name in each.data or ()}:
            if inputs is None or not (inputs / name).is_file():
                raise FileNotFoundError(f"its file {name} is missing")
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


def _reason(error: Exception) -> str:
    """An error in a line; DSEval puts the traceback of a check that failed into its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[-2:])}"[:300]


def _unhurried(limits: Json | None) -> Json:
    """The limits of reference code: a slow machine must not fail it."""
    return {**(limits or {}), "max_time": _REFERENCE_SECONDS, "raise_error": True}


if __name__ == "__main__":
    given = Path(sys.argv[1])
    _dseval(given)
    serve(Reader(given))
