"""The run log: a file a turn, each byte of content once, no secrets, never in the way."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.codec import event_from_json
from jupyter_agent.events import (
    Event,
    MessageFinished,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.runlog import RunLog

KEY = "sk-" + "ant-" + "Abc1" * 8
CALL = ToolCall("c1", "write_file", json.dumps({"path": "a.md", "content": "marked-arguments"}))
SHOWN = Output("stdout", {"text/plain": "marked-output"})
RESULT = ToolResult("c1", (Text("marked-content"),), False, (SHOWN,), {"path": "marked-details"})
TURN: list[Event] = [
    TurnStarted("marked-task", "anthropic", "claude"),
    StepStarted(1, 5),
    ThinkingDelta("Hm."),
    TextDelta("marked-"),
    TextDelta("words"),
    MessageFinished(Message("assistant", (Text("marked-words"), CALL)), Usage(3, 1), "tool_use"),
    ToolStarted(CALL),
    ToolFinished(RESULT, 0.5),
    TurnFinished("end", Usage(3, 1)),
]


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog(tmp_path / "state" / "logs")


def written(log: RunLog, *events: Event) -> str:
    """The file's text after some events."""
    for event in events:
        log(event)
    log.close()
    assert log.problem == ""
    assert log.path is not None
    return log.path.read_text(encoding="utf-8")


def strict(text: str) -> Any:
    """JSON as the standard has it, without NaN."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def lines(text: str) -> list[Any]:
    assert text.endswith("\n")
    return [strict(line) for line in text[:-1].split("\n")]


def test_the_name_of_the_file(log: RunLog) -> None:
    """The folder is made with the first event, the name tells the time."""
    written(log, *TURN)
    assert log.path is not None
    assert re.fullmatch(r"agent_run_\d{8}_\d{6}\.jsonl", log.path.name)
    assert log.path.parent.name == "logs"


def test_nothing_without_an_event(log: RunLog, tmp_path: Path) -> None:
    """A log that is never used leaves no file."""
    log.close()
    assert (log.path, list(tmp_path.iterdir())) == (None, [])


def test_each_line(log: RunLog) -> None:
    """Valid JSON with a sequence number, a time with its zone, and the type."""
    found = lines(written(log, *TURN))
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    times = [datetime.fromisoformat(line["time"]) for line in found]
    assert times == sorted(times)
    assert all(time.tzinfo is not None for time in times)
    assert [line["type"] for line in found] == [
        event.type for event in TURN if not isinstance(event, (TextDelta, ThinkingDelta))
    ]


def test_events_can_be_read_back(log: RunLog) -> None:
    """A line without its number and time is the event."""
    found = lines(written(log, TURN[0], TURN[1], TURN[-1]))
    events = [
        event_from_json({k: v for k, v in line.items() if k not in ("seq", "time")})
        for line in found
    ]
    assert events == [TURN[0], TURN[1], TURN[-1]]


@pytest.mark.parametrize("what", ["task", "words", "arguments", "output", "content", "details"])
def test_each_content_is_written_once(log: RunLog, what: str) -> None:
    """No deltas, and nothing large that an earlier line has already."""
    assert written(log, *TURN).count(f"marked-{what}") == 1


def test_other_lines(log: RunLog) -> None:
    """The session writes lines of its own, with whatever values."""
    log.write("prompt", {"system": "s", "path": Path("a"), "n": [1, None]})
    (line,) = lines(written(log))
    assert (line["type"], line["system"], line["path"], line["n"]) == (
        "prompt",
        "s",
        "a",
        [1, None],
    )


def test_a_line_is_on_the_disk_at_once(log: RunLog) -> None:
    """A kernel that dies leaves what was logged until then."""
    log(TURN[0])
    assert log.path is not None
    assert len(lines(log.path.read_text(encoding="utf-8"))) == 1
    log.close()


def test_secrets(log: RunLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither keys of known shapes nor values of the environment, in any field."""
    value = "hunter2" * 2
    monkeypatch.setenv("DB_PASSWORD", value)
    bad = f"{KEY} {value}"
    call = ToolCall("c1", "look", json.dumps({"a": bad}))
    shown = Output("display", {"application/json": {"x": [bad]}}, {"note": bad})
    result = ToolResult("c1", (Text(bad),), True, (shown,), {"traceback": f"E: {bad}"})
    text = written(
        RunLog(tmp_path / "logs"),
        TurnStarted(bad, "p", bad),
        MessageFinished(Message("assistant", (Text(bad), call)), Usage(), "tool_use"),
        ToolStarted(call),
        ToolFinished(result, 0),
        TurnFinished("error", Usage(), error=bad),
    )
    assert KEY not in text
    assert value not in text
    assert len(lines(text)) == 5


def test_an_escaped_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that JSON spells with escapes inside of a call's arguments is found as well."""
    monkeypatch.setenv("DB_PASSWORD", "grün" + "kohl99")
    call = ToolCall("c1", "look", json.dumps({"a": "grün" + "kohl99"}))
    (line,) = lines(written(RunLog(tmp_path), ToolStarted(call)))
    assert "kohl99" not in json.dumps(line)


@pytest.mark.parametrize(
    "character", ["\u2028", "\x85", "\0", "\x1b", "\r\n", "😀", "\ufeff", '"', "\\"]
)
def test_odd_characters(log: RunLog, character: str) -> None:
    """Each event is one line, whatever is in it, and comes back as it was."""
    (line,) = lines(written(log, TurnStarted(f"a{character}b", "p", "m")))
    assert line["task"] == f"a{character}b"


@pytest.mark.parametrize("where", ["name", "details", "display", "error", "task"])
def test_lone_surrogates(log: RunLog, where: str) -> None:
    """What UTF-8 cannot carry is replaced; it neither stops the turn nor the log."""
    bad = "a\ud800b"
    events: dict[str, Event] = {
        "name": ToolStarted(ToolCall("c", bad, "{}")),
        "details": ToolFinished(ToolResult("c", (), details={"path": bad}), 0),
        "display": ToolFinished(
            ToolResult("c", (), display=(Output("stdout", {"text/plain": bad}),)), 0
        ),
        "error": TurnFinished("error", Usage(), error=bad),
        "task": TurnStarted(bad, "p", "m"),
    }
    assert len(lines(written(log, events[where], TURN[-1]))) == 2


def test_numbers_that_json_does_not_have(log: RunLog) -> None:
    """A NaN in a tool's details does not spoil the line for other readers."""
    result = ToolResult("c", (), details={"x": float("nan"), "y": float("inf")})
    assert len(lines(written(log, ToolFinished(result, 0)))) == 1


def test_details_that_are_not_json(log: RunLog) -> None:
    """A tool that keeps an object for the log does not stop the turn."""
    result = ToolResult("c", (), details={"path": Path("a"), "kind": int, "names": {"b"}})
    assert len(lines(written(log, ToolFinished(result, 0)))) == 1


def test_names_never_collide(tmp_path: Path) -> None:
    """Many logs that start in the same second, in threads, have files of their own."""
    logs = [RunLog(tmp_path) for _ in range(60)]

    def start(number: int) -> None:
        logs[number](TurnStarted(f"task {number}", "p", "m"))
        logs[number].close()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(start, range(len(logs))))
    assert len({log.path for log in logs}) == len(logs)
    tasks = {lines(path.read_text(encoding="utf-8"))[0]["task"] for path in tmp_path.iterdir()}
    assert tasks == {f"task {number}" for number in range(len(logs))}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file is in its place: the problem is told, and nothing is raised."""
    (tmp_path / "logs").write_text("x", encoding="utf-8")
    log = RunLog(tmp_path / "logs")
    for event in TURN:
        log(event)
    log.close()
    assert log.problem.startswith("The run log could not be written: ")
    assert "\n" not in log.problem
    assert log.path is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is given up where nothing can be written any more, and closing it is quiet."""
    log = RunLog(tmp_path)
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115
    monkeypatch.setattr(log, "_create", lambda: full)
    for event in TURN:
        log(event)
    assert "No space left" in log.problem
    log.close()


def test_a_folder_that_disappears(tmp_path: Path) -> None:
    """The open file is written to all the same."""
    log = RunLog(tmp_path / "logs")
    log(TURN[0])
    assert log.path is not None
    log.path.unlink()
    log.path.parent.rmdir()
    log(TURN[-1])
    log.close()
    assert log.problem == ""


def test_an_event_after_the_end(log: RunLog) -> None:
    """A straggler (a tool's thread) does not raise."""
    written(log, TURN[0])
    log(TURN[-1])
