"""The page about safety names a test for each promise, and that test exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "safety.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:[a-z_]+/)+test_\w+\.py)(?:::(\w+))?`")


def test_each_promise_has_a_test() -> None:
    """Each line of the tables of guarantees and guard rails ends with tests that exist."""
    promises, _, _ = PAGE.partition("## It is not a sandbox")
    lines = [line for line in promises.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith(("| guarantee", "| guard rail"))]
    assert len(rows) > 20
    for row in rows:
        named = NAMED.findall(row.split("|")[-2])
        assert named, row
        for path, function in named:
            source = (TESTS / path).read_text(encoding="utf-8")
            assert not function or f"def {function}(" in source, (path, function)
