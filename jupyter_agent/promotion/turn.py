"""The code that ran in a turn, and the variables that are its results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

from jupyter_agent.core.asked_changes import INPUTS
from jupyter_agent.core.messages import JsonObject, Output, ToolResult
from jupyter_agent.core.transcript import CallView, StepView, TurnView
from jupyter_agent.promotion.executed import Executed, State
from jupyter_agent.promotion.renaming import aliased, restored

_AT_TOP = re.compile(r"^agent code \d+, line (\d+)$", re.MULTILINE)
"""A frame at the top level of the code in the text of an error, not in a function."""
_TEXTS = frozenset({"text/plain", "text/html", "text/latex", "text/markdown"})
_STATES: dict[str, State] = {
    "done": "done",
    "failed": "failed",
    "interrupted": "interrupted",
    "timed_out": "interrupted",
}


def executed(view: TurnView) -> tuple[Executed, ...]:
    """The code that ran in a turn, in order, with its outcome. Leaves out code that never began.

    Scratch code is left out, too, unless names of it were kept: all scratch code so far stands
    where that happened. Bindings of the person's names that did not last, in scratch or because
    they were taken back, have other names.
    """
    return tuple(_in_order([ran for step in view.steps for ran in _of_step(step)]))


def executed_by(calls: Iterable[CallView]) -> tuple[Executed, ...]:
    """The same of some calls, without their steps and the model's words."""
    ran = ((_of_call(call, 0, ""), call.result) for call in calls)
    return tuple(_in_order([_Run(each, result.details) for each, result in ran if each and result]))


def results(view: TurnView) -> frozenset[str]:
    """The names of the variables that the turn made, changed or deleted."""
    return frozenset(change.name for change in view.receipt.variables)


def opaque_names(namespace: Mapping[str, object]) -> frozenset[str]:
    """The variables that may read or change others when they are used.

    These are the person's own functions and classes, and iterators. Runs none of their code.
    """
    return frozenset(name for name, value in namespace.items() if _is_opaque(value, namespace))


def _is_opaque(value: object, namespace: Mapping[str, object]) -> bool:
    kind = type(value)
    if issubclass(kind, FunctionType):
        own: object = object.__getattribute__(value, "__globals__")
        return own is namespace or _module_of(value) == "__main__"
    if issubclass(kind, type):
        return _module_of(value) == "__main__"
    return any("__next__" in vars(cls) for cls in kind.__mro__)


def _module_of(value: object) -> object:
    try:
        return vars(value).get("__module__") or getattr(value, "__module__", None)
    except Exception:
        return None  # a metaclass of the person's


@dataclass(frozen=True, slots=True)
class _Run:
    """One piece of code, and the details of its result."""

    executed: Executed
    details: JsonObject


def _of_step(step: StepView) -> Iterator[_Run]:
    words = step.text
    for call in step.calls:
        ran = _of_call(call, step.number, words)
        if ran is not None and call.result is not None:
            yield _Run(ran, call.result.details)
            words = ""


def _in_order(runs: Sequence[_Run]) -> Iterator[Executed]:
    """What has the same effect for the person, were it run in one namespace."""
    rebound = {name for run in runs for name in run.details.get("rebound", ())}
    if rebound and any(INPUTS in run.executed.code for run in runs):
        kept = ", ".join(f"{name!r}: {name}" for name in sorted(rebound))
        yield Executed(f"{INPUTS} = {{{kept}}}", runs[0].executed.step)
    scratch = _Scratch()
    for run in runs:
        if run.details.get("scratch"):
            yield from scratch.ran(run)
        elif mended := run.details.get("mended"):
            yield from aliased([run.executed], mended, {}) or restored([run.executed], mended)
        else:
            yield run.executed


class _Scratch:
    """The scratch code of a turn, as code for the person's namespace."""

    def __init__(self) -> None:
        self._all: list[Executed] = []
        self._new: list[Executed] = []
        self._others: dict[str, str] = {}

    def ran(self, run: _Run) -> list[Executed]:
        """The code of the scratch so far, if names of it are kept now; what came before is left."""
        self._all.append(run.executed)
        self._new.append(run.executed)
        kept = run.details.get("kept", ())
        if not kept:
            return []
        shadows = run.details.get("shadows", ())
        new, self._new = self._new, []
        code = aliased(new, shadows, self._others)
        if code is None:
            return restored(self._all, shadows)
        step = run.executed.step
        handed = [name for name in kept if name in self._others]
        return [*code, *(Executed(f"{name} = {self._others.pop(name)}", step) for name in handed)]


def _of_call(call: CallView, step: int, words: str) -> Executed | None:
    result = call.result
    if call.call.name != "execute_code" or result is None or call.state == "not_run":
        return None
    state = _STATES.get(str(result.details.get("state")))
    code = _code(call.call.arguments)
    if state is None or not (code.strip() or result.details.get("kept")):
        return None
    values = [output for output in result.display if output.kind == "result"]
    displays = [output for output in result.display if output.kind == "display"]
    return Executed(
        code=code,
        step=step,
        state=state,
        words=words,
        failed_line=_failed_line(result) if state == "failed" else None,
        shows=bool(displays),
        shows_value=any(map(_is_picture, values)),
        ends_shown=bool(result.display),
        tools=frozenset(str(made.get("tool")) for made in result.details.get("calls", ())),
    )


def _code(arguments: str) -> str:
    try:
        code = json.loads(arguments)["code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return code if isinstance(code, str) else ""


def _is_picture(output: Output) -> bool:
    return not _TEXTS.issuperset(output.data)


def _failed_line(result: ToolResult) -> int | None:
    errors = [output for output in result.display if output.kind == "error"]
    if not errors:
        return None
    # Errors that were handled on the way come first, the one that ended the code last.
    lines = _AT_TOP.findall(str(errors[-1].data.get("text/plain", "")))
    return int(lines[-1]) if lines else None
