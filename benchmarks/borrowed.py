"""What the benchmarks take from the tests: a live kernel, a page that answers, planted facts."""

from __future__ import annotations

import sys

from benchmarks.server import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from agent.facts import (
    COUNTER,
    first_words,
    last_words,
    plain_algorithm,
    played,
    reads_words,
    scripted,
    skims,
    within,
)
from agent.transcripts import planted, survivors
from front_end import FrontEnd
from live_kernel import Cell, LiveKernel, Running, logged

__all__ = [
    "COUNTER",
    "Cell",
    "FrontEnd",
    "LiveKernel",
    "Running",
    "first_words",
    "last_words",
    "logged",
    "plain_algorithm",
    "planted",
    "played",
    "reads_words",
    "scripted",
    "skims",
    "survivors",
    "within",
]
