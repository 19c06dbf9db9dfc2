"""Long conversations in a real kernel: shortened in time, seen, asked for, switched off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import LiveKernel
from model_server import Call, ModelServer, Reply

SESSION = "get_ipython().agent_sessions['default']"
PRINT = "print('\\n'.join(f'row {i} of part {part} has the value {i * 7}' for i in range(700)))"


def code(source: str) -> Call:
    return Call("execute_code", json.dumps({"code": source}))


def use(kernel: LiveKernel, server: ModelServer, limit: int = 8_000) -> None:
    kernel.helper(
        "%agent config provider openai",
        f"%agent config api_base {server.openai_url}",
        "%agent config api_key k",
        "%agent config model m",
        f"%agent config token_limit {limit}",
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        yield kernel


PLAN = Call("update_plan", json.dumps({"items": [{"text": "Read all parts"}]}))
PARTS = [Reply(calls=(code(f"part = {n}\n{PRINT}"),)) for n in range(8)]


def test_a_long_turn_is_shortened_in_time(desk: LiveKernel, tmp_path: Path) -> None:
    """Large results fill the conversation: old ones move to files, and the turn goes on."""
    with ModelServer([Reply(calls=(PLAN,)), *PARTS, Reply(text="All read.")]) as server:
        use(desk, server)
        cell = desk.run("%%agent\nRead all eight parts of the table.")
        bodies = [json.dumps(body) for body in server.bodies]
    assert cell.displays[-1]["text/plain"] == "All read."
    assert "The conversation was too long and was shortened" in cell.transcript
    assert "moved out" in cell.transcript
    assert max(map(len, bodies)) < 120_000 and "Read all eight parts" in bodies[-1]
    assert "Read all parts" in bodies[-1].replace("Read all eight parts", "")  # the plan
    kept = list((tmp_path / ".jupyter_agent" / "outputs").glob("kernel-default-*.txt"))
    assert kept and all("row 699 of part" in path.read_text() for path in kept)
    assert "row 699 of part 0" in cell.transcript  # the person still has everything


def test_rounds_are_summarized_by_the_model(desk: LiveKernel) -> None:
    """Turns pile up: the model is asked for a summary; the person's words stay, costs are told."""
    words = "The measured total is 4711. " * 120
    turns = [Reply(text=f"Answer {n}. {words}") for n in range(9)]
    summary = Reply(text="Goal: totals. Found: the measured total is 4711.", input_tokens=50)
    with ModelServer([*turns, *[summary] * 4, Reply(text="4711.")]) as server:
        use(desk, server, 200_000)
        for number in range(9):
            desk.run(f"%%agent\nTask {number}: the total, please.")
        desk.helper("%agent config token_limit 4500")
        cell = desk.run("%%agent\nWhat was the total?")
        last = json.dumps(server.bodies[-1])
    assert cell.displays[-1]["text/plain"] == "4711."
    assert "[Assistant Execution Summary]" in last and last.count("The measured total is") < 520
    assert all(f"Task {number}: the total, please." in last for number in range(9))
    assert "summarized by the model" in cell.transcript


def test_on_demand(desk: LiveKernel) -> None:
    """`%agent compact` shortens now and says by how much; `%agent usage` names what it cost."""
    assert "has no conversation yet" in desk.run("%agent compact").error
    summary = Reply(text="Goal: parts. Found: 700 rows in part 0.", input_tokens=70)
    with ModelServer([*PARTS[:3], Reply(text="Read."), summary, Reply(text="Yes.")]) as server:
        use(desk, server, 200_000)
        desk.run("%%agent\nRead three parts.")
        told = desk.run("%agent compact")
        assert told.status == "ok" and "tokens, now" in told.stdout, told.error
        assert "compaction" in desk.run("%agent usage").said
        assert "1 turn," in desk.run("%agent usage").said
        cell = desk.run("%%agent\nWere there 700 rows?")
        assert cell.displays[-1]["text/plain"] == "Yes."
        assert "700 rows in part 0" in json.dumps(server.bodies[-1])


def test_switched_off(desk: LiveKernel) -> None:
    """`compaction.enabled: false`: everything goes out as it was."""
    with ModelServer([*PARTS, Reply(text="All read.")]) as server:
        use(desk, server)
        desk.helper("%agent config compaction.enabled false")
        cell = desk.run("%%agent\nRead all parts.")
        assert "shortened" not in cell.transcript
        assert all(f"row 699 of part {n}" in json.dumps(server.bodies[-1]) for n in range(8))
