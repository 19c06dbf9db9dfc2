"""`%load_ext jupyter_agent` is cheap: nothing heavy is imported before the first task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_kernel import clean_environment

HEAVY = (
    "anthropic",
    "openai",
    "mcp",
    "tiktoken",
    "ipywidgets",
    "nbformat",
    "pandas",
    "pydantic",
    "asyncio",  # it costs more than all the rest together
    "yaml",
    "click",
    "jupyter_agent.core.secret_shapes",  # compiles its patterns for 20 ms
    "httpx2",
)
PROGRAM = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "jupyter_agent")
new = set(sys.modules) - before
print(*sorted({name.partition(".")[0] for name in new} | new))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The top-level modules that loading the extension brings into a bare IPython shell."""
    folder = tmp_path_factory.mktemp("import_cost")
    return _loaded_by(PROGRAM, folder)


def _loaded_by(program: str, folder: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=clean_environment(folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_the_extension_is_loaded(loaded: set[str]) -> None:
    """The extension loads in a bare shell."""
    assert "jupyter_agent" in loaded


@pytest.mark.parametrize("module", HEAVY)
def test_loading_imports_nothing_heavy(loaded: set[str], module: str) -> None:
    """Loading the extension imports no heavy library."""
    assert module not in loaded


def test_importing_the_package_brings_the_package_only(tmp_path: Path) -> None:
    """Importing the package imports no third-party library."""
    program = (
        "import sys\nbefore = set(sys.modules)\nimport jupyter_agent\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*(names - sys.stdlib_module_names))"
    )
    assert _loaded_by(program, tmp_path) == {"jupyter_agent"}
