"""The run log says nothing twice: turns of a hundred steps, with the real tools and loop."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_agent.agent.loop import Agent, run_turn
from jupyter_agent.agent.prompts import render
from jupyter_agent.core.events import (
    Event,
    MessageFinished,
    ReplySource,
    Requested,
    Sink,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from jupyter_agent.core.messages import Message, Output, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.ports import ReplyPart, Request
from jupyter_agent.files.workspace import Workspace
from jupyter_agent.kernel.execute import Executor
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.stores.runs import read_run
from jupyter_agent.tools.code import code_tools
from jupyter_agent.tools.files import file_tools
from jupyter_agent.tools.toolbox import Toolbox

STEPS = 100
TASK = "Clean the measurements, fit a line for each station, and write down what you find."
WORDS = (
    "The residuals of station {n} grow with the distance, so a constant variance does not hold "
    "there; I weigh the points by their counts, fit again and compare the two slopes ({n}).\n"
)
TABLE = """import pandas as pd
frame_{n} = pd.DataFrame(
    {{"station": [f"station {{i}}" for i in range({n}, {n} + 12)],
      "slope": [round(i * 0.37 + {n}, 3) for i in range(12)],
      "count": [i * {n} for i in range(12)]}}
)
print("fitted {n} of 100 models without a warning, in the order of the stations")
print(frame_{n}.describe().to_string())
frame_{n}"""
MODULE = '''"""Fit number {n}: weighted least squares for one station."""

from __future__ import annotations


def fit_{n}(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """Slope and intercept for station {n}."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    below = sum((x - mean_x) ** 2 for x in xs)
    slope = above / below if below else {n}.0
    return slope, mean_y - slope * mean_x


def residuals_{n}(xs: list[float], ys: list[float]) -> list[float]:
    """What fit {n} leaves unexplained."""
    slope, intercept = fit_{n}(xs, ys)
    return [y - slope * x - intercept for x, y in zip(xs, ys)]
'''


def tables(n: int) -> tuple[str, str, dict[str, Any]]:
    return WORDS.format(n=n), "execute_code", {"code": TABLE.format(n=n)}


def modules(n: int) -> tuple[str, str, dict[str, Any]]:
    several = "\n\n".join(MODULE.format(n=n * 10 + i) for i in range(4))
    written = {"path": f"fits/fit_{n}.py", "content": several}
    return f"Fit {n}.", "write_file", written


def edits(n: int) -> tuple[str, str, dict[str, Any]]:
    """One file is written, then each function of it is changed."""
    if n == 0:
        whole = "\n\n".join(MODULE.format(n=i) for i in range(1, STEPS))
        return "I begin.", "write_file", {"path": "all.py", "content": whole}
    old = f"    slope = above / below if below else {n}.0\n"
    new = f"    if not below:\n        return {n}.0, mean_y\n    slope = above / below\n" * 2
    return f"Change {n}.", "edit_file", {"path": "all.py", "old_str": old, "new_str": new}


def looks(n: int) -> tuple[str, str, dict[str, Any]]:
    """The same three files are read again and again."""
    return f"Look {n}.", "read_file", {"path": f"data_{n % 3}.txt"}


def long_words(n: int) -> tuple[str, str, dict[str, Any]]:
    return (
        "".join(WORDS.format(n=n * 100 + i) for i in range(24)),
        "execute_code",
        {"code": f"{n} + 1"},
    )


def everything(n: int) -> tuple[str, str, dict[str, Any]]:
    return (tables, modules, looks, long_words)[n % 4](n)


Plan = Callable[[int], tuple[str, str, dict[str, Any]]]


class Model:
    """Asks for a call in each step, streaming its words, and answers at last."""

    name, model = "openai", "gpt-long-work"
    source: ReplySource = "live"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._step = 0

    async def stream(self, request: Request) -> AsyncIterator[ReplyPart]:
        n, self._step = self._step, self._step + 1
        if n == STEPS - 1:
            yield MessageFinished(Message("assistant", (Text("Done."),)), Usage(9, 9), "end")
            return
        words, name, arguments = self._plan(n)
        for start in range(0, len(words), 8):
            yield TextDelta(words[start : start + 8])
        call = ToolCall(f"call_Qm3Jx7TzVb2Lk9Rw{n:04}", name, json.dumps(arguments))
        usage = Usage(4_000 + 300 * n, 120, 4_000)
        yield MessageFinished(Message("assistant", (Text(words), call)), usage, "tool_use")

    def body(self, request: Request) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def toolbox(tmp_path: Path) -> Iterator[Toolbox]:
    """The real tools, in a folder and a shell of their own."""
    for number in range(3):
        rows = (f"{i},{i * 7 % 13},{number},{i / 7:.4f}" for i in range(60))
        (tmp_path / f"data_{number}.txt").write_text("\n".join(rows), encoding="utf-8")
    shell = InteractiveShell.instance()
    executor = Executor(shell, Interrupts(), lambda: tmp_path)
    try:
        yield Toolbox([*code_tools(executor), *file_tools(Workspace(tmp_path))])
    finally:
        InteractiveShell.clear_instance()


async def run(plan: Plan, toolbox: Toolbox, log: RunLog, *sinks: Sink) -> None:
    """A turn with its log, as a session does it."""

    def emit(event: Event) -> None:
        for sink in (log, *sinks):
            sink(event)

    agent = Agent(Model(plan), toolbox, render("system"), max_steps=STEPS)
    emit(TurnStarted(TASK, Model.name, Model.model))
    log.prompt(agent.system, toolbox.specs, [])
    outcome = await run_turn(agent, [Message("user", (Text(TASK),))], emit)
    emit(TurnFinished(outcome.stop_reason, outcome.usage))
    log.close()


def unique(events: list[Event], toolbox: Toolbox) -> int:
    """The bytes of all distinct texts. A diff counts as far as the arguments do not say it."""
    texts = {TASK, render("system"), json.dumps([asdict(spec) for spec in toolbox.specs])}
    calls: dict[str, ToolCall] = {}
    for event in events:
        if isinstance(event, MessageFinished):
            texts |= {event.message.text}
            texts |= {call.arguments for call in event.message.tool_calls}
            calls |= {call.id: call for call in event.message.tool_calls}
        elif isinstance(event, ToolFinished):
            said = calls[event.result.call_id].arguments
            texts |= {event.result.text, *displays(event.result, said)}
    return sum(len(text.encode()) for text in texts)


def displays(result: ToolResult, arguments: str) -> Iterator[str]:
    """What a person saw that is neither in the result nor in the arguments."""
    told = {
        line for text in [result.text, *json.loads(arguments).values()] for line in text.split("\n")
    }
    for output in result.display:
        for text in output.data.values():
            lines = str(text).split("\n")
            yield "\n".join(line for line in lines if line not in told and line[1:] not in told)


@pytest.mark.parametrize(
    ("plan", "most"),
    [(tables, 1.5), (modules, 1.35), (edits, 1.85), (long_words, 1.25), (everything, 1.45)],
)
async def test_a_hundred_steps(plan: Plan, most: float, toolbox: Toolbox, tmp_path: Path) -> None:
    """The log is hardly longer than what there is to say, and all of it comes back."""
    log = RunLog(tmp_path / "logs")
    events: list[Event] = []
    await run(plan, toolbox, log, events.append)
    assert log.path is not None and not log.problem
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert len(finished) == STEPS - 1 and not any(event.result.is_error for event in finished)
    ratio = log.path.stat().st_size / unique(events, toolbox)
    print(f"{plan.__name__}: {ratio:.2f}")
    assert ratio <= most
    read = [logged.event for logged in read_run(log.path).events]
    passing = (TextDelta, ToolOutput)
    assert read == [rounded(event) for event in events if not isinstance(event, passing)]


async def test_the_same_again_and_again(toolbox: Toolbox, tmp_path: Path) -> None:
    """A file of any size that is read a second time costs a line and no more."""
    for number in range(3):
        rows = (f"{i},{i * 7 % 13},{number},{i / 7:.4f}" for i in range(1_500))
        (tmp_path / f"data_{number}.txt").write_text("\n".join(rows), encoding="utf-8")
    log = RunLog(tmp_path / "logs")
    events: list[Event] = []
    await run(looks, toolbox, log, events.append)
    assert log.path is not None
    spare = log.path.stat().st_size - 1.2 * unique(events, toolbox)
    assert spare < 800 * STEPS


async def test_a_session_of_many_turns(toolbox: Toolbox, tmp_path: Path) -> None:
    """The schemas stand in the first turn's log; the others name it, as long as it is there."""
    schemas: dict[str, str] = {}
    logs = [RunLog(tmp_path / "logs", schemas) for _ in range(4)]
    for number, log in enumerate(logs):
        if number == 3:
            logs[0].path.unlink()  # type: ignore[union-attr]
        log(TurnStarted(TASK, "openai", "m"))
        log.prompt("Be brief.", toolbox.specs[: 1 if number == 2 else None], ["x = 1", "y = 2"])
        log.close()
    told = [json.loads(prompt_line(log)) for log in logs[1:]]
    assert told[0]["tools"] == {"digest": told[0]["tools"]["digest"], "file": name(logs[0])}
    assert [schema["name"] for schema in told[1]["tools"]["schemas"]] == ["execute_code"]
    assert len(told[2]["tools"]["schemas"]) == len(toolbox.specs)
    assert told[2]["tools"]["digest"] == told[0]["tools"]["digest"]
    assert (told[2]["system"], told[2]["context"]) == ("Be brief.", ["x = 1", "y = 2"])


def prompt_line(log: RunLog) -> str:
    assert log.path is not None
    return log.path.read_text(encoding="utf-8").split("\n")[1]


def name(log: RunLog) -> str:
    assert log.path is not None
    return log.path.name


def rounded(event: Event) -> Event:
    """The log knows microseconds."""
    if isinstance(event, ToolFinished):
        return replace(event, seconds=round(event.seconds, 6))
    return event


@pytest.mark.deep
async def test_the_cost_of_an_event(tmp_path: Path) -> None:
    """The last of 6,000 steps is logged as fast as the first."""
    log = RunLog(tmp_path)
    log(TurnStarted(TASK, "openai", "m"))
    took: list[float] = []
    for n in range(6_000):
        words, name, arguments = tables(n)
        call = ToolCall(f"c{n}", name, json.dumps(arguments))
        text = f"{n}\n" + TABLE
        result = ToolResult(
            call.id, (Text(text),), display=(Output("stdout", {"text/plain": text}),)
        )
        began = time.perf_counter()
        log(StepStarted(n + 1, 6_000))
        log(Requested("m", 2 * n, 6, 1_000 * n))
        log(MessageFinished(Message("assistant", (Text(words), call)), Usage(1, 1), "tool_use"))
        log(ToolStarted(call))
        log(ToolFinished(result, 0.5))
        took.append(time.perf_counter() - began)
    log.close()
    first, last = (sum(sorted(part)[:600]) for part in (took[:800], took[-800:]))
    assert last < 2 * first
