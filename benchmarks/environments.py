"""The peers' environments: one each, made under `build/bench/` where it is missing.

pip finds the packages as it is set up to on this machine; nothing about that is written down.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers import Peer
from benchmarks.server import ROOT

PLACE = ROOT / "build" / "bench"
LOGS = PLACE / "logs"


def environment(peer: Peer) -> Path:
    """The interpreter of the peer's environment.

    Raises:
        RuntimeError: pip could not install it; the end of what pip said.
    """
    folder = PLACE / "environments" / peer.name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.json"
    wanted = json.dumps(peer.requirements)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"Making the environment of {peer.name} ...", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    done = subprocess.run(
        [*command, *peer.requirements], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{peer.name} could not be installed:\n{done.stderr[-1_000:]}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def versions(python: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The versions of packages in an environment, of those that it has."""
    program = (
        "import importlib.metadata as m, json, sys\n"
        "found = {d.metadata['Name'].lower().replace('_', '-'): d.version\n"
        "         for d in m.distributions()}\n"
        "print(json.dumps({n: found[n] for n in sys.argv[1:] if n in found}))"
    )
    command = [str(python), "-c", program, *names]
    found: dict[str, str] = json.loads(subprocess.check_output(command, text=True))
    return found


def own() -> Path:
    """The interpreter of this package's own environment."""
    return Path(sys.executable)
