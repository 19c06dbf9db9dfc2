"""`python -m benchmarks`: measure, print, and write `docs/benchmarks.md`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.environments import environment, own, versions
from benchmarks.measures.asking import asking
from benchmarks.measures.counting import counting
from benchmarks.measures.delegates import delegates
from benchmarks.measures.disk import log, outputs
from benchmarks.measures.facts import facts
from benchmarks.measures.hook import hook
from benchmarks.measures.kernel import digest, executing
from benchmarks.measures.loading import loading
from benchmarks.measures.money import money
from benchmarks.measures.numbers import numbers
from benchmarks.measures.parts import parts
from benchmarks.measures.recall import recall
from benchmarks.measures.steps import prefix, steps
from benchmarks.measures.streaming import first_token, long_stream
from benchmarks.peers import EVERY
from benchmarks.report import document, line, machine, refreshed
from benchmarks.result import Result
from benchmarks.server import ROOT, Server

Measure = Callable[[Bench], Result | list[Result]]
MEASURES: dict[str, Measure] = {
    "P1": loading,
    "P2": steps,  # and P3
    "parts": parts,
    "question": asking,
    "P4": counting,
    "P5": prefix,
    "P6": money,
    "P7": first_token,
    "P8": long_stream,
    "P9": log,
    "P10": outputs,
    "P11": facts,
    "P12": digest,
    "P13": executing,
    "numbers": numbers,
    "hook": hook,
    "recall": recall,
    "delegates": delegates,
}
QUICK = ("P1", "P4", "P5", "P8", "P9", "P13", "numbers", "recall")
OWN = ("jupyter-agent-magics", "anthropic", "openai", "ipykernel", "ipython", "httpx2", "tiktoken")


def main() -> None:
    arguments = _arguments()
    wanted = arguments.only or (QUICK if arguments.quick else tuple(MEASURES))
    results: list[Result] = []
    before = machine()
    print(", ".join(f"{name}: {value}" for name, value in before.items()), flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Server() as server:
        runs = 3 if arguments.quick else arguments.runs
        with_peers = not (arguments.quick or arguments.no_peers)
        bench = Bench(server, Path(folder), runs, with_peers, arguments.quick)
        bench.tiny = 200 if arguments.quick else bench.tiny
        for name in wanted:
            results += _measured(name, bench)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    if arguments.out:
        command = " ".join(["python -m benchmarks", *sys.argv[1:]])
        if arguments.only and arguments.out.exists():
            text = refreshed(arguments.out.read_text(encoding="utf-8"), results, command)
        else:
            text = document(results, _versions(with_peers), command, runs, before, bench.problems)
        temporary = arguments.out.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(arguments.out)
        print(f"Written to {arguments.out}.")


def _measured(name: str, bench: Bench) -> list[Result]:
    """What a measure found. One that fails is told, and the others go on."""
    began = time.monotonic()
    try:
        found = MEASURES[name](bench)
    except Exception as error:
        traceback.print_exc()
        bench.problems.append(f"{name}: {type(error).__name__}: {error}")
        return []
    results = found if isinstance(found, list) else [found]
    for result in results:
        print(line(result), flush=True)
    print(f"           ({time.monotonic() - began:.0f} s)", flush=True)
    return results


def _versions(with_peers: bool) -> dict[str, str]:
    found = {f"here: {name}": version for name, version in versions(own(), OWN).items()}
    for peer in EVERY if with_peers else ():
        names = (peer.name, "openai", "anthropic", "litellm", "langchain")
        told = versions(environment(peer), names)
        found[peer.name] = ", ".join(f"{name} {version}" for name, version in told.items())
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the cheap ones, without peers")
    parser.add_argument("--no-peers", action="store_true", help="only ours and the floor")
    parser.add_argument("--runs", type=int, default=5, help="runs of each contestant")
    parser.add_argument("--only", nargs="+", choices=MEASURES, help="these measures alone")
    parser.add_argument("--out", type=Path, help=f"a report, such as {ROOT.name}/docs/…")
    return parser.parse_args()


if __name__ == "__main__":
    main()
