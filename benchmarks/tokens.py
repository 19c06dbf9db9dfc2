"""What counting tokens costs, as ratios: over a long turn, by step, and for odd text.

Characters encoded do not depend on the machine; the times are ratios of two on the same one.
"""

from __future__ import annotations

import random
import time

from jupyter_agent.llm.provider import Request
from jupyter_agent.llm.tokens import TokenCounter, count_tokens
from jupyter_agent.messages import Message, Text, ToolCall, ToolResult

STEPS = 100
MEGABYTE = 1_000_000


def turn() -> list[Message]:
    """A task and a hundred steps with outputs of very different lengths."""
    random_ = random.Random(1)
    messages = [Message("user", (Text("Look into it."),))]
    for step in range(STEPS):
        output = " ".join(str(random_.random()) for _ in range(random_.randrange(5, 900)))
        call = ToolCall(f"c{step}", "execute_code", f'{{"code": "compute({random_.random()})"}}')
        messages.append(Message("assistant", (Text(f"Step {step}."), call)))
        messages.append(Message("user", (ToolResult(call.id, (Text(output),)),)))
    return messages


def characters(message: Message) -> int:
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.text) + calls + sum(len(result.text) for result in message.tool_results)


def seconds(text: str) -> float:
    began = time.perf_counter()
    count_tokens(text)
    return time.perf_counter() - began


def main() -> None:
    count_tokens("")  # the vocabulary is loaded once
    messages, counter = turn(), TokenCounter()
    once = sum(map(characters, messages))
    times: list[float] = []
    for step in range(1, STEPS + 1):
        began = time.perf_counter()
        counter.request(Request("You are an agent.", tuple(messages[: 2 * step + 1])))
        times.append(time.perf_counter() - began)
    encoded = counter.encoded / once
    print(f"{STEPS} steps, characters encoded        {encoded:6.3f} of one pass over the text")
    print(f"target                               1.200 {'met' if encoded <= 1.2 else 'MISSED'}")
    early, late = sum(times[:20]), sum(times[-20:])
    print(f"the last 20 steps against the first  {late / early:6.2f}")
    prose = seconds("the quick brown fox " * (MEGABYTE // 20))
    for name, unit in (("one letter", "x"), ("signs", "!?"), ("special tokens", "<|endoftext|>")):
        took = seconds(unit * (MEGABYTE // len(unit)))
        met = "met" if took < 1 else "MISSED"
        print(f"1 MB of {name:<20} {took / prose:12.2f} of prose; under a second: {met}")


if __name__ == "__main__":
    main()
