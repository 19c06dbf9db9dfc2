"""What the audit hook costs: while no code of the agent's runs, and while it does.

Each contestant is a process of its own, since a hook cannot be removed.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.bench import Bench
from benchmarks.result import Result, milliseconds

_PROGRAM = """
import contextlib, json, os, sys, tempfile, timeit
from pathlib import Path
import numpy as np, pandas as pd
from jupyter_agent.kernel import effects, marks
from jupyter_agent.policy import PolicyContext
from jupyter_agent.policy.side_effects import judge_effect

folder = Path(tempfile.mkdtemp()).resolve()
frame = pd.DataFrame({"key": np.arange(200_000) % 100, "value": np.arange(200_000.0)})
around = PolicyContext(folder, folder)
context = contextlib.ExitStack()
if sys.argv[1] != "bare":
    with marks.agents_code(), effects.judged(lambda effect: None):
        pass
if sys.argv[1] == "judged":
    context.enter_context(marks.agents_code())
    context.enter_context(effects.judged(lambda effect: judge_effect(effect, around) and None))
name = str(folder / "new.txt")
def write():
    open(name, "w").close()
with context:
    best = lambda call, number: min(timeit.repeat(call, number=number, repeat=7)) / number
    found = {
        "event": best(lambda: id(name), 100_000),
        "read": best(lambda: open(os.devnull).close(), 2_000),
        "write": best(write, 500),
        "group": best(lambda: frame.groupby("key").value.mean(), 5),
    }
print(json.dumps(found))
"""
_TITLES = {
    "event": "an audited event that is no side effect (`id()`)",
    "read": "a file that is opened for reading",
    "write": "a file that is opened for writing",
    "group": "a pandas group-by over 200,000 rows",
}


def hook(bench: Bench) -> Result:
    """The time of an audited event, and of a computation, without the hook and with it."""
    runs = max(3, bench.least)
    found = {kind: [_measured(kind) for _ in range(runs)] for kind in ("bare", "idle", "judged")}
    best = {
        kind: {name: min(each[name] for each in each_run) for name in _TITLES}
        for kind, each_run in found.items()
    }
    added = {kind: best[kind]["event"] - best["bare"]["event"] for kind in ("idle", "judged")}
    slower = best["judged"]["group"] / best["bare"]["group"]
    rows = [
        (title, *(_time(best[kind][name]) for kind in ("bare", "idle", "judged")))
        for name, title in _TITLES.items()
    ]
    return Result(
        "hook",
        "what the audit hook adds",
        "0.1 µs to an event while idle, nothing to pandas",
        f"{added['idle'] * 1e6:.2f} µs while idle, {added['judged'] * 1e6:.2f} µs in the agent's "
        f"code; a group-by {slower:.2f} times",
        added["idle"] <= 0.15e-6 and slower <= 1.05,
        ("", "no hook", "idle", "in the agent's code"),
        rows,
        "The best of several runs in processes of their own. A file that is opened for writing "
        "is judged by its real path.",
    )


def _measured(kind: str) -> dict[str, float]:
    command = [sys.executable, "-c", _PROGRAM, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-3 else milliseconds(seconds)
