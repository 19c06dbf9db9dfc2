"""What the agent's code cannot widen, and what a later setting takes away."""

from __future__ import annotations

from pathlib import Path

from live_kernel import LiveKernel, execute_code

BUSY = "A turn is running already."


def test_switching_code_off_in_mid_session(kernel: LiveKernel) -> None:
    """After code is switched off, the next turn's call is refused and not run."""
    kernel.agent("1 + 1")
    kernel.helper("%agent tools", "%agent config tools.enable_code false")
    kernel.script("Run it.", execute_code("ran = True"), {"text": "Well."})
    cell = kernel.run("%%agent\nRun it.")
    kernel.helper("%agent config tools.enable_code true")
    assert cell.status == "ok" and "switched code off" in cell.transcript
    assert kernel.value("'ran' in globals()") is False


def test_the_agent_does_not_change_its_own_settings(kernel: LiveKernel) -> None:
    """The agent's code runs %agent config and reloads the extension: both are refused."""
    kernel.helper("%agent config privacy.outputs shapes")
    turn = kernel.agent("%agent config privacy.outputs full", "%reload_ext jupyter_agent")
    assert all(result.is_error for result in turn.results)
    assert "shapes" in kernel.helper("%agent config privacy.outputs").said
    kernel.helper("%agent config privacy.outputs full")


def test_the_workspace_stays_where_the_notebook_is(kernel: LiveKernel, tmp_path: Path) -> None:
    """A change of the folder after loading does not move the workspace."""
    before = kernel.helper("%agent status").said
    kernel.helper("import os", "old = os.getcwd()", f"os.chdir({str(tmp_path)!r})")
    kernel.helper("%reload_ext jupyter_agent")
    kernel.helper("os.chdir(old)", "%reload_ext jupyter_agent")
    kernel.helper(f"os.chdir({str(tmp_path)!r})")
    after = kernel.helper("%agent status").said
    kernel.helper("os.chdir(old)")
    assert [line for line in after.splitlines() if line.startswith("workspace")] == [
        line for line in before.splitlines() if line.startswith("workspace")
    ]
    assert str(tmp_path) not in after


def test_an_empty_reply_is_an_end(kernel: LiveKernel) -> None:
    """After an empty reply the cell says so, and no status line stays."""
    kernel.script("Hush.", {"text": ""})
    cell = kernel.run("%%agent --fresh\nHush.")
    assert "ended the turn without an answer" in cell.transcript
    assert "waiting for the model" not in str(cell.displays)


def test_no_proposal_is_reported_at_the_step_limit(kernel: LiveKernel) -> None:
    """A cell offered in a turn that reaches its limit is neither inserted nor reported."""
    call = {"name": "propose_cell", "arguments": {"source": "1"}}
    kernel.script("Offer.", {"calls": [call]}, {"text": "So far."})
    cell = kernel.run("%%agent --fresh --max-steps 1\nOffer.")
    assert "in the cell below" not in cell.transcript
