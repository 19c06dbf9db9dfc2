"""Values are compared, and the most frequent one of those that count is taken."""

from __future__ import annotations

import pytest

from jupyter_agent.agent.loop import TurnOutcome
from jupyter_agent.agent.voting import Attempt, Vote, normalized, same_value
from jupyter_agent.core.messages import Usage
from jupyter_agent.errors import ProviderError


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("np.float64(0.30000000000000004)", "0.3"),
        ("42", "42.0"),
        ("'a  b'", "a b"),
        ("(1, -2.5e-3)\n", "(1,\t-0.0025)"),
        ("<A at 0x7f0011223344>", "<A at 0x7fee11223344>"),
        ("1e-17", "0.0"),
    ],
)
def test_the_same_value(one: str, other: str) -> None:
    """Rounding, blanks, quotes, number types and addresses make no difference."""
    assert same_value(normalized(one), normalized(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "2"),
        ("1 row", "1 rows"),
        ("0.3", "0.3001"),
        ("10000000000000001", "10000000000000002"),
        ("[1, 2]", "[1]"),
        ("v1", "v2"),
        ("nan", "inf"),
    ],
)
def test_other_values(one: str, other: str) -> None:
    """Words, whole numbers and the count of numbers are compared exactly."""
    assert not same_value(normalized(one), normalized(other))


def made(*values: str | None, spoilt: tuple[int, ...] = ()) -> list[Attempt]:
    failed = TurnOutcome("error", Usage(), ProviderError("no"))
    ended = TurnOutcome("end", Usage())
    return [
        Attempt(n, failed if value is None else ended, (), value, n not in spoilt)
        for n, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("attempts", "taken", "text"),
    [
        (made("7", "7.0", "7"), 1, "All 3 attempts agree."),
        (made("6", "7", "7"), 2, "2 of 3 attempts agree on 7; the other: 6."),
        (made("5", "7", "6", "7"), 2, "2 of 4 attempts agree on 7; the others: 5, 6."),
        (made("3", "1", "2"), 1, "3 attempts, 3 different values: 3, 1, 2. The first is taken."),
        (
            made("1", "2", "2", "1"),
            1,
            "2 of 4 attempts agree on 1; the others: 2, 2. "
            "As many agree on another value; the earliest is taken.",
        ),
        (
            made(None, "7", "7"),
            2,
            "2 of 3 attempts agree on 7. 1 attempt did not succeed.",
        ),
        (
            made("7", "7", "8", spoilt=(1, 2)),
            3,
            "Only attempt 3 of 3 counts. 2 attempts changed your variables and did not count.",
        ),
        (made("7", "7", spoilt=(1, 2)), 1, "All 2 attempts agree."),
        (made("", ""), 1, "All 2 attempts agree."),
        (made("x" * 99, ""), 1, f"2 attempts, 2 different values: {'x' * 39}…, no value."),
        (made(None, None), None, "None of 2 attempts succeeded."),
    ],
)
def test_the_vote(attempts: list[Attempt], taken: int | None, text: str) -> None:
    """Intact attempts come first, the most frequent value wins, of equal ones the earliest."""
    vote = Vote(attempts)
    assert (vote.taken.number if vote.taken else None) == taken
    assert vote.text.startswith(text), vote.text
