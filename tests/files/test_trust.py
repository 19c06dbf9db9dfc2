"""The trust store: exact, safe against many writers, and never overwritten when it is torn."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.files.trust import is_trusted, revoke, store_path, trust


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))


def test_trust_is_exact(tmp_path: Path) -> None:
    """Kind, place and digest all count; a symlink is the place that it leads to."""
    assert not is_trusted("mcp", tmp_path, "d")
    trust("mcp", tmp_path, "d")
    assert is_trusted("mcp", tmp_path, "d")
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_trusted("mcp", tmp_path / "link", "d")
    assert not is_trusted("skill", tmp_path, "d")
    assert not is_trusted("mcp", tmp_path / "other", "d")
    assert not is_trusted("mcp", tmp_path, "e")


def test_revoke(tmp_path: Path) -> None:
    """One digest can be revoked, or all of a kind in a place."""
    for digest in "abc":
        trust("mcp", tmp_path, digest)
    assert revoke("mcp", tmp_path, "a")
    assert not revoke("mcp", tmp_path, "a")
    assert is_trusted("mcp", tmp_path, "b")
    assert revoke("mcp", tmp_path)
    assert not is_trusted("mcp", tmp_path, "b")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "trusted": 3}'])
def test_a_torn_store_trusts_nothing(tmp_path: Path, text: str) -> None:
    """A torn store trusts nothing and stays unchanged; adding to it is an error."""
    store_path().parent.mkdir(parents=True)
    store_path().write_text(text, encoding="utf-8")
    assert not is_trusted("mcp", tmp_path, "d")
    with pytest.raises(ConfigError):
        trust("mcp", tmp_path, "d")
    assert store_path().read_text(encoding="utf-8") == text


def test_many_writers(tmp_path: Path) -> None:
    """Many writers lose no entry."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: trust("mcp", tmp_path, str(number)), range(40)))
    assert all(is_trusted("mcp", tmp_path, str(number)) for number in range(40))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in place of the store trusts nothing, without waiting."""
    store_path().parent.mkdir(parents=True)
    os.mkfifo(store_path())
    assert not is_trusted("mcp", tmp_path, "d")
    with pytest.raises(ConfigError):
        trust("mcp", tmp_path, "d")
