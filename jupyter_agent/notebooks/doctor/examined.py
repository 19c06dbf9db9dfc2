"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found about one thing.

    Attributes:
        topic: The group it belongs to: `model`, `front end`.
        name: What was looked at.
        state: `problem` where something does not work, `warning` where it may surprise, `note`
            where there is nothing to judge.
        text: What was found, in one line.
        remedy: What to do about it; each problem has one.
    """

    topic: str
    name: str
    state: State
    text: str
    remedy: str = ""
