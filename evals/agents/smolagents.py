"""The peer: smolagents' CodeAgent, in an environment of its own."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from benchmarks.environments import environment, versions
from benchmarks.line import ROOT
from benchmarks.peers import SMOLAGENTS
from evals.kernels import place
from evals.model import SharedModel
from evals.tasks import Attempt, Limits, SetupError, Task
from evals.worker import Ended, TimedWorker

_START_SECONDS = 120.0
"""For its imports and the task's cells, beside the time of the attempt itself."""


class Smolagents:
    """CodeAgent with the task's variables as `additional_args`, and their description in words.

    pandas and the like come from this environment, so that all agents have the same ones.

    Args:
        model: The model.
        limits: The limits of one attempt.

    Raises:
        ConfigError: The model has no API that smolagents' OpenAIModel speaks.
        RuntimeError: pip cannot install it.
    """

    name = "smolagents"

    def __init__(self, model: SharedModel, limits: Limits) -> None:
        model.openai()
        self._model = model
        self._limits = limits
        python = environment(SMOLAGENTS)
        version = versions(python, ("smolagents",))["smolagents"]
        self.about = f"smolagents {version}, its CodeAgent with the variables as arguments"
        log = ROOT / "build" / "evals" / "logs" / "smolagents.txt"
        shared = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        self._worker = TimedWorker(python, "evals.smolagents_worker", shared, log)

    def attempt(self, task: Task, folder: Path) -> Attempt:
        place(task, folder)
        limits = self._limits
        try:
            found = self._worker.ask(
                limits.seconds + _START_SECONDS,
                folder=str(folder),
                setup=task.setup,
                text=task.text,
                steps=limits.steps,
                reply_tokens=limits.reply_tokens,
                temperature=0 if self._model.is_embedded else None,
                **self._model.openai(),
            )
        except Ended as ended:
            failure = "time-out" if ended.late else str(ended)
            return Attempt(failure=failure, seconds=limits.seconds if ended.late else 0.0)
        if "setup" in found:
            raise SetupError(found["setup"])
        attempt = Attempt(**found)
        if attempt.seconds > limits.seconds:
            attempt.failure = "time-out"
        return attempt

    def close(self) -> None:
        self._worker.close()
