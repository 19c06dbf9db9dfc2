"""Offered cells: their text, and when they are inserted below."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

import pytest
from live_kernel import Cell, Json, LiveKernel
from model_server import Call, ModelServer, Reply, failed

from jupyter_agent.core.messages import ToolCall, ToolResult
from jupyter_agent.tools.propose import Proposal, as_one_cell, propose_tools
from jupyter_agent.tools.toolbox import Toolbox

# The text of the cell ----------------------------------------------------------------------------


def test_one_code_cell() -> None:
    """One offered code cell is inserted as it is, with or without a cell magic."""
    assert as_one_cell([Proposal("x = 1\nx")]) == "x = 1\nx"
    assert as_one_cell([Proposal("%%bash\nls")]) == "%%bash\nls"


def test_one_markdown_cell() -> None:
    """One offered Markdown cell is inserted as %%markdown."""
    assert as_one_cell([Proposal("# Title\n\ntext", "markdown")]) == "%%markdown\n# Title\n\ntext"


def test_several_markdown_cells() -> None:
    """Several Markdown cells become one %%markdown cell with rules between them."""
    cells = [Proposal("# One", "markdown"), Proposal("# Two", "markdown")]
    assert as_one_cell(cells) == "%%markdown\n# One\n\n---\n\n# Two"


def test_several_cells() -> None:
    """Code, words and a cell magic become one Python cell with a heading for each."""
    cells = [
        Proposal("x = 1"),
        Proposal("# Title\n\nwords", "markdown"),
        Proposal("  %%bash\nrm -rf /tmp/x"),
        Proposal("y = 2"),
    ]
    text = as_one_cell(cells)
    assert text == (
        "# --- Proposal 1 of 4 ---\nx = 1\n\n"
        "# --- Proposal 2 of 4 ---\n# # Title\n#\n# words\n\n"
        "# --- Proposal 3 of 4 ---\n#   %%bash\n# rm -rf /tmp/x\n\n"
        "# --- Proposal 4 of 4 ---\ny = 2"
    )
    assert [type(node).__name__ for node in ast.parse(text).body] == ["Assign", "Assign"]


# The tool ----------------------------------------------------------------------------------------


async def propose(proposals: list[Proposal], **arguments: object) -> ToolResult:
    call = ToolCall("c1", "propose_cell", json.dumps(arguments))
    return await Toolbox(propose_tools(proposals)).run(call)


async def test_a_proposal_is_noted() -> None:
    """Two offered cells are noted and numbered."""
    proposals: list[Proposal] = []
    assert "proposal 1" in (await propose(proposals, source="\nx = 1\n")).text
    assert "proposal 2" in (await propose(proposals, source="# T", kind="markdown")).text
    assert proposals == [Proposal("x = 1"), Proposal("# T", "markdown")]


@pytest.mark.parametrize(
    "arguments", [{"source": ""}, {"source": " \n"}, {}, {"source": "x", "kind": "raw"}]
)
async def test_what_is_no_proposal(arguments: Json) -> None:
    """An empty offer, or one of another kind, is an error, and nothing is noted."""
    proposals: list[Proposal] = []
    assert (await propose(proposals, **arguments)).is_error
    assert proposals == []


# In a turn ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("propose")) as kernel:
        kernel.load("config retry.enabled false")
        yield kernel


@pytest.fixture
def kernel(module_kernel: LiveKernel) -> LiveKernel:
    return module_kernel


def offering(*sources: str, kind: str = "code", **more: object) -> Json:
    """A reply that offers cells."""
    calls = [
        {"name": "propose_cell", "arguments": {"source": source, "kind": kind}}
        for source in sources
    ]
    return {"calls": calls, **more}


def inserted(cell: Cell) -> list[str]:
    """The texts of the cells that the front end is told to insert below."""
    payloads = cell.reply.get("payload", [])
    assert all(not p["replace"] for p in payloads if p["source"] == "set_next_input")
    return [p["text"] for p in payloads if p["source"] == "set_next_input"]


def turn(kernel: LiveKernel, *replies: Json, options: str = "--fresh") -> Cell:
    kernel.script("Offer.", *replies)
    return kernel.run(f"%%agent {options}\nOffer.")


def test_a_cell_is_inserted(kernel: LiveKernel) -> None:
    """After the answer the offered cell is inserted below, and not run."""
    cell = turn(kernel, offering("offered = 1"), {"text": "Done."})
    assert inserted(cell) == ["offered = 1"]
    assert kernel.value("('offered' in globals(), _agent.receipt.proposals)") == (False, 1)


def test_several_become_one(kernel: LiveKernel) -> None:
    """Cells offered in several steps become one cell, in order."""
    cell = turn(kernel, offering("a = 1", "b = 2"), offering("T", kind="markdown"), {"text": "."})
    proposals = [Proposal("a = 1"), Proposal("b = 2"), Proposal("T", "markdown")]
    assert inserted(cell) == [as_one_cell(proposals)]


def test_not_twice(kernel: LiveKernel) -> None:
    """A turn without an offer inserts nothing again."""
    assert inserted(turn(kernel, offering("a = 1"), {"text": "."})) == ["a = 1"]
    assert inserted(turn(kernel, {"text": "."}, options="")) == []
    assert inserted(kernel.run("1")) == []


def test_not_after_an_error(kernel: LiveKernel) -> None:
    """After an error nothing is inserted, then or in the next turn."""
    cell = turn(kernel, offering("a = 1"))
    assert cell.status == "error" and inserted(cell) == []
    assert inserted(turn(kernel, {"text": "."}, options="")) == []


def test_not_after_a_refusal(kernel: LiveKernel) -> None:
    """After a refusal of the model nothing is inserted."""
    refusal = {"text": "No.", "stop_reason": "refused"}
    assert inserted(turn(kernel, offering("a = 1"), refusal)) == []


def test_not_at_the_step_limit(kernel: LiveKernel) -> None:
    """At the step limit nothing is inserted."""
    cell = turn(kernel, offering("a = 1"), {"text": "So far."}, options="--fresh --max-steps 1")
    assert cell.status == "ok" and inserted(cell) == []
    assert kernel.value("_agent.stop_reason") == "step_limit"


def test_not_after_an_interrupt(kernel: LiveKernel) -> None:
    """After an interrupt nothing is inserted, then or in the next turn."""
    code = "open('started', 'w').close()\nimport time\ntime.sleep(30)"
    sleeping = {"calls": [{"name": "execute_code", "arguments": {"code": code}}]}
    kernel.script("Offer.", offering("a = 1"), sleeping, {"text": "."})
    running = kernel.start("%%agent --fresh\nOffer.")
    kernel.await_file("started")
    kernel.interrupt()
    assert inserted(running.finish()) == []
    assert inserted(turn(kernel, {"text": "."}, options="")) == []


@pytest.mark.parametrize("fails", [True, False])
def test_over_http(kernel: LiveKernel, fails: bool) -> None:
    """An offer over HTTP is inserted only after an answer, not after a failure."""
    call = Call("propose_cell", json.dumps({"source": "a = 1"}))
    second = failed(500, {"error": {"message": "down"}}) if fails else Reply(text="Done.")
    with ModelServer([Reply(calls=(call,)), second]) as server:
        base = f"%agent config api_base {server.openai_url}"
        kernel.helper("%agent config api_key k", "%agent config model m", base)
        cell = kernel.run("%%agent --fresh --provider openai\nOffer.")
        assert (cell.status, inserted(cell)) == (("error", []) if fails else ("ok", ["a = 1"]))
