"""The run log: a file a turn, each byte of content once, no secrets, never in the way."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.core.codec import event_from_json
from jupyter_agent.core.events import (
    Event,
    MessageFinished,
    Requested,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Image, Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.stores.runs import read_run

KEY = "sk-" + "ant-" + "Abc1" * 8
CALL = ToolCall("c1", "write_file", json.dumps({"path": "a.md", "content": "marked-arguments"}))
SHOWN = Output("stdout", {"text/plain": "marked-output"})
RESULT = ToolResult("c1", (Text("marked-content"),), False, (SHOWN,), {"path": "marked-details"})
TURN: list[Event] = [
    TurnStarted("marked-task", "anthropic", "claude"),
    StepStarted(1, 5),
    Requested("claude", 1, 2, 11),
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
    """The folder is created with the first event, and the file's name is the time."""
    written(log, *TURN)
    assert log.path is not None
    assert re.fullmatch(r"agent_run_\d{8}_\d{6}\.jsonl", log.path.name)
    assert log.path.parent.name == "logs"


def test_nothing_without_an_event(log: RunLog, tmp_path: Path) -> None:
    """A log that is never used leaves no file."""
    log.close()
    assert (log.path, list(tmp_path.iterdir())) == (None, [])


def test_each_line(log: RunLog) -> None:
    """Each line is JSON with a sequence number, a time with its zone, and the type."""
    found = lines(written(log, *TURN))
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    times = [datetime.fromisoformat(line["time"]) for line in found]
    assert times == sorted(times)
    assert all(time.tzinfo is not None for time in times)
    unsaid = (TextDelta, ThinkingDelta, StepStarted)  # the request tells of the step
    assert [line["type"] for line in found] == [
        event.type for event in TURN if not isinstance(event, unsaid)
    ]


def test_events_can_be_read_back(log: RunLog) -> None:
    """Without number and time a line is the event, unless it holds references."""
    found = lines(written(log, TURN[0], TURN[-1]))
    assert [event_from_json(line) for line in found] == [TURN[0], TURN[-1]]


def test_what_a_line_says_of_a_step(log: RunLog) -> None:
    """A step's first request has its number; the limit and the model stand where they change."""
    found = lines(
        written(
            log,
            TurnStarted("task", "p", "m"),
            StepStarted(1, 5),
            Requested("m", 1, 7, 30),
            Retrying("Busy.", 1, 2.0),
            Requested("m", 1, 7, 30, attempt=2),
            StepStarted(2, 5),
            Steered("Stop."),
            Requested("other", 3, 7, 60),
            StepStarted(3, 6),
            Requested("other", 5, 7, 90),
            StepStarted(4, 6),
        )
    )
    said = [{k: v for k, v in line.items() if k not in ("seq", "time")} for line in found[1:]]
    assert said == [
        {"type": "requested", "step": 1, "limit": 5, "messages": 1, "tools": 7, "characters": 30},
        {"type": "retrying", "reason": "Busy.", "attempt": 1, "delay": 2.0},
        {"type": "requested", "messages": 1, "tools": 7, "characters": 30, "attempt": 2},
        {"type": "step_started", "number": 2, "limit": 5},
        {"type": "steered", "text": "Stop."},
        {"type": "requested", "model": "other", "messages": 3, "tools": 7, "characters": 60},
        {"type": "requested", "step": 3, "limit": 6, "messages": 5, "tools": 7, "characters": 90},
        {"type": "step_started", "number": 4, "limit": 6},
    ]


def test_what_a_failed_reply_had_said(log: RunLog) -> None:
    """Words streamed before a retry or an interrupt are logged once, with it."""
    found = lines(
        written(
            log,
            ThinkingDelta("Let "),
            ThinkingDelta("me see."),
            TextDelta("It "),
            TextDelta("is"),
            Retrying("Cut off.", 1, 0.0),
            TextDelta("It is so."),
            MessageFinished(Message("assistant", (Text("It is so."),)), Usage(), "end"),
            TextDelta("And"),
            TurnFinished("interrupted", Usage()),
        )
    )
    assert [line.get("streamed") for line in found] == [
        {"text": "It is", "thinking": "Let me see."},
        None,
        {"text": "And"},
    ]


PNG = "iVBORw0KGgo" + "A" * 3_000


def test_pictures(log: RunLog) -> None:
    """A picture is logged once, as the person saw it; of a smaller copy the size."""
    shown = Output("display", {"image/png": PNG + "big", "text/plain": "<Figure>"})
    scaled = ToolResult("a", (Text("done"), Image("image/png", PNG)), display=(shown,))
    same = ToolResult("b", (Image("image/png", PNG + "big"),), display=(shown,))
    alone = ToolResult("c", (Image("image/png", PNG + "new"),))
    found = lines(written(log, *(ToolFinished(result, 0) for result in (scaled, same, alone))))
    content = [line["result"]["content"] for line in found]
    assert content[0][1]["data"] == {"$left_out": len(PNG)}
    assert content[1][0]["data"] == {"$same": "1/result/display/0/data/image~1png"}
    assert content[2][0]["data"] == PNG + "new"
    assert json.dumps(found).count(PNG) == 2


def test_secrets_in_arguments_are_not_named_back(tmp_path: Path) -> None:
    """A diff that repeats a secret of the arguments is as redacted as they are, once restored."""
    content = "".join(f"line {n} of the settings, token={KEY}\n" for n in range(20))
    call = ToolCall("c1", "write_file", json.dumps({"content": content}))
    diff = Output("diff", {"text/plain": "".join(f"+{line}\n" for line in content.splitlines())})
    log = RunLog(tmp_path)
    text = written(
        log,
        MessageFinished(Message("assistant", (call,)), Usage(), "tool_use"),
        ToolFinished(ToolResult("c1", (Text("Created."),), display=(diff,)), 0),
    )
    assert KEY not in text and '"$of"' in text
    assert log.path is not None
    (reply, done) = [logged.event for logged in read_run(log.path).events]
    assert KEY not in str((reply, done))
    assert "+line 19 of the settings, token=[redacted]" in str(done)


def test_a_header_in_the_arguments(log: RunLog) -> None:
    """A header is found in code, whose quotation marks JSON escapes."""
    code = 'get(url, headers={"Authorization": "Basic dXNlcjpwYXNzd29yZA=="})'
    call = ToolCall("c1", "execute_code", json.dumps({"code": code}))
    text = written(log, MessageFinished(Message("assistant", (call,)), Usage(), "tool_use"))
    assert "dXNlcjpw" not in text and "Basic [redacted]" in text


def test_a_secret_in_what_is_no_text(tmp_path: Path) -> None:
    """An object in a line is redacted by its keys, too."""
    log = RunLog(tmp_path)
    log.write("other", {"path": Path(KEY), "names": {KEY}, "n": float("nan")})
    (line,) = lines(written(log))
    assert KEY not in json.dumps(line)
    assert line["path"] == "[redacted]" and line["n"] is None


@pytest.mark.parametrize("what", ["task", "words", "arguments", "output", "content", "details"])
def test_each_content_is_written_once(log: RunLog, what: str) -> None:
    """No deltas are logged, and no large text twice."""
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
    """A killed kernel leaves all lines logged before."""
    log(TURN[0])
    assert log.path is not None
    assert len(lines(log.path.read_text(encoding="utf-8"))) == 1
    log.close()


def test_secrets(log: RunLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No field holds keys of known shapes or values of the environment."""
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
    result = ToolResult("c", (Text("x"),), details={"path": Path("a"), "kind": int, "n": {"b"}})
    (line,) = lines(written(log, ToolFinished(result, 0)))
    assert line["result"]["content"] == [{"text": "x", "type": "text"}]
    assert line["result"]["details"]["kind"] == "<class 'int'>"
    assert "not JSON" in line["result"]["details"]["not_logged"]


def test_details_without_end(log: RunLog) -> None:
    """A value that is nested too deeply, or in itself, does not stop the turn."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    events = [ToolFinished(ToolResult("c", (), details={"deep": deep}), 0), TURN[-1]]
    found = lines(written(log, *events))
    assert len(found) == 2 and "not_logged" in json.dumps(found[0])
    log = RunLog(log.path.parent)  # type: ignore[union-attr]
    log.write("other", {"deep": deep})
    assert "nested too deeply" in written(log)


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
    """A file in place of the folder gives a notice and no error."""
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
    """A log that cannot be written is given up, and closing it is quiet."""
    log = RunLog(tmp_path)
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(log._writer, "_create", lambda: (tmp_path / "full.jsonl", full))
    for event in TURN:
        log(event)
    assert "No space left" in log.problem
    log.close()


def test_a_folder_that_disappears(tmp_path: Path) -> None:
    """The log still writes to its open file if the folder disappears."""
    log = RunLog(tmp_path / "logs")
    log(TURN[0])
    assert log.path is not None
    log.path.unlink()
    log.path.parent.rmdir()
    log(TURN[-1])
    log.close()
    assert log.problem == ""


def test_an_event_after_the_end(log: RunLog) -> None:
    """An event after the end, such as from a tool's thread, raises nothing."""
    written(log, TURN[0])
    log(TURN[-1])
