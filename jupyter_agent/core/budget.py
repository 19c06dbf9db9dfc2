"""The limits of a turn: tokens, seconds, money. Checked between steps, never inside one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from jupyter_agent.core.messages import Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a turn may use; None sets no limit.

    `price` gives the price of tokens in US dollars. `started` is the turn's start by the
    monotonic clock.
    """

    tokens: int | None = None
    seconds: float | None = None
    usd: float | None = None
    price: Callable[[Usage], Decimal | None] = lambda usage: None
    started: float = field(default_factory=time.monotonic)

    def used_up(self, usage: Usage) -> str:
        """The limit that is reached, as a sentence for the user; empty if none is."""
        if self.tokens is not None and usage.total_tokens >= self.tokens:
            return f"The budget of {self.tokens:,} tokens is used up"
        if self.seconds is not None and time.monotonic() - self.started >= self.seconds:
            return f"The budget of {self.seconds:g} seconds is used up"
        if self.usd is not None and (self.price(usage) or Decimal(0)) >= Decimal(str(self.usd)):
            return f"The budget of ${self.usd:g} is used up"
        return ""
