"""P1: what `%load_ext` costs over bare IPython, in fresh interpreters."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.environments import environment, own
from benchmarks.peers import MAGICS
from benchmarks.result import Result, alternating, milliseconds, table

HEAVY = ("anthropic", "openai", "mcp", "httpx2", "ipywidgets", "nbformat", "pydantic", "tiktoken")
SHELL = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
PROGRAM = """
import json, sys, time
{before}
names = set(sys.modules)
t = time.perf_counter()
{code}
took = time.perf_counter() - t
print(json.dumps([took, sorted({{n.partition(".")[0] for n in set(sys.modules) - names}})]))
"""


def run(python: Path, code: str, before: str = "pass") -> tuple[float, list[str]]:
    """Seconds for `code` in a fresh interpreter that has run `before`, and what it imported."""
    program = PROGRAM.format(before=before, code=code)
    environ = {**os.environ, "OPENAI_API_KEY": "none"}
    out = subprocess.run(
        [str(python), "-c", program], capture_output=True, check=True, text=True, env=environ
    )
    took, names = json.loads(out.stdout.splitlines()[-1])
    return took, names


def loading(bench: Bench) -> Result:
    def load(python: Path, extension: str) -> float:
        return run(python, f"s.run_line_magic('load_ext', '{extension}')", SHELL)[0]

    contestants = {
        "bare IPython": lambda: run(own(), SHELL)[0],
        "jupyter_agent": lambda: load(own(), "jupyter_agent"),
    }
    if bench.with_peers:
        python = environment(MAGICS)
        contestants["jupyter_ai_magics"] = lambda: load(python, "jupyter_ai_magics")
    times = alternating(contestants, max(bench.least, bench.runs))
    cost = times.median("jupyter_agent")
    _, names = run(own(), "s.run_line_magic('load_ext', 'jupyter_agent')", SHELL)
    heavy = sorted(set(HEAVY) & set(names))
    met = cost <= 0.05 and not heavy
    measured = f"{milliseconds(cost)}; heavy modules: {', '.join(heavy) or 'none'}"
    if bench.with_peers:
        share = times.ratio("jupyter_agent", "jupyter_ai_magics")
        met = met and share <= 0.05
        measured += f"; {share:.3f} of jupyter_ai_magics"
    rows = [
        (name, milliseconds(times.median(name)), f"{times.ratio(name, 'bare IPython'):.3f}")
        for name in contestants
    ]
    head = ("load_ext", "median", "over starting bare IPython")
    return Result(
        "P1",
        "`%load_ext` over bare IPython",
        "50 ms; 0.05 of `%load_ext jupyter_ai_magics`; heavy modules absent",
        measured,
        met,
        head,
        table(head, rows),
        "Each in a fresh interpreter whose IPython shell stands already; files are cached.",
    )
