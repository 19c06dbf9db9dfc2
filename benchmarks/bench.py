"""What all measures of one run share: the server, the peers' environments, how often to run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environments import LOGS, environment, own
from benchmarks.line import Worker
from benchmarks.ours import Kernel
from benchmarks.peers import Peer
from benchmarks.server import Plan, Seen, Server

_numbers = itertools.count()


@dataclass
class Bench:
    """One run of the benchmarks.

    Attributes:
        server: The scripted model.
        folder: A folder for kernels and files, deleted afterwards.
        runs: How often each contestant runs.
        with_peers: Whether the peers take part.
        quick: Whether the measures are shortened.
        least: How often contestants run at the least where a run is short.
        tiny: How many tiny executions make one run.
        seen: The requests of a hundred steps, by contestant and wire format.
        problems: What could not be measured, and why.
    """

    server: Server
    folder: Path
    runs: int = 5
    with_peers: bool = True
    quick: bool = False
    least: int = 5
    tiny: int = 1_000
    seen: dict[tuple[str, str], Seen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def kernel(self, kind: str = "anthropic") -> Kernel:
        """A kernel with the extension, to be entered."""
        return Kernel(self.server, self.folder / f"kernel_{next(_numbers)}", kind)

    def floor(self, kind: str) -> Contestant:
        """The raw loop, to be entered."""
        worker = Worker(
            own(), "benchmarks.floor", [kind], LOGS / f"floor_{kind}_{next(_numbers)}.txt"
        )
        return Contestant(self.server, f"raw {kind} loop", "code", worker)

    def peer(self, peer: Peer, kind: str) -> Contestant:
        """A peer in its environment, to be entered."""
        log = LOGS / f"{peer.name}_{kind}.txt"
        worker = Worker(environment(peer), peer.module, [kind], log)
        return Contestant(self.server, peer.name, peer.style, worker)


class Contestant:
    """The floor or a peer: a program that is asked for turns, to be used as a context manager."""

    def __init__(self, server: Server, name: str, style: str, worker: Worker) -> None:
        self.name = name
        self._server = server
        self._style = style
        self._worker = worker

    def __enter__(self) -> Contestant:
        self._worker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.__exit__()

    def turn(self, plan: Plan) -> tuple[dict[str, object], Seen]:
        """One turn by a plan: what it answered, and what the server saw.

        Raises:
            RuntimeError: It ended, or did not do the whole chain.
        """
        name = f"peer-{next(_numbers)}"
        base = self._server.plan(name, {**plan, "style": self._style})
        answer = self._worker.ask(base=base)
        seen = self._server.seen(name)
        if plan["kind"] == "chain" and len(seen.bodies) != plan["steps"] + 1:
            raise RuntimeError(f"{self.name} asked {len(seen.bodies)} times")
        return answer, seen
