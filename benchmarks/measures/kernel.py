"""P12 and P13: inside the kernel."""

from __future__ import annotations

import json
import statistics
import textwrap
import time

from benchmarks.bench import Bench
from benchmarks.ours import Kernel
from benchmarks.result import Result, milliseconds, table

VARIABLES = """
import random, datetime, decimal, collections, pathlib
import numpy as np, pandas as pd
_chance = random.Random(1)
_made = [
    lambda i: i, lambda i: float(i), lambda i: f"text {i}" * 20, lambda i: list(range(i)),
    lambda i: {str(k): k for k in range(50)}, lambda i: np.arange(i * 10.0),
    lambda i: pd.DataFrame({"a": range(i + 1), "b": "x"}), lambda i: (lambda x: x + i),
    lambda i: datetime.datetime(2026, 1, 1 + i %% 28), lambda i: decimal.Decimal(i),
    lambda i: collections.Counter("abcabc"), lambda i: pathlib.Path(f"data/{i}.csv"),
    lambda i: pd.Series(range(i)), lambda i: {i, i + 1}, lambda i: None,
    lambda i: [[k] * 10 for k in range(100)],
]
for _i in range(999):
    globals()[f"value_{_i}"] = _made[_i %% len(_made)](_i)
_rows = %d
big = pd.DataFrame(np.random.default_rng(1).random((_rows, 8)), columns=list("abcdefgh"))
big["name"] = pd.Categorical.from_codes(np.arange(_rows, dtype="int8") %% 5, list("vwxyz"))
print(int(big.memory_usage(index=False).sum()))
"""
DIGEST = """
import json, time
from jupyter_agent.kernel.changes import changes, snapshot
from jupyter_agent.kernel.context import KernelState, turn_context
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.kernel.describe import one_line
_found = {"digest": [], "sample": [], "attached": [], "snapshot": [], "compared": []}
def _timed(name, call):
    began = time.perf_counter(); value = call(); _found[name].append(time.perf_counter() - began)
    return value
_variables = user_variables(get_ipython())
_state = KernelState(_variables)
for _ in range(%d):
    _text = _timed("digest", lambda: turn_context("Look.", _state, "schema"))
    _timed("sample", lambda: turn_context("Look.", _state, "sample"))
    _timed("attached", lambda: turn_context("Look at @big.", _state, "schema"))
    _shot = _timed("snapshot", lambda: snapshot(_variables))
    _timed("compared", lambda: changes(_shot, snapshot(_variables), one_line))
print(json.dumps({"times": _found, "variables": len(_variables), "length": len(_text)}))
"""
EXECUTE = """
import json, time
from jupyter_agent.kernel.execute import Executor
from jupyter_agent.kernel.interrupts import Interrupts
from jupyter_agent.core.messages import ToolCall
from jupyter_agent.tools.code import code_tools
from jupyter_agent.core.tool import Prepared
from jupyter_agent.tools.toolbox import Toolbox
_shell = get_ipython()
_toolbox = Toolbox(code_tools(Executor(_shell, Interrupts())))
async def _plain(code):
    _cell = _shell.transform_cell(code)
    await _shell.run_cell_async(code, store_history=True, transformed_cell=_cell)
    _shell.events.trigger("post_execute"); _shell.events.trigger("post_run_cell", None)
async def _kernel(code):
    await _shell.kernel.do_execute(code, silent=False, store_history=True, allow_stdin=False)
async def _tool(code):
    _prepared = _toolbox.prepare(ToolCall("c", "execute_code", json.dumps({"code": code})))
    assert isinstance(_prepared, Prepared), _prepared
    _result = await _toolbox.carry_out(_prepared)
    assert not _result.is_error, _result
async def _series(run, code, number):
    began = time.perf_counter()
    for _ in range(number): await run(code)
    return time.perf_counter() - began
_contestants = {
    "cell, run_cell": _plain, "cell, as the kernel runs it": _kernel, "execute_code": _tool
}
"""
CODES = {"a value bound": "x = 1 + 1", "a line printed": "print(1)", "a value shown": "1 + 1"}


def digest(bench: Bench) -> Result:
    """P12."""
    rows = 1_500_000 if bench.quick else 15_400_000
    with bench.kernel() as kernel:
        size = int(kernel.live.start(VARIABLES % rows, history=False).finish(300).stdout)
        said = (
            kernel.live.start(DIGEST % max(bench.least, bench.runs), history=False)
            .finish(300)
            .stdout
        )
    found = json.loads(said)
    assert found["variables"] >= 1_000, found["variables"]
    times = {name: statistics.median(took) for name, took in found["times"].items()}
    first = found["times"]["digest"][0]
    words = {
        "digest": "the digest (`schema`, the default)",
        "sample": "with values (`sample`)",
        "attached": "with the large frame attached by `@`",
        "snapshot": "the snapshot that tells what a turn changed",
        "compared": "a second snapshot, and the comparison",
    }
    head = ("", "median")
    shown = [(words[name], milliseconds(took)) for name, took in times.items()]
    shown.insert(1, ("the first one", milliseconds(first)))
    return Result(
        "P12",
        f"digest of {found['variables']:,} variables, a frame of {size / 1e9:.2f} GB among them",
        "under 50 ms",
        milliseconds(max(times["digest"], times["attached"])),
        max(times["digest"], times["attached"]) < 0.05,
        head,
        table(head, shown),
        f"16 kinds of values; the digest has {found['length']:,} characters.",
    )


def executing(bench: Bench) -> Result:
    """P13."""
    number = bench.tiny
    rows, parts, worst = [], [], 0.0
    with bench.kernel() as kernel:
        kernel.live.helper(EXECUTE)
        for name, code in CODES.items():
            took = _series(kernel, code, number, max(bench.least, bench.runs))
            plain = took["cell, as the kernel runs it"]
            ratio = took["execute_code"] / plain
            worst = max(worst, ratio)
            parts.append(f"{name}: {ratio:.2f}")
            for who, seconds in took.items():
                each = milliseconds(seconds / number)
                rows.append((name, who, each, f"{seconds / plain:.2f}"))
        if not bench.quick:
            rows += _by_a_client(kernel, number // 10)
    head = ("code", "how", "one execution", "over the cell")
    return Result(
        "P13",
        f"`execute_code` over the same code in a plain cell, {number:,} tiny executions",
        "at most 1.2",
        "; ".join(parts),
        worst <= 1.2,
        head,
        table(head, rows),
        "Inside one kernel, so that no messages are in it: the tool, with the check of its "
        "arguments, beside what the kernel does for a cell (`do_execute`), and beside the shell's "
        "`run_cell` alone. The last lines are a client's: a tenth as many cells, and one turn in "
        "which as many calls are made, with approvals, checkpoints, log and view.",
    )


def _series(kernel: Kernel, code: str, number: int, runs: int) -> dict[str, float]:
    """Medians by who ran it, in seconds for all; they take turns."""
    program = f"""
        _took = {{name: [] for name in _contestants}}
        for _name, _run in _contestants.items():
            await _series(_run, {code!r}, 20)
        for _ in range({runs}):
            for _name, _run in _contestants.items():
                _took[_name].append(await _series(_run, {code!r}, {number}))
        import pathlib
        pathlib.Path("took.json").write_text(json.dumps(_took))
    """
    cell = kernel.live.start(textwrap.dedent(program), history=False).finish(600)
    assert cell.status == "ok", cell.error
    found = json.loads((kernel.live.folder / "took.json").read_text(encoding="utf-8"))
    return {name: statistics.median(took) for name, took in found.items()}


def _by_a_client(kernel: Kernel, number: int) -> list[tuple[str, str, str, str]]:
    """Cells, and a turn with as many calls, as a client of the kernel sees them."""
    code = CODES["a value bound"]
    kernel.turn({"kind": "chain", "steps": 3})  # which imports the SDK
    began = time.perf_counter()
    for _ in range(number):
        kernel.live.run(code)
    cells = time.perf_counter() - began
    began = time.perf_counter()
    kernel.turn({"kind": "many", "codes": [f"{code} + {n}" for n in range(number)]})
    calls = time.perf_counter() - began
    return [
        ("a value bound", "cells of a client", milliseconds(cells / number), "1.00"),
        ("", "calls of one turn", milliseconds(calls / number), f"{calls / cells:.2f}"),
    ]
