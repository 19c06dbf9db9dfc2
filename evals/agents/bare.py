"""What there is to beat: one reply of the model, and a plain loop around it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.borrowed import LiveKernel
from evals.blocks import code_of
from evals.kernels import Clock, described, error, kernel, output
from evals.model import SharedModel, Words
from evals.tasks import Attempt, Limits, Task
from jupyter_agent.errors import ProviderError

_WHERE = "You write Python for a live Jupyter kernel whose variables are loaded already.\n"
_ONCE = {
    "words": _WHERE + "Reply with one ```python block. It computes the answer and prints it in "
    "the format that the task asks for.",
    "code": _WHERE + "Reply with one ```python block that does the task. Its last line is an "
    "expression: the value that is asked for.",
}
_LOOP = {
    "words": _WHERE + "To act, write one ```python block: it runs at once, and you see its output. "
    "When you know the answer, reply without code, in the format that the task asks for.",
    "code": _WHERE + "To act, write one ```python block: it runs at once, and you see its output. "
    "The last line of a block is an expression that is shown. When the task is done, reply in one "
    "sentence without code.",
}
_GO_ON = "\n\nIf the task is done, reply without code. Otherwise write the next or repaired block."
_LAST = "Answer now, without code, in the format that the task asks for."


class Bare:
    """What both have in common: a kernel, and failures that become part of the attempt.

    Args:
        model: The model.
        limits: The limits of one attempt.
    """

    def __init__(self, model: SharedModel, limits: Limits) -> None:
        self._model = model
        self._limits = limits

    def attempt(self, task: Task, folder: Path) -> Attempt:
        attempt = Attempt()
        with kernel(task, folder, {}) as live:
            told = f"\n\nVariables:\n{described(live)}"
            clock = Clock(self._limits.seconds)
            try:
                self._solve(task, told, live, clock, attempt)
            except TimeoutError:
                attempt.failure = "time-out"
            except ProviderError as refused:
                attempt.failure = str(refused)
            attempt.seconds = clock.spent
        return attempt

    def close(self) -> None:
        pass

    def _solve(
        self, task: Task, told: str, live: LiveKernel, clock: Clock, attempt: Attempt
    ) -> None:
        raise NotImplementedError

    def _run(self, code: str, live: LiveKernel, clock: Clock, attempt: Attempt) -> str:
        """Run a block and give its output; the error of the last block is the failure so far."""
        cell = live.run(code, timeout=clock.left)
        attempt.failure = error(cell)
        if cell.status == "ok":
            attempt.ran = True
            attempt.code = f"{attempt.code}\n{code}".strip()
        return output(cell)


class OneReply(Bare):
    """One model call; the code of its reply is run once."""

    name = "one reply"
    about = "one model call; the code of its reply is run, and what it prints is the answer"

    def _solve(
        self, task: Task, told: str, live: LiveKernel, clock: Clock, attempt: Attempt
    ) -> None:
        system = _ONCE[task.wants] + told
        reply = self._model.ask(system, [("user", task.text)], attempt, clock.left)
        code = code_of(reply)
        if not code:
            attempt.answer = reply
        elif task.wants == "code":
            # The judge runs it: an error there counts as one.
            attempt.code, attempt.ran = code, True
        else:
            attempt.answer = self._run(code, live, clock, attempt)


class PlainLoop(Bare):
    """Code, its output, the next code, until the model answers without any."""

    name = "plain loop"
    about = "code, its output, the next code, until a reply has none; the last reply is the answer"

    def _solve(
        self, task: Task, told: str, live: LiveKernel, clock: Clock, attempt: Attempt
    ) -> None:
        system = _LOOP[task.wants] + told
        words: list[Words] = [("user", task.text)]
        for _ in range(self._limits.steps - 1):
            reply = self._model.ask(system, words, attempt, clock.left)
            code = code_of(reply)
            if not code:
                attempt.answer = reply
                return
            shown = self._run(code, live, clock, attempt) or "(nothing)"
            kept = f"```python\n{code}\n```"
            words += [("assistant", kept), ("user", f"Output:\n{shown}{_GO_ON}")]
        if task.wants == "words":
            words[-1] = ("user", words[-1][1].replace(_GO_ON, f"\n\n{_LAST}"))
            attempt.answer = self._model.ask(system, words, attempt, clock.left)
