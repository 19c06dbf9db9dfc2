"""The example notebook under `pytest --nbval`: it passes again and again, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "example_notebooks" / "01_quickstart.ipynb"
DUMMY = "dummy-" + "for-tests"
PROVIDERS = ("ANTHROPIC_", "OPENAI_", "JUPYTER_AGENT_", "GEMINI_", "MINIMAX_")

# For each commit, `make notebooks` validates it, and `test_examples.py` replays it without a key.
pytestmark = [pytest.mark.timeout(600), pytest.mark.deep]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """The notebook writes into its folder, so its runs take turns."""
    with FileLock(Path(gettempdir()) / "jupyter_agent-test-quickstart.lock"):
        yield


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """No keys, no settings of ours, and a home without configuration."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PROVIDERS)}
    kept.pop("PYTEST_ADDOPTS", None)
    kept.pop("JPY_SESSION_NAME", None)
    return {**kept, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "jupyter"), **more}


def validate(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--nbval", "-p", "no:cacheprovider", "-q"]
    command += ["-n", "0", "-p", "no:randomly", str(NOTEBOOK)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


def git_status() -> str:
    command = ["git", "status", "--porcelain", "--", "example_notebooks"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git checkout")
    return run.stdout


def passes(environment: dict[str, str]) -> None:
    before, bytes_before = git_status(), NOTEBOOK.read_bytes()
    run = validate(environment)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
    assert "failed" not in run.stdout
    assert git_status() == before
    assert NOTEBOOK.read_bytes() == bytes_before


def test_twice_without_any_key(tmp_path: Path) -> None:
    """Without any configuration the cassette answers, also the second time."""
    environment = clean_environment(tmp_path)
    passes(environment)
    passes(environment)


def test_replay_beside_a_key(tmp_path: Path) -> None:
    """With a key in the environment and `mode: replay`, no model is asked."""
    closed = "http://127.0.0.1:9"
    passes(
        clean_environment(
            tmp_path,
            ANTHROPIC_API_KEY=DUMMY,
            ANTHROPIC_BASE_URL=closed,
            JUPYTER_AGENT_MODE="replay",
        )
    )
