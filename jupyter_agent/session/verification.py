"""Checks an answer: a delegate computes its numbers anew, without its code and its numbers."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Literal, cast

from jupyter_agent.agent.prompts import render
from jupyter_agent.core.events import VERIFY, Delegated, Event, Sink
from jupyter_agent.core.legible import line
from jupyter_agent.core.messages import Message, Text, ToolCall, Usage
from jupyter_agent.core.plaintext import count, defused, shorten
from jupyter_agent.core.tool import DelegateSinks
from jupyter_agent.errors import AgentError, ReplayMismatch, ToolError
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.grounding import Index
from jupyter_agent.grounding.quantities import Agreement, Quantity, quantities, without_numbers
from jupyter_agent.kernel.changes import Snapshot
from jupyter_agent.kernel.scratch import Overlay
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.delegates import Recomputed
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.source.cell import parse_cell
from jupyter_agent.tools.delegation import MOST_NAMES, Assignment
from jupyter_agent.undo.namespace import AsBefore

OUTPUT = "recomputed"
"""The name to which the delegate binds its numbers."""
MOST_QUANTITIES = 40
"""Numbers of an answer that are checked, the first ones."""
_MOST_FILES = 20
_EARLIER_TASKS = 3
_LONGEST_TASK, _LONGEST_TEXT = 6_000, 8_000
_LONGEST_PATH = 300
_WORD = re.compile(r"[^\W\d]\w*")
_MENTIONED = re.compile(r"@([\w./-]+)")
_SHARED = frozenset({"_agent"})
"""Names of the kernel that hold an earlier answer with its code."""

NOT_VERIFIED = "Not verified"


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """A number of an answer beside the one that a delegate computed anew.

    Args:
        text: The number as the answer writes it.
        value: Its value.
        recomputed: The delegate's number; None if it has none.
        outcome: `agrees`: the same but for rounding and unit; `sign`: so but for the sign;
            `differs`; or `not_computed`.
    """

    text: str
    value: Decimal
    recomputed: float | None
    outcome: Agreement | Literal["not_computed"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of a check.

    Args:
        lines: What the person is told.
        checks: The numbers, in their order; empty if nothing was verified.
        usage: The tokens of the delegate.
        is_whole: False if the delegate's model failed.
        error: A difference from the recording, which ends the turn; else None.
    """

    lines: tuple[str, ...]
    checks: tuple[NumberCheck, ...] = ()
    usage: Usage = Usage()
    is_whole: bool = True
    error: AgentError | None = None


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """What a check knows of a turn.

    Args:
        task: Its task.
        answer: Its answer.
        history: The conversation.
        index: The numbers that it has seen.
        code: The code that ran.
        calls: Its tool calls.
        files: The files that its tools have written.
    """

    task: str
    answer: str
    history: Sequence[Message]
    index: Index
    code: Sequence[str]
    calls: Iterable[ToolCall]
    files: Iterable[str]


async def verify(
    kernel: Kernel, setup: AgentSetup, before: Snapshot, turn: AnsweredTurn, emit: Sink
) -> Verification:
    """Let a delegate compute an answer's numbers anew.

    It sees the task, the names of the inputs, and the answer without its numbers and its code. Its
    names are those of before the turn.

    Args:
        kernel: The kernel.
        setup: The conversation's setup.
        before: The person's variables before the turn.
        turn: The turn.
        emit: Takes the delegate's events.

    Raises:
        asyncio.CancelledError: The person stopped it.
    """
    wanted, left_out = quantities(turn.answer, turn.index, MOST_QUANTITIES)
    if not wanted:
        return Verification((f"{NOT_VERIFIED}: the answer has no number to compute anew.",))
    if not setup.settings.tools.enable_code:
        return Verification((f"{NOT_VERIFIED}: no code can run (tools.enable_code is false).",))
    overlay, was = _names_before(kernel, before, turn.code)
    variables = _variables(turn, before)
    assignment = Assignment(VERIFY, _assignment(turn, wanted), variables, (OUTPUT,))
    lost = [name for name in was.lost if name in variables]
    contexts = _contexts(turn, _files(turn, kernel.workspace), lost)
    sinks = DelegateSinks(own=partial(_pass_on, emit), at_call=emit)
    try:
        found = await setup.delegates.recompute(assignment, overlay, contexts, sinks)
    except ToolError as error:
        return Verification((f"{NOT_VERIFIED}: {error}",))
    unseen = [f"{n} ({type(before.values[n]).__name__})" for n in was.unseen if n in variables]
    return _compared(wanted, left_out, found, lost, unseen)


def _pass_on(emit: Sink, event: Event) -> None:
    emit(Delegated(VERIFY, event))


def _names_before(
    kernel: Kernel, before: Snapshot, code: Sequence[str]
) -> tuple[Overlay, AsBefore]:
    """The kernel's names as they were before the turn. Those that changed in place and have no
    copy are as they are now."""
    now = kernel.snapshot()
    was = kernel.undo.inputs(now, code)
    overlay = Overlay()
    person = kernel.shell.user_ns
    hidden = [name for name in now.values if name not in before.values]
    for name in [*hidden, *_SHARED.intersection(person)]:
        overlay.base[name] = person[name]  # scratch lacks it: it counts as deleted there
    for name, value in was.objects.items():
        overlay.take(name, value)
    return overlay, was


def _assignment(turn: AnsweredTurn, wanted: Sequence[Quantity]) -> str:
    text = without_numbers(turn.answer, wanted, turn.index)
    return render(
        "verify",
        HIDDEN="…",
        OUTPUT=OUTPUT,
        NAMES=", ".join(each.name for each in wanted),
        TASK=defused(shorten(turn.task.strip(), _LONGEST_TASK)),
        TEXT=defused(shorten(text, _LONGEST_TEXT)),
    ).strip()


def _contexts(turn: AnsweredTurn, files: Sequence[str], lost: Sequence[str]) -> list[str]:
    """What the delegate reads beside its task: earlier tasks, the files, what is not as before."""
    said = [
        block.text
        for message in turn.history
        for block in message.blocks
        if message.role == "user" and isinstance(block, Text)
    ]
    earlier = [shorten(text.strip(), 500) for text in said[:-1][-_EARLIER_TASKS:]]
    listed = "\n".join(f"- {text}" for text in earlier)
    written = ", ".join(dict.fromkeys(turn.files))
    changed = ", ".join(lost)
    lines = [
        f"The person's tasks before this one, which it may mean:\n{listed}" if earlier else "",
        f"Files that are inputs: {', '.join(files)}." if files else "",
        f"Made by the work that is checked, so do not read them: {written}." if written else "",
        f"Changed in place by that work, and not as before: {changed}." if changed else "",
    ]
    return [defused(each) for each in lines if each]


def _variables(turn: AnsweredTurn, before: Snapshot) -> tuple[str, ...]:
    """The person's variables that the turn's code or the task names."""
    words = set(_WORD.findall("\n".join([turn.task, *turn.code])))
    return tuple(name for name in before.values if name in words)[-MOST_NAMES:]


def _files(turn: AnsweredTurn, workspace: Workspace) -> list[str]:
    """The files of the workspace that the turn's calls, its code or the task name."""
    named = [*_MENTIONED.findall(turn.task), *map(_path_of, turn.calls)]
    for code in turn.code:
        parsed = parse_cell(code)
        nodes = ast.walk(parsed[1]) if parsed else ()
        named += [
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    written = set(turn.files)
    found = (_inside(path, workspace) for path in dict.fromkeys(named))
    return [path for path in dict.fromkeys(found) if path and path not in written][:_MOST_FILES]


def _path_of(call: ToolCall) -> str:
    try:
        return str(json.loads(call.arguments).get("path", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _inside(path: str, workspace: Workspace) -> str:
    """A path as tools show it; empty if it is no readable file of the workspace."""
    if not path or len(path) > _LONGEST_PATH or "\0" in path or "\n" in path:
        return ""
    try:
        target = workspace.readable(path)
        is_there = target.is_file() and not target.is_relative_to(workspace.state_folder)
        return workspace.relative(target) if is_there else ""
    except (ToolError, AgentError, OSError, ValueError):
        return ""


def _touched(unseen: Iterable[str], lost: Sequence[str]) -> list[str]:
    """What the person is told of variables that are perhaps not as before, however the check ended.

    Args:
        unseen: Those that the turn or the check may have changed unseen, with their types.
        lost: Those that the check changed in place and that have no copy.
    """
    kinds = (
        ("Not checked for changes inside", [*dict.fromkeys(unseen)]),
        ("Changed in place by the check, and could not be put back", lost),
    )
    return [f"{words}: {', '.join(names)}." for words, names in kinds if names]


def _compared(
    wanted: Sequence[Quantity],
    left_out: int,
    found: Recomputed,
    lost: Sequence[str],
    unseen: Sequence[str],
) -> Verification:
    """What came of a check.

    Args:
        wanted: The numbers of the answer.
        left_out: How many further ones it has.
        found: What the delegate computed.
        lost: The inputs that the turn changed in place and that have no copy.
        unseen: Those that it may have changed unseen, with their types.
    """
    outcome = found.end.outcome
    usage, why = outcome.usage, ""
    touched = _touched([*unseen, *found.unseen], found.lost)
    if isinstance(outcome.error, ReplayMismatch):
        return Verification((), usage=usage, error=outcome.error)
    if outcome.error is not None:
        why = f"the delegate failed: {str(outcome.error).rstrip('.')}"
    elif outcome.stop_reason != "end":
        why = f"the delegate did not finish ({outcome.stop_reason})"
        why += f": {outcome.why.rstrip('.')}" if outcome.why else ""
    elif not issubclass(type(found.value), dict):
        why = f"the delegate computed nothing ({OUTPUT} is not bound to a dict)"
    if why:
        lines = [f"{NOT_VERIFIED}: {line(why, 300)}.", *touched]
        return Verification(tuple(lines), usage=usage, is_whole=outcome.error is None)
    numbers = cast("dict[object, object]", found.value)
    checks = tuple(_check(each, _number(dict.get(numbers, each.name))) for each in wanted)
    return Verification((*_lines(checks, left_out, lost), *touched), checks, usage)


def _number(value: object) -> float | None:
    """A finite number; None for anything else. The delegate's code made it: it may be anything."""
    kind = type(value)
    if kind is bool or not issubclass(kind, Real | Decimal):
        return None
    try:
        number = float(cast("float", value))
    except Exception:
        return None
    return number if math.isfinite(number) else None


def _check(wanted: Quantity, computed: float | None) -> NumberCheck:
    outcome = "not_computed" if computed is None else wanted.compare(computed)
    return NumberCheck(wanted.text, wanted.value, computed, outcome)


def _lines(checks: Sequence[NumberCheck], left_out: int, lost: Sequence[str]) -> list[str]:
    """What the person is told, number by number."""
    agreeing = [each for each in checks if each.outcome == "agrees"]
    computed = [each for each in checks if each.recomputed is not None]
    if not computed:
        return [
            f"{NOT_VERIFIED}: the delegate could compute none of {count(len(checks), 'number')}."
        ]
    total = len(checks) + left_out
    heads = [f"A delegate computed the numbers anew: {len(agreeing):,} of {total:,} agree."]
    other = [each for each in checks if each.outcome in ("differs", "sign")]
    kinds = (
        ("Disagree", [f"{_shown(each)}, recomputed {_value(each)}{_sign(each)}" for each in other]),
        ("Agree", [f"{_shown(each)} ({_value(each)})" for each in agreeing]),
        ("Not recomputed", [_shown(each) for each in checks if each.recomputed is None]),
    )
    lines = [f"{words}: {' · '.join(found)}" for words, found in kinds if found]
    if left_out:
        lines.append(f"Not recomputed: {count(left_out, 'further number')}.")
    if lost:
        lines.append(f"Computed from what the turn changed in place: {', '.join(lost)}.")
    return [*heads, *lines]


def _shown(check: NumberCheck) -> str:
    return line(check.text, 40)


def _sign(check: NumberCheck) -> str:
    return " (the other sign)" if check.outcome == "sign" else ""


def _value(check: NumberCheck) -> str:
    number = check.recomputed or 0.0
    is_whole = number.is_integer() and abs(number) < 1e15
    return f"{int(number):,}" if is_whole else f"{number:,.6g}"
