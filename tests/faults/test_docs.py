"""The page on faults is what the tests say."""

from __future__ import annotations

import runpy
from pathlib import Path

from faults.cases import GROUPS

ROOT = Path(__file__).resolve().parents[2]


def test_page() -> None:
    """`python scripts/faults_table.py` would write the page as it is."""
    script = runpy.run_path(str(ROOT / "scripts" / "faults_table.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"]()


def test_names() -> None:
    """No fault is listed twice, and there are many."""
    names = [case.fault for group in GROUPS.values() for case in group]
    assert len(names) == len(set(names)) >= 60
