"""Long conversations in a real kernel: shortened in time, seen, asked for, switched off."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_kernel import Cell, LiveKernel
from model_server import Call, ModelServer, Reply, failed

from jupyter_agent.recording.cassette import load

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
        assert re.search(r"turn 1 .*\d\.\d s", desk.run("%agent usage").said)
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


WORDS = "The measured total is 4711. " * 120
SUMMARIES: dict[str, list[Reply]] = {
    "written": [Reply(text="Goal: totals. Found: the measured total is 4711.", input_tokens=50)]
    * 4,
    "refused": [failed(400, "no summaries here")] * 4,
    "tried again": [
        failed(503, retry_after="0"),
        *[Reply(text="Goal: totals. Found: the measured total is 4711.")] * 4,
    ],
}


def _ask(desk: LiveKernel) -> list[Cell]:
    """Six turns, the last of which finds the conversation too long."""
    cells = [desk.run(f"%%agent\nTask {number}: the total, please.") for number in range(5)]
    desk.helper("%agent config token_limit 3000")
    return [*cells, desk.run("%%agent\nWhat was the total?")]


@pytest.mark.parametrize("kind", SUMMARIES)
def test_a_summary_is_recorded(desk: LiveKernel, tmp_path: Path, kind: str) -> None:
    """A recorded turn asks for a summary like a live one, and its replay shows the same."""
    turns = [Reply(text=f"Answer {n}. {WORDS}") for n in range(5)]
    asked: list[str] = []

    def model(body: dict[str, object]) -> Reply:
        asked.append(json.dumps(body))
        if "tools" not in body:
            return summaries.pop(0)
        return turns.pop(0) if turns else Reply(text="It was 4711.")

    summaries = list(SUMMARIES[kind])
    desk.helper("%agent cassette long.cassette.jsonl", "%agent config mode record")
    with ModelServer(model) as server:
        use(desk, server, 200_000)
        recorded = _ask(desk)
    assert all(cell.status == "ok" for cell in recorded), recorded[-1].error
    told = "The summary call failed" if kind == "refused" else "summarized by the model"
    assert told in recorded[-1].transcript
    last = load(tmp_path / "long.cassette.jsonl").turns[-1]
    assert last.steps[0].shortened and last.steps[0].summaries
    assert all((each.reply is None) == (kind == "refused") for each in last.steps[0].summaries)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "long.cassette.jsonl", elsewhere)
    with LiveKernel(elsewhere) as kernel:
        kernel.load("cassette long.cassette.jsonl", "config mode replay")
        replayed = _ask(kernel)
        history = f"[str(m) for m in {SESSION}.history]"
        assert kernel.value(history) == desk.value(history)
    for then, now in zip(recorded, replayed, strict=True):
        assert now.status == "ok", now.error
        assert _lasting(now) == _lasting(then)


def test_a_command_that_shortens_a_recorded_conversation(desk: LiveKernel, tmp_path: Path) -> None:
    """`%agent compact` between two recorded turns says the same in the replay."""
    desk.helper("%agent cassette long.cassette.jsonl", "%agent config mode record")
    turns = [Reply(text=f"Answer {n}. {WORDS}") for n in range(3)]
    cells = [*(f"%%agent\nTask {n}." for n in range(3)), "%agent compact", "%%agent\nWhat was it?"]
    with ModelServer([*turns, Reply(text="4711.")]) as server:
        use(desk, server, 200_000)
        recorded = [desk.run(cell) for cell in cells]
    assert "summarized without a model" in recorded[3].said
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tmp_path / "long.cassette.jsonl", elsewhere)
    with LiveKernel(elsewhere) as kernel:
        kernel.load("cassette long.cassette.jsonl", "config mode replay")
        for cell, then in zip(cells, recorded, strict=True):
            now = kernel.run(cell)
            assert (now.status, _lasting(now)) == ("ok", _lasting(then)), now.error


def _lasting(cell: Cell) -> str:
    """What a cell shows, without what is known to differ from run to run."""
    outputs = json.loads(json.dumps(cell.outputs))
    for output in outputs:
        output.pop("transient", None)
        output.get("metadata", {}).get("jupyter_agent", {}).pop("volatile", None)
    return json.dumps(outputs)
