"""The front-end extension as files: what a wheel carries, and whether its modules are well formed.

What it does on a page is shown in `browser/`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from jupyter_agent.version import __version__

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "labextension"
MODULES = sorted(EXTENSION.glob("*.js"))
CHECKS = (
    *("--allowJs", "--checkJs", "--noEmit", "--strict", "--target", "es2022"),
    *("--module", "es2022", "--moduleResolution", "bundler", "--lib", "es2022,dom"),
)


def node() -> str:
    """The system's node, or the one that playwright ships."""
    found = shutil.which("node")
    if found is None and find_spec("playwright") is not None:
        from playwright._impl._driver import compute_driver_executable

        found = str(compute_driver_executable()[0])
    if found is None:
        pytest.skip("there is no node, and no playwright")
    return found


def test_each_module_can_be_parsed(tmp_path: Path) -> None:
    """Each file is a JavaScript module; what is none fails the same check."""
    program = node()

    def parses(path: Path) -> bool:
        command = [program, "--check", path]
        return not subprocess.run(command, check=False, capture_output=True).returncode

    assert {module.name for module in MODULES} >= {
        *("remoteEntry.js", "prose.js", "cells.js", "plans.js")
    }
    assert [module.name for module in MODULES if not parses(module)] == []
    broken = tmp_path / "broken.mjs"
    broken.write_text("export function activate( {", encoding="utf-8")
    assert not parses(broken)


def test_types() -> None:
    """The types in the comments hold, where TypeScript is installed (npm install -g typescript)."""
    if (checker := shutil.which("tsc")) is None:
        pytest.skip("there is no tsc")
    said = subprocess.run(
        [checker, *CHECKS, *MODULES], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert (said.returncode, said.stdout) == (0, "")


def test_what_a_wheel_carries() -> None:
    """A wheel puts the folder where JupyterLab looks for it, in the package's own version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    facts = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    assert shared == {"labextension": f"share/jupyter/labextensions/{facts['name']}"}
    assert facts["version"] == __version__
    assert (EXTENSION / facts["jupyterlab"]["_build"]["load"]).is_file()
    # Jupyter's server lets browsers keep what is in a folder of this name, past an upgrade.
    assert not list(EXTENSION.rglob("static"))


def test_jupyterlab_lists_it(tmp_path: Path) -> None:
    """`jupyter labextension list` finds it, enabled and in order."""
    if find_spec("jupyterlab") is None:
        pytest.skip("there is no JupyterLab")
    shutil.copytree(EXTENSION, tmp_path / "labextensions" / "jupyter-agent")
    command = [sys.executable, "-m", "jupyterlab.labextensions", "list"]
    environ = {**os.environ, "JUPYTER_PATH": str(tmp_path)}
    said = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environ, timeout=120
    )
    lines = [line for line in (said.stdout + said.stderr).splitlines() if "jupyter-agent " in line]
    assert len(lines) == 1, said
    assert f"v{__version__}" in lines[0]
    assert "enabled" in lines[0]
    assert "OK" in lines[0]
