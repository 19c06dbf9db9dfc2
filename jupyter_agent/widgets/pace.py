"""Decides when to send a view: often enough to be live, seldom enough to cost little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

INTERVAL = 0.08
"""Seconds between two messages to a front end, at the least: about 12 in a second."""
FEW_SENT = 7
"""Messages in a second below which first words go out at once. Together with the regular ones
there are at most 20 in a second."""
PATIENCE = 0.25
"""Seconds that a few letters may wait for more of them."""
_FEW = 90
"""Letters that are not worth a message of their own: its envelope is about as long."""
_HTML_INTERVAL = 0.5
_HTML_RATE = 150_000
"""Characters in a second, of a form that is sent whole each time."""


def is_due(operations: Sequence[Sequence[Any]], since: float) -> bool:
    """True if the operations are due. `since` is the seconds since the last message."""
    if not operations or since < INTERVAL:
        return False
    if since >= PATIENCE or any(operation[0] != "append" for operation in operations):
        return True
    return sum(len(operation[2]) for operation in operations) >= _FEW


def may_hurry(sent: Sequence[float], now: float) -> bool:
    """True if first words may go out at once, even right after another message.

    Args:
        sent: The times of the last `FEW_SENT` messages, oldest first.
        now: The current time.
    """
    return len(sent) < FEW_SENT or now - sent[0] > 1


def whole_interval(size: int) -> float:
    """Seconds between two updates that send the whole form of `size` characters."""
    return max(_HTML_INTERVAL, size / _HTML_RATE)
