"""Answers of the form `@name[value]`, as InfiAgent-DABench asks for them, and their comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evals.tasks import Judgement

TOLERANCE = 1e-6
"""The largest difference of two equal numbers: DABench's own rule, since it says how to round."""
_FOUND = re.compile(r"@(\w+)\[(.*?)\]")
_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?")


def given(answer: str) -> dict[str, str]:
    """The values in an answer by name; of a name that stands there twice the last one."""
    return dict(_FOUND.findall(answer))


def equal(value: str, label: str) -> bool:
    """True if two values are the same text, or the same number within `TOLERANCE`."""
    if value.strip() == label.strip():
        return True
    try:
        return abs(float(value) - float(label)) < TOLERANCE
    except ValueError:
        return False


def judge(answer: str, labels: Sequence[tuple[str, str]]) -> Judgement:
    """Compare an answer with all of its labels, which are pairs of a name and a value.

    Names that are missing make a wrong format; the detail says whether their values stand
    elsewhere in the answer.
    """
    values = given(answer)
    missing = [(name, label) for name, label in labels if name not in values]
    if missing:
        names = ", ".join(f"@{name}[…]" for name, _ in missing)
        found = all(_mentions(answer, label) for _, label in missing)
        return Judgement("wrong format", f"{names} missing; value {'in' if found else 'not in'} it")
    wrong = [
        f"@{name}[{values[name]}] for [{label}]"
        for name, label in labels
        if not equal(values[name], label)
    ]
    return Judgement("wrong value", "; ".join(wrong)) if wrong else Judgement("right")


def _mentions(answer: str, label: str) -> bool:
    try:
        wanted = float(label)
    except ValueError:
        return label.strip().lower() in answer.lower()
    numbers = (float(each.replace(",", "")) for each in _NUMBER.findall(answer))
    return any(abs(number - wanted) < TOLERANCE for number in numbers)
