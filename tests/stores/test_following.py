"""Run logs followed while they are written."""

from __future__ import annotations

from pathlib import Path

from jupyter_agent.core.events import (
    MessageFinished,
    Requested,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult, Usage
from jupyter_agent.stores.following import LogFollower, TurnProgress
from jupyter_agent.stores.runlog import RunLog

CALL = ToolCall("c1", "execute_code", "{}")


def test_a_turn_is_followed(tmp_path: Path) -> None:
    """Steps, tokens and what is done now, line by line; turns of other notebooks, of before, and
    lines of anybody's make no difference."""
    earlier = RunLog(tmp_path, place={"notebook": "a.ipynb", "turn": 1})
    earlier(TurnStarted("Before.", "p", "m"))
    follower = LogFollower(tmp_path)
    other = RunLog(tmp_path, place={"notebook": "b.ipynb", "turn": 9})
    other(TurnStarted("Elsewhere.", "p", "m"))
    log = RunLog(tmp_path, place={"notebook": "a.ipynb", "turn": 2})

    def progress() -> TurnProgress | None:
        follower.look()
        return follower.progress("a.ipynb")

    assert progress() is None
    log(TurnStarted("Now.", "p", "m"))
    assert progress() == TurnProgress()
    log(StepStarted(1, 5))
    log(Requested("m", 1, 1))
    assert progress() == TurnProgress(1, 0, "step 1: thinking")
    log(MessageFinished(Message("assistant", (CALL,)), Usage(100, 20), "tool_use"))
    log(ToolStarted(CALL))
    assert progress() == TurnProgress(1, 120, "step 1: execute_code")
    assert log.path is not None
    with log.path.open("ab") as stream:
        stream.write(b'[]\n{"type": "tool_started"}\n{"type": "requested", "step": "x"}\n')
    assert progress() == TurnProgress(1, 120, "step 1: execute_code")
    follower.forget("a.ipynb")
    assert progress() is None

    again = RunLog(tmp_path, place={"notebook": "a.ipynb", "turn": 3})
    again(TurnStarted("Again.", "p", "m"))
    again(StepStarted(1, 5))
    again(Requested("m", 1, 1))
    again(ToolFinished(ToolResult("c1", (Text("x"),)), 0.1))
    again(MessageFinished(Message("assistant", (Text("Done."),)), Usage(7, 3), "end"))
    again(TurnFinished("end", Usage(7, 3)))
    assert progress() == TurnProgress(1, 10, "")
