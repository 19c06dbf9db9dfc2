"""One question and its answer, without tools: what jupyter-ai-magics can do, too."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.peers import MAGICS
from benchmarks.result import Result, Times, milliseconds, table


def asking(bench: Bench) -> Result:
    plan = {"kind": "chain", "steps": 0}
    with ExitStack() as stack:
        floor = stack.enter_context(bench.floor("openai"))
        kernel = stack.enter_context(bench.kernel("openai"))
        field = {
            "raw openai loop": lambda: float(str(floor.turn(plan)[0]["seconds"])),
            "jupyter_agent": lambda: kernel.turn(plan).seconds,
        }
        if bench.with_peers:
            magics = stack.enter_context(bench.peer(MAGICS, "openai"))
            field[MAGICS.name] = lambda: float(str(magics.turn(plan)[0]["seconds"]))
        times = Times()
        for _ in range(2):
            for run in field.values():
                run()
        for _ in range(max(bench.least, bench.runs)):
            for name, run in field.items():
                times.add(name, run())
    head = ("who", "median")
    rows = [(name, milliseconds(times.median(name))) for name in field]
    return Result(
        "a question",
        "one question and its answer, without tools",
        "",
        "; ".join(" ".join(row) for row in rows),
        None,
        head,
        table(head, rows),
        "The whole of a cell: for ours from sending it to the idle kernel with the receipt, the "
        "checkpoint, the log and the saved form; jupyter-ai-magics is called within its process.",
    )
