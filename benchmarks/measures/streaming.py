"""P7 and P8: words on their way to the browser."""

from __future__ import annotations

import bisect

from benchmarks import chain
from benchmarks.bench import Bench
from benchmarks.ours import Kernel, Turned
from benchmarks.result import Result, Times, milliseconds, table

WAITS = (0.0, 0.1, 0.5)
"""Seconds until the model's first token."""
PAUSE = 0.01
TOKENS = 2_000
SPEED = 0.005
"""Seconds between two tokens of the long stream: 200 in a second."""


def _shown(turned: Turned) -> float:
    """When the first word was at the page."""
    word = chain.tokens(1)[0].strip()
    for message in turned.wire:
        if word in message.content:
            return message.moment
    raise RuntimeError("no word of the stream came to the page")


def _delay(kernel: Kernel, plan: chain.Plan) -> float:
    turned = kernel.turn(plan)
    return _shown(turned) - turned.seen.first[0]


def first_token(bench: Bench) -> Result:
    """P7."""
    rows, worst, parts = [], 0.0, []
    with bench.floor("anthropic") as floor, bench.kernel() as kernel:
        for wait in WAITS:
            plan = {"kind": "stream", "tokens": 60, "pause": PAUSE, "wait": wait}
            times = Times()
            kernel.turn(plan)
            floor.turn(plan)
            for _ in range(max(bench.least, bench.runs) * 2):
                answer, seen = floor.turn(plan)
                times.add("raw", float(str(answer["first"])) - seen.first[0])
                times.add("ours", _delay(kernel, plan))
            added = times.median("ours") - times.median("raw")
            worst = max(worst, added)
            most = max(times.runs["ours"]) - times.median("raw")
            parts.append(f"{milliseconds(added)} after {wait:g} s")
            rows.append(
                (
                    f"{wait:g} s",
                    milliseconds(times.median("raw")),
                    milliseconds(added),
                    milliseconds(most),
                )
            )
    head = ("silence before it", "raw stream", "added (median)", "added (most)")
    return Result(
        "P7",
        "added delay of the first streamed token, until it is on the wire to the browser",
        "at most 20 ms",
        "; ".join(parts),
        worst <= 0.02,
        head,
        table(head, rows),
        "From the server's writing it to a client of the kernel that has it, less the same of the "
        "raw stream. The model's silence before it varies, since a view that has just been sent "
        "something waits before it is sent more.",
    )


def long_stream(bench: Bench) -> Result:
    """P8."""
    number = TOKENS // 4 if bench.quick else TOKENS
    plan = {"kind": "stream", "tokens": number, "pause": SPEED}
    with bench.kernel() as kernel:
        kernel.turn({"kind": "stream", "tokens": 20, "pause": SPEED})
        turned = kernel.turn(plan)
    text = sum(len(token.encode()) for token in chain.tokens(number))
    moments = [message.moment for message in turned.wire]
    contents = sum(len(message.content) for message in turned.wire)
    whole = sum(message.size for message in turned.wire)
    took = turned.seen.answered[0] - turned.seen.first[0]
    peak = max(
        bisect.bisect_right(moments, moment + 1.0) - index for index, moment in enumerate(moments)
    )
    opened = max(len(message.content) for message in turned.wire)
    of_words = sum(
        len(message.content) for message in turned.wire if message.moment >= turned.seen.first[0]
    )
    head = ("", "bytes", "over the text")
    rows = [
        ("the text itself", f"{text:,}", "1.00"),
        ("content of the messages while it streams", f"{of_words:,}", f"{of_words / text:.2f}"),
        ("all content, the widget's own code as well", f"{contents:,}", f"{contents / text:.2f}"),
        ("with Jupyter's envelopes", f"{whole:,}", f"{whole / text:.2f}"),
    ]
    envelope = (whole - contents) / max(1, len(turned.wire))
    return Result(
        "P8",
        f"messages and bytes to the browser for {number:,} streamed tokens",
        "at most 20 a second; 3 times the text",
        f"{peak} in the fullest second ({len(moments) / took:.1f} on average); "
        f"{of_words / text:.2f} times the text",
        peak <= 20 and of_words <= 3 * text,
        head,
        table(head, rows),
        f"{1 / SPEED:.0f} tokens a second. Counted is what the messages say while the words come. "
        f"Jupyter puts an envelope of {envelope:,.0f} bytes around each message, whatever it says "
        f"({len(moments)} messages here), and sends the widget's own code once "
        f"({opened:,} bytes).",
    )
