"""`python -m evals`: solve tasks with several agents, compare them, write `docs/quality.md`."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

from benchmarks.report import machine
from evals.agents import AGENTS
from evals.dabench import DABench
from evals.dseval import DSEval
from evals.model import SharedModel, usual_reply_tokens
from evals.report import Facts, document, line, summary
from evals.results import Result, Results, folder_of
from evals.tasks import (
    Agent,
    Attempt,
    Collection,
    DataError,
    Judgement,
    Limits,
    SetupError,
    Task,
)
from jupyter_agent.errors import AgentError

_COLLECTIONS: dict[str, type[DABench] | type[DSEval]] = {"dabench": DABench, "dseval": DSEval}
"""By the name of their folder in the data."""


def main(words: Sequence[str] | None = None) -> int:
    """Run an evaluation; the exit code is 2 for what a person can mend, 130 for an interrupt."""
    given = _arguments(words)
    # Proxies are for the model server of a provider, never for one of this machine.
    exempt = [name for name in os.environ.get("NO_PROXY", "").split(",") if name]
    os.environ["NO_PROXY"] = ",".join(dict.fromkeys([*exempt, "127.0.0.1"]))
    try:
        with ExitStack() as stack:
            return Evaluation(given, stack).run()
    except (AgentError, DataError, RuntimeError) as error:
        print(f"evals: {error}", file=sys.stderr)
        return 2


class Evaluation:
    """One run.

    Args:
        given: The words of the command line.
        stack: What it opens is closed with it.

    Raises:
        AgentError, DataError, RuntimeError: The model, the data or an agent is not usable.
    """

    def __init__(self, given: argparse.Namespace, stack: ExitStack) -> None:
        self._given = given
        self._collections = [
            stack.enter_context(closing(each)) for each in found(given.data, given.sets)
        ]
        self._tasks = chosen(self._collections, given.sets)
        self._order = in_order(list(self._tasks), given.seed)[: given.tasks]
        reply_tokens = given.reply_tokens or usual_reply_tokens(os.environ)
        self._limits = Limits(given.steps, reply_tokens, given.task_seconds)
        self._model = stack.enter_context(closing(SharedModel(os.environ, self._limits)))
        print(f"Model: {self._model.name} ({self._model.provider})", flush=True)
        self._agents: dict[str, Agent] = {}
        for name in given.agents:
            agent = stack.enter_context(closing(AGENTS[name](self._model, self._limits)))
            self._agents[agent.name] = agent
        identity = {"model": self._model.name, "provider": self._model.provider}
        folder = given.results or folder_of({**identity, **asdict(self._limits)})
        self._results = Results(folder, self._agents)

    def run(self) -> int:
        """Try what was not tried yet, and report all that was."""
        print(f"{len(self._order)} tasks; results: {self._results.path}", flush=True)
        code = 0
        try:
            self._try_all()
        except KeyboardInterrupt:
            print("\nStopped. The results so far are kept: the same command goes on.", flush=True)
            code = 130
        print(f"\n{summary(self._drawn(), list(self._agents))}", flush=True)
        if self._given.out and code == 0:
            self._write(self._given.out)
        return code

    def _try_all(self) -> None:
        """Each task by each agent, before the next task; stops between tasks after `--minutes`."""
        began = time.monotonic()
        for number, task in enumerate(self._order, 1):
            spent = (time.monotonic() - began) / 60
            if self._given.minutes and spent > self._given.minutes:
                print(f"{self._given.minutes:g} minutes are over: the same command goes on.")
                return
            for agent in self._agents.values():
                if self._results.has(task, agent.name):
                    continue
                attempt, judgement = self._tried(task, agent)
                result = self._results.add(task, agent.name, attempt, judgement)
                minutes = (time.monotonic() - began) / 60
                done = f"{number}/{len(self._order)} · {minutes:.0f} min"
                print(f"[{done}] {line(result)}", flush=True)

    def _tried(self, task: Task, agent: Agent) -> tuple[Attempt, Judgement]:
        with tempfile.TemporaryDirectory(prefix="eval-", ignore_cleanup_errors=True) as folder:
            try:
                attempt = agent.attempt(task, Path(folder))
            except SetupError as error:
                return Attempt(), Judgement("not judged", f"its own cells fail: {error}")
            except Exception as error:  # a fault of ours; the tasks after it go on
                return Attempt(), Judgement("not judged", f"{type(error).__name__}: {error}"[:300])
        if attempt.failure == "time-out":
            return attempt, Judgement("time-out")
        judgement = self._tasks[task].judge(task, attempt)
        if attempt.failure and judgement.kind not in ("right", "not judged"):
            return attempt, Judgement("error", attempt.failure[:300])
        return attempt, judgement

    def _drawn(self) -> list[Result]:
        """The results of this run's tasks: its folder may have those of other samples, too."""
        drawn = {task.id for task in self._order}
        return [result for result in self._results if result.task in drawn]

    def _write(self, path: Path) -> None:
        facts = Facts(
            command=shlex.join(["python", "-m", "evals", *_shown(self._given)]),
            model=self._model.name,
            is_embedded=self._model.is_embedded,
            limits=self._limits,
            available=len(self._tasks),
            agents={name: agent.about for name, agent in self._agents.items()},
            sources=[each.source for each in self._collections],
            machine=machine(),
        )
        temporary = path.with_suffix(".new")
        temporary.write_text(document(self._drawn(), facts), encoding="utf-8")
        temporary.replace(path)
        print(f"Written to {path}.")


def found(folder: Path, sets: Sequence[str] = ()) -> list[Collection]:
    """The collections whose folders lie in the data, and which may have one of the sets.

    Args:
        folder: The data.
        sets: Beginnings of names of sets, such as `DABench easy` or `dseval`; empty for all.

    Raises:
        DataError: There is none.
    """
    wanted = {name: made for name, made in _COLLECTIONS.items() if _may_have(made.name, sets)}
    if not wanted:
        known = " or ".join(made.name for made in _COLLECTIONS.values())
        raise DataError(f"--sets {' '.join(sets)}: names of sets begin with {known}.")
    there: list[Collection] = [
        made(folder / name) for name, made in wanted.items() if (folder / name).is_dir()
    ]
    if not there:
        names = " or ".join(f"{name}/" for name in wanted)
        raise DataError(f"{folder} has no folder {names}. Where they can be had: {_sources()}.")
    return there


def chosen(collections: Sequence[Collection], sets: Sequence[str]) -> dict[Task, Collection]:
    """The tasks of the sets whose names begin with one of `sets`, with where they are from.

    Raises:
        DataError: There is none; the message names the sets that there are.
    """
    tasks = {task: each for each in collections for task in each.tasks()}
    wanted = {task: each for task, each in tasks.items() if _is_wanted(task, sets)}
    if not wanted:
        known = ", ".join(sorted({task.set for task in tasks}))
        raise DataError(f"No set begins with {' or '.join(sets)}. There are: {known or 'none'}.")
    return wanted


def _may_have(collection: str, sets: Sequence[str]) -> bool:
    name = collection.lower()
    return not sets or any(
        name.startswith(each.lower()) or each.lower().startswith(name) for each in sets
    )


def _sources() -> str:
    return "; ".join(each.source for each in _COLLECTIONS.values())


def in_order(tasks: Sequence[Task], seed: int) -> list[Task]:
    """The tasks of each set shuffled, then one of each set in turn: any beginning is a sample."""
    sets: defaultdict[str, list[Task]] = defaultdict(list)
    for task in sorted(tasks, key=lambda each: each.id):
        sets[task.set].append(task)
    for name, some in sets.items():
        random.Random(f"{seed} {name}").shuffle(some)
    rounds = zip_longest(*(sets[name] for name in sorted(sets)))
    return [task for each in rounds for task in each if task is not None]


def _is_wanted(task: Task, sets: Sequence[str]) -> bool:
    return not sets or any(task.set.lower().startswith(name.lower()) for name in sets)


def _shown(given: argparse.Namespace) -> list[str]:
    """The options as a page shows them: without folders of this machine."""
    words = ["--data", "FOLDER", "--agents", *given.agents]
    if given.sets:
        words += ["--sets", *given.sets]
    if given.tasks:
        words += ["--tasks", str(given.tasks)]
    return [*words, "--seed", str(given.seed)]


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m evals",
        description=__doc__,
        epilog="The model is that of the variables JUPYTER_AGENT_… and of the keys that are set; "
        "JUPYTER_AGENT_PROVIDER=local is the embedded one, which is also the default. "
        f"Where the data can be had: {_sources()}.",
    )
    limits = Limits()
    parser.add_argument("--data", type=Path, required=True, help="the folder of dabench/, dseval/")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--sets", nargs="+", default=[], help="beginnings of names: 'DABench easy'")
    parser.add_argument("--tasks", type=int, help="how many tasks, of all sets in turn")
    parser.add_argument("--seed", type=int, default=7, help="draws the order of the tasks")
    parser.add_argument("--minutes", type=float, help="start no further task after so many")
    parser.add_argument("--steps", type=int, default=limits.steps, help="model calls a task")
    parser.add_argument("--reply-tokens", type=int, help="default: 700 embedded, 4000 otherwise")
    parser.add_argument("--task-seconds", type=float, default=limits.seconds)
    parser.add_argument("--results", type=Path, help="default: a folder of the model in build/")
    parser.add_argument("--out", type=Path, help="the report, such as docs/quality.md")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
