"""`scripts/matrix.py` finds the interpreters of a machine, and says which are not there."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "matrix.py"


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    spec = spec_from_file_location("matrix", SCRIPT)
    assert spec and spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def interpreter(path: Path, does: str) -> None:
    """A program in the place of an interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(0o755)


def test_the_oldest_that_answers(
    matrix: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name on PATH that runs no Python is skipped; 3.11.2 is older than 3.11.10."""
    interpreter(tmp_path / "shims" / "python3.11", "echo 3.11.10")
    interpreter(tmp_path / "shims" / "python3.12", "echo 'not switched on' >&2; exit 127")
    interpreter(tmp_path / "bin" / "python3.11", "echo 3.11.2")
    interpreter(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "echo 3.12.1")
    interpreter(tmp_path / "bin" / "python3.13", "echo 3.12.7")
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:{tmp_path}/bin")
    monkeypatch.setenv("PYENV_ROOT", f"{tmp_path}/pyenv")
    assert matrix.find("3.11") == f"{tmp_path}/bin/python3.11"
    assert matrix.find("3.12") == f"{tmp_path}/pyenv/versions/3.12.1/bin/python3.12"
    assert matrix.find("3.13") is None


def test_one_that_was_named_must_be_there() -> None:
    """A named but missing interpreter is one line and exit code 1."""
    command = [sys.executable, str(SCRIPT), "--only", "python", "--python", "/nowhere/python"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "/nowhere/python: no Python answers there" in ran.stdout
