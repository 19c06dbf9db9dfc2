"""How long work takes, whatever else the machine does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable


def processor_seconds(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of this process's own time that `work` takes at best.

    The best of several runs, and time that other processes had does not count: what is left says
    something of the code, on a busy machine, too.
    """
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best
