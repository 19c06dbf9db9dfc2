"""The code that ran in a turn, and the variables that are its results."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import FunctionType

from jupyter_agent.core.asked_changes import INPUTS, SPOILT
from jupyter_agent.core.legible import line
from jupyter_agent.core.messages import JsonObject, Output, ToolResult
from jupyter_agent.core.transcript import CallView, StepView, TurnView
from jupyter_agent.promotion.delegated import DelegateCode, for_the_person
from jupyter_agent.promotion.executed import Executed, State, parsed
from jupyter_agent.promotion.renaming import added, aliased, free, restored, words_of
from jupyter_agent.source.scope import stored_names

_AT_TOP = re.compile(r"^agent code [\d.]+, line (\d+)$", re.MULTILINE)
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

    Bindings of the person's names that did not last, in scratch or because they were taken back,
    have other names. Of several attempts it is the code of the one that was taken.
    """
    runs = [ran for step in view.own_steps for ran in _of_step(step)]
    return tuple(_in_order(_adopted(runs, results(view) if view.attempt else frozenset())))


def executed_by(
    calls: Iterable[CallView], adopted: Collection[str] = frozenset()
) -> tuple[Executed, ...]:
    """The same of some calls, without their steps and the model's words.

    Args:
        calls: The calls, of one attempt.
        adopted: The names that the person has from its scratch.
    """
    runs = [*_of_calls(calls, 0, "")]
    return tuple(_in_order(_adopted(runs, adopted)))


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
    """One piece of code, and the details of its result; or all code of some delegates."""

    executed: Executed
    details: JsonObject
    delegates: tuple[DelegateCode, ...] = ()


def _adopted(runs: Sequence[_Run], names: Collection[str]) -> list[_Run]:
    """The code of an attempt, whose names in scratch became the person's after it."""

    def details(run: _Run) -> JsonObject:
        shadows = [name for name in run.details.get("shadows", ()) if name not in names]
        return {**run.details, "shadows": shadows} if "shadows" in run.details else run.details

    return [replace(run, details=details(run)) for run in runs] if names else [*runs]


def _of_step(step: StepView) -> Iterator[_Run]:
    yield from _of_calls(step.calls, step.number, step.text)


def _of_calls(calls: Iterable[CallView], step: int, words: str) -> Iterator[_Run]:
    """The code of the calls of one step. That of delegates, which worked side by side, is one."""
    for is_delegated, group in groupby(calls, lambda call: call.delegate is not None):
        if is_delegated:
            if parts := tuple(part for call in group if (part := _of_delegate(call, step))):
                code = "\n".join(ran.code for part in parts for ran in part.runs)
                yield _Run(Executed(code, step), {}, parts)
            continue
        for call in group:
            ran = _of_call(call, step, words)
            if ran is not None and call.result is not None:
                yield _Run(ran, call.result.details)
                words = ""


def _of_delegate(call: CallView, step: int) -> DelegateCode | None:
    """The code of a delegate that came to its end; None if it ran none."""
    view, details = call.delegate, call.result.details if call.result else {}
    if view is None or "delegate" not in details:
        return None
    name, task = line(str(details["delegate"])), line(view.task)
    ran = (_of_call(each, step, task) for each in view.calls)
    runs = tuple(replace(each, by=name, ends_shown=False) for each in ran if each)
    kept, shadows, mutated = (_names(details, key) for key in ("kept", "shadows", "mutated"))
    is_elsewhere = details.get("where") == "process"
    made = DelegateCode(name, task, runs, kept, shadows, mutated, is_elsewhere)
    return made if runs else None


def _names(details: JsonObject, key: str) -> tuple[str, ...]:
    """Names of variables in the details of a result, which a recording may hold."""
    return tuple(name for name in map(str, details.get(key, ())) if name.isidentifier())


def _in_order(runs: Sequence[_Run]) -> Iterator[Executed]:
    """What has the same effect for the person, were it run in one namespace."""
    rebound = {name for run in runs for name in run.details.get(SPOILT, {}).get("rebound", ())}
    if rebound and any(INPUTS in run.executed.code for run in runs):
        kept = ", ".join(f"{name!r}: {name}" for name in sorted(rebound))
        yield added(f"{INPUTS} = {{{kept}}}", runs[0].executed)
    words = {word for run in runs for word in words_of(run.executed.code)}
    scratch = _Scratch(runs, words)
    for run in runs:
        mended = run.details.get(SPOILT, {}).get("mended", ())
        if run.delegates:
            yield from for_the_person(run.delegates, words)
        elif run.details.get("scratch"):
            yield from scratch.ran(run)
        elif mended:
            code = aliased(run.executed, mended, {}, words)
            yield from code or restored(run.executed, mended, words)
        else:
            yield run.executed


class _Scratch:
    """The scratch code of a turn, as code for the person's namespace.

    Names that mean something else in scratch than outside have other names there; where they cannot
    be replaced, they are bound to the scratch values for the length of the code.

    Args:
        runs: All code of the turn.
        words: Its words.
    """

    def __init__(self, runs: Sequence[_Run], words: set[str]) -> None:
        self._ever = {name for run in runs for name in run.details.get("shadows", ())}
        self._words = words
        self._others: dict[str, str] = {}

    def ran(self, run: _Run) -> list[Executed]:
        """One piece of scratch code, and the bindings of the names that were kept after it."""
        code, others, kept = run.executed, self._others, run.details.get("kept", ())
        shadows = set(run.details.get("shadows", ()))
        found = parsed(code.code)
        # Names of the person's, and such as become the person's later: code outside binds them.
        bound = {name for tree in found[1] for name in stored_names(tree)} if found else set()
        new = sorted((shadows | (bound & self._ever)).difference(kept, others))
        lines = aliased(code, new, others, self._words, set(new) - shadows)
        if lines is None:
            given = dict(others)
            others |= {name: free(f"new_{name}", self._words) for name in new}
            lines = restored(code, sorted(shadows), self._words, given, others)
        handed = [name for name in kept if name in others]
        return [*lines, *(added(f"{name} = {others.pop(name)}", code) for name in handed)]


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
