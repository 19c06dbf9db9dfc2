"""How many generated examples a run has: few for each commit, all of them in `make test-deep`.

@settings(max_examples=examples(300))
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "commit")
SEED = "TEST_SEED"
"""The variable that repeats the samples of a run; each run says in its header which it took."""


def examples(deep: int) -> int:
    """So many in `make test-deep`, a tenth of them for each commit."""
    return max(10, deep // 10) if PROFILE == "commit" else deep


def wires() -> tuple[str, ...]:
    """One of the two wire formats for each commit, by the seed; both in `make test-deep`."""
    both = ("anthropic", "openai")
    return both if PROFILE != "commit" else (random.Random(seed()).choice(both),)


def seed() -> int:
    return int(os.environ[SEED])


def seed_of_commit() -> int:
    """A number below a million from the files of the last commit; 0 outside of a repository."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        said = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(said.stdout[:12], 16) % 10**6
