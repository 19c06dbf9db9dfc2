"""Eight delegates over eight files, beside one: how far their models wait at the same time."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.chain import Plan
from benchmarks.result import Result, Times, table

_COUNT = 8
_ROUNDS = 2
_WAIT = 1.0
_TARGET = 1.25


def delegates(bench: Bench) -> Result:
    """Wall time of a turn whose delegates' model answers after a second, over that second times
    the replies that must follow one another."""
    least = (_ROUNDS + 2) * _WAIT  # the call, the delegate's replies, the answer
    times = Times()
    with bench.kernel("openai") as kernel:
        for number in range(_COUNT):
            path = kernel.live.folder / f"part_{number}.txt"
            path.write_text("word " * 1_000, encoding="utf-8")
        kernel.turn(_plan(1, 0.0))
        for _ in range(min(3, bench.runs)):
            for count in (1, _COUNT):
                turned = kernel.turn(_plan(count, _WAIT))
                if len(turned.seen.bodies) != 2 + count * _ROUNDS:
                    raise RuntimeError(f"{len(turned.seen.bodies)} requests for {count} delegates")
                times.add(str(count), turned.seconds)
    ratio = times.median(str(_COUNT)) / least
    one_by_one = (2 + _COUNT * _ROUNDS) * _WAIT
    rows = [
        ("the model alone, one delegate's replies", f"{least:.1f} s", "1.00"),
        ("one delegate", f"{times.median('1'):.2f} s", f"{times.median('1') / least:.2f}"),
        ("eight delegates", f"{times.median(str(_COUNT)):.2f} s", f"{ratio:.2f}"),
        (
            "the model alone, one after the other",
            f"{one_by_one:.1f} s",
            f"{one_by_one / least:.2f}",
        ),
    ]
    head = ("who", "median", "over the model of the slowest")
    return Result(
        "delegates",
        "eight delegates over eight files, a model that answers after a second",
        f"at most {_TARGET} of the slowest one's model",
        f"{ratio:.2f}; one delegate {times.median('1') / least:.2f}",
        ratio <= _TARGET,
        head,
        table(head, rows),
        f"One reply gives {_COUNT} tasks away; each delegate reads a file with a piece of code and "
        "reports. Model calls overlap, code takes turns in the kernel. The median of "
        f"{min(3, bench.runs)} runs.",
    )


def _plan(count: int, wait: float) -> Plan:
    return {"kind": "delegates", "count": count, "rounds": _ROUNDS, "wait": wait}
