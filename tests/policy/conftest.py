"""A workspace in which code is judged, with a home and a temporary folder outside of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from jupyter_agent.policy import Known, PolicyContext, Verdict, judge

JudgeCode = Callable[..., Verdict]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("workspace", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    workspace = tmp_path.resolve() / "workspace"
    (workspace / "data.csv").write_text("a\n1\n", encoding="utf-8")
    (workspace / "seen.csv").write_text("a\n1\n", encoding="utf-8")
    (workspace / "helper.py").write_text("def clean(): pass\n", encoding="utf-8")
    (workspace / "link").symlink_to(tmp_path / "home")
    return workspace


@pytest.fixture
def around(root: Path) -> PolicyContext:
    seen = frozenset({root / "seen.csv"})
    return PolicyContext(root, root, seen, frozenset({root / "nb.cassette.jsonl"}))


@pytest.fixture
def judged(around: PolicyContext) -> JudgeCode:
    def call(code: str, names: Mapping[str, Known] | None = None) -> Verdict:
        place = PolicyContext(
            around.root, around.folder, around.seen, around.protected, names or {}
        )
        return judge("execute_code", "executes", {"code": code}, "ask_risky", place)

    return call
