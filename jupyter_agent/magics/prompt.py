"""Asks the user by a line of text, if no widget can ask."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from IPython.core.error import StdinNotImplementedError

from jupyter_agent.core.diffs import brief, file_diff
from jupyter_agent.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Decider,
    QuestionAnswered,
    QuestionAsked,
)
from jupyter_agent.core.legible import whole
from jupyter_agent.core.messages import clean
from jupyter_agent.core.wording import output_text
from jupyter_agent.kernel.interrupts import Interrupts

_TRIES = 3
_EMPTY = "An empty line is no answer. "
_YES = frozenset({"y", "yes"})
_ALWAYS = frozenset({"a", "always"})
_REFUSED = re.compile(r"no?(?:\s*[:,]|\s|$)(?P<why>.*)", re.IGNORECASE | re.DOTALL)


def ask_by_input(
    asked: ApprovalAsked,
    interrupts: Interrupts,
    time_out: float,
    read: Callable[[str], str],
    about: str = "",
) -> ApprovalAnswered:
    """Ask a question by `read` (`input`). The kernel waits meanwhile.

    Args:
        asked: The question.
        interrupts: The interrupts of the turn.
        time_out: Seconds for the whole question, however often it is repeated. A question from
            another thread than the main one waits without end.
        read: Shows a prompt and returns the user's line. An empty one is no answer.
        about: The subject of the question (the code, a diff), if nothing else shows it.

    Raises:
        asyncio.CancelledError: The user interrupted in place of an answer.
    """
    prompt = (f"{about}\n" if about else "") + _prompt(asked)
    line, said = _Line(interrupts, time_out, read), ""
    for _ in range(_TRIES):
        typed = line.read(prompt)
        if not isinstance(typed, str):
            return ApprovalAnswered(asked.call_id, "no", typed.by)
        answered = parse(asked.call_id, typed)
        if answered is not None:
            return answered
        said = typed.strip() or said
        prompt = f"{'' if typed.strip() else _EMPTY}Please answer {_letters(asked)}: "
    if said:  # whoever writes something else than a yes means no
        return ApprovalAnswered(asked.call_id, "no", reason=said)
    return ApprovalAnswered(asked.call_id, "no", "no_answer")


def answer_by_input(
    asked: QuestionAsked, interrupts: Interrupts, time_out: float, read: Callable[[str], str]
) -> QuestionAnswered:
    """Ask for an answer in words by `read`, with `ask_by_input`'s arguments and errors.

    The number of a choice stands for it.
    """
    numbered = (f"  {number}. {whole(each)}\n" for number, each in enumerate(asked.choices, 1))
    what = "a number or another answer" if asked.choices else "your answer"
    prompt = f"The agent asks: {whole(asked.question)}\n{''.join(numbered)}"
    prompt += f"Type {what}, and press Enter: "
    line = _Line(interrupts, time_out, read)
    for _ in range(_TRIES):
        typed = line.read(prompt)
        if not isinstance(typed, str):
            return QuestionAnswered(asked.call_id, by=typed.by)
        if typed.strip():
            return QuestionAnswered(asked.call_id, clean(_chosen(typed.strip(), asked.choices)))
        prompt = f"{_EMPTY}Please type {what}: "
    return QuestionAnswered(asked.call_id, by="no_answer")


def _chosen(typed: str, choices: Sequence[str]) -> str:
    """The choice that a number stands for; the line itself if it is a choice or none has it."""
    if typed in choices or not (typed.isascii() and typed.isdigit() and len(typed) < 4):
        return typed
    return choices[int(typed) - 1] if 0 < int(typed) <= len(choices) else typed


@dataclass(frozen=True, slots=True)
class _Unread:
    """No line came: why."""

    by: Decider


class _Line:
    """The lines that answer one question, within one time-out.

    Args:
        interrupts: The interrupts of the turn.
        time_out: Seconds for all lines. On another thread than the main one they have no limit.
        read: Shows a prompt and returns the user's line.
    """

    def __init__(self, interrupts: Interrupts, time_out: float, read: Callable[[str], str]) -> None:
        self._interrupts = interrupts
        self._read = read
        self._end = time.monotonic() + time_out

    def read(self, prompt: str) -> str | _Unread:
        """The next line. Raises `asyncio.CancelledError` if the user interrupts."""
        limit = None
        try:
            if threading.current_thread() is not threading.main_thread():
                return self._read(prompt)  # limits and interrupts are the main thread's
            left = max(0.0, self._end - time.monotonic())
            with self._interrupts.limited(left) as limit, self._interrupts.held():
                return self._read(prompt)
        except KeyboardInterrupt:
            if limit is not None and limit.expired:
                return _Unread("time_out")
            raise asyncio.CancelledError from None
        except (StdinNotImplementedError, EOFError, OSError):
            return _Unread("stopped" if self._interrupts.requested else "nobody")


def parse(call_id: str, typed: str) -> ApprovalAnswered | None:
    """The answer for `y`, `a`, `n`, or `no: why`; None for anything else."""
    words = typed.strip()
    if words.lower() in _YES:
        return ApprovalAnswered(call_id, "yes")
    if words.lower() in _ALWAYS:
        return ApprovalAnswered(call_id, "always")
    if (no := _REFUSED.fullmatch(words)) is None:
        return None
    reason = no["why"].strip().removeprefix("because").strip()
    return ApprovalAnswered(call_id, "no", reason=reason)


def _prompt(asked: ApprovalAsked) -> str:
    diffs = [file_diff(output_text(each), each) for each in asked.preview if each.kind == "diff"]
    sizes = f" ({whole(found)})" if (found := brief(diffs)) else ""
    who = "" if asked.effect else "The agent asks: "
    always = f", a for always in this session ({whole(asked.always)})" if asked.always else ""
    reasons = "".join(f"  - {whole(reason)}\n" for reason in asked.reasons)
    shown = "".join(
        f"{whole(output_text(each))}\n" for each in asked.preview if each.kind != "diff"
    )
    return (
        f"{shown}{who}{whole(asked.question)}{sizes}\n{reasons}"
        f"Type y for yes, n for no (or n: and why){always}, and press Enter: "
    )


def _letters(asked: ApprovalAsked) -> str:
    return "y, n or a" if asked.always else "y or n"
