"""Run logs read back: every run found, each event as it was, whatever happened to the file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_agent.core.events import (
    Advised,
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    Event,
    MessageFinished,
    Noticed,
    Requested,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Output, Text, Thinking, ToolCall, ToolResult, Usage
from jupyter_agent.core.transcript import TurnView, reduce
from jupyter_agent.errors import AgentError
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.stores.runs import RunSummary, log_files, read_run, runs, summary_of
from jupyter_agent.widgets.saved import plain_transcript, saved_outputs

SAID = "\n".join(f"row {n}: the value is {n * n}" for n in range(40))
CODE = "\n".join(f"print('row {n}: the value is', {n} * {n})" for n in range(40))
CALL = ToolCall("c1", "execute_code", json.dumps({"code": CODE}))
DIFF = Output("diff", {"text/plain": "\n".join(f"+{line}" for line in CODE.split("\n"))})
TURN: list[Event] = [
    TurnStarted("Look at it.\nWell.", "anthropic", "claude-9"),
    Noticed("A server failed.", lasting=False),
    StepStarted(1, 5),
    Requested("claude-9", 1, 12, 40),
    TextDelta("I l"),
    Retrying("Busy.", 1, 0.5),
    Requested("claude-9", 1, 12, 40, attempt=2),
    MessageFinished(
        Message("assistant", (Thinking("Hm."), Text("I look."), CALL)), Usage(30, 10), "tool_use"
    ),
    ToolStarted(CALL),
    ApprovalAsked("c1", "Run it?", ("it prints",), "printing", (DIFF,)),
    ApprovalAnswered("c1", "always", "person"),
    ToolFinished(
        ToolResult(
            "c1",
            (Text(SAID),),
            display=(Output("stdout", {"text/plain": SAID + "\n"}), DIFF),
            details={"state": "done", "plan": [{"text": "Look", "state": "done"}]},
        ),
        0.25,
    ),
    Steered("Shorter, please."),
    Advised("You go in circles."),
    Compacted(900, 100),
    StepStarted(2, 5),
    Requested("claude-9", 3, 12, 90),
    MessageFinished(Message("assistant", (Text("It is **squares**."),)), Usage(50, 5), "end"),
    TurnFinished("end", Usage(80, 15)),
]


def logged(folder: Path, events: Sequence[Event] = TURN) -> Path:
    """A log of some events."""
    log = RunLog(folder)
    for event in events:
        log(event)
        if isinstance(event, TurnStarted):
            log.prompt("Be brief.", (), ["x = 1"])
    log.close()
    assert log.path is not None and not log.problem
    return log.path


def view_of(events: Sequence[Event]) -> TurnView:
    view = TurnView()
    for event in events:
        view = reduce(view, event)
    return view


def test_every_event_comes_back(tmp_path: Path) -> None:
    """Events are equal after writing and reading, also those with references."""
    path = logged(tmp_path)
    run = read_run(path)
    assert [logged.event for logged in run.events] == TURN
    assert (run.passed_over, run.lost, run.is_torn, run.has_ended) == (0, 0, False, True)
    numbers = [logged.number for logged in run.events]
    assert numbers == sorted(numbers) and numbers[:3] == [1, 3, 4]  # the prompt is the second
    assert run.prompt["system"] == "Be brief."


def test_the_transcript_is_the_same(tmp_path: Path) -> None:
    """The log's transcript equals the turn's, in every form."""
    view = read_run(logged(tmp_path)).view
    assert plain_transcript(view) == plain_transcript(view_of(TURN))
    assert saved_outputs(view) == saved_outputs(view_of(TURN))


def test_a_summary(tmp_path: Path) -> None:
    """One row summarizes a run, the newest first."""
    first = logged(tmp_path)
    second = logged(tmp_path, [TurnStarted("Another.", "openai", "gpt"), *TURN[1:-1]])
    newest, oldest = runs(tmp_path)
    assert oldest.started is not None and newest.started is not None
    assert oldest == RunSummary(
        first,
        oldest.started,
        "Look at it.",
        "anthropic",
        "claude-9",
        steps=2,
        usage=Usage(80, 15),
        stop="end",
        seconds=oldest.seconds,
    )
    assert 0 <= (oldest.seconds or 0) < 5
    assert newest.started - oldest.started < timedelta(seconds=5)
    assert (newest.path, newest.task, newest.stop, newest.usage, newest.steps) == (
        second, "Another.", None, None, 2,
    )  # fmt: skip
    assert runs(tmp_path, 1) == [newest]


def test_a_summary_reads_little(tmp_path: Path) -> None:
    """A summary does not read the middle of a long log."""
    path = logged(tmp_path, TURN)
    before = summary_of(path)
    lines = path.read_bytes().split(b"\n")
    at = len(lines) // 2
    with path.open("wb") as stream:
        stream.write(b"\n".join(lines[:at]) + b"\n")
        stream.truncate(stream.tell() + 3_000_000_000)  # takes no room on the disk
        stream.seek(0, 2)
        stream.write(b"\n" + b"\n".join(lines[at:]))
    assert summary_of(path) == before


@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
def test_a_summary_with_long_lines(tmp_path: Path, size: int) -> None:
    """A long task and a long last result hide neither the beginning nor the last step."""
    long = ToolFinished(ToolResult("c1", (Text("y" * size),)), 1.0)
    start = replace(TURN[0], task="Look.\n" + "x" * size)
    path = logged(tmp_path, [start, StepStarted(1, 5), StepStarted(2, 5), long])
    summary = summary_of(path)
    assert (summary.task, summary.steps, summary.stop) == ("Look.", 2, None)


def test_what_is_no_log(tmp_path: Path) -> None:
    """Other files, folders and links are no runs; without a folder there are none."""
    path = logged(tmp_path)
    (tmp_path / "mcp-a.log").write_text("x")
    (tmp_path / "agent_run_20260101_000000.jsonl.bak").write_text("{}")
    (tmp_path / "agent_run_20260101_000000.jsonl").mkdir()
    (tmp_path / "agent_run_20260102_000000.jsonl").symlink_to(path)
    assert log_files(tmp_path) == [path]
    assert log_files(tmp_path / "nowhere") == [] == runs(tmp_path / "nowhere")
    with pytest.raises(AgentError, match=r"The log gone\.jsonl cannot be read: No such file"):
        read_run(tmp_path / "gone.jsonl")


def test_the_order_of_runs(tmp_path: Path) -> None:
    """By the time in the name, then by the number within a second, as a number."""
    stems = ("20260101_000000", "20260101_000000_2", "20260101_000000_10", "20251231_235959")
    for stem in stems:
        (tmp_path / f"agent_run_{stem}.jsonl").write_text("")
    assert [path.stem.removeprefix("agent_run_") for path in log_files(tmp_path)] == [
        stems[2], stems[1], stems[0], stems[3],
    ]  # fmt: skip
    assert [run.task for run in runs(tmp_path)] == [""] * 4


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"   ",
        b"not json",
        b"[1]",
        b"{}",
        b'{"type": 3}',
        b'{"type": "turn_paused", "seq": 1}',
        b'{"type": "turn_finished", "stop_reason": "bored"}',
        b'{"type": "tool_started", "call_id": "unheard"}',
        b"\xff\xfe\x00",
        b'{"type": ' + b"[" * 5_000,
        b'{"type": "x", "n": ' + b"9" * 5_000 + b"}",
    ],
)
def test_foreign_lines(tmp_path: Path, foreign: bytes) -> None:
    """Lines of another version or origin are skipped and counted; the rest is read."""
    path = logged(tmp_path)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:5], foreign, *lines[5:]]))
    run = read_run(path)
    assert [logged.event for logged in run.events] == TURN
    assert run.passed_over == bool(foreign.strip())
    assert not run.is_torn


@settings(deadline=None, max_examples=examples(150))
@given(cut=st.floats(0, 1))
def test_a_kernel_that_was_killed(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    """A log that ends at any byte gives the events before it, and a transcript of them."""
    folder = tmp_path_factory.mktemp("logs")
    data = logged(folder, TURN).read_bytes()
    path = folder / "agent_run_20260101_000000.jsonl"
    path.write_bytes(data[: int(cut * len(data))])
    run = read_run(path)
    found = [logged.event for logged in run.events]
    assert found == TURN[: len(found)]
    assert run.passed_over == run.lost == 0
    whole, _, rest = path.read_bytes().rpartition(b"\n")
    assert run.is_torn == (rest not in data.split(b"\n"))
    assert len(found) >= min(whole.count(b"\n"), len(TURN) - 1)
    assert plain_transcript(run.view) == plain_transcript(view_of(found))
    summary = summary_of(path)
    assert (summary.stop is None) == (not run.has_ended)
    assert (summary.steps or 0) == len(run.view.steps)


KILLED = """
import os, signal, sys
from pathlib import Path
from jupyter_agent.stores.runlog import RunLog
sys.path.insert(0, {tests!r})
from test_runs import TURN
log = RunLog(Path({folder!r}))
for event in TURN[:9]:
    log(event)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    """All lines before the kill are there, including the running call."""
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    environ = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, check=False)
    assert done.returncode == -signal.SIGKILL
    (path,) = log_files(tmp_path)
    run = read_run(path)
    assert [logged.event for logged in run.events] == TURN[:9]
    assert not run.has_ended and not run.is_torn
    assert run.view.calls[0].state == "running"


def test_a_line_that_was_lost(tmp_path: Path) -> None:
    """A reference to a lost line is reported as missing; the rest is there."""
    path = logged(tmp_path)
    lines = path.read_bytes().split(b"\n")
    at = next(n for n, line in enumerate(lines) if b'"message_finished"' in line)
    lines[at] = b"damaged"  # the reply with the call
    path.write_bytes(b"\n".join(lines))
    run = read_run(path)
    assert run.passed_over == 2  # the reply, and the start of a call that nobody asked for
    assert run.lost > 0
    assert "a text that is missing" in str(run.events)
    assert run.view.answer == "It is **squares**."


def test_a_forged_event(tmp_path: Path) -> None:
    """A malformed event does not stop the transcript."""
    path = logged(tmp_path, TURN[:-1])
    result = {"call_id": "c1", "content": [], "details": {"plan": [{"no": 1}]}}
    line = json.dumps({"type": "tool_finished", "seconds": 1, "result": result})
    path.write_text(path.read_text() + line + "\n")
    assert read_run(path).view.answer == "It is **squares**."


OLD: list[dict[str, Any]] = [
    {"type": "turn_started", "task": "Old.", "provider": "openai", "model": "m", "source": "live"},
    {"type": "prompt", "system": "s", "context": "c"},
    {"type": "step_started", "number": 1, "limit": 5},
    {
        "type": "message_finished",
        "message": {
            "role": "assistant",
            "blocks": [
                {"id": "a", "name": "look", "arguments": "{}", "metadata": {}, "type": "tool_call"}
            ],
        },
        "usage": {
            "input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 0, "cache_write_tokens": 0,
        },
        "stop_reason": "tool_use",
    },
    {"type": "tool_started", "call_id": "a"},
    {
        "type": "turn_finished",
        "stop_reason": "interrupted",
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "receipt": {"variables": [], "files": [], "proposals": 0, "saved": []},
        "error": "",
    },
]  # fmt: skip


def test_a_log_of_an_earlier_version(tmp_path: Path) -> None:
    """Logs that say everything at length, and have no count of steps, are read as well."""
    path = tmp_path / "agent_run_20250101_000000.jsonl"
    stamp = "2025-01-01T00:00:0{}+00:00"
    rows = [{"seq": n, "time": stamp.format(n), **line} for n, line in enumerate(OLD, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_run(path)
    assert (len(run.events), run.passed_over) == (5, 0)
    assert run.view.calls[0].state == "running"
    summary = summary_of(path)
    assert (summary.steps, summary.stop, summary.seconds) == (1, "interrupted", 5.0)
    assert summary.usage == Usage(1, 2)
