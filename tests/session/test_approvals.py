"""Which calls of a session run, are asked about, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.core.events import ToolFinished
from jupyter_agent.core.messages import Text, ToolCall, ToolResult, ToolSpec
from jupyter_agent.core.ports import Nobody
from jupyter_agent.core.tool import Effect, Prepared, Tool
from jupyter_agent.mcp.schemas import any_arguments
from jupyter_agent.session.agent_setup import AgentSetup
from jupyter_agent.session.approvals import Approvals
from jupyter_agent.session.kernel import Kernel
from jupyter_agent.tools.toolbox import Toolbox


def prepared(here: Kernel, name: str, arguments: str) -> Prepared:
    toolbox = Toolbox(AgentSetup(here, "default").preview().tools)
    found = toolbox.prepare(ToolCall("c1", name, arguments))
    assert isinstance(found, Prepared)
    return found


def test_always_holds_for_its_kind(here: Kernel) -> None:
    """After "always" the same kind runs, another one still asks."""
    approvals = Approvals(here)
    rule = approvals.rule(here.settings().settings, None)
    shell = prepared(here, "execute_code", '{"code": "!ls"}')
    asked = rule(shell)
    assert asked.decision == "ask"
    approvals.grant(asked)
    assert rule(shell).decision == "allow"
    assert approvals.granted
    Path("a").touch()
    delete = prepared(here, "execute_code", '{"code": "import os\\nos.remove(\'a\')"}')
    assert rule(delete).decision == "ask"


def test_a_tool_that_was_switched_off(here: Kernel) -> None:
    """A session's tools stay in the schemas; a call of one that is off is refused, and why."""
    call = prepared(here, "execute_code", '{"code": "1"}')
    here.set("tools.enable_code", "false")
    ruling = Approvals(here).rule(here.settings().settings, None)(call)
    assert ruling.decision == "refuse"
    assert "tools.enable_code" in ruling.refusal


def test_a_file_that_was_read_may_be_written(here: Kernel) -> None:
    """Writing over a file asks, unless the agent has read it."""
    Path("mine.txt").write_text("mine\n", encoding="utf-8")
    approvals = Approvals(here)
    rule = approvals.rule(here.settings().settings, None)
    write = prepared(here, "write_file", '{"path": "mine.txt", "content": "x"}')
    assert rule(write).decision == "ask"
    approvals(ToolFinished(ToolResult("c0", (Text("mine"),), details={"path": "mine.txt"}), 0.0))
    assert rule(write).decision == "allow"


@pytest.mark.parametrize("mode", ["ask_risky", "ask_all", "auto"])
def test_a_turn_that_only_plans(here: Kernel, mode: str) -> None:
    """Whatever the mode, and whatever was allowed for the session, calls that change something
    are refused in a turn that only plans; calls that read or compute run.
    """
    here.set("approvals.mode", mode)
    settings = here.settings().settings
    approvals = Approvals(here)
    rule = approvals.rule(settings, None)
    approvals.begin(settings, Nobody())
    shell = prepared(here, "execute_code", '{"code": "!ls > a"}')
    approvals.grant(rule(shell))
    approvals.begin(settings, Nobody(), "plan")
    refused = (
        shell,
        prepared(here, "execute_code", '{"code": "frame.to_parquet(\'new.parquet\')"}'),
        prepared(here, "write_file", '{"path": "new.txt", "content": "x"}'),
        prepared(here, "propose_cell", '{"source": "1"}'),
        prepared(here, "record_note", '{"content": "c"}'),
        served("github__close_issue", "executes"),
    )
    assert {rule(each).decision for each in refused} == {"refuse"}
    runs = (
        prepared(here, "execute_code", '{"code": "x = 1"}'),
        prepared(here, "read_file", '{"path": "a"}'),
        served("github__list_issues", "reads"),
    )
    assert not any(rule(each).decision == "refuse" for each in runs)
    approvals.begin(settings, Nobody())
    assert not any(rule(each).decision == "refuse" for each in refused)


def served(name: str, effect: Effect) -> Prepared:
    """A call of an MCP server's tool."""
    schema = {"type": "object"}
    tool = Tool(ToolSpec(name, "", schema), lambda: "", any_arguments(schema), effect)
    found = Toolbox([tool]).prepare(ToolCall("c1", name, "{}"))
    assert isinstance(found, Prepared)
    return found
