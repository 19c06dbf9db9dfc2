"""P4: what counting tokens costs over a hundred steps."""

from __future__ import annotations

import random
import time

from benchmarks.bench import Bench
from benchmarks.result import Result, alternating, milliseconds, table
from jupyter_agent.agent.compaction.compactor import Compactor
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.scripted import Scripted
from jupyter_agent.llm.tokens import count_tokens

STEPS = 100
MEGABYTE = 1_000_000
SYSTEM = "You are an agent."


def turn() -> list[Message]:
    """A task and a hundred steps with outputs of very different lengths."""
    chance = random.Random(1)
    messages = [Message("user", (Text("Look into it."),))]
    for step in range(STEPS):
        output = " ".join(str(chance.random()) for _ in range(chance.randrange(5, 900)))
        call = ToolCall(f"c{step}", "execute_code", f'{{"code": "compute({chance.random()})"}}')
        messages.append(Message("assistant", (Text(f"Step {step}."), call)))
        messages.append(Message("user", (ToolResult(call.id, (Text(output),)),)))
    return messages


def texts(messages: list[Message]) -> list[str]:
    found = [SYSTEM]
    for message in messages:
        found += [message.text, *(result.text for result in message.tool_results)]
        found += [text for call in message.tool_calls for text in (call.name, call.arguments)]
    return found


def counting(bench: Bench) -> list[Result]:
    messages = turn()
    whole = texts(messages)
    encoded: list[int] = []

    def once() -> float:
        began = time.process_time()
        for text in whole:
            count_tokens(text)
        return time.process_time() - began

    def as_the_loop_does() -> float:
        """What is asked before each request, and what is learned from each reply."""
        compactor, provider = Compactor(10**9), Scripted([])
        began = time.process_time()
        for step in range(STEPS):
            request = Request(SYSTEM, tuple(messages[: 2 * step + 1]))
            compactor.is_due(request, provider)
            compactor.replied(request, provider, Usage(1_000 * step + 1, 10))
        took = time.process_time() - began
        encoded.append(compactor.counter.encoded)
        return took

    times = alternating(
        {"one pass": once, "100 steps": as_the_loop_does}, max(bench.least, bench.runs)
    )
    ratio = times.ratio("100 steps", "one pass")
    characters = encoded[-1] / sum(map(len, whole))
    head = ("", "CPU", "over one pass")
    rows = [
        (name, milliseconds(times.median(name)), f"{times.ratio(name, 'one pass'):.2f}")
        for name in times.runs
    ]
    rows.append(("characters encoded", "", f"{characters:.2f}"))
    measured = f"{ratio:.2f} (characters encoded: {characters:.2f})"
    first = Result(
        "P4",
        "CPU for token counting over 100 steps, over one pass",
        "at most 1.2",
        measured,
        ratio <= 1.2,
        head,
        table(head, rows),
        "Both counts of each step: before the request, and after the reply.",
    )
    return [first, _odd_texts()]


def _odd_texts() -> Result:
    def seconds(text: str) -> float:
        began = time.perf_counter()
        count_tokens(text)
        return time.perf_counter() - began

    prose = seconds("the quick brown fox " * (MEGABYTE // 20))
    rows, slowest = [("prose", milliseconds(prose), "1.00")], prose
    for name, unit in (("one letter", "x"), ("signs", "!?"), ("special tokens", "<|endoftext|>")):
        took = seconds(unit * (MEGABYTE // len(unit)))
        slowest = max(slowest, took)
        rows.append((name, milliseconds(took), f"{took / prose:.2f}"))
    head = ("1 MB of", "time", "over prose")
    return Result(
        "odd texts",
        "counting 1 MB of one letter, of signs, of special tokens",
        "under a second",
        milliseconds(slowest),
        slowest < 1,
        head,
        table(head, rows),
    )
