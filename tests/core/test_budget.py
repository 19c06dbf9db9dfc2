"""What a turn may use."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from jupyter_agent.core.budget import Budget
from jupyter_agent.core.messages import Usage

USED = Usage(900, 100)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(), ""),
        (Budget(tokens=1_001), ""),
        (Budget(tokens=1_000), "The budget of 1,000 tokens is used up"),
        (Budget(usd=0.5, price=lambda usage: Decimal("0.49")), ""),
        (Budget(usd=0.5, price=lambda usage: Decimal("0.5")), "The budget of $0.5 is used up"),
        (Budget(usd=0.5, price=lambda usage: None), ""),
    ],
)
def test_limits(budget: Budget, words: str) -> None:
    """Each limit is reached when its amount is used; an unknown price sets no limit."""
    assert budget.used_up(USED) == words


def test_seconds() -> None:
    """Time counts from the turn's start."""
    assert Budget(seconds=60).used_up(USED) == ""
    late = Budget(seconds=60, started=time.monotonic() - 61)
    assert late.used_up(USED) == "The budget of 60 seconds is used up"
