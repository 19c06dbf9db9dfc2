"""P6: what the input of a hundred steps costs, by the published prices."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from benchmarks import chain
from benchmarks.bench import Bench
from benchmarks.borrowed import plain_algorithm
from benchmarks.ours import MODEL
from benchmarks.result import Result, table
from benchmarks.server import Plan
from jupyter_agent.core.messages import Message, Text, ToolCall, ToolResult, Usage
from jupyter_agent.core.ports import Request
from jupyter_agent.llm.anthropic import Anthropic
from jupyter_agent.llm.pricing import cost
from jupyter_agent.llm.tokens import TokenCounter

STEPS = 100
SIZE = 4_800
"""Characters of output at each step: about 2,400 tokens a step, as the seed's own table has it."""
LIMIT = 80_000
LEAST_CACHED = 1_024
"""Tokens below which Anthropic caches nothing."""
LOOKS_BACK = 20
"""Blocks before a mark in which it looks for what it has cached."""
COUNTER = TokenCounter(50_000_000)


@dataclass(frozen=True)
class Bill:
    """The input of several requests: tokens sent, read from the cache, written to it, paid for.

    `paid` is in tokens at the full price of input.
    """

    sent: int
    read: int
    written: int
    paid: float


def blocks(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """What a request sends, in the order of Anthropic's cache, each with whether it is marked."""
    for tool in body.get("tools", ()):
        yield _text(tool), "cache_control" in tool
    for block in body.get("system", ()):
        yield _text(block), "cache_control" in block
    contents = [(m["role"], block) for m in body["messages"] for block in m["content"]]
    for number, (role, block) in enumerate(contents, 1):
        is_last = number == len(contents) and "cache_control" in body
        yield role + _text(block), is_last or "cache_control" in block


def _text(block: dict[str, Any]) -> str:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    return json.dumps(kept, ensure_ascii=False)


class Cache:
    """Anthropic's prompt cache, as its documentation describes it, that forgets nothing."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def usage(self, body: dict[str, Any]) -> Usage:
        """What a request is billed as, and from now on kept."""
        digest, total = hashlib.blake2b(), 0
        ends: list[tuple[bytes, int]] = []
        marks: list[int] = []
        for text, marked in blocks(body):
            digest.update(text.encode() + b"\n")
            total += COUNTER.text(text)
            ends.append((digest.copy().digest(), total))
            if marked:
                marks.append(len(ends) - 1)
        read = max((self._before(mark, ends) for mark in marks), default=0)
        kept = [ends[mark] for mark in marks if ends[mark][1] >= LEAST_CACHED]
        self._known |= {end for end, _ in kept}
        written = max((size for _, size in kept), default=0) - read
        return Usage(total, 0, read, max(0, written))

    def _before(self, mark: int, ends: Sequence[tuple[bytes, int]]) -> int:
        for end, size in reversed(ends[max(0, mark - LOOKS_BACK) : mark + 1]):
            if end in self._known:
                return size
        return 0


def bill(bodies: Sequence[dict[str, Any]], cached: bool) -> Bill:
    """What a series of requests costs."""
    cache, paid = Cache(), Decimal(0)
    sent = read = written = 0
    for body in bodies:
        usage = cache.usage(body) if cached else Usage(cache.usage(body).input_tokens, 0)
        sent += usage.input_tokens
        read += usage.cache_read_tokens
        written += usage.cache_write_tokens
        paid += _price(usage)
    return Bill(sent, read, written, float(paid / _price(Usage(1_000, 0)) * 1_000))


def _price(usage: Usage) -> Decimal:
    found = cost("anthropic", MODEL["anthropic"], usage)
    assert found is not None, f"there is no price for {MODEL['anthropic']}"
    return found


async def seeds(plan: Plan, system: str, tools: list[Any]) -> list[dict[str, Any]]:
    """The requests that the seed's algorithm makes for the same work: its summaries, too."""
    provider = Anthropic(MODEL["anthropic"], api_key="none", api_base="http://127.0.0.1:9")
    bodies: list[dict[str, Any]] = []

    def ask(messages: Sequence[Message], is_summary: bool = False) -> None:
        body = provider.body(Request("" if is_summary else system, tuple(messages)))
        bodies.append(body if is_summary else {**body, "tools": tools})

    async def summarize(prompt: str) -> str:
        ask([Message("user", (Text(prompt),))], is_summary=True)
        return chain.SUMMARY

    namespace = chain.Namespace()
    history = [Message("user", (Text(chain.TASK),))]
    for step in range(plan["steps"] + 1):
        history = await plain_algorithm(history, summarize, LIMIT)
        ask(history)
        reply = chain.reply(plan, step)
        words = Text("".join(reply.tokens))
        if not reply.calls:
            break
        ((tool, argument, code),) = reply.calls
        call = ToolCall(f"call_{step}", tool, json.dumps({argument: code}))
        shown = namespace.run(code)
        history.append(Message("assistant", (words, call)))
        history.append(Message("user", (ToolResult(call.id, (Text(shown),)),)))
    return bodies


def money(bench: Bench) -> Result:
    plan = {"kind": "chain", "steps": STEPS, "size": SIZE, "sums_up": True}
    with bench.kernel("anthropic") as kernel:
        ours = [json.loads(body) for body in kernel.turn(plan).seen.bodies]
    system = ours[0]["system"][0]["text"]
    theirs = asyncio.run(seeds(plan, system, ours[0]["tools"]))
    bills = {
        "jupyter_agent, cached": (len(ours), bill(ours, cached=True)),
        "jupyter_agent, not cached": (len(ours), bill(ours, cached=False)),
        "the seed's algorithm": (len(theirs), bill(theirs, cached=False)),
    }
    floor = bills["the seed's algorithm"][1].paid
    ratio = bills["jupyter_agent, cached"][1].paid / floor
    head = ("", "requests", "sent", "read", "written", "billed", "over the seed's")
    rows = [
        (
            name,
            requests,
            f"{each.sent:,}",
            f"{each.read:,}",
            f"{each.written:,}",
            f"{each.paid:,.0f}",
            f"{each.paid / floor:.3f}",
        )
        for name, (requests, each) in bills.items()
    ]
    return Result(
        "P6",
        "billed input tokens of 100 steps over the seed's algorithm without caching",
        "at most 0.25",
        f"{ratio:.3f}",
        ratio <= 0.25,
        head,
        table(head, rows),
        f"The requests that a kernel really made for {STEPS} steps of about 2,400 tokens, both "
        f"with a limit of {LIMIT:,} tokens, by the prices for {MODEL['anthropic']}; the same "
        "system prompt and tools, the same words for a summary, and the requests for summaries "
        "are billed, too. The cache is worked out by its published rules. Tokens are those of the "
        "public vocabulary.",
    )
