"""This package as a person uses it: an `%%agent` cell in a real kernel."""

from __future__ import annotations

from pathlib import Path

from benchmarks.borrowed import LiveKernel, logged
from evals.kernels import Clock, error, kernel
from evals.model import SharedModel
from evals.tasks import Attempt, Limits, Task

_ANSWER = "'_agent' in globals() and hasattr(_agent, 'stop_reason')"


class Ours:
    """`%load_ext jupyter_agent`, the task's cells, then the task below `%%agent`.

    Nobody is there to be asked, so `approvals.mode` is `auto`.

    Args:
        model: The model.
        limits: The limits of one attempt.
    """

    name = "ours"
    about = "an `%%agent` cell in a real kernel, with `approvals.mode: auto`"

    def __init__(self, model: SharedModel, limits: Limits) -> None:
        self._model = model
        self._limits = limits

    def attempt(self, task: Task, folder: Path) -> Attempt:
        attempt = Attempt()
        environ = self._model.environment()
        with kernel(task, folder, environ, "%load_ext jupyter_agent") as live:
            clock = Clock(self._limits.seconds)
            try:
                running = live.start(f"%%agent\n{task.text}")
                cell = running.finish(self._limits.seconds)
                attempt.seconds = clock.spent
                attempt.failure = error(cell)
                self._read(live, attempt)
            except TimeoutError:
                attempt.seconds = clock.spent
                attempt.failure = "time-out"
            _count(live, attempt)
        return attempt

    def close(self) -> None:
        pass

    @staticmethod
    def _read(live: LiveKernel, attempt: Attempt) -> None:
        """The answer and its code, from the variable that a person's next cell would use."""
        if not live.value(_ANSWER):
            attempt.failure = attempt.failure or "the turn left no answer"
            return
        attempt.answer = live.value("str(_agent)")
        codes = live.value("[str(code) for code in _agent.code]")
        attempt.code = "\n".join(codes)
        attempt.ran = bool(codes)


def _count(live: LiveKernel, attempt: Attempt) -> None:
    """Calls, tokens and the last code's error from the log, which a broken turn has, too."""
    failed = ""
    for path in sorted(live.logs()):
        for event in logged(path):
            if event["type"] == "tool_finished":
                failed = event["result"]["details"].get("error_name", "")
            if event["type"] == "message_finished":
                attempt.calls += event.get("model_calls", 1)
                attempt.input_tokens += event["usage"]["input_tokens"]
                attempt.output_tokens += event["usage"]["output_tokens"]
    attempt.failure = attempt.failure or failed
