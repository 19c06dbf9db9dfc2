"""`jupyter agent` as a person runs it: in a process of its own, in a folder, without keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CLEANED = ("JUPYTER_AGENT_", "ANTHROPIC_", "OPENAI_", "JPY_", "PYTEST_", "GITHUB_")


def environment(home: Path, **more: str) -> dict[str, str]:
    """No keys, no settings of ours, a home without configuration, and this copy of the package."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_CLEANED)}
    kept |= {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "jupyter")}
    kept |= {"IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(ROOT)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONIOENCODING": "utf-8", **more}


def run(*arguments: str, folder: Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`jupyter agent ARGUMENTS` in a folder; a warning of Python's is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "jupyter_agent.cli", *arguments],
        cwd=folder,
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=150,
        check=False,
    )
