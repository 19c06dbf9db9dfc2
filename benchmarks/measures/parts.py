"""Where the time of a step goes: what is between the raw loop and ours, part by part."""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.result import Result, milliseconds, table

STEPS = 100
PARTS = {
    "policy": "the policy reads the code",
    "cell": "the code, run as a cell of the kernel",
    "checkpoint": "two looks at the workspace, and what is noted for an undo",
    "log": "the run log, four lines",
    "conversation": "the conversation, kept for a restart",
    "record": "the record for other kernels",
    "numbers": "the numbers of outputs and code, for the receipt",
    "tokens": "tokens counted",
    "request": "the request put into JSON",
    "view": "events kept for the view",
}
CLOCKS = """
import contextlib, functools, inspect, time
from jupyter_agent.session.answer import TurnFindings
from jupyter_agent.undo.turn import Checkpoint
from jupyter_agent.agent.compaction.compactor import Compactor
from jupyter_agent.stores.conversations import Conversations
from jupyter_agent.kernel.execute import Executor
from jupyter_agent.llm.encoding import Encoder
from jupyter_agent.stores.session_records import SessionRecord
from jupyter_agent.session.approvals import Approvals
from jupyter_agent.stores.runlog import RunLog
from jupyter_agent.core.transcript import LiveTranscript
_parts = {}
@contextlib.contextmanager
def _counted(part):
    began = time.perf_counter()
    try:
        yield
    finally:
        _parts[part] = _parts.get(part, 0.0) + time.perf_counter() - began
def _clock(part, owner, name):
    call = getattr(owner, name)
    def timed(*args, **kwargs):
        with _counted(part):
            return call(*args, **kwargs)
    async def awaited(*args, **kwargs):
        with _counted(part):
            return await call(*args, **kwargs)
    wrapper = awaited if inspect.iscoroutinefunction(call) else timed
    setattr(owner, name, functools.wraps(call)(wrapper))
for _part, _owner, _name in [
    ("policy", Approvals, "_ruling"),
    ("cell", Executor, "run"),
    ("checkpoint", Checkpoint, "before_code"),
    ("checkpoint", Checkpoint, "after_code"),
    ("log", RunLog, "__call__"),
    ("conversation", Conversations, "keep"),
    ("record", SessionRecord, "__call__"),
    ("numbers", TurnFindings, "__call__"),
    ("tokens", Compactor, "is_due"),
    ("tokens", Compactor, "replied"),
    ("request", Encoder, "encoded"),
    ("view", LiveTranscript, "__call__"),
]:
    _clock(_part, _owner, _name)
"""


def parts(bench: Bench) -> Result:
    """One turn of many steps with a clock in each part, beside the raw loop."""
    plan = {"kind": "chain", "steps": STEPS}
    found: dict[str, list[float]] = {name: [] for name in ("raw", "whole", *PARTS)}
    with ExitStack() as stack:
        floor = stack.enter_context(bench.floor("anthropic"))
        kernel = stack.enter_context(bench.kernel("anthropic"))
        floor.turn(plan)
        kernel.turn(plan)
        kernel.live.helper(CLOCKS)
        for _ in range(bench.runs):
            found["raw"].append(float(str(floor.turn(plan)[0]["seconds"])) / STEPS)
            kernel.live.helper("_parts.clear()")
            found["whole"].append(kernel.turn(plan).seconds / STEPS)
            for name, seconds in kernel.live.value("_parts").items():
                found[name].append(seconds / STEPS)
    medians = {name: statistics.median(values) for name, values in found.items()}
    raw, whole = medians.pop("raw"), medians.pop("whole")
    own = sum(medians.values())
    named = [(PARTS[name], seconds) for name, seconds in medians.items()]
    rest = "the SDK, the connection, the server, the event loop, the turn's beginning and end"
    rows = [
        (what, milliseconds(seconds), f"{seconds / raw:.2f}")
        for what, seconds in (
            *sorted(named, key=lambda row: -row[1]),
            (rest, whole - own),
            ("a step of ours", whole),
            ("a step of the raw loop, the SDK and the server in it", raw),
        )
    ]
    head = ("part", "a step", "over the raw loop's step")
    room = 0.3 * raw
    return Result(
        "a step",
        f"where a step goes, {STEPS} steps with Anthropic's SDK",
        "",
        f"ours {milliseconds(whole)}, the raw loop {milliseconds(raw)}; of ours, "
        f"{milliseconds(medians['cell'])} run the code as a cell and {milliseconds(own)} are "
        f"everything that has a clock of its own",
        None,
        head,
        table(head, rows),
        f"The target of P2 leaves {milliseconds(room)} beside the raw loop. The model of the "
        "benchmark answers at once; a hosted one takes many times all of this to begin.",
    )
