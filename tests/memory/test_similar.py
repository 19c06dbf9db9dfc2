"""What counts as the same, and what only looks like it."""

from __future__ import annotations

import pytest

from jupyter_agent.memory.similar import contradicts, fingerprint, likeness


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("User prefers short answers.", "user  prefers SHORT answers", "same"),
        ("User prefers short answers.", "The user prefers a short answer", "near"),
        ("Use Polars for large files", "Please use Polars for the large files!", "near"),
        ("Use Polars for large files", "Do not use Polars for large files", None),
        ("Use Polars for large files", "Use DuckDB for large files", None),
        ("note 1 of worker 2", "note 2 of worker 1", None),
        ("The port is 8080 on the server", "The port is 8081 on the server", None),
        ("用户喜欢简洁回复", "用户不喜欢简洁回复", None),
        ("用户喜欢简洁回复", "用户喜欢简洁回复。", "same"),
        ("yes", "no", None),
        ("", "", None),
    ],
)
def test_likeness(one: str, other: str, expected: str | None) -> None:
    """Wording makes no difference; a number, a name or a negation does."""
    assert likeness(fingerprint(one), fingerprint(other)) == expected
    assert likeness(fingerprint(other), fingerprint(one)) == expected


def test_contradictions() -> None:
    """Texts that differ only in a negation contradict each other."""
    one = fingerprint("Use Polars for large files")
    assert contradicts(one, fingerprint("Never use Polars for large files"))
    assert not contradicts(one, fingerprint("Use Polars for large files"))
