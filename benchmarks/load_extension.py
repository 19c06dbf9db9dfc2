"""What `%load_ext jupyter_agent` costs over bare IPython, as a ratio and in milliseconds.

Each measure is the median of several fresh interpreters, alternating with bare ones.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

RUNS = 9
SHELL = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
LOAD = "s.run_line_magic('load_ext', 'jupyter_agent')"


def seconds(code: str, before: str = "pass") -> float:
    """Wall time of `code` in a fresh interpreter that has run `before`."""
    program = f"{before}\n{TIMED.format(code)}"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return float(out.stdout.split()[-1])


def main() -> None:
    bare, load = [], []
    for _ in range(RUNS):
        bare.append(seconds(SHELL))
        load.append(seconds(LOAD, before=SHELL))
    cost, base = statistics.median(load), statistics.median(bare)
    print(f"bare IPython                {base * 1000:7.1f} ms")
    print(f"%load_ext jupyter_agent     {cost * 1000:7.1f} ms   {cost / base:.3f} of bare IPython")
    print(f"target                         50.0 ms   {'met' if cost <= 0.05 else 'MISSED'}")


if __name__ == "__main__":
    main()
