"""Settings as IPython's configuration has them: `%config AgentMagics` and `ipython_config.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel, execute_code

from jupyter_agent import config
from jupyter_agent.magics.register import SETTINGS, AgentMagics


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as live:
        live.load()
        yield live


def test_the_traits() -> None:
    """Each setting that may be shown is a trait with its description."""
    shown = [key for key in config.keys() if not config.is_secret(key)]  # noqa: SIM118
    assert tuple(key.replace(".", "__") for key in shown) == SETTINGS
    assert "api_key" not in SETTINGS
    traits = AgentMagics.class_traits(config=True)
    assert set(traits) == set(SETTINGS)
    for key in shown:
        told = AgentMagics.class_get_trait_help(traits[key.replace(".", "__")])
        assert " ".join(config.describe(key).description.split()) in " ".join(told.split())


def test_percent_config(kernel: LiveKernel) -> None:
    """`%config` sets, reads and lists settings, and is a source that overrides others."""
    kernel.helper("%config AgentMagics.max_steps = 7")
    assert kernel.run("%config AgentMagics.max_steps").result == "7"
    kernel.helper("%config AgentMagics.retry__max_retries = 5")
    told = kernel.run("%agent config max_steps").said.split()
    assert told == ["max_steps", "7", "%config", "AgentMagics"]
    assert kernel.run("%agent config retry.max_retries").said.split()[1] == "5"
    assert "AgentMagics" in kernel.run("%config").stdout
    assert "Model calls in one turn" in kernel.run("%config AgentMagics").stdout
    kernel.helper("%agent config max_steps 9")
    assert kernel.run("%agent config max_steps").said.split()[1] == "9"


def test_a_wrong_value_changes_nothing(kernel: LiveKernel) -> None:
    """One line says what is allowed; the value stays."""
    kernel.helper("%config AgentMagics.mode = 'live'")
    cell = kernel.run("%config AgentMagics.mode = 'liv'")
    assert (
        "mode must be auto, live, record, replay or cached, not 'liv'" in cell.stderr + cell.error
    )
    assert kernel.run("%config AgentMagics.mode").result == "'live'"


def test_the_configuration_file(tmp_path: Path) -> None:
    """`c.AgentMagics.max_steps = 3` in `ipython_config.py` holds from the first turn on."""
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    lines = "c.InteractiveShellApp.extensions = ['jupyter_agent']\nc.AgentMagics.max_steps = 3\n"
    (profile / "ipython_config.py").write_text(lines, encoding="utf-8")
    with LiveKernel(tmp_path) as live:
        told = live.run("%agent config max_steps").said.split()
        assert told == ["max_steps", "3", "%config", "AgentMagics"]


def test_the_agent_may_not(kernel: LiveKernel) -> None:
    """The agent's code cannot loosen the approvals with `%config`."""
    kernel.helper("%config AgentMagics.approvals__mode = 'auto'")
    kernel.script(
        "Loosen.",
        execute_code("%config AgentMagics.approvals__mode = 'read_only'"),
        {"text": "Tried."},
    )
    kernel.run("%%agent\nLoosen.")
    assert kernel.run("%config AgentMagics.approvals__mode").result == "'auto'"


def test_unloaded(kernel: LiveKernel) -> None:
    """After `%unload_ext` the class is gone from `%config`."""
    kernel.helper("%unload_ext jupyter_agent")
    assert "AgentMagics" not in kernel.run("%config").stdout
