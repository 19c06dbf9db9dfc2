"""Records of sessions, and the moments worth keeping: events in, lines and advice out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from jupyter_agent.core.events import (
    Event,
    FileChange,
    MessageFinished,
    Receipt,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult, Usage
from jupyter_agent.memory.learning import Learning
from jupyter_agent.memory.scope import MemoryRoot
from jupyter_agent.stores.session_accounts import FOLDER, accounts
from jupyter_agent.stores.session_records import SessionRecord

TURN: list[Event] = [
    TurnStarted("Count the penguins", "scripted", "m"),
    StepStarted(1, 50),
    ToolStarted(ToolCall("c1", "execute_code", "{}")),
    ToolFinished(ToolResult("c1", (), details={"saved": {"title": "A lesson"}}), 0.1),
    MessageFinished(Message("assistant", (Text("344 penguins"),)), Usage(), "end"),
    TurnFinished("end", Usage(), Receipt(files=(FileChange("a.csv", "created"),))),
]


def test_doing_and_done(tmp_path: Path) -> None:
    """Others see a running turn's activity, and afterwards what was done."""
    root = MemoryRoot(tmp_path)
    record = SessionRecord(root, "a.ipynb", "explore")
    assert not (tmp_path / FOLDER).exists()
    for event in TURN[:3]:
        record(event)
    (account,) = accounts(root)
    assert account.doing == "working on: Count the penguins (step 1, execute_code)"
    for event in TURN[3:]:
        record(event)
    (account,) = accounts(root)
    assert account.doing == "idle"
    summary = (
        "1 turn: 1 answered.\n- Count the penguins -> 344 penguins\nFiles: created a.csv.\n"
        "Saved to memory: A lesson."
    )
    assert account.summary == summary
    record.finish()
    record.finish()
    assert record.path is not None and record.path.name.endswith("-a-explore.jsonl")
    lines = [json.loads(line) for line in record.path.read_text().splitlines()]
    assert [line["type"] for line in lines] == [
        "session_started",
        "turn_started",
        "step",
        "turn_finished",
        "session_finished",
    ]
    assert lines[-1]["summary"] == summary and accounts(root)[0].state == "finished"
    assert (tmp_path / FOLDER / ".gitignore").read_text() == "*\n"


def test_a_kernel_that_died(tmp_path: Path) -> None:
    """The session of a dead process counts as ended, and a torn line is skipped."""
    code = (
        "import sys, pathlib\n"
        "from jupyter_agent.core.events import TurnStarted\n"
        "from jupyter_agent.memory.scope import MemoryRoot\n"
        "from jupyter_agent.stores.session_records import SessionRecord\n"
        "record = SessionRecord(MemoryRoot(pathlib.Path(sys.argv[1])), '../x y.ipynb', 'a/b')\n"
        "record(TurnStarted('sk-ant-api03-abcdefghijklmnop1234', 'p', 'm'))\n"
        "with record.path.open('a') as file: file.write('{\"type\": \"st')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    (account,) = accounts(MemoryRoot(tmp_path))
    assert account.doing == "gone" and account.path.parent == tmp_path / FOLDER
    assert account.turns[0].task == "[redacted]" and account.turns[0].stop_reason == "running"


def test_a_record_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in place of the folder gives a notice, and the turn goes on."""
    (tmp_path / FOLDER).write_text("")
    record = SessionRecord(MemoryRoot(tmp_path))
    for event in TURN:
        record(event)
    assert "cannot be written" in record.problem


def result(number: int, failed: bool, **saved: str) -> list[Event]:
    details = {"saved": dict(saved)} if saved else {}
    call = ToolCall(f"c{number}", "workspace_save_memory" if saved else "execute_code", "{}")
    return [ToolStarted(call), ToolFinished(ToolResult(call.id, (), failed, (), details), 0.1)]


def feed(learning: Learning, *events: Event) -> str:
    for event in events:
        learning(event)
    return learning.advice()


def test_a_hard_won_fix() -> None:
    """After two failures and a success the model is advised to save a lesson, once a turn."""
    learning = Learning()
    assert feed(learning, TURN[0], *result(1, True), *result(2, False)) == ""
    assert feed(learning, *result(3, True), *result(4, True)) == ""
    assert "after 2 failed attempts" in feed(learning, *result(5, False))
    again = [*result(6, True), *result(7, True), *result(8, False)]
    assert feed(learning, *again) == ""
    assert "after 2" in feed(learning, TURN[0], *again)


def test_what_a_turn_saved() -> None:
    """Saved entries are kept for the view; a turn that saved gets no advice."""
    learning = Learning()
    failed = [*result(1, True), *result(2, True)]
    assert feed(learning, TURN[0], *result(0, False, title="T"), *failed, *result(3, False)) == ""
    assert learning.saved == [{"title": "T"}]
