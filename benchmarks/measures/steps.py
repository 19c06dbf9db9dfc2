"""P2, P3 and P5: a turn of many steps, beside the raw loop and the peers."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.bench import Bench
from benchmarks.ours import Kernel
from benchmarks.peers import LOOPS
from benchmarks.result import Result, Row, Times, milliseconds, table
from benchmarks.server import Plan, Seen

LENGTHS = (20, 100, 300)
REMEMBERED = 100
REALISTIC_WAIT = 0.5
"""Seconds until the first token of a fast hosted model."""
OURS = "jupyter_agent"
Turn = Callable[[Plan], tuple[float, Seen]]


class Race:
    """The contestants of one wire format, which take turns."""

    def __init__(self, bench: Bench, kind: str) -> None:
        self.bench, self.kind = bench, kind
        self.times = {length: Times() for length in LENGTHS}
        self.gaps: dict[str, list[list[float]]] = {}
        self.floor = f"raw {kind} loop"

    def run(self, stack: ExitStack) -> None:
        """All lengths. Of the slow ones only the best peer runs the longest."""
        bench = self.bench
        floor = stack.enter_context(bench.floor(self.kind))
        kernel = stack.enter_context(bench.kernel(self.kind))
        field: dict[str, Turn] = {self.floor: _asking(floor), OURS: _ours(kernel)}
        if bench.with_peers:
            for peer in LOOPS:
                if self.kind in peer.kinds:
                    entered = stack.enter_context(bench.peer(peer, self.kind))
                    field[peer.name] = _asking(entered)
        for name in list(field):
            self._warm(name, field)
        for length in (20, 100) if bench.quick else LENGTHS:
            if length == LENGTHS[-1]:
                field = {name: field[name] for name in self._for_the_longest(field)}
            self._length(length, field)

    def _warm(self, name: str, field: dict[str, Turn]) -> None:
        try:
            field[name]({"kind": "chain", "steps": 3})
        except RuntimeError as error:
            if name in (self.floor, OURS):
                raise
            self.bench.problems.append(f"{name} ({self.kind}): {error}")
            del field[name]

    def _length(self, length: int, field: dict[str, Turn]) -> None:
        began = time.monotonic()
        for _ in range(self.bench.runs):
            for name, turn in field.items():
                took, seen = turn({"kind": "chain", "steps": length})
                self.times[length].add(name, took / length)
                if length == LENGTHS[-1] or self.bench.quick:
                    self.gaps.setdefault(name, []).append(seen.gaps)
                if length == REMEMBERED:
                    self.bench.seen[name, self.kind] = seen
        took = time.monotonic() - began
        print(f"           {self.kind}, {length} steps: {len(field)} in {took:.0f} s", flush=True)

    def _for_the_longest(self, field: dict[str, Turn]) -> list[str]:
        at = self.times[REMEMBERED]
        peers = sorted((name for name in field if name not in (self.floor, OURS)), key=at.median)
        return [self.floor, OURS, *peers[:1]]

    def rows(self) -> list[Row]:
        rows = []
        for length, times in self.times.items():
            for name in times.runs:
                ratio = times.ratio(name, self.floor)
                a_step = milliseconds(times.median(name))
                rows.append((self.kind, str(length), name, a_step, f"{ratio:.2f}"))
        return rows

    def excess(self, name: str, length: int) -> float:
        return self.times[length].ratio(name, self.floor) - 1

    def best_peer(self, length: int) -> tuple[str, float] | None:
        peers = [name for name in self.times[length].runs if name not in (self.floor, OURS)]
        return min(((n, self.excess(n, length)) for n in peers), key=lambda x: x[1], default=None)

    def own_cost(self, around: int) -> float:
        """Seconds between a reply and the next request at a step, without the raw loop's."""
        return self._gap(OURS, around) - self._gap(self.floor, around)

    def _gap(self, name: str, around: int) -> float:
        # The turn's last gaps have nothing after them: the window ends at the step itself.
        return statistics.median(
            gap for gaps in self.gaps[name] for gap in gaps[around - 10 : around]
        )


def _asking(contestant: Any) -> Turn:
    def turn(plan: Plan) -> tuple[float, Seen]:
        answer, seen = contestant.turn(plan)
        return float(answer["seconds"]), seen

    return turn


def _ours(kernel: Kernel) -> Turn:
    def turn(plan: Plan) -> tuple[float, Seen]:
        turned = kernel.turn(plan)
        return turned.seconds, turned.seen

    return turn


def steps(bench: Bench) -> list[Result]:
    """P2 and P3."""
    races = []
    for kind in ("anthropic", "openai"):
        if bench.quick and kind == "openai":
            continue
        race = Race(bench, kind)
        with ExitStack() as stack:
            race.run(stack)
        races.append(race)
    return [_wall(bench, races), *([] if bench.quick else [_growth(races)])]


def _wall(bench: Bench, races: Sequence[Race]) -> Result:
    parts, met = [], True
    for race in races:
        for length, times in race.times.items():
            if not times.runs:
                continue
            ratio, best = times.ratio(OURS, race.floor), race.best_peer(length)
            words = f"{race.kind} {length}: {ratio:.2f}"
            met = met and ratio <= 1.3
            if best:
                met = met and ratio - 1 <= 0.5 * max(0.0, best[1])
                words += f" (best peer {best[1] + 1:.2f}, {best[0]})"
            parts.append(words)
    waiting = _with_a_wait(bench, races[0])
    head = ("format", "steps", "who", "a step", "over the raw loop")
    rows = [row for race in races for row in race.rows()] + waiting
    return Result(
        "P2",
        "wall time of a step over the raw loop",
        "at most 1.3; at most half of the best peer's excess",
        "; ".join(parts),
        met,
        head,
        table(head, rows),
        f"""The model answers at once, so that nothing but overhead is in the numbers; the lines \
with a wait are for a model that takes {REALISTIC_WAIT:g} s to its first token. Wall time of the \
whole turn, divided by its steps: from sending the cell to the idle kernel, with the receipt and \
the saved form. Ours keeps each call undoable and each conversation resumable meanwhile; where the \
time goes is in "a step". With the OpenAI SDK the raw loop itself grows with the square of its \
length: it copies and checks all messages at each request.""",
    )


def _with_a_wait(bench: Bench, race: Race) -> list[Row]:
    """A few steps of a model that is not infinitely fast."""
    plan = {"kind": "chain", "steps": 5 if bench.quick else 20, "wait": REALISTIC_WAIT}
    with bench.floor(race.kind) as floor, bench.kernel(race.kind) as kernel:
        field = {race.floor: _asking(floor), OURS: _ours(kernel)}
        times = Times()
        for turn in field.values():
            turn({"kind": "chain", "steps": 3})
        for _ in range(1 if bench.quick else min(bench.runs, 3)):
            for name, turn in field.items():
                times.add(name, turn(plan)[0] / int(plan["steps"]))
    return [
        (
            f"{race.kind}, {REALISTIC_WAIT:g} s wait",
            str(plan["steps"]),
            name,
            milliseconds(times.median(name)),
            f"{times.ratio(name, race.floor):.2f}",
        )
        for name in field
    ]


def _growth(races: Sequence[Race]) -> Result:
    rows, parts, met = [], [], True
    for race in races:
        early, late = race.own_cost(20), race.own_cost(300)
        ratio = late / early if early > 0 else float("nan")
        if late <= 0:
            words = "less than the raw loop"
        else:
            words = f"{ratio:.2f}"
            met = met and ratio <= 1.5
        parts.append(f"{race.kind}: {words}")
        rows.append((race.kind, milliseconds(early), milliseconds(late), words))
    head = ("format", "own cost of step 20", "of step 300", "ratio")
    return Result(
        "P3",
        "own cost of step 300 over that of step 20",
        "at most 1.5",
        "; ".join(parts),
        met,
        head,
        table(head, rows),
        "From the server's clock: the time between a reply and the next request, median of the "
        "ten steps before, less the same of the raw loop.",
    )


def parts_of(body: str) -> str:
    """Tools, system and messages of a request as one text, in the order of the providers' caches.

    The list of messages has no end, so that a longer conversation can begin with a shorter one.
    """
    data = json.loads(body)
    texts = [json.dumps(data.get(key), ensure_ascii=False) for key in ("tools", "system")]
    texts += [json.dumps(message, ensure_ascii=False) for message in data["messages"]]
    return "\n".join(texts)


def shared(bodies: Sequence[str]) -> float:
    """The least share of a request that the next one begins with."""
    texts = [parts_of(body) for body in bodies]
    return min(
        _common(earlier, later) / len(earlier) for earlier, later in itertools.pairwise(texts)
    )


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    if other.startswith(one):
        return len(one)
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1),
        min(len(one), len(other)),
    )


def prefix(bench: Bench) -> Result:
    """P5."""
    for kind in ("anthropic", "openai"):
        if (OURS, kind) not in bench.seen:
            with bench.kernel(kind) as kernel:
                turned = kernel.turn({"kind": "chain", "steps": REMEMBERED})
            bench.seen[OURS, kind] = turned.seen
    shares = {who: shared(seen.bodies) for who, seen in bench.seen.items()}
    own = [share for (name, _), share in shares.items() if name == OURS]
    head = ("who", "format", "least share")
    rows = [(name, kind, f"{share:.4f}") for (name, kind), share in sorted(shares.items())]
    return Result(
        "P5",
        "longest common prefix of consecutive requests",
        "1.0",
        f"{min(own):.4f}",
        min(own) == 1.0,
        head,
        table(head, rows),
        f"The least of {REMEMBERED} steps, over the whole previous request.",
    )
