"""A kernel as its sessions see it, in this process, with a shell of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_agent.kernel.recent import RecentCells
from jupyter_agent.session.kernel import Kernel


@pytest.fixture
def here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kernel]:
    """A kernel in an empty folder, with no settings of the person's own and no keys."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    for name in [
        n for n in os.environ if n.startswith(("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_"))
    ]:
        monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shell = InteractiveShell.instance()
    try:
        kernel = Kernel(shell, RecentCells(shell), folder)
        yield kernel
        kernel.close()
    finally:
        InteractiveShell.clear_instance()
