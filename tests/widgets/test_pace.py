"""How often a view is sent."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from jupyter_agent.widgets.pace import FEW_SENT, INTERVAL, is_due, may_hurry

WORDS = [["append", ["steps", 0, "text"], "x" * 200]]
TICK = 0.01


@given(st.lists(st.booleans(), min_size=50, max_size=600))
def test_at_most_twenty_a_second(first_words: list[bool]) -> None:
    """However often a message begins, no second has more than 20 messages."""
    sent: list[float] = []
    last: deque[float] = deque(maxlen=FEW_SENT)
    for tick, hurries in enumerate(first_words):
        now = tick * TICK
        since = now - sent[-1] if sent else 1.0
        if is_due(WORDS, since) or (hurries and may_hurry(last, now)):
            sent.append(now)
            last.append(now)
    for moment in sent:
        assert sum(moment <= other < moment + 1 for other in sent) <= 20


def test_first_words_after_a_silence() -> None:
    """After a quiet second the first words are sent at once, and others wait."""
    last = deque([9.0, 9.5, 9.99], maxlen=FEW_SENT)
    assert may_hurry(last, 10.0)
    assert not is_due(WORDS, since=0.01)
    busy = deque([10 - INTERVAL * n for n in range(FEW_SENT, 0, -1)], maxlen=FEW_SENT)
    assert not may_hurry(busy, 10.0)
